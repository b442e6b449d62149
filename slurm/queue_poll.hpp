// The poll of the queue: one squeue with an explicit text format, fields separated by \x1f (job
// names and comments may hold anything else). Text, because `squeue --json` ignores the state
// filter, is six times slower and changes its shape with every release.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/node_list.hpp"
#include "core/event.hpp"

namespace stoker::slurm {

// What a task has to tell besides its state.
struct JobNumbers {
  std::uint32_t restarts = 0;
  int exit_code = 0, signal = 0;
};

struct QueueRow {
  std::uint64_t raw_id = 0;  // SLURM_JOB_ID of the task
  JobId id;                  // array and task; task 0 = no array
  core::JobState state = core::JobState::Pending;
  std::uint32_t cancelled_by_uid = 0;
  std::string reason;
  std::optional<WallTime> starts, ends, submitted;
  NodeList nodes;
  std::uint32_t uid = 0;
  std::string user, command;  // login name; path of the batch script, "" = none
  std::string name, comment;
  std::optional<JobNumbers> numbers{};  // where the answer holds them
};

// What is left of an array whose waiting tasks were cancelled: a row without a task number that
// never ran, beside those of its tasks. A job outside an array that was cancelled while it waited
// looks the same, and is the same: nothing of it can start.
bool is_remainder(const QueueRow& row);

enum class QueueForm : std::uint8_t { InArguments, InEnvironment };  // where the format stands

// squeue -a -h -r -t all [-o FORMAT], of these users ("a,b"; "" = of everybody), or of one job
// (0 = all). InEnvironment: the caller sets SQUEUE_FORMAT.
std::vector<std::string> queue_command(const std::string& users, std::uint64_t job = 0,
                                       QueueForm form = QueueForm::InArguments);
// The poll's format; each row begins and ends with `mark`, and each field in it that holds a user's
// own words. These may hold newlines and separators, so that their author tears rows and writes
// lines that look like anybody's: only a mark that he cannot know, fresh for each question and not
// in argv, which all users see, separates them.
std::string queue_format(const std::string& mark);

// What the poll's format cannot tell, for all jobs that changed in one question:
// squeue -O with restart count and exit status.
std::vector<std::string> numbers_command(const std::vector<std::uint64_t>& jobs);
// By array and task. Malformed lines are an error.
Result<std::map<JobId, JobNumbers>> parse_numbers(std::string_view text);

// The node lists of the answer before, by their text: jobs run for days on the nodes they have.
using NodeLists = std::map<std::string, NodeList, std::less<>>;

using Matters = std::function<bool(const std::string& user)>;

// Whether a job of this name is of one of these runs: it has the run's name, or the name of one of
// its followers ("tr11+evaluate.1000").
bool is_job_of(std::string_view job_name, const std::vector<RunName>& runs);

// Parses what squeue printed with SLURM_TIME_FORMAT=%s. A torn last line, a line without its
// fields or an unknown state is an error: such an answer proves nothing about any job. Rows of
// other people's jobs with unreadable values are kept out instead, when `names` is given: only rows
// of these job names, and those whose script lies below one of `folders`, are examined closely.
// `lists` spares the expansion of lists that it knows, and then holds those of this answer.
// `mark`: of queue_format. Without one a newline or a separator in a name is guessed at: enough for
// an answer about our own jobs. `matters`: whether a row of this user that is torn or cannot be
// read refuses the answer; else it is kept out. No function: it does, and so does one without a
// user.
Result<std::vector<QueueRow>> parse_queue(std::string_view text,
                                          const std::vector<RunName>& names = {},
                                          const std::vector<std::string>& folders = {},
                                          NodeLists* lists = nullptr, std::string_view mark = {},
                                          const Matters& matters = {});

}  // namespace stoker::slurm
