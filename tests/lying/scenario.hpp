// One short life of a daemon's hands on real files: possession, journal, backup, order, control,
// publishing. Prints a line for each thing that it was promised was done, and "error: …" for each
// that failed; what failed is tried once more, as the daemon does.
#pragma once

#include <functional>
#include <string>

#include "common/os/files.hpp"
#include "daemon/loop/foundation.hpp"
#include "daemon/publish/run_publisher.hpp"
#include "daemon/state/run_owner.hpp"

namespace stoker::daemon::test {

inline constexpr int kRowsALife = 4;
inline constexpr WallTime kLyingNow(1'800'000'000s);

inline core::JournalRow lying_row(std::uint64_t seq, std::uint32_t epoch) {
  core::JournalRow row;
  row.seq = Sequence(seq);
  row.event.run = RunName("hello");
  row.event.body =
      core::SchedulerBlind{"row " + std::to_string(seq) + " of epoch " + std::to_string(epoch)};
  return row;
}

// True: the life went to its end.
inline bool live_on_lying_disk(const std::string& folder,
                               const std::function<void(const std::string&)>& say) {
  const auto tried = [&say](const std::string& what, const std::function<Status()>& act) {
    for (int times = 0; times < 2; ++times) {
      const Status done = act();
      if (done) return say(what), true;
      say("error: " + done.error().message());
    }
    return false;
  };
  auto opened = lay_foundation(folder + "/state", false);
  if (!opened) return say("error: " + opened.error().message()), false;
  Foundation foundation = std::move(*opened);
  const std::uint32_t epoch = foundation.possession->epoch().value;
  say("epoch " + std::to_string(epoch));
  for (int n = 0; n < kRowsALife; ++n) {
    const std::uint64_t seq = foundation.journal->last_sequence().value + 1;
    const auto append = [&]() -> Status {
      if (foundation.journal->last_sequence().value >= seq) return ok();
      return foundation.journal->append({lying_row(seq, epoch)}, {Sequence(seq), 1, "test", "{}"},
                                        {{folder + "/run/lead.jsonl", 1, 2, seq, seq, ""}});
    };
    if (!tried("row " + std::to_string(seq) + " of epoch " + std::to_string(epoch), append))
      return false;
  }
  const std::string run = folder + "/run", order = std::to_string(epoch);
  tried("renewed", [&] { return foundation.possession->renew(); });
  tried("backup", [&] { return back_up(foundation, kLyingNow + epoch * 24h); });
  tried("own", [&] { return own_run_directory(run, foundation.state_directory, "alice"); });
  tried("order " + order, [&]() -> Status {
    const std::string path = run + "/order." + order;
    STOKER_TRY(made, os::claim_file(path, "order of epoch " + order));
    if (made) return ok();
    STOKER_TRY(text, os::read_file(path));
    return text == "order of epoch " + order ? ok() : Status(fail("another's order", path));
  });
  tried("control " + order, [&] {
    return os::replace_file(run + "/control.json", "control of epoch " + order,
                            os::Durability::Synced);
  });
  RunPublisher publisher(run, RunName("hello"));
  tried("events", [&]() -> Status {
    STOKER_TRY(rows, foundation.journal->intact_rows_of({RunName("hello")}, Sequence(0), 1000));
    STOKER_TRY_STATUS(publisher.open());
    return publisher.append(rows);
  });
  tried("status", [&] { return publisher.write_status({}); });
  return true;
}

}  // namespace stoker::daemon::test
