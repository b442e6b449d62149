#include "worker/train/command/trace_command.hpp"

#include <fmt/format.h>
#include <map>
#include <vector>

#include "common/os/files.hpp"
#include "worker/train/run/say.hpp"
#include "worker/train/run/trace.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kLargestTrace = 128u << 20;  // of one rank
constexpr std::size_t kLargestMerged = std::size_t{2} << 30;
constexpr std::size_t kLargestEvent = 4096;
constexpr std::uint32_t kMostRanks = 100'000;
constexpr std::string_view kEnd = "]}";

struct About {  // of a file, and of the start that made it
  std::string start;
  std::uint32_t rank = 0, world = 0;
  std::uint64_t first_iteration = 0, last_iteration = 0;
  STOKER_FIELDS(About, start, rank, world, first_iteration, last_iteration)
};

struct RankTimes {
  std::map<int, double> rows;  // seconds, by the row's place
  double first = 0, last = 0;  // of its iterations
  std::uint64_t iterations = 0;
};

struct Merged {
  About about;
  std::string events;
  std::map<int, std::string> rows;  // names
  std::vector<RankTimes> ranks;
};

Error damaged(const std::string& path, std::uint64_t line) {
  return {fmt::format("line {} is not what --trace writes", line), path,
          "trace again; the file was cut or changed"};
}

std::optional<About> about_of(std::string_view line, const std::string& path) {
  const auto json = parse_json(std::string(line) + std::string(kEnd), path);
  if (!json || !json->is_object() || !json->contains("otherData")) return std::nullopt;
  const auto about = from_json<About>(json->at("otherData"), path);
  if (!about || about->world == 0 || about->world > kMostRanks) return std::nullopt;
  return *about;
}

bool note(const Json& event, Merged& merged, RankTimes& times) {
  const std::string kind = event.value("ph", "");
  if (kind == "M" && event.value("name", "") == "thread_name")
    merged.rows[event.value("tid", -1)] = event.at("args").value("name", "");
  if (kind != "X") return kind == "M" || kind == "s" || kind == "f";
  const int row = event.value("tid", -1);
  const double at = event.value("ts", 0.0) / 1e6, took = event.value("dur", -1.0) / 1e6;
  if (took < 0) return false;
  times.rows[row] += took;
  if (row != static_cast<int>(TraceRow::Iteration)) return true;
  if (times.iterations++ == 0) times.first = at;
  times.last = at + took;
  return true;
}

bool note_line(std::string_view line, Merged& merged, RankTimes& times) {
  const auto event = parse_json(line, "event", {.bytes = kLargestEvent, .depth = 4});
  if (!event || !event->is_object()) return false;
  try {
    return note(*event, merged, times);
  } catch (const Json::exception&) {
    return false;
  }
}

Status add_file(const std::string& path, std::uint32_t rank, Merged& merged) {
  STOKER_TRY(text, os::read_file(path, kLargestTrace));
  RankTimes times;
  std::uint64_t number = 0;
  bool ended = false;
  for (std::string_view rest = text; !rest.empty() && !ended;) {
    const auto end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (++number == 1) {
      const auto about = about_of(line, path);
      if (!about) return fail(damaged(path, number));
      if (about->rank != rank) return fail(fmt::format("is of rank {}", about->rank), path);
      if (rank == 0) merged.about = *about;
      const About& all = merged.about;
      if (about->start != all.start || about->world != all.world ||
          about->first_iteration != all.first_iteration)
        return fail("is of another start than rank 0's", path,
                    "remove the traces of older starts, or give each start another --trace");
      continue;
    }
    if ((ended = line == kEnd)) break;
    if (line.ends_with(',')) line.remove_suffix(1);
    if (!note_line(line, merged, times)) return fail(damaged(path, number));
    merged.events += (merged.events.empty() ? "" : ",\n") + std::string(line);
  }
  if (!ended || times.iterations == 0) return fail(damaged(path, number));
  if (merged.events.size() > kLargestMerged)
    return fail("the ranks' files are too large to be one", path, "trace fewer iterations");
  merged.ranks.push_back(std::move(times));
  return ok();
}

// How many ranks there are stands in the file of rank 0.
Result<Merged> read_all(const std::string& file) {
  Merged merged;
  const std::string first = trace_file_of(file, 0, 2);
  if (!os::exists(first))
    return fail("there is no trace of several ranks", first,
                "--trace " + file +
                    " writes it when its iterations are over; one rank alone "
                    "writes the whole");
  std::uint64_t missing = 0;
  std::string example;
  STOKER_TRY_STATUS(add_file(first, 0, merged));
  for (std::uint32_t rank = 1; rank < merged.about.world; ++rank) {
    const std::string path = trace_file_of(file, rank, merged.about.world);
    if (!os::exists(path)) {
      if (missing++ == 0) example = path;
      continue;
    }
    if (missing == 0) STOKER_TRY_STATUS(add_file(path, rank, merged));
  }
  if (missing > 0)
    return fail(fmt::format("{} of {} ranks have no trace here", missing, merged.about.world),
                example, "wait until all have written, or copy the files into one folder");
  return merged;
}

double share(const RankTimes& times, int row) {
  const auto found = times.rows.find(row);
  const auto whole = times.rows.find(static_cast<int>(TraceRow::Iteration));
  return found == times.rows.end() || whole->second <= 0 ? 0 : found->second / whole->second;
}

Json as_json(const Merged& merged, const std::string& file) {
  Json ranks = Json::array();
  for (const RankTimes& times : merged.ranks) {
    Json rows = Json::object();
    for (const auto& [row, seconds] : times.rows)
      if (const auto name = merged.rows.find(row); name != merged.rows.end())
        rows[name->second] = seconds;
    ranks.push_back({{"iterations", times.iterations}, {"seconds", rows}});
  }
  return {{"file", file}, {"world", merged.about.world}, {"ranks", ranks}};
}

std::string as_text(const Merged& merged, const std::string& file) {
  std::string out;
  for (std::size_t rank = 0; rank < merged.ranks.size(); ++rank) {
    const RankTimes& times = merged.ranks[rank];
    out += fmt::format("rank {:3}: {:8.1f} ms an iteration", rank,
                       times.rows.at(0) * 1e3 / static_cast<double>(times.iterations));
    for (const auto& [row, name] : merged.rows)
      if (row != static_cast<int>(TraceRow::Iteration) && times.rows.contains(row))
        out += fmt::format(" | {} {:.1f} %", name, 100 * share(times, row));
    out += '\n';
  }
  return out + fmt::format("{}: {} iterations of {} ranks; open it with Perfetto\n", file,
                           merged.ranks.front().iterations, merged.about.world);
}

}  // namespace

Result<std::string> merge_traces(const TraceCommandOptions& o) {
  STOKER_TRY(merged, read_all(o.file));
  const About& about = merged.about;
  const Json other{{"start", about.start},
                   {"world", about.world},
                   {"first_iteration", about.first_iteration},
                   {"last_iteration", about.last_iteration}};
  STOKER_TRY_STATUS(os::replace_file(
      o.file,
      fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[\n{}\n]}}\n",
                  dump_json(other), merged.events),
      os::Durability::Cached));
  return o.json ? dump_json(as_json(merged, o.file)) + "\n" : as_text(merged, o.file);
}

Result<int> run_trace(const TraceCommandOptions& o) {
  STOKER_TRY(text, merge_traces(o));
  text.pop_back();
  say(text);
  return 0;
}

}  // namespace stoker::train
