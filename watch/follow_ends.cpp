#include "watch/follow_ends.hpp"

#include <fmt/format.h>

#include "common/os/own_files.hpp"
#include "common/printable.hpp"
#include "wire/follow_files.hpp"

namespace stoker::watch {
namespace {

constexpr std::size_t kLargest = 64u << 10, kLargestOrder = 1u << 20;

// Of a file that does not count, or is malformed: the command is over, and did not end well.
core::FollowerEnded refused(const Token& token, const Error& error) {
  core::FollowerEnded ended;
  ended.token = token;
  ended.code = 1;
  ended.words = error.message();
  return ended;
}

core::FollowerEnded ended_of(const Token& token, const std::string& text, const std::string& path) {
  const auto end = from_json_text<wire::FollowEnd>(text, path, {kLargest, 8});
  if (!end) return refused(token, end.error());
  if (end->token != token) return refused(token, {"it names another job", path, ""});
  core::FollowerEnded ended;
  ended.token = token;
  ended.code = end->code;
  ended.signal = end->signal;
  ended.words = printable(end->words.substr(0, wire::kLongestWords));
  ended.ordered = end->ordered;
  ended.seconds = end->seconds;
  return ended;
}

}  // namespace

FollowEnds::FollowEnds(RunName run, std::string directory)
    : run_(std::move(run)), directory_(std::move(directory)) {}

void FollowEnds::wait_for(std::vector<Follow> follows) {
  follows_ = std::move(follows);
  std::set<Token> reported, missed;
  for (const Follow& follow : follows_) {
    if (reported_.contains(follow.token)) reported.insert(follow.token);
    if (follow.over && missed_.contains(follow.token)) missed.insert(follow.token);
  }
  reported_ = std::move(reported);
  missed_ = std::move(missed);
}

// Its folder can be read, and does not hold the end: the order lies beside it.
bool FollowEnds::is_missing(const Follow& follow) const {
  const std::string folder = fmt::format("{}/{}/", wire::kFollowFolder, follow.folder);
  const auto order = os::find_own_file(directory_, folder + wire::kFollowOrder, kLargestOrder);
  if (!order || !*order) return false;
  const auto end = os::find_own_file(directory_, folder + wire::follow_end(follow.token), kLargest);
  return end && !*end;
}

void FollowEnds::poll(std::vector<core::Input>& out) {
  for (const Follow& follow : follows_) {
    if (reported_.contains(follow.token)) continue;
    const std::string name =
        fmt::format("{}/{}/{}", wire::kFollowFolder, follow.folder, wire::follow_end(follow.token));
    const auto text = os::find_own_file(directory_, name, kLargest);
    if (!text && !os::is_refusal(text.error())) continue;  // cannot be read now: unknown
    if (text && !*text) {
      if (!follow.over || missed_.contains(follow.token) || !is_missing(follow)) continue;
      missed_.insert(follow.token);
      core::FollowerEnded ended;
      ended.token = follow.token;
      ended.missing = true;
      out.push_back({run_, std::move(ended), {}});
      continue;
    }
    reported_.insert(follow.token);
    out.push_back({run_,
                   text ? ended_of(follow.token, **text, directory_ + "/" + name)
                        : refused(follow.token, text.error()),
                   {}});
  }
}

}  // namespace stoker::watch
