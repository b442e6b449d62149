// Events by time are found by bisection: the file is ordered by sequence, and so by time.
#include "cli/read/event_file.hpp"

#include <algorithm>

namespace stoker::cli {

Result<EventFile> EventFile::open(const std::string& run_directory) {
  STOKER_TRY(file, LineFile::open(run_directory + "/events.jsonl"));
  return EventFile(std::move(file));
}

std::optional<wire::PublishedEvent> EventFile::parse(std::string_view line) {
  if (line.empty()) return std::nullopt;
  auto event =
      from_json_text<wire::PublishedEvent>(line, file_.path(), {.bytes = LineFile::kMaxLine});
  if (!event) {
    ++unreadable_;
    return std::nullopt;
  }
  return *std::move(event);
}

Status EventFile::read(std::optional<WallTime> since, std::size_t last, const Visit& visit) {
  std::uint64_t begin = 0;
  if (since) {
    STOKER_TRY(at, file_.partition_point([&](std::string_view line) {
      const auto event =
          from_json_text<wire::PublishedEvent>(line, file_.path(), {.bytes = LineFile::kMaxLine});
      if (!event) return true;
      const auto time = parse_rfc3339(event->time);
      return !time || *time < *since;
    }));
    begin = at;
  }
  if (last > 0) {
    STOKER_TRY(at, file_.start_of_last(last));
    begin = std::max(begin, at);
  }
  offset_ = begin;
  return follow(visit);
}

Status EventFile::follow(const Visit& visit) {
  if (file_.replaced(offset_)) {
    STOKER_TRY(fresh, LineFile::open(file_.path()));
    file_ = std::move(fresh);
    offset_ = 0;
  }
  STOKER_TRY(end, file_.forward(offset_, false, [&](std::string_view line) {
    if (const auto event = parse(line)) visit(*event);
    return true;
  }));
  offset_ = end;
  return ok();
}

Result<std::vector<wire::PublishedEvent>> EventFile::newest(
    std::size_t count, const std::function<bool(const wire::PublishedEvent&)>& wanted,
    std::uint64_t look_back) {
  std::vector<wire::PublishedEvent> found;
  std::uint64_t seen = 0;
  if (count == 0) return found;
  STOKER_TRY_STATUS(file_.backward([&](std::string_view line) {
    const auto event = parse(line);
    if (event && wanted(*event)) found.push_back(*event);
    seen += line.size() + 1;
    return found.size() < count && (look_back == 0 || seen < look_back);
  }));
  std::reverse(found.begin(), found.end());
  return found;
}

bool is_decision(const wire::PublishedEvent& e) {
  return !e.reason.empty() && (!e.decision.empty() || !e.actions.empty());
}

Json said_by_agents(const wire::PublishedEvent& event) {
  if (event.kind != "agent_said" || !event.event.is_object()) return {};
  const Json said = event.event.value("event", Json());
  return said.is_object() ? said.value("body", Json()) : Json();
}

Result<RunEvents> open_events(const Context& context, const std::string& name) {
  STOKER_TRY(run, name.empty() ? only_run(context.state) : find_run(context.state, name));
  note_daemon(context);
  STOKER_TRY(file, EventFile::open(run.directory));
  return RunEvents{run, std::move(file)};
}

Result<WallTime> parse_since(const std::string& text, WallTime now) {
  if (const auto ago = parse_duration(text)) return now - *ago;
  if (const auto at = parse_rfc3339(text)) return *at;
  return fail("expected a time like 2026-05-01T03:56:11Z or a duration like 2h", text);
}

}  // namespace stoker::cli
