// The test program is also the scheduler process and the node process of its clusters, as stokerd
// is in the product: started with their hidden subcommands, it becomes them before doctest begins.
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

#include "common/os/files.hpp"
#include "embedded/node_process.hpp"
#include "embedded/scheduler_process.hpp"

namespace {

std::vector<std::string> own_arguments() {
  std::vector<std::string> out(1);
  const auto text = stoker::os::read_file("/proc/self/cmdline", 1u << 20);
  if (!text) return out;
  for (const char c : *text) {
    if (c == '\0')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

bool become_hidden_process() {
  const auto arguments = own_arguments();
  if (arguments.size() < 4) return false;
  if (arguments[1] == "local-scheduler") {
    stoker::embedded::SchedulerProcessOptions options;
    options.folder = arguments[3];
    options.node_command = {arguments[0], "local-node"};
    options.idle_exit = std::chrono::seconds(3);
    std::_Exit(stoker::embedded::run_scheduler_process(options));
  }
  if (arguments[1] == "local-node") std::_Exit(stoker::embedded::run_node_process(arguments[3]));
  return false;
}

[[maybe_unused]] const bool kHidden = become_hidden_process();

}  // namespace
