// Daemon, reading RUN.yaml of all runs again. Each file is read by an errand of its own: one that
// does not answer keeps its old policy, and no other run waits for it.
#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/writers.hpp"
#include "configs/schema/yaml_tree.hpp"
#include "daemon/loop/answers.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/loop/policy_check.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;
using core::JournalRow;

constexpr Duration kPatience = 4s;  // the client waits five

// What RUN.yaml says now.
struct Reread {
  std::optional<core::Input> news;  // a new policy, or that the file was refused; empty: as before
  std::string why;                  // it is not taken
};

// `refused`: the last time it was, so that the same policy is news.
Reread read_again(const core::RunPolicy& old, const std::string& by, bool refused,
                  const std::string& state) {
  const std::string& path = old.config_path;
  const auto text = os::read_guarded_file(path, configs::kLargestYaml);
  if (!text) {
    Reread out{{}, text.error().message()};
    if (os::is_refusal(text.error()))
      out.news = core::Input{
          old.run, core::OperatorAsked{"reload", {{"refused", out.why}}, {}, by, "", ""}, {}};
    return out;
  }
  const auto read = check_policy(*text, path, state);
  const core::RunPolicy& now = read.file.policy;
  if (!read.file.errors.empty()) return {{}, error_lines(read.file.errors)};
  if (now.run != old.run || now.directory != old.directory)
    return {{}, path + ": run and directory cannot change; the old policy stays"};
  if (now == old && !refused) return {};
  return {core::Input{old.run, core::PolicyChanged{now, by}, {}}, ""};
}

}  // namespace

struct Daemon::Reloading {
  Reloading(asio::io_context& io, Reply to) : timer(io), reply(std::move(to)) {}
  asio::steady_timer timer;
  Reply reply;
  std::vector<core::RunPolicy> old;
  std::map<RunName, Reread> read;
  std::atomic<bool> over = false;
};

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
  auto all = std::make_shared<Reloading>(io_, std::move(reply));
  for (const auto& [name, run] : runs_) all->old.push_back(run.policy);
  if (all->old.empty()) return take_reloaded(all);
  for (const core::RunPolicy& policy : all->old)
    rereads_.post("reload " + policy.config_path, [this, all, policy, by,
                                                   known = refused.contains(policy.run),
                                                   state = foundation_.state_directory] {
      if (all->over) return;
      Reread read = read_again(policy, by, known, state);
      asio::post(io_, [this, all, run = policy.run, read = std::move(read)]() mutable {
        if (all->over) return;
        all->read[run] = std::move(read);
        if (all->read.size() == all->old.size()) return take_reloaded(all);
        wait_for_next(all);  // as long as one answers, the next may
      });
    });
  wait_for_next(all);
}

void Daemon::wait_for_next(const std::shared_ptr<Reloading>& all) {
  all->timer.expires_after(kPatience);
  all->timer.async_wait([this, all](const boost::system::error_code& code) {
    if (!code) take_reloaded(all);
  });
}

// What was read by now is taken; what comes later is dropped.
void Daemon::take_reloaded(const std::shared_ptr<Reloading>& all) {
  if (all->over.exchange(true)) return;
  all->timer.cancel();
  std::vector<core::Input> inputs;
  std::string errors;
  std::size_t changes = 0;
  for (const core::RunPolicy& old : all->old) {
    auto read = all->read.find(old.run);
    const std::string why =
        read != all->read.end()
            ? read->second.why
            : Error{"no answer for " + format_duration(kPatience), old.config_path,
                    "its file system may be away; reload again later"}
                  .message();
    if (!why.empty()) errors += (errors.empty() ? "" : "\n") + why;
    if (read == all->read.end() || !read->second.news) continue;
    core::Input& news = *read->second.news;
    // Somebody may have given the run another policy meanwhile.
    const auto now = runs_.find(old.run);
    if (now == runs_.end() || !(now->second.policy == old)) continue;
    const auto* changed = std::get_if<core::PolicyChanged>(&news.body);
    changes += changed != nullptr && !(changed->policy == old) ? 1 : 0;
    inputs.push_back(std::move(news));
  }
  const std::string done = fmt::format("{} of {} runs have a new policy", changes, all->old.size());
  turns_->submit(std::move(inputs), [all, errors, done](const std::vector<JournalRow>&) {
    all->reply(errors.empty() ? accept(done) : refuse(done + "; kept as they were:\n" + errors));
  });
}

}  // namespace stoker::daemon
