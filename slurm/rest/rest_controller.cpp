// Asking slurmrestd, and judging whether what came back is an answer at all.
#include "slurm/rest/rest_controller.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "common/os/files.hpp"
#include "slurm/job_json.hpp"
#include "slurm/json_shapes.hpp"
#include "slurm/rest/job_rows.hpp"

namespace stoker::slurm {
namespace {

constexpr int kOldest = 38, kNewest = 43;
constexpr Duration kCommandsEvery = 10min;
constexpr std::uint64_t kInvalidJobId = 2017;  // slurm_errno.h

std::string base_of(int api) {
  return fmt::format("/slurm/v0.0.{}/", api);
}

std::string first_line(std::string_view text) {
  std::string line(text.substr(0, std::min<std::size_t>(text.find('\n'), 160)));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return line;
}

// What the list `errors` says, one clause a fault.
std::string errors_in(const Json& document, bool& denied) {
  std::string said;
  const auto errors = document.find("errors");
  if (errors == document.end() || !errors->is_array()) return said;
  for (const Json& error : *errors) {
    if (!error.is_object()) continue;
    std::string text = text_of(error, "error");
    const std::string more = text_of(error, "description");
    if (!more.empty() && text.find(more) == std::string::npos)
      text += (text.empty() ? "" : " (") + more + (text.empty() ? "" : ")");
    for (const char* key : {"error_number", "error_code", "errno"})
      denied = denied || number_of(error, key) == kInvalidJobId;
    denied = denied || text.find("Invalid job id") != std::string::npos;
    if (text.empty()) text = "an error without words";
    if (said.size() < 400) said += (said.empty() ? "" : "; ") + first_line(text);
  }
  return said;
}

// The controllers that answered. "ping" up to v0.0.39, "pinged" after it.
Json hosts_that_answer(const Json& document) {
  Json hosts = Json::array();
  const auto pings = document.find("pings");
  if (pings == document.end() || !pings->is_array()) return hosts;
  for (const Json& ping : *pings) {
    if (!ping.is_object()) continue;
    const std::string word = text_of(ping, ping.contains("pinged") ? "pinged" : "ping");
    if (word.empty() || word == "UP") hosts.push_back(text_of(ping, "hostname"));
  }
  return hosts;
}

}  // namespace

RestController::Outcome RestController::judge(RestAnswer answer) {
  const auto lost = [&](std::string what, std::string advice, bool reached) {
    return Lost{{"slurmrestd: " + std::move(what), door_.name(), std::move(advice)}, reached};
  };
  if (!answer.error.empty())
    return lost(answer.error, answer.reached ? "" : "nothing was asked of it", answer.reached);
  if (answer.status >= 300 && answer.status < 400)
    return lost("it points elsewhere, and that is not followed",
                "set scheduler.rest.url to where it is now", false);
  if (answer.status == 401 || answer.status == 403)
    return lost(fmt::format("it refuses the token ({})", answer.status),
                "write a new one: scontrol token lifespan=…", false);
  if (answer.status == 511)  // slurmctld did; since 23.02
    return lost("slurmctld refuses the token (511)", "write a new one: scontrol token lifespan=…",
                true);
  auto document = parse_json(answer.body, "an answer of slurmrestd");
  if (!document || !document->is_object()) {
    if (answer.status == 404) {
      const std::scoped_lock lock(mutex_);
      api_ = 0;  // another release may answer now
    }
    Lost foreign =
        lost(fmt::format("it answers {} with \"{}\"", answer.status, first_line(answer.body)),
             "is this slurmrestd?", answer.status != 404 && answer.status != 400);
    foreign.status = answer.status;
    return foreign;
  }
  Reply reply;
  reply.status = answer.status;
  reply.said = errors_in(*document, reply.denied);
  if (const Status known = know(cluster_in(*document)); !known) return Lost{known.error(), true};
  reply.document = *std::move(document);
  reply.body = std::move(answer.body);
  return reply;
}

std::string RestController::cluster_in(const Json& document) const {
  const auto meta = document.find("meta");
  if (meta == document.end() || !meta->is_object()) return "";
  const auto slurm = meta->find("slurm");  // since 23.11; "Slurm" before, without a cluster
  return slurm != meta->end() && slurm->is_object() ? text_of(*slurm, "cluster") : "";
}

Status RestController::know(const std::string& cluster) {
  if (cluster.empty()) return ok();
  const std::scoped_lock lock(mutex_);
  const std::string& known = bound_.empty() ? cluster_ : bound_;
  if (known.empty() || known == cluster) {
    cluster_ = cluster;
    return ok();
  }
  return fail(fmt::format("slurmrestd answers for the cluster {}; it was {}", cluster, known),
              door_.name(), "its jobs are not ours: set scheduler.rest.url to the right one");
}

void RestController::bind(const std::string& cluster) {
  const std::scoped_lock lock(mutex_);
  bound_ = cluster;
}

Result<int> RestController::api() {
  {
    const std::scoped_lock lock(mutex_);
    if (api_ != 0) return api_;
  }
  for (int version = kNewest; version >= kOldest; --version) {
    RestAnswer answer = door_.ask({"GET", base_of(version) + "ping", "", options_.deadline}, {});
    if (answer.error.empty() && answer.status == 404) continue;
    const auto outcome = judge(std::move(answer));
    if (const auto* lost = std::get_if<Lost>(&outcome)) return fail(lost->error);
    const auto& reply = std::get<Reply>(outcome);
    if (!reply.document.contains("pings"))
      return fail("slurmrestd: an answer without pings", door_.name(), "is this slurmrestd?");
    const std::scoped_lock lock(mutex_);
    return api_ = version;
  }
  return fail(fmt::format("slurmrestd has no API from v0.0.{} to v0.0.{}", kOldest, kNewest),
              door_.name(), "is this slurmrestd, of SLURM 22.05 to 25.11?");
}

RestController::Outcome RestController::exchange(const std::string& method, const std::string& what,
                                                 const std::string& body, Duration limit) {
  const auto version = api();
  if (!version) return Lost{version.error(), false};
  return judge(door_.ask(
      {method, base_of(*version) + what, body, limit == Duration{} ? options_.deadline : limit},
      {}));
}

Result<RestController::Reply> RestController::list(
    const std::string& what, const char* key, Duration limit,
    const std::function<Status(const JsonItem&)>& take,
    const std::function<bool(const JsonItem&)>& is_anothers) {
  STOKER_TRY(version, api());
  JsonItems items(key, take, is_anothers);
  std::optional<Error> bad;
  RestAnswer answer = door_.ask(
      {"GET", base_of(version) + what, "", limit == Duration{} ? options_.deadline : limit},
      [&](std::string_view part) {
        const Status good = items.feed(part);
        if (!good) bad = good.error();
        return good.has_value();
      });
  if (bad) return fail(*bad);
  const bool streamed = answer.error.empty() && answer.status == 200;
  if (streamed) {
    STOKER_TRY(document, items.finish());
    answer.body = dump_json(document);
  }
  auto outcome = judge(std::move(answer));
  if (const auto* lost = std::get_if<Lost>(&outcome)) return fail(lost->error);
  Reply reply = std::get<Reply>(std::move(outcome));
  if (reply.denied) return reply;
  if (!reply.said.empty() || !streamed)
    return fail(fmt::format("slurmrestd: it answers {}: {}", reply.status,
                            reply.said.empty() ? "no list" : reply.said),
                door_.name());
  const auto found = reply.document.find(key);
  if (found == reply.document.end() || !found->is_array())
    return fail(fmt::format("slurmrestd: an answer without {}", key), door_.name());
  return reply;
}

Result<RestController::Reply> RestController::ask_job(const std::string& id) {
  budget_.spend(options_.now());
  auto outcome = exchange("GET", "job/" + id, "");
  if (const auto* lost = std::get_if<Lost>(&outcome)) return fail(lost->error);
  Reply reply = std::get<Reply>(std::move(outcome));
  if (reply.denied) return reply;
  if (reply.status != 200 || !reply.said.empty())
    return fail(fmt::format("slurmrestd: it answers {}: {}", reply.status, reply.said),
                door_.name());
  const auto jobs = reply.document.find("jobs");
  if (jobs == reply.document.end() || !jobs->is_array() || jobs->empty())
    return fail("slurmrestd: an answer without jobs", door_.name());
  return reply;
}

Result<std::vector<QueueRow>> RestController::queue(const QueueQuestion& question) {
  JobRows rows(question);
  if (question.job != 0) {
    STOKER_TRY(reply, ask_job(std::to_string(question.job)));
    if (reply.denied) return std::vector<QueueRow>{};
    JsonItems items("jobs", [&rows](const JsonItem& job) { return rows.add(job); });
    STOKER_TRY_STATUS(items.feed(reply.body));
  } else {
    budget_.spend(options_.now());
    STOKER_TRY(reply,
               list(
                   "jobs", "jobs", {}, [&rows](const JsonItem& job) { return rows.add(job); },
                   [&rows](const JsonItem& job) { return rows.is_anothers(job); }));
    if (reply.denied) return fail("slurmrestd: " + reply.said, door_.name());
  }
  STOKER_TRY_STATUS(know(rows.cluster()));
  return rows.take();
}

// The rows have them.
Result<std::map<JobId, JobNumbers>> RestController::numbers(const std::vector<std::uint64_t>&) {
  return std::map<JobId, JobNumbers>{};
}

Result<std::vector<JobDetail>> RestController::details(const JobId& job) {
  STOKER_TRY(reply, ask_job(job.text()));
  if (reply.denied) return std::vector<JobDetail>{};
  return parse_job_json(reply.body);
}

Result<bool> RestController::shows(const Token& token) {
  budget_.spend(options_.now());
  bool shown = false;
  const auto is_anothers = [this](const JsonItem& job) {
    const std::string user = job.text("user_name");
    return !options_.user.empty() && !user.empty() && user != options_.user;
  };
  const auto look = [&](const JsonItem& job) {
    shown = shown || (!is_anothers(job) && job.whole().find(token.text) != std::string_view::npos);
    return ok();
  };
  STOKER_TRY(reply, list("jobs", "jobs", {}, look, is_anothers));
  if (reply.denied) return fail("slurmrestd: " + reply.said, door_.name());
  return shown;
}

Result<IdBelongs> RestController::holder(std::uint64_t job, const Token& token) {
  STOKER_TRY(reply, ask_job(std::to_string(job)));
  if (reply.denied) return IdBelongs::ToNoJob;
  const bool ours = reply.body.find(token.text) != std::string::npos;
  return ours ? IdBelongs::ToToken : IdBelongs::ToAnother;
}

Result<std::vector<core::NodeSeen>> RestController::nodes(const std::string& node, Duration limit) {
  // A person waits for an answer within a limit, and it is rare: it has no part in the budget.
  if (limit == Duration{}) budget_.spend(options_.now());
  std::vector<core::NodeSeen> seen;
  STOKER_TRY(reply, list("nodes", "nodes", limit, [&](const JsonItem& item) -> Status {
               STOKER_TRY(one, node_seen_in(item));
               if (node.empty() || one.node.text == node) seen.push_back(std::move(one));
               return ok();
             }));
  if (reply.denied) return fail("slurmrestd: " + reply.said, door_.name());
  return seen;
}

// Before 23.11 only jobs name it. A queue without jobs is the known cluster's as long as the same
// controllers answer; else it has no name, and no job is proven gone by it.
Result<ClusterFacts> RestController::cluster() {
  budget_.spend(options_.now());
  std::string before;
  {
    const std::scoped_lock lock(mutex_);
    before = std::exchange(cluster_, "");
  }
  auto outcome = exchange("GET", "ping", "");
  const auto* reply = std::get_if<Reply>(&outcome);
  const Json hosts = reply == nullptr ? Json::array() : hosts_that_answer(reply->document);
  ClusterFacts facts;
  {
    const std::scoped_lock lock(mutex_);
    const bool same = reply == nullptr || pings_.is_null() || pings_ == hosts;
    if (cluster_.empty() && same) cluster_ = before;
    facts.name = cluster_;
    if (reply != nullptr) pings_ = hosts;
  }
  if (reply == nullptr) return fail(std::get<Lost>(outcome).error);
  if (reply->status != 200 || hosts.empty())
    return fail("slurmrestd: slurmctld does not answer it: " + reply->said, door_.name());
  if (facts.name.empty()) return facts;
  const auto by_commands = cluster_of_commands();
  if (by_commands && by_commands->name == facts.name) return by_commands;
  return facts;
}

// Not where SLURM_CONF names no file: they would try for a minute to read it.
Result<ClusterFacts> RestController::cluster_of_commands() {
  const auto named = options_.environment.find("SLURM_CONF");
  if (named != options_.environment.end() && !os::exists(named->second))
    return fail("SLURM_CONF names no file", named->second);
  return commands_->cluster();
}

Status RestController::same_cluster() {
  std::string ours;
  {
    const std::scoped_lock lock(mutex_);
    if (commands_checked_ && options_.now() - *commands_checked_ < kCommandsEvery) return ok();
    ours = cluster_;
  }
  const auto facts = cluster_of_commands();
  if (!facts) {
    Error error = facts.error();
    error.what = "slurmrestd cannot do this, and SLURM's commands cannot either: " + error.what;
    return fail(std::move(error));
  }
  if (ours.empty())
    return fail("slurmrestd cannot do this, and names no cluster while no job is there",
                door_.name(), "SLURM's commands may be of another cluster");
  if (ours != facts->name)
    return fail(fmt::format("slurmrestd cannot do this, and SLURM's commands are of the cluster {}",
                            facts->name),
                door_.name(), "it is of " + ours);
  const std::scoped_lock lock(mutex_);
  commands_checked_ = options_.now();
  return ok();
}

Result<os::CommandOutput> RestController::question(std::vector<std::string> argv) {
  STOKER_TRY_STATUS(same_cluster());
  return commands_->question(std::move(argv));
}

Result<os::CommandOutput> RestController::act(std::vector<std::string> argv) {
  STOKER_TRY_STATUS(same_cluster());
  return commands_->act(std::move(argv));
}

Result<RestFacts> look_at_rest(RestDoor& door, Duration limit) {
  CallBudget budget(Duration{});
  SlurmOptions options;
  options.deadline = limit;
  RestController controller(door, nullptr, budget, options);
  RestFacts facts;
  STOKER_TRY(api, controller.api());
  facts.api = api;
  const Instant began = monotonic_now();
  const auto look = [&facts](const JsonItem& job) {
    ++facts.jobs;
    if (facts.cluster.empty()) facts.cluster = job.text("cluster");
    return ok();
  };
  const auto too_large = [&facts](const JsonItem&) { return ++facts.jobs, true; };
  STOKER_TRY(reply, controller.list("jobs", "jobs", limit, look, too_large));
  facts.took = monotonic_now() - began;
  if (reply.denied) return fail("slurmrestd: " + reply.said, door.name());
  if (facts.cluster.empty()) facts.cluster = controller.cluster_in(reply.document);
  const auto meta = reply.document.find("meta");
  for (const char* key : {"Slurm", "slurm"})
    if (meta != reply.document.end() && meta->is_object() && meta->contains(key) &&
        meta->at(key).is_object())
      facts.release = text_of(meta->at(key), "release");
  return facts;
}

}  // namespace stoker::slurm
