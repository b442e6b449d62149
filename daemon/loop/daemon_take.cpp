// Daemon, taking a run under supervision: its RUN.yaml is checked, its folders are made; and the
// RUN.yaml of all runs, read again. What reads files is an errand.
#include <algorithm>
#include <atomic>
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

// A request that is answered once: by what comes of it, or when its patience is over; what comes
// later is dropped.
struct Daemon::Pending {
  Pending(asio::io_context& io, Reply to, Duration patience, const std::string& file)
      : timer(io, patience), reply(std::move(to)) {
    late = refuse(Error{
        fmt::format("no answer for {}: the run is not supervised", format_duration(patience)), file,
        "the file system of its directory or of a file that it names may be away, or another "
        "user keeps the lock of a folder there"}
                      .message());
  }
  void answer(const wire::Response& response) {
    if (over.exchange(true)) return;
    timer.cancel();
    reply(response);
  }
  asio::steady_timer timer;
  Reply reply;
  wire::Response late;
  std::atomic<bool> over{false};
  bool decided = false;  // it is carried out: no word that it was not
};

void Daemon::ask_run(const wire::Request& request, const std::string& by, Duration patience,
                     Reply reply) {
  const auto path = request.arguments.find("path");
  if (path == request.arguments.end() || !path->second.starts_with('/'))
    return reply(refuse("run wants the absolute path of RUN.yaml in arguments.path"));
  const std::string& file = path->second;
  auto pending = std::make_shared<Pending>(io_, std::move(reply), patience, file);
  pending->timer.async_wait([pending](const boost::system::error_code& code) {
    if (!code && !pending->decided) pending->answer(pending->late);
  });
  errands_.post("check " + file,
                [this, text = request.text, file, by, pending, dry_run = request.dry_run] {
                  auto context = schema_context(foundation_.state_directory);
                  context.file = context.config_path = file;
                  auto checked = configs::check_run_config(text, context, world());
                  asio::post(io_, [this, checked = std::move(checked), by, pending, dry_run] {
                    if (pending->over) return;
                    if (checked.file.errors.empty())
                      return put_under_supervision(checked.file.policy, by, dry_run, pending);
                    Json errors = Json::array();
                    for (const auto& error : checked.file.errors) errors.push_back(error.text());
                    auto response = refuse(error_lines(checked.file.errors));
                    response.data = {{"errors", errors}};
                    pending->answer(response);
                  });
                });
}

void Daemon::put_under_supervision(core::RunPolicy policy, const std::string& by, bool dry_run,
                                   std::shared_ptr<Pending> pending) {
  const auto known = runs_.find(policy.run);
  const bool fresh = known == runs_.end();
  const bool changed = !fresh && !(known->second.policy == policy);
  if (!fresh && known->second.policy.directory != policy.directory)
    return pending->answer(
        refuse(fmt::format("{} lives in {}; a run cannot move: give the new one a new name",
                           policy.run.text, known->second.policy.directory)));
  for (const auto& [name, run] : runs_)
    if (fresh && run.policy.directory == policy.directory)
      return pending->answer(refuse(shared_directory(policy.directory, name)));
  Json data{{"run", policy.run.text},
            {"directory", policy.directory},
            {"known", !fresh},
            {"changed", changed}};
  const core::RunAdded added{policy, by};
  const core::Input input{policy.run, added, {}};
  if (dry_run)
    return turns_->inspect([this, input, data, pending](core::Engine& engine, SqliteJournal&) {
      auto response = response_of(engine.preview(input), true);
      response.data.update(data);
      asio::post(io_, [pending, response] { pending->answer(response); });
    });
  make_folders(added, fresh, pending, [this, data, pending](const core::RunAdded& seen) {
    pending->decided = true;
    turns_->submit({{seen.policy.run, seen, {}}},
                   [this, seen, data, pending](const std::vector<JournalRow>& rows) {
                     auto response = find_answer(rows, seen);
                     response.data.update(data);
                     asio::post(io_, [pending, response] { pending->answer(response); });
                   });
  });
}

// The run's folders, by an errand: the file system may not answer, and who may list the folder
// above can keep its lock.
void Daemon::make_folders(const core::RunAdded& added, bool fresh, std::shared_ptr<Pending> pending,
                          std::function<void(const core::RunAdded&)> made) {
  std::map<RunName, std::string> others;
  for (const auto& [name, run] : runs_)
    if (name != added.policy.run) others[name] = run.real_directory;
  errands_.post("folders of " + added.policy.directory,
                [this, added, fresh, pending, others = std::move(others), made = std::move(made),
                 state = foundation_.state_directory] {
                  const std::string& directory = added.policy.directory;
                  Status done = check_alone(directory, others);
                  if (done && !pending->over) done = make_run_directory(added.policy);
                  if (done && !pending->over) {
                    done = own_run_directory(directory, state, added.by);
                    if (done && pending->over && fresh)
                      (void)disown_run_directory(directory, state);
                  }
                  if (pending->over) return;
                  core::RunAdded seen = added;
                  seen.newest = newest_generation(directory);
                  asio::post(io_, [pending, done, seen, made] {
                    if (pending->over) return;
                    done ? made(seen) : pending->answer(refuse(done.error().message()));
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
    asio::post(io_, [this, old, inputs = std::move(inputs), reply, errors, done]() mutable {
      // Somebody may have given a run another policy while a file system did not answer.
      std::erase_if(inputs, [&](const core::Input& input) {
        const auto now = runs_.find(input.run);
        return std::none_of(old.begin(), old.end(), [&](const core::RunPolicy& policy) {
          return policy.run == input.run && now != runs_.end() && now->second.policy == policy;
        });
      });
      turns_->submit(std::move(inputs), [reply, errors, done](const std::vector<JournalRow>&) {
        reply(errors.empty() ? accept(done) : refuse(done + "; kept as they were:\n" + errors));
      });
    });
  });
}

}  // namespace stoker::daemon
