// What an existing script tells by its lines.
#include "slurm/adopt.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <set>

#include "slurm/script_words.hpp"

namespace stoker::slurm {
namespace {

// sbatch(1) of 22.05: options whose value may be left out or that have none.
const std::set<std::string, std::less<>> kFlags{
    "contiguous", "exclusive",     "get-user-env", "hold",          "ignore-pbs",
    "no-kill",    "no-requeue",    "overcommit",   "oversubscribe", "parsable",
    "propagate",  "quiet",         "reboot",       "requeue",       "spread-job",
    "test-only",  "use-min-nodes", "verbose",      "wait"};
// Its short options.
const std::map<char, const char*> kShort{
    {'A', "account"},       {'a', "array"},         {'b', "begin"},      {'C', "constraint"},
    {'c', "cpus-per-task"}, {'D', "chdir"},         {'d', "dependency"}, {'e', "error"},
    {'F', "nodefile"},      {'G', "gpus"},          {'H', "hold"},       {'i', "input"},
    {'J', "job-name"},      {'k', "no-kill"},       {'L', "licenses"},   {'M', "clusters"},
    {'m', "distribution"},  {'N', "nodes"},         {'n', "ntasks"},     {'O', "overcommit"},
    {'o', "output"},        {'p', "partition"},     {'Q', "quiet"},      {'q', "qos"},
    {'S', "core-spec"},     {'s', "oversubscribe"}, {'t', "time"},       {'v', "verbose"},
    {'W', "wait"},          {'w', "nodelist"},      {'x', "exclude"}};

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void read_directive(std::string_view line, Directives& out) {
  const std::vector<std::string> words = ScriptWords::split(line);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    std::string name, value;
    bool has_value = false;
    if (word.starts_with("--")) {
      const auto equals = word.find('=');
      name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
      has_value = equals != std::string::npos;
      if (has_value) value = word.substr(equals + 1);
    } else if (word.size() >= 2 && word[0] == '-' && kShort.contains(word[1])) {
      name = kShort.at(word[1]);
      has_value = word.size() > 2;
      value = word.substr(2);
    } else {
      continue;
    }
    if (!has_value && !kFlags.contains(name) && i + 1 < words.size()) value = words[++i];
    out[name] = value;
  }
}

// "%x-%j.out" with what is the same in every job put in and * for the rest; sbatch(1), "filename
// pattern". "\\" before the name switches patterns off.
std::string log_pattern(std::string_view name, const std::string& run) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%' || i + 1 >= name.size()) {
      out += name[i];
      continue;
    }
    ++i;
    while (i < name.size() && name[i] >= '0' && name[i] <= '9') ++i;
    if (i >= name.size()) break;
    if (name[i] == '%')
      out += '%';
    else if (name[i] == 'x')
      out += run;
    else if (out.empty() || out.back() != '*')
      out += '*';
  }
  return out;
}

std::string in_folder(const std::string& folder, const std::string& path) {
  return path.starts_with('/') ? path : folder + "/" + path;
}

// Letters, digits, '.', '_', '-', beginning with one of the first two.
std::string run_name(std::string text) {
  for (char& c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
          c == '_' || c == '-'))
      c = '-';
  text = text.substr(0, 64);
  if (text.empty() || text[0] == '.' || text[0] == '_' || text[0] == '-') text = "run" + text;
  return text.substr(0, 64);
}

class Reader {
 public:
  Reader(Directives directives, const std::string& path,
         const std::map<std::string, std::string>& environment)
      : directives_(std::move(directives)), words_(environment) {
    script_.path = path;
    folder_ = path.substr(0, path.rfind('/'));
  }

  AdoptedScript read(std::string_view text) {
    read_names();
    read_size();
    read_times();
    read_outputs();
    for (const std::string& line : logical_lines(text)) read_line(line);
    conclude();
    return std::move(script_);
  }

 private:
  [[nodiscard]] std::string value(const std::string& name) const {
    const auto found = directives_.find(name);
    return found == directives_.end() ? std::string() : found->second;
  }
  [[nodiscard]] bool has(const std::string& name) const { return directives_.contains(name); }
  void note(std::string text) { script_.notes.push_back(std::move(text)); }

