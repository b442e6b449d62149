// One cause out of many findings. What the training outlived is no cause. Of the rest, a finding
// that another one explains (cause_rules.hpp) is an effect; of those that nothing explains the
// earliest is the cause, shown by the heaviest line of its class. Clues count only where nothing
// fatal was found, warnings only where nothing failed.
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "diagnose/cause/blame.hpp"
#include "diagnose/cause/bystanders.hpp"
#include "diagnose/cause/diagnosis.hpp"
#include "diagnose/input/time_notes.hpp"

namespace stoker::diagnose {

namespace {

using Found = const Finding*;

// What the training or its good end outlived. The kernel log has its own lines: they stay.
bool outlived(const Finding& f, const ScannedLog& log) {
  if (log.kernel_log || f.signature == nullptr) return false;
  return log.success_line != 0 || f.line < log.progressed_line;
}

enum class Order { Before, After, Unknown };

Order order_of(const Finding& a, const Finding& b) {
  if (a.file == b.file) return a.line <= b.line ? Order::Before : Order::After;
  if (a.time_ms && b.time_ms && *a.time_ms != *b.time_ms)
    return *a.time_ms < *b.time_ms ? Order::Before : Order::After;
  return Order::Unknown;
}

bool explains(const CauseRules& rules, const Finding& cause, const Finding& effect) {
  const FailureClass from = cause.failure_class, to = effect.failure_class;
  if (from == to) {
    return cause.xid != 0 && cause.gpu_pci == effect.gpu_pci && cause.xid != effect.xid &&
           rules.xid_explains(cause.xid, effect.xid);
  }
  const auto late = [](const Finding& f) {
    return f.signature != nullptr && f.signature->told_late;
  };
  if (late(cause) && rules.explains_told_late(from, to)) return true;
  if (late(effect) && rules.explains_told_late(to, from)) return false;
  if (rules.explains(from, to, false)) return true;
  if (rules.explains(to, from, false)) return false;  // no effect explains what always causes it
  switch (order_of(cause, effect)) {
    case Order::Before: return rules.explains(from, to, true);
    case Order::After: return false;
    case Order::Unknown: return rules.explains_unordered(from, to);
  }
  return false;
}

bool earlier(Found a, Found b) {
  const Order order = order_of(*a, *b);
  if (order != Order::Unknown) return order == Order::Before;
  if (a->weight != b->weight) return a->weight > b->weight;
  return a->file < b->file;
}

// The first finding of each class and, for codes, GPU: enough for the ranking, and few.
std::vector<Found> representatives(const std::vector<Found>& all) {
  std::map<std::tuple<FailureClass, std::uint32_t, std::string, int>, Found> first;
  for (const Found f : all) {
    auto& slot = first[{f->failure_class, f->file, f->gpu_pci, f->xid}];
    if (slot == nullptr || f->line < slot->line) slot = f;
  }
  std::map<std::tuple<FailureClass, std::string, int>, std::vector<Found>> by_class;
  for (const auto& [key, f] : first) by_class[{f->failure_class, f->gpu_pci, f->xid}].push_back(f);
  std::vector<Found> chosen;
  for (auto& [key, group] : by_class) {
    const auto best = std::min_element(group.begin(), group.end(), earlier);
    chosen.push_back(*best);
  }
  return chosen;
}

struct Ranking {
  Found root = nullptr;
  int rivals = 0;  // further classes that nothing explains
  bool explained_some = false;
};

Ranking rank_causes(const std::vector<Found>& candidates, const CauseRules& rules) {
  const auto few = representatives(candidates);
  Ranking ranking;
  std::set<FailureClass> unexplained;
  std::vector<Found> roots;
  for (const Found f : few) {
    const bool effect = std::any_of(few.begin(), few.end(), [&](Found other) {
      return other != f && explains(rules, *other, *f);
    });
    if (effect) {
      ranking.explained_some = true;
      continue;
    }
    roots.push_back(f);
    unexplained.insert(f->failure_class);
  }
  if (roots.empty()) roots = few;  // a ring of explained-by-arrival: the earliest decides
  ranking.root = *std::min_element(roots.begin(), roots.end(), earlier);
  ranking.rivals = static_cast<int>(unexplained.size()) - 1;
  return ranking;
}

// The heaviest line of the root's class shows it best; of codes, the root itself.
Found best_line(Found root, const std::vector<Found>& candidates) {
  Found best = root;
  if (root->xid != 0) return best;
  for (const Found f : candidates)
    if (f->failure_class == root->failure_class && f->weight > best->weight) best = f;
  return best;
}

// A warning is heavier the more it asks for: what stands in classes.yaml as an action.
Found chosen_warning(const std::vector<Found>& warnings, const CauseRules& rules) {
  const auto weight = [&](Found f) {
    const bool acts = rules.meaning(f->failure_class).advice.action != RunAction::None;
    return f->weight + (acts ? 10 : 0);
  };
  return *std::min_element(warnings.begin(), warnings.end(), [&](Found a, Found b) {
    if (weight(a) != weight(b)) return weight(a) > weight(b);
    return earlier(a, b);
  });
}

bool is_ending(FailureClass c) {
  return c == FailureClass::SlurmTaskExit || c == FailureClass::TorchelasticChildFailed;
}

// Where only the end was reported, an exception printed shortly before says more.
Found clue_before(Found root, const std::vector<Found>& clues) {
  constexpr std::uint64_t kReach = 200;
  Found best = nullptr;
  for (const Found clue : clues)
    if (clue->file == root->file && clue->line < root->line && clue->line + kReach > root->line &&
        clue->failure_class == FailureClass::PythonTraceback && clue->weight > 1 &&
        (best == nullptr || clue->line < best->line))
      best = clue;
  return best;
}

// When the training ran, as far as its own logs tell. Clocks of other zones are forgiven.
class RunTime {
 public:
  explicit RunTime(const std::vector<ScannedLog>& logs) {
    for (const auto& log : logs) {
      if (log.kernel_log) continue;
      if (log.first_time_ms && (!first_ || *log.first_time_ms < *first_))
        first_ = log.first_time_ms;
      if (log.last_time_ms && (!last_ || *log.last_time_ms > *last_)) last_ = log.last_time_ms;
    }
  }
  // What the kernel said days before or after is of another run.
  [[nodiscard]] bool far_from(const Finding& f) const {
    constexpr std::int64_t kZones = 15 * 3'600'000;
    if (!first_ || !last_ || !f.time_ms || !f.last_time_ms) return false;
    return *f.last_time_ms + kZones < *first_ || *f.time_ms > *last_ + kZones;
  }

