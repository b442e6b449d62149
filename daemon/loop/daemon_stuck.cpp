// Daemon, what does not answer: a part of a run from which a mount's thread does not come back is
// passed over, and all else goes on. Where that part is the run's own files, or where the whole
// file system is stuck, nothing is known of the run, and nothing is concluded.
#include <algorithm>
#include <fmt/format.h>

#include "daemon/loop/daemon.hpp"
#include "daemon/loop/log.hpp"

namespace stoker::daemon {
namespace {

constexpr Duration kPassOver = 10s;  // in a part where others can read or write
constexpr Duration kStuck = 20s;     // in a run's own files: file systems pause by themselves
constexpr Duration kNextStuck = 5s;  // while another's does not answer: one user can hold many
// Twice as long each time, which only that run waits (take_up_part): what a file system needs half
// a minute for is read in the end.
constexpr Duration kLongestPatience = 2min;

std::string text_of(const RunPart& part, const core::RunPolicy& policy) {
  const std::string name(name_of(part.part));
  return part.part == watch::Part::Switches ? name + " " + policy.directory + "/switch" : name;
}

}  // namespace

void Daemon::report_passed_over(const RunPart& part, Duration lasts, bool silent) {
  const auto found = runs_.find(part.run);
  const std::string what =
      found == runs_.end() ? std::string(name_of(part.part)) : text_of(part, found->second.policy);
  log(silent ? LogLevel::Error : LogLevel::Notice,
      silent
          ? fmt::format("{}: {}: no answer for {}: passed over until it answers, all else goes on",
                        part.run.empty() ? "site" : part.run.text, what, format_duration(lasts))
          : fmt::format("{}: {} answers again", part.run.empty() ? "site" : part.run.text, what));
  if (found != runs_.end() && part.part != watch::Part::Own)
    turns_->submit({{part.run,
                     core::FolderSilent{what, lasts, part.part == watch::Part::Switches, silent},
                     {}}});
}

// What was not written meanwhile is read from the journal again.
void Daemon::publish_again(const RunPart& part) {
  const auto found = runs_.find(part.run);
  if (part.run.empty()) {
    share_pages();  // may have been dropped meanwhile
    return catch_up({}, site_);
  }
  if (found != runs_.end()) catch_up(part.run, found->second);
}

void Daemon::take_up_answering_parts() {
  std::erase_if(passed_over_, [this](const auto& entry) {
    const auto& [part, mount] = entry;
    if (mount->is_passed_over(part)) return false;
    report_passed_over(part, 0ns, false);
    if (part.part == watch::Part::Published) publish_again(part);
    const auto run = runs_.find(part.run);
    if (run != runs_.end()) take_up_part(part, run->second);
    return true;
  });
}

// A part of this run answers again. From now on no other run waits for this one: who held a part of
// it once can do so again and again. What was posted to the old mount is done before the new one
// publishes or reads; while that still does not come back from publishing, the run stays.
void Daemon::take_up_part(const RunPart& part, WatchedRun& run) {
  MountThread& before = *run.mount;
  const bool moves = !run.apart && !before.is_passed_over({part.run, watch::Part::Published});
  if (!moves && part.part != watch::Part::Own) return;
  if (moves) {
    run.apart = run.moving = true;
    run.mount = &mount_at("run " + part.run.text);
    run.publisher = std::make_shared<RunPublisher>(run.policy.directory, part.run);
    run.caught_up = std::make_shared<bool>(false);
    if (!core::has_agents(run.policy)) run.mount->set_generation(part.run, run.generation);
    run.mount->set_follows(part.run, run.brief->follows);
  }
  before.forget(part.run, [this, name = part.run] {
    turns_->submit({}, [this, name](const std::vector<core::JournalRow>&) {
      start_watcher(name);
      const auto found = runs_.find(name);
      if (found == runs_.end() || !std::exchange(found->second.moving, false)) return;
      catch_up(name, found->second);
    });
  });
}

void Daemon::pass_over_stuck_parts() {
  take_up_answering_parts();
  for (auto& entry : mounts_) {
    MountThread* const mount = entry.second.get();
    const bool others = std::any_of(passed_over_.begin(), passed_over_.end(), [&](const auto& one) {
      return one.second == mount && !one.first.run.empty();
    });
    const auto by = mount->relieve([this, others](const RunPart& part) {
      const auto run = runs_.find(part.run);
      const bool own = part.part == watch::Part::Own && run != runs_.end();
      if (!own) return others && !part.run.empty() ? kNextStuck : kPassOver;
      return std::max(others ? kNextStuck : kStuck, run->second.patience);
    });
    if (!by) continue;
    passed_over_[by->part] = mount;
    report_passed_over(by->part, by->since, true);
    const auto found = runs_.find(by->part.run);
    WatchedRun& of = found == runs_.end() ? site_ : found->second;
    if (by->part.part == watch::Part::Published)  // the thread that is stuck has the old one
      of.caught_up = std::make_shared<bool>(false);
    if (by->part.part == watch::Part::Own)
      of.patience = std::min(kLongestPatience, 2 * std::max(kStuck, of.patience));
    for (const auto& [name, run] : runs_)  // behind all that was reported so far
      if (run.mount == mount)
        turns_->submit(
            {}, [this, name = name](const std::vector<core::JournalRow>&) { start_watcher(name); });
  }
}

// A run whose own files do not answer, alone or with its file system: its agents may be well.
void Daemon::tell_unread_runs() {
  for (auto& [name, run] : runs_) {
    if (run.mount == nullptr) continue;
    const auto at = run.mount->at();
    // Another run's part is passed over by then, or the whole file system hangs.
    const Duration least = at && at->first.run == name ? kStuck : kLongestPatience;
    const bool stuck = at && at->second >= least && at->first.part == watch::Part::Own;
    const bool unread = stuck || run.mount->is_passed_over({name, watch::Part::Own});
    if (unread == run.unread) continue;
    run.unread = unread;
    const std::string what = "the run directory " + run.policy.directory;
    if (unread)
      log(LogLevel::Error,
          fmt::format("{}: {} has not answered for {}", name.text, what, format_duration(kStuck)));
    turns_->submit({{name, core::FolderSilent{what, kStuck, true, unread, true}, {}}});
  }
}

}  // namespace stoker::daemon
