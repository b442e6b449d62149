// /api/v1/runs/RUN/…: what can be drawn of one run, as JSON. Pure: view and request in, page out.
// To add one: its function in run_api.cpp and its line in the table there.
#pragma once

#include "daemon/http/pages.hpp"

namespace stoker::daemon {

// {"error": "what: which; what to do"}
Page refuse(int status, const Error& error);

// `rest`: what follows /api/v1/runs/, "hello/series".
Page run_api(const SiteView& view, std::string_view rest, const WebRequest& request);

}  // namespace stoker::daemon
