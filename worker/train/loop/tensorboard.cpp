#include "worker/train/loop/tensorboard.hpp"

#include <bit>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"

namespace stoker::train {
namespace {

template <class T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  return bytes;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(0x80 | (value & 0x7f));
  return bytes + static_cast<char>(value);
}

std::string text_field(char tag, std::string_view content) {
  return tag + varint(content.size()) + std::string(content);
}

std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

// Event: 1 double wall_time, 2 int64 step.
std::string event_head(double wall_seconds, std::uint64_t step) {
  std::string head = '\x09' + little_endian(std::bit_cast<std::uint64_t>(wall_seconds));
  if (step != 0) head += '\x10' + varint(step);
  return head;
}

double wall_seconds() {
  return to_seconds(wall_now().time_since_epoch());
}

}  // namespace

std::string tensorboard_record(std::string_view payload) {
  const std::string length = little_endian(std::uint64_t{payload.size()});
  return length + little_endian(masked(length)) + std::string(payload) +
         little_endian(masked(payload));
}

std::string tensorboard_version_event(double wall) {
  return event_head(wall, 0) + text_field('\x1a', "brain.Event:2");
}

std::string tensorboard_start_event(double wall, Iteration step) {
  return event_head(wall, step.value) + text_field('\x3a', "\x08\x01");  // SessionLog: START
}

std::string tensorboard_scalar_event(double wall, Iteration step, const Scalar& scalar) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value));
  const std::string value = text_field('\x0a', scalar.tag) + '\x15' + little_endian(bits);
  return event_head(wall, step.value) + text_field('\x2a', text_field('\x0a', value));
}

Result<Tensorboard> Tensorboard::open(const std::string& folder, Iteration from) {
  STOKER_TRY_STATUS(os::make_directories(folder));
  const double wall = wall_seconds();
  const std::string path =
      fmt::format("{}/events.out.tfevents.{}.{}.{}", folder, static_cast<std::int64_t>(wall),
                  os::host_name(), ::getpid());
  os::Fd fd(::open(path.c_str(),
                   O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                   0644));
  if (!fd) return fail(errno_error(errno, "cannot create", path));
  Tensorboard board(std::move(fd), path);
  std::string head = tensorboard_record(tensorboard_version_event(wall));
  if (from.value > 0) head += tensorboard_record(tensorboard_start_event(wall, from.next()));
  STOKER_TRY_STATUS(board.put(head));
  return board;
}

Status Tensorboard::put(const std::string& bytes) {
  if (::write(fd_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()))
    return ok();
  return fail(errno_error(errno, "cannot write", path_));
}

Status Tensorboard::add(Iteration step, const std::vector<Scalar>& scalars) {
  const double wall = wall_seconds();
  std::string bytes;
  for (const Scalar& scalar : scalars)
    bytes += tensorboard_record(tensorboard_scalar_event(wall, step, scalar));
  return put(bytes);
}

}  // namespace stoker::train
