// Sink `matrix`: a message into a room. The transaction id is the alert's key: a repeated delivery
// is the same message. Limit: 65 KB an event.
#include "alerts/http_sink.hpp"
#include "alerts/url.hpp"
#include "common/hash.hpp"

namespace stoker::alerts {

namespace {

class MatrixSink : public HttpSink {
 public:
  explicit MatrixSink(core::SinkPolicy policy) : HttpSink(std::move(policy)) {}

  Result<HttpRequest> compose(const RenderedAlert& alert, WallTime) const override {
    STOKER_TRY(request, request_to("/_matrix/client/v3/rooms/" + url_encoded(option("room")) +
                                   "/send/m.room.message/stoker-" +
                                   hex64(xxh3_64(alert.key.text + name()))));
    request.method = "PUT";
    STOKER_TRY_STATUS(authorize(request, "token_file", "Bearer "));
    return with_json(std::move(request), {{"msgtype", "m.text"},
                                          {"body", cut(text_of(alert), 30000)},
                                          {"m.mentions", Json::object()}});
  }

 protected:
  Delivery accept(const Answer& answer) const override {
    if (!answer_field(answer, "event_id").empty()) return Delivered{};
    return Retry{"answer " + std::to_string(answer.status) +
                 " without an event_id: " + one_line(answer.body, 100)};
  }
};

Status check(const core::SinkPolicy& policy) {
  if (!option_of(policy, "room").starts_with('!'))
    return fail("room must be the id of a room: \"!abc:example.org\"",
                "alerts.sinks." + policy.name);
  return check_http(policy, UrlIs::Plain);
}

}  // namespace

SinkKind matrix_kind() {
  return {"matrix",
          http_options(UrlIs::Plain, {{"room", "id of the room: !abc:example.org", true},
                                      {"token_file", "file that holds the access token", true}}),
          check, make_http_sink<MatrixSink>};
}

}  // namespace stoker::alerts
