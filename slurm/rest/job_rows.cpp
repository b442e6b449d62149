#include "slurm/rest/job_rows.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "slurm/json_shapes.hpp"
#include "slurm/node_states.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kMostTasks = 100'000;
constexpr std::uint64_t kNoTask = 0xfffffffe;

Unexpected without(const JsonItem& job, std::string_view field) {
  const auto id = job.number("job_id");
  return fail(fmt::format("slurmrestd: a job without a readable {}", field),
              id ? std::to_string(*id) : "the answer", "such an answer is not used");
}

std::optional<WallTime> time_of(const JsonItem& job, std::string_view key) {
  const auto seconds = job.number(key);
  if (!seconds || *seconds == 0 || *seconds > 9'000'000'000) return std::nullopt;
  return WallTime(std::chrono::seconds(*seconds));
}

// "down", or the first of ["IDLE", "DRAIN"]; and all flags, in capitals.
std::pair<std::string, std::set<std::string>> state_words(const JsonItem& node) {
  std::string base = node.text("state");
  std::set<std::string> flags;
  for (const char* key : {"state", "state_flags"}) {
    const Json list = node.value(key);
    if (!list.is_array()) continue;
    for (const Json& word : list) {
      if (!word.is_string()) continue;
      if (base.empty())
        base = word.get<std::string>();
      else
        flags.insert(word.get<std::string>());
    }
  }
  std::transform(base.begin(), base.end(), base.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return {base, flags};
}

}  // namespace

Result<std::vector<std::uint32_t>> tasks_in(std::string_view text) {
  std::vector<std::uint32_t> tasks;
  const auto bad = [text] {
    return fail("slurmrestd: tasks in an unknown form", std::string(text.substr(0, 80)));
  };
  std::string_view rest = text.substr(0, text.find('%'));
  const auto number = [&rest]() -> std::optional<std::uint32_t> {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc{} || value >= kNoTask) return std::nullopt;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return value;
  };
  const auto eat = [&rest](char c) {
    if (!rest.starts_with(c)) return false;
    rest.remove_prefix(1);
    return true;
  };
  while (!rest.empty() && rest != "...") {  // SLURM cuts long lists off: what it names is there
    const auto first = number();
    if (!first) return bad();
    std::uint32_t last = *first, step = 1;
    if (eat('-')) {
      const auto end = number();
      if (!end || *end < *first) return bad();
      last = *end;
      if (eat(':')) {
        const auto by = number();
        if (!by || *by == 0) return bad();
        step = *by;
      }
    }
    for (std::uint64_t task = *first; task <= last; task += step) {
      if (tasks.size() == kMostTasks) return bad();
      tasks.push_back(static_cast<std::uint32_t>(task));
    }
    if (!rest.empty() && (!eat(',') || rest.empty())) return bad();
  }
  return tasks;
}

