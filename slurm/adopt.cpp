// What an existing script says in its lines.
#include "slurm/adopt.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>

#include "slurm/launch.hpp"
#include "slurm/script_options.hpp"
#include "slurm/script_reader.hpp"

namespace stoker::slurm {
namespace {

// Of the options of sbatch: digits alone.
std::optional<std::uint64_t> number(std::string_view text) {
  return text.find('_') == std::string_view::npos ? whole_number(text) : std::nullopt;
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
  const std::string whole = path.starts_with('/') ? path : folder + "/" + path;
  return std::filesystem::path(whole).lexically_normal().string();
}

std::string minutes_text(Duration d) {
  return fmt::format("{} min", d / std::chrono::minutes(1));
}

class Reader {
 public:
  Reader(Directives directives, const std::string& path,
         const std::map<std::string, std::string>& environment)
      : directives_(std::move(directives)), environment_(environment) {
    script_.path = path;
    folder_ = path.substr(0, path.rfind('/'));
  }

  AdoptedScript read(std::string_view text) {
    read_names();
    read_size();
    read_times();
    read_outputs();
    ScriptReader reader(environment_, folder_);
    reader.read(text, [this](const ScriptCommand& command) { read_command(command); });
    options_.take_values(reader.assigned(), folder_);
    read_training();
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
    script_.run = run_name_of(name);
    if (script_.run != name)
      note(fmt::format("the job's name \"{}\" cannot name a run; its jobs are called {}", name,
                       script_.run));
    script_.cluster = value("clusters");
    if (script_.cluster.find(',') != std::string::npos) {
      note(
          fmt::format("--clusters={}: sbatch would take the one that is free first; stoker looks "
                      "for the run's jobs on one, the first",
                      script_.cluster));
      script_.cluster.resize(script_.cluster.find(','));
    }
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
    for (const char* name : {"gpus-per-task", "gpus-per-node", "gres"}) {
      const std::string text = value(name);
      const auto colon = text.rfind(':');
      const bool gpu = std::string(name) != "gres" || text.starts_with("gpu");
      if (const auto n = number(text.substr(colon == std::string::npos ? 0 : colon + 1)); n && gpu)
        gpus = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(*n, 1, 64)),
        script_.gpus_per_node = gpus;
    }
    if (const std::uint64_t all = gpus * tasks.value_or(1); has("gpus-per-task") && all <= 64)
      script_.gpus_per_node = static_cast<std::uint32_t>(all);
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

  void read_command(const ScriptCommand& command) {
    const auto& words = command.words;
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      const std::string& raw = words[i].raw;
      if (words[i].text == "tee") {
        std::size_t at = i + 1;
        while (at < words.size() && words[at].text.starts_with('-')) ++at;
        if (at < words.size()) take_log(words[at], command);
      } else if (raw == ">" || raw == ">>" || raw == "&>" || raw == "&>>") {
        const std::string& name = words[i + 1].text;
        if (name.ends_with(".log") || name.ends_with(".txt") || name.ends_with(".out"))
          take_log(words[i + 1], command);
      }
    }
    const std::string& program = words[0].text;
    if (program == "srun" || program.ends_with("/srun")) read_step(command);
    options_.take(command);
    add_launchers(command);
  }

  // An outer launcher is read behind what it starts.
  void add_launchers(const ScriptCommand& command) {
    std::vector<std::string> words;
    for (const ScriptWord& word : command.words) words.push_back(word.text);
    std::vector<std::string> found = read_launch(words).launchers;
    std::erase_if(found, [this](const std::string& name) {
      return std::find(script_.launchers.begin(), script_.launchers.end(), name) !=
             script_.launchers.end();
    });
    script_.launchers.insert(script_.launchers.begin(), found.begin(), found.end());
  }

  // Where a step's output goes when srun has an option for it.
  void read_step(const ScriptCommand& command) {
    const auto& words = command.words;
    for (std::size_t i = 1; i < words.size() && !words[i].script; ++i) {
      const std::string& text = words[i].text;
      if (text.starts_with("python") || text == "torchrun") break;  // its own options follow
      const auto equals = std::min(text.find('='), text.size());
      const std::string option = text.substr(0, equals);
      const bool named = option == "--output" || option == "--error";
      if (equals < text.size()) {
        if (named) take_step_log(text.substr(equals + 1), words[i], command);
      } else if (i + 1 < words.size() && !words[i + 1].text.starts_with('-') &&
                 (named || option == "-o" || option == "-e")) {
        ++i;
        take_step_log(words[i].text, words[i], command);
      }
    }
  }

