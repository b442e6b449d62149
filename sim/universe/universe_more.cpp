// Faults of the training's numbers, of the site and of what is seen of files.
#include <algorithm>
#include <cerrno>

#include "sim/universe/universe.hpp"

namespace stoker::sim {
namespace {

constexpr std::uint64_t kSpike = 40, kClimb = 150;  // iterations

}  // namespace

bool Universe::strike_numbers(Fault fault, Duration lasts, const PlannedFault& how) {
  Ailment ailment;
  ailment.height = how.height;
  ailment.stubborn = how.stubborn;
  ailment.lasts = how.climb == 0 ? kClimb : how.climb;
  switch (fault) {
    case Fault::LossSpike:
      ailment.kind = Ailment::Kind::Spike;
      ailment.lasts = how.climb == 0 ? kSpike : how.climb;
      return training_->sicken(ailment);
    case Fault::LossDiverges:
      ailment.kind = Ailment::Kind::Divergence;
      return training_->sicken(ailment);
    case Fault::LossNan:
      ailment.kind = Ailment::Kind::NotANumber;
      return training_->sicken(ailment);
    case Fault::RateReset:
      training_->forget_rate(true);
      time_.after(lasts, [this] { training_->forget_rate(false); });
      return true;
    case Fault::OtherData:
      training_->read_other_data(2 + random_.below(1u << 20));
      time_.after(lasts, [this] { training_->read_other_data(0); });
      return true;
    case Fault::ReplicasDrift:
      training_->drift(true);
      time_.after(lasts, [this] { training_->drift(false); });
      return true;
    default: return false;
  }
}

bool Universe::strike_site(Fault fault, Duration lasts) {
  const Instant end = time_.now() + lasts;
  const std::string& run = told_policy_.run.text;
  switch (fault) {
    case Fault::QueueJam: cluster_->jam(end); return true;
    case Fault::Preempted: return cluster_->preempt(run);
    case Fault::LimitCut: return cluster_->cut_limit(run, random_.between(2min, 40min));
    case Fault::StaleHandles:
      stale_until_ = std::max(stale_until_, end);
      lines_from_ = std::max(lines_from_, end);
      refuse_files();
      time_.at(end, [this] {
        refuse_files();
        take_lines();
      });
      return true;
    case Fault::TornLines: torn_until_ = std::max(torn_until_, end); return true;
    case Fault::WrongExclusion: {
      if (!daemon_->up() || daemon_->asleep()) return false;
      core::OperatorAsked asked;
      asked.verb = "exclude";
      asked.by = "carol";
      asked.reason = "a hunch";
      asked.via = "socket";
      asked.arguments["for"] = format_duration(random_.between(1h, 12h));
      const auto& nodes = cluster_->nodes();
      const auto first = random_.below(nodes.size());
      const auto count = 1 + random_.below(3);
      auto at = std::next(nodes.begin(), static_cast<std::ptrdiff_t>(first));
      for (std::uint64_t i = 0; i < count && at != nodes.end(); ++i, ++at)
        asked.nodes.push_back(at->first);
      person_at_ = time_.now();
      daemon_->feed({told_policy_.run, asked, {}});
      return true;
    }
    case Fault::LinkFlap: return flap_link(lasts);
    case Fault::RowRemap: return lose_rows(lasts);
    case Fault::Suspended: return training_->suspend(lasts);
    case Fault::ClockSkew: return training_->skew_clock(random_.between(0s, 2h) - 1h);
    case Fault::LateFiles: late_until_ = std::max(late_until_, end); return true;
    default: return false;
  }
}

void Universe::tell_kernel(const SimGeneration& g, wire::KernelLine line) {
  wire::AgentEvent event;
  event.at = time_.now();
  event.body = std::move(line);
  lines_.push_back({g.number, wire::format_event_line(event)});
  time_.after(200ms, [this] { take_lines(); });
}

bool Universe::flap_link(Duration lasts) {
  const SimGeneration* g = training_->live();
  if (g == nullptr || g->attempt_nodes.empty()) return false;
  const NodeName node = g->attempt_nodes[random_.below(g->attempt_nodes.size())];
  if (!training_->flap(node, lasts)) return false;
  wire::KernelLine down;
  down.node = node;
  down.event_class = "net_link_down";
  down.text = "mlx5_core 0000:41:00.0 ib0: Link down";
  tell_kernel(*g, std::move(down));
  return true;
}

// A row of a GPU's memory goes bad; later no spare row is left. What it computes goes on.
bool Universe::lose_rows(Duration lasts) {
  const SimGeneration* g = training_->live();
  if (g == nullptr || g->attempt_nodes.empty()) return false;
  wire::KernelLine line;
  line.node = g->attempt_nodes[random_.below(g->attempt_nodes.size())];
  line.event_class = "xid";
  line.xid = 63;
  line.gpu_pci = "0000:10:1c";
  line.node_suspect = NodeSuspect::IfRepeated;
  line.text =
      "NVRM: Xid (PCI:0000:10:1c): 63, Row Remapper: New row marked for remapping, reset gpu to "
      "activate";
  tell_kernel(*g, line);
  line.xid = 64;
  line.node_suspect = NodeSuspect::Yes;
  line.text = "NVRM: Xid (PCI:0000:10:1c): 64, row remapper recording failure";
  time_.after(lasts, [this, line] {
    const SimGeneration* then = training_->live();
    if (then != nullptr && std::find(then->attempt_nodes.begin(), then->attempt_nodes.end(),
                                     line.node) != then->attempt_nodes.end())
      tell_kernel(*then, line);
  });
  return true;
}

// What the daemon's host cannot read or write now.
void Universe::refuse_files() {
  if (disk_full_until_ > time_.now())
    files_.refuse("/runs/sim/", ENOSPC);
  else if (stale_until_ > time_.now())
    files_.refuse("/runs/sim/", ESTALE);
  else
    files_.refuse("");
}

// The line is seen half, or with a hole where its beginning will be: it is not there yet.
bool Universe::reads_torn(const std::string& line) {
  if (torn_until_ <= time_.now() || !random_.chance(500)) return false;
  std::string seen = line;
  const std::size_t cut = random_.below(line.size() - 1);
  if (random_.chance(500))
    seen.resize(cut);
  else
    std::fill(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(cut + 1), '\0');
  while (!seen.empty() && seen.back() == '\n') seen.pop_back();
  if (wire::parse_event_line(seen, "lead.jsonl"))
    checker_->broken("a torn line was taken for whole");
  time_.after(5s, [this] { take_lines(); });
  return true;
}

}  // namespace stoker::sim
