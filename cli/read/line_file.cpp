// pread in blocks; the only state is the descriptor.
#include "cli/read/line_file.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

namespace stoker::cli {
namespace {
constexpr std::size_t kBlock = 1u << 16;

bool is_zeros(const std::string& data) {
  return data.find_first_not_of('\0') == std::string::npos;
}

}  // namespace

Result<LineFile> LineFile::open(const std::string& path) {
  os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  struct stat s {};
  if (::fstat(fd.get(), &s) != 0) return fail(errno_error(errno, "cannot look at", path));
  if (!S_ISREG(s.st_mode)) return fail("is no regular file", path);
  return LineFile(std::move(fd), path);
}

std::uint64_t LineFile::size() const {
  struct stat s {};
  return ::fstat(fd_.get(), &s) == 0 ? static_cast<std::uint64_t>(s.st_size) : 0;
}

bool LineFile::replaced(std::uint64_t offset) const {
  struct stat mine {
  }, named{};
  if (::fstat(fd_.get(), &mine) != 0 || ::stat(path_.c_str(), &named) != 0) return false;
  return mine.st_ino != named.st_ino || mine.st_dev != named.st_dev || size() < offset;
}

Result<std::string> LineFile::block(std::uint64_t offset, std::size_t bytes) const {
  std::string data(bytes, '\0');
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t n =
        ::pread(fd_.get(), data.data() + have, bytes - have, static_cast<off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno_error(errno, "cannot read", path_));
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  data.resize(have);
  return data;
}

std::uint64_t LineFile::behind_hole(std::uint64_t offset) const {
  const off_t data = ::lseek(fd_.get(), static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0) return errno == ENXIO ? std::max(size(), offset) : offset;
  return std::max(static_cast<std::uint64_t>(data), offset);
}

Result<std::uint64_t> LineFile::start_of_last(std::uint64_t count) const {
  std::uint64_t end = size();
  if (end == 0 || count == 0) return end;
  const std::uint64_t farthest = end > kLookBack ? end - kLookBack : 0;
  std::uint64_t found = 0;
  bool first = true;
  while (end > 0) {
    const std::uint64_t begin = end > kBlock ? end - kBlock : 0;
    STOKER_TRY(data, block(begin, static_cast<std::size_t>(end - begin)));
    for (std::size_t i = data.size(); i-- > 0;) {
      if (data[i] != '\n') continue;
      if (first && i + 1 == data.size()) continue;  // ends the last line, begins none
      if (++found == count) return begin + i + 1;
    }
    first = false;
    end = begin;
    if (end < farthest) return end;
  }
  return std::uint64_t{0};
}

Result<std::uint64_t> LineFile::forward(std::uint64_t offset, bool unfinished,
                                        const Visit& visit) const {
  std::string pending;
  std::uint64_t read = offset;  // how far the file was read; `pending` ends there
  for (;;) {
    STOKER_TRY(data, block(read, kBlock));
    if (data.empty()) break;
    read += data.size();
    if (is_zeros(data)) {
      read = behind_hole(read);
      continue;
    }
    pending += data;
    std::size_t begin = 0;
    for (std::size_t end; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1)
      if (!visit(std::string_view(pending).substr(begin, end - begin)))
        return read - (pending.size() - end - 1);
    pending.erase(0, begin);
    if (pending.size() < kMaxLine) continue;
    if (!visit(pending)) return read;
    pending.clear();
  }
  if (pending.empty() || !unfinished) return read - pending.size();
  visit(pending);
  return read;
}

Status LineFile::backward(const Visit& visit) const {
  std::uint64_t end = size();
  std::string pending;    // the beginning of a line whose rest was visited or is behind it
  bool finished = false;  // a newline was seen: `pending` is a whole line's tail
  std::uint64_t unbroken = 0;
  while (end > 0 && unbroken < kLookBack) {
    const std::uint64_t begin = end > kBlock ? end - kBlock : 0;
    STOKER_TRY(data, block(begin, static_cast<std::size_t>(end - begin)));
    end = begin;
    unbroken += data.size();
    for (;;) {
      const std::size_t newline = data.rfind('\n');
      if (newline == std::string::npos) break;
      if (finished && !visit(data.substr(newline + 1) + pending)) return ok();
      finished = true;
      unbroken = newline;
      pending.clear();
      data.resize(newline);
    }
    if (finished && data.size() + pending.size() <= kMaxLine) pending.insert(0, data);
  }
  if (finished && end == 0) visit(pending);
  return ok();
}

Result<std::uint64_t> LineFile::partition_point(const Visit& before) const {
  std::uint64_t low = 0, high = size();  // the answer is in [low, high]; low begins a line
  while (high > low && high - low > kBlock) {
    const std::uint64_t middle = low + (high - low) / 2;
    std::uint64_t line_begin = 0, line_end = 0;
    bool judged = false, is_before = true;
    // The first whole line behind `middle`.
    std::uint64_t at = middle;
    bool skipped = false;
    STOKER_TRY(after, forward(middle, false, [&](std::string_view line) {
                 if (!skipped) {
                   skipped = true;
                   at += line.size() + 1;
                   return true;
                 }
                 judged = true;
                 line_begin = at;
                 line_end = at + line.size() + 1;
                 is_before = before(line);
                 return false;
               }));
    static_cast<void>(after);
    if (!judged || line_begin >= high)
      high = middle;
    else if (is_before)
      low = line_end;
    else
      high = middle;
  }
  std::uint64_t at = low;
  STOKER_TRY(end, forward(low, false, [&](std::string_view line) {
               if (!before(line)) return false;
               at += line.size() + 1;
               return true;
             }));
  static_cast<void>(end);
  return at;
}

}  // namespace stoker::cli
