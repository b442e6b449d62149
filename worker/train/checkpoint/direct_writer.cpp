#include "worker/train/checkpoint/direct_writer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace stoker::train {
namespace {

constexpr std::size_t kBlock = 8u << 20;  // a multiple of every disk's sector
constexpr const char* kDiskFull = "disk full: ";

}  // namespace

bool is_disk_full(const Error& error) {
  return error.what.find(kDiskFull) != std::string::npos;
}

Error write_error(std::string what, const std::string& path) {
  const int error = errno;
  if (error == ENOSPC || error == EDQUOT) what = kDiskFull + what;
  return errno_error(error, std::move(what), path, "free space on that disk");
}

void DirectWriter::Unmap::operator()(char* memory) const {
  ::munmap(memory, kBlock);
}

Result<std::unique_ptr<DirectWriter>> DirectWriter::create(const os::OwnFolder& folder,
                                                           const std::string& name,
                                                           std::uint64_t expected) {
  const std::string path = folder.path() + "/" + name;
  auto fd = folder.create(name);
  if (!fd) return fail(write_error("cannot create", path));
  // Not by open(2): a file system that refuses it then may have made the file already.
  if (expected >= kBlock) ::fcntl(fd->get(), F_SETFL, O_DIRECT);
  std::unique_ptr<DirectWriter> writer(new DirectWriter(std::move(*fd), path));
  for (Block& block : writer->blocks_) {
    void* memory =
        ::mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return fail(errno_error(errno, "no memory to write", path));
    block.bytes.reset(static_cast<char*>(memory));
  }
  writer->thread_ = std::thread([raw = writer.get()] { raw->run(); });
  return writer;
}

DirectWriter::~DirectWriter() {
  stop();
}

void DirectWriter::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    moved_.notify_all();
  }
  thread_.join();
}

// Blocks come in turn: 0, 1, 0, 1 …
void DirectWriter::run() {
  for (std::size_t turn = 0;; turn = 1 - turn) {
    Block& block = blocks_[turn];
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return block.full || ending_; });
    if (!block.full) return;
    const bool failed = failure_.has_value();
    lock.unlock();
    Status done = failed ? ok() : put(block.bytes.get(), block.size);
    lock.lock();
    if (!done) failure_ = done.error();
    block.full = false;
    block.size = 0;
    moved_.notify_all();
  }
}

Status DirectWriter::put(const char* data, std::size_t size) {
  // The last block, or what a short write left: no longer in whole sectors.
  const auto ordinary = [&] { ::fcntl(fd_.get(), F_SETFL, 0); };
  if (size % 4096 != 0) ordinary();
  while (size > 0) {
    const ssize_t n = ::write(fd_.get(), data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL && (::fcntl(fd_.get(), F_GETFL) & O_DIRECT) != 0) {
      ordinary();
      continue;
    }
    if (n < 0) return fail(write_error("cannot write", path_));
    data += n;
    size -= static_cast<std::size_t>(n);
    if (size % 4096 != 0) ordinary();
  }
  return ok();
}

Status DirectWriter::hand_over() {
  Block& block = blocks_[current_];
  hash_.update(block.bytes.get(), block.size);
  written_ += block.size;
  current_ = 1 - current_;
  std::unique_lock lock(mutex_);
  block.full = true;
  moved_.notify_all();
  moved_.wait(lock, [&] { return !blocks_[current_].full; });
  return failure_ ? Status(fail(*failure_)) : ok();
}

Status DirectWriter::write(const void* data, std::size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    Block& block = blocks_[current_];
    const std::size_t n = std::min(size, kBlock - block.size);
    std::memcpy(block.bytes.get() + block.size, from, n);
    block.size += n;
    from += n;
    size -= n;
    if (block.size == kBlock) STOKER_TRY_STATUS(hand_over());
  }
  return ok();
}

Status DirectWriter::finish() {
  if (blocks_[current_].size > 0) STOKER_TRY_STATUS(hand_over());
  stop();
  if (failure_) return fail(*failure_);
  if (::fsync(fd_.get()) != 0) return fail(write_error("cannot fsync", path_));
  return ok();
}

}  // namespace stoker::train
