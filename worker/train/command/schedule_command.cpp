#include "worker/train/command/schedule_command.hpp"

#include <fmt/format.h>

#include "common/os/files.hpp"
#include "recipe/schedule/csv.hpp"
#include "recipe/schedule/draw.hpp"
#include "recipe/schedule/generators.hpp"
#include "recipe/schedule/passes.hpp"
#include "recipe/schedule/validate.hpp"
#include "worker/train/run/exit_code.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

using namespace recipe;

constexpr std::size_t kMostColumns = 20'000;  // of a picture: operations of one rank

Result<PipelineSchedule> wanted(const ScheduleOptions& o) {
  if (!o.file.empty()) {
    STOKER_TRY(text, os::read_file(o.file, kLargestScheduleCsv));
    return parse_schedule_csv(text, o.file);
  }
  const auto kind = enum_from<ScheduleKind>(o.kind);
  if (!kind || *kind == ScheduleKind::Csv)
    return fail("there is no schedule \"" + o.kind + "\"", "--kind",
                "choose gpipe, 1f1b, interleaved, zb-h1 or zb-v, or give --file FILE.csv");
  return make_schedule({*kind, o.stages, o.virtual_stages, o.micro_batches});
}

Json as_json(const ScheduleOptions& o, const PipelineSchedule& lowered, const Timeline& run) {
  const SlotPlan slots = assign_slots(lowered);
  Json ranks = Json::array();
  for (std::size_t r = 0; r < lowered.ranks.size(); ++r) {
    Json ops = Json::array();
    for (const PipelineOp& op : lowered.ranks[r]) ops.push_back(op.text());
    ranks.push_back({{"operations", ops},
                     {"peak_activations", run.peak_share(r)},
                     {"slots", slots.count[r]},
                     {"busy", run.busy[r]}});
  }
  return {{"schedule", o.file.empty() ? o.kind : o.file},
          {"stages", lowered.stages()},
          {"ranks", ranks},
          {"micro_batches", lowered.micro_batches},
          {"rank_of_stage", lowered.rank_of_stage},
          {"makespan", run.makespan},
          {"bubble", run.bubble()}};
}

}  // namespace

Result<std::string> schedule_text(const ScheduleOptions& o) {
  for (const double t : {o.forward, o.input, o.weight})
    if (!(t > 0) || !(t < 1e9))
      return fail("must be above 0 and below 1e9",
                  "--forward, --input-gradient, --weight-gradient");
  if (!(o.hop >= 0) || !(o.hop < 1e9)) return fail("must be at least 0 and below 1e9", "--hop");
  STOKER_TRY(schedule, wanted(o));
  STOKER_TRY(lowered, lower(schedule, true));
  const OpTimes times{o.forward, o.input, o.weight, o.hop};
  STOKER_TRY(run, simulate(schedule, times));
  if (o.json) return dump_json(as_json(o, lowered, run)) + "\n";
  if (o.csv) return render_schedule_csv(schedule);
  if (o.operations) return list_operations(lowered);
  for (const auto& ops : schedule.ranks)
    if (ops.size() > kMostColumns)
      return fail(fmt::format("{} operations a rank are too many for a picture", ops.size()), "",
                  "use --csv or --json");
  if (o.svg) return draw_schedule_svg(schedule, times);
  STOKER_TRY(picture, draw_schedule(schedule));
  return picture + makespan_text(run) + "\n" + peak_text(run) + "\n";
}

int run_schedule_command(const ScheduleOptions& options) {
  auto text = schedule_text(options);
  if (!text) {
    complain(text.error());
    return static_cast<int>(ExitCode::Configuration);
  }
  text->pop_back();  // say() ends the line
  say(*text);
  return 0;
}

}  // namespace stoker::train
