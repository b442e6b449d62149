#include "slurm/accounting.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <map>

#include "common/hostlist.hpp"
#include "slurm/job_detail.hpp"
#include "slurm/job_state.hpp"

namespace stoker::slurm {
namespace {

constexpr char kSeparator = '\x1f';
constexpr std::size_t kFields = 8;

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Unexpected odd(std::string_view what, std::string_view line) {
  return fail(fmt::format("sacct: {}", what), std::string(line.substr(0, 120)));
}

// "123", "123_4", "123_[5-10%1]"; of a heterogeneous job "123+1" is none of ours.
bool read_id(std::string_view text, AccountingRow& row) {
  const auto underscore = text.find('_');
  const auto job = number<std::uint64_t>(text.substr(0, underscore));
  if (!job) return false;
  row.id.job = *job;
  if (underscore == std::string_view::npos) return true;
  const std::string_view task = text.substr(underscore + 1);
  row.rest = task.starts_with('[');
  const auto index = number<std::uint32_t>(task);
  if (index) row.id.task = *index;
  return row.rest || index.has_value();
}

Result<AccountingRow> read_row(const std::array<std::string_view, kFields>& f,
                               std::string_view line) {
  AccountingRow row;
  if (!read_id(f[0], row)) return odd("a line without a job id", line);
  const auto state = parse_state(f[1]);
  if (!state) return odd("an unknown state", line);
  row.state = state->state;
  row.cancelled_by_uid = state->cancelled_by_uid;
  const auto colon = f[2].find(':');
  row.exit_code = number<int>(f[2].substr(0, colon)).value_or(0);
  if (colon != std::string_view::npos) row.signal = number<int>(f[2].substr(colon + 1)).value_or(0);
  if (const auto seconds = number<std::int64_t>(f[3]);
      seconds && *seconds > 0 && *seconds < 9'000'000'000)  // in ns, too
    row.submitted = WallTime(std::chrono::seconds(*seconds));
  if (!f[4].empty() && f[4] != "None assigned")
    if (auto nodes = expand_hostlist(f[4])) row.nodes = std::move(*nodes);
  row.user = f[5];
  row.name = f[6];
  row.comment = f[7];
  return row;
}

}  // namespace

std::vector<std::string> accounting_command(std::uint64_t job, Duration age) {
  const auto seconds = std::max<std::int64_t>(60, static_cast<std::int64_t>(to_seconds(age)));
  return {"sacct", "-X",
          "-P",    "-n",
          "-D",    fmt::format("--delimiter={}", kSeparator),
          "-S",    fmt::format("now-{}seconds", seconds),
          "-j",    std::to_string(job),
          "-o",    "JobID,State,ExitCode,Submit,NodeList,User,JobName,Comment"};
}

Result<std::vector<AccountingRow>> parse_accounting(std::string_view text) {
  std::vector<AccountingRow> rows;
  if (!text.empty() && text.back() != '\n') return odd("the answer is cut off", "");
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    if (line.empty()) continue;
    std::array<std::string_view, kFields> fields;
    std::string_view rest = line;
    std::size_t count = 0;
    for (; count + 1 < kFields; ++count) {
      const auto at = rest.find(kSeparator);
      if (at == std::string_view::npos) break;
      fields[count] = rest.substr(0, at);
      rest.remove_prefix(at + 1);
    }
    if (count + 1 < kFields) return odd("a line that is no row", line);
    fields[count] = rest;
    STOKER_TRY(row, read_row(fields, line));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<core::JobSeen> proven_ends(const std::vector<AccountingRow>& rows, const Token& token,
                                       const std::string& user, WallTime since) {
  std::map<std::pair<JobId, bool>, const AccountingRow*> newest;
  for (const AccountingRow& row : rows) {
    const bool ours = (user.empty() || row.user == user) && row.name == run_of(token).text &&
                      (row.comment.empty() || row.comment == token.text) && row.submitted &&
                      *row.submitted >= since;
    if (ours) newest[{row.id, row.rest}] = &row;
  }
  std::vector<core::JobSeen> ends;
  for (const auto& [key, row] : newest) {
    if (!core::is_terminal(row->state)) continue;
    core::JobSeen seen;
    seen.token = token;
    seen.job = row->id.task == 0 && !row->rest ? JobId{row->id.job, 1} : row->id;
    seen.state = row->state;
    seen.reason = "sacct";
    seen.nodes = row->nodes;
    seen.exit_code = row->exit_code;
    seen.signal = row->signal;
    seen.cancelled_by_uid = row->cancelled_by_uid;
    ends.push_back(std::move(seen));
  }
  return ends;
}

}  // namespace stoker::slurm
