// Daemon, the page: where it listens, and the one document that is read from a run's file system.
#include <charconv>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include "common/os/files.hpp"
#include "daemon/http/log_tail.hpp"
#include "daemon/http/run_api.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/loop/log.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;
constexpr std::string_view kRuns = "/api/v1/runs/", kLogs = "/logs";
constexpr std::size_t kUsualLines = 100, kMostLines = 1000;
constexpr Duration kListenAgain = 10s;
constexpr Duration kStuck = 3s;  // a mount that is busy for longer is not asked

Result<std::size_t> lines_of(const WebRequest& request) {
  STOKER_TRY_STATUS(only_known(request, {"lines"}));
  const auto given = request.query.find("lines");
  if (given == request.query.end()) return kUsualLines;
  std::size_t lines = 0;
  const std::string& text = given->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), lines);
  if (error != std::errc() || end != text.data() + text.size() || lines == 0 || lines > kMostLines)
    return fail(fmt::format("is not a number from 1 to {}", kMostLines), "lines=" + text);
  return lines;
}

Page log_page(const std::string& run, const Result<LogTail>& tail) {
  if (!tail) return refuse(404, tail.error());
  return {200, "application/json",
          dump_json({{"run", run}, {"log", tail->path}, {"lines", tail->lines}}) + "\n"};
}

}  // namespace

// Without --listen the page is on a socket in the state directory, for its owner alone; where that
// cannot be, it is missing, and nothing else is lost. With --listen, neither is it where another
// user has the port or the path: every user may take a port that is free.
Status Daemon::open_web_door() {
  const std::string& state = foundation_.state_directory;
  ::unlink((state + "/http-address").c_str());  // for `stoker web`, of the daemon before this one
  if (options_.listen == "none" || (options_.once && options_.listen.empty())) return ok();
  const bool by_itself = options_.listen.empty();
  std::string token;
  if (!by_itself) {
    STOKER_TRY(made, http_token(state + "/http-token"));
    token = made;
  }
  HttpLimits limits;
  limits.insecure = options_.insecure;
  if (by_itself) limits.socket_mode = 0600;
  if (!options_.tls.certificate.empty()) {
    STOKER_TRY(tls, Tls::open(options_.tls,
                              [](const std::string& text) { log(LogLevel::Warning, text); }));
    limits.tls = tls;
  }
  http_ = std::make_unique<HttpServer>(
      io_,
      [this](const WebRequest& request, HttpServer::Reply reply) {
        on_web_request(request, reply);
      },
      limits);
  const auto listening = listen_for_web(token);
  if (listening) return ok();
  if (by_itself) {  // a frozen daemon before this one may have it still
    log(LogLevel::Notice, "there is no page: " + listening.error().message());
    listen_again_ = {monotonic_now() + kListenAgain, token};
    return ok();
  }
  if (!http_->is_anothers() || options_.once) return listening;
  log(LogLevel::Error,
      fmt::format("there is no page: {}; runs are supervised without it, and it is tried again "
                  "every {}",
                  listening.error().message(), format_duration(kListenAgain)));
  listen_again_ = {monotonic_now() + kListenAgain, token};
  return ok();
}

Status Daemon::listen_for_web(const std::string& token) {
  const std::string& state = foundation_.state_directory;
  const bool by_itself = options_.listen.empty();
  STOKER_TRY_STATUS(http_->listen(by_itself ? state + "/web.sock" : options_.listen, token));
  const std::string where = (options_.tls.certificate.empty() ? "" : "https://") + http_->address();
  const auto noted =
      os::replace_file(state + "/http-address", where + "\n", os::Durability::Cached, 0600);
  if (!noted) log(LogLevel::Warning, noted.error().message());
  if (!by_itself)
    log(LogLevel::Notice,
        fmt::format("the page is on {}, its token in {}/http-token", where, state));
  return ok();
}

// Who took the port or the path while the daemon was away gives it back some day.
void Daemon::try_web_again() {
  if (!listen_again_ || monotonic_now() < listen_again_->at) return;
  listen_again_->at = monotonic_now() + kListenAgain;
  if (listen_for_web(listen_again_->token)) listen_again_.reset();
}

void Daemon::on_web_request(const WebRequest& request, const HttpServer::Reply& reply) {
  const std::string_view path = request.path;
  if (path.starts_with(kRuns) && path.ends_with(kLogs) && path.size() > kRuns.size() + kLogs.size())
    return show_log(
        std::string(path.substr(kRuns.size(), path.size() - kRuns.size() - kLogs.size())), request,
        reply);
  reply(render_page(*view_, request));
}

void Daemon::show_log(const std::string& name, const WebRequest& request,
                      const HttpServer::Reply& reply) {
  const auto lines = lines_of(request);
  if (!lines) return reply(refuse(400, lines.error()));
  const auto run = runs_.find(RunName(name));
  if (run == runs_.end() || run->second.mount == nullptr)
    return reply(refuse(404, Error{"there is no run of this name", name, ""}));
  if (run->second.mount->busy_for() > kStuck)
    return reply(refuse(503, Error{"the file system does not answer", run->second.policy.directory,
                                   "ask again later"}));
  const RunPart logs{run->first, watch::Part::Logs};
  if (run->second.mount->is_passed_over(logs))
    return reply(refuse(503, Error{"a log of watch.logs does not answer", "", "ask again later"}));
  run->second.mount->post(
      [this, name, directory = run->second.policy.directory,
       patterns = run->second.policy.watch.logs, most = *lines, reply] {
        const auto tail = read_log_tail(directory, patterns, most);
        asio::post(io_, [reply, page = log_page(name, tail)] { reply(page); });
      },
      logs);
}

}  // namespace stoker::daemon
