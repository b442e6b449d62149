#include "cluster_fixture.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/process.hpp"
#include "embedded/node_folder.hpp"

namespace stoker::embedded::testing {
namespace {

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

// Pids whose command line or environment names `text`.
std::vector<pid_t> processes_naming(const std::string& text, const char* file) {
  std::vector<pid_t> out;
  const auto names = os::list_directory("/proc");
  if (!names) return out;
  for (const auto& name : *names) {
    const pid_t pid = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    if (pid <= 0 || pid == ::getpid()) continue;
    const auto content = os::read_file("/proc/" + name + "/" + file, 4u << 20);
    if (content && content->find(text) != std::string::npos) out.push_back(pid);
  }
  return out;
}

}  // namespace

bool pid_alive(pid_t pid) {
  const auto identity = os::identify(pid);
  return identity && os::is_alive(*identity);
}

ClusterFixture::ClusterFixture() {
  const char* tmp = ::getenv("TMPDIR");
  std::string pattern = std::string(tmp != nullptr ? tmp : "/tmp") + "/stoker-cluster-XXXXXX";
  root_ = ::mkdtemp(pattern.data());
  work_ = root_ + "/work";
  ::mkdir(work_.c_str(), 0755);
  options.folder = root_ + "/state/local";
  options.scheduler_command = {own_program(), "local-scheduler"};
  options.deadline = 5s;
}

ClusterFixture::~ClusterFixture() {
  (void)ask(options, Shutdown{true});
  CHECK(eventually([this] { return live_processes() == 0 && scheduler_pid() == 0; }));
  std::filesystem::remove_all(root_);
}

SubmitJob ClusterFixture::script(const std::string& text, const std::string& name) {
  SubmitJob job;
  job.token = Token(name + "-" + std::to_string(next_token++));
  job.name = name;
  job.time_limit = 60s;
  job.kill_wait = 300ms;
  job.argv = {"/bin/bash", "-c", text};
  job.environment = {{"PATH", "/usr/bin:/bin"}, {"FIXTURE", root_}};
  job.working_directory = work_;
  return job;
}

JobId ClusterFixture::submit(const SubmitJob& job) {
  const Answer answer = must(job);
  REQUIRE(answer.job);
  return *answer.job;
}

Answer ClusterFixture::must(const Request& request) {
  const auto result = ask(options, request);
  if (const auto* failed = std::get_if<core::PortError>(&result))
    FAIL("refused: " << failed->error.message());
  return std::get<Answer>(result);
}

std::string ClusterFixture::refusal(const Request& request) {
  const auto result = ask(options, request);
  const auto* failed = std::get_if<core::PortError>(&result);
  return failed != nullptr ? failed->error.message() : "";
}

std::vector<core::JobSeen> ClusterFixture::all() {
  return must(Observe{}).jobs;
}

core::JobSeen ClusterFixture::task(const JobId& id) {
  for (const auto& seen : all())
    if (seen.job == id) return seen;
  FAIL("no task " << id.text());
  return {};
}

core::NodeSeen ClusterFixture::node(const std::string& name) {
  for (const auto& seen : must(Observe{}).nodes)
    if (seen.node.text == name) return seen;
  FAIL("no node " << name);
  return {};
}

bool ClusterFixture::eventually(const std::function<bool()>& condition, Duration limit) {
  const Instant end = monotonic_now() + limit;
  while (!condition()) {
    if (monotonic_now() > end) return false;
    ::poll(nullptr, 0, 10);
  }
  return true;
}

bool ClusterFixture::reaches(const JobId& id, core::JobState state, Duration limit) {
  const bool reached = eventually([&] { return task(id).state == state; }, limit);
  if (!reached) MESSAGE(to_json_text(task(id)));
  return reached;
}

std::string ClusterFixture::read(const std::string& name) const {
  return os::read_file(work_ + "/" + name).value_or(std::string());
}

std::string ClusterFixture::output(const JobId& id, const std::string& node,
                                   std::uint32_t restart) const {
  const NodeFolder folder(options.folder, id, restart, NodeName(node));
  return os::read_file(folder.output()).value_or(std::string());
}

pid_t ClusterFixture::scheduler_pid() const {
  std::string wanted = "local-scheduler";
  wanted += '\0';
  wanted += "--folder";
  wanted += '\0';
  wanted += options.folder;
  const auto pids = processes_naming(wanted, "cmdline");
  return pids.empty() ? 0 : pids.front();
}

pid_t ClusterFixture::node_pid(const JobId& id, const std::string& node) const {
  const auto alive = NodeFolder(options.folder, id, 0, NodeName(node)).read_alive();
  return alive && *alive ? static_cast<pid_t>((*alive)->pid) : 0;
}

std::size_t ClusterFixture::live_processes() const {
  const auto pids = processes_naming("FIXTURE=" + root_, "environ");
  return static_cast<std::size_t>(std::count_if(pids.begin(), pids.end(), pid_alive));
}

}  // namespace stoker::embedded::testing
