#include "sim/universe/followers.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace stoker::sim {
namespace {

constexpr std::uint32_t kStartedTwice = 100, kFails = 150, kVanishes = 60,
                        kHangs = 40;   // per mille
constexpr std::uint32_t kObeys = 700;  // of those ordered to end: they leave word
const std::string kAfter = "/runs/sim/after/";

// What the job's script starts the agent with: --folder F --token T.
std::string argument(const std::string& script, const std::string& flag) {
  const auto at = script.find(flag + " ");
  if (at == std::string::npos) return "";
  const auto begin = at + flag.size() + 1;
  std::string word = script.substr(begin, script.find_first_of(" \n", begin) - begin);
  std::erase(word, '\'');
  return word;
}

}  // namespace

Followers::Followers(Timeline& time, Random& random, Cluster& cluster, SimFiles& files,
                     Guard broken, Hooks hooks)
    : time_(time),
      random_(random),
      cluster_(cluster),
      files_(files),
      broken_(broken),
      hooks_(std::move(hooks)) {}

void Followers::job_started(const SimJob& job) {
  time_.after(random_.between(1s, 30s), [this, id = job.id] { begin(id); });
  if (random_.chance(kStartedTwice))
    time_.after(random_.between(30s, 60s), [this, id = job.id] { begin(id); });
}

// As `stoker-agent follow` does it: the order's token, the claim, the command.
void Followers::begin(std::uint64_t id) {
  const auto job = cluster_.jobs().find(id);
  if (job == cluster_.jobs().end() || job->second.state.at(1).state != core::JobState::Running)
    return;
  const auto script = files_.content.find(job->second.command);
  if (script == files_.content.end()) return;
  Command command;
  command.folder = argument(script->second, "--folder") + "/";
  command.token = Token(argument(script->second, "--token"));
  const auto text = files_.content.find(command.folder + wire::kFollowOrder);
  if (text == files_.content.end()) return cluster_.task_left(id, 1, 2);
  const auto order = from_json_text<wire::FollowOrder>(text->second, text->first, {1u << 20, 8});
  STOKER_CHECK(order, "an order that the daemon wrote");
  const bool fenced = broken_ != Guard::FollowOnce;
  if (fenced && order->token != command.token) return cluster_.task_left(id, 1, 2);
  const bool first = claims_.insert(command.token.text).second;
  if (fenced && !first) return running_.contains(id) ? void() : cluster_.task_left(id, 1, 3);
  command.checkpoint = {order->iteration, order->generation};
  command.of = fmt::format("{} on {}", order->follower,
                           wire::checkpoint_name(order->iteration, order->generation));
  for (const auto& [other, running] : running_)
    if (running.of == command.of)
      hooks_.broken(
          fmt::format("{} runs twice at a time, in job {} and {}", command.of, other, id));
  if (good_.contains(command.of))
    hooks_.broken(fmt::format("{} runs again although it has ended well", command.of));
  if (!hooks_.is_there(command.checkpoint))
    hooks_.broken(fmt::format("{} begins, and its checkpoint was deleted", command.of));
  hooks_.say(fmt::format("{} begins in job {}", command.of, id));
  running_[id] = command;
  if (random_.chance(kHangs)) return;  // until its time limit
  const Duration lasts = random_.between(30s, 50min);
  const bool vanishes = random_.chance(kVanishes);
  const int code = random_.chance(kFails) ? 3 : 0;
  time_.after(lasts, [this, id, vanishes, code] {
    if (!running_.contains(id)) return;
    if (vanishes)
      vanish(id);
    else
      end(id, code, false);
  });
}

void Followers::end(std::uint64_t id, int code, bool ordered) {
  const Command command = running_.extract(id).mapped();
  wire::FollowEnd end;
  end.token = command.token;
  end.code = code;
  end.ordered = ordered;
  end.seconds = 60;
  files_.content[command.folder + wire::follow_end(command.token)] = to_json_text(end) + "\n";
  if (code == 0) good_.insert(command.of);
  hooks_.say(fmt::format("{} ends with {} in job {}", command.of, code, id));
  cluster_.task_left(id, 1, code);
}

void Followers::vanish(std::uint64_t id) {
  hooks_.say(fmt::format("{} is gone without a word", running_.at(id).of));
  running_.erase(id);
  cluster_.task_left(id, 1, 137);
}

void Followers::job_killed(const SimJob& job, bool gently) {
  if (!running_.contains(job.id)) return;
  if (!gently || !random_.chance(kObeys)) return vanish(job.id);
  time_.after(random_.between(1s, 20s), [this, id = job.id] {
    if (running_.contains(id)) end(id, 143, true);
  });
}

void Followers::deleted(const std::vector<wire::CheckpointId>& gone) {
  for (const auto& [id, running] : running_)
    if (std::find(gone.begin(), gone.end(), running.checkpoint) != gone.end())
      hooks_.broken(fmt::format("a checkpoint is deleted below its reader: {}", running.of));
}

// As watch::FollowEnds does it.
std::vector<core::FollowerEnded> Followers::ends(const core::RunState& run, bool readable) const {
  std::vector<core::FollowerEnded> found;
  if (!readable && broken_ != Guard::FollowProof) return found;
  for (const auto& [name, follower] : run.followers)
    for (const core::followers::Following& f : follower.open) {
      if (!f.job) continue;
      const std::string folder =
          kAfter + wire::follow_folder(name, f.iteration, f.generation) + "/";
      const auto text = files_.content.find(folder + wire::follow_end(f.job->token));
      core::FollowerEnded ended;
      ended.token = f.job->token;
      if (readable && text != files_.content.end()) {
        const auto end = from_json_text<wire::FollowEnd>(text->second, text->first, {1u << 16, 8});
        STOKER_CHECK(end, "an end that a job wrote");
        ended.code = end->code;
        ended.ordered = end->ordered;
        ended.seconds = end->seconds;
        if (f.job->ordered) continue;  // it was reported
      } else if (f.job->looked_for) {
        ended.missing = true;
      } else {
        continue;
      }
      found.push_back(std::move(ended));
    }
  return found;
}

}  // namespace stoker::sim
