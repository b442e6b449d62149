#include "slurm/command_controller.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <string_view>

#include "slurm/client_call.hpp"
#include "slurm/job_json.hpp"
#include "slurm/node_states.hpp"
#include "slurm/submit_answer.hpp"
#include "slurm/token_search.hpp"

namespace stoker::slurm {
namespace {

bool says_gone(const os::CommandOutput& output) {
  return output.err.find("Invalid job id") != std::string::npos;
}

bool says_over(const os::CommandOutput& output) {
  return output.err.find("already complet") != std::string::npos;  // "completing or completed"
}

core::PortError acted_in_vain(const Error& error) {
  return {error, never_started(error) ? core::Certainty::Definite : core::Certainty::Unknown};
}

std::optional<std::uint32_t> small_number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

constexpr const char* kTooLong = "the answer is longer than what is read";
constexpr std::size_t kLongestQueue = 8u << 20;
// Everybody who sees a token can write it beside any number of ids: a search asks about so few.
constexpr std::size_t kMostAsked = 4;

}  // namespace

bool never_started(const Error& error) {
  return error.what.starts_with("cannot start") || error.what.starts_with("command not found");
}

Result<os::CommandOutput> CommandController::question(std::vector<std::string> argv) {
  budget_.spend(options_.now());
  return act(std::move(argv));
}

Result<os::CommandOutput> CommandController::act(std::vector<std::string> argv) {
  return run(client_call(std::move(argv), options_.environment, options_.cluster));
}

Result<os::CommandOutput> CommandController::run(const os::SpawnOptions& options, Duration limit) {
  const std::string& command = options.argv.front();
  auto output = processes_.run(options, limit == Duration{} ? options_.deadline : limit);
  if (!output) {
    Error error = output.error();
    if (error.object.empty()) error.object = command;
    return fail(error);
  }
  if (output->truncated) return fail(kTooLong, command);
  return output;
}

Result<std::vector<QueueRow>> CommandController::queue(const QueueQuestion& question) {
  budget_.spend(options_.now());
  const std::string mark = options_.row_mark ? options_.row_mark() : std::string();
  const QueueForm form = mark.empty() ? QueueForm::InArguments : QueueForm::InEnvironment;
  os::SpawnOptions squeue = client_call(queue_command(question.users, question.job, form),
                                        options_.environment, options_.cluster);
  if (form == QueueForm::InEnvironment) squeue.environment["SQUEUE_FORMAT"] = queue_format(mark);
  std::string text;
  squeue.take = [&text](std::string_view piece) {  // no more than that is awaited
    text += piece;
    return text.size() <= kLongestQueue;
  };
  STOKER_TRY(output, run(squeue));
  text += output.out;
  if (!output.status.ok()) {
    if (question.job != 0 && says_gone(output)) return std::vector<QueueRow>{};
    return fail("squeue failed: " + what_it_said(output), "squeue");
  }
  Matters matters = question.matters;
  if (!matters && !options_.user.empty())
    matters = [this](const std::string& user) { return user == options_.user; };
  return parse_queue(text, question.names, question.folders, question.lists, mark, matters);
}

Result<std::map<JobId, JobNumbers>> CommandController::numbers(
    const std::vector<std::uint64_t>& jobs) {
  STOKER_TRY(output, question(numbers_command(jobs)));
  if (output.status.ok()) return parse_numbers(output.out);
  // A single id that was purged in between is refused; then there is nothing to know.
  if (says_gone(output)) return std::map<JobId, JobNumbers>{};
  return fail("squeue failed: " + what_it_said(output), "squeue");
}

Result<std::vector<JobDetail>> CommandController::details(const JobId& job) {
  const bool json = [this] {
    const std::scoped_lock lock(mutex_);
    return json_;
  }();
  if (json) {
    STOKER_TRY(output, question(json_command(job)));
    if (says_gone(output)) return std::vector<JobDetail>{};
    if (output.status.ok())
      if (auto jobs = parse_job_json(output.out)) return jobs;
  }
  STOKER_TRY(output, question({"scontrol", "show", "job", "-o", job.text()}));
  if (!output.status.ok()) {
    if (says_gone(output)) return std::vector<JobDetail>{};
    return fail("scontrol failed: " + what_it_said(output), "scontrol");
  }
  return parse_job_details(output.out);
}

// scontrol's answer as it comes, of any length.
Result<os::CommandOutput> CommandController::search(std::vector<std::string> argv,
                                                    TokenSearch& search) {
  budget_.spend(options_.now());
  os::SpawnOptions scontrol = client_call(std::move(argv), options_.environment, options_.cluster);
  scontrol.take = [&search](std::string_view piece) {
    search.feed(piece);
    return true;
  };
  STOKER_TRY(output, run(scontrol));
  search.feed(output.out);
  search.finish();
  return output;
}

// Every user may write a token into the name or the comment of a job, newlines too, and would end
// our submissions by it: whose a job is, is seen in the queue's rows, which no user can forge, and
// what it carries in the job's own record.
Result<bool> CommandController::shows(const Token& token) {
  TokenSearch found(token);
  STOKER_TRY(all, search({"scontrol", "-a", "show", "job", "-o"}, found));
  if (!all.status.ok()) return fail("scontrol failed: " + what_it_said(all), "scontrol");
  if (found.jobs().empty()) return false;
  STOKER_TRY(rows, queue({options_.user}));
  std::set<std::uint64_t> ours;
  for (const QueueRow& row : rows)
    if (options_.user.empty() || row.user == options_.user) ours.insert({row.raw_id, row.id.job});
  // First what squeue knows as ours, the newest first; the others may be ids that were made up.
  std::vector<std::uint64_t> ask(found.jobs().rbegin(), found.jobs().rend());
  std::stable_partition(ask.begin(), ask.end(),
                        [&ours](std::uint64_t id) { return ours.contains(id); });
  if (ask.size() > kMostAsked) ask.resize(kMostAsked);
  for (const std::uint64_t id : ask) {
    STOKER_TRY(belongs, holder(id, token));
    if (belongs != IdBelongs::ToToken) continue;
    if (ours.contains(id)) return true;
    STOKER_TRY(others, is_of_another(id));
    if (!others) return true;
  }
  return false;
}

Result<bool> CommandController::is_of_another(std::uint64_t job) {
  if (options_.user.empty()) return false;
  const auto rows = queue({"", job});
  // Only a stranger's array is that long: ours alone are in the rows of our user.
  if (!rows && rows.error().what == kTooLong) return true;
  if (!rows) return fail(rows.error());
  return std::any_of(rows->begin(), rows->end(), [&](const QueueRow& row) {
    const bool of_it = row.raw_id == job || row.id.job == job;  // an answer may be about others
    return of_it && row.user != options_.user;
  });
}

Result<IdBelongs> CommandController::holder(std::uint64_t job, const Token& token) {
  TokenSearch found(token);
  STOKER_TRY(output, search({"scontrol", "show", "job", "-o", std::to_string(job)}, found));
  if (says_gone(output)) return IdBelongs::ToNoJob;
  if (!output.status.ok()) return fail("scontrol failed: " + what_it_said(output), "scontrol");
  if (!found.any_job()) return fail("scontrol names no job", "scontrol");
  return found.found() ? IdBelongs::ToToken : IdBelongs::ToAnother;
}

Result<std::vector<core::NodeSeen>> CommandController::nodes(const std::string& node,
                                                             Duration limit) {
  // A person waits for an answer within a limit, and it is rare: it has no part in the budget.
  if (limit == Duration{}) budget_.spend(options_.now());
  STOKER_TRY(output,
             run(client_call(nodes_command(node), options_.environment, options_.cluster), limit));
  if (!output.status.ok()) return fail("sinfo failed: " + what_it_said(output), "sinfo");
  return parse_nodes(output.out);
}

Result<ClusterFacts> CommandController::cluster() {
  STOKER_TRY(output, question({"scontrol", "show", "config"}));
  if (!output.status.ok()) return fail("scontrol failed: " + what_it_said(output), "scontrol");
  const auto value_of = [&output](const char* key) {  // "Key      = value"
    const auto at = output.out.find(std::string("\n") + key + " ");
    if (at == std::string::npos) return std::string();
    std::string line = output.out.substr(at + 1 + std::string_view(key).size());
    line.resize(std::min(line.find('\n'), line.size()));
    const auto value = line.find_first_not_of(" =");
    return value == std::string::npos ? std::string() : line.substr(value);
  };
  ClusterFacts facts;
  facts.name = value_of("ClusterName");
  if (facts.name.empty()) return fail("scontrol returned no cluster name", "scontrol");
  facts.accounts = value_of("AccountingStorageType").find("slurmdbd") != std::string::npos;
  facts.max_array = small_number(value_of("MaxArraySize"));
  if (const std::string version = value_of("SLURM_VERSION"); !version.empty()) {
    const std::scoped_lock lock(mutex_);
    json_ = scontrol_writes_json(version);
  }
  {
    const std::scoped_lock lock(mutex_);
    name_ = facts.name;
  }
  if (facts.accounts) look_for_siblings();
  return facts;
}

// No answer: as it was.
void CommandController::look_for_siblings() {
  const auto output = question({"scontrol", "show", "federation"});
  if (!output || !output->status.ok()) return;
  const std::scoped_lock lock(mutex_);
  federated_ = output->out.starts_with("Federation:");
}

// A federation starts a single job where there is room first, on a sibling too; an array stays
// where it was submitted (measured with 22.05.8), and needs no slurmdbd for that.
std::string CommandController::cluster_for(const Submission& prepared) {
  if (!options_.cluster.empty() || prepared.is_array) return options_.cluster;
  const std::scoped_lock lock(mutex_);
  return federated_ ? name_ : "";
}

Result<os::CommandOutput> CommandController::call_sbatch(const Submission& prepared,
                                                         bool test_only) {
  os::SpawnOptions sbatch = client_call(prepared.argv, options_.environment, cluster_for(prepared));
  if (test_only) {  // a refused try stays in the queue as FAILED: it must not carry the token
    const std::vector<std::string> more{"--test-only", "--job-name=stoker-test",
                                        "--comment=stoker-test"};
    sbatch.argv.insert(sbatch.argv.end() - 1, more.begin(), more.end());
  }
  sbatch.working_directory = prepared.folder;
  for (const auto& [name, value] : prepared.environment) sbatch.environment[name] = value;
  return run(sbatch);
}

core::PortResult<JobId> CommandController::submit(const Submission& prepared) {
  const auto output = call_sbatch(prepared, false);
  if (!output) return acted_in_vain(output.error());
  const auto job = judge_submit(*output);
  const std::string elsewhere = named_cluster(output->out);
  if (!std::holds_alternative<JobId>(job) || elsewhere.empty() || is_ours(elsewhere)) return job;
  return take_back(std::get<JobId>(job), elsewhere);
}

// Some sites' sbatch names the cluster although it is the usual one; SLURM keeps names in lower
// case.
bool CommandController::is_ours(const std::string& cluster) {
  const std::scoped_lock lock(mutex_);
  const std::string& ours = options_.cluster.empty() ? name_ : options_.cluster;
  return ours.empty() || std::equal(cluster.begin(), cluster.end(), ours.begin(), ours.end(),
                                    [](unsigned char a, unsigned char b) {
                                      return std::tolower(a) == std::tolower(b);
                                    });
}

// A script's own -M sent the job where it is not looked for.
core::PortError CommandController::take_back(const JobId& job, const std::string& cluster) {
  const std::string advice = "set scheduler.cluster: " + cluster + ", or remove its -M";
  const auto output = run(client_call({"scancel", job.text()}, options_.environment, cluster));
  if (output && output->status.ok())
    return {{"the script's -M put the job on the cluster " + cluster + ": it was cancelled there",
             job.text(), advice},
            core::Certainty::Definite};
  return {{"the script's -M put the job on the cluster " + cluster + ", and scancel failed: " +
               (output ? what_it_said(*output) : output.error().message()),
           job.text(), "cancel it there by hand; " + advice},
          core::Certainty::Unknown};
}

Controller::Tried CommandController::try_out(const Submission& prepared) {
  const auto output = call_sbatch(prepared, true);
  if (!output) return {};
  return {output->status.ok(), leaves_too_few_nodes(*output)};
}

core::PortResult<std::monostate> CommandController::scancel(std::vector<std::string> options,
                                                            const JobId& job) {
  options.insert(options.begin(), "scancel");
  options.push_back(job.text());
  const auto output = act(std::move(options));
  if (!output) return acted_in_vain(output.error());
  if (!output->status.ok() && !says_gone(*output) && !says_over(*output))
    return core::PortError{{"scancel failed: " + what_it_said(*output), job.text(), ""},
                           core::Certainty::Unknown};
  return std::monostate{};
}

core::PortResult<std::monostate> CommandController::cancel(const JobId& job, bool pending_only) {
  std::vector<std::string> options;
  if (pending_only) options.emplace_back("--state=PENDING");
  return scancel(std::move(options), job);
}

core::PortResult<std::monostate> CommandController::signal(const JobId& job,
                                                           const std::string& name) {
  return scancel({"--signal=" + name}, job);
}

core::PortResult<std::string> CommandController::exclude(const JobId& array,
                                                         const std::string& nodes) {
  const auto output = act({"scontrol", "update", "JobId=" + array.text(), "ExcNodeList=" + nodes});
  if (!output) return acted_in_vain(output.error());
  return what_it_said(*output);
}

}  // namespace stoker::slurm
