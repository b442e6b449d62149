#include "cli/init/questions.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "configs/schema/run_schema.hpp"
#include "configs/schema/yaml_scalars.hpp"
#include "slurm/script_words.hpp"

namespace stoker::cli::init {
namespace {

constexpr std::size_t kLongestAnswer = 64u << 10;

std::string trimmed(std::string text) {
  const auto begin = text.find_first_not_of(" \t\r");
  const auto end = text.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::string judge_count(const std::string& answer, std::uint64_t most) {
  const auto n = configs::parse_count(answer);
  return n && *n >= 1 && *n <= most ? "" : fmt::format("expected a number from 1 to {}", most);
}

// The one file of the folder that looks like a batch script or a training; "" = none, or several.
std::string candidate(const std::string& folder) {
  const auto names = os::list_directory(folder);
  if (!names) return "";
  for (const auto& endings :
       {std::array{".slurm", ".sbatch"}, std::array{"train.py", "train.sh"}}) {
    std::string found;
    for (const std::string& name : *names) {
      if (!name.ends_with(endings[0]) && !name.ends_with(endings[1])) continue;
      if (!found.empty()) return "";
      found = name;
    }
    if (!found.empty()) return found;
  }
  return "";
}

// How an answer becomes the value of a key.
struct Question {
  const char* key;
  const char* text;
  std::function<std::string(const std::string&)> judge;
  std::function<std::string(const Host&, const std::string&)> value;  // as YAML
};

std::string as_text(const Host&, const std::string& answer) {
  return yaml_text(answer);
}

// A number or a duration: judged before, so that it needs no quotes.
std::string as_it_is(const Host&, const std::string& answer) {
  return answer;
}

// "exit", or the last iteration.
std::string end_value(const Host&, const std::string& answer) {
  return answer == "exit" || answer == "exit_zero" ? "exit_zero"
                                                   : fmt::format("{{iteration: {}}}", answer);
}

const std::vector<Question>& value_questions() {
  static const std::vector<Question> questions{
      {"run", "name of the run",
       [](const std::string& a) {
         return configs::is_run_name(a) ? "" : "expected letters, digits, '.', '_' or '-'";
       },
       as_text},
      {"scheduler.kind", "where it runs: slurm, or local (this host)",
       [](const std::string& a) {
         return a == "slurm" || a == "local" ? "" : "expected slurm or local";
       },
       as_text},
      {"scheduler.nodes", "nodes", [](const std::string& a) { return judge_count(a, 16384); },
       as_it_is},
      {"train.ranks_per_node", "processes a node",
       [](const std::string& a) { return judge_count(a, 256); }, as_it_is},
      {"train.finished", "finished when it ends with 0 (exit), or at which iteration",
       [](const std::string& a) {
         return a == "exit" || a == "exit_zero" ? std::string() : judge_count(a, UINT64_MAX);
       },
       end_value},
      {"checkpoints.directory", "folder of its checkpoints, or none",
       [](const std::string&) { return ""; },
       [](const Host& host, const std::string& answer) {
         return yaml_text(configs::path_from(host.folder, answer));
       }}};
  return questions;
}

// What SLURM needs to know of a command; a batch script says it itself.
const std::vector<Question>& slurm_questions() {
  static const std::vector<Question> questions{
      {"scheduler.partition", "partition, or none", [](const std::string&) { return ""; }, as_text},
      {"scheduler.account", "account, or none", [](const std::string&) { return ""; }, as_text},
      {"scheduler.time_limit", "time limit of one job",
       [](const std::string& a) {
         const auto d = parse_duration(a);
         return d && *d > Duration(0) ? "" : "expected a duration like 20h";
       },
       as_it_is}};
  return questions;
}

// What an empty line stands for.
std::string fallback_of(const Question& question, const Entry* entry) {
  const std::string key = question.key;
  if (key == "scheduler.time_limit") return "20h";
  if (entry == nullptr) return "none";
  return key == "train.finished" ? "exit" : entry->value;
}

Status ask_one(Questions& questions, const Host& host, const Question& question, Draft& draft) {
  const Entry* entry = draft.find(question.key);
  if (entry != nullptr && entry->how != How::Assumed) return ok();
  const std::string fallback = fallback_of(question, entry);
  STOKER_TRY(answer, questions.ask(question.text, fallback, question.judge));
  if (answer == fallback && entry != nullptr) return ok();
  if (answer == "none") return ok();
  const std::string value = question.value(host, answer);
  draft.put(question.key, value, answer == fallback ? How::Assumed : How::Answered,
            answer == fallback ? "stoker's default" : question.text);
  return ok();
}

}  // namespace

Result<std::string> Questions::ask(const std::string& question, const std::string& fallback,
                                   const Judge& judge) {
  for (;;) {
    console_.raw_error(
        printable(fallback.empty() ? question : fmt::format("{} [{}]", question, fallback)) + ": ");
    const auto line = read_();
    std::string answer = trimmed(line.value_or(""));
    if (!line) console_.raw_error(printable_lines("\n"));
    if (answer.empty() && !fallback.empty()) return fallback;
    const std::string wrong = answer.empty() ? "no answer" : judge(answer);
    if (wrong.empty()) return answer;
    if (!line || !asked_again_)
      return fail(answer.empty() ? "no answer to: " + question
                                 : fmt::format("\"{}\" is no answer to \"{}\": {}",
                                               printable(answer), question, wrong),
                  "standard input",
                  "give a script, stoker init train.slurm, or a command, stoker init -- torchrun "
                  "train.py; or answer on a terminal");
    console_.say(printable(wrong));
  }
}

Questions::ReadLine standard_input() {
  return []() -> std::optional<std::string> {
    std::string line;
    for (char c = 0;;) {
      const ssize_t n = ::read(STDIN_FILENO, &c, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return line.empty() ? std::nullopt : std::optional(line);
      if (c == '\n') return line;
      if (line.size() < kLongestAnswer) line += c;
    }
  };
}

Result<Draft> ask_for_training(Questions& questions, const Host& host) {
  std::optional<Draft> draft;
  const auto judge = [&](const std::string& answer) -> std::string {
    const std::vector<std::string> words = slurm::split_words(answer);
    if (words.empty()) return "no command";
    const bool script =
        words.size() == 1 && os::exists(configs::path_from(host.folder, words.front()));
    auto read = script ? draft_of_script(host, words.front()) : draft_of_command(host, words);
    if (!read) return read.error().message();
    draft = std::move(*read);
    return "";
  };
  const std::string fallback = candidate(host.folder);
  STOKER_TRY(answer,
             questions.ask("what starts the training: a batch script, a Python file or a command",
                           fallback, judge));
  if (!draft)
    if (const std::string wrong = judge(answer); !wrong.empty()) return fail(wrong, answer);
  return std::move(*draft);
}

Status ask_for_values(Questions& questions, const Host& host, Draft& draft) {
  const bool batch = draft.source == "batch_script";
  for (const Question& question : value_questions()) {
    const bool of_script = batch && draft.find(question.key) == nullptr;
    if (of_script && std::string_view(question.key) != "checkpoints.directory") continue;
    STOKER_TRY_STATUS(ask_one(questions, host, question, draft));
  }
  const Entry* kind = draft.find("scheduler.kind");
  if (batch || kind == nullptr || kind->value != "slurm") return ok();
  for (const Question& question : slurm_questions())
    STOKER_TRY_STATUS(ask_one(questions, host, question, draft));
  return ok();
}

}  // namespace stoker::cli::init
