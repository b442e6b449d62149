// What `stoker doctor` looks at: one function a question, each answering with what was found and
// how to fix it. Reads and asks; changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "common/json.hpp"
#include "common/os/process.hpp"
#include "core/policy.hpp"

namespace stoker::cli {

enum class Health { Good, Note, Bad };  // Note: works, but worth knowing; Bad: fix it

struct Finding {
  std::string check;  // "state directory"
  Health health = Health::Good;
  std::string found;
  std::string fix;  // "" = nothing to do
};

// As `stoker doctor` prints them. finding_text.cpp
std::string finding_text(const Console& console, const std::vector<Finding>& findings);

std::vector<Finding> check_site(const Context& context);

// What the agents of the runs that are under way said about their own nodes: one finding a node,
// and one for output that arrives late. Reads the head of each newest lead.jsonl.
std::vector<Finding> check_running(const Context& context);

// SLURM, where its commands are in PATH (slurm_checks.cpp).
std::vector<Finding> check_slurm(const Context& context);
// Exposed for tests: what `scontrol show config` means, against our clock in seconds, and what
// `scontrol show partition -o` does.
std::vector<Finding> judge_slurm_config(const std::string& config, std::int64_t now);
std::vector<Finding> judge_partitions(const std::string& text);

// What the accounts say of this user (slurm_rights.cpp). Exposed for tests: what `sacctmgr -n -P`
// printed as AdminLevel|Account|Partition|MaxJobs|MaxSubmitJobs.
std::vector<Finding> check_rights(const Context& context);
std::vector<Finding> judge_rights(const std::string& associations);

// Whether SLURM would take the run's first submission (sbatch --test-only), where its logs go, and
// which of its keys are to be changed (slurm_checks.cpp). Nothing is submitted.
std::vector<Finding> check_slurm_run(const Context& context, const core::RunPolicy& policy);
// Exposed for tests.
Finding judge_test_only(const os::CommandOutput& answer);

// What starts stokerd again after a reboot (keeper_checks.cpp): the user's systemd, a crontab line,
// or a job of its own.
Finding check_keeper(const Context& context);
// Exposed for tests. `crontab`: what `crontab -l` said; none: there is no such command.
Finding judge_keeper(bool user_manager, const std::optional<os::CommandOutput>& crontab,
                     const std::string& start);

// Exposed for tests: no daemon runs, and these runs have not ended. Bad when there is one.
Finding judge_absence(const std::vector<std::string>& runs, const std::string& start);

// Exposed for tests: SQLite before 3.51.3 can lose a WAL reset when two connections checkpoint.
Finding check_sqlite(const std::string& version);

}  // namespace stoker::cli

template <>
struct stoker::EnumNames<stoker::cli::Health> {
  static constexpr std::array names{"good", "note", "bad"};
};
