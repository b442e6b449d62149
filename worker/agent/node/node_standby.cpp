// Warm standbys: one initialised, idle process a local rank, made in the background once the
// training iterates, so that the next attempt starts in milliseconds (wire/standby.hpp). A Python
// training has one that has imported the modules of train.preload (preload.hpp).
#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "wire/environment.hpp"
#include "worker/agent/node/node.hpp"
#include "worker/agent/rank/guardian.hpp"
#include "worker/agent/rank/preload.hpp"

namespace stoker::agent {
namespace {

constexpr int kBackgroundNice = 10;
constexpr std::uint32_t kFailuresAllowed = 3;  // a standby that ends by itself
constexpr Duration kSpareDelay = 10s;          // a node without ranks makes its standbys then

// Only root may raise a priority again, so only root lowers it. All threads: nice is per thread.
void set_nice(pid_t guardian, int value) {
  if (::geteuid() != 0) return;
  std::vector<pid_t> pids = os::descendants_of(guardian);
  pids.push_back(guardian);
  for (const pid_t pid : pids) {
    const auto tasks = os::list_directory(fmt::format("/proc/{}/task", pid));
    if (!tasks) continue;
    for (const auto& task : *tasks)
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(std::stoul(task)), value);
  }
}

}  // namespace

bool Node::clear() const {
  return ranks_.empty() && std::all_of(standbys_.begin(), standbys_.end(),
                                       [](const auto& standby) { return standby->is_clear(); });
}

bool Node::wants_standbys() const {
  if (!start_.orders.in_allocation || leaving_ || standby_failures_ >= kFailuresAllowed)
    return false;
  if (const auto warm = base_.find("STOKER_WARM"); warm != base_.end()) return warm->second == "1";
  const std::string& program = start_.orders.command.front();
  return program.substr(program.rfind('/') + 1) == "stoker-train" || preloads().has_value();
}

std::optional<std::vector<std::string>> Node::preloads() const {
  const auto modules = base_.find(wire::env::kPreload);
  if (modules == base_.end()) return std::nullopt;
  return preload_command(start_.orders.command, modules->second, standby_path(".py"));
}

void Node::tend_standbys() {
  std::erase_if(standbys_, [this](const auto& standby) {
    if (standby->is_clear() && ++standby_failures_ == kFailuresAllowed)
      notice(fmt::format("no warm standby any more: it ended by itself {} times, see {}",
                         kFailuresAllowed, standby_path(".log")));
    return standby->is_clear();
  });
  if (!wants_standbys() || standbys_.size() >= start_.orders.ranks_per_node) return;
  if (!standbys_.empty() && !standbys_.back()->standby_ready()) return;  // one at a time
  const auto iterates = [](const auto& m) {
    const RankSample& s = m->slot->sample();
    return s.completed + s.iteration.value > 0 && s.phase == wire::Phase::Iteration;
  };
  const bool spare = ranks_.empty() && attempt_.value == 0;
  const bool settled = spare
                           ? monotonic_now() - created_ > kSpareDelay
                           : std::any_of(ranks_.begin(), ranks_.end(), iterates) &&
                                 std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& m) {
                                   return !m->gone && (!m->slot->sample().reported || iterates(m));
                                 });
  if (settled) spawn_standby();
}

std::string Node::standby_path(std::string_view ending) const {
  return fmt::format("{}/ranks/standby.{}{}", generation_directory_, wiring_.context.node.text,
                     ending);
}

Status Node::write_python_standby() {
  return os::replace_file(standby_path(".py"), python_standby(), os::Durability::Cached, 0600);
}

// Kept in memory: an import writes there, on thousands of nodes at once.
const std::string& Node::learned_list() {
  if (learned_list_) return *learned_list_;
  learned_list_.emplace();
  if (const auto wanted = base_.find(kPreloadLearned);
      wanted != base_.end() && wanted->second == "0")
    return *learned_list_;
  for (const std::string& path :
       {fmt::format("/dev/shm/{}modules", shm_prefix(wiring_.watchmen.mark)),
        standby_path(".modules")}) {
    const os::Fd made(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!made) continue;
    learned_list_ = path;
    break;
  }
  return *learned_list_;
}

void Node::learn_from(RankPlan& plan) {
  if (!wants_standbys()) return;
  auto preload = preloads();
  if (!preload || learned_list().empty() || !write_python_standby()) return;
  plan.command = std::move(*preload);
  plan.environment[kPreloadList] = learned_list();
}

void Node::spawn_standby() {
  RankPlan plan;
  plan.command = start_.orders.command;
  plan.environment = base_;
  if (auto preload = preloads()) {
    if (const auto written = write_python_standby(); !written) {
      standby_failures_ = kFailuresAllowed;
      return notice("no warm standby: " + written.error().message());
    }
    plan.command = std::move(*preload);
    if (!learned_list().empty()) plan.environment[kPreloadList] = learned_list();
  }
  plan.standby = true;
  if (!wiring_.context.standalone) plan.working_directory = wiring_.context.run_directory;
  const std::string path = standby_path(".log");
  RankProcess::Events events;
  events.output = [this, path](int, std::string_view bytes) { wiring_.logs.append(path, bytes); };
  auto process = RankProcess::start(wiring_.loop, wiring_.watchmen, plan, std::move(events));
  if (!process) {
    ++standby_failures_;
    notice("no warm standby: " + process.error().message());
    return;
  }
  set_nice((*process)->guardian(), kBackgroundNice);
  standbys_.push_back(std::move(*process));
}

std::unique_ptr<RankProcess> Node::take_standby() {
  for (auto it = standbys_.begin(); it != standbys_.end(); ++it) {
    if (!(*it)->standby_ready() || (*it)->status()) continue;
    auto standby = std::move(*it);
    standbys_.erase(it);
    set_nice(standby->guardian(), 0);
    return standby;
  }
  return nullptr;
}

}  // namespace stoker::agent
