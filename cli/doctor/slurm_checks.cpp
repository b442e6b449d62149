// What `stoker doctor` asks SLURM: does it answer, how fast, and what do its settings mean here.
#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/doctor/site_checks.hpp"
#include "cli/read/run_file.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/private_folder.hpp"
#include "common/os/process.hpp"
#include "slurm/accounting.hpp"
#include "slurm/client_call.hpp"
#include "slurm/queue_poll.hpp"
#include "slurm/rest/http_door.hpp"
#include "slurm/rest/rest_controller.hpp"
#include "slurm/submission.hpp"
#include "slurm/submit_answer.hpp"

namespace stoker::cli {
namespace {

constexpr Duration kPatience = 10s;
constexpr Duration kTryPatience = 60s;  // of sbatch
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

bool has_accounts(const std::string& config) {
  return setting(config, "AccountingStorageType").find("slurmdbd") != std::string::npos;
}

// Whether sacct works for this user: without it the end of a forgotten job takes a minute longer to
// prove.
Finding check_accounts(const Context& context) {
  const auto answer = os::run_command(
      slurm::client_call(slurm::accounting_command(1, 1min), context.environment), kPatience);
  const char* without = "stoker goes on without: ends are proven by slurmctld and the agents";
  if (!answer) return {"accounting", Health::Note, answer.error().message(), without};
  if (!answer->status.ok())
    return {"accounting", Health::Note, "sacct fails: " + slurm::what_it_said(*answer), without};
  if (const auto rows = slurm::parse_accounting(answer->out); !rows)
    return {"accounting", Health::Note, rows.error().message(), without};
  return {"accounting", Health::Good, "sacct answers; it reports how forgotten jobs ended", ""};
}

// "PartitionName=main … State=UP …": the values of one line of scontrol show partition -o.
std::string value_in(std::string_view line, std::string_view key) {
  const auto at = line.find(std::string(key) + "=");
  if (at == std::string_view::npos || (at != 0 && line[at - 1] != ' ')) return "";
  const auto value = line.substr(at + key.size() + 1);
  return std::string(value.substr(0, value.find(' ')));
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

// The generated script, in a file of its own until sbatch has read it.
class TemporaryScript {
 public:
  TemporaryScript() {
    const auto made = os::make_lasting_folder(std::filesystem::temp_directory_path().string() +
                                              "/stoker-doctor-");
    if (made)
      folder_ = made->path;
    else
      why_none_ = made.error();
  }
  Status write(const std::string& text) const {
    if (folder_.empty()) return fail(why_none_);
    return os::replace_file(path(), text, os::Durability::Cached, 0600);
  }
  ~TemporaryScript() {
    if (folder_.empty()) return;
    ::unlink(path().c_str());
    ::rmdir(folder_.c_str());
  }
  TemporaryScript(const TemporaryScript&) = delete;
  TemporaryScript& operator=(const TemporaryScript&) = delete;
  [[nodiscard]] std::string path() const { return folder_ + "/job.sh"; }

 private:
  std::string folder_;  // "": none could be made
  Error why_none_;
};

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
  if (!has_accounts(config)) {
    findings.push_back({"accounting", Health::Good, "none; stoker does not need it", ""});
    findings.push_back({"rights", Health::Good,
                        "an ordinary user's: without accounts only SlurmUser and root drain nodes",
                        ""});
  }
  if (const std::string most = setting(config, "MaxJobCount"); !most.empty())
    findings.push_back({"queue", Health::Good,
                        fmt::format("at most {} jobs of everybody, tasks of arrays counted", most),
                        ""});
  if (setting(config, "PrivateData").find("jobs") != std::string::npos)
    findings.push_back({"PrivateData", Health::Note,
                        "others' jobs are hidden: a colleague's job on the same run is not seen",
                        "let one member of the run's group submit, or ask for an operator's view"});
  if (setting(config, "SlurmctldParameters").find("rl_enable") != std::string::npos)
    findings.push_back({"rate limit", Health::Good,
                        "slurmctld limits each user's questions; stoker asks at most 120 an hour",
                        ""});
  if (const auto clock = clock_of(config); clock && std::abs(*clock - now) > kSkew)
    findings.push_back({"clock", Health::Bad,
                        fmt::format("slurmctld's clock differs by {} s", *clock - now),
                        "set the clocks (NTP); munge refuses credentials beyond 300 s"});
  return findings;
}

std::vector<Finding> judge_partitions(const std::string& text) {
  std::vector<Finding> findings;
  std::string up;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    const std::string name = value_in(line, "PartitionName");
    if (name.empty()) continue;
    const std::string state = value_in(line, "State");
    const std::string limits = fmt::format(
        "{} nodes, at most {} a job and {}", value_in(line, "TotalNodes"),
        value_in(line, "MaxNodes") == "UNLIMITED" ? "all" : value_in(line, "MaxNodes"),
        value_in(line, "MaxTime") == "UNLIMITED" ? "any time" : value_in(line, "MaxTime"));
    if (state == "UP")
      up += fmt::format("{}{}{} ({})", up.empty() ? "" : "; ", name,
                        value_in(line, "Default") == "YES" ? "*" : "", limits);
    else
      findings.push_back({"partition " + name, Health::Note, state + ": jobs wait or are refused",
                          "name another one in scheduler.partition"});
  }
  findings.insert(findings.begin(),
                  up.empty() ? Finding{"partitions", Health::Bad, "none is up", "see sinfo -s"}
                             : Finding{"partitions", Health::Good, up, ""});
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
  if (has_accounts(answer->out)) {
    findings.push_back(check_accounts(context));
    for (Finding& found : check_rights(context)) findings.push_back(std::move(found));
  }
  const auto partitions = os::run_command(
      slurm::client_call({"scontrol", "show", "partition", "-o"}, context.environment), kPatience);
  if (partitions && partitions->status.ok())
    for (Finding& found : judge_partitions(partitions->out)) findings.push_back(std::move(found));
  return findings;
}

Finding judge_test_only(const os::CommandOutput& answer) {
  const std::string said = slurm::what_it_said(answer);
  if (answer.status.ok()) return {"sbatch --test-only", Health::Good, said, ""};
  const std::string advice = slurm::advice_for(answer.err);
  return {"sbatch --test-only", Health::Bad, said,
          advice.empty() ? "see sbatch(1); stoker run --dry-run shows what is submitted" : advice};
}

// The server of scheduler.rest: does it answer this user, and for which cluster?
Finding check_rest(const core::RestAccess& access) {
  slurm::HttpDoor door(access, os::user_name_of(::geteuid()));
  const auto facts = slurm::look_at_rest(door, kPatience);
  if (!facts)
    return {
        "slurmrestd", Health::Bad, facts.error().message(),
        "stokerd asks no other server: trainings run on, nothing is submitted until it answers"};
  const std::string found =
      fmt::format("v0.0.{} of SLURM {}, cluster {}: {} jobs in {}", facts->api, facts->release,
                  facts->cluster.empty() ? "not named while no job is there" : facts->cluster,
                  facts->jobs, format_duration(facts->took));
  if (facts->took > kSlow)
    return {"slurmrestd", Health::Note, found, "stokerd asks less often the slower it answers"};
  return {"slurmrestd", Health::Good, found, ""};
}

Finding check_token(const core::RestAccess& access, WallTime now) {
  const auto token = slurm::read_token(access.token_file);
  if (!token)
    return {"token", Health::Bad, token.error().message(),
            "umask 077; scontrol token lifespan=86400 > " + access.token_file};
  const auto ends = slurm::token_ends(*token);
  if (!ends) return {"token", Health::Good, "does not say when it ends", ""};
  const std::string until = format_rfc3339(*ends);
  if (*ends <= now)
    return {"token", Health::Bad, "expired at " + until,
            "scontrol token lifespan=86400 > " + access.token_file};
  return {"token", Health::Good, "is good until " + until + "; write the next one in time", ""};
}

// scheduler.cluster: do commands reach it from here?
Finding check_cluster(const Context& context, const std::string& cluster) {
  const auto answer = os::run_command(
      slurm::client_call({"scontrol", "show", "config"}, context.environment, cluster), kPatience);
  if (!answer) return {"cluster", Health::Bad, answer.error().message(), "see scontrol ping"};
  if (!answer->status.ok())
    return {"cluster", Health::Bad, slurm::what_it_said(*answer), slurm::advice_for(answer->err)};
  return {"cluster", Health::Good,
          fmt::format("{} answers, SLURM {}", setting(answer->out, "ClusterName"),
                      setting(answer->out, "SLURM_VERSION")),
          ""};
}

std::vector<Finding> check_slurm_run(const Context& context, const core::RunPolicy& policy) {
  if (policy.scheduler.kind != core::SchedulerKind::Slurm) return {};
  if (const core::RestAccess& rest = policy.scheduler.rest; !rest.url.empty()) {
    std::vector<Finding> findings{check_rest(rest)};
    if (!rest.token_file.empty()) findings.push_back(check_token(rest, wall_now()));
    return findings;
  }
  auto prepared = slurm::prepare(first_submission(policy));
  if (!prepared)
    return {{"submission", Health::Bad, prepared.error().message(), "change that key"}};
  const TemporaryScript script;
  if (!prepared->text.empty()) {
    if (const Status written = script.write(prepared->text); !written)
      return {{"submission", Health::Bad, written.error().message(), ""}};
    prepared->argv.back() = script.path();
  }
  os::SpawnOptions call =
      slurm::client_call(prepared->argv, context.environment, policy.scheduler.cluster);
  const std::vector<std::string> more{"--test-only", "--job-name=stoker-test",
                                      "--comment=stoker-test"};
  call.argv.insert(call.argv.end() - 1, more.begin(), more.end());
  call.working_directory = prepared->folder;
  const auto answer = os::run_command(call, kTryPatience);
  std::vector<Finding> findings;
  if (!policy.scheduler.cluster.empty())
    findings.push_back(check_cluster(context, policy.scheduler.cluster));
  findings.push_back(answer ? judge_test_only(*answer)
                            : Finding{"sbatch --test-only", Health::Bad, answer.error().message(),
                                      "see scontrol ping"});
  findings.push_back(
      {"logs", Health::Good,
       core::has_agents(policy)
           ? fmt::format("of the training in {0}/gen-…/main.log, of SLURM in {0}/batch",
                         policy.directory)
           : fmt::format("as its script says; watched: {}", fmt::join(policy.watch.logs, " ")),
       ""});
  return findings;
}

}  // namespace stoker::cli
