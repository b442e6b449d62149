// Folds the journal into chapters: one for each incident, from the first sign of trouble until the
// training moves again (or somebody must act), and short notes for what people asked.
#include "core/publish/chronicle.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <utility>

#include "common/escape_markdown.hpp"
#include "common/printable.hpp"
#include "core/nodes/accuse.hpp"
#include "core/publish/goodput.hpp"
#include "core/recover/resumed.hpp"
#include "core/sentence.hpp"

namespace stoker::core {

struct Chapter {
  std::string title;
  WallTime wall;
  Instant at;
  std::uint64_t reached = 0;  // iteration when it began
  std::vector<std::string> lines;
  bool trouble = true;
};

// A chapter that is over: what it cost is known by the run's account, and grows while iterations
// are repeated.
struct Loss {
  WallTime from, to;
  Duration lasted{};
  std::uint64_t repeated = 0;
};

struct Story {
  RunName run;
  Sequence told;
  bool began = false;
  std::vector<std::pair<std::string, std::optional<Loss>>> pieces;  // text, then its loss
  std::optional<Chapter> open;
  std::uint64_t iteration = 0, loaded = 0, repeated = 0;
  Instant first, last;
  Duration lost{};
  std::size_t incidents = 0;

  [[nodiscard]] std::size_t length() const {
    return pieces.size() + (pieces.empty() ? 0 : pieces.back().first.size());
  }
  void add(const std::string& text) {
    if (pieces.empty() || pieces.back().second) pieces.emplace_back();
    pieces.back().first += text;
  }
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
    return;
  }
  const auto* said = std::get_if<AgentSaid>(&row.event.body);
  if (said == nullptr) return;
  if (const auto* e = std::get_if<wire::AttemptStarted>(&said->event.body)) {
    story.loaded = e->iteration.value;
    if (!story.open) story.iteration = story.loaded;
  } else if (const auto* e2 = std::get_if<wire::PhaseEdge>(&said->event.body)) {
    story.iteration = std::max(story.iteration, e2->iteration.value);
  }
}

std::string costs_text(const wire::StatusGoodput* account) {
  if (account == nullptr) return "";
  std::string text;
  for (const wire::StatusCost& cost : account->causes)
    if (cost.times > 0)
      text += fmt::format("* {}: {} x, {}\n", failures_text(cost.cause), cost.times,
                          cost_text(cost.gpu_hours, cost.node_hours));
  if (!text.empty()) text = "\nBy cause, with what was repeated:\n\n" + text;
  return text;
}

// The account's own figures of the incidents that began in the chapter; it keeps the newest ones.
std::string loss_text(const Loss& loss, const wire::StatusGoodput* account) {
  std::string text = fmt::format("\nLost: {} to repeat, {}", count_text(loss.repeated, "iteration"),
                                 format_duration(loss.lasted));
  if (account == nullptr) return text + ".\n\n";
  double gpu_hours = 0, node_hours = 0;
  bool known = false;
  for (const wire::StatusIncident& incident : account->incidents) {
    const auto at = parse_rfc3339(incident.time);
    if (!at || *at < std::chrono::floor<std::chrono::seconds>(loss.from) || *at > loss.to) continue;
    known = true;
    gpu_hours += incident.gpu_hours;
    node_hours += incident.node_hours;
  }
  if (known) text += fmt::format("; {} with what was repeated", cost_text(gpu_hours, node_hours));
  return text + ".\n\n";
}

