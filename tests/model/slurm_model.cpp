// The simulator's SLURM behind a pipe, for tests/slurm/real/model.py. A line in, a line out, both
// JSON: {"argv": […], "script": "…"} is a command (the script is the batch script that its last
// word names), {"end": JOB, "task": N, "code": C, "signal": S} ends a task's script, {"restart":
// true} restarts the controller, {"purge": true} lets it forget what has ended, {"pass": SECONDS}
// lets time pass. The answer to a command: {"rc": N, "out": "…", "err": "…"}. Its arguments: how
// many nodes, the release (2205), and `accounts` where there is a slurmdbd.
#include <fmt/format.h>
#include <iostream>

#include "common/json.hpp"
#include "sim/cluster/slurm_text.hpp"

using namespace stoker;
using json = Json;

namespace {

class Model {
 public:
  explicit Model(const sim::ClusterShape& shape) : shape_(shape) {}

  json answer(const json& asked) {
    json said = json::object();
    if (asked.contains("argv")) {
      os::SpawnOptions options;
      options.argv = asked["argv"].get<std::vector<std::string>>();
      if (asked.contains("script"))
        (void)files_.replace(options.argv.back(), asked["script"].get<std::string>());
      const auto output = text_.run(options, 1min);
      if (!output) return {{"rc", 255}, {"out", ""}, {"err", output.error().message()}};
      said = {{"rc", output->status.code}, {"out", output->out}, {"err", output->err}};
    }
    if (asked.contains("end")) {
      const std::uint64_t id = asked["end"];
      const std::uint32_t task =
          cluster_.jobs().at(id).array ? asked["task"].get<std::uint32_t>() : 1;
      cluster_.task_left(id, task, asked["code"], asked["signal"]);
    }
    if (asked.contains("restart")) cluster_.controller_restarts();
    if (asked.contains("purge")) cluster_.purge(0s);
    settle(asked.contains("pass") ? asked["pass"].get<int>() * 1s : 20s);
    return said;
  }

 private:
  // One look of the scheduler starts one task.
  void settle(Duration length) {
    const Instant end = time_.now() + length;
    while (time_.now() < end) {
      time_.run_until(std::min<Instant>(end, time_.now() + 1s), [] { return false; });
      cluster_.poll();
    }
  }

  sim::ClusterShape shape_;
  sim::Timeline time_;
  sim::Random random_{1};
  sim::SimFiles files_;
  sim::Cluster cluster_{
      time_,
      random_,
      shape_,
      {[](const sim::SimJob&, std::uint32_t) {}, [](const sim::SimJob&, std::uint32_t, bool) {},
       [](const std::string&) {}}};
  sim::SlurmText text_{cluster_, files_, time_, random_, shape_};
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  sim::ClusterShape shape;
  shape.nodes = words.empty() ? 1 : static_cast<std::uint32_t>(std::stoul(words[0]));
  if (words.size() > 1) shape.release = static_cast<std::uint32_t>(std::stoul(words[1]));
  shape.accounts = words.size() > 2 && words[2] == "accounts";
  shape.queue_wait = shape.task_gap = 0s;
  shape.remembers = 24h;
  shape.requeue_delay = 16s;
  Model model(shape);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << model.answer(json::parse(line)).dump() << std::endl;
}
