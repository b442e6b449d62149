// Daemon, taking a run under supervision: its RUN.yaml is checked, its folders are made; and the
// RUN.yaml of all runs, read again. What reads files is an errand.
#include <algorithm>
#include <fmt/format.h>
#include <re2/re2.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "alerts/sink.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/writers.hpp"
#include "configs/schema/run_checks.hpp"
#include "configs/schema/run_schema.hpp"
#include "configs/schema/yaml_tree.hpp"
#include "daemon/loop/answers.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/state/run_owner.hpp"
#include "wire/run_directory.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;
using core::JournalRow;

// The highest one in a run directory; 0 = none.
Generation newest_generation(const std::string& directory) {
  Generation newest;
  const auto names = os::list_directory(directory);
  for (const auto& name : names ? *names : std::vector<std::string>{})
    if (const auto generation = wire::parse_generation_name(name))
      newest = std::max(newest, *generation);
  return newest;
}

configs::RunSchemaContext schema_context(const std::string& state) {
  configs::RunSchemaContext context;
  context.state_directory = state;
  for (const alerts::SinkKind& known : alerts::known_sinks()) {
    configs::SinkKind kind{known.kind, {}, {}};
    for (const alerts::SinkOption& option : known.options)
      (option.required ? kind.required : kind.optional).push_back(option.name);
    context.sinks.push_back(std::move(kind));
  }
  context.sink_error = [](const core::SinkPolicy& sink) {
    const Status checked = alerts::check_sink(sink);
    return checked ? std::string() : checked.error().what;
  };
  return context;
}

configs::RunWorld world() {
  return {os::current_environment(), [](const std::string& expression) {
            RE2::Options quiet;
            quiet.set_log_errors(false);
            const RE2 compiled(expression, quiet);
            return compiled.ok() ? std::string() : compiled.error();
          }};
}

std::string error_lines(const configs::Diagnostics& errors) {
  std::string text;
  for (const auto& error : errors) text += (text.empty() ? "" : "\n") + error.text();
  return text;
}

}  // namespace

void Daemon::ask_run(const wire::Request& request, const std::string& by, Reply reply) {
  const auto path = request.arguments.find("path");
  if (path == request.arguments.end() || !path->second.starts_with('/'))
    return reply(refuse("run wants the absolute path of RUN.yaml in arguments.path"));
  errands_.post("check " + path->second, [this, text = request.text, file = path->second, by, reply,
                                          dry_run = request.dry_run] {
    auto context = schema_context(foundation_.state_directory);
    context.file = context.config_path = file;
    auto checked = configs::check_run_config(text, context, world());
    asio::post(io_, [this, checked = std::move(checked), by, reply, dry_run] {
      if (checked.file.errors.empty())
        return put_under_supervision(checked.file.policy, by, dry_run, reply);
      Json errors = Json::array();
      for (const auto& error : checked.file.errors) errors.push_back(error.text());
      auto response = refuse(error_lines(checked.file.errors));
      response.data = {{"errors", errors}};
      reply(response);
    });
  });
}

void Daemon::put_under_supervision(core::RunPolicy policy, const std::string& by, bool dry_run,
                                   Reply reply) {
  const auto known = runs_.find(policy.run);
  const bool fresh = known == runs_.end();
  const bool changed = !fresh && !(known->second.policy == policy);
  if (!fresh && known->second.policy.directory != policy.directory)
    return reply(
        refuse(fmt::format("{} lives in {}; a run cannot move: give the new one a new name",
                           policy.run.text, known->second.policy.directory)));
  for (const auto& [name, run] : runs_)
    if (fresh && run.policy.directory == policy.directory)
      return reply(refuse(shared_directory(policy.directory, name)));
  Json data{{"run", policy.run.text},
            {"directory", policy.directory},
            {"known", !fresh},
            {"changed", changed}};
  const core::RunAdded added{policy, by};
  const core::Input input{policy.run, added, {}};
  if (dry_run)
    return turns_->inspect([this, input, data, reply](core::Engine& engine, SqliteJournal&) {
      auto response = response_of(engine.preview(input), true);
      response.data.update(data);
      asio::post(io_, [reply, response] { reply(response); });
    });
  std::map<RunName, std::string> others;
  for (const auto& [name, run] : runs_)
    if (name != policy.run) others[name] = run.policy.directory;
  make_folders(added, std::move(others), [this, data, reply](const Result<core::RunAdded>& made) {
    if (!made) return reply(refuse(made.error().message()));
    turns_->submit({{made->policy.run, *made, {}}},
                   [seen = *made, data, reply](const std::vector<JournalRow>& rows) {
                     auto response = find_answer(rows, seen);
                     response.data.update(data);
                     reply(response);
                   });
  });
}