void close(Story& story, const JournalRow& row) {
  const Chapter& chapter = *story.open;
  story.add(heading(chapter.title, chapter.wall));
  for (const std::string& line : chapter.lines) story.add(line + "\n");
  if (chapter.trouble) {
    const Duration lost = row.event.at - chapter.at;
    const bool again = row.decision.to == "training";
    const std::uint64_t repeat =
        again && chapter.reached > story.loaded ? chapter.reached - story.loaded : 0;
    story.pieces.back().second = Loss{chapter.wall, row.event.wall, lost, repeat};
    story.lost += lost;
    story.repeated += repeat;
    ++story.incidents;
  } else {
    story.add("\n");
  }
  story.open.reset();
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

// Of what agents report all belongs to the story, but what each start repeats of each node.
bool tells_of_agents(const JournalRow& row) {
  const auto* said = std::get_if<AgentSaid>(&row.event.body);
  if (said == nullptr) return false;
  if (const auto* sources = std::get_if<wire::HealthSources>(&said->event.body))
    return row.decision.reason != health_sources_text(*sources);  // news of an accused GPU
  const auto* refused = std::get_if<wire::ControlRefused>(&said->event.body);
  return refused == nullptr || refused->stale;
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
      story.open = Chapter{title_of(d), row.event.wall, row.event.at, story.iteration, {}, trouble};
    } else if (changed && (d.to == "finished" || d.to == "stopped" || d.from.empty())) {
      story.open = Chapter{title_of(d), row.event.wall, row.event.at, story.iteration, {}, false};
    }
  }
  const auto* said = std::get_if<AgentSaid>(&row.event.body);
  const bool damaged =
      said != nullptr && std::holds_alternative<wire::DamagedCheckpoint>(said->event.body);
  if (story.open) {
    story.open->trouble = story.open->trouble || trouble;
    const bool worth = changed || tells_of_agents(row) || worth_a_note(row);
    if (!d.reason.empty() && worth) story.open->lines.push_back(line);
    const bool over =
        d.to == "training" || d.to == "finished" || d.to == "stopped" || d.to == "held";
    if (changed && over) close(story, row);
  } else if (!d.reason.empty() && (worth_a_note(row) || damaged || d.rejected)) {
    story.add(line + "\n\n");
  }
}

}  // namespace

Chronicle::Chronicle(RunName run) : story_(std::make_unique<Story>()) {
  story_->run = std::move(run);
}
Chronicle::~Chronicle() = default;
Chronicle::Chronicle(Chronicle&&) noexcept = default;
Chronicle& Chronicle::operator=(Chronicle&&) noexcept = default;

Sequence Chronicle::last_row() const {
  return story_->told;
}

bool Chronicle::tell(const JournalRow& row) {
  Story& story = *story_;
  if (row.seq <= story.told && row.seq.value != 0) return false;
  story.told = row.seq;
  const bool site_note = row.event.run.empty() && worth_a_note(row);
  if (row.event.run != story.run && !(story.began && site_note)) return false;
  const std::size_t length = story.length();
  const std::size_t lines = story.open ? story.open->lines.size() : 0;
  const bool was_open = story.open.has_value();
  if (!story.began) {
    story.began = true;
    story.first = row.event.at;
    story.add(fmt::format("{} was put under supervision {} UTC.\n\n", story.run.text,
                          minute(row.event.wall)));
  }
  story.last = row.event.at;
  note_start(story, row);
  core::tell(story, row);
  track(story, row);
  return story.length() != length || story.open.has_value() != was_open ||
         (story.open && story.open->lines.size() != lines);
}

std::string Chronicle::text(const wire::StatusGoodput* account) const {
  const Story& story = *story_;
  std::string text = fmt::format("# Chronicle of {}\n\n", story.run.text);
  for (const auto& [words, loss] : story.pieces)
    text += words + (loss ? loss_text(*loss, account) : "");
  if (story.open) {
    text += heading(story.open->title, story.open->wall);
    for (const std::string& line : story.open->lines) text += line + "\n";
    text += "\nThis is not over.\n\n";
  }
  const Duration whole = story.last - story.first;
  return text +
         fmt::format("## So far\n\n{} in {}; {} repeated, {} without training.\n",
                     count_text(story.incidents, "incident"), format_duration(whole),
                     count_text(story.repeated, "iteration"), format_duration(story.lost)) +
         costs_text(account);
}

std::string chronicle(const std::vector<JournalRow>& rows, const RunName& run,
                      const wire::StatusGoodput* account) {
  Chronicle story(run);
  for (const JournalRow& row : rows) story.tell(row);
  return story.text(account);
}

}  // namespace stoker::core
