// What all sinks over HTTP share: where to send to, time-outs, certificates, secrets in headers.
#pragma once

#include <string>
#include <vector>

#include "alerts/sink.hpp"
#include "common/json.hpp"

namespace stoker::alerts {

class HttpSink : public Sink {
 public:
  // What compose() makes. Refuses to send a secret over plain http, unless to a server of ours, of
  // root or of the system on this host, or with `insecure: true`.
  [[nodiscard]] Result<Request> request(const RenderedAlert& alert, WallTime now) const final;

 protected:
  // `default_url`: "" = the options must name one.
  explicit HttpSink(core::SinkPolicy policy, std::string default_url = {})
      : policy_(std::move(policy)), default_url_(std::move(default_url)) {}

  // With each secret that it holds in `secrets`.
  [[nodiscard]] virtual Result<HttpRequest> compose(const RenderedAlert& alert,
                                                    WallTime now) const = 0;
  // A request to the URL of the options, with `path` appended to it.
  [[nodiscard]] Result<HttpRequest> request_to(const std::string& path = {}) const;
  // The same with a JSON body.
  static HttpRequest with_json(HttpRequest request, const Json& body);
  // Adds "Authorization: <scheme><secret of the option's file>", where the option is given.
  Status authorize(HttpRequest& request, const std::string& option,
                   const std::string& scheme) const;
  [[nodiscard]] std::string option(const std::string& name) const;
  [[nodiscard]] const std::string& name() const { return policy_.name; }

 private:
  core::SinkPolicy policy_;
  std::string default_url_;
};

enum class UrlIs { Plain, Secret, Known };  // Known: of the service, an option changes it
std::vector<SinkOption> http_options(UrlIs url, std::vector<SinkOption> more = {});
Status check_http(const core::SinkPolicy& policy, UrlIs url);
template <UrlIs Is>
Status check_url_option(const core::SinkPolicy& policy) {
  return check_http(policy, Is);
}
template <class Kind>
Result<std::unique_ptr<Sink>> make_http_sink(const core::SinkPolicy& policy) {
  return std::unique_ptr<Sink>(std::make_unique<Kind>(policy));
}

// Options of any kind.
Result<Duration> timeout_of(const core::SinkPolicy& policy, Duration otherwise);
bool is_insecure(const core::SinkPolicy& policy);
// The text of `ca_file`, which only its owner may have written; "" where none is named.
Result<std::string> authorities_of(const core::SinkPolicy& policy);
std::string option_of(const core::SinkPolicy& policy, const std::string& name);
// A list (a JSON array), or one text as a list of one.
std::vector<std::string> list_of(const core::SinkPolicy& policy, const std::string& name);

// A field of a JSON answer as text; "" = not there, or no JSON.
std::string answer_field(const Answer& answer, const std::string& name);

}  // namespace stoker::alerts
