// stoker web: where the page is, and how to open it from another computer.
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/published.hpp"
#include "common/os/files.hpp"

namespace stoker::cli {
namespace {

constexpr const char* kLocalPort = "9470";

Result<std::string> first_line(const std::string& path) {
  STOKER_TRY(text, os::read_file(path, 4096, true));
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

// Where the page is once the tunnel stands, and what the tunnel leads to.
struct Door {
  std::string url, forward;
};

Door door_of(const std::string& address, const std::string& token) {
  if (address.find('/') != std::string::npos)  // its file mode is the lock
    return {fmt::format("http://localhost:{}/", kLocalPort), address};
  const auto port = address.substr(address.rfind(':') + 1);
  return {fmt::format("http://localhost:{}/login?token={}", port, token), address};
}

int web(Context& context, bool json) {
  const Console& console = context.console;
  const std::string file = context.state + "/http-address";
  const Reach reach = daemon_reach(context.state);
  if (reach == Reach::Away)
    return console.say("no daemon is running for " + context.state +
                       ", so there is no page; start it with: stokerd"),
           kFailed;
  if (!os::exists(file))
    return console.say("this daemon has no page; start it without --listen none: stokerd"), kFailed;
  const auto address = first_line(file);
  if (!address) return console.say(address.error().message()), kFailed;
  const bool on_socket = address->find('/') != std::string::npos;
  const auto token =
      on_socket ? Result<std::string>("") : first_line(context.state + "/http-token");
  if (!token) return console.say(token.error().message()), kFailed;
  const Door door = door_of(*address, *token);
  const std::string port = on_socket ? kLocalPort : address->substr(address->rfind(':') + 1);
  const std::string tunnel = fmt::format("ssh -N -L {}:{} {}", port, door.forward, os::host_name());
  if (json)
    return console.line(dump_json({{"listens", *address}, {"tunnel", tunnel}, {"url", door.url}})),
           kDone;
  console.line("On your own computer:");
  console.line("  " + tunnel);
  console.line("then open:");
  console.line("  " + door.url);
  if (on_socket)
    console.line(
        fmt::format("On this host: curl --unix-socket {} http://localhost/healthz", *address));
  else
    console.say("the address holds the token of the page: do not pass it on");
  return kDone;
}

}  // namespace

Command cmd_web() {
  return {"web",
          "where the page is, and the ssh line that leads to it",
          {"stoker web"},
          [](CLI::App& app, Context& context) -> Action {
            const auto json = std::make_shared<bool>(false);
            app.add_flag("--json", *json, "one JSON document");
            return [&context, json] { return web(context, *json); };
          }};
}

}  // namespace stoker::cli
