// Daemon, letting go: a run that was forgotten, or that has another name, leaves what is watched
// and published. The journal has it before (core/operators/forget.hpp).
#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include "core/operators/forget.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/loop/log.hpp"
#include "daemon/state/run_owner.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;

// When a run of this name was forgotten last.
Result<std::optional<WallTime>> forgotten_at(SqliteJournal& journal, const RunName& name) {
  constexpr std::size_t kPage = 500;
  std::optional<WallTime> at;
  for (Sequence after;;) {
    STOKER_TRY(rows, journal.asked_rows_after(after, kPage));
    for (const core::JournalRow& row : rows)
      if (const auto change = core::name_change_of(row);
          change && change->from == name && change->to.empty())
        at = row.event.wall;
    if (rows.size() < kPage) return at;
    after = rows.back().seq;
  }
}

}  // namespace

bool Daemon::drop_missing(const RunBriefs& runs) {
  bool any = false;
  for (auto it = runs_.begin(); it != runs_.end();) {
    if (runs.contains(it->first)) {
      ++it;
      continue;
    }
    const bool renamed = std::any_of(runs.begin(), runs.end(), [&](const auto& run) {
      return run.second->policy.directory == it->second.policy.directory;
    });
    drop(it->first, it->second, !renamed);
    it = runs_.erase(it);
    any = true;
  }
  if (any) share_socket();
  return any;
}

// Its published copy goes. Its own directory stays; the last status.json in it says what happened,
// and another daemon may own it.
void Daemon::drop(const RunName& name, WatchedRun& run, bool forgotten) {
  run.mount->forget(name, [] {});
  const auto remove = [copy = site_.publisher->directory() + "/runs/" + name.text] {
    ::unlink((copy + "/status.json").c_str());
    ::rmdir(copy.c_str());
  };
  site_.mount->post(remove, {{}, watch::Part::Published});
  if (!forgotten) return;
  std::optional<wire::StatusDocument> last;
  for (const wire::StatusDocument& status : view_->runs)
    if (status.run == name.text) last = status;
  if (last) {
    last->conditions.emplace_back("forgotten");
    last->published = format_rfc3339(wall_now(), true);
    last->alerts.clear();
  }
  const auto leave = [publisher = run.publisher, last, state = foundation_.state_directory] {
    if (last) (void)publisher->write_status(*last);
    if (const auto left = disown_run_directory(publisher->directory(), state); !left)
      log(LogLevel::Warning, left.error().message());
  };
  run.mount->post(leave, {name, watch::Part::Published});
}

// Asked again, it is done already; a name that no run ever had is an error.
void Daemon::tell_forgotten(const std::string& run, Reply reply) {
  turns_->inspect([this, run, reply](core::Engine&, SqliteJournal& journal) {
    const auto at = forgotten_at(journal, RunName(run));
    wire::Response response;
    response.ok = at && *at;
    response.message =
        !at   ? at.error().message()
        : *at ? fmt::format("{} was forgotten at {} already", run, format_rfc3339(**at))
              : fmt::format("there is no run \"{}\"; stoker status lists them", run);
    asio::post(io_, [reply, response] { reply(response); });
  });
}

}  // namespace stoker::daemon
