// What SLURM lets this user do and see, for `stoker doctor`.
#include <fmt/format.h>

#include "cli/doctor/site_checks.hpp"
#include "slurm/client_call.hpp"

namespace stoker::cli {
namespace {

constexpr Duration kPatience = 10s;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find('|', at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return fields;
}

std::string limit_text(const std::string& limit) {
  return limit.empty() ? "any number" : limit;
}

}  // namespace

std::vector<Finding> judge_rights(const std::string& associations) {
  std::string level, limits;
  for (std::size_t at = 0; at < associations.size();) {
    const std::size_t end = std::min(associations.find('\n', at), associations.size());
    const auto fields = fields_of(associations.substr(at, end - at));
    at = end + 1;
    if (fields.size() != 5 || fields[0].empty()) continue;
    level = fields[0];
    limits += fmt::format("{}{}{}: {} at once, {} submitted", limits.empty() ? "" : "; ", fields[1],
                          fields[2].empty() ? "" : " in " + fields[2], limit_text(fields[3]),
                          limit_text(fields[4]));
  }
  if (level.empty())
    return {{"rights", Health::Bad, "the accounts do not know this user",
             "ask the operators for an account (sacctmgr add user)"}};
  const bool may_drain = level == "Administrator";  // measured with 22.05.8: Operator does not do
  return {{"rights", Health::Good,
           fmt::format("AdminLevel {}: {}", level,
                       may_drain ? "recover.exclude.drain has what it needs"
                                 : "drains are left to the administrators (stoker nodes --drain)"),
           ""},
          {"job limits", Health::Good, limits + "; each task of an array counts", ""}};
}

std::vector<Finding> check_rights(const Context& context) {
  const auto user = context.environment.find("USER");
  if (user == context.environment.end() || user->second.empty()) return {};
  const auto answer = os::run_command(
      slurm::client_call({"sacctmgr", "-n", "-P", "show", "user", "name=" + user->second,
                          "withassoc", "format=AdminLevel,Account,Partition,MaxJobs,MaxSubmitJobs"},
                         context.environment),
      kPatience);
  if (!answer) return {{"rights", Health::Note, answer.error().message(), ""}};
  if (!answer->status.ok())
    return {{"rights", Health::Note, "sacctmgr fails: " + slurm::what_it_said(*answer), ""}};
  return judge_rights(answer->out);
}

}  // namespace stoker::cli
