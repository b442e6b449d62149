// The JSON of cli.md.
#include "diagnose/cause/diagnosis.hpp"

#include <cmath>

#include "common/time.hpp"

namespace stoker::diagnose {

namespace {
Json or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
std::string shown(std::int64_t ms) {
  return format_rfc3339(WallTime(std::chrono::milliseconds(ms)));
}
}  // namespace

Json to_json_object(const Diagnosis& d) {
  Json out{{"class", name_of(d.failure_class)},
           {"confidence", std::round(d.confidence * 100) / 100},
           {"fatal", d.fatal},
           {"summary", d.summary},
           {"nodes", d.nodes},
           {"ranks", d.ranks},
           {"notes", d.notes},
           {"root", nullptr}};
  if (d.root) {
    out["root"] = {{"file", d.root->file},
                   {"line", d.root->line},
                   {"text", d.root->text},
                   {"node", or_null(d.node)},
                   {"rank", d.rank ? Json(*d.rank) : Json(nullptr)},
                   {"gpu_pci", or_null(d.gpu_pci)},
                   {"xid", d.xids},
                   {"count", d.root->count}};
    if (d.root->first_ms) out["root"]["first"] = shown(*d.root->first_ms);
    if (d.root->last_ms) out["root"]["last"] = shown(*d.root->last_ms);
  }
  Json also = Json::array();
  for (const auto& e : d.followed)
    also.push_back({{"class", name_of(e.failure_class)},
                    {"count", e.count},
                    {"file", e.file},
                    {"line", e.line},
                    {"text", e.text}});
  out["also"] = std::move(also);
  out["advice"] = {{"action", name_of(d.advice.action)},
                   {"node_action", name_of(d.advice.node_action)},
                   {"exclude", d.exclude},
                   {"text", d.advice.text}};
  if (!d.collective.empty()) out["collective"] = d.collective;
  if (!d.stacks.empty()) out["stacks"] = d.stacks;
  if (d.last_iteration > 0) out["last_iteration"] = d.last_iteration;
  if (!d.last_lines.empty()) out["last_lines"] = d.last_lines;
  return out;
}

}  // namespace stoker::diagnose
