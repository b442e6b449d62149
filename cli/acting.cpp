// Socket first, file second; the answer of either is one line on standard output.
#include "cli/acting.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <iostream>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/read/published.hpp"
#include "cli/show/documents.hpp"
#include "common/os/child_work.hpp"
#include "common/os/fd.hpp"
#include "common/os/own_files.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/random.hpp"
#include "wire/control.hpp"

namespace stoker::cli {
namespace {

int tell(const Context& context, const Deed& deed, const wire::Response& response,
         const std::string& via) {
  if (deed.json) {
    context.console.line(to_json_text(
        ActingDocument{response.ok, response.message, response.data, via, deed.request.dry_run}));
  } else if (response.ok) {
    context.console.line(printable(response.message));
  } else {
    context.console.say(printable(response.message));
  }
  return response.ok ? kDone : kFailed;
}

constexpr Duration kFolderPatience = 10s;

struct Written {
  std::string path;                // of the file
  std::string what, object, hint;  // of an error
  STOKER_FIELDS(Written, path, what, object, hint)
};

// Members of the group write into switch/, and one can lock it: who looks then sleeps in the
// kernel.
Result<std::string> write_in_time(const std::string& run_directory, const std::string& verb,
                                  const std::string& reason) {
  const auto text = os::work_in_child(kFolderPatience, [&] {
    const auto written = write_switch_file(run_directory, verb, reason);
    if (written) return to_json_text(Written{*written, "", "", ""});
    return to_json_text(
        Written{"", written.error().what, written.error().object, written.error().hint});
  });
  const std::string folder = run_directory + "/switch";
  if (!text)
    return fail("cannot write a switch file: " + text.error().what, folder,
                "a member of the run's group may have locked the folder, or its file system is "
                "away; scancel ends the job");
  STOKER_TRY(written, from_json_text<Written>(*text, folder));
  if (written.path.empty()) return fail(written.what, written.object, written.hint);
  return written.path;
}

int by_switch_file(const Context& context, const Deed& deed, const wire::SiteRun& run,
                   const std::string& why) {
  const std::string path = run.directory + "/switch/" + deed.switch_file;
  if (deed.request.dry_run)
    return tell(context, deed, {1, true, "would write " + path + " (" + why + ")", {}},
                "switch file");
  const auto written = write_in_time(run.directory, deed.switch_file, deed.request.reason);
  if (!written)
    return tell(context, deed, {1, false, written.error().message(), {}}, "switch file");
  context.console.say(why + "; the switch file asks in its place");
  return tell(
      context, deed,
      {1, true, "wrote " + *written + ": the daemon that supervises the run acts on it", {}},
      "switch file");
}

int unreachable(const Context& context, const Deed& deed, const Answer& answer) {
  std::string text = "cannot " + deed.request.verb + ": " + answer.why;
  if (answer.reach == Reach::Silent)
    text += "; whether it was done is not known, stoker why shows it";
  else if (answer.reach == Reach::Away)
    text += "; start it with: " + start_command(context);
  else
    text += "; ask the owner of the daemon";
  return tell(context, deed, {1, false, text, {}}, "none");
}

// "kill", "Kill", "kIll", …: each is the same order.
std::string spelling(std::string verb, unsigned number) {
  for (std::size_t i = 0; i < verb.size(); ++i)
    if ((number >> i & 1u) != 0) verb[i] = static_cast<char>(verb[i] - 'a' + 'A');
  return verb;
}

// As the kernel judges it in a sticky folder.
bool may_move(const struct stat& folder, const struct stat& entry) {
  const uid_t self = ::geteuid();
  return self == 0 || folder.st_uid == self || entry.st_uid == self ||
         (folder.st_mode & S_ISVTX) == 0;
}

// The run's switch/, open: what is made goes there, also when its path is led elsewhere meanwhile.
// Refused: a link, and a folder whose owner is not the run directory's.
Result<os::Fd> open_switches(const std::string& run_directory) {
  const std::string path = run_directory + "/switch";
  struct stat run {
  }, info{};
  if (::stat(run_directory.c_str(), &run) != 0)
    return fail(errno_error(errno, "cannot look at", run_directory));
  os::Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return fail(os::open_error(errno, path));
  if (::fstat(folder.get(), &info) != 0) return fail(errno_error(errno, "cannot look at", path));
  if (info.st_uid != run.st_uid)
    return fail(fmt::format("refused: it belongs to {}, the run directory to {}",
                            os::user_name_of(info.st_uid), os::user_name_of(run.st_uid)),
                path);
  return folder;
}

// What another member made under the name must not keep the order out: a directory goes aside where
// the owner asks, for others there is another spelling.
std::string free_name(int folder, const std::string& verb) {
  constexpr unsigned kTries = 16;
  struct stat around {};
  if (::fstat(folder, &around) != 0) return verb;
  for (unsigned i = 0; i < kTries; ++i) {
    std::string name = spelling(verb, i);
    struct stat there {};
    if (::fstatat(folder, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return name;
    if (!may_move(around, there)) continue;
    const std::string aside = ".in-the-way-" + os::random_hex(8);
    if (!S_ISDIR(there.st_mode) || ::renameat(folder, name.c_str(), folder, aside.c_str()) == 0)
      return name;
  }
  return verb;
}

// A run directory names its run itself, and another user may have made it: the run of our daemon
// that has this name may be another one.
enum class Whose { OurDaemon, NoRunOfIt, AnotherRun };

Whose whose(const std::string& state, const wire::SiteRun& run) {
  const auto runs = published_runs(state);
  if (!runs) return Whose::AnotherRun;
  for (const wire::SiteRun& known : *runs)
    if (known.run == run.run) return known == run ? Whose::OurDaemon : Whose::AnotherRun;
  return Whose::NoRunOfIt;
}

int not_ours(const Context& context, const Deed& deed, const wire::SiteRun& run) {
  return tell(context, deed,
              {1,
               false,
               fmt::format("cannot {}: {} is not under the daemon of {}; name the state directory "
                           "of its daemon with --state, or ask its owner",
                           deed.request.verb, run.directory, context.state),
               {}},
              "none");
}

}  // namespace

std::string user_name() {
  struct passwd entry {};
  struct passwd* found = nullptr;
  std::string buffer(1u << 14, '\0');
  ::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr ? found->pw_name : "uid " + std::to_string(::getuid());
}

std::string start_command(const Context& context) {
  return "stokerd --state " + context.state + " &";
}

Result<std::string> parse_moment(const std::string& text, WallTime now) {
  if (const auto in = parse_duration(text)) return format_rfc3339(now + *in);
  if (const auto at = parse_rfc3339(text)) return format_rfc3339(*at);
  return fail("expected a time like 2026-05-01T03:56:11Z, or a duration from now like 2h", text);
}

Result<std::string> write_switch_file(const std::string& run_directory, const std::string& verb,
                                      const std::string& reason) {
  STOKER_TRY(folder, open_switches(run_directory));
  const std::string name = free_name(folder.get(), verb);
  const std::string path = run_directory + "/switch/" + name;
  const wire::SwitchBody body{user_name(), reason, ""};
  // The umask must not lock the group out: any member may look, and stokerd must read a member's.
  // No other may write into it or give it a second name: either would void or change the order.
  const auto written = os::publish_file(fmt::format("/proc/self/fd/{}/{}", folder.get(), name),
                                        to_json_text(body) + "\n", os::Durability::Synced, 0640);
  if (!written) return fail(written.error().what, path, written.error().hint);
  return path;
}

void add_acting_options(CLI::App& app, Deed& deed, bool destructive) {
  app.add_option("RUN", deed.request.run, "name of a run or a run directory")->required();
  auto* reason = app.add_option(
      "--reason", deed.request.reason,
      destructive ? "why; stands in the journal, alerts and the chronicle. Asked for: without it "
                    "\"no reason given\" stands there"
                  : "why; stands in the journal, alerts and the chronicle");
  reason->type_name("TEXT");
  deed.wants_reason = destructive;
  app.add_flag("--dry-run", deed.request.dry_run, "show what would be done, do nothing");
  app.add_flag("--json", deed.json, "one JSON document");
}

int act(const Context& context, Deed deed) {
  if (deed.wants_reason && deed.request.reason.empty() && !deed.request.dry_run) {
    context.console.say("no --reason was given: the journal will say \"no reason given\"");
    deed.request.reason = "no reason given";
  }
  wire::SiteRun run;
  Whose place = Whose::OurDaemon;
  if (!deed.request.run.empty()) {
    auto found = find_run(context.state, deed.request.run);
    if (!found) return tell(context, deed, {1, false, found.error().message(), {}}, "none");
    run = *std::move(found);
    deed.request.run = run.run;
    place = whose(context.state, run);
  }
  if (place != Whose::OurDaemon && !deed.switch_file.empty())
    return by_switch_file(context, deed, run,
                          run.directory + " is not under the daemon of " + context.state);
  if (place == Whose::AnotherRun) return not_ours(context, deed, run);
  const Answer answer = ask_daemon(context.state, deed.request);
  if (answer.reach == Reach::Answered) {
    const bool agreed = answer.response.ok && !deed.request.dry_run;
    return tell(context, deed,
                agreed && deed.follow ? deed.follow(answer.response) : answer.response, "socket");
  }
  const bool file = !deed.switch_file.empty() && !run.directory.empty();
  // Without an answer it may have been done. Asking twice is harmless, but for a restart.
  const bool again = answer.reach != Reach::Silent || deed.switch_file != "restart";
  if (file && again) return by_switch_file(context, deed, run, answer.why);
  return unreachable(context, deed, answer);
}

int act_when_sure(const Context& context, Deed deed, bool yes) {
  if (yes || deed.request.dry_run) return act(context, std::move(deed));
  const Console& console = context.console;
  const auto found = find_run(context.state, deed.request.run);
  if (!found) return tell(context, deed, {1, false, found.error().message(), {}}, "none");
  if (whose(context.state, *found) == Whose::AnotherRun) return not_ours(context, deed, *found);
  Deed look = deed;
  look.request.run = found->run;
  look.request.dry_run = true;
  const Answer answer = ask_daemon(context.state, look.request);
  if (answer.reach != Reach::Answered) return unreachable(context, deed, answer);
  if (!answer.response.ok) return tell(context, deed, answer.response, "socket");
  const std::string would = answer.response.message;
  if (!would.starts_with("would: ")) return tell(context, deed, answer.response, "socket");
  if (::isatty(STDIN_FILENO) != 1)
    return tell(context, deed, {1, false, would + "; nothing was done: --yes does it", {}}, "none");
  console.say(printable(would));
  console.raw_error("go on? [y/N] ");
  std::string said;
  std::getline(std::cin, said);
  if (said == "y" || said == "Y" || said == "yes") return act(context, std::move(deed));
  return tell(context, deed, {1, false, "nothing was done", {}}, "none");
}

}  // namespace stoker::cli
