// Joins the parts and says when to look again.
#include "watch/run_watcher.hpp"

#include <iterator>

namespace stoker::watch {

namespace {
constexpr Duration kPollLocal = 1s;  // inotify hints come sooner
constexpr Duration kPollNetwork = 500ms;
constexpr Duration kQuiet = 1min;  // without news: longer than a live run's digests are apart
constexpr Duration kPollQuietLocal = 10s, kPollQuietNetwork = 2s;
constexpr Duration kSettlePoll = 100ms;  // a switch file that is being written
constexpr Duration kPollDisk = 30s;

TailOptions tail_options(bool network) {
  TailOptions tail;
  if (network) tail.hole_grace = 5s;
  return tail;
}

// So the watchers of many quiet runs are polled together.
Instant on_the_second(Instant at) {
  return Instant(std::chrono::ceil<std::chrono::seconds>(at.time_since_epoch()));
}

DiskOptions disk_options(const core::RunPolicy& policy) {
  DiskOptions disk{policy.run,
                   {policy.directory},
                   policy.watch.disk_min_free,
                   policy.watch.disk_min_free_inodes};
  for (const auto& path : policy.watch.disk_paths)
    if (path != policy.directory) disk.paths.push_back(path);
  const std::string& checkpoints = policy.checkpoints.directory;
  if (checkpoints.starts_with("/")) disk.paths.push_back(checkpoints);
  return disk;
}
}  // namespace

RunWatcher::RunWatcher(const RunWatchOptions& options, const std::vector<core::Cursor>& cursors)
    : directory_(options.policy.directory),
      network_(options.network),
      agents_(core::has_agents(options.policy)),
      generations_({options.policy.run, directory_, digest_interval(options.policy.hang.floor),
                    tail_options(options.network)},
                   cursors),
      switches_({options.policy.run, directory_ + "/switch", options.policy.group}, cursors),
      disk_(disk_options(options.policy), cursors),
      finish_file_(options.policy, cursors),
      end_file_(options.policy.run, directory_, cursors),
      follow_ends_(options.policy.run, directory_) {}

std::vector<core::Input> RunWatcher::poll(Instant now, WallTime wall, const Gate& gate) {
  std::vector<core::Input> out;
  if (opens(gate, Part::Switches)) switches_.poll(wall, out);
  // Looked for after the agents' reports and reported before them: a lead that writes it and exits
  // is finished.
  std::vector<core::Input> words;
  if (!opens(gate, Part::Own)) return {};
  generations_.poll(now, words);
  if (opens(gate, Part::FinishFile)) finish_file_.poll(out);
  if (!opens(gate, Part::Own)) return {};
  out.insert(out.end(), std::make_move_iterator(words.begin()),
             std::make_move_iterator(words.end()));
  if (!generations_.more()) end_file_.poll(generations_.newest(), out);
  follow_ends_.poll(out);
  if (!disk_polled_ || now - *disk_polled_ >= kPollDisk) {
    disk_polled_ = now;
    if (opens(gate, Part::Disk)) disk_.poll(out);
  }
  if (!out.empty() || moved_ == Instant{}) moved_ = now;
  next_poll_ = now;
  if (!generations_.more())
    next_poll_ = is_quiet(now)
                     ? on_the_second(now + (network_ ? kPollQuietNetwork : kPollQuietLocal))
                     : now + (network_ ? kPollNetwork : kPollLocal);
  if (switches_.unsettled()) next_poll_ = std::min(next_poll_, now + kSettlePoll);
  return out;
}

// A script's logs lie in folders without hints.
bool RunWatcher::is_quiet(Instant now) const {
  return (hinted_ || network_) && agents_ && !follow_ends_.waits() && now - moved_ >= kQuiet;
}

std::vector<core::Input> RunWatcher::flush_digest() {
  std::vector<core::Input> out;
  generations_.flush(out);
  return out;
}

std::vector<std::string> RunWatcher::directories() const {
  if (network_) return {};
  std::vector<std::string> folders{directory_, directory_ + "/switch"};
  for (auto& folder : generations_.directories()) folders.push_back(std::move(folder));
  return folders;
}

}  // namespace stoker::watch
