// Reading streams through the file once in pieces; memory is one entry an iteration.
#include "worker/train/data/samples_log.hpp"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "common/hash.hpp"
#include "common/os/own_folder.hpp"
#include "worker/train/data/byte_file.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kMaxLine = 8192;

// Cuts `prefix` from the front of `text`, then reads a number from it.
template <class T>
bool take(std::string_view& text, std::string_view prefix, T& value) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

using Writer = std::pair<Generation, Attempt>;

// Applies the rule of the header: a line counts unless a later writer began at or before its
// iteration.
void keep_in_force(const std::map<Writer, std::map<Iteration, SamplesLine>>& by_writer,
                   std::map<Iteration, SamplesLine>& out) {
  for (const auto& [writer, lines] : by_writer) {
    if (lines.empty()) continue;
    out.erase(out.lower_bound(lines.begin()->first), out.end());
    for (const auto& [iteration, line] : lines) out.insert_or_assign(iteration, line);
  }
}

}  // namespace

std::string format_samples_line(const SamplesLine& line) {
  std::string sources;
  for (const auto& [source, count] : line.sources) sources += fmt::format(" {}:{}", source, count);
  const std::string body = fmt::format(
      "iteration {} | samples {}-{} | data sets{} | generation {}.{} | ", line.iteration.value,
      line.first, line.last, sources, line.generation.value, line.attempt.value);
  return body + hex32(crc32c(body)) + "\n";
}

Result<SamplesLine> parse_samples_line(std::string_view text) {
  const auto bad = [] { return fail("not a line of a samples log"); };
  const auto bar = text.rfind("| ");
  if (text.size() > kMaxLine || bar == std::string_view::npos) return bad();
  if (text.substr(bar + 2) != hex32(crc32c(text.substr(0, bar + 2)))) return bad();
  SamplesLine line;
  std::string_view rest = text;
  if (!take(rest, "iteration ", line.iteration.value) || !take(rest, " | samples ", line.first) ||
      !take(rest, "-", line.last) || !rest.starts_with(" | data sets"))
    return bad();
  rest.remove_prefix(std::string_view(" | data sets").size());
  std::uint32_t source = 0;
  std::uint64_t count = 0;
  while (rest.starts_with(" ") && !rest.starts_with(" |")) {
    if (!take(rest, " ", source) || !take(rest, ":", count)) return bad();
    line.sources[source] = count;
  }
  if (!take(rest, " | generation ", line.generation.value) || !take(rest, ".", line.attempt.value))
    return bad();
  return line;
}

Result<SamplesLog> SamplesLog::open(const std::string& path) {
  SamplesLog log;
  log.path_ = path;
  constexpr int kFlags =
      O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  log.fd_.reset(::open(path.c_str(), kFlags, 0644));
  if (!log.fd_ && errno == ELOOP)
    return fail("is a symbolic link: nothing is appended to what it names", path,
                "name that file itself");
  if (!log.fd_) return fail(errno_error(errno, "cannot open for append", path));
  STOKER_TRY_STATUS(os::check_owner(log.fd_.get(), path));
  struct stat info {};
  if (::fstat(log.fd_.get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(info.st_mode)) return fail("not a regular file", path);
  char last = '\n';
  if (info.st_size > 0 && ::pread(log.fd_.get(), &last, 1, info.st_size - 1) != 1)
    return fail(errno_error(errno, "cannot read", path));
  if (last != '\n' && ::write(log.fd_.get(), "\n", 1) != 1)
    return fail(errno_error(errno, "cannot write", path));
  return log;
}

Status SamplesLog::append(const SamplesLine& line) {
  const std::string text = format_samples_line(line);
  const ssize_t n = ::write(fd_.get(), text.data(), text.size());
  if (n < 0) return fail(errno_error(errno, "cannot write", path_));
  if (static_cast<std::size_t>(n) != text.size()) return fail("cannot write a whole line", path_);
  return ok();
}

Result<SamplesHistory> read_samples_log(const std::string& path) {
  STOKER_TRY(file, ByteFile::open(path));
  SamplesHistory history;
  std::map<Writer, std::map<Iteration, SamplesLine>> by_writer;
  std::string pending;
  const auto take_line = [&](std::string_view text) {
    if (text.empty()) return;
    auto line = parse_samples_line(text);
    if (!line) {
      ++history.damaged;
      return;
    }
    by_writer[{line->generation, line->attempt}].insert_or_assign(line->iteration, *line);
  };
  for (std::uint64_t at = 0; at < file.size();) {
    std::string piece(std::min<std::uint64_t>(1u << 20, file.size() - at), '\0');
    STOKER_TRY_STATUS(file.read(at, std::as_writable_bytes(std::span(piece))));
    at += piece.size();
    pending += piece;
    std::size_t begin = 0;
    for (auto end = pending.find('\n'); end != std::string::npos; end = pending.find('\n', begin)) {
      take_line(std::string_view(pending).substr(begin, end - begin));
      begin = end + 1;
    }
    pending.erase(0, begin);
    if (pending.size() > kMaxLine)
      pending.resize(kMaxLine + 1);  // no line of ours: dropped as damaged
  }
  take_line(pending);
  keep_in_force(by_writer, history.lines);
  return history;
}

}  // namespace stoker::train
