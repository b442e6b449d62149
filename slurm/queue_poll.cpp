#include "slurm/queue_poll.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "slurm/job_state.hpp"

namespace stoker::slurm {
namespace {

constexpr char kSeparator = '\x1f';
constexpr std::size_t kFields = 14, kPlainFields = 11;
// %A id, %F array id, %K task, %T state, %r reason, %S start, %e end, %V submit, %N nodes, %U uid,
// %u user: words of SLURM's.
constexpr const char* kPlain = "%A\x1f%F\x1f%K\x1f%T\x1f%r\x1f%S\x1f%e\x1f%V\x1f%N\x1f%U\x1f%u";
// Words of users', last: command, name, comment. They may hold newlines and separators.
constexpr const char* kFree[] = {"%o", "%j", "%k"};

using Fields = std::array<std::string_view, kFields>;

// The first `count` fields, of which the last is what remains. Returns how many there are.
std::size_t split(std::string_view record, std::size_t count, Fields& out) {
  for (std::size_t i = 0; i + 1 < count; ++i) {
    const auto at = record.find(kSeparator);
    out[i] = record.substr(0, at);
    if (at == std::string_view::npos) return i + 1;
    record.remove_prefix(at + 1);
  }
  out[count - 1] = record;
  return count;
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<WallTime> time_of(std::string_view text) {  // "N/A", "Unknown", "NONE": none
  const auto seconds = number<std::int64_t>(text);
  if (!seconds || *seconds <= 0 || *seconds > 9'000'000'000) return std::nullopt;
  return WallTime(std::chrono::seconds(*seconds));
}

Unexpected torn(std::string_view what, std::string_view line) {
  return fail(fmt::format("squeue: {}", what), std::string(line.substr(0, 120)),
              "such an answer is not used; see `stoker doctor`");
}

// Of the answer before, where it had the same list.
Result<NodeList> nodes_of(std::string_view text, const NodeLists* known, NodeLists& seen) {
  if (const auto again = seen.find(text); again != seen.end()) return again->second;
  NodeList nodes;
  if (const auto before = known == nullptr ? NodeLists::const_iterator() : known->find(text);
      known != nullptr && before != known->end()) {
    nodes = before->second;
  } else {
    STOKER_TRY(expanded, expand_hostlist(text));
    nodes = NodeList(std::move(expanded));
  }
  seen.emplace(text, nodes);
  return nodes;
}

Result<QueueRow> parse_row(const Fields& f, std::string_view line, const NodeLists* known,
                           NodeLists& seen) {
  QueueRow row;
  const auto raw = number<std::uint64_t>(f[0]);
  const auto array = number<std::uint64_t>(f[1]);
  const auto uid = number<std::uint32_t>(f[9]);
  if (!raw || !array || !uid) return torn("a line without its numbers", line);
  row.raw_id = *raw;
  row.id.job = *array;
  row.uid = *uid;
  if (const auto task = number<std::uint32_t>(f[2]))
    row.id.task = *task;
  else if (f[2] != "N/A")
    return torn("an invalid task number (is -r supported?)", line);
  const auto state = parse_state(f[3]);
  if (!state) return torn("an unknown state", line);
  row.state = state->state;
  row.cancelled_by_uid = state->cancelled_by_uid;
  row.reason = f[4];
  row.starts = time_of(f[5]);
  row.ends = time_of(f[6]);
  row.submitted = time_of(f[7]);
  if (!f[8].empty() && f[8] != "(null)") {
    auto nodes = nodes_of(f[8], known, seen);
    if (!nodes) return torn("a node list that cannot be read", line);
    row.nodes = std::move(*nodes);
  }
  row.user = f[10];
  row.command = f[11] == "(null)" ? std::string_view() : f[11];
  row.name = f[12];
  const std::string_view comment = f[13].substr(0, f[13].find('\n'));  // a token has one line
  row.comment = comment == "(null)" ? std::string_view() : comment;
  return row;
}

// "12<separator>12<separator>": how a row begins.
bool begins_row(std::string_view line) {
  for (int i = 0; i < 2; ++i) {
    const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
    if (digits == 0 || digits == line.size() || line[digits] != kSeparator) return false;
    line.remove_prefix(digits + 1);
  }
  return true;
}

// Cuts an answer into its rows. With a mark no user's word can end a field or a row. Without one a
// row ends where the next line begins like a row.
class Rows {
 public:
  Rows(std::string_view text, std::string_view mark) : rest_(text), mark_(mark) {}

  // False: there are no more. Of a torn row those fields that it has, `count` of them.
  Result<bool> next(Fields& fields, std::size_t& count) {
    fields = {};
    if (const Status found = skip_to_row(); !found) return fail(found.error());
    if (rest_.empty()) return false;
    record_ = rest_;
    if (mark_.empty()) {
      take_lines();
      count = split(record_, kFields, fields);
      return true;
    }
    std::array<std::string_view, 4> parts;
    for (std::string_view& part : parts) {
      rest_.remove_prefix(mark_.size());
      const auto end = rest_.find(mark_);
      if (end == std::string_view::npos) return torn("a row without its end", record_);
      part = rest_.substr(0, end);
      rest_.remove_prefix(end);
    }
    rest_.remove_prefix(mark_.size());
    if (!rest_.starts_with('\n')) return torn("a row without its end", record_);
    rest_.remove_prefix(1);
    count = split(parts[0], kPlainFields, fields);
    if (count != kPlainFields) return torn("a line that is no row", parts[0]);
    std::copy(parts.begin() + 1, parts.end(), fields.begin() + kPlainFields);
    count = kFields;
    return true;
  }
  [[nodiscard]] std::string_view record() const { return record_; }

 private:
  // To the first line, or after a row to the next, that begins a row.
  Status skip_to_row() {
    while (!rest_.empty() && !at_row()) {
      const std::string_view line = rest_.substr(0, rest_.find('\n'));
      if (!line.empty() && record_.empty()) return torn("a line that is no row", line);
      rest_.remove_prefix(std::min(line.size() + 1, rest_.size()));
    }
    return ok();
  }
  [[nodiscard]] bool at_row() const {
    return mark_.empty() ? begins_row(rest_) : rest_.starts_with(mark_);
  }
  void take_lines() {
    const std::string_view all = rest_;
    do rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size() - 1) + 1);
    while (!rest_.empty() && !at_row());
    record_ = all.substr(0, all.size() - rest_.size() - 1);
  }

  std::string_view rest_, mark_, record_;
};

}  // namespace

bool is_remainder(const QueueRow& row) {
  return row.id.task == 0 && row.state == core::JobState::Cancelled && row.nodes.empty();
}

bool is_job_of(std::string_view job_name, const std::vector<RunName>& runs) {
  const std::string_view run = job_name.substr(0, job_name.find('+'));  // in no run's name
  return std::any_of(runs.begin(), runs.end(), [&](const RunName& name) {
    return name.text == run || name.text == job_name;
  });
}

std::vector<std::string> queue_command(const std::string& users, std::uint64_t job,
                                       QueueForm form) {
  std::vector<std::string> argv{"squeue", "-a", "-h", "-r", "-t", "all"};
  if (form == QueueForm::InArguments) {
    std::string format = kPlain;
    for (const char* field : kFree) format += kSeparator + std::string(field);
    argv.insert(argv.end(), {"-o", format});
  }
  if (!users.empty()) argv.insert(argv.end(), {"-u", users});
  if (job != 0) argv.insert(argv.end(), {"-j", std::to_string(job)});
  return argv;
}

std::string queue_format(const std::string& mark) {
  std::string format = mark + kPlain + mark;
  for (const char* field : kFree) format += field + mark;
  return format;
}

std::vector<std::string> numbers_command(const std::vector<std::uint64_t>& jobs) {
  return {"squeue", "-a",
          "-h",     "-r",
          "-t",     "all",
          "-j",     fmt::format("{}", fmt::join(jobs, ",")),
          "-O",     "JobArrayID:64,RestartCnt:16,exit_code:16"};
}

Result<std::map<JobId, JobNumbers>> parse_numbers(std::string_view text) {
  std::map<JobId, JobNumbers> out;
  if (!text.empty() && text.back() != '\n') return torn("the numbers are cut off", "");
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    std::array<std::string_view, 3> words;
    for (std::string_view& word : words) {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      word = line.substr(0, line.find(' '));
      line.remove_prefix(word.size());
    }
    if (words[0].empty()) continue;
    const auto underscore = words[0].find('_');
    const auto job = number<std::uint64_t>(words[0].substr(0, underscore));
    const auto task = underscore == std::string_view::npos
                          ? std::optional<std::uint32_t>(0)
                          : number<std::uint32_t>(words[0].substr(underscore + 1));
    const auto restarts = number<std::uint32_t>(words[1]);
    // 22.05 writes the wait status, 256 * code + signal; other releases "code:signal".
    const auto colon = words[2].find(':');
    const auto code = number<int>(words[2].substr(0, colon));
    if (!job || !task || !restarts || !code) return torn("invalid numbers", words[0]);
    JobNumbers numbers{*restarts, *code >> 8, *code & 0x7f};
    if (colon != std::string_view::npos) {
      numbers.exit_code = *code;
      numbers.signal = number<int>(words[2].substr(colon + 1)).value_or(0);
    }
    out[JobId{*job, *task}] = numbers;
  }
  return out;
}