JobRows::JobRows(const QueueQuestion& question) : question_(question) {
  std::string_view list = question.users;
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    users_.emplace(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

bool JobRows::is_anothers(const JsonItem& job) const {
  const std::string user = job.text("user_name");
  return !users_.empty() && !user.empty() && !users_.contains(user);
}

bool JobRows::wanted(const JsonItem& job) const {
  if (!users_.empty() && !users_.contains(job.text("user_name"))) return false;
  if (question_.names.empty()) return true;
  const std::string name = job.text("name"), command = job.text("command");
  const auto& folders = question_.folders;
  return is_job_of(name, question_.names) ||
         std::any_of(folders.begin(), folders.end(),
                     [&command](const std::string& folder) { return command.starts_with(folder); });
}

// Of the answer before, where it had the same list.
Result<NodeList> JobRows::nodes_of(const std::string& text) {
  if (const auto again = seen_.find(text); again != seen_.end()) return again->second;
  NodeList nodes;
  const NodeLists* before = question_.lists;
  const auto found = before == nullptr ? NodeLists::const_iterator() : before->find(text);
  if (before != nullptr && found != before->end()) {
    nodes = found->second;
  } else {
    STOKER_TRY(expanded, expand_hostlist(text));
    nodes = NodeList(std::move(expanded));
  }
  seen_.emplace(text, nodes);
  return nodes;
}

Status JobRows::add(const JsonItem& job) {
  if (cluster_.empty()) cluster_ = job.text("cluster");
  if (!wanted(job)) return ok();
  QueueRow row;
  const auto id = job.number("job_id");
  const auto uid = job.number("user_id");
  const auto state = state_in(job.value("job_state"));
  if (!id || *id == 0) return without(job, "job_id");
  if (!uid) return without(job, "user_id");
  if (!state) return without(job, "job_state");
  for (const char* key : {"user_name", "name"})
    if (!job.raw(key).starts_with('"')) return without(job, key);
  for (const char* key : {"nodes", "array_task_string"})  // a part of them would be others
    if (job.is_cut(key)) return without(job, key);
  row.raw_id = *id;
  row.uid = static_cast<std::uint32_t>(*uid);
  row.state = *state;
  const auto array = job.number("array_job_id");
  const bool in_array = array && *array != 0;
  row.id.job = in_array ? *array : *id;
  row.reason = job.text("state_reason");
  row.starts = time_of(job, "start_time");
  row.ends = time_of(job, "end_time");
  row.submitted = time_of(job, "submit_time");
  if (const std::string nodes = job.text("nodes"); !nodes.empty()) {
    auto list = nodes_of(nodes);
    if (!list) return without(job, "nodes");
    row.nodes = std::move(*list);
  }
  row.user = job.text("user_name");
  row.command = job.text("command");
  row.name = job.text("name");
  row.comment = job.text("comment");
  const ExitShape exit = exit_in(job.value("exit_code"));
  row.numbers = JobNumbers{static_cast<std::uint32_t>(job.number("restart_cnt").value_or(0)),
                           exit.code, exit.signal};
  const auto task = in_array ? job.number("array_task_id") : std::nullopt;
  if (task) row.id.task = static_cast<std::uint32_t>(*task);
  const std::string waiting = in_array && !task ? job.text("array_task_string") : "";
  if (waiting.empty()) {
    rows_.push_back(std::move(row));
    return ok();
  }
  STOKER_TRY(tasks, tasks_in(waiting));
  for (const std::uint32_t one : tasks) {
    row.id.task = one;
    rows_.push_back(row);
  }
  return ok();
}

std::vector<QueueRow> JobRows::take() {
  if (question_.lists != nullptr) *question_.lists = std::move(seen_);
  return std::move(rows_);
}

std::string node_state_of(const JsonItem& node) {
  const auto [base, flags] = state_words(node);
  const auto has = [&flags = flags](const char* flag) { return flags.contains(flag); };
  std::string word = base;
  const bool busy = base == "allocated" || base == "mixed" || has("COMPLETING");
  if (base == "down")
    word = "down";
  else if (has("DRAIN"))
    word = busy ? "draining" : "drained";
  else if (has("FAIL"))
    word = busy ? "failing" : "fail";
  else if (has("COMPLETING"))
    word = "completing";
  else if (has("RESERVED") && base == "idle")
    word = "reserved";
  constexpr std::pair<const char*, char> kMarks[] = {
      {"NOT_RESPONDING", '*'},   {"POWERING_DOWN", '%'}, {"POWER_DOWN", '!'},
      {"MAINTENANCE", '$'},      {"MAINT", '$'},         {"REBOOT_ISSUED", '^'},
      {"REBOOT_REQUESTED", '@'}, {"POWERING_UP", '#'},   {"POWERED_DOWN", '~'},
      {"PLANNED", '-'}};
  for (const auto& [flag, mark] : kMarks)
    if (has(flag)) return word + mark;
  return word;
}

Result<core::NodeSeen> node_seen_in(const JsonItem& node) {
  core::NodeSeen seen;
  seen.node = NodeName(node.text("name"));
  seen.state = node_state_of(node);
  if (seen.node.text.empty() || seen.state.empty())
    return fail("slurmrestd: a node without name or state",
                std::string(node.whole().substr(0, 120)));
  seen.usable = node_usable(seen.state);
  seen.reason = node.text("reason");
  return seen;
}

}  // namespace stoker::slurm
