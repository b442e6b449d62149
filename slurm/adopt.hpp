// Reads an existing batch script as sbatch and a person would: its #SBATCH lines, and what its
// shell lines tell of logs, ends, checkpoints and switch files. Nothing is executed; what cannot be
// known by reading is left out and noted.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::slurm {

// Options of the #SBATCH lines by their long names; the last one wins. "" = without a value.
using Directives = std::map<std::string, std::string>;
Directives read_directives(std::string_view text);
// Options in words of a command line, put over what is there.
void read_options(const std::vector<std::string>& words, Directives& out);
// The line, from 1, of the #SBATCH line that decides about each of them: the last.
std::map<std::string, std::size_t> directive_lines(std::string_view text);

// Letters, digits, '.', '_' and '-', the first of the first two: what may name a run.
std::string run_name_of(std::string text);

// A time limit as sbatch takes it: "30", "30:00", "20:00:00", "2-12", "2-12:30", "2-12:30:00".
std::optional<Duration> parse_time_limit(std::string_view text);

struct AdoptedScript {
  std::string path;     // absolute
  std::string run;      // after --job-name
  std::string cluster;  // -M; "" = SLURM_CONF's
  std::uint32_t nodes = 1, ranks_per_node = 1, array_tasks = 1;
  std::optional<std::uint32_t> gpus_per_node;
  std::optional<Duration> time_limit;
  std::vector<std::string> exclude;  // hostlists
  std::vector<std::string> logs;     // absolute, with * for what changes from job to job
  std::string kill_switch, save_signal;
  std::string checkpoints, checkpoint_format;  // absolute; format "" = none that stoker sets back
  std::optional<Duration> leaves_after;        // by itself
  std::optional<Duration> exit_before_limit;   // the same as a distance from the wall
  std::optional<std::uint64_t> last_iteration, save_every;
  std::vector<std::string> notes;  // what is unknown, and what supervision changes
  // Which of its options says it, by key of RUN.yaml: "train.kill_switch" -> "--kill-switch-path".
  std::map<std::string, std::string> said_by;
  std::vector<std::string> launchers;  // of the processes, the outermost first: srun, torchrun
};

// `path`: absolute. `environment`: for variables that the script takes from outside. Errors: no
// batch script (no "#!" line).
Result<AdoptedScript> read_batch_script(std::string_view text, const std::string& path,
                                        const std::map<std::string, std::string>& environment);
// RUN.yaml, with a comment for each value that was found and each note.
std::string run_yaml_of(const AdoptedScript& script);

}  // namespace stoker::slurm
