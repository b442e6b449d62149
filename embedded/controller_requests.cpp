// What each request does to the cluster. Everything that comes over the socket is checked here.
#include <algorithm>
#include <fmt/format.h>

#include "embedded/begin_time.hpp"
#include "embedded/controller.hpp"
#include "embedded/lifecycle.hpp"

namespace stoker::embedded {
namespace {

constexpr std::size_t kSeenAtMost = 512;  // finished tasks that an observer gets
constexpr Duration kSeenFor = 24h;

Answer refuse(const std::string& error, const std::string& hint = "") {
  Answer answer;
  answer.error = error;
  answer.hint = hint;
  return answer;
}
Answer good() {
  Answer answer;
  answer.good = true;
  return answer;
}

bool is_plain_name(const std::string& text, std::size_t limit) {
  return !text.empty() && text.size() <= limit &&
         std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool is_variable(const std::pair<const std::string, std::string>& v) {
  return !v.first.empty() && v.first.find('=') == std::string::npos &&
         v.first.find('\0') == std::string::npos && v.second.find('\0') == std::string::npos;
}

}  // namespace

Status check_submission(const SubmitJob& r) {
  if (!is_plain_name(r.token.text, 256)) return fail("a submission needs a token of one line");
  if (!is_plain_name(r.name, 128)) return fail("job name must be one line of 1 to 128 bytes");
  if (r.array_tasks < 1 || r.array_tasks > kMaxArrayTasks)
    return fail(fmt::format("Invalid job array specification: {} tasks", r.array_tasks), "",
                fmt::format("ask for 1 to {}", kMaxArrayTasks));
  if (r.throttle < 1) return fail("Invalid job array specification: %0");
  if (r.nodes < 1 || r.nodes > kMaxClusterNodes)
    return fail(fmt::format("Node count specification invalid: {}", r.nodes), "",
                fmt::format("ask for 1 to {}", kMaxClusterNodes));
  if (r.time_limit <= 0s || r.time_limit > std::chrono::hours(24 * 366))
    return fail("Requested time limit is invalid");
  if (r.kill_wait < 0s || r.kill_wait > 1h) return fail("kill_wait must be between 0 and 1 h");
  if (r.signal_before > 0s && signal_number(r.signal) == 0)
    return fail("Invalid signal name " + r.signal.substr(0, 20));
  if (r.argv.empty() || r.argv.front().empty()) return fail("nothing to run");
  for (const auto& argument : r.argv)
    if (argument.find('\0') != std::string::npos) return fail("an argument holds a NUL byte");
  if (!std::all_of(r.environment.begin(), r.environment.end(), is_variable))
    return fail("an environment variable has no usable name or holds a NUL byte");
  if (r.exclude.size() > 1000) return fail("more than 1000 excluded nodes");
  return ok();
}

Answer Controller::handle(const Request& request, std::uint32_t uid, WallTime now) {
  now_ = now;
  uid_ = uid;
  return std::visit([this](const auto& r) { return answer_to(r); }, request);
}

Answer Controller::saved() {
  const Status status = save();
  return status ? good() : refuse(status.error().message());
}

Result<Job> Controller::make_job(const SubmitJob& request) const {
  STOKER_TRY_STATUS(check_submission(request));
  STOKER_TRY(begin, parse_begin(request.begin, now_));
  STOKER_TRY(dependency, parse_dependency(request.dependency));
  for (const JobId& id : dependency.after)
    if (cluster_.jobs.count(id.job) == 0 || (id.task != 0 && cluster_.tasks.count(id) == 0))
      return fail("Job dependency problem: no such job", id.text());
  Job job;
  job.id = cluster_.next_id;
  job.request = request;
  job.request.singleton = request.singleton || dependency.singleton;
  job.uid = uid_;
  job.submitted = now_;
  job.begin = begin;
  job.after = dependency.after;
  return job;
}

Answer Controller::answer_to(const SubmitJob& request) {
  for (const auto& [id, job] : cluster_.jobs) {  // a repetition: the same answer
    if (job.request.token != request.token) continue;
    Answer answer = good();
    answer.job = JobId{id, 0};
    return answer;
  }
  const auto job = make_job(request);
  if (!job) return refuse(job.error().message());
  Cluster before = cluster_;
  const Changes changes_before = changes_;
  const std::uint32_t size = request.cluster_nodes != 0 ? request.cluster_nodes : request.nodes + 2;
  grow_nodes(cluster_, size);
  if (cluster_.nodes.size() < request.nodes) {
    cluster_ = std::move(before);
    return refuse(fmt::format("Requested node configuration is not available: {} nodes wanted, the "
                              "cluster has {}",
                              request.nodes, cluster_.nodes.size()),
                  "raise STOKER_LOCAL_NODES");
  }
  for (const auto& [name, node] : cluster_.nodes)
    if (before.nodes.count(name) == 0) changes_.nodes.insert(name);
  ++cluster_.next_id;
  cluster_.jobs[job->id] = *job;
  changes_.jobs.insert(job->id);
  for (std::uint32_t t = 1; t <= request.array_tasks; ++t) {
    Task task;
    task.id = {job->id, t};
    cluster_.tasks[task.id] = task;
    changes_.tasks.insert(task.id);
  }
  Answer answer = saved();
  if (!answer.good) {  // proven not to have happened
    cluster_ = std::move(before);
    changes_ = changes_before;
    return answer;
  }
  answer.job = JobId{job->id, 0};
  return answer;
}

Answer Controller::answer_to(const CancelJob& request) {
  const auto job = cluster_.jobs.find(request.job.job);
  if (job == cluster_.jobs.end()) return good();
  if (!request.token.empty() && job->second.request.token != request.token) return good();
  for (Task* task : tasks_of(request.job)) {
    if (task->finished() || (request.pending_only && task->active())) continue;
    if (task->cause == EndCause::None || task->cause == EndCause::Requeued) {
      task->cancelled_by_uid = uid_;
      task->cancelled_by_us = request.by_stoker;
    }
    changes_.tasks.insert(task->id);
    if (task->active()) {
      if (task->cause == EndCause::Requeued) task->cause = EndCause::None;
      end_task(*task, EndCause::Cancelled);
      settle_task(*task);
    } else {
      task->state = core::JobState::Cancelled;
      task->reason = "None";
      task->ended = now_;
    }
  }
  return saved();
}

Answer Controller::answer_to(const ExcludeNodes& request) {
  const auto job = cluster_.jobs.find(request.job.job);
  if (job == cluster_.jobs.end() || job->second.request.token != request.token) return good();
  if (request.nodes.size() > 1000) return refuse("more than 1000 excluded nodes");
  job->second.request.exclude = request.nodes;
  changes_.jobs.insert(job->first);
  return saved();
}

Answer Controller::answer_to(const FindToken& request) {
  Answer answer = good();
  for (const auto& [id, job] : cluster_.jobs)
    if (job.request.token == request.token) answer.job = JobId{id, 0};
  return answer;
}

Answer Controller::answer_to(const Observe& request) {
  if (store_error_)
    return refuse("the cluster's state cannot be saved: " + store_error_->message());
  Answer answer = good();
  std::vector<const Task*> finished;
  for (const auto& [id, task] : cluster_.tasks) {
    std::string name = cluster_.jobs.at(id.job).request.name;
    name.resize(std::min(name.find('+'), name.size()));  // of a follower: its run's
    if (!request.names.empty() &&
        std::find(request.names.begin(), request.names.end(), name) == request.names.end())
      continue;
    if (task.finished() && task.ended + kSeenFor < now_) continue;
    if (task.finished()) finished.push_back(&task);
    if (!task.finished()) answer.jobs.push_back(describe_task(cluster_, task));
  }
  std::stable_sort(finished.begin(), finished.end(),
                   [](const Task* a, const Task* b) { return a->ended < b->ended; });
  const std::size_t skip = finished.size() > kSeenAtMost ? finished.size() - kSeenAtMost : 0;
  for (std::size_t i = skip; i < finished.size(); ++i)
    answer.jobs.push_back(describe_task(cluster_, *finished[i]));
  std::sort(answer.jobs.begin(), answer.jobs.end(),
            [](const auto& a, const auto& b) { return a.job < b.job; });
  for (const auto& [name, node] : cluster_.nodes)
    answer.nodes.push_back(describe_node(cluster_, node));
  return answer;
}

Answer Controller::answer_to(const DrainNode& request) {
  const auto node = cluster_.nodes.find(request.node);
  if (node == cluster_.nodes.end()) return refuse("Invalid node name " + request.node.text);
  if (node->second.health == Health::Up) node->second.health = Health::Drain;
  node->second.reason = request.reason.substr(0, 200);
  changes_.nodes.insert(request.node);
  return saved();
}

Answer Controller::answer_to(const ResumeNode& request) {
  const auto node = cluster_.nodes.find(request.node);
  if (node == cluster_.nodes.end()) return refuse("Invalid node name " + request.node.text);
  node->second.health = Health::Up;
  node->second.reason.clear();
  changes_.nodes.insert(request.node);
  return saved();
}

// DOWN is durable before the first process dies: a scheduler process that is killed in between
// goes on burying in its first turn.
Answer Controller::answer_to(const KillNode& request) {
  const auto node = cluster_.nodes.find(request.node);
  if (node == cluster_.nodes.end()) return refuse("Invalid node name " + request.node.text);
  node->second.health = Health::Down;
  node->second.reason = "Not responding";
  changes_.nodes.insert(request.node);
  if (Answer answer = saved(); !answer.good) return answer;
  for (auto& [id, task] : cluster_.tasks) bury_dead_nodes(task);
  return saved();
}

Answer Controller::answer_to(const RequeueJob& request) {
  const auto tasks = tasks_of(request.job);
  if (tasks.empty()) return refuse("Invalid job id specified: " + request.job.text());
  bool any = false;
  for (Task* task : tasks) {
    end_task(*task, EndCause::Requeued);
    any = any || task->cause == EndCause::Requeued;
    settle_task(*task);
  }
  if (!any) return refuse("nothing of " + request.job.text() + " runs, so it is not requeued");
  return saved();
}

Answer Controller::set_held(const JobId& job, bool held) {
  const auto tasks = tasks_of(job);
  if (tasks.empty()) return refuse("Invalid job id specified: " + job.text());
  for (Task* task : tasks) {
    if (task->finished()) continue;
    task->held = held;
    changes_.tasks.insert(task->id);
  }
  return saved();
}

Answer Controller::answer_to(const HoldJob& request) {
  return set_held(request.job, true);
}

Answer Controller::answer_to(const ReleaseJob& request) {
  return set_held(request.job, false);
}

Answer Controller::answer_to(const ListAll&) {
  Answer answer = good();
  for (const auto& [id, task] : cluster_.tasks) {
    const Job& job = cluster_.jobs.at(id.job);
    TaskLine line;
    line.seen = describe_task(cluster_, task);
    line.name = job.request.name;
    line.folder = fmt::format("{}/jobs/{}", folder_, id.text());
    line.submitted = job.submitted;
    line.started = task.started;
    line.ended = task.ended;
    answer.lines.push_back(std::move(line));
  }
  for (const auto& [name, node] : cluster_.nodes)
    answer.nodes.push_back(describe_node(cluster_, node));
  return answer;
}

Answer Controller::answer_to(const Shutdown& request) {
  if (has_live_tasks() && !request.cancel_jobs)
    return refuse("jobs are live in this cluster", "cancel them first, or ask with --cancel-jobs");
  for (auto& [id, task] : cluster_.tasks)
    if (!task.finished()) (void)answer_to(CancelJob{{}, id, false, true});
  shutdown_ = true;
  return good();
}

}  // namespace stoker::embedded
