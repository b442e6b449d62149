#include "worker/train/loop/resume.hpp"

#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "watch/checkpoint_scan.hpp"
#include "wire/orders.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

constexpr Duration kSlowestLoad = 90min;  // added to a step's deadline
constexpr std::size_t kLongestPath = 4000;

enum class ChoiceKind : std::uint64_t { Scratch, Load, Refused, SwitchedOff, Unwritable };

struct Choice {  // of rank 0, sent to all
  ChoiceKind kind = ChoiceKind::Scratch;
  char path[kLongestPath] = {};
};

Choice load(const std::string& path) {
  Choice choice;
  if (path.size() >= kLongestPath) {
    complain("error: the checkpoint's path is too long");
    choice.kind = ChoiceKind::Refused;
    return choice;
  }
  choice.kind = ChoiceKind::Load;
  std::memcpy(choice.path, path.data(), path.size());
  return choice;
}

Choice refuse(const Error& error) {
  complain("error: checkpoint refused: " + error.message());
  return {ChoiceKind::Refused, {}};
}

// The checkpoint that was ordered by name: it or none.
Choice choose_exact(const ResumeParts& p, const std::string& wanted) {
  const std::string inside = p.config.checkpoint.directory + "/" + wanted;
  const std::string path = !os::exists(wanted) && os::exists(inside) ? inside : wanted;
  const auto manifest = watch::check_checkpoint(path, watch::Depth::Content);
  return manifest ? load(path) : refuse(manifest.error());
}

Result<std::optional<wire::Lineage>> lineage_of(const RankEnvironment& environment) {
  if (!environment.start) return std::optional<wire::Lineage>{};
  STOKER_TRY(text, os::read_file(*environment.start, 16u << 20));
  STOKER_TRY(start, from_json_text<wire::Start>(text, *environment.start));
  return std::optional(start.lineage);
}

Choice choose_newest(const ResumeParts& p) {
  auto lineage = lineage_of(p.environment);
  if (!lineage) return refuse(lineage.error());
  const std::string& directory = p.config.checkpoint.directory;
  auto scan = watch::scan_checkpoints(directory, *lineage, watch::Depth::Content);
  if (!scan) return refuse(scan.error());
  for (const auto& damaged : scan->damaged) {
    complain(fmt::format("warning: damaged checkpoint {}: {}", damaged.name, damaged.why));
    tell_event(wire::DamagedCheckpoint{damaged.name, damaged.why});
  }
  for (const auto& name : scan->foreign)
    complain(fmt::format("warning: {}/{} is not of this run's ancestry and is not loaded",
                         directory, name));
  if (scan->newest) return load(scan->newest->path);
  if (!scan->damaged.empty())
    return refuse({"every checkpoint is damaged", directory,
                   "restore one, or set STOKER_LOAD=none to begin from scratch"});
  return {};
}

// Found out now, not at the first save. A full disk is no reason: it may have room by then.
Status try_directory(const std::string& directory) {
  const std::string probe = directory + "/.writable";
  Status made = os::make_directories(directory, 0775);
  if (made) made = os::replace_file(probe, "", os::Durability::Cached, 0664);
  ::unlink(probe.c_str());
  if (made || is_disk_full(made.error())) return ok();
  return fail("checkpoints cannot be saved: " + made.error().what, directory,
              "make it writable, or name another checkpoint.directory");
}

Choice choose(const ResumeParts& p) {
  if (Status writable = try_directory(p.config.checkpoint.directory); !writable) {
    complain(writable.error());
    return {ChoiceKind::Unwritable, {}};
  }
  if (p.switched_off) {
    say("Detected kill switch before the first iteration. Exiting");
    return {ChoiceKind::SwitchedOff, {}};
  }
  const auto& wanted = p.environment.load;
  if (wanted && *wanted == "none") return {};
  return wanted ? choose_exact(p, *wanted) : choose_newest(p);
}

// The data window that was ordered to be skipped counts once: a checkpoint of this very generation
// was saved after the skip.
void apply_orders(const RankEnvironment& environment, std::optional<Generation> saved_by,
                  Position& position) {
  const bool by_hand = environment.generation == Generation{};
  if (environment.skip_samples > 0 && (by_hand || saved_by != environment.generation)) {
    position.data_offset += environment.skip_samples;
    if (environment.first())
      say(fmt::format("skipping {} samples of data from sample {} on", environment.skip_samples,
                      position.consumed_samples));
  }
  // 1 says nothing: a scale that was ordered once holds until another one is ordered.
  if (environment.lr_scale != 1) position.lr_scale = environment.lr_scale;
}

std::variant<ResumePoint, ExitCode> load_chosen(const ResumeParts& p, const std::string& path) {
  const Duration deadline = p.config.train.deadline + kSlowestLoad;
  const bool first = p.environment.first();
  const auto manifest = watch::read_manifest(path);
  const auto position =
      manifest ? position_of(*manifest) : Result<Position>(fail(manifest.error()));
  if (!position) {
    complain("error: checkpoint refused: " + position.error().message());
    return ExitCode::CheckpointRefused;
  }
  bool peer_lost = false;
  if (Status loaded = load_checkpoint(p.comm, p.state, path, *manifest, deadline, peer_lost);
      !loaded) {
    if (first || peer_lost) complain("error: checkpoint refused: " + loaded.error().message());
    return peer_lost ? ExitCode::PeerLost : ExitCode::CheckpointRefused;
  }
  const auto audit =
      audit_resume(path.substr(path.rfind('/') + 1), *manifest, *position, p.facts, p.accepted);
  if (first) {
    say(audit_line(audit));
    tell_event(audit);
  }
  if (!audit.passed) {
    if (first)
      complain(
          "error: the resume audit found changes; put back the configuration or allow each with "
          "--accept ITEM");
    return ExitCode::CheckpointRefused;
  }
  ResumePoint point{*position, true};
  apply_orders(p.environment, manifest->generation, point.position);
  return point;
}

}  // namespace

std::variant<ResumePoint, ExitCode> resume(const ResumeParts& p) {
  Choice mine;
  if (p.environment.first()) mine = choose(p);
  std::vector<Choice> all(p.comm.mesh().world());
  if (Status done =
          p.comm.all_gather(Axis::World, &mine, sizeof mine, all.data(),
                            {"choice of checkpoint", p.config.train.deadline + kSlowestLoad});
      !done) {
    complain(done.error());
    return ExitCode::PeerLost;
  }
  switch (all[0].kind) {
    case ChoiceKind::SwitchedOff: return ExitCode::KillSwitch;
    case ChoiceKind::Refused: return ExitCode::CheckpointRefused;
    case ChoiceKind::Unwritable: return ExitCode::Configuration;
    case ChoiceKind::Load: return load_chosen(p, all[0].path);
    case ChoiceKind::Scratch: break;
  }
  if (p.environment.first()) say("starting from scratch");
  p.state.initialise(p.config.train.seed);
  ResumePoint point;
  apply_orders(p.environment, std::nullopt, point.position);
  return point;
}

}  // namespace stoker::train
