// What is damage is decided in SqliteJournal::open(); how it is undone in recover_journal().
#include "daemon/journal/restore.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include "common/os/files.hpp"
#include "common/os/there.hpp"
#include "daemon/journal/recovery.hpp"
#include "wire/site.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kMostNamed = 5;

// Is there no byte of it?
Result<bool> is_absent(const std::string& path) {
  STOKER_TRY(there, os::is_there(path));
  struct stat info {};
  if (!there) return true;
  if (::stat(path.c_str(), &info) != 0)
    return fail(errno_error(errno, "cannot look at the journal", path));
  return info.st_size == 0;
}

Result<std::unique_ptr<SqliteJournal>> open_intact(const JournalOptions& options,
                                                   const std::vector<std::string>& backups) {
  STOKER_TRY(absent, is_absent(options.path));
  if (absent && !backups.empty())
    return damaged("it is empty or missing, but has backups", options.path);
  STOKER_TRY(journal, SqliteJournal::open(options));
  if (journal->last_sequence() == Sequence{} && !backups.empty())
    return damaged("it has no rows, but has backups", options.path);
  return std::move(journal);
}

}  // namespace

Result<OpenedJournal> open_or_restore(const JournalOptions& options,
                                      const std::vector<std::string>& backups, WallTime now) {
  OpenedJournal opened;
  auto journal = open_intact(options, backups);
  if (!journal && is_damaged(journal.error())) {
    opened.announcements.push_back(journal.error().message());
    STOKER_TRY(report, recover_journal(options.path, backups, now));
    opened.announcements.push_back("the journal is restored: " + report.message());
    journal = SqliteJournal::open(options);
  }
  if (!journal) return fail(journal.error());
  opened.journal = std::move(*journal);
  return opened;
}

Status check_not_forgotten(const SqliteJournal& journal, const std::string& published) {
  if (journal.last_sequence() != Sequence{}) return ok();
  const std::string path = published + "/site.json";
  STOKER_TRY(there, os::is_there(path));
  if (!there) return ok();
  STOKER_TRY(text, os::read_file(path, 8u << 20));
  const auto site = from_json_text<wire::SiteDocument>(text, path);
  if (!site || site->runs.empty()) return ok();
  std::string names;
  for (std::size_t i = 0; i < site->runs.size() && i < kMostNamed; ++i)
    names += (i > 0 ? ", " : "") + site->runs[i].run;
  if (site->runs.size() > kMostNamed)
    names += fmt::format(" and {} more", site->runs.size() - kMostNamed);
  return fail(
      fmt::format("the journal is empty and no backup holds it, but runs were under supervision: "
                  "{}; their jobs were not touched",
                  names),
      journal.path(),
      fmt::format("put a copy of the journal back, or move {} away, start stokerd and give it each "
                  "RUN.yaml again with `stoker run`",
                  published));
}

}  // namespace stoker::daemon
