// Survey and removal run in threads (a network file system may hang); the choice between them is
// made in the loop's thread, where it is known what a start is about to read.
#include "worker/agent/storage/pruner.hpp"

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "common/os/files.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/there.hpp"
#include "watch/checkpoint_removal.hpp"
#include "watch/checkpoint_scan.hpp"
#include "worker/agent/aside.hpp"
#include "worker/agent/storage/claim.hpp"

namespace stoker::agent {
namespace {

constexpr const char* kAside = "pruned.";

bool is_directory(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

CheckpointSurvey survey_checkpoints(const std::string& directory, const wire::Start& start,
                                    std::set<wire::CheckpointId>& known_good) {
  CheckpointSurvey survey;
  const auto names = os::list_directory(directory);
  if (!names) return survey;
  for (const std::string& name : *names) {
    const auto id = wire::parse_checkpoint_name(name);
    const std::string path = directory + "/" + name;
    if (!id || !wire::accepts(start.lineage, id->generation, id->iteration)) continue;
    if (!is_directory(path) || !os::exists(path + "/" + wire::kManifestName)) continue;
    if (const Status ours = watch::check_writer(path); !ours) {
      if (survey.foreign.empty())
        survey.foreign = "a checkpoint that does not count: " + ours.error().message();
      continue;
    }
    const auto manifest = watch::read_manifest(path);
    if (manifest && manifest->run != start.run.text) continue;  // another run saves here too
    const bool read = start.orders.verify_checkpoints && !known_good.contains(*id);
    const auto depth = read ? watch::Depth::Content : watch::Depth::Sizes;
    const bool good = manifest && watch::check_checkpoint(path, depth);
    if (good) known_good.insert(*id);
    survey.complete.push_back({*id, good});
  }
  return survey;
}

Status remove_checkpoint(const std::string& directory, const wire::CheckpointId& id) {
  const std::string name = wire::checkpoint_name(id.iteration, id.generation);
  const std::string path = directory + "/" + name;
  if (!is_directory(path)) return fail("is no directory of its own; it is left alone", path);
  STOKER_TRY_STATUS(os::check_owner(path));
  const std::string aside = kAside + name;
  if (::rename(path.c_str(), (directory + "/" + aside).c_str()) == 0)
    return watch::remove_checkpoint_files(directory, aside);
  const int error = errno;
  if (os::is_taken(directory + "/" + aside))  // by another user
    return watch::remove_checkpoint_files(directory, name);
  return fail(errno_error(error, "cannot move it aside to delete it", path));
}

void remove_pruned_leftovers(const std::string& directory, const std::string& run) {
  const auto names = os::list_directory(directory);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.starts_with(kAside) || !wire::parse_checkpoint_name(std::string_view(name).substr(
                                         std::string_view(kAside).size())))
      continue;
    watch::remove_leftover(directory, name, run);
  }
}

Pruner::Pruner(Wiring wiring, const wire::Start& start)
    : wiring_(std::move(wiring)),
      start_(start),
      rule_{start.orders.keep_last, start.orders.keep_every, start.orders.keep_pin,
            start.orders.keep_follow} {
  if (start_.orders.checkpoint_format != "stoker") rule_.last = 0;  // not ours to delete
}

Pruner::~Pruner() {
  *alive_ = false;
}

void Pruner::saved() {
  if (rule_.last == 0) return;
  again_ = true;
  if (!busy_) look();
}

void Pruner::look() {
  busy_ = true;
  again_ = false;
  run_aside([this, alive = alive_, &loop = wiring_.loop, known = known_good_, start = start_,
             run_directory = wiring_.run_directory, directory = wiring_.checkpoints] {
    Survey survey;
    survey.known_good = known;
    survey.found = survey_checkpoints(directory, start, survey.known_good);
    Refused refused;  // the start has reported it
    if (const auto orders = newest_orders(run_directory, refused); orders && *orders) {
      survey.pin = (*orders)->keep_pin;
      survey.follow = (*orders)->keep_follow;
      if ((*orders)->resume.mode == wire::ResumeMode::Exact)  // a rollback may be on its way
        survey.ordered.insert({(*orders)->resume.iteration, (*orders)->resume.generation});
    }
    const auto newest = newest_generation(run_directory);
    survey.superseded = !newest || *newest != start.generation;
    loop.post([this, alive, survey = std::move(survey)]() mutable {
      if (*alive) on_survey(std::move(survey));
    });
  });
}

void Pruner::on_survey(Survey survey) {
  known_good_ = std::move(survey.known_good);
  if (!survey.found.foreign.empty() && !std::exchange(foreign_told_, true))
    wiring_.tell(wire::Notice{start_.lead, survey.found.foreign});
  if (survey.pin) rule_.pin = *survey.pin;
  if (survey.follow) rule_.follow = *survey.follow;
  std::set<wire::CheckpointId> in_use = wiring_.held();
  in_use.merge(survey.ordered);
  const auto& complete = survey.found.complete;
  for (const wire::SurveyedCheckpoint& c : complete)
    if (wiring_.must_stay && wiring_.must_stay(c.id)) in_use.insert(c.id);
  std::vector<wire::CheckpointId> gone;
  if (!survey.superseded)  // the younger generation's lead prunes from now on
    gone = wire::choose_prunable(complete, rule_, in_use);
  if (gone.empty()) return on_removed({});
  run_aside([this, alive = alive_, &loop = wiring_.loop, gone, node = start_.lead,
             directory = wiring_.checkpoints, run = start_.run.text] {
    remove_pruned_leftovers(directory, run);
    std::vector<wire::AgentBody> told;
    wire::CheckpointsDeleted deleted;
    for (const wire::CheckpointId& id : gone) {
      if (const Status done = remove_checkpoint(directory, id))
        deleted.checkpoints.push_back(wire::checkpoint_name(id.iteration, id.generation));
      else if (told.empty())
        told.emplace_back(wire::Notice{node, "checkpoints.keep: " + done.error().message()});
    }
    if (!deleted.checkpoints.empty()) told.emplace_back(deleted);
    loop.post([this, alive, told] {
      if (*alive) on_removed(told);
    });
  });
}

void Pruner::on_removed(const std::vector<wire::AgentBody>& told) {
  for (const wire::AgentBody& body : told) wiring_.tell(body);
  busy_ = false;
  if (again_) look();
}

}  // namespace stoker::agent
