// What `stoker doctor` asks SLURM: does it answer, how fast, and what do its settings mean here.
#include <algorithm>
#include <charconv>
#include <ctime>
#include <fmt/format.h>

#include "cli/site_checks.hpp"
#include "common/os/files.hpp"
#include "common/os/process.hpp"
#include "slurm/client_call.hpp"
#include "slurm/queue_poll.hpp"

namespace stoker::cli {
namespace {

constexpr Duration kPatience = 10s;
constexpr Duration kSlow = 2s;
constexpr std::int64_t kShortMemory = 120;  // MinJobAge, seconds
constexpr std::int64_t kSkew = 60;          // seconds; munge refuses credentials beyond 300

// The value of "Key   = value unit" as scontrol show config prints it; "" when it is not there.
std::string setting(const std::string& config, const std::string& key) {
  for (std::size_t at = 0; (at = config.find(key, at)) != std::string::npos; at += key.size()) {
    if (at != 0 && config[at - 1] != '\n') continue;
    const auto equals = config.find_first_not_of(' ', at + key.size());
    if (equals == std::string::npos || config[equals] != '=') continue;
    std::string value = config.substr(equals + 1, config.find('\n', equals) - equals - 1);
    value.erase(0, std::min(value.find_first_not_of(' '), value.size()));
    return value;
  }
  return "";
}

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

// "Configuration data as of 2026-11-22T07:20:02" is slurmctld's clock, in local time.
std::optional<std::int64_t> clock_of(const std::string& config) {
  const auto at = config.find(" as of ");
  std::tm time{};
  if (at == std::string::npos ||
      ::strptime(config.c_str() + at + 7, "%Y-%m-%dT%H:%M:%S", &time) == nullptr)
    return std::nullopt;
  time.tm_isdst = -1;
  return static_cast<std::int64_t>(::mktime(&time));
}

Finding check_queue(const Context& context) {
  const auto call = slurm::client_call(
      slurm::queue_command(context.environment.count("USER") != 0 ? context.environment.at("USER")
                                                                  : ""),
      context.environment);
  const Instant began = monotonic_now();
  const auto answer = os::run_command(call, kPatience);
  const Duration took = monotonic_now() - began;
  if (!answer) return {"squeue", Health::Bad, answer.error().message(), "see scontrol ping"};
  if (!answer->status.ok())
    return {"squeue", Health::Bad, slurm::what_it_said(*answer), "see scontrol ping"};
  if (const auto rows = slurm::parse_queue(answer->out); !rows)
    return {"squeue", Health::Bad, rows.error().message(),
            "is the squeue in PATH SLURM's own, of 21.08 or later?"};
  const std::string found =
      fmt::format("answers in {}, in a form that is understood", format_duration(took));
  if (took > kSlow)
    return {"squeue", Health::Note, found, "stokerd asks less often the slower it answers"};
  return {"squeue", Health::Good, found, ""};
}

}  // namespace

std::vector<Finding> judge_slurm_config(const std::string& config, std::int64_t now) {
  std::vector<Finding> findings;
  findings.push_back({"SLURM", Health::Good,
                      fmt::format("{}, cluster {}", setting(config, "SLURM_VERSION"),
                                  setting(config, "ClusterName")),
                      ""});
  const auto array = number(setting(config, "MaxArraySize")).value_or(0);
  if (array < 3)
    findings.push_back(
        {"job arrays", Health::Note,
         fmt::format("MaxArraySize is {}: arrays are not to be had here", array),
         "scheduler.array: {tasks: 1, top_up_below: 1} makes a chain of plain jobs"});
  else
    findings.push_back({"job arrays", Health::Good,
                        fmt::format("up to {} tasks in scheduler.array.tasks", array - 1), ""});
  const auto memory = number(setting(config, "MinJobAge")).value_or(300);
  if (memory < kShortMemory)
    findings.push_back({"MinJobAge", Health::Note,
                        fmt::format("ended jobs are forgotten after {} s", memory),
                        "ends are then proven by the agents, or by two denials a minute apart"});
  const bool accounting =
      setting(config, "AccountingStorageType").find("slurmdbd") != std::string::npos;
  findings.push_back({"accounting", Health::Good,
                      accounting ? "there is a slurmdbd; stoker does not need it"
                                 : "none; stoker does not need it",
                      ""});
  if (const auto clock = clock_of(config); clock && std::abs(*clock - now) > kSkew)
    findings.push_back({"clock", Health::Bad,
                        fmt::format("slurmctld's clock differs by {} s", *clock - now),
                        "set the clocks (NTP); munge refuses credentials beyond 300 s"});
  return findings;
}

std::vector<Finding> check_slurm(const Context& context) {
  const auto named = context.environment.find("SLURM_CONF");
  if (named != context.environment.end() && !os::exists(named->second))
    return {{"SLURM", Health::Bad, "SLURM_CONF names no file: " + named->second,
             "unset it, or name the cluster's slurm.conf"}};
  const bool somewhere = named != context.environment.end() ||
                         os::exists("/etc/slurm/slurm.conf") ||
                         os::exists("/run/slurm/conf/slurm.conf");
  if (!somewhere)
    return {{"SLURM", Health::Note, "its commands are here, but no slurm.conf",
             "set SLURM_CONF, or run on a login node; the embedded scheduler needs nothing"}};
  const auto answer = os::run_command(
      slurm::client_call({"scontrol", "show", "config"}, context.environment), kPatience);
  if (!answer)
    return {{"SLURM", Health::Bad, answer.error().message(), "ask the cluster's operators"}};
  const std::string said = slurm::what_it_said(*answer);
  if (!answer->status.ok() && (answer->err.find("configuration source") != std::string::npos ||
                               answer->err.find("slurm.conf") != std::string::npos))
    return {{"SLURM", Health::Note, "its commands are here, but no configuration: " + said,
             "set SLURM_CONF, or run on a login node; the embedded scheduler needs nothing"}};
  if (!answer->status.ok() || answer->out.find("ClusterName") == std::string::npos)
    return {{"SLURM", Health::Bad, "slurmctld does not answer: " + said,
             "trainings run on; nothing is submitted until it answers"}};
  std::vector<Finding> findings = judge_slurm_config(answer->out, std::time(nullptr));
  findings.push_back(check_queue(context));
  return findings;
}

}  // namespace stoker::cli
