// What SLURM's commands print (names, comments and reasons in it are other users' words), batch
// scripts that are adopted, crontabs.
#include <array>
#include <string>
#include <string_view>

#include "common/hostlist.hpp"
#include "slurm/accounting.hpp"
#include "slurm/adopt.hpp"
#include "slurm/calendar.hpp"
#include "slurm/crontab.hpp"
#include "slurm/job_detail.hpp"
#include "slurm/job_json.hpp"
#include "slurm/job_steps.hpp"
#include "slurm/node_states.hpp"
#include "slurm/queue_poll.hpp"
#include "slurm/rest/job_rows.hpp"
#include "slurm/rest/json_items.hpp"
#include "tests/fuzz/target.hpp"

namespace stoker::fuzz {
namespace {

void squeue(std::string_view bytes) {
  slurm::NodeLists lists;
  const auto rows = slurm::parse_queue(bytes, {RunName("tr11")}, {"/gpfs/tr11"}, &lists);
  if (rows)
    for (const auto& row : *rows) (void)slurm::is_remainder(row);
  (void)slurm::parse_numbers(bytes);
  (void)slurm::parse_steps(bytes);
}
void scontrol(std::string_view bytes) {
  (void)slurm::parse_job_details(bytes);
  (void)slurm::parse_step_records(bytes);
  if (const auto reservations = slurm::parse_reservations(bytes))
    for (const auto& reservation : *reservations)
      must(expand_hostlist(reservation.nodes).has_value(), "a reservation's nodes are a host list");
}
void sacct(std::string_view bytes) {
  (void)slurm::parse_accounting(bytes);
}
void sinfo(std::string_view bytes) {
  (void)slurm::parse_nodes(bytes);
  if (const auto partitions = slurm::parse_partitions(bytes))
    for (const auto& partition : *partitions)
      must(expand_hostlist(partition.nodes).has_value(), "a partition's nodes are a host list");
  (void)expand_hostlist(bytes);
}
void slurm_json(std::string_view bytes) {
  (void)slurm::parse_job_json(bytes);
}
// In pieces whose size the first byte says: the same rows as of the whole.
void slurmrestd(std::string_view bytes) {
  const auto read = [&bytes](const char* list, std::size_t piece) -> std::string {
    slurm::QueueQuestion question{"alice,bob", 0, {RunName("tr11")}, {"/gpfs/tr11"}};
    slurm::JobRows rows(question);
    slurm::JsonItems items(list, [&](const slurm::JsonItem& item) -> Status {
      (void)slurm::node_seen_in(item);
      return rows.add(item);
    });
    for (std::string_view rest = bytes; !rest.empty();
         rest.remove_prefix(std::min(piece, rest.size())))
      if (!items.feed(rest.substr(0, piece))) return "no answer";
    if (!items.finish()) return "no answer";
    std::string said;
    for (const slurm::QueueRow& row : rows.take()) said += row.id.text() + row.name + ";";
    return said;
  };
  const std::size_t piece = bytes.empty() ? 1 : 1 + static_cast<unsigned char>(bytes.back()) % 64;
  for (const char* list : {"jobs", "nodes"})
    must(read(list, piece) == read(list, bytes.size() + 1), "pieces are read as the whole is");
  (void)slurm::tasks_in(bytes);
}

void adopt(std::string_view bytes) {
  const auto script =
      slurm::read_batch_script(bytes, "/s/job.sh", {{"HOME", "/home/a"}, {"USER", "a"}});
  if (script) must(!slurm::run_yaml_of(*script).empty(), "a script gives a configuration");
}

void crontab(std::string_view bytes) {
  (void)slurm::due_commands(bytes, 1'700'000'000, 1'700'003'600);
  each_line(bytes, [](std::string_view line) { (void)slurm::parse_cron_line(line); });
}

constexpr std::array kTargets{Target{"squeue", squeue},         Target{"scontrol", scontrol},
                              Target{"sacct", sacct},           Target{"sinfo", sinfo},
                              Target{"slurm_json", slurm_json}, Target{"slurmrestd", slurmrestd},
                              Target{"adopt", adopt},           Target{"crontab", crontab}};

}  // namespace

std::span<const Target> scheduler_targets() {
  return kTargets;
}

}  // namespace stoker::fuzz
