// Frames of the star, also hostile ones; and the context from the environment.
#include "worker/agent/link/protocol.hpp"

#include <doctest/doctest.h>

#include "worker/agent/node/kernel_event.hpp"
#include "worker/agent/node/node_health.hpp"
#include "worker/agent/node/nvml.hpp"
#include "worker/agent/rank/rank_environment.hpp"
#include "worker/agent/run_context.hpp"

using namespace stoker;
using namespace stoker::agent;

TEST_CASE("frames: byte by byte -> the same frames") {
  const std::string bytes =
      encode_frame('j', "{}") + encode_frame('l', "") + encode_frame('l', "x\n");
  FrameReader reader;
  std::vector<std::string> got;
  for (const char c : bytes) {
    REQUIRE(reader.feed({&c, 1}));
    while (const auto frame = reader.next()) got.push_back(frame->kind + frame->content);
  }
  CHECK(got == std::vector<std::string>{"j{}", "l", "lx\n"});
}

TEST_CASE("frames: too long or of an unknown kind -> refused") {
  FrameReader reader, other;
  CHECK_FALSE(reader.feed(std::string("\xff\xff\xff\x7fj", 5)));
  CHECK_FALSE(other.feed(std::string("GET / HTTP/1.1\r\n")));
}

TEST_CASE("messages: a command -> JSON -> the same command") {
  StartRanks start;
  start.attempt = Attempt(3);
  start.master_port = 20123;
  start.load = "/x/step-000007.g000001";
  const auto back = from_json_text<NodeCommand>(to_json_text(NodeCommand(start)), "test");
  REQUIRE(back);
  CHECK(std::get<StartRanks>(*back) == start);
}

TEST_CASE("context: SLURM's environment -> nodes, lead, claim; a foreign node is refused") {
  std::map<std::string, std::string> env{{"SLURM_JOB_ID", "90"},
                                         {"SLURM_ARRAY_JOB_ID", "88"},
                                         {"SLURM_ARRAY_TASK_ID", "3"},
                                         {"SLURM_RESTART_COUNT", "2"},
                                         {"SLURM_JOB_NODELIST", "n[01-03]"},
                                         {"SLURM_NODEID", "1"},
                                         {"STOKER_TOKEN", "run-1-ff"},
                                         {"STOKER_RUN", "run"},
                                         {"STOKER_NODE_ADDRESSES", "n01=127.0.0.1,n02=127.0.0.2"}};
  RunOptions options;
  options.run_directory = "/tmp/x";
  options.node = "n02";
  const auto context = read_context(options, env);
  REQUIRE(context);
  CHECK(context->nodes.size() == 3);
  CHECK(context->lead.text == "n01");
  CHECK_FALSE(context->is_lead());
  CHECK(context->job.text() == "88_3");
  CHECK(context->restart == 2);
  CHECK(context->address_of(NodeName("n02")) == "127.0.0.2");
  options.node = "n09";
  CHECK_FALSE(read_context(options, env));
  options.node = "n02";
  env["STOKER_TOKEN"] = "../x";
  CHECK_FALSE(read_context(options, env));
  env["STOKER_TOKEN"] = "t";
  env["SLURM_RESTART_COUNT"] = "-1";
  CHECK_FALSE(read_context(options, env));
}

TEST_CASE("environment: an mpirun in the place of a rank does not ask SLURM") {
  const Environment job{{"SLURM_TASKS_PER_NODE", "1(x2)"}, {"OMPI_MCA_plm", "rsh"}};
  wire::Start start;
  start.orders.environment = {{"PRTE_MCA_ras", "slurm"}};
  const Environment e = base_environment(job, RunContext{}, start, 1);
  CHECK_FALSE(e.contains("SLURM_TASKS_PER_NODE"));
  CHECK(e.at("OMPI_MCA_ras") == "^slurm");
  CHECK(e.at("PRTE_MCA_plm") == "^slurm");
  CHECK(e.at("OMPI_MCA_plm") == "rsh");  // what a person has set stays
  CHECK(e.at("PRTE_MCA_ras") == "slurm");
}