  void take_step_log(const std::string& pattern, const ScriptWord& word,
                     const ScriptCommand& command) {
    std::string name = log_pattern(pattern, script_.run);
    const auto slash = name.rfind('/') + 1;  // 0 without one
    std::replace(name.begin() + static_cast<std::ptrdiff_t>(slash), name.end(), kUnknown, '*');
    take_log({name, word.raw, false}, command);
  }

  void take_log(const ScriptWord& word, const ScriptCommand& command) {
    if (word.known() && (word.text.starts_with('/') || !command.folder.empty()))
      return add_log(in_folder(command.folder, word.text));
    note(fmt::format(
        "a log path could not be derived from \"{}\" behind {}; add its path to watch.logs",
        word.raw, command.words[0].raw));
  }

  // The path that an option names; where it is unknown, a note and nothing.
  std::string path_of(const ScriptOption* option, const char* what, const char* key) {
    if (option == nullptr) return "";
    const char* why = nullptr;
    if (!option->known || (!option->text.starts_with('/') && option->folder.empty()))
      why = "only running the script would tell it";
    else if (!option->everywhere)
      why = "it is another one in each job";
    if (why == nullptr) {
      script_.said_by[key] = option->name;
      return in_folder(option->folder, option->text);
    }
    note(fmt::format("{} \"{}\": {}; set {}", what, option->raw, why, key));
    return "";
  }

  void read_training() {
    script_.kill_switch = path_of(options_.kill_switch(), "the switch file", "train.kill_switch");
    script_.checkpoints =
        path_of(options_.checkpoints(), "the checkpoints' folder", "checkpoints.directory");
    if (const std::string inside = options_.checkpoint_subfolder();
        !script_.checkpoints.empty() && !inside.empty())
      script_.checkpoints = in_folder(script_.checkpoints, inside);
    if (!script_.checkpoints.empty()) script_.checkpoint_format = options_.checkpoint_format();
    if (const ScriptOption* file = options_.own_file();
        file != nullptr && options_.checkpoints() == nullptr)
      note(
          fmt::format("what the training's own configuration \"{}\" says is not read: see there "
                      "where it saves, and set checkpoints.directory",
                      file->known ? file->text : file->raw));
    const ScriptOption *save = options_.find("--save"), *load = options_.find("--load");
    if (save != nullptr && load != nullptr && save->known && load->known &&
        save->text != load->text)
      note(
          fmt::format("it saves into {} and resumes from {}: does the next job go on from what "
                      "this one saved?",
                      save->text, load->text));
    if (options_.has("--exit-signal-handler") && script_.save_signal.empty())
      note(
          "--exit-signal-handler: it saves and leaves on SIGTERM; where its launcher hands the "
          "signal on, set train.save_signal: TERM");
    script_.leaves_after = options_.leaves_after();
    script_.save_every = options_.save_every();
    script_.last_iteration = options_.last_iteration();
    for (const char* name : {"--train-iters", "--training.steps", "trainer.max-steps"})
      if (script_.last_iteration && options_.has(name))
        script_.said_by.try_emplace("train.finished", name);
  }

  void conclude() {
    const auto &after = script_.leaves_after, &limit = script_.time_limit;
    const bool in_time = after && (!limit || *after < *limit);
    if (in_time && limit) script_.exit_before_limit = *limit - *after;
    if (after && !in_time)
      note(
          fmt::format("it would leave by itself after {}, but its time limit is {}: the wall "
                      "comes first",
                      minutes_text(*after), format_duration(*limit)));
    if (script_.kill_switch.empty() && script_.save_signal.empty())
      note(fmt::format(
          "neither a switch file nor a save signal was found: `save` is refused, "
          "`stop` cancels the job, {}; see train.kill_switch and train.save_signal",
          in_time
              ? fmt::format("before the wall it leaves by itself (after {})", minutes_text(*after))
              : "and the wall cuts it short"));
    if (!script_.last_iteration)
      note("finished: when the last iteration line says N of N; else set train.finished");
  }

  Directives directives_;
  const std::map<std::string, std::string>& environment_;
  ScriptOptions options_;
  AdoptedScript script_;
  std::string folder_;
};

}  // namespace

std::string run_name_of(std::string text) {
  for (char& c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
          c == '_' || c == '-'))
      c = '-';
  text = text.substr(0, 64);
  if (text.empty() || text[0] == '.' || text[0] == '_' || text[0] == '-') text = "run" + text;
  return text.substr(0, 64);
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
