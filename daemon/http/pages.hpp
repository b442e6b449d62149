// The answers of the read-only web door. Pure: view and request in, page out. To add a page: its
// path in render_page; a document of a run: daemon/http/run_api.cpp; a metric: wire/metrics.cpp.
#pragma once

#include <string>
#include <string_view>

#include "daemon/http/site_view.hpp"
#include "daemon/http/web_request.hpp"

namespace stoker::daemon {

struct Page {
  int status = 200;
  std::string type;  // Content-Type
  std::string body;
};

// /, /assets/…, /healthz, /metrics, /api/v1/{overview,status,status/RUN,nodes,health,runs/RUN/…}.
// Others: 404.
Page render_page(const SiteView& view, const WebRequest& request);

}  // namespace stoker::daemon
