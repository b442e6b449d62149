#include "slurm/job_detail.hpp"

#include <charconv>
#include <optional>

#include "slurm/job_state.hpp"

namespace stoker::slurm {
namespace {

std::optional<std::string_view> value_of(std::string_view record, std::string_view key) {
  std::size_t at = 0;
  while ((at = record.find(key, at)) != std::string_view::npos) {
    const std::size_t end = at + key.size();
    if ((at == 0 || record[at - 1] == ' ') && end < record.size() && record[end] == '=') {
      const std::string_view rest = record.substr(end + 1);
      return rest.substr(0, rest.find_first_of(" \n"));
    }
    at = end;
  }
  return std::nullopt;
}

template <class T>
std::optional<T> number_of(std::string_view record, std::string_view key) {
  const auto text = value_of(record, key);
  T value{};
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size()) return std::nullopt;
  return value;
}

constexpr std::uint32_t kNoTask = 0xfffffffe;  // NO_VAL, which 22.05 prints

bool is_moment(std::int64_t seconds) {  // in ns, too
  return seconds > 0 && seconds < 9'000'000'000;
}

Result<JobDetail> parse_record(std::string_view record) {
  JobDetail out;
  const auto id = number_of<std::uint64_t>(record, "JobId");
  const auto state = parse_state(value_of(record, "JobState").value_or(""));
  if (!id || !state)
    return fail("scontrol: a record without id or state", std::string(record.substr(0, 120)));
  out.state = state->state;
  out.id.job = number_of<std::uint64_t>(record, "ArrayJobId").value_or(*id);
  // Pending tasks stand together as "2-10%1": then there is no single task.
  out.id.task = number_of<std::uint32_t>(record, "ArrayTaskId").value_or(0);
  if (out.id.task >= kNoTask) out.id.task = 0;  // the rest of an array, cancelled while it waited
  out.restarts = number_of<std::uint32_t>(record, "Restarts").value_or(0);
  if (const auto exit = value_of(record, "ExitCode")) {
    const auto colon = exit->find(':');
    std::from_chars(exit->data(), exit->data() + exit->size(), out.exit_code);
    if (colon != std::string_view::npos)
      std::from_chars(exit->data() + colon + 1, exit->data() + exit->size(), out.signal);
  }
  const auto excluded = value_of(record, "ExcNodeList").value_or("");
  out.excluded = excluded == "(null)" ? "" : excluded;
  const auto nodes = value_of(record, "NodeList").value_or("");
  out.nodes = nodes == "(null)" ? "" : nodes;
  if (const auto ends = number_of<std::int64_t>(record, "EndTime"); ends && is_moment(*ends))
    out.ends = WallTime(std::chrono::seconds(*ends));
  out.command = value_of(record, "Command").value_or("");
  out.name = value_of(record, "JobName").value_or("");
  out.output = value_of(record, "StdOut").value_or("");
  return out;
}

}  // namespace

Result<std::vector<JobDetail>> parse_job_details(std::string_view text) {
  constexpr std::string_view kNext = "\nJobId=";
  std::vector<JobDetail> out;
  while (!text.empty() && text.front() == '\n') text.remove_prefix(1);
  while (!text.empty()) {
    const std::string_view record = text.substr(0, text.find(kNext));
    text.remove_prefix(std::min(record.size() + 1, text.size()));
    STOKER_TRY(detail, parse_record(record));
    out.push_back(std::move(detail));
  }
  return out;
}

Token token_of_command(std::string_view command) {
  constexpr std::string_view kFolder = "/batch/", kEnd = ".sh";
  const auto at = command.rfind(kFolder);
  if (at == std::string_view::npos || command.size() < kEnd.size() ||
      command.substr(command.size() - kEnd.size()) != kEnd)
    return Token();
  command.remove_prefix(at + kFolder.size());
  command.remove_suffix(kEnd.size());
  if (command.find('/') != std::string_view::npos) return Token();
  return Token(std::string(command));
}

RunName run_of(const Token& token) {
  auto at = token.text.rfind('-');
  if (at != std::string::npos && at > 0) at = token.text.rfind('-', at - 1);
  return RunName(at == std::string::npos ? token.text : token.text.substr(0, at));
}

Token token_of(const QueueRow& row) {
  const Token comment(row.comment);
  if (!comment.empty() && comment.text != row.name && run_of(comment).text == row.name)
    return comment;
  const Token path = token_of_command(row.command);
  return run_of(path).text == row.name ? path : Token();
}

bool lost_its_token(const QueueRow& row, const Token& token, const std::string& user) {
  return token_of(row).empty() && token_of_command(row.command).empty() &&
         (user.empty() || row.user == user) && row.name == run_of(token).text;
}

}  // namespace stoker::slurm
