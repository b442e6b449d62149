// stoker web: where the page is, and how to open it from another computer.
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/published.hpp"
#include "common/os/files.hpp"

namespace stoker::cli {
namespace {

constexpr const char* kLocalPort = "9470";

Result<std::string> first_line(const std::string& path) {
  STOKER_TRY(text, os::read_file(path, 4096, true));
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

constexpr std::string_view kTls = "https://";

// How the page is opened from another computer.
struct Door {
  std::string listens, url;
  std::string tunnel;  // "": none is needed
  bool on_socket = false;
};

// `address`: as stokerd notes it, a path, HOST:PORT, or https://HOST:PORT.
Door door_of(const std::string& address, const std::string& token) {
  const auto tunnel = [](std::string_view port, std::string_view to) {
    return fmt::format("ssh -N -L {}:{} {}", port, to, os::host_name());
  };
  const bool tls = address.starts_with(kTls);
  if (!tls && address.find('/') != std::string::npos)  // its file mode is the lock
    return {address, fmt::format("http://localhost:{}/", kLocalPort), tunnel(kLocalPort, address),
            true};
  const std::string_view place = std::string_view(address).substr(tls ? kTls.size() : 0);
  const auto colon = place.rfind(':');
  const auto host = place.substr(0, colon), port = place.substr(colon + 1);
  const auto url = [&](std::string_view name) {
    return fmt::format("{}://{}:{}/login?token={}", tls ? "https" : "http", name, port, token);
  };
  if (!tls || host.starts_with("127.") || host == "[::1]")
    return {address, url("localhost"), tunnel(port, place)};
  const bool any = host == "0.0.0.0" || host == "[::]";
  return {address, url(any ? os::host_name() : std::string(host)), ""};
}

void show(const Console& console, const Door& door) {
  if (!door.tunnel.empty()) {
    console.line("On your own computer:");
    console.line("  " + printable(door.tunnel));
  }
  if (door.tunnel.empty())
    console.line("Open:");
  else
    console.line("then open:");
  console.line("  " + printable(door.url));
  if (door.on_socket)
    console.line(
        fmt::format("On this host: curl --unix-socket {} http://localhost/healthz", door.listens));
  else
    console.say("the address holds the token of the page: do not pass it on");
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
    return console.say(
               "this daemon has no page: it was started with --listen none, or cannot listen (its "
               "log says why)"),
           kFailed;
  const auto address = first_line(file);
  if (!address) return console.say(address.error().message()), kFailed;
  const bool on_socket = !address->starts_with(kTls) && address->find('/') != std::string::npos;
  const auto token =
      on_socket ? Result<std::string>("") : first_line(context.state + "/http-token");
  if (!token) return console.say(token.error().message()), kFailed;
  const Door door = door_of(*address, *token);
  if (json)
    console.line(
        dump_json({{"listens", door.listens}, {"tunnel", door.tunnel}, {"url", door.url}}));
  else
    show(console, door);
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
