// The answers of the read-only web door. Pure: view and path in, text out. To add a page or a
// metric: its path in render_page, or its family in render_metrics.
#pragma once

#include <string>
#include <string_view>

#include "daemon/http/site_view.hpp"

namespace stoker::daemon {

struct Page {
  int status = 200;
  std::string type;  // Content-Type
  std::string body;
};

// /healthz, /metrics, /api/v1/status, /api/v1/status/RUN, /api/v1/nodes, /. Others: 404.
Page render_page(const SiteView& view, std::string_view path);

// OpenMetrics text, ends with "# EOF".
std::string render_metrics(const SiteView& view);
std::string escape_html(std::string_view text);
// A label value: backslash, quote and newline escaped.
std::string escape_label(std::string_view text);

}  // namespace stoker::daemon
