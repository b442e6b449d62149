#include "slurm/rest/rest_submission.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "slurm/adopt.hpp"

namespace stoker::slurm {
namespace {

// Up to v0.0.38 a field takes what the option of sbatch takes; from v0.0.39 on it has a type.
constexpr int kTyped = 39;
// From here on measured with 24.11.5: v0.0.40 to v0.0.42.
constexpr int kLater = 40;

enum class Form : std::uint8_t { Text, Number, True, Minutes, Nodes, Megabytes, Words };
struct Field {
  std::string_view option, key;
  Form form = Form::Text;
  int from = 0, to = 99;  // versions of the API
};
// sbatch(1) -> OpenAPI of slurmrestd. Measured with 22.05.8: what v0.0.38 takes without any effect
// (--hint, requeue: false) or not at all (--signal=B:…), or dies of (argv), is not here.
constexpr Field kFields[] = {
    {"account", "account"},
    {"array", "array"},
    {"begin", "begin_time", Form::Text, 0, kTyped - 1},
    {"chdir", "current_working_directory"},
    {"comment", "comment"},
    {"constraint", "constraints"},
    {"cpus-per-task", "cpus_per_task", Form::Number},
    {"dependency", "dependency"},
    {"error", "standard_error"},
    {"exclude", "exclude_nodes", Form::Text, 0, kTyped - 1},
    {"exclude", "excluded_nodes", Form::Nodes, kTyped},
    {"gres", "gres", Form::Text, 0, kTyped - 1},
    {"gres", "tres_per_node", Form::Text, kTyped},
    {"hold", "hold", Form::True},
    {"input", "standard_input"},
    {"job-name", "name"},
    {"licenses", "licenses"},
    {"mem", "memory_per_node", Form::Text, 0, kTyped - 1},
    {"mem", "memory_per_node", Form::Megabytes, kTyped},
    {"mem-per-cpu", "memory_per_cpu", Form::Text, 0, kTyped - 1},
    {"mem-per-cpu", "memory_per_cpu", Form::Megabytes, kTyped},
    {"nice", "nice", Form::Number},
    {"nodelist", "nodelist", Form::Text, 0, kTyped - 1},
    {"nodelist", "required_nodes", Form::Nodes, kTyped},
    {"nodes", "nodes"},
    {"ntasks", "tasks", Form::Number},
    {"ntasks-per-node", "tasks_per_node", Form::Number},
    {"open-mode", "open_mode", Form::Text, 0, kTyped - 1},
    {"open-mode", "open_mode", Form::Words, kTyped},
    {"output", "standard_output"},
    {"partition", "partition"},
    {"qos", "qos"},
    {"reservation", "reservation"},
    {"threads-per-core", "threads_per_core", Form::Number},
    {"time", "time_limit", Form::Minutes},
    {"wckey", "wckey"},
};

// They say nothing about the job.
constexpr std::string_view kWithoutMeaning[] = {"parsable", "quiet", "verbose"};

std::optional<std::uint64_t> whole(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "4G", "100M", "2000": megabytes.
std::optional<std::uint64_t> megabytes(std::string_view text) {
  constexpr std::string_view kUnits = "MGT";
  std::uint64_t scale = 1;
  if (!text.empty())
    if (const auto unit = kUnits.find(text.back()); unit != std::string_view::npos) {
      text.remove_suffix(1);
      for (std::size_t i = 0; i < unit; ++i) scale *= 1024;
    }
  const auto value = whole(text);
  if (!value || *value > 1'000'000'000'000 / scale) return std::nullopt;
  return *value * scale;
}

// Null: the value cannot be said in this form.
Json value_in(const Field& field, const std::string& value) {
  switch (field.form) {
    case Form::Text: return value;
    case Form::True: return value.empty() ? Json(true) : Json(nullptr);
    case Form::Number:
      if (const auto number = whole(value)) return *number;
      return nullptr;
    case Form::Megabytes:
      if (const auto number = megabytes(value)) return *number;
      return nullptr;
    case Form::Minutes:
      if (const auto limit = parse_time_limit(value))
        return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::minutes>(*limit).count());
      return nullptr;
    case Form::Nodes: {
      const auto nodes = expand_hostlist(value);
      if (!nodes) return nullptr;
      Json list = Json::array();
      for (const NodeName& node : *nodes) list.push_back(node.text);
      return list;
    }
    case Form::Words: {
      std::string word = value;
      std::transform(word.begin(), word.end(), word.begin(),
                     [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      return Json::array({word});
    }
  }
  return nullptr;
}

// "B:USR1@60" in fields of their own. False: another form.
bool put_warning(std::string_view value, Json& job) {
  const bool batch = value.starts_with("B:");
  if (batch) value.remove_prefix(2);
  const auto at = std::min(value.find('@'), value.size());
  const std::string name(value.substr(0, at));
  const auto seconds =
      at == value.size() ? std::optional<std::uint64_t>(60) : whole(value.substr(at + 1));
  const bool plain =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
  if (name.empty() || !plain || !seconds || *seconds > 65535) return false;
  job["kill_warning_signal"] = name;
  job["kill_warning_delay"] = *seconds;
  if (batch) job["kill_warning_flags"] = Json::array({"BATCH_JOB"});
  return true;
}

// What is no field of its own. False: nothing of the kind.
bool put_special(const std::string& option, const std::string& value, int api, bool ours,
                 Json& job) {
  const bool typed = api >= kTyped;
  if (option == "no-requeue") {
    job[typed ? "requeue" : "no_requeue"] = !typed;
    return true;
  }
  if (option == "no-kill" && value.empty()) {
    if (typed)
      job["kill_on_node_fail"] = false;
    else
      job["no_kill"] = "set";
    return true;
  }
  if (option == "export") return value == "ALL";
  if (option == "signal" && api >= kLater) return put_warning(value, job);
  if (option == "exclusive" && value.empty() && api >= kLater) {
    job["shared"] = Json::array({"none"});
    return true;
  }
  // The wall is known to our agents without this warning; it spares a look at the clock.
  return option == "signal" && value.starts_with("B:") && ours;
}

Status put(const std::string& option, const std::string& value, int api, bool ours, Json& job) {
  for (const std::string_view word : kWithoutMeaning)
    if (option == word) return ok();
  if (put_special(option, value, api, ours, job)) return ok();
  for (const Field& field : kFields) {
    if (field.option != option || api < field.from || api > field.to) continue;
    Json said = value_in(field, value);
    if (said.is_null()) break;
    if (field.key == "tres_per_node" && !value.starts_with("gres")) said = "gres:" + value;
    job[std::string(field.key)] = std::move(said);
    return ok();
  }
  return fail(fmt::format("slurmrestd v0.0.{} cannot be given this option", api),
              value.empty() ? "--" + option : fmt::format("--{}={}", option, value));
}

}  // namespace

Result<Json> submission_body(const Submission& prepared, int api, const std::string& script,
                             const std::map<std::string, std::string>& environment) {
  const bool ours = !prepared.text.empty();
  Directives options = read_directives(script);
  if (!ours) read_options({prepared.argv.begin() + 1, prepared.argv.end() - 1}, options);
  if (!options.contains("chdir"))
    options["chdir"] = prepared.folder.empty() ? "/" : prepared.folder;
  Json job = Json::object();
  for (const auto& [option, value] : options) STOKER_TRY_STATUS(put(option, value, api, ours, job));
  Json variables = api >= kTyped ? Json::array() : Json::object();
  for (const auto& [name, value] : environment)
    if (api >= kTyped)
      variables.push_back(name + "=" + value);
    else
      variables[name] = value;
  job["environment"] = std::move(variables);
  Json body = Json::object();
  if (api >= kTyped) job["script"] = script;
  if (api >= kLater)  // the command that the job shows; nothing is read from there
    job["argv"] = Json::array({prepared.argv.back()});
  body["script"] = script;
  body["job"] = std::move(job);
  return body;
}

Json exclusions_body(const std::string& nodes, int api) {
  if (api < kTyped)  // a change that leaves no_requeue out turns requeueing on (22.05.8)
    return {{"exclude_nodes", nodes}, {"no_requeue", true}};
  Json list = Json::array();
  if (const auto names = expand_hostlist(nodes))
    for (const NodeName& node : *names) list.push_back(node.text);
  if (list.empty()) list.push_back("");  // an empty list changes nothing (24.11.5)
  return {{"excluded_nodes", list}};
}

}  // namespace stoker::slurm
