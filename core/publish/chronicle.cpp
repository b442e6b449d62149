// Folds the journal into chapters: one for each incident, from the first sign of trouble until the
// training moves again (or somebody must act), and short notes for what people asked.
#include "core/publish/chronicle.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "common/escape_markdown.hpp"
#include "common/printable.hpp"
#include "core/recover/resumed.hpp"

namespace stoker::core {

struct Chapter {
  std::string title;
  WallTime wall;
  Instant at;
  std::uint64_t reached = 0;  // iteration when it began
  std::vector<std::string> lines;
  bool trouble = true;
  std::string kind;
};

struct Story {
  RunName run;
  Sequence told;
  bool began = false;
  double gpus_per_node = 0;
  double step_s = 0;  // of the newest iterations
  std::string text;
  std::optional<Chapter> open;
  std::uint64_t iteration = 0, loaded = 0, repeated = 0;
  std::size_t nodes = 0;
  Instant first, last;
  Duration lost{};
  std::size_t incidents = 0;
  struct Kind {
    std::size_t times = 0;
    double node_hours = 0;
  };
  std::map<std::string, Kind> kinds;  // of the alert that announced it
};

namespace {

std::string minute(WallTime wall) {
  std::string text = format_rfc3339(wall).substr(0, 16);
  text[10] = ' ';
  return text;
}

std::string clock_time(WallTime wall) {
  return format_rfc3339(wall).substr(11, 8);
}

// A word that begins a sentence is written large, a name (n01:, step-000070) as it is.
std::string sentence(std::string text) {
  const std::string_view first = std::string_view(text).substr(0, text.find_first_of(" ,;"));
  const bool word = !first.empty() && std::all_of(first.begin(), first.end(),
                                                  [](char c) { return c >= 'a' && c <= 'z'; });
  if (word) text[0] = static_cast<char>(text[0] - 'a' + 'A');
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

// A reason may repeat what a training, a colleague or SLURM said: one line of text, for a terminal
// too.
std::string as_text(const std::string& reason) {
  return escape_markdown(printable(reason));
}

// Whole words of it.
std::string shortened(const std::string& title) {
  constexpr std::size_t kLongest = 200;
  if (title.size() <= kLongest) return title;
  std::string text = title.substr(0, title.rfind(' ', kLongest));
  while (!text.empty() && std::string_view(",;:").find(text.back()) != std::string_view::npos)
    text.pop_back();
  return text + " …";
}

std::string heading(const std::string& title, WallTime wall) {
  return fmt::format("## {} ({})\n\n", as_text(shortened(sentence(title))), minute(wall));
}

bool is_trouble(const std::string& state) {
  return state == "suspect" || state == "recovering" || state == "held";
}

// The title: the alert's summary where there is one, else the first clause of the reason.
std::string title_of(const Decision& decision) {
  for (const Action& action : decision.actions)
    if (const auto* alert = std::get_if<SendAlert>(&action); alert != nullptr && !alert->resolved)
      return alert->summary;
  return decision.reason.substr(0, decision.reason.find(';'));
}

// The kind of its alert; "" = it has none.
std::string kind_of_trouble(const JournalRow& row) {
  for (const Action& action : row.decision.actions)
    if (const auto* alert = std::get_if<SendAlert>(&action); alert != nullptr && !alert->resolved)
      if (const auto kind = alert->labels.find("kind");
          kind != alert->labels.end() && kind->second != "node_convicted")
        return kind->second;
  return "";
}

// What people call a kind of trouble; the others by their own name.
std::string cause_text(const std::string& kind) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"", "other causes"},
      {"hang", "hangs"},
      {"rank_crash", "crashes of ranks"},
      {"numbers_differ", "numbers that must be equal and were not"},
      {"node_fault", "faults of nodes"},
      {"agents_silent", "silent agents"},
      {"job_failed", "failed jobs"},
      {"crash_loop", "crash loops"},
      {"cancelled_by_hand", "jobs cancelled by hand"},
      {"checkpoint_refused", "refused checkpoints"},
      {"loss_spike", "loss spikes"},
      {"gpu_budget", "GPU budget"},
  };
  for (const auto& [name, words] : kWords)
    if (name == kind) return std::string(words);
  std::string words = kind;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

// A start that loads an unreported checkpoint shows it by its first iterations.
void note_start(Story& story, const JournalRow& row) {
  const Decision& d = row.decision;
  if (d.to == "starting" && d.from != "starting" && d.from != "suspect") story.loaded = 0;
  const auto* digest = std::get_if<Digest>(&row.event.body);
  if (digest != nullptr && story.loaded == 0 && d.from == "starting" && d.to == "training")
    story.loaded = resumed_at(*digest).value;
}

void track(Story& story, const JournalRow& row) {
  if (const auto* digest = std::get_if<Digest>(&row.event.body)) {
    story.iteration = std::max(story.loaded, digest->last.iteration_max.value);
    if (digest->iteration_ms.count > 0 && digest->iteration_ms.p50 > 0)
      story.step_s = digest->iteration_ms.p50 / 1e3;
    return;
  }
  const auto* said = std::get_if<AgentSaid>(&row.event.body);
  if (said == nullptr) return;
  if (const auto* e = std::get_if<wire::AttemptStarted>(&said->event.body)) {
    story.loaded = e->iteration.value;
    story.nodes = e->nodes.size();
    if (!story.open) story.iteration = story.loaded;
  } else if (const auto* e2 = std::get_if<wire::PhaseEdge>(&said->event.body)) {
    story.iteration = std::max(story.iteration, e2->iteration.value);
  } else if (const auto* e3 = std::get_if<wire::GenerationStarted>(&said->event.body)) {
    if (story.nodes == 0) story.nodes = e3->nodes.size();
  }
}

std::string hours_text(const Story& story, double node_hours) {
  if (story.gpus_per_node > 0)
    return fmt::format("{:.2f} GPU hours", node_hours * story.gpus_per_node);
  return fmt::format("{:.3f} node hours", node_hours);
}

double node_hours(const Story& story, Duration lost) {
  return to_seconds(lost) / 3600 * static_cast<double>(story.nodes);
}

std::string costs_text(const Story& story) {
  std::string text;
  for (const auto& [kind, cost] : story.kinds)
    text += fmt::format("* {}: {} x, {}\n", cause_text(kind), cost.times,
                        hours_text(story, cost.node_hours));
  if (!text.empty()) text = "\nBy cause, with what was repeated:\n\n" + text;
  return text;
}

void close(Story& story, const JournalRow& row) {
  const Chapter& chapter = *story.open;
  story.text += heading(chapter.title, chapter.wall);
  for (const std::string& line : chapter.lines) story.text += line + "\n";
  if (chapter.trouble) {
    const Duration lost = row.event.at - chapter.at;
    const bool again = row.decision.to == "training";
    const std::uint64_t repeat =
        again && chapter.reached > story.loaded ? chapter.reached - story.loaded : 0;
    const double repeated_hours =
        static_cast<double>(repeat) * story.step_s / 3600 * static_cast<double>(story.nodes);
    const double hours = node_hours(story, lost);
    story.text += fmt::format(
        "\nLost: {} {} to repeat, {}, {}{}.\n", repeat, repeat == 1 ? "iteration" : "iterations",
        format_duration(lost), hours_text(story, hours),
        repeated_hours > 0 ? fmt::format(" and {} to repeat", hours_text(story, repeated_hours))
                           : "");
    Story::Kind& kind = story.kinds[chapter.kind];
    ++kind.times;
    kind.node_hours += hours + repeated_hours;
    story.lost += lost;
    story.repeated += repeat;
    ++story.incidents;
  }
  story.text += "\n";
  story.open.reset();
}

const RunPolicy* policy_of(const JournalRow& row) {
  if (const auto* added = std::get_if<RunAdded>(&row.event.body)) return &added->policy;
  if (const auto* changed = std::get_if<PolicyChanged>(&row.event.body)) return &changed->policy;
  return nullptr;
}

// What the training's own numbers showed: a spike, a slower step, how a rollback turned out.
bool tells_of_numbers(const JournalRow& row) {
  return std::holds_alternative<Digest>(row.event.body);
}

bool tells_of_budget(const JournalRow& row) {
  return std::any_of(row.decision.actions.begin(), row.decision.actions.end(), [](const auto& a) {
    const auto* alert = std::get_if<SendAlert>(&a);
    return alert != nullptr && alert->alert_kind == "gpu_budget";
  });
}

// How a command of `after:` ended, that it was given up, that a checkpoint was left out.
bool tells_of_followers(const JournalRow& row) {
  return std::holds_alternative<FollowerEnded>(row.event.body) ||
         std::any_of(row.decision.actions.begin(), row.decision.actions.end(), [](const auto& a) {
           const auto* alert = std::get_if<SendAlert>(&a);
           return alert != nullptr && alert->alert_kind.starts_with("follower_");
         });
}

bool worth_a_note(const JournalRow& row) {
  return tells_of_numbers(row) || tells_of_followers(row) || tells_of_budget(row) ||
         std::holds_alternative<OperatorAsked>(row.event.body) ||
         std::holds_alternative<DaemonStarted>(row.event.body) ||
         std::holds_alternative<SchedulerBlind>(row.event.body) ||
         std::holds_alternative<SchedulerSees>(row.event.body) ||
         std::holds_alternative<Quarantined>(row.event.body);
}

void tell(Story& story, const JournalRow& row) {
  const Decision& d = row.decision;
  const bool changed = d.from != d.to;
  const std::string line =
      fmt::format("* {} {}", clock_time(row.event.wall), as_text(sentence(d.reason)));
  const bool trouble =
      changed &&
      (is_trouble(d.to) || (d.to == "queued" && (d.from == "training" || d.from == "starting")));
  if (!story.open && !d.reason.empty()) {
    const bool planned = changed && d.to == "stopping";
    if (trouble || planned) {
      story.open = Chapter{title_of(d), row.event.wall, row.event.at,        story.iteration,
                           {},          trouble,        kind_of_trouble(row)};
    } else if (changed && (d.to == "finished" || d.to == "stopped" || d.from.empty())) {
      story.open =
          Chapter{title_of(d), row.event.wall, row.event.at, story.iteration, {}, false, ""};
    }
  }
  const auto* said = std::get_if<AgentSaid>(&row.event.body);
  const bool damaged =
      said != nullptr && std::holds_alternative<wire::DamagedCheckpoint>(said->event.body);
  if (story.open) {
    story.open->trouble = story.open->trouble || trouble;
    if (story.open->kind.empty()) story.open->kind = kind_of_trouble(row);
    const bool worth = changed || said != nullptr || worth_a_note(row);
    if (!d.reason.empty() && worth) story.open->lines.push_back(line);
    const bool over =
        d.to == "training" || d.to == "finished" || d.to == "stopped" || d.to == "held";
    if (changed && over) close(story, row);
  } else if (!d.reason.empty() && (worth_a_note(row) || damaged || d.rejected)) {
    story.text += line + "\n\n";
  }
}

}  // namespace

