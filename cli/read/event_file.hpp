// events.jsonl of a run directory, as the daemon published it: one PublishedEvent a line. Lines
// that cannot be read are counted and skipped.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/read/line_file.hpp"
#include "cli/read/published.hpp"
#include "wire/status.hpp"

namespace stoker::cli {

class EventFile {
 public:
  using Visit = std::function<void(const wire::PublishedEvent&)>;

  static Result<EventFile> open(const std::string& run_directory);

  // Events from `since` on (all without), at most the last `last` of them when it is not 0. Sets
  // the place from which follow() goes on.
  Status read(std::optional<WallTime> since, std::size_t last, const Visit& visit);
  // What was appended since the last call.
  Status follow(const Visit& visit);

  // The newest events that are `wanted`, oldest first, at most `count`; `look_back` 0 = looked for
  // in the whole file, else in the last bytes of it.
  Result<std::vector<wire::PublishedEvent>> newest(
      std::size_t count, const std::function<bool(const wire::PublishedEvent&)>& wanted,
      std::uint64_t look_back = 0);

  [[nodiscard]] std::size_t unreadable() const { return unreadable_; }

 private:
  explicit EventFile(LineFile file) : file_(std::move(file)) {}
  std::optional<wire::PublishedEvent> parse(std::string_view line);

  LineFile file_;
  std::uint64_t offset_ = 0;
  std::size_t unreadable_ = 0;
};

// It has a reason, and changed the state or acted.
bool is_decision(const wire::PublishedEvent& event);

// What the agents said, with its "kind"; null: the event is something else.
Json said_by_agents(const wire::PublishedEvent& event);

// The run that a command names ("" = the only one) and its events; says it when no daemon is there.
struct RunEvents {
  wire::SiteRun run;
  EventFile file;
};
Result<RunEvents> open_events(const Context& context, const std::string& run);

// "2h" before `now`, or RFC 3339.
Result<WallTime> parse_since(const std::string& text, WallTime now);

}  // namespace stoker::cli
