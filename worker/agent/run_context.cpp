// Flags and environment -> RunContext.
#include "worker/agent/run_context.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <netdb.h>
#include <random>
#include <sys/socket.h>

#include "common/hostlist.hpp"
#include "common/os/files.hpp"
#include "wire/environment.hpp"

namespace stoker::agent {
namespace {

constexpr const char* kAddresses = "STOKER_NODE_ADDRESSES";
constexpr const char* kJobEnd = "STOKER_JOB_END_NS";

std::string text_of(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

template <class T>
Result<std::optional<T>> number_of(const std::map<std::string, std::string>& environment,
                                   const char* name) {
  const std::string text = text_of(environment, name);
  if (text.empty()) return std::optional<T>{};
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    return fail(fmt::format("{} is no number: {}", name, text.substr(0, 40)));
  return std::optional<T>(value);
}

std::string resolve(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0 || list == nullptr) return "";
  char text[NI_MAXHOST] = {};
  ::getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  ::freeaddrinfo(list);
  return text;
}

Status read_job(RunContext& context, const std::map<std::string, std::string>& environment) {
  STOKER_TRY(job, number_of<std::uint64_t>(environment, "SLURM_JOB_ID"));
  STOKER_TRY(array, number_of<std::uint64_t>(environment, "SLURM_ARRAY_JOB_ID"));
  STOKER_TRY(task, number_of<std::uint32_t>(environment, "SLURM_ARRAY_TASK_ID"));
  STOKER_TRY(restart, number_of<std::uint32_t>(environment, "SLURM_RESTART_COUNT"));
  STOKER_TRY(order, number_of<std::uint32_t>(environment, wire::env::kOrder));
  STOKER_TRY(end_ns, number_of<std::int64_t>(environment, kJobEnd));
  STOKER_TRY(end_s, number_of<std::int64_t>(environment, "SLURM_JOB_END_TIME"));
  context.standalone = !job;
  // A job of a chain without arrays counts as its own first task.
  const bool submitted = job && !text_of(environment, wire::env::kToken).empty();
  context.task = task.value_or(submitted ? 1 : 0);
  context.restart = restart.value_or(0);
  context.job = {array ? *array : job.value_or(0), context.task};
  if (order) context.order = OrderNumber(*order);
  if (end_ns)
    context.end = WallTime(Duration(*end_ns));
  else if (end_s)
    context.end = WallTime(Duration(std::chrono::seconds(*end_s)));
  context.token = Token(text_of(environment, wire::env::kToken));
  if (context.token.empty()) {
    if (job) {
      context.token = Token(fmt::format("job-{}", context.job.job));
    } else {
      std::random_device random;
      context.token = Token(fmt::format("standalone-{:08x}{:08x}", random(), random()));
    }
  }
  if (context.token.text.find('/') != std::string::npos || context.token.text.size() > 200)
    return fail(fmt::format("{} is no token", wire::env::kToken));
  return ok();
}

}  // namespace

std::string RunContext::address_of(const NodeName& name) const {
  if (const auto found = addresses.find(name); found != addresses.end()) return found->second;
  const std::string address = resolve(name.text);
  return address.empty() ? "127.0.0.1" : address;
}

Result<std::map<NodeName, std::string>> parse_addresses(const std::string& text) {
  std::map<NodeName, std::string> addresses;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const auto equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == item.size())
      return fail(fmt::format("{}: expected node=address, not \"{}\"", kAddresses, item));
    addresses[NodeName(std::string(item.substr(0, equals)))] = item.substr(equals + 1);
  }
  return addresses;
}

Result<RunContext> read_context(const RunOptions& options,
                                const std::map<std::string, std::string>& environment) {
  RunContext context;
  STOKER_TRY(directory, os::absolute_path(options.run_directory));
  context.run_directory = directory;
  STOKER_TRY_STATUS(read_job(context, environment));
  context.run = RunName(text_of(environment, wire::env::kRun));
  if (context.run.empty()) context.run = RunName(directory.substr(directory.rfind('/') + 1));
  std::string node = options.node;
  if (node.empty()) node = text_of(environment, "SLURMD_NODENAME");
  if (node.empty()) node = os::host_name();
  context.node = NodeName(node);
  STOKER_TRY(addresses, parse_addresses(text_of(environment, kAddresses)));
  context.addresses = addresses;
  const std::string list = text_of(environment, "SLURM_JOB_NODELIST");
  if (list.empty() || context.standalone) {
    context.nodes = {context.node};
  } else {
    STOKER_TRY(nodes, expand_hostlist(list));
    context.nodes = nodes;
  }
  if (std::find(context.nodes.begin(), context.nodes.end(), context.node) == context.nodes.end())
    return fail(fmt::format("node {} is not in SLURM_JOB_NODELIST {}", node, list), "",
                "give --node as the scheduler names it");
  context.lead = context.nodes.front();
  STOKER_TRY(node_id, number_of<std::uint32_t>(environment, "SLURM_NODEID"));
  if (node_id && *node_id == 0) context.lead = context.node;
  if (options.generation != "auto") {
    std::uint32_t number = 0;
    const auto& text = options.generation;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number == 0)
      return fail("--generation: expected auto or a number from 1", text);
    context.generation = Generation(number);
  }
  return context;
}

}  // namespace stoker::agent
