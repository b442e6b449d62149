// DirectWriter: one large file, hashed while it is written. Whole buffers go to the disk past the
// page cache (O_DIRECT) from a thread of their own, while the next one is filled and hashed: a
// checkpoint is not read again soon, and fresh pages for it cost more than the disk does. Where a
// file system refuses O_DIRECT, and for small files, it writes the ordinary way.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/hash.hpp"
#include "common/os/fd.hpp"
#include "common/os/own_folder.hpp"
#include "common/result.hpp"

namespace stoker::train {

class DirectWriter {
 public:
  // Creates the file; `expected` is about how many bytes will come. An Error of a full disk is
  // distinguished by is_disk_full().
  static Result<std::unique_ptr<DirectWriter>> create(const os::OwnFolder& folder,
                                                      const std::string& name,
                                                      std::uint64_t expected);
  ~DirectWriter();
  DirectWriter(const DirectWriter&) = delete;
  DirectWriter& operator=(const DirectWriter&) = delete;

  Status write(const void* data, std::size_t size);
  // Writes what is left and fsyncs.
  Status finish();
  [[nodiscard]] std::uint64_t written() const { return written_; }
  [[nodiscard]] std::uint64_t digest() const { return hash_.digest(); }

 private:
  struct Unmap {
    void operator()(char* memory) const;
  };
  struct Block {
    std::unique_ptr<char, Unmap> bytes;
    std::size_t size = 0;
    bool full = false;  // owned by the thread while true
  };
  DirectWriter(os::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  void run();  // the thread
  Status put(const char* data, std::size_t size);
  Status hand_over();
  void stop();

  os::Fd fd_;
  std::string path_;
  Xxh3Stream hash_;
  std::uint64_t written_ = 0;
  std::array<Block, 2> blocks_;
  std::size_t current_ = 0;

  std::mutex mutex_;
  std::condition_variable moved_;
  std::optional<Error> failure_;  // of the thread
  bool ending_ = false;
  std::thread thread_;
};

bool is_disk_full(const Error& error);
// From errno, marked as a full disk where it is one.
Error write_error(std::string what, const std::string& path);

}  // namespace stoker::train
