// Sink `email`: one mail to all addresses through an SMTP relay. TLS is verified: `tls: starttls`
// (default) sends nothing without it, `tls: tls` is TLS from the start (smtps), `tls: none` is for
// a relay on this host. A 4xx reply is tried again, a 5xx reply is a refusal; an address that is
// refused does not keep the mail from the others.
#include <algorithm>

#include "alerts/http_sink.hpp"
#include "alerts/mime.hpp"
#include "alerts/secret.hpp"
#include "alerts/url.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"

namespace stoker::alerts {

namespace {

struct Reply {
  long code = 0;
  std::string text;
};

// Of replies that have several lines ("250-SIZE") the last one.
std::vector<Reply> replies_of(const std::string& text) {
  std::vector<Reply> replies;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const bool number = line.size() >= 3 && std::all_of(line.begin(), line.begin() + 3, [](char c) {
                          return c >= '0' && c <= '9';
                        });
    if (!number || (line.size() > 3 && line[3] == '-')) continue;
    const auto last = line.find_last_not_of("\r ");
    replies.push_back({std::stol(line.substr(0, 3)), one_line(line.substr(0, last + 1), 200)});
  }
  return replies;
}

// What the user, the password or the relay's settings may change.
bool may_change(long code) {
  return code == 530 || code == 534 || code == 535 || code == 538;
}

class EmailSink : public Sink {
 public:
  explicit EmailSink(core::SinkPolicy policy)
      : policy_(std::move(policy)), to_(list_of(policy_, "to")) {}

  Result<Request> request(const RenderedAlert& alert, WallTime) const override {
    MailRequest mail;
    mail.url = option_of(policy_, "server");
    while (mail.url.ends_with('/')) mail.url.pop_back();
    mail.url += "/" + url_encoded(os::host_name());
    const std::string tls = option_of(policy_, "tls");
    mail.starttls = mail.url.starts_with("smtp://") && tls != "none";
    mail.from = option_of(policy_, "from");
    mail.to = to_;
    mail.user = option_of(policy_, "user");
    if (tls == "none" && !is_insecure(policy_))
      mail.guard = mail.user.empty() ? os::Guard::NoStrangerHere : os::Guard::OnlyHere;
    if (!mail.user.empty()) {
      STOKER_TRY(password, read_secret(option_of(policy_, "password_file")));
      mail.password = password;
      mail.secrets = {password};
    }
    mail.message = mail_of(alert, mail.from, mail.to);
    STOKER_TRY(timeout, timeout_of(policy_, 30s));
    mail.timeout = timeout;
    STOKER_TRY(authorities, authorities_of(policy_));
    mail.authorities = std::move(authorities);
    return Request{std::move(mail)};
  }

  Delivery judge(const Answer& answer) const override {
    const auto replies = replies_of(answer.body);
    if (answer.error.empty()) return Delivered{refused_addresses(replies)};
    const Reply* bad = nullptr;
    for (const Reply& reply : replies)
      if (reply.code >= 400) bad = &reply;
    const bool tls = answer.error.find("SSL") != std::string::npos;
    if (bad == nullptr || tls) return Retry{answer.error};
    if (bad->code < 500 || may_change(bad->code)) return Retry{bad->text};
    return Refused{bad->text};
  }

 private:
  // The replies to RCPT stand before the 354 of DATA, one for each address.
  std::string refused_addresses(const std::vector<Reply>& replies) const {
    const auto data = std::find_if(replies.begin(), replies.end(),
                                   [](const Reply& reply) { return reply.code == 354; });
    const auto before = static_cast<std::size_t>(data - replies.begin());
    if (data == replies.end() || before < to_.size()) return "";
    std::string text;
    for (std::size_t i = 0; i < to_.size(); ++i)
      if (const Reply& reply = replies[before - to_.size() + i]; reply.code >= 400)
        text += (text.empty() ? "" : "; ") + to_[i] + ": " + reply.text;
    return text.empty() ? "" : "the relay refused " + text;
  }

  core::SinkPolicy policy_;
  std::vector<std::string> to_;
};

Status check_addresses(const core::SinkPolicy& policy, const std::string& object) {
  const std::string from = option_of(policy, "from");
  if (!is_mail_address(from))
    return fail("from \"" + one_line(from, 100) + "\" is no mail address", object);
  const auto to = list_of(policy, "to");
  if (to.empty()) return fail("to names no address", object);
  if (to.size() > 100) return fail("to names more than 100 addresses", object);
  for (const std::string& address : to)
    if (!is_mail_address(address))
      return fail("to \"" + one_line(address, 100) + "\" is no mail address", object);
  return ok();
}

Status check(const core::SinkPolicy& policy) {
  const std::string object = "alerts.sinks." + policy.name;
  const std::string tls = policy.options.contains("tls") ? option_of(policy, "tls") : "starttls";
  const auto url = parse_url(option_of(policy, "server"));
  if (!url || (url->scheme != "smtp" && url->scheme != "smtps"))
    return fail("server must be smtp://host:587 or smtps://host:465", object);
  if (!url->user_info.empty() || (url->path != "/" && !url->path.empty()))
    return fail("server must be host and port only; user and password_file are options", object);
  if (tls != "starttls" && tls != "tls" && tls != "none")
    return fail("tls must be starttls, tls or none, not \"" + one_line(tls, 40) + "\"", object);
  if ((tls == "tls") != (url->scheme == "smtps") &&
      (tls == "tls" || policy.options.contains("tls")))
    return fail("tls: tls goes with smtps://, starttls and none with smtp://", object);
  if (tls == "none" && !url->loopback() && !is_insecure(policy))
    return fail("tls: none is only for a relay on this host; insecure: true allows it", object);
  if (policy.options.contains("user") != policy.options.contains("password_file"))
    return fail("user and password_file go together", object);
  STOKER_TRY_STATUS(check_addresses(policy, object));
  STOKER_TRY_STATUS(timeout_of(policy, 30s));
  return ok();
}

Result<std::unique_ptr<Sink>> make(const core::SinkPolicy& policy) {
  return std::unique_ptr<Sink>(std::make_unique<EmailSink>(policy));
}

}  // namespace

SinkKind email_kind() {
  return {
      "email",
      {{"server", "smtp://host:587 or smtps://host:465", true},
       {"from", "address of the sender", true},
       {"to", "address or list of addresses", true},
       {"tls", "starttls (default), tls or none"},
       {"user", "for the relay"},
       {"password_file", "file that holds the password alone"},
       {"ca_file", "certificates to trust instead of the system's"},
       {"timeout", "for the whole delivery; default 30s"},
       {"insecure", "true: tls: none to another host, or to any user that listens on this one"}},
      check,
      make};
}

}  // namespace stoker::alerts