TEST_CASE("exit before the limit: a wall nearer than twice the margin -> half of what is left") {
  wire::Orders orders;
  orders.exit_before_limit = 600s;
  const WallTime began{};
  CHECK(exit_before(orders, began + 7200s, began) == began + 6600s);
  CHECK(exit_before(orders, began + 60s, began) == began + 30s);
}

namespace {
int g_xid = 0;
unsigned g_remapped = 0;
NvmlTable fake_nvml() {
  NvmlTable t;
  t.init = [] { return 0; };
  t.shutdown = [] { return 0; };
  t.count = [](unsigned* n) { return *n = 1, 0; };
  t.handle = [](unsigned, void** h) { return *h = &g_xid, 0; };
  t.pci = [](void*, NvmlPci* p) {
    return std::snprintf(p->bus_id, sizeof p->bus_id, "00000000:CB:00.0") > 0 ? 0 : 1;
  };
  t.event_set = [](void** s) { return *s = &g_xid, 0; };
  t.register_events = [](void*, unsigned long long, void*) { return 0; };
  t.event_wait = [](void*, NvmlEvent* e, unsigned) {
    if (g_xid == 0) return 10;
    *e = {&g_xid, 8, static_cast<unsigned long long>(g_xid), 0, 0};
    g_xid = 0;
    return 0;
  };
  t.remapped = [](void*, unsigned* c, unsigned* u, unsigned* p, unsigned* f) {
    *c = g_remapped;
    return *u = *p = *f = 0, 0;
  };
  t.uuid = [](void*, char* text, unsigned size) {
    return std::snprintf(text, size, "GPU-8f6e0c1a") > 0 ? 0 : 1;
  };
  t.serial = [](void*, char* text, unsigned size) {
    return std::snprintf(text, size, "1564720004631") > 0 ? 0 : 1;
  };
  t.power = [](void*, unsigned* milliwatts) { return *milliwatts = 312500, 0; };
  return t;
}
}  // namespace

TEST_CASE("GPUs: a driver without serial numbers and power -> empty and 0, the rest works") {
  NvmlTable table = fake_nvml();
  table.serial = nullptr;
  table.power = [](void*, unsigned*) { return 3; };  // NVML_ERROR_NOT_SUPPORTED
  const auto watcher = GpuWatcher::make(table);
  REQUIRE(watcher);
  CHECK(watcher->gpus()[0].serial.empty());
  CHECK(watcher->watts() == 0);
}

TEST_CASE("kernel lines: an Xid -> the catalogue's word and the serial number of its GPU") {
  auto line =
      kernel_event(NodeName("n1"),
                   "NVRM: Xid (PCI:0000:cb:00): 79, pid=1, GPU has fallen off the bus.", Owners{});
  REQUIRE(line);
  CHECK(line->node_suspect == NodeSuspect::Yes);
  CHECK(line->node_action == NodeAction::Reboot);
  name_gpu(*line, {{"0000:3b:00", "GPU-1", "1"}, {"0000:cb:00", "GPU-2", "2"}});
  CHECK(line->gpu_uuid == "GPU-2");
  CHECK(line->gpu_serial == "2");
  CHECK(xid_event(NodeName("n1"), 43, "NVML: Xid 43").node_suspect == NodeSuspect::No);
}

TEST_CASE("GPUs: an Xid event and a growing counter -> reported once each") {
  auto watcher = GpuWatcher::make(fake_nvml());
  REQUIRE(watcher);
  CHECK(watcher->wait(0).empty());
  g_xid = 79;
  auto news = watcher->wait(0);
  REQUIRE(news.size() == 1);
  CHECK(news[0].xid == 79);
  CHECK(news[0].gpu.pci == "0000:cb:00");
  CHECK(news[0].gpu.serial == "1564720004631");
  REQUIRE(watcher->gpus().size() == 1);
  CHECK(watcher->gpus()[0].uuid == "GPU-8f6e0c1a");
  CHECK(watcher->watts() == doctest::Approx(312.5));
  g_remapped = 2;
  news = watcher->wait(0);
  REQUIRE(news.size() == 1);
  CHECK(news[0].text == "GPU 0000:cb:00: remapped rows 0 -> 2");
  CHECK(watcher->wait(0).empty());
}