// The run's folders, by an errand: the file system may not answer, and who may list the folder
// above can keep its lock. After four seconds (the client waits five) `made` is called with an
// Error, and what comes late is dropped.
void Daemon::make_folders(const core::RunAdded& added, std::map<RunName, std::string> others,
                          std::function<void(const Result<core::RunAdded>&)> made) {
  constexpr Duration kPatience = 4s;
  struct Question {
    asio::steady_timer timer;
    std::function<void(const Result<core::RunAdded>&)> answer;  // empty: it was given
  };
  const std::string& directory = added.policy.directory;
  auto question = std::make_shared<Question>(Question{asio::steady_timer(io_), std::move(made)});
  question->timer.expires_after(kPatience);
  question->timer.async_wait([question, directory](const boost::system::error_code& code) {
    if (code || !question->answer) return;
    std::exchange(question->answer, nullptr)(
        fail(fmt::format("no answer for {} while its folders were made: nothing was done",
                         format_duration(kPatience)),
             directory,
             "its file system may be away, or another user keeps the lock of a folder above it"));
  });
  errands_.post(
      "folders of " + added.policy.run.text,
      [this, added, others = std::move(others), question, state = foundation_.state_directory] {
        Status done = check_alone(added.policy.directory, others);
        if (done) done = make_run_directory(added.policy);
        if (done) done = own_run_directory(added.policy.directory, state, added.by);
        core::RunAdded seen = added;
        seen.newest = newest_generation(added.policy.directory);
        asio::post(io_, [question, done, seen] {
          question->timer.cancel();
          if (!question->answer) return;
          const auto answer = std::exchange(question->answer, nullptr);
          done ? answer(seen) : answer(fail(done.error()));
        });
      });
}

// What RUN.yaml says now: a new policy, or that the file was refused. Empty: as before. `why`: it
// is not taken. `refused`: the last time it was, so that the same policy is news.
std::optional<core::Input> Daemon::read_again(const core::RunPolicy& old, const std::string& by,
                                              bool refused, std::string& why) const {
  const std::string& path = old.config_path;
  const auto text = os::read_guarded_file(path, configs::kLargestYaml);
  if (!text) {
    why = text.error().message();
    if (!os::is_refusal(text.error())) return std::nullopt;
    return core::Input{
        old.run, core::OperatorAsked{"reload", {{"refused", why}}, {}, by, "", ""}, {}};
  }
  auto context = schema_context(foundation_.state_directory);
  context.file = context.config_path = path;
  const auto read = configs::check_run_config(*text, context, world());
  if (!read.file.errors.empty())
    why = error_lines(read.file.errors);
  else if (read.file.policy.run != old.run || read.file.policy.directory != old.directory)
    why = path + ": run and directory cannot change; the old policy stays";
  if (!why.empty() || (read.file.policy == old && !refused)) return std::nullopt;
  return core::Input{old.run, core::PolicyChanged{read.file.policy, by}, {}};
}

// Every RUN.yaml is read whole before anything changes; one that has errors keeps its old policy,
// and so does one that others may write: no person sees here what it says.
void Daemon::reload(const std::string& by, Reply reply) {
  turns_->inspect([this, by, reply](core::Engine& engine, SqliteJournal&) {
    std::set<RunName> refused;
    for (const auto& [id, alert] : engine.state().alerts)
      if (alert.kind == "policy_refused") refused.insert(alert.run);
    asio::post(io_, [this, by, reply, refused] { reload_runs(by, refused, reply); });
  });
}

void Daemon::reload_runs(const std::string& by, const std::set<RunName>& refused, Reply reply) {
  std::vector<core::RunPolicy> old;
  for (const auto& [name, run] : runs_) old.push_back(run.policy);
  errands_.post("reload", [this, old, by, refused, reply] {
    std::vector<core::Input> inputs;
    std::string errors;
    std::size_t changes = 0;
    for (const core::RunPolicy& policy : old) {
      std::string why;
      auto input = read_again(policy, by, refused.contains(policy.run), why);
      if (!why.empty()) errors += (errors.empty() ? "" : "\n") + why;
      if (!input) continue;
      const auto* changed = std::get_if<core::PolicyChanged>(&input->body);
      changes += changed != nullptr && changed->policy != policy ? 1 : 0;
      inputs.push_back(std::move(*input));
    }
    const std::string done = fmt::format("{} of {} runs have a new policy", changes, old.size());
    turns_->submit(std::move(inputs), [reply, errors, done](const std::vector<JournalRow>&) {
      reply(errors.empty() ? accept(done) : refuse(done + "; kept as they were:\n" + errors));
    });
  });
}

}  // namespace stoker::daemon
