// Both files are made by link(2): of any number of daemons one is first.
#include "daemon/state/run_owner.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <random>
#include <unistd.h>

#include "common/os/files.hpp"

namespace stoker::daemon {
namespace {

Result<std::string> identity_of(const std::string& state_directory) {
  const std::string path = state_directory + "/identity";
  if (!os::exists(path)) {
    std::random_device random;
    const std::string fresh =
        fmt::format("{:08x}{:08x}{:08x}{:08x}\n", random(), random(), random(), random());
    STOKER_TRY(made, os::claim_file(path, fresh, 0600));
    (void)made;  // or another process was first: its identity counts
  }
  STOKER_TRY(text, os::read_file(path, 256, true));
  const std::string identity = text.substr(0, text.find('\n'));
  if (identity.size() != 32)
    return fail("is no identity of a state directory", path,
                "remove it, and owner.json of its runs");
  return identity;
}

// Its state directory was on this host and is no more, or is another one now.
bool is_gone(const RunOwner& owner) {
  if (owner.host != os::host_name()) return false;
  const std::string path = owner.state + "/identity";
  if (!os::exists(path)) return true;
  const auto text = os::read_file(path, 256, true);
  return text && text->substr(0, text->find('\n')) != owner.identity;
}

}  // namespace

Status own_run_directory(const std::string& run_directory, const std::string& state_directory,
                         const std::string& by) {
  STOKER_TRY(identity, identity_of(state_directory));
  const std::string path = run_directory + "/" + kOwnerName;
  const RunOwner ours{1, identity, state_directory, os::host_name(), by, wall_now()};
  STOKER_TRY(made, os::claim_file(path, to_json_text(ours) + "\n"));
  if (made) return ok();
  STOKER_TRY(text, os::read_file(path, 1u << 16, true));
  STOKER_TRY(owner, from_json_text<RunOwner>(text, path));
  if (owner.identity == identity) return ok();
  if (is_gone(owner))
    return os::replace_file(path, to_json_text(ours) + "\n", os::Durability::Synced);
  return fail(
      fmt::format("this run is looked after by another daemon: state {} on {}, for {} since "
                  "{}",
                  owner.state, owner.host, owner.by, format_rfc3339(owner.at)),
      run_directory,
      fmt::format("use --state {}, or take another directory; if that daemon is gone for "
                  "good, remove {}",
                  owner.state, path));
}

Status disown_run_directory(const std::string& run_directory, const std::string& state_directory) {
  STOKER_TRY(identity, identity_of(state_directory));
  const std::string path = run_directory + "/" + kOwnerName;
  if (!os::exists(path)) return ok();
  STOKER_TRY(text, os::read_file(path, 1u << 16, true));
  STOKER_TRY(owner, from_json_text<RunOwner>(text, path));
  if (owner.identity != identity) return ok();
  if (::unlink(path.c_str()) != 0) return fail(errno_error(errno, "cannot remove", path));
  return ok();
}

}  // namespace stoker::daemon