  void read_names() {
    const std::string stem = script_.path.substr(script_.path.rfind('/') + 1);
    const std::string name = value("job-name").empty() ? stem : value("job-name");
    script_.run = run_name(name);
    if (script_.run != name)
      note(fmt::format("the job's name \"{}\" cannot name a run; its jobs are called {}", name,
                       script_.run));
    if (!value("chdir").empty()) folder_ = in_folder(folder_, value("chdir"));
  }

  void read_size() {
    const std::string nodes = value("nodes");
    const auto tasks = number(value("ntasks-per-node"));
    if (const auto n = number(nodes.substr(0, nodes.find('-')))) {
      script_.nodes = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(*n, 1, 100000));
    } else if (const auto all = number(value("ntasks")); all && tasks && *tasks > 0) {
      script_.nodes = static_cast<std::uint32_t>((*all + *tasks - 1) / *tasks);
    } else {
      note("it does not say how many nodes it wants; scheduler.nodes is a guess");
    }
    if (nodes.find('-') != std::string::npos)
      note(fmt::format("--nodes={}: the smaller number is taken for the exclusion cap", nodes));
    std::uint32_t gpus = 1;
    for (const char* name : {"gpus-per-node", "gres"}) {
      const std::string text = value(name);
      const auto colon = text.rfind(':');
      const bool gpu = std::string(name) == "gpus-per-node" || text.starts_with("gpu");
      if (const auto n = number(text.substr(colon == std::string::npos ? 0 : colon + 1)); n && gpu)
        gpus = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(*n, 1, 64));
    }
    // One launcher a node starts a rank a GPU; otherwise each task is a rank.
    script_.ranks_per_node = tasks && *tasks > 1
                                 ? static_cast<std::uint32_t>(std::min<std::uint64_t>(*tasks, 64))
                                 : gpus;
  }

  void read_times() {
    script_.time_limit = parse_time_limit(value("time"));
    if (has("time") && !script_.time_limit)
      note(fmt::format("--time={} cannot be read", value("time")));
    const std::string array = value("array");
    if (!array.empty()) {
      std::uint32_t tasks = 0;
      const std::string range = array.substr(0, array.find('%'));
      const auto dash = range.find('-');
      const auto low = number(range.substr(0, dash));
      const auto high = dash == std::string::npos ? low : number(range.substr(dash + 1));
      if (low && high && *high >= *low && *high - *low < 1000)
        tasks = static_cast<std::uint32_t>(*high - *low + 1);
      if (tasks == 0)
        note(fmt::format("--array={} is no plain range; one task is submitted at a time", array));
      if (!array.ends_with("%1"))
        note(fmt::format("--array={} would run several tasks at once; they run one at a time",
                         array));
      script_.array_tasks = std::max(1u, tasks);
    }
    if (!value("exclude").empty()) script_.exclude.push_back(value("exclude"));
    const std::string signal = value("signal");
    const std::string name = signal.substr(0, signal.find('@'));
    if (name == "USR1" || name == "USR2" || name == "HUP" || name == "TERM")
      script_.save_signal = name;
    else if (name.starts_with("B:") || name.starts_with("RB:"))
      note(
          fmt::format("--signal={} is for the script's own trap, which only SLURM's wall reaches; "
                      "where the training itself saves by a signal, name it in train.save_signal",
                      signal));
    for (const char* replaced : {"comment", "dependency"})
      if (has(replaced))
        note(fmt::format("--{}={} is replaced at submission", replaced, value(replaced)));
    if (has("requeue")) note("--requeue is replaced by --no-requeue: stoker submits the next job");
  }

  void add_log(const std::string& path) {
    if (path.starts_with("/dev/")) return;
    const std::string whole = in_folder(folder_, path);
    if (std::find(script_.logs.begin(), script_.logs.end(), whole) == script_.logs.end())
      script_.logs.push_back(whole);
  }

  void read_outputs() {
    const char* usual = script_.array_tasks > 1 ? "slurm-%A_%a.out" : "slurm-%j.out";
    add_log(log_pattern(value("output").empty() ? usual : value("output"), script_.run));
    if (!value("error").empty()) add_log(log_pattern(value("error"), script_.run));
  }

  void read_line(const std::string& line) {
    const auto words = words_.read(line);
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      const ScriptWord& word = words[i];
      if (word.text == "tee") {
        std::size_t at = i + 1;
        while (at < words.size() && words[at].text.starts_with('-')) ++at;
        if (at < words.size()) take_log(words[at], line);
      } else if (word.text == ">" || word.text == ">>" || word.text == "&>" || word.text == "&>>") {
        if (words[i + 1].text.ends_with(".log") || words[i + 1].text.ends_with(".txt") ||
            words[i + 1].text.ends_with(".out"))
          take_log(words[i + 1], line);
      } else if (word.text == "--kill-switch-path" && words[i + 1].known) {
        script_.kill_switch = in_folder(folder_, words[i + 1].text);
      } else if (word.text == "--train-iters" && words[i + 1].known) {
        if (const auto n = number(words[i + 1].text)) iterations_ = n;
      } else if (word.text == "--train-samples") {
        by_samples_ = true;
      }
    }
  }

  void take_log(const ScriptWord& word, const std::string& line) {
    if (word.known) return add_log(word.text);
    note(fmt::format("a log could not be told from \"{}\" in: {}; add its path to watch.logs",
                     word.raw, line.substr(0, 120)));
  }

  void conclude() {
    if (!by_samples_) script_.last_iteration = iterations_;
    if (script_.kill_switch.empty() && script_.save_signal.empty())
      note(
          "neither a switch file nor a save signal was found: `save` is refused, `stop` cancels "
          "the "
          "job, and the wall cuts it short; see train.kill_switch and train.save_signal");
    if (!script_.last_iteration)
      note("finished: when the last iteration line says N of N; else set train.finished");
  }

  Directives directives_;
  ScriptWords words_;
  AdoptedScript script_;
  std::string folder_;
  std::optional<std::uint64_t> iterations_;
  bool by_samples_ = false;
};

}  // namespace

