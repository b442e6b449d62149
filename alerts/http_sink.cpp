// Requests of the sinks over HTTP.
#include "alerts/http_sink.hpp"

#include "alerts/secret.hpp"
#include "alerts/url.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"

namespace stoker::alerts {

namespace {

std::string object_of(const core::SinkPolicy& policy) {
  return "alerts.sinks." + policy.name;
}

bool is_http(const Url& url) {
  return url.scheme == "http" || url.scheme == "https";
}

// The whole path, and its long parts, which a receiver may repeat alone.
void add_parts(const std::string& path, std::vector<std::string>& secrets) {
  constexpr std::size_t kLong = 8;
  if (path.size() >= kLong) secrets.push_back(path);
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find_first_of("/?&=", begin), path.size());
    if (end - begin >= kLong) secrets.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

Result<Request> HttpSink::request(const RenderedAlert& alert, WallTime now) const {
  STOKER_TRY(request, compose(alert, now));
  const auto url = parse_url(request.url);
  const bool plain = url && url->scheme == "http" && !is_insecure(policy_);
  const bool here = plain && url->loopback();
  // Who takes a port of this host while its server is away must not get what our alerts say, nor
  // confirm that they were delivered. A name of another host may lead here too.
  if (plain) request.guard = here ? os::Guard::OnlyHere : os::Guard::NoStrangerHere;
  if (plain && !here && !request.secrets.empty())
    return fail("a secret would go over plain http to " + url->host, object_of(policy_),
                "use https, or set insecure: true");
  return Request{std::move(request)};
}

Result<HttpRequest> HttpSink::request_to(const std::string& path) const {
  HttpRequest request;
  const std::string file = option("url_file");
  request.url = option("url").empty() ? default_url_ : option("url");
  if (!file.empty()) {
    STOKER_TRY(text, read_secret(file));
    request.url = text;
  }
  const auto url = parse_url(request.url);
  if (!url || !is_http(*url))
    return fail("the URL is neither http nor https", file.empty() ? object_of(policy_) : file);
  if (!file.empty()) add_parts(url->path, request.secrets);
  if (!url->user_info.empty()) request.secrets.push_back(url->user_info);
  if (!path.empty() && request.url.ends_with('/')) request.url.pop_back();
  request.url += path;
  STOKER_TRY(timeout, timeout_of(policy_, 10s));
  request.timeout = timeout;
  STOKER_TRY(authorities, authorities_of(policy_));
  request.authorities = std::move(authorities);
  return request;
}

Status HttpSink::authorize(HttpRequest& request, const std::string& option_name,
                           const std::string& scheme) const {
  const std::string file = option(option_name);
  if (file.empty()) return ok();
  STOKER_TRY(secret, read_secret(file));
  request.headers.push_back("Authorization: " + scheme + secret);
  request.secrets.push_back(secret);
  return ok();
}

HttpRequest HttpSink::with_json(HttpRequest request, const Json& body) {
  request.headers.push_back("Content-Type: application/json");
  request.body = dump_json(body);
  return request;
}

std::string HttpSink::option(const std::string& name) const {
  return option_of(policy_, name);
}

std::vector<SinkOption> http_options(UrlIs url, std::vector<SinkOption> more) {
  std::vector<SinkOption> all;
  if (url == UrlIs::Secret) {
    all = {{"url_file", "file that holds the address alone: it is a secret", true}};
  } else {
    all = {{"url", "http or https address"}};
    if (url == UrlIs::Plain)
      all.push_back({"url_file", "file that holds the address alone, when it is a secret"});
  }
  for (SinkOption& option : more) all.push_back(std::move(option));
  all.push_back({"timeout", "for the whole request; default 10s"});
  all.push_back({"ca_file", "certificates to trust instead of the system's"});
  all.push_back(
      {"insecure", "true: plain http may take a secret, and go to any user of this host"});
  return all;
}

Status check_http(const core::SinkPolicy& policy, UrlIs kind) {
  const std::string text = option_of(policy, "url");
  const bool file = policy.options.contains("url_file");
  if (kind == UrlIs::Plain && policy.options.contains("url") == file)
    return fail("needs either url or url_file", object_of(policy));
  if (!text.empty()) {
    const auto url = parse_url(text);
    if (!url || !is_http(*url))
      return fail("url \"" + one_line(text, 200) + "\" is neither http:// nor https://",
                  object_of(policy));
  }
  STOKER_TRY_STATUS(timeout_of(policy, 10s));
  return ok();
}

Result<std::string> authorities_of(const core::SinkPolicy& policy) {
  constexpr std::size_t kLargest = 4u << 20;
  const std::string file = option_of(policy, "ca_file");
  if (file.empty()) return std::string();
  STOKER_TRY_STATUS(os::check_own_target(file));
  return os::read_file(file, kLargest);
}

Result<Duration> timeout_of(const core::SinkPolicy& policy, Duration otherwise) {
  const std::string text = option_of(policy, "timeout");
  if (text.empty()) return otherwise;
  STOKER_TRY(timeout, parse_duration(text));
  if (timeout < 100ms || timeout > 5min)
    return fail("timeout must be between 100ms and 5min", object_of(policy));
  return timeout;
}

bool is_insecure(const core::SinkPolicy& policy) {
  return option_of(policy, "insecure") == "true";
}

std::string option_of(const core::SinkPolicy& policy, const std::string& name) {
  const auto found = policy.options.find(name);
  return found == policy.options.end() ? "" : found->second;
}

std::vector<std::string> list_of(const core::SinkPolicy& policy, const std::string& name) {
  const std::string text = option_of(policy, name);
  if (text.empty()) return {};
  if (!text.starts_with('[')) return {text};
  const auto list = from_json_text<std::vector<std::string>>(text, name);
  return list ? *list : std::vector<std::string>{};
}

std::string answer_field(const Answer& answer, const std::string& name) {
  const auto body = parse_json(answer.body, "answer");
  if (!body || !body->is_object()) return "";
  const auto found = body->find(name);
  if (found == body->end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

}  // namespace stoker::alerts
