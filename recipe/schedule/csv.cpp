#include "recipe/schedule/csv.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>

namespace stoker::recipe {
namespace {

constexpr std::uint32_t kMostIndex = 999'999;  // of a stage or a micro-batch
constexpr std::uint32_t kNoRank = 0xffffffff;

// The number at the front of `text`, taken off it.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value > kMostIndex) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

Result<PipelineOp> parse_cell(std::string_view cell) {
  const auto bad = [whole = cell] {
    return fail(fmt::format("expected an operation like 2F0, 2B0, 2I0 or 2W0, got \"{}\"",
                            whole.substr(0, 40)));
  };
  PipelineOp op;
  const auto stage = take_number(cell);
  if (!stage || cell.empty()) return bad();
  op.stage = *stage;
  const std::size_t letters = std::min(cell.find_first_of("0123456789"), cell.size());
  const auto kind = enum_from<OpKind>(cell.substr(0, letters));
  if (!kind) return bad();
  if (!is_compute(*kind))
    return fail(fmt::format(
        "{}: stoker adds transfers and reductions itself; leave only F, B, I, W", name_of(*kind)));
  op.kind = *kind;
  cell.remove_prefix(letters);
  const auto micro_batch = take_number(cell);
  if (!micro_batch || !cell.empty()) return bad();
  op.micro_batch = *micro_batch;
  return op;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

// Reads the cells of one line into the rank's list.
Status parse_line(std::string_view line, std::uint32_t number, const std::string& file,
                  std::vector<PipelineOp>& ops) {
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    const std::string_view cell = trimmed(line.substr(begin, end - begin));
    if (!cell.empty()) {
      const auto column = static_cast<std::uint32_t>(cell.data() - line.data()) + 1;
      auto op = parse_cell(cell);
      if (!op) return fail(op.error().what, fmt::format("{}:{}:{}", file, number, column));
      op->line = number;
      op->column = column;
      ops.push_back(*op);
    }
    begin = end + 1;
  }
  return ok();
}

// Which rank owns which stage, from where the operations stand.
Status place_stages(PipelineSchedule& schedule) {
  std::vector<std::uint32_t>& owner = schedule.rank_of_stage;
  for (std::uint32_t r = 0; r < schedule.ranks.size(); ++r) {
    for (const PipelineOp& op : schedule.ranks[r]) {
      if (op.stage >= kMostPipelineRanks * kMostChunks)
        return fail("too many stages", schedule.name(op));
      if (op.stage >= owner.size()) owner.resize(op.stage + 1, kNoRank);
      if (owner[op.stage] == kNoRank) owner[op.stage] = r;
      if (owner[op.stage] != r)
        return fail(fmt::format("stage {} is on rank {} already; a stage belongs to one rank",
                                op.stage, owner[op.stage]),
                    schedule.name(op));
      schedule.micro_batches = std::max(schedule.micro_batches, op.micro_batch + 1);
    }
  }
  const auto gap = std::find(owner.begin(), owner.end(), kNoRank);
  if (gap != owner.end())
    return fail(fmt::format("stage {} has no operation; stages are numbered from 0 without a gap",
                            gap - owner.begin()),
                schedule.file);
  return ok();
}

}  // namespace

Result<PipelineSchedule> parse_schedule_csv(std::string_view text, const std::string& file) {
  if (text.size() > kLargestScheduleCsv)
    return fail(fmt::format("a schedule of more than {} bytes", kLargestScheduleCsv), file);
  PipelineSchedule schedule;
  schedule.file = file;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  std::uint64_t operations = 0;
  std::uint32_t number = 0;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (++number > kMostPipelineRanks)
      return fail(fmt::format("more than {} ranks", kMostPipelineRanks), file);
    schedule.ranks.emplace_back();
    STOKER_TRY_STATUS(
        parse_line(text.substr(begin, end - begin), number, file, schedule.ranks.back()));
    operations += schedule.ranks.back().size();
    if (operations > kMostScheduleOps)
      return fail(fmt::format("more than {} operations", kMostScheduleOps), file);
    begin = end + 1;
  }
  STOKER_TRY_STATUS(place_stages(schedule));
  if (operations == 0) return fail("has no operation; write a line a rank, like 0F0,0B0", file);
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
    if (schedule.ranks[r].empty())
      return fail(fmt::format("rank {} has no operation; every rank needs a stage", r),
                  fmt::format("{}:{}", file, r + 1));
  if (std::uint64_t{schedule.micro_batches} * schedule.stages() > kMostScheduleOps)
    return fail(fmt::format("{} micro-batches on {} stages are too many", schedule.micro_batches,
                            schedule.stages()),
                file);
  return schedule;
}

std::string render_schedule_csv(const PipelineSchedule& schedule) {
  std::string text;
  for (const auto& ops : schedule.ranks) {
    std::string line;
    for (const PipelineOp& op : ops)
      if (is_compute(op.kind)) line += (line.empty() ? "" : ",") + op.text();
    text += line + "\n";
  }
  return text;
}

}  // namespace stoker::recipe
