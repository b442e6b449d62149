// Daemon, taking a run under supervision: its RUN.yaml is checked, its folders are made. What reads
// files is an errand.
#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "daemon/loop/answers.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/loop/policy_check.hpp"
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
                  auto checked = check_policy(text, file, foundation_.state_directory);
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

}  // namespace stoker::daemon
