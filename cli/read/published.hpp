// What the daemon published: the site's list of runs, each run's status.json, the nodes. Reading
// commands answer from these files alone, also while the daemon is away, and then say that they are
// stale. The files are hostile: limited, parsed strictly, shown as plain text.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/read/daemon_client.hpp"
#include "common/json.hpp"
#include "common/os/files.hpp"
#include "wire/site.hpp"
#include "wire/status.hpp"

namespace stoker::cli {

// What the daemon of `state` published of the site, and its runs; nothing when it never ran.
Result<wire::SiteDocument> published_site(const std::string& state);
Result<std::vector<wire::SiteRun>> published_runs(const std::string& state);

// RUN of the command line: a name that was published, else a run directory. An Error names the
// nearest run.
Result<wire::SiteRun> find_run(const std::string& state, const std::string& name);

// status.json of a run, the fresher of its two copies; `stale` is set when `reach` says that no
// daemon keeps it fresh.
Result<wire::StatusDocument> read_status(const wire::SiteRun& run, Reach reach);

// Whether a document that was read with this `reach` may have been overtaken.
bool is_stale(const wire::StatusDocument& status, Reach reach, WallTime now);

// A document of published/, limited to 8 MiB: empty, where the daemon published none.
template <class Document>
Result<Document> published_document(const std::string& state, const std::string& name) {
  const std::string path = state + "/published/" + name;
  if (!os::exists(path)) return Document{};
  STOKER_TRY(text, os::read_file(path, 8u << 20));
  return from_json_text<Document>(text, path);
}

Result<std::vector<wire::PublishedNode>> published_nodes(const std::string& state);

// Reading commands start with this: whether the daemon is there; if not, one sentence on standard
// error.
Reach note_daemon(const Context& context);

// The one run of a state directory that has just one, for commands whose RUN may be left out.
Result<wire::SiteRun> only_run(const std::string& state);

}  // namespace stoker::cli