Result<std::vector<QueueRow>> parse_queue(std::string_view text, const std::vector<RunName>& names,
                                          const std::vector<std::string>& folders, NodeLists* lists,
                                          std::string_view mark, const Matters& matters) {
  std::vector<QueueRow> rows;
  NodeLists seen;
  if (!text.empty() && text.back() != '\n') return torn("the answer is cut off", "");
  Rows records(text, mark);
  Fields fields;
  std::size_t count = 0;
  while (true) {
    STOKER_TRY(more, records.next(fields, count));
    if (!more) break;
    const std::string_view user = count > kPlainFields ? fields[kPlainFields - 1] : "";
    const auto may_be_left_out = [&] {
      return !user.empty() && matters && !matters(std::string(user));
    };
    if (count != kFields) {
      if (may_be_left_out()) continue;
      return torn("a line that is no row", records.record());
    }
    const bool wanted =
        names.empty() || is_job_of(fields[12], names) ||
        std::any_of(folders.begin(), folders.end(), [&fields](const std::string& folder) {
          return fields[11].starts_with(folder);
        });
    if (!wanted) continue;
    auto row = parse_row(fields, records.record(), lists, seen);
    if (row)
      rows.push_back(*std::move(row));
    else if (!may_be_left_out())
      return fail(row.error());
  }
  if (lists != nullptr) *lists = std::move(seen);
  return rows;
}

}  // namespace stoker::slurm