 private:
  std::optional<std::int64_t> first_, last_;
};

struct Sorted {  // by severity, without what was outlived
  std::vector<Found> fatal, clues, warnings;
  std::uint64_t outlived = 0, in_passing = 0, other_runs = 0;
};

// A stack says less than the exception under it.
void drop_stacks_told(std::vector<Found>& clues) {
  const auto exception = [](Found f) { return f->signature && f->signature->needs_traceback; };
  const auto stack = [](Found f) {
    return f->signature && f->signature->decode == Decode::Traceback;
  };
  if (std::any_of(clues.begin(), clues.end(), exception)) std::erase_if(clues, stack);
}

Sorted sort_findings(const std::vector<ScannedLog>& logs) {
  Sorted sorted;
  const bool well_ended = std::any_of(logs.begin(), logs.end(),
                                      [](const ScannedLog& log) { return log.success_line != 0; });
  const RunTime run(logs);
  for (const auto& log : logs) {
    for (const auto& f : log.findings) {
      const bool other_run = log.kernel_log && run.far_from(f);
      sorted.other_runs += other_run ? 1 : 0;
      const bool warning = f.severity == Severity::Warning || other_run;
      if (!warning && outlived(f, log)) {
        ++sorted.outlived;
      } else if (warning || (well_ended && log.kernel_log)) {
        sorted.warnings.push_back(&f);
      } else if (f.severity == Severity::Fatal && !f.in_passing) {
        sorted.fatal.push_back(&f);
      } else {
        sorted.clues.push_back(&f);
      }
    }
  }
  drop_stacks_told(sorted.clues);
  const auto passing = [](Found f) { return f->in_passing; };
  if (sorted.fatal.empty() && std::all_of(sorted.clues.begin(), sorted.clues.end(), passing)) {
    sorted.in_passing = sorted.clues.size();
    sorted.clues.clear();
  }
  return sorted;
}

void add_followed(Diagnosis& d, const std::vector<const std::vector<Found>*>& groups,
                  const std::vector<ScannedLog>& logs) {
  std::map<FailureClass, Evidence> also;
  std::map<FailureClass, Found> first;
  for (const auto* group : groups) {
    for (const Found f : *group) {
      if (f->failure_class == d.failure_class || f->failure_class == FailureClass::Unknown)
        continue;
      Found& slot = first[f->failure_class];
      const bool better = slot == nullptr || earlier(f, slot);
      Evidence& e = also[f->failure_class];
      const std::uint64_t count = (slot == nullptr ? 0 : e.count) + f->count;
      if (better) {
        slot = f;
        e = {f->failure_class, logs[f->file].name, f->line, f->text, count, {}, {}};
      }
      e.count = count;
    }
  }
  std::vector<Found> order;
  for (const auto& [c, f] : first) order.push_back(f);
  std::stable_sort(order.begin(), order.end(), earlier);
  for (const Found f : order) d.followed.push_back(also[f->failure_class]);
}

// Further codes of the root's GPU, also those that ask for nothing.
void add_codes(Diagnosis& d, Found root, const Sorted& sorted) {
  d.gpu_pci = root->gpu_pci;
  if (root->xid == 0 || root->failure_class == FailureClass::Sxid) return;
  std::vector<Found> same;
  for (const auto* group : {&sorted.fatal, &sorted.warnings})
    for (const Found f : *group)
      if (f->xid != 0 && f->failure_class != FailureClass::Sxid && f->gpu_pci == root->gpu_pci)
        same.push_back(f);
  std::stable_sort(same.begin(), same.end(), earlier);
  for (const Found f : same)
    if (std::find(d.xids.begin(), d.xids.end(), f->xid) == d.xids.end()) d.xids.push_back(f->xid);
}

double confidence_of(const Ranking& ranking, Found line) {
  double confidence = line->confidence;
  if (ranking.explained_some) confidence += (1 - confidence) * 0.4;
  for (int i = 0; i < ranking.rivals; ++i) confidence *= 0.85;
  return confidence;
}

std::string summary_of(const Diagnosis& d, const Finding& line, const CauseRules& rules) {
  std::string text = rules.meaning(d.failure_class).summary;
  if (!line.meaning.empty())
    text += fmt::format(" ({} {}: {})", d.failure_class == FailureClass::Sxid ? "SXid" : "Xid",
                        line.xid, line.meaning);
  if (!d.gpu_pci.empty()) text += ", GPU " + d.gpu_pci;
  if (d.rank) text += fmt::format(", rank {}", *d.rank);
  if (!d.node.empty()) text += " on " + d.node;
  return text;
}

void settle(Diagnosis& d, Found line, const std::vector<ScannedLog>& logs, const Blame& blame,
            const CauseRules& rules) {
  d.root = Evidence{line->failure_class, logs[line->file].name, line->line,        line->text,
                    line->count,         line->time_ms,         line->last_time_ms};
  d.from_kernel = line->from_kernel;
  d.node = blame.nodes.empty() ? "" : blame.nodes.front();
  if (!blame.ranks.empty()) d.rank = blame.ranks.front();
  d.nodes = blame.nodes;
  d.ranks = blame.ranks;
  std::sort(d.ranks.begin(), d.ranks.end());
  d.advice = line->advice.value_or(rules.meaning(d.failure_class).advice);
  const bool suspect =
      line->node_suspect == NodeSuspect::Yes || d.advice.action == RunAction::RestartExcluding;
  if (suspect) d.exclude = d.nodes;
  d.summary = summary_of(d, *line, rules);
}

// A note about many logs is printed once.
void add_log_notes(Diagnosis& d, const std::vector<ScannedLog>& logs) {
  constexpr std::size_t kSaidEach = 3, kMostNotes = 32;
  std::map<std::string_view, std::size_t> times;
  for (const auto& log : logs)
    for (const auto& note : log.notes) ++times[note];
  for (const auto& log : logs)
    for (const auto& note : log.notes) {
      std::size_t& count = times[note];
      if (count == 0 || d.notes.size() >= kMostNotes) continue;
      const bool many = count > kSaidEach;
      d.notes.push_back(many ? fmt::format("{} and {} more logs: {}", log.name, count - 1, note)
                             : log.name + ": " + note);
      if (many) count = 0;
    }
}

void settle_without_root(Diagnosis& d, const CauseRules& rules, const Sorted& sorted,
                         bool read_nothing) {
  d.failure_class = FailureClass::Healthy;
  d.confidence = sorted.outlived + sorted.in_passing == 0 ? 0.9 : 0.8;
  if (read_nothing) {
    d.confidence = 0.1;
    d.notes.emplace_back("there was no line to read: this says nothing about the run");
  }
  d.summary = rules.meaning(d.failure_class).summary;
  d.advice = rules.meaning(d.failure_class).advice;
  if (sorted.outlived > 0)
    d.notes.push_back(fmt::format("{} findings that the training outlived", sorted.outlived));
  if (sorted.in_passing > 0)
    d.notes.push_back(
        fmt::format("{} findings only in lines logged as information", sorted.in_passing));
}

}  // namespace

Diagnosis find_cause(const std::vector<ScannedLog>& logs, const CauseRules& rules) {
  Diagnosis d;
  for (const auto& log : logs) d.last_iteration = std::max(d.last_iteration, log.last_iteration);
  add_log_notes(d, logs);
  const Sorted sorted = sort_findings(logs);
  if (!sorted.fatal.empty() || !sorted.clues.empty()) {
    const auto& candidates = sorted.fatal.empty() ? sorted.clues : sorted.fatal;
    const Ranking ranking = rank_causes(candidates, rules);
    Found line = best_line(ranking.root, candidates);
    const Blame blame = blame_for(*ranking.root, *line, candidates, logs);
    d.failure_class = ranking.root->failure_class;
    d.fatal = true;
    d.confidence = confidence_of(ranking, line);
    add_codes(d, ranking.root, sorted);
    if (is_ending(d.failure_class))
      if (const Found clue = clue_before(line, sorted.clues)) line = clue;
    settle(d, line, logs, blame, rules);
    add_followed(d, {&sorted.fatal, &sorted.warnings}, logs);
    if (d.failure_class == FailureClass::Unknown) d.last_lines = logs[line->file].last_lines;
    for (auto& note : time_notes(candidates, logs)) d.notes.push_back(std::move(note));
  } else if (!sorted.warnings.empty()) {
    const Found line = chosen_warning(sorted.warnings, rules);
    d.failure_class = line->failure_class;
    d.confidence = line->confidence;
    add_codes(d, line, sorted);
    settle(d, line, logs, blame_for(*line, *line, sorted.warnings, logs), rules);
    add_followed(d, {&sorted.warnings}, logs);
  } else {
    const auto empty = [](const ScannedLog& log) {
      return (log.lines == 0 || log.binary) && log.stacks.empty() && log.collectives.empty();
    };
    settle_without_root(d, rules, sorted, std::all_of(logs.begin(), logs.end(), empty));
  }
  if (sorted.other_runs > 0)
    d.notes.push_back(fmt::format(
        "{} findings of the kernel stand more than 15 hours apart from the run's own lines: they "
        "count as warnings",
        sorted.other_runs));
  hear_bystanders(d, logs, rules);
  return d;
}

}  // namespace stoker::diagnose
