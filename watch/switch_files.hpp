// Switch files: switch/{save,stop,kill,pause,resume,restart,ack}, any case, put there by any member
// of the run's group (or the daemon's own user where no group is set). A good one
// (switch_folder.hpp) becomes OperatorAsked with the owner's login name as author. Reported once;
// ConsumeSwitch renames it away. The folder is sticky: only its author and stokerd rename a file
// there. At most ten orders of one member are taken in a minute, the next ones later, and ten
// refusals of all are reported: a user who makes and changes files must not fill the journal. In a
// day they are 1000 each; `kill` and `stop` are taken then too, one of each a minute.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "common/time.hpp"
#include "core/engine/engine.hpp"
#include "watch/daily_budget.hpp"
#include "watch/switch_folder.hpp"

namespace stoker::watch {

struct SwitchOptions {
  RunName run;
  std::string directory;  // the run's switch folder
  std::string group;      // unix group, "" = only our own user
};

// OperatorAsked::arguments of a switch: "file" (its name as found: what ConsumeSwitch needs), and
// where the body has them "claimed_by", "until".
class SwitchFiles {
 public:
  // `cursors`: switches that were reported before the daemon restarted are not reported again.
  SwitchFiles(SwitchOptions options, const std::vector<core::Cursor>& cursors);

  // A file is reported when it did not change between two polls, or is a while old: it may be in
  // the making.
  void poll(WallTime wall, std::vector<core::Input>& out);
  [[nodiscard]] bool unsettled() const { return !unsettled_.empty(); }

 private:
  struct Seen {
    std::uint64_t inode = 0;
    std::int64_t changed = 0;  // modification time, nanoseconds
    std::uint64_t size = 0;
    auto operator<=>(const Seen&) const = default;
  };
  void look_at(int folder, const std::string& name, WallTime wall, std::vector<core::Input>& out);
  void tell(int folder, const std::string& name, const Seen& seen, WallTime wall,
            std::vector<core::Input>& out);
  void refuse(const std::string& name, const Seen& seen, const std::string& why, WallTime wall,
              std::vector<core::Input>& out);
  [[nodiscard]] core::Cursor cursor_of(const std::string& name, const Seen& seen) const;
  [[nodiscard]] SwitchRights rights() const;
  bool has_budget(uid_t author, WallTime wall);
  // Takes one of the day. Otherwise why the order is refused; "" = later.
  std::optional<std::string> why_not_today(const SwitchFile& file, const std::string& verb,
                                           WallTime wall);

  SwitchOptions options_;
  std::map<std::string, core::Cursor> before_;  // reported by the previous process, by path
  std::map<std::string, Seen> unsettled_;       // by name: seen once
  std::map<std::string, Seen> reported_;        // wait to be consumed
  std::map<std::string, Seen> refused_;
  struct Budget {
    WallTime since{};
    std::size_t used = 0;
  };
  std::map<uid_t, Budget> budgets_;  // of orders
  DailyBudget day_, refusals_;
  std::map<std::pair<uid_t, std::string>, WallTime> urgent_;  // taken beyond the day's
  WallTime window_{};                                         // since when `said_` counts
  std::size_t said_ = 0;
};

// Whether `user` may act on a run of `group`. Errors: no such group.
Result<bool> may_act(uid_t user, const std::string& group);

}  // namespace stoker::watch