Chronicle::Chronicle(RunName run) : story_(std::make_unique<Story>()) {
  story_->run = std::move(run);
}
Chronicle::~Chronicle() = default;
Chronicle::Chronicle(Chronicle&&) noexcept = default;
Chronicle& Chronicle::operator=(Chronicle&&) noexcept = default;

Sequence Chronicle::told() const {
  return story_->told;
}

bool Chronicle::tell(const JournalRow& row) {
  Story& story = *story_;
  if (row.seq <= story.told && row.seq.value != 0) return false;
  story.told = row.seq;
  const bool site_note = row.event.run.empty() && worth_a_note(row);
  if (row.event.run != story.run && !(story.began && site_note)) return false;
  if (const RunPolicy* policy = policy_of(row))
    story.gpus_per_node = policy->scheduler.gpus_per_node.value_or(0);
  const std::size_t length = story.text.size();
  const std::size_t lines = story.open ? story.open->lines.size() : 0;
  const bool was_open = story.open.has_value();
  if (!story.began) {
    story.began = true;
    story.first = row.event.at;
    story.text += fmt::format("{} was put under supervision {} UTC.\n\n", story.run.text,
                              minute(row.event.wall));
  }
  story.last = row.event.at;
  note_start(story, row);
  core::tell(story, row);
  track(story, row);
  return story.text.size() != length || story.open.has_value() != was_open ||
         (story.open && story.open->lines.size() != lines);
}

std::string Chronicle::text() const {
  const Story& story = *story_;
  std::string text = fmt::format("# Chronicle of {}\n\n", story.run.text) + story.text;
  if (story.open) {
    text += heading(story.open->title, story.open->wall);
    for (const std::string& line : story.open->lines) text += line + "\n";
    text += "\nThis is not over.\n\n";
  }
  const Duration whole = story.last - story.first;
  return text +
         fmt::format("## So far\n\n{} {} in {}; {} iterations repeated, {} lost ({}).\n",
                     story.incidents, story.incidents == 1 ? "incident" : "incidents",
                     format_duration(whole), story.repeated, format_duration(story.lost),
                     hours_text(story, node_hours(story, story.lost))) +
         costs_text(story);
}

std::string chronicle(const std::vector<JournalRow>& rows, const RunPolicy& policy) {
  Chronicle story(policy.run);
  for (const JournalRow& row : rows) story.tell(row);
  return story.text();
}

}  // namespace stoker::core
