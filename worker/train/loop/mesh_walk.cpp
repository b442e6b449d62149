#include "worker/train/loop/mesh_walk.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

#include "worker/train/state/flat_state.hpp"

namespace stoker::train {
namespace {

// Operations of all schedules that are built; each takes some 30 bytes while the walk lasts.
constexpr std::uint64_t kMostWalked = 5'000'000;
constexpr std::uint64_t kOpsEach = 6;  // forward, backward in two parts, transfers

using Boxes = std::map<std::string, std::pair<wire::Shape, std::vector<wire::TensorBox>>>;

// Every element of every tensor counts on exactly one rank of a replica.
Status check_boxes(const Boxes& boxes) {
  for (const auto& [name, tensor] : boxes) {
    const auto& [shape, parts] = tensor;
    std::uint64_t held = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      held += wire::elements_of(parts[i].extent);
      for (std::size_t j = 0; j < i; ++j)
        if (wire::overlap(parts[i], parts[j]))
          return fail("two ranks of a replica hold the same elements", name);
    }
    if (held != wire::elements_of(shape))
      return fail(fmt::format("the ranks of a replica hold {} of {} elements", held,
                              wire::elements_of(shape)),
                  name);
  }
  return ok();
}

std::string layers_text(const Placement& placement) {
  std::string text;
  for (const StagePart& part : placement.parts) {
    if (!text.empty()) text += ", ";
    text += part.layers == 0 ? "none"
            : part.layers == 1
                ? fmt::format("{}", part.first_layer)
                : fmt::format("{}-{}", part.first_layer, part.first_layer + part.layers - 1);
  }
  return text;
}

// One rank of the mesh into the need of its pipeline rank.
void add_rank(const recipe::TrainConfig& c, const Mesh& mesh, std::uint32_t rank,
              const ParameterTable& table, MeshWalk& walk) {
  const FlatRange mine = own_range(table, mesh, rank), all{0, table.flat_size};
  const std::uint64_t wide = c.train.dtype == recipe::Dtype::F64 ? 8 : 4;
  StageNeed& need = walk.stages[mesh.pipe_rank(rank)];
  need.parameters = std::max(need.parameters, table.scalars());
  need.state = std::max(
      need.state, FlatState::bytes_of(table, c.train.dtype, c.parallel.zero > 0 ? mine : all));
  if (c.checkpoint.asynchronous)
    need.save_copy = std::max(need.save_copy, std::uint64_t{3} * wide * mine.size());
  std::uint64_t shard = 0;
  for (const Piece& piece : counting_pieces_of(table, mine)) shard += 3 * wide * piece.count;
  walk.largest_shard = std::max(walk.largest_shard, shard);
  walk.saved += shard;
}

Status walk_ranks(const recipe::TrainConfig& c, const ModelLayout& layout, MeshWalk& walk) {
  const Mesh& mesh = layout.mesh;
  Boxes boxes;
  walk.stages.resize(mesh.pp);
  for (std::uint32_t pipe = 0; pipe < mesh.pp; ++pipe) {
    StageNeed& need = walk.stages[pipe];
    need.first_rank = mesh.on_pipe(0, pipe);
    need.last_rank = mesh.on_pipe(mesh.tp * mesh.dp - 1, pipe);
    for (std::uint32_t t = 0; t < mesh.tp; ++t) {
      const ParameterTable table = layout.of_rank(mesh.on_pipe(t, pipe));  // alike on replicas
      need.layers = layers_text(table.placement);
      for (const Parameter& p : table.parameters)
        if (p.counts) {
          auto& [shape, parts] = boxes[p.name];
          shape = p.shape;
          parts.push_back(p.box);
        }
      for (std::uint32_t d = 0; d < mesh.dp; ++d)
        add_rank(c, mesh, mesh.on_pipe(t + mesh.tp * d, pipe), table, walk);
    }
  }
  walk.tensors = boxes.size();
  for (const auto& [name, tensor] : boxes) walk.parameters += wire::elements_of(tensor.first);
  return check_boxes(boxes);
}

// What a schedule counts in; so many are refused there.
std::uint32_t number_of(std::uint64_t micro_batches) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(micro_batches, 0xffffffff));
}

// The last batch first: it is never left out.
Status walk_schedules(const recipe::TrainConfig& c, const Mesh& mesh, Pipeline& pipeline,
                      const std::vector<recipe::BatchPhase>& phases, ScheduleWalk& walk) {
  std::set<std::uint64_t> seen;
  std::uint64_t operations = 0;
  for (auto phase = phases.rbegin(); phase != phases.rend(); ++phase) {
    const std::uint64_t m = phase->global / phase->micro / mesh.dp;
    if (phase == phases.rbegin()) walk.full = walk.least = walk.most = m;
    walk.least = std::min(walk.least, m);
    walk.most = std::max(walk.most, m);
    if (!seen.insert(m).second) continue;
    operations += m * pipeline.rank_of_stage().size() * kOpsEach;
    if (operations > kMostWalked && walk.walked > 0) continue;
    STOKER_TRY_STATUS(pipeline.training(number_of(m)));
    ++walk.walked;
  }
  walk.lengths = seen.size();
  if (c.evaluate.every > 0) STOKER_TRY_STATUS(pipeline.evaluation(number_of(walk.full)));
  if (c.check.replay_every > 0) STOKER_TRY_STATUS(pipeline.replay());
  return ok();
}

}  // namespace

Result<MeshWalk> walk_mesh(const recipe::TrainConfig& c, const ModelLayout& layout,
                           Pipeline& pipeline, const std::vector<recipe::BatchPhase>& phases,
                           const recipe::PipelinePlan& plan) {
  MeshWalk walk;
  STOKER_TRY_STATUS(walk_ranks(c, layout, walk));
  for (std::size_t r = 0; r < walk.stages.size(); ++r) {
    walk.stages[r].in_flight = plan.ranks.at(r).in_flight;
    walk.stages[r].activations = plan.ranks.at(r).memory.activations;
    walk.stages[r].runtime = plan.ranks.at(r).memory.runtime;
  }
  STOKER_TRY_STATUS(walk_schedules(c, layout.mesh, pipeline, phases, walk.schedules));
  return walk;
}

}  // namespace stoker::train
