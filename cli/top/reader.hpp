// Reader: the view from what the daemon published, read again only where a file's time stamp says
// that it changed, so that a look costs little. Of the open run only what its page shows is read.
// The daemon is only asked whether it is there; nothing here changes anything.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/read/event_file.hpp"
#include "cli/read/log_follow.hpp"
#include "cli/read/published.hpp"
#include "cli/top/selection.hpp"
#include "cli/top/view.hpp"

namespace stoker::cli::top {

class Reader {
 public:
  explicit Reader(std::string state) { view_.state = std::move(state); }

  // As of now, for the page that is open. Valid until the next look.
  const View& look(const Selection& selection, WallTime now);

 private:
  struct Stamp {  // of a file; all zero = it is not there
    std::int64_t changed_ns = 0;
    std::uint64_t size = 0, inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  static Stamp stamp_of(const std::string& path);
  // True when the file is another one than at the last call.
  bool changed(const std::string& path);

  void look_at_daemon(WallTime now);
  void look_at_site();
  void look_at_runs(WallTime now);
  [[nodiscard]] Result<wire::StatusDocument> read_run(wire::SiteRun run, bool own_is_fresh) const;
  void look_at_nodes();
  void open_run(const std::string& run);
  void look_at_events();
  void look_at_log();
  void look_at_beat(WallTime now);

  View view_;
  std::map<std::string, Stamp> stamps_;
  std::vector<wire::SiteRun> runs_;
  std::map<std::string, Result<wire::StatusDocument>> documents_;  // by run
  std::string site_trouble_, nodes_trouble_;
  std::optional<WallTime> silent_since_;
  wire::SiteRun open_;  // the run of view_.detail
  std::optional<EventFile> events_;
  std::unique_ptr<LogFollow> log_;
  std::string beat_path_;
};

}  // namespace stoker::cli::top
