// An entity tag changes with every line that is appended, so it can only tell that nothing is new;
// whether the file is still the same its own bytes tell.
#include "cli/remote/remote_tail.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace stoker::cli {

namespace {

constexpr std::uint64_t kPiece = 4u << 20, kOverlap = 1024, kFirstLook = 64u << 10;
constexpr std::uint64_t kFarthestLook = 16u << 20, kWholeLimit = 256u << 20;
constexpr std::size_t kLongestLine = 1u << 20;

// Where the last `count` lines of `text` begin.
std::size_t last_lines(std::string_view text, std::uint64_t count) {
  if (count == 0) return text.size();
  std::size_t at = text.size();
  if (text.ends_with('\n')) --at;
  while (count-- > 0) {
    const auto newline = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
    if (newline == std::string_view::npos) return 0;
    at = newline;
  }
  return at + 1;
}

}  // namespace

RangeAnswer RemoteTail::ask(std::optional<std::uint64_t> from, std::uint64_t bytes,
                            bool if_changed) {
  RangeRequest request;
  request.from = from;
  request.bytes = bytes;
  request.whole_limit = kWholeLimit;
  if (if_changed) {
    request.etag = etag_;
    request.modified = modified_;
  }
  RangeAnswer answer = get_(request);
  if (answer.status == 200 || answer.status == 206) {
    etag_ = answer.etag;
    modified_ = answer.modified;
  }
  return answer;
}

bool RemoteTail::failed(const RangeAnswer& answer, News& news) {
  news.wait = answer.retry_after;
  if (answer.too_large) {
    news.error =
        fmt::format("the server gives no ranges and the file is over {} MiB: copy it instead",
                    kWholeLimit >> 20);
    news.hopeless = true;
  } else if (!answer.encoding.empty() && (answer.status == 200 || answer.status == 206)) {
    news.error = fmt::format("the server sends it encoded ({}), so its bytes cannot be addressed",
                             answer.encoding);
    news.hopeless = true;
  } else if (answer.status == 0 || !answer.error.empty()) {
    news.error = answer.error.empty() ? "no answer" : answer.error;
  } else if (answer.status != 200 && answer.status != 206 && answer.status != 304 &&
             answer.status != 416) {
    news.error = fmt::format("the server answers {}{}", answer.status,
                             answer.status == 404   ? " (no such file)"
                             : answer.status == 401 ? " (who are you?)"
                             : answer.status == 403 ? " (not allowed)"
                                                    : "");
  }
  return !news.error.empty();
}

RemoteTail::News RemoteTail::first() {
  News news;
  RangeAnswer answer;
  std::string_view body;
  std::size_t at = 0;
  for (std::uint64_t look = kFirstLook;; look *= 4) {
    answer = ask(std::nullopt, look, false);
    if (failed(answer, news)) return news;
    if (answer.status == 416) {  // empty
      begun_ = true;
      return news;
    }
    body = answer.body;
    at = last_lines(body, last_lines_);
    if (at > 0 || answer.begin == 0 || last_lines_ == 0 || look >= kFarthestLook) break;
  }
  if (answer.status == 206 && answer.begin == UINT64_MAX) {
    news.error = "the server does not say which part it sends";
    news.hopeless = true;
    return news;
  }
  if (answer.whole) {
    told_whole_ = true;
    news.said.emplace_back("the server gives no ranges: the whole file is read at each change");
  }
  begun_ = true;
  if (at == 0 && answer.begin > 0 && last_lines_ > 0) {  // the first line is cut in the middle
    const auto newline = body.find('\n');
    if (newline != std::string_view::npos) at = newline + 1;
  }
  offset_ = answer.begin + at;
  before_ = std::string(
      body.substr(at - std::min<std::size_t>(at, kOverlap), std::min<std::size_t>(at, kOverlap)));
  take(body.substr(at), news);
  return news;
}

void RemoteTail::take(std::string_view bytes, News& news) {
  std::uint64_t begin = offset_ - pending_.size();
  offset_ += bytes.size();
  pending_.append(bytes);
  std::string_view rest = pending_;
  const auto give = [&](std::size_t length, std::size_t taken) {
    std::string_view text = rest.substr(0, length);
    if (text.ends_with('\r')) text.remove_suffix(1);
    news.lines.push_back({begin, std::string(text)});
    rest.remove_prefix(taken);
    begin += taken;
  };
  for (auto newline = rest.find('\n'); newline != std::string_view::npos; newline = rest.find('\n'))
    give(newline, newline + 1);
  while (rest.size() >= kLongestLine) give(kLongestLine, kLongestLine);
  pending_ = std::string(rest);
  before_.append(bytes.substr(bytes.size() - std::min<std::size_t>(bytes.size(), kOverlap)));
  if (before_.size() > kOverlap) before_.erase(0, before_.size() - kOverlap);
}

void RemoteTail::start_again(const std::string& why, News& news) {
  news.said.push_back(why);
  news.more = true;
  offset_ = 0;
  before_.clear();
  pending_.clear();
  etag_.clear();
  modified_.clear();
}

RemoteTail::News RemoteTail::poll() {
  if (!begun_) return first();
  News news;
  const std::uint64_t from = offset_ - before_.size();
  const RangeAnswer answer = ask(from, before_.size() + kPiece, true);
  if (failed(answer, news)) return news;
  if (answer.status == 304) return news;
  const bool shorter = answer.status == 416 || answer.body.size() < before_.size();
  if (shorter) {
    if (offset_ > 0) start_again("the file was cut off: from its beginning", news);
    news.more = news.more && answer.total.value_or(1) > 0;
    return news;
  }
  if (answer.whole && !told_whole_) {
    told_whole_ = true;
    news.said.emplace_back("the server gives no ranges: the whole file is read at each change");
  }
  if (answer.begin != from) {
    news.error = "the server sends another part than was asked for";
    return news;
  }
  const std::string_view body = answer.body;
  if (body.substr(0, before_.size()) != before_) {
    start_again("the file was replaced: from its beginning", news);
    return news;
  }
  take(body.substr(before_.size()), news);
  news.more = answer.total.value_or(0) > offset_;
  return news;
}

std::vector<RemoteTail::Line> RemoteTail::rest() {
  std::vector<Line> lines;
  if (!pending_.empty()) lines.push_back({offset_ - pending_.size(), pending_});
  return lines;
}

}  // namespace stoker::cli
