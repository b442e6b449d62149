#include "worker/train/loop/resume.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <unistd.h>

#include "common/os/files.hpp"
#include "watch/checkpoint_scan.hpp"
#include "wire/orders.hpp"
#include "worker/train/memory/restore.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

constexpr Duration kSlowestLoad = 90min;  // added to a step's deadline
constexpr std::size_t kLongestPath = 4000;

// Exact: the checkpoint that was ordered by name, or none. Load: the newest good one.
enum class ChoiceKind : std::uint64_t {
  Scratch,
  Memory,
  Exact,
  Load,
  Refused,
  SwitchedOff,
  Unwritable
};

struct Choice {  // of rank 0, sent to all
  ChoiceKind kind = ChoiceKind::Scratch;
  std::uint64_t skip = 0;  // samples of data left out from there on
  char path[kLongestPath] = {};
};

Choice refuse(const Error& error) {
  complain("error: checkpoint refused: " + error.message());
  return {ChoiceKind::Refused, {}};
}

// Of a start that an agent gave us; empty when it was one by hand.
Result<std::optional<wire::Start>> start_of(const RankEnvironment& environment) {
  if (!environment.start) return std::optional<wire::Start>{};
  STOKER_TRY(text, os::read_file(*environment.start, 16u << 20));
  STOKER_TRY(start, from_json_text<wire::Start>(text, *environment.start));
  return std::optional(std::move(start));
}

// A window of data that was ordered to be left out counts once: checkpoints of the generations
// since were saved behind it.
std::uint64_t skip_after(const RankEnvironment& environment,
                         const std::optional<wire::Start>& start, Generation saved_by) {
  if (start && !start->orders.skips.empty())
    return wire::samples_to_skip(start->orders.skips, saved_by);
  const bool by_hand = environment.generation == Generation{};
  return by_hand || saved_by != environment.generation ? environment.skip_samples : 0;
}

Choice load(ChoiceKind kind, const ResumeParts& p, const std::optional<wire::Start>& start,
            const std::string& path, Generation saved_by) {
  Choice choice;
  if (path.size() >= kLongestPath) {
    complain("error: the checkpoint's path is too long");
    choice.kind = ChoiceKind::Refused;
    return choice;
  }
  choice.kind = kind;
  std::memcpy(choice.path, path.data(), path.size());
  choice.skip = skip_after(p.environment, start, saved_by);
  return choice;
}

using Resumed = std::variant<ResumePoint, ExitCode>;

// What rank 0 has found out while it looks for a checkpoint.
struct Search {
  bool memory = true;           // the snapshot that was ordered may still be taken
  watch::KnownDamage damaged;   // by reading them
  std::set<std::string> named;  // in a line and an event
};

// The checkpoint that was ordered by name: it or none. Its content is checked by all ranks.
Choice choose_exact(const ResumeParts& p, const std::string& wanted) {
  const std::string inside = p.config.checkpoint.directory + "/" + wanted;
  const std::string path = !os::exists(wanted) && os::exists(inside) ? inside : wanted;
  const auto manifest = watch::check_checkpoint(path, watch::Depth::Sizes);
  if (!manifest) return refuse(manifest.error());
  const auto start = start_of(p.environment);
  return start ? load(ChoiceKind::Exact, p, *start, path, manifest->generation)
               : refuse(start.error());
}

Choice choose_newest(const ResumeParts& p, Search& search) {
  const auto start = start_of(p.environment);
  if (!start) return refuse(start.error());
  std::optional<wire::Lineage> lineage;
  if (*start) lineage = (*start)->lineage;
  const std::string& directory = p.config.checkpoint.directory;
  auto scan = watch::scan_checkpoints(directory, lineage, watch::Depth::Sizes, search.damaged);
  if (!scan) return refuse(scan.error());
  for (const auto& damaged : scan->damaged) {
    if (!search.named.insert(damaged.name).second) continue;
    complain(fmt::format("warning: damaged checkpoint {}: {}", damaged.name, damaged.why));
    tell_event(wire::DamagedCheckpoint{damaged.name, damaged.why});
  }
  for (const auto& name : scan->foreign)
    if (search.named.insert(name).second)
      complain(fmt::format("warning: {}/{} is not of this run's ancestry and is not loaded",
                           directory, name));
  if (scan->newest)
    return load(ChoiceKind::Load, p, *start, scan->newest->path, scan->newest->manifest.generation);
  if (scan->ours_damaged)
    return refuse({"every checkpoint is damaged", directory,
                   "restore one, or set STOKER_LOAD=none to begin from scratch"});
  return {};
}

void not_from_memory(const wire::SnapshotId& id, const std::string& why) {
  const std::string text = fmt::format(
      "the snapshot of iteration {} in memory is not used: {}; the newest checkpoint "
      "on the disk is",
      id.iteration.value, why);
  complain("warning: " + text);
  tell_event(wire::Notice{{}, text});
}

// Found out now, not at the first save. A full disk is no reason: it may have room by then.
Status try_directory(const std::string& directory) {
  std::string probe = directory + "/.writable.XXXXXX";
  Status made = os::make_directories(directory);
  if (made && ::mkdtemp(probe.data()) == nullptr)
    made = fail(write_error("cannot make a folder in it", directory));
  if (made) ::rmdir(probe.c_str());
  if (made || is_disk_full(made.error())) return ok();
  return fail("checkpoints cannot be saved: " + made.error().what, directory,
              "make it writable, or name another checkpoint.directory");
}

