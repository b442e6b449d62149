// A slot of the agent (wire/memory_slot.hpp) as its rank sees it: mapped, of the size that the rank
// gave it. What is written counts only once complete() has returned; a process that is killed in
// between leaves a slot that no one takes.
#pragma once

#include <optional>
#include <string>

#include "common/os/fd.hpp"
#include "wire/memory_slot.hpp"

namespace stoker::train {

class Slot {
 public:
  // Errors: it cannot be opened, or is not our own private memory.
  static Result<Slot> open(const std::string& path);
  Slot(Slot&& other) noexcept;
  Slot& operator=(Slot&&) = delete;
  ~Slot();

  // Room for that much content, which it really has then. Error: there is not so much memory.
  Status reserve(std::uint64_t content);
  [[nodiscard]] std::uint64_t room() const;  // for content
  // Not of what is being written.
  [[nodiscard]] std::optional<wire::SlotHead> whole() const;
  [[nodiscard]] const char* content() const { return memory_ + wire::kSlotHeader; }
  [[nodiscard]] char* content() { return memory_ + wire::kSlotHeader; }

  void begin();                               // from now on it holds nothing
  void complete(const wire::SlotHead& head);  // with its digest

 private:
  Slot(os::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Status map(std::uint64_t size);
  void set_state(wire::SlotState state);

  os::Fd fd_;
  std::string path_;
  char* memory_ = nullptr;
  std::uint64_t size_ = 0;
};

// What `head.digest` must be.
std::uint64_t content_digest(const wire::SlotHead& head, const char* content);

}  // namespace stoker::train
