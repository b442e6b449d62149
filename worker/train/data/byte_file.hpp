// Large binary files without mmap (a truncated mapped file is a SIGBUS; a short read is an error
// that is known): ByteFile reads ranges with pread, ByteWriter writes aside and renames when all
// is on disk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace stoker::train {

class ByteFile {
 public:
  // A regular file, opened for reading; its size is taken now.
  static Result<ByteFile> open(const std::string& path);
  // The same of a file that only our own user can have written (os::check_own); no link.
  static Result<ByteFile> open_own(const std::string& path);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Fills `out` from `offset`; an end of file inside is an error. Thread-safe.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  static Result<ByteFile> opened(os::Fd fd, const std::string& path);

  os::Fd fd_;
  std::uint64_t size_ = 0;
  std::string path_;
};

// Buffered; without commit() the file aside is removed and an older file of that name stays as it
// was.
class ByteWriter {
 public:
  static Result<ByteWriter> create(const std::string& path);
  ByteWriter(ByteWriter&& other) noexcept;
  ByteWriter& operator=(ByteWriter&&) = delete;
  ~ByteWriter();

  Status write(std::span<const std::byte> bytes);
  // Flushes, fsyncs, renames into place and fsyncs the folder.
  Status commit();
  [[nodiscard]] std::uint64_t written() const { return written_; }

 private:
  ByteWriter() = default;
  Status flush();

  os::Fd fd_;
  std::string path_;
  std::string aside_;
  std::vector<std::byte> buffer_;
  std::uint64_t written_ = 0;
};

}  // namespace stoker::train
