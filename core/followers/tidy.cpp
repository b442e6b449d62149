// Old folders below after/: what no follower can need any more is deleted, so that a run of months
// does not leave one a checkpoint. A folder goes only when no try of it is under way; a job that is
// late finds no order there and runs nothing.
#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include "core/followers/followers.hpp"
#include "wire/follow_files.hpp"

namespace stoker::core::followers {
namespace {

constexpr std::size_t kKept = 10;   // folders a follower, whose output people may want to read
constexpr std::size_t kStuck = 50;  // older ones that cannot be deleted, and are tried again
constexpr Duration kAgain = 6h;

bool is_of(const Folder& folder, const Following& f) {
  return folder.iteration == f.iteration && folder.generation == f.generation;
}

std::vector<Folder>::iterator find(Follower& follower, const RemoveFollowFolder& action) {
  return std::find_if(follower.folders.begin(), follower.folders.end(), [&](const Folder& folder) {
    return folder.leaving && folder.iteration == action.iteration &&
           folder.generation == action.generation;
  });
}

}  // namespace

void remember_folder(Follower& follower, const Following& following) {
  if (!following.job && following.tries == 0) return;  // it has none
  take_folder(follower, following);
  follower.folders.push_back({following.iteration, following.generation, false, {}});
}

void take_folder(Follower& follower, const Following& following) {
  std::erase_if(follower.folders, [&](const Folder& folder) { return is_of(folder, following); });
}

bool is_leaving(const Follower& follower, const Following& following) {
  return std::any_of(follower.folders.begin(), follower.folders.end(), [&](const Folder& folder) {
    return folder.leaving && is_of(folder, following);
  });
}

void tidy(Turn& turn, const std::string& name) {
  Follower& follower = turn.r().followers[name];
  if (turn.r().conditions.observe_only || follower.folders.size() <= kKept) return;
  for (std::size_t i = 0; i < follower.folders.size() - kKept; ++i) {
    Folder& folder = follower.folders[i];
    if (folder.leaving || turn.now() < folder.again) continue;
    folder.leaving = true;
    turn.act(RemoveFollowFolder{name, folder.iteration, folder.generation});
  }
}

void on_folder_removed(Turn& turn, const RemoveFollowFolder& action) {
  const auto of = turn.r().followers.find(action.follower);
  if (of == turn.r().followers.end()) return;
  if (const auto folder = find(of->second, action); folder != of->second.folders.end())
    of->second.folders.erase(folder);
}

void on_folder_not_removed(Turn& turn, const RemoveFollowFolder& action, const std::string& why,
                           bool proven) {
  const auto of = turn.r().followers.find(action.follower);
  if (of == turn.r().followers.end()) return;
  Follower& follower = of->second;
  const auto folder = find(follower, action);
  if (folder == follower.folders.end()) return;
  folder->leaving = false;
  if (!proven) return;
  folder->again = turn.now() + kAgain;
  if (follower.folders.size() > kKept + kStuck) follower.folders.erase(folder);
  if (!std::has_single_bit(++follower.stuck)) return;
  turn.say(
      fmt::format("the old folder {} cannot be deleted, and is tried again in {}: {}{}",
                  wire::follow_folder(action.follower, action.iteration, action.generation),
                  format_duration(kAgain), why,
                  follower.stuck == 1 ? "" : fmt::format(" (refused {} times)", follower.stuck)));
}

}  // namespace stoker::core::followers
