// Pages: the embedded files, JSON as published, metrics. The first page brings a table of the runs
// for readers without scripts.
#include "daemon/http/pages.hpp"

#include <fmt/format.h>

#include "common/escape_html.hpp"
#include "daemon/http/assets.hpp"
#include "daemon/http/overview.hpp"
#include "daemon/http/run_api.hpp"
#include "wire/metrics.hpp"

namespace stoker::daemon {
namespace {

constexpr const char* kText = "text/plain; charset=utf-8";
constexpr const char* kJson = "application/json";
constexpr std::string_view kStatusPrefix = "/api/v1/status/", kRunPrefix = "/api/v1/runs/",
                           kAssetPrefix = "/assets/";
constexpr std::string_view kTablePlace = "<!-- runs -->";

std::string runs_table(const SiteView& view) {
  std::string rows;
  for (const auto& r : view.runs)
    rows += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}/{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escape_html(r.run), escape_html(r.state), r.iteration, r.total,
        r.loss ? fmt::format("{:.4g}", *r.loss) : "-", r.alerts.size(), escape_html(r.reason));
  return "<table><tr><th>run<th>state<th>iteration<th>loss<th>alerts<th>why</tr>\n" + rows +
         "</table>";
}

Page home(const SiteView& view) {
  std::string text(asset("index.html").value_or(""));
  if (const auto place = text.find(kTablePlace); place != std::string::npos)
    text.replace(place, kTablePlace.size(), runs_table(view));
  return {200, "text/html; charset=utf-8", std::move(text)};
}

Page asset_page(std::string_view name) {
  const auto text = asset(name);
  const std::string_view ending = name.substr(std::min(name.rfind('.'), name.size()));
  const char* type = ending == ".js"    ? "text/javascript; charset=utf-8"
                     : ending == ".css" ? "text/css; charset=utf-8"
                     : ending == ".svg" ? "image/svg+xml"
                                        : nullptr;
  if (!text || type == nullptr) return {404, kText, "there is no such page\n"};
  return {200, type, std::string(*text)};
}

Page health_page(const SiteView& view) {
  if (!view.health.journal_trouble.empty())
    return {503, kText, "journal: " + view.health.journal_trouble + "\n"};
  if (!view.health.scheduler_trouble.empty())
    return {200, kText, "ok, but blind: " + view.health.scheduler_trouble + "\n"};
  return {200, kText, "ok\n"};
}

Page metrics_page(const SiteView& view, const WebRequest& request) {
  const auto form = wire::metrics_form(request.accept);
  return {
      200, wire::content_type_of(form),
      wire::metrics_text({view.runs, view.nodes, view.alerts, view.failing, view.health}, form)};
}

}  // namespace

std::optional<std::string_view> asset(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.name.substr(file.name.rfind('/') + 1) == name) return file.text;
  return std::nullopt;
}

Page render_page(const SiteView& view, const WebRequest& request) {
  const std::string_view path = request.path;
  if (path.starts_with(kRunPrefix)) return run_api(view, path.substr(kRunPrefix.size()), request);
  if (const auto known = only_known(request, {}); !known) return refuse(400, known.error());
  if (path == "/") return home(view);
  if (path.starts_with(kAssetPrefix)) return asset_page(path.substr(kAssetPrefix.size()));
  if (path == "/healthz") return health_page(view);
  if (path == "/metrics") return metrics_page(view, request);
  if (path == "/api/v1/overview") return {200, kJson, dump_json(overview(view)) + "\n"};
  if (path == "/api/v1/status") return {200, kJson, to_json_text(view.runs) + "\n"};
  if (path == "/api/v1/nodes") return {200, kJson, to_json_text(view.nodes) + "\n"};
  if (path == "/api/v1/health") return {200, kJson, to_json_text(view.health) + "\n"};
  if (path.starts_with(kStatusPrefix))
    for (const auto& run : view.runs)
      if (run.run == path.substr(kStatusPrefix.size()))
        return {200, kJson, to_json_text(run) + "\n"};
  return {404, kText, "there is no such page\n"};
}

}  // namespace stoker::daemon
