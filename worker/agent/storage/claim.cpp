// Claim, orders, generation.
#include "worker/agent/storage/claim.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fmt/format.h>
#include <thread>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/printable.hpp"
#include "worker/agent/storage/checkpoint_choice.hpp"
#include "worker/agent/storage/patience.hpp"

namespace stoker::agent {
namespace {

constexpr int kMintTries = 1000;

// XXH3 of the files that say what is trained: setup, and what --config names. Relative paths count
// from the run directory. What cannot be read is left out: its reader will say so.
std::map<std::string, std::string> digests_of(const std::string& run_directory,
                                              const wire::Orders& orders) {
  std::vector<std::string> files;
  if (!orders.setup.empty()) files.push_back(orders.setup);
  constexpr std::string_view kConfig = "--config";
  for (std::size_t i = 0; i < orders.command.size(); ++i) {
    const std::string& word = orders.command[i];
    if (word == kConfig && i + 1 < orders.command.size()) files.push_back(orders.command[i + 1]);
    if (word.starts_with(std::string(kConfig) + "="))
      files.push_back(word.substr(kConfig.size() + 1));
  }
  std::map<std::string, std::string> digests;
  for (const std::string& file : files) {
    const auto text = os::read_file(file.starts_with('/') ? file : run_directory + "/" + file);
    if (text) digests[file] = hex64(xxh3_64(*text));
  }
  return digests;
}

// orders/000042.json -> 42
std::optional<std::uint32_t> order_number(std::string_view name) {
  if (!name.ends_with(".json")) return std::nullopt;
  name.remove_suffix(5);
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

// Why a generation's folder is not ours to use; empty: it is, or it is not there.
std::optional<Error> foreign_folder(const std::string& folder) {
  const Status ours = os::check_own(folder);
  return !ours && os::is_refusal(ours.error()) ? std::optional(ours.error()) : std::nullopt;
}

std::vector<Generation> generations_of(const std::string& run_directory) {
  std::vector<Generation> found;
  const auto names = os::list_directory(run_directory);
  if (!names) return found;
  for (const auto& name : *names)
    if (const auto generation = wire::parse_generation_name(name);
        generation && os::check_own(run_directory + "/" + name))
      found.push_back(*generation);
  std::sort(found.begin(), found.end());
  return found;
}

Result<wire::Start> read_start(const RunContext& context, Generation generation) {
  const std::string path = generation_directory(context, generation) + "/start.json";
  STOKER_TRY(text, os::read_own_file(context.run_directory,
                                     wire::generation_name(generation) + "/start.json", 16u << 20));
  STOKER_TRY(start, from_json_text<wire::Start>(text, path));
  if (start.generation != generation) return fail("names another generation", path);
  return start;
}

std::optional<wire::Start> newest_start(const RunContext& context) {
  auto starts = newest_starts(context, 1);
  return starts.empty() ? std::nullopt : std::optional(std::move(starts[0]));
}

}  // namespace

std::vector<wire::Start> newest_starts(const RunContext& context, std::size_t most) {
  std::vector<wire::Start> starts;
  const auto generations = generations_of(context.run_directory);
  for (auto it = generations.rbegin(); it != generations.rend() && starts.size() < most; ++it)
    if (auto start = read_start(context, *it)) starts.push_back(std::move(*start));
  return starts;
}

std::string generation_directory(const RunContext& context, Generation generation) {
  return context.run_directory + "/" + wire::generation_name(generation);
}

std::optional<Generation> newest_generation(const std::string& run_directory) {
  const auto generations = generations_of(run_directory);
  return generations.empty() ? std::nullopt : std::optional(generations.back());
}

Result<std::optional<wire::Orders>> newest_orders(const std::string& run_directory,
                                                  Refused& refused) {
  const auto names = os::list_directory(run_directory + "/orders");
  std::vector<std::uint32_t> numbers;
  for (const auto& name : names.value_or(std::vector<std::string>{}))
    if (const auto number = order_number(name)) numbers.push_back(*number);
  std::sort(numbers.rbegin(), numbers.rend());
  Result<std::string> text = fail("");
  std::string path;
  for (const std::uint32_t number : numbers) {  // what is not our own counts as not there
    const std::string name = fmt::format("orders/{:06}.json", number);
    path = run_directory + "/" + name;
    text = os::read_own_file(run_directory, name);
    if (text) break;
    if (!os::is_refusal(text.error())) return fail(text.error());
    refused.insert(text.error().message());
  }
  if (!text) return std::optional<wire::Orders>{};
  STOKER_TRY(read, from_json_text<wire::Orders>(*text, path));
  if (read.version > wire::kOrdersVersion)
    return fail("orders of a newer version", path, "use one version of stoker everywhere");
  return std::optional<wire::Orders>(std::move(read));
}

Result<std::optional<wire::Orders>> orders_of_submission(const RunContext& context,
                                                         Refused& refused, Duration most,
                                                         Duration look) {
  for (Duration waited = 0s;; waited += look) {
    auto newest = newest_orders(context.run_directory, refused);
    const bool seen = newest && *newest && context.order && (*newest)->number >= *context.order;
    if (!context.order || seen || waited >= most) return newest;
    if (waited == 0s)
      tell_stderr(fmt::format("stoker-agent: order {} of this submission is not seen yet: waiting",
                              context.order->value));
    std::this_thread::sleep_for(look);
  }
}

Result<wire::Orders> read_orders(const RunContext& context, const RunOptions& options,
                                 Refused& refused) {
  wire::Orders orders;
  STOKER_TRY(newest, orders_of_submission(context, refused));
  if (newest) {
    orders = *newest;
  } else {
    orders.run = context.run;
    orders.orphan_grace = Duration{};  // no daemon will ever speak
    orders.nodes = static_cast<std::uint32_t>(context.nodes.size());
    if (options.spares) orders.nodes -= std::min(*options.spares, orders.nodes - 1);
  }
  if (options.ranks_per_node) orders.ranks_per_node = *options.ranks_per_node;
  if (options.spares) orders.spares = *options.spares;
  if (!options.command.empty()) orders.command = options.command;
  if (orders.command.empty())
    return fail("no command: neither after `--` nor in the orders", context.run_directory,
                "stoker-agent run --run-dir DIR --node NAME -- COMMAND…");
  if (orders.ranks_per_node == 0 || orders.ranks_per_node > 4096 || orders.nodes == 0)
    return fail("ranks per node and nodes must be at least 1", context.run_directory);
  return orders;
}

Result<ClaimResult> claim_start(const RunContext& context) {
  const std::string folder = context.run_directory + "/claims";
  STOKER_TRY_STATUS(os::make_directories(folder));
  wire::Claim claim;
  claim.run = context.run;
  claim.token = context.token;
  claim.job = context.job;
  claim.restart = context.restart;
  claim.node = context.node;
  claim.host = os::host_name();
  claim.boot_id = os::boot_id();
  claim.pid = ::getpid();
  claim.at = wall_now();
  const std::string name = wire::claim_name(context.token, context.task, context.restart);
  const std::string path = folder + "/" + name;
  STOKER_TRY(ours, os::claim_file(path, to_json_text(claim) + "\n"));
  ClaimResult result{ours, ""};
  if (ours) return result;
  result.holder = path;
  const auto text = os::read_own_file(context.run_directory, "claims/" + name, 1u << 20);
  if (!text && os::is_refusal(text.error())) return fail(text.error());
  const auto other = text ? from_json_text<wire::Claim>(*text, path)
                          : Result<wire::Claim>(fail("cannot be read", path));
  if (other)
    result.holder =
        fmt::format("job {} on {} (pid {} of {}) since {}", other->job.text(), other->node.text,
                    other->pid, other->host, format_rfc3339(other->at));
  return result;
}

Result<ResumePoint> resume_point(const RunContext& context, const wire::Orders& orders) {
  ResumePoint point;
  const std::string directory = checkpoint_directory(context.run_directory, orders);
  const bool ours = orders.checkpoint_format == "stoker";
  switch (orders.resume.mode) {
    case wire::ResumeMode::Scratch: point.parent = newest_start(context); return point;
    case wire::ResumeMode::Newest: {
      point.parent = newest_start(context);
      if (!point.parent || !ours) return point;
      auto chosen = choose_checkpoint(directory, point.parent->lineage, orders.verify_checkpoints);
      if (!chosen.error.empty()) return fail(chosen.error, directory);
      if (chosen.name.empty() && !chosen.damaged.empty())
        return fail(fmt::format("every checkpoint is damaged, the newest is {} ({})",
                                chosen.damaged.front().checkpoint, chosen.damaged.front().why),
                    directory, "restore one, or move them away to begin from scratch");
      point.iteration = chosen.iteration;
      point.load = chosen.name;
      point.damaged = std::move(chosen.damaged);
      return point;
    }
    case wire::ResumeMode::Exact: {
      point.iteration = orders.resume.iteration;
      auto parent = read_start(context, orders.resume.generation);
      if (parent) point.parent = *parent;
      if (!ours || orders.resume.iteration.value == 0) return point;
      if (!parent) return fail(parent.error());
      const auto checked =
          check_checkpoint(directory, {orders.resume.iteration, orders.resume.generation},
                           orders.verify_checkpoints);
      if (!checked) return fail(checked.error());
      point.load = wire::checkpoint_name(orders.resume.iteration, orders.resume.generation);
      return point;
    }
  }
  return point;
}

Result<Minted> mint_generation(const RunContext& context, const wire::Orders& orders,
                               const ResumePoint& point) {
  const auto existing = generations_of(context.run_directory);
  Generation next = existing.empty() ? Generation(1) : existing.back().next();
  if (context.generation) next = *context.generation;
  Minted minted;
  minted.damaged = point.damaged;
  minted.load = point.load;
  wire::Start& start = minted.start;
  start.run = context.run;
  start.parent = point.parent ? point.parent->generation : Generation(0);
  start.iteration = point.iteration;
  start.token = context.token;
  start.job = context.job;
  start.restart = context.restart;
  start.nodes = context.nodes;
  start.lead = context.lead;
  start.orders = orders;
  start.orders.digests = digests_of(context.run_directory, orders);
  std::size_t passed = 0;
  for (int tries = 0; tries < kMintTries; next = next.next()) {
    const std::string folder = generation_directory(context, next);
    if (const auto why = foreign_folder(folder)) {
      if (context.generation || next == Generation(~0u)) return fail(*why);
      if (passed++ == 0)
        tell_stderr("stoker-agent: passed over, the next free number is taken: " + why->message());
      continue;
    }
    ++tries;
    start.generation = next;
    start.lineage = wire::descend(point.parent ? point.parent->lineage : wire::Lineage{},
                                  point.iteration, next);
    start.at = wall_now();
    minted.path = folder + "/start.json";
    const auto mint = [&]() -> Result<bool> {
      STOKER_TRY_STATUS(os::make_directories(folder + "/ranks"));
      STOKER_TRY_STATUS(os::make_directories(folder + "/agents"));
      if (foreign_folder(folder)) return false;  // made meanwhile
      // Its orders hold train.environment, which may have secrets in it.
      return os::claim_file(minted.path, to_json_text(start) + "\n", 0600);
    };
    STOKER_TRY(ours, once_there_is_room(context.run_directory, mint));
    if (ours) return minted;
    if (context.generation)
      return fail(fmt::format("generation {} is taken", next.value), minted.path,
                  "use --generation auto");
  }
  return fail("no free generation number", context.run_directory);
}

std::optional<wire::Start> find_generation(const RunContext& context) {
  const auto generations = generations_of(context.run_directory);
  for (auto it = generations.rbegin(); it != generations.rend(); ++it) {
    const auto start = read_start(context, *it);
    if (start && start->token == context.token && start->job == context.job &&
        start->restart == context.restart)
      return *start;
  }
  return std::nullopt;
}

}  // namespace stoker::agent
