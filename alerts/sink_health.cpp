// The book of failing sinks. Its file is a memory aid: when it cannot be written, the next failure
// makes a new entry.
#include "alerts/sink_health.hpp"

#include "common/hash.hpp"
#include "common/os/files.hpp"

namespace stoker::alerts {

namespace {
constexpr std::size_t kMostLost = 16;
constexpr std::size_t kMostSinks = 1000;
}  // namespace

std::string key_of(const core::SinkPolicy& sink) {
  return sink.name + "/" + hex64(xxh3_64(to_json_text(sink)));
}

Status SinkHealth::load() {
  if (!os::exists(path_)) return ok();
  STOKER_TRY(text, os::read_file(path_, 16u << 20));
  STOKER_TRY(troubles, (from_json_text<std::map<std::string, SinkTrouble>>(text, path_)));
  troubles_ = troubles;
  return ok();
}

void SinkHealth::save() const {
  (void)os::replace_file(path_, to_json_text(troubles_), os::Durability::Cached, 0600);
}

void SinkHealth::worked(const core::SinkPolicy& sink) {
  if (troubles_.erase(key_of(sink)) > 0) save();
}

void SinkHealth::failed(const core::SinkPolicy& sink, const std::string& why, WallTime now) {
  if (troubles_.size() >= kMostSinks && !troubles_.contains(key_of(sink))) troubles_.clear();
  SinkTrouble& trouble = troubles_[key_of(sink)];
  if (trouble.failures++ == 0) {
    trouble.sink = sink.name;
    trouble.kind = sink.kind;
    trouble.since = now;
  }
  trouble.why = why;
  save();
}

void SinkHealth::lost(const core::SinkPolicy& sink, const RenderedAlert& alert,
                      const std::string& why, WallTime now) {
  failed(sink, why, now);
  auto& lost = troubles_[key_of(sink)].lost;
  lost.push_back({alert.id, title_of(alert), why, now, alert.severity});
  if (lost.size() > kMostLost) lost.erase(lost.begin());
  save();
}

std::vector<SinkTrouble> SinkHealth::troubles(const std::vector<core::SinkPolicy>& sinks) const {
  std::vector<SinkTrouble> found;
  for (const core::SinkPolicy& sink : sinks)
    if (const auto trouble = troubles_.find(key_of(sink)); trouble != troubles_.end())
      found.push_back(trouble->second);
  return found;
}

}  // namespace stoker::alerts
