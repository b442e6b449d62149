// EINTR and short transfers are handled here and nowhere else.
#include "worker/train/data/byte_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/random.hpp"

namespace stoker::train {

Result<ByteFile> ByteFile::open(const std::string& path) {
  os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  return opened(std::move(fd), path);
}

Result<ByteFile> ByteFile::open_own(const std::string& path) {
  os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!fd) return fail(os::open_error(errno, path));
  STOKER_TRY_STATUS(os::check_own(fd.get(), path));
  return opened(std::move(fd), path);
}

Result<ByteFile> ByteFile::opened(os::Fd fd, const std::string& path) {
  ByteFile file;
  file.path_ = path;
  file.fd_ = std::move(fd);
  struct stat info {};
  if (::fstat(file.fd_.get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(info.st_mode)) return fail("not a regular file", path);
  file.size_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Status ByteFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return fail(errno_error(errno, fmt::format("cannot read at byte {}", offset), path_));
    if (n == 0) return fail(fmt::format("ends at byte {}, shorter than expected", offset), path_);
    offset += static_cast<std::uint64_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
  return ok();
}

Result<ByteWriter> ByteWriter::create(const std::string& path) {
  ByteWriter writer;
  writer.path_ = path;
  writer.aside_ = fmt::format("{}.new.{}", path, os::random_hex(8));
  writer.fd_.reset(::open(writer.aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!writer.fd_) {
    const int error = errno;
    return fail(errno_error(error, "cannot create", std::exchange(writer.aside_, {})));
  }
  return writer;
}

ByteWriter::ByteWriter(ByteWriter&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      aside_(std::exchange(other.aside_, {})),
      buffer_(std::move(other.buffer_)),
      written_(other.written_) {}

ByteWriter::~ByteWriter() {
  if (!aside_.empty()) ::unlink(aside_.c_str());
}

Status ByteWriter::write(std::span<const std::byte> bytes) {
  constexpr std::size_t kBuffer = 1u << 20;
  written_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kBuffer - buffer_.size());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    if (buffer_.size() == kBuffer) STOKER_TRY_STATUS(flush());
  }
  return ok();
}

Status ByteWriter::flush() {
  std::span<const std::byte> left(buffer_);
  while (!left.empty()) {
    const ssize_t n = ::write(fd_.get(), left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno_error(errno, "cannot write", path_));
    left = left.subspan(static_cast<std::size_t>(n));
  }
  buffer_.clear();
  return ok();
}

Status ByteWriter::commit() {
  STOKER_TRY_STATUS(flush());
  if (::fsync(fd_.get()) != 0) return fail(errno_error(errno, "cannot fsync", path_));
  if (::rename(aside_.c_str(), path_.c_str()) != 0)
    return fail(errno_error(errno, "cannot rename into place", path_));
  aside_.clear();
  fd_.reset();
  const auto slash = path_.rfind('/');
  return os::sync_directory(slash == std::string::npos ? "."
                            : slash == 0               ? "/"
                                                       : path_.substr(0, slash));
}

}  // namespace stoker::train
