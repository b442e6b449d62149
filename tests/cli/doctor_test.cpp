// What `stoker doctor` shows of running agents.
#include "site.hpp"
#include "wire/agent_event.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

namespace {

std::string line(wire::AgentBody body) {
  wire::AgentEvent event;
  event.body = std::move(body);
  return wire::format_event_line(event);
}

}  // namespace

TEST_CASE("doctor: a run under way -> what each node's agent can learn from, late output") {
  const Site site;
  site.publish(training_status());
  wire::HealthSources n01{NodeName("n01"),
                          {{"NVML", true, "8 GPUs"}, {"kernel log", true, "/dev/kmsg"}}};
  wire::HealthSources n02{NodeName("n02"),
                          {{"NVML", true, "8 GPUs"}, {"kernel log", false, "not for this user"}}};
  const std::string path = site.directory() + "/gen-000002/lead.jsonl";
  site.write(path, line(n01) + "{\"torn health_sources\n" + line(n02) +
                       line(wire::Notice{NodeName("n01"), "output of rank 3 is block-buffered"}));
  const std::string told = site.stoker({"doctor"}).out;
  CHECK(told.find("hello/n01        NVML: 8 GPUs; kernel log: /dev/kmsg\n") != std::string::npos);
  CHECK(told.find("note  hello/n02") != std::string::npos);
  CHECK(told.find("kernel log: no, not for this user") != std::string::npos);
  CHECK(told.find("output of rank 3 is block-buffered") != std::string::npos);
}

TEST_CASE("doctor: a finished run -> nothing of its nodes") {
  const Site site;
  auto status = training_status();
  status.state = "finished";
  site.publish(status);
  site.write(site.directory() + "/gen-000002/lead.jsonl",
             line(wire::HealthSources{NodeName("n01"), {{"NVML", true, "8 GPUs"}}}));
  CHECK(site.stoker({"doctor"}).out.find("hello/n01") == std::string::npos);
}
