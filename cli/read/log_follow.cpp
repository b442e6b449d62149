// A file that was renamed is read to its end before the one that took its name.
#include "cli/read/log_follow.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "common/os/files.hpp"

namespace stoker::cli {

namespace {

constexpr std::uint32_t kMostRanks = 1'000'000;
// How far lines of one rank or node are looked for, so that the answer comes at once from a log of
// any size.
constexpr std::uint64_t kLookBack = 64u << 20;

// "gen-000017" of the highest number; "" when no generation has started.
std::string newest_generation(const std::string& run_directory) {
  const auto names = os::list_directory(run_directory);
  std::string newest;
  if (names)
    for (const std::string& name : *names)
      if (name.starts_with("gen-") && (name.size() > newest.size() || name > newest)) newest = name;
  return newest;
}

std::optional<std::uint32_t> rank_number(std::string_view text) {
  std::uint32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size() || rank >= kMostRanks)
    return std::nullopt;
  return rank;
}

// Lines of main.log begin with "[node:rank] ".
void split_label(LogLine& line) {
  const std::string_view whole = line.whole;
  const auto colon = whole.find(':'), close = whole.find(']');
  if (!whole.starts_with('[') || colon == std::string_view::npos ||
      close == std::string_view::npos || colon > close)
    return;
  const auto rank = rank_number(whole.substr(colon + 1, close - colon - 1));
  if (!rank) return;
  line.node = whole.substr(1, colon - 1);
  line.rank = rank;
  line.text = whole.substr(close + 1);
  if (line.text.starts_with(' ')) line.text.remove_prefix(1);
}

}  // namespace

Result<std::set<std::uint32_t>> parse_ranks(const std::string& text) {
  std::set<std::uint32_t> ranks;
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto dash = part.find('-');
    const auto first = rank_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : rank_number(part.substr(dash + 1));
    if (!first || !last || *last < *first)
      return fail("is no list of ranks; for example 3 or 0-7,16", text);
    for (std::uint32_t rank = *first; rank <= *last; ++rank) ranks.insert(rank);
    if (comma == std::string_view::npos) return ranks;
    rest.remove_prefix(comma + 1);
  }
}

LogFollow::LogFollow(std::string run_directory, LogFilter filter)
    : directory_(std::move(run_directory)), filter_(std::move(filter)) {}

std::vector<LogFollow::Open> LogFollow::choose(const std::string& generation) const {
  const std::string folder = fmt::format("{}/{}", directory_, generation);
  std::vector<Open> own;
  if (filter_.nodes.empty())
    for (const std::uint32_t rank : filter_.ranks) {
      std::string path = fmt::format("{}/ranks/{}.log", folder, rank);
      if (os::exists(path)) own.push_back({std::move(path), rank, std::nullopt, 0});
    }
  if (!own.empty() && own.size() == filter_.ranks.size()) return own;
  own.clear();
  own.push_back({folder + "/main.log", std::nullopt, std::nullopt, 0});
  return own;
}

bool LogFollow::tell(const Open& open, std::string_view text, const Visit& visit) const {
  LogLine line;
  line.generation = generation_;
  line.whole = line.text = text;
  if (open.rank)
    line.rank = open.rank;
  else
    split_label(line);
  const bool wanted = (filter_.nodes.empty() || filter_.nodes.contains(std::string(line.node))) &&
                      (filter_.ranks.empty() || (line.rank && filter_.ranks.contains(*line.rank)));
  if (wanted && visit) visit(line);
  return wanted;
}

Result<std::uint64_t> LogFollow::start_of(const Open& open, std::uint64_t count) const {
  if (open.rank || filter_.empty()) return open.file->start_of_last(count);
  std::uint64_t seen = 0, bytes = 0;
  if (count == 0) return open.file->size();
  STOKER_TRY_STATUS(open.file->backward([&](std::string_view line) {
    bytes += line.size() + 1;
    if (tell(open, line, {})) ++seen;
    return seen < count && bytes < kLookBack;
  }));
  return bytes >= open.file->size() ? std::uint64_t{0} : open.file->size() - bytes;
}

Status LogFollow::last(std::uint64_t count, bool unfinished, const Visit& visit) {
  generation_ = newest_generation(directory_);
  if (generation_.empty()) return fail("no generation has started yet", directory_);
  open_ = choose(generation_);
  for (Open& open : open_) {
    auto file = LineFile::open(open.path);
    if (!file && !unfinished) continue;  // it may still come
    if (!file) return fail(file.error());
    open.file.emplace(std::move(*file));
    STOKER_TRY(start, start_of(open, count));
    open.offset = start;
    STOKER_TRY_STATUS(drain(open, unfinished, visit));
  }
  return ok();
}

Status LogFollow::drain(Open& open, bool unfinished, const Visit& visit) const {
  if (!open.file) return ok();
  if (open.file->size() < open.offset) open.offset = 0;  // truncated, and written again
  STOKER_TRY(end, open.file->forward(open.offset, unfinished, [&](std::string_view line) {
    static_cast<void>(tell(open, line, visit));
    return true;
  }));
  open.offset = end;
  return ok();
}

Status LogFollow::more(const Visit& visit) {
  const std::string newest = newest_generation(directory_);
  const bool next = !newest.empty() && newest != generation_;
  for (Open& open : open_) {
    const bool renamed = open.file && open.file->replaced(0);
    STOKER_TRY_STATUS(drain(open, renamed || next, visit));
    if (renamed) open.file.reset();
    if (open.file) continue;
    auto file = LineFile::open(open.path);
    if (!file) continue;
    open.file.emplace(std::move(*file));
    open.offset = 0;
    if (!next) STOKER_TRY_STATUS(drain(open, false, visit));
  }
  if (!next && !open_.empty()) {  // a rank's own file may come a moment after main.log
    std::vector<Open> now = choose(generation_);
    if (now.size() == open_.size() && now.front().path == open_.front().path) return ok();
    if (open_.front().offset > 0) return ok();
    open_ = std::move(now);
    return ok();
  }
  if (newest.empty()) return ok();
  generation_ = newest;
  open_ = choose(generation_);
  for (Open& open : open_) {
    auto file = LineFile::open(open.path);
    if (!file) continue;
    open.file.emplace(std::move(*file));
    STOKER_TRY_STATUS(drain(open, false, visit));
  }
  return ok();
}

}  // namespace stoker::cli
