// Which files are followed, and in which order they are read: older generations first.
#include "watch/generations.hpp"

#include <algorithm>

#include "common/os/own_files.hpp"

namespace stoker::watch {

namespace {
constexpr std::uint32_t kStillRead = 2;        // generations before the newest
constexpr std::size_t kMostCaughtUp = 64;      // generations that began while we were away
constexpr std::size_t kMostAgentFiles = 4096;  // a generation
constexpr std::string_view kLines = ".jsonl";
}  // namespace

Generations::Generations(GenerationsOptions options, const std::vector<core::Cursor>& cursors)
    : options_(std::move(options)) {
  const std::string prefix = options_.directory + "/";
  for (const auto& cursor : cursors) {
    if (!cursor.path.starts_with(prefix)) continue;
    const std::string rest = cursor.path.substr(prefix.size());
    const auto generation = wire::parse_generation_name(rest.substr(0, rest.find('/')));
    if (!generation) continue;
    cursors_[cursor.path] = cursor;
    read_before_ = std::max(read_before_, *generation);
  }
}

void Generations::poll(Instant now, std::vector<core::Input>& out) {
  find(out);
  more_ = false;
  error_.reset();
  for (auto at = files_.begin(); at != files_.end();) {
    LeadFile& file = *at->second;
    const bool newest = file.generation() == newest_;
    file.poll(now, newest, out);
    if (newest && at->first.second.empty()) file.watch_silence(now, out);
    more_ |= file.more();
    if (file.error()) error_ = file.error();
    const bool old = file.generation().value + kStillRead < newest_.value;
    at = old && !file.more() ? files_.erase(at) : std::next(at);
  }
}

void Generations::flush(std::vector<core::Input>& out) {
  const auto lead = files_.find({newest_, ""});
  if (lead != files_.end()) lead->second->flush(out);
}

std::optional<LiveBeat> Generations::live() const {
  const auto lead = files_.find({newest_, ""});
  return lead == files_.end() ? std::nullopt : lead->second->live();
}

void Generations::find(std::vector<core::Input>& out) {
  const auto names = os::list_directory(options_.directory);
  if (!names) return;
  std::vector<Generation> found;
  for (const auto& name : *names)
    if (const auto generation = wire::parse_generation_name(name)) found.push_back(*generation);
  std::sort(found.begin(), found.end());
  // Those that began since we last looked, in this life or the one before.
  const Generation known = std::max(newest_, read_before_);
  std::erase_if(found, [&](Generation generation) {  // another user's words decide nothing
    const bool read = generation > known || generation.value + kStillRead >= known.value;
    return read && !files_.contains({generation, ""}) &&
           !os::check_own(options_.directory + "/" + wire::generation_name(generation));
  });
  if (found.empty()) return;
  const Generation newest = std::max(newest_, found.back());
  if (found.size() > kMostCaughtUp) found.erase(found.begin(), found.end() - kMostCaughtUp);
  for (const Generation generation : found) {
    const bool recent = generation.value + kStillRead >= newest.value;
    const bool missed = known.value != 0 && generation > known;
    if (!recent && !missed) continue;
    follow(generation, "");
    const auto agents = os::list_directory(options_.directory + "/" +
                                           wire::generation_name(generation) + "/agents");
    if (!agents) continue;
    std::size_t count = 0;
    for (const auto& name : *agents)
      if (name.ends_with(kLines) && ++count <= kMostAgentFiles)
        follow(generation, name.substr(0, name.size() - kLines.size()));
  }
  if (newest != newest_) flush(out);
  newest_ = newest;
}

void Generations::follow(Generation generation, const std::string& node) {
  auto& file = files_[{generation, node}];
  if (file) return;
  const std::string folder = options_.directory + "/" + wire::generation_name(generation) + "/";
  const std::string path =
      node.empty() ? folder + "lead.jsonl" : folder + "agents/" + node + std::string(kLines);
  const auto cursor = cursors_.find(path);
  file = std::make_unique<LeadFile>(
      LeadFileOptions{options_.run, generation, path, node.empty() ? "lead" : node,
                      options_.interval, options_.tail},
      cursor == cursors_.end() ? std::nullopt : std::optional(cursor->second));
}

std::vector<std::string> Generations::directories() const {
  if (newest_.value == 0) return {};
  const std::string folder = options_.directory + "/" + wire::generation_name(newest_);
  return {folder, folder + "/agents"};
}

}  // namespace stoker::watch