Directives read_directives(std::string_view text) {
  Directives out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("#SBATCH"))
      read_directive(line.substr(7), out);
    else if (line.find_first_not_of(" \t\r") != std::string_view::npos && line[0] != '#')
      break;  // sbatch reads none behind the first command
  }
  return out;
}

std::optional<Duration> parse_time_limit(std::string_view text) {
  std::uint64_t days = 0;
  const auto dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto n = number(text.substr(0, dash));
    if (!n || *n > 10000) return std::nullopt;
    days = *n;
    text.remove_prefix(dash + 1);
  }
  std::vector<std::uint64_t> parts;
  for (;;) {
    const auto colon = text.find(':');
    const auto n = number(text.substr(0, colon));
    if (!n || *n > 1'000'000 || parts.size() == 3) return std::nullopt;
    parts.push_back(*n);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  const auto at = [&](std::size_t i) { return i < parts.size() ? parts[i] : 0; };
  std::uint64_t seconds = days * 86400;
  if (dash != std::string_view::npos)  // d-h, d-h:m, d-h:m:s
    seconds += at(0) * 3600 + at(1) * 60 + at(2);
  else if (parts.size() == 3)  // h:m:s
    seconds += at(0) * 3600 + at(1) * 60 + at(2);
  else  // m, m:s
    seconds += at(0) * 60 + at(1);
  if (seconds == 0) return std::nullopt;
  return std::chrono::seconds(seconds);
}

Result<AdoptedScript> read_batch_script(std::string_view text, const std::string& path,
                                        const std::map<std::string, std::string>& environment) {
  if (!text.starts_with("#!"))
    return fail("no batch script: its first line is no \"#!\"", path,
                "sbatch would refuse it too; name the script that you submit");
  if (text.find('\0') != std::string_view::npos) return fail("no text: it holds a zero byte", path);
  return Reader(read_directives(text), path, environment).read(text);
}

}  // namespace stoker::slurm