// What was ordered from memory; empty: nothing was, or it cannot be.
std::optional<Choice> choose_memory(const ResumeParts& p) {
  if (!p.environment.memory_load) return std::nullopt;
  if (p.snapshots == nullptr) {
    not_from_memory(*p.environment.memory_load, "this start has no snapshots in memory");
    return std::nullopt;
  }
  const auto start = start_of(p.environment);
  if (!start) return refuse(start.error());
  return Choice{ChoiceKind::Memory, skip_after(p.environment, *start, p.environment.generation)};
}

Choice choose(const ResumeParts& p, Search& search) {
  if (Status writable = try_directory(p.config.checkpoint.directory); !writable) {
    complain(writable.error());
    return {ChoiceKind::Unwritable, {}};
  }
  if (p.switched_off) {
    say("Detected kill switch before the first iteration. Exiting");
    return {ChoiceKind::SwitchedOff, {}};
  }
  if (const auto chosen = search.memory ? choose_memory(p) : std::nullopt) return *chosen;
  const auto& wanted = p.environment.load;
  if (wanted && *wanted == "none") return {};
  return wanted ? choose_exact(p, *wanted) : choose_newest(p, search);
}

void apply_orders(const RankEnvironment& environment, std::uint64_t skip, Position& position) {
  if (skip > 0) {
    position.data_offset += std::min(skip, wire::kMostSkipped);
    if (environment.first())
      say(fmt::format("skipping {} samples of data from sample {} on", skip,
                      position.consumed_samples));
  }
  // 1 says nothing: a scale that was ordered once holds until another one is ordered.
  if (environment.lr_scale != 1) position.lr_scale = environment.lr_scale;
}

bool passes_audit(const ResumeParts& p, const std::string& name, const wire::Manifest& manifest,
                  const Position& position) {
  const auto audit = audit_resume(name, manifest, position, p.facts, p.accepted);
  if (!p.environment.first()) return audit.passed;
  say(audit_line(audit));
  tell_event(audit);
  if (!audit.passed)
    complain(
        "error: the resume audit found changes; put back the configuration or allow each with "
        "--accept ITEM");
  return audit.passed;
}

// Empty: another one is to be chosen, as what was read is damaged.
std::optional<Resumed> load_chosen(const ResumeParts& p, const Choice& choice, Search& search) {
  const std::string path = choice.path, name = path.substr(path.rfind('/') + 1);
  const Instant began = monotonic_now();
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
  const auto refused = [&](const Status& why) {
    if (first || peer_lost) complain("error: checkpoint refused: " + why.error().message());
    return peer_lost ? ExitCode::PeerLost : ExitCode::CheckpointRefused;
  };
  if (Status whole = verify_checkpoint(p.comm, {path, *manifest}, deadline, peer_lost); !whole) {
    if (peer_lost || choice.kind == ChoiceKind::Exact) return refused(whole);
    search.damaged[name] = whole.error().message();
    return std::nullopt;
  }
  if (Status loaded = load_checkpoint(p.comm, p.state, p.layout.whole(), {path, *manifest},
                                      deadline, peer_lost);
      !loaded)
    return refused(loaded);
  if (first)
    say(fmt::format("checkpoint {} checked and loaded in {:.2f} s", name,
                    to_seconds(monotonic_now() - began)));
  if (!passes_audit(p, name, *manifest, *position)) return ExitCode::CheckpointRefused;
  ResumePoint point{*position, true};
  apply_orders(p.environment, choice.skip, point.position);
  return point;
}

// Empty: not from memory after all; rank 0 has said why.
std::optional<Resumed> load_memory(const ResumeParts& p, std::uint64_t skip) {
  const wire::SnapshotId id = *p.environment.memory_load;
  bool peer_lost = false;
  auto restored = restore_snapshot(p.comm, p.state, *p.snapshots, {id, p.environment.generation},
                                   p.config.train.deadline + kSlowestLoad, peer_lost);
  if (!restored && peer_lost) {
    complain("error: " + restored.error().message());
    return ExitCode::PeerLost;
  }
  if (!restored) {
    if (p.environment.first()) not_from_memory(id, restored.error().message());
    return std::nullopt;
  }
  const std::string name =
      "memory of " + wire::checkpoint_name(id.iteration, p.environment.generation);
  if (!passes_audit(p, name, restored->manifest, restored->position))
    return ExitCode::CheckpointRefused;
  ResumePoint point{restored->position, false};
  apply_orders(p.environment, skip, point.position);
  return point;
}

// Empty: rank 0 chooses once more, with what it has found out.
std::optional<Resumed> try_once(const ResumeParts& p, Search& search) {
  Choice mine;
  if (p.environment.first()) mine = choose(p, search);
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
    case ChoiceKind::Memory: search.memory = false; return load_memory(p, all[0].skip);
    case ChoiceKind::Exact:
    case ChoiceKind::Load: return load_chosen(p, all[0], search);
    case ChoiceKind::Scratch: break;
  }
  if (p.environment.first()) say("starting from scratch");
  p.state.initialise(p.config.train.seed);
  ResumePoint point;
  apply_orders(p.environment, p.environment.skip_samples, point.position);
  return point;
}

}  // namespace

std::variant<ResumePoint, ExitCode> resume(const ResumeParts& p) {
  Search search;
  while (true)
    if (const auto resumed = try_once(p, search)) return *resumed;
}

}  // namespace stoker::train
