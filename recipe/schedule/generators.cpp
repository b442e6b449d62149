#include "recipe/schedule/generators.hpp"

#include <fmt/format.h>

namespace stoker::recipe {

PipelineSchedule round_robin(std::uint32_t ranks, std::uint32_t stages,
                             std::uint32_t micro_batches) {
  PipelineSchedule schedule;
  schedule.micro_batches = micro_batches;
  schedule.ranks.resize(ranks);
  for (std::uint32_t s = 0; s < stages; ++s) schedule.rank_of_stage.push_back(s % ranks);
  return schedule;
}

std::uint32_t chunks_of(ScheduleKind kind, std::uint32_t asked) {
  switch (kind) {
    case ScheduleKind::ZbV: return 2;
    case ScheduleKind::GPipe:
    case ScheduleKind::OneFOneB:
    case ScheduleKind::ZbH1: return 1;
    case ScheduleKind::Interleaved:
    case ScheduleKind::Csv: return asked;
  }
  return asked;
}

Status check_mesh(const ScheduleShape& shape) {
  const std::string_view kind = name_of(shape.kind);
  if (shape.ranks == 0 || shape.ranks > kMostPipelineRanks)
    return fail(fmt::format("{} stages; a pipeline has 1 to {}", shape.ranks, kMostPipelineRanks));
  if (shape.chunks == 0 || shape.chunks > kMostChunks)
    return fail(fmt::format("{} virtual stages; a rank has 1 to {}", shape.chunks, kMostChunks));
  switch (shape.kind) {
    case ScheduleKind::Csv: return ok();
    case ScheduleKind::ZbV:
      if (shape.chunks > 2)
        return fail(fmt::format("{} has 2 virtual stages, not {}", kind, shape.chunks));
      return ok();
    case ScheduleKind::Interleaved:
      if (shape.chunks < 2)
        return fail("interleaved needs 2 or more virtual stages; with 1 use 1f1b");
      return ok();
    case ScheduleKind::GPipe:
    case ScheduleKind::OneFOneB:
    case ScheduleKind::ZbH1:
      if (shape.chunks != 1)
        return fail(fmt::format("{} has 1 virtual stage, not {}; interleaved has more", kind,
                                shape.chunks));
      return ok();
  }
  return ok();
}

Status check_micro_batches(const ScheduleShape& shape) {
  const std::uint64_t m = shape.micro_batches;
  if (m == 0) return fail("a step needs at least 1 micro-batch");
  if (shape.kind == ScheduleKind::Interleaved && m % shape.ranks != 0)
    return fail(fmt::format(
        "{} micro-batches are not a multiple of {} pipeline stages, as schedule interleaved needs",
        m, shape.ranks));
  return ok();
}

Result<PipelineSchedule> make_schedule(const ScheduleShape& shape) {
  STOKER_TRY_STATUS(check_mesh(shape));
  STOKER_TRY_STATUS(check_micro_batches(shape));
  const std::uint64_t m = shape.micro_batches;
  if (m * shape.ranks * chunks_of(shape.kind, shape.chunks) * 3 > kMostScheduleOps)
    return fail(fmt::format("{} micro-batches on {} stages are more than {} operations", m,
                            shape.ranks, kMostScheduleOps));
  switch (shape.kind) {
    case ScheduleKind::GPipe: return gpipe(shape.ranks, shape.micro_batches);
    case ScheduleKind::OneFOneB: return one_f_one_b(shape.ranks, shape.micro_batches);
    case ScheduleKind::Interleaved:
      return interleaved(shape.ranks, shape.chunks, shape.micro_batches);
    case ScheduleKind::ZbH1: return zb_h1(shape.ranks, shape.micro_batches);
    case ScheduleKind::ZbV: return zb_v(shape.ranks, shape.micro_batches);
    case ScheduleKind::Csv: break;
  }
  return fail("a CSV schedule is read from its file, not generated");
}

}  // namespace stoker::recipe
