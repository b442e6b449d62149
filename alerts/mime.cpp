// Headers and bodies of a mail.
#include "alerts/mime.hpp"

#include <array>
#include <ctime>
#include <fmt/format.h>

#include "common/escape_html.hpp"
#include "common/hash.hpp"

namespace stoker::alerts {

namespace {

constexpr const char* kEnd = "\r\n";

bool plain(const std::string& text) {
  for (const char c : text)
    if (c < 0x20 || c > 0x7e) return false;
  return text.find("=?") == std::string::npos;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::array<unsigned, 3> b{};
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < n; ++k) b[k] = static_cast<unsigned char>(bytes[i + k]);
    const unsigned word = b[0] << 16 | b[1] << 8 | b[2];
    for (std::size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string date_of(WallTime at) {
  constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                               "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count();
  std::tm t{};
  ::gmtime_r(&seconds, &t);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} +0000", kDays.at(t.tm_wday % 7), t.tm_mday,
                     kMonths.at(t.tm_mon % 12), t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

std::string row(const std::string& name, const std::string& html) {
  return fmt::format("<tr><td valign=\"top\" style=\"color:#666\">{}</td><td>{}</td></tr>\n", name,
                     html);
}

// A curve needs characters of one width, a command is pasted, an address is opened.
std::string cell(const std::string& name, const std::string& value) {
  const std::string text = escape_html(value);
  if (name == "Loss") return "<code style=\"font-size:120%\">" + text + "</code>";
  if (name == "Page") return fmt::format("<a href=\"{}\">{}</a>", text, text);
  if (name != "Next") return text;
  std::string html;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    html += (html.empty() ? "<code>" : "<br><code>") + text.substr(begin, end - begin) + "</code>";
    begin = end + 1;
  }
  return html;
}

std::string html_of(const RenderedAlert& alert) {
  const bool red = alert.severity == core::Severity::Critical && status_of(alert) == "firing";
  const char* colour = alert.resolved ? "#2e7d32" : red ? "#c62828" : "#b26a00";
  std::string html = fmt::format(
      "<html><body><p style=\"font-size:120%;color:{}\"><b>{}</b></p>\n<p><b>{}</b></p>\n", colour,
      escape_html(title_of(alert)), escape_html(verdict_of(alert)));
  html += "<table cellpadding=\"3\">\n";
  if (!alert.instead_of.empty())
    html += row("Sent here", escape_html("because another sink failed: " + alert.instead_of));
  if (!alert.reason.empty()) html += row("What stoker saw and did", escape_html(alert.reason));
  for (const auto& [name, value] : details_of(alert)) html += row(name, cell(name, value));
  html += row("Since", format_rfc3339(alert.since)) + row("Incident", escape_html(alert.id));
  html += "</table>\n";
  if (!alert.report.empty())
    html += "<pre style=\"white-space:pre-wrap\">" + escape_html(alert.report) + "</pre>\n";
  return html + "</body></html>\n";
}

}  // namespace

bool is_mail_address(const std::string& text) {
  const auto at = text.find('@');
  if (at == std::string::npos || at == 0 || at + 1 == text.size() || text.size() > 254)
    return false;
  if (text.find('@', at + 1) != std::string::npos) return false;
  for (const char c : text)
    if (c <= 0x20 || c >= 0x7f || std::string_view("<>()[],;:\\\"").find(c) != std::string::npos)
      return false;
  return true;
}

std::string encoded_header(const std::string& text) {
  if (plain(text)) return text;
  constexpr std::size_t kPiece = 42;  // 56 digits of base64: below the 75 characters of a word
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(begin + kPiece, text.size());
    while (end < text.size() && end > begin + 1 &&
           (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
      --end;
    out += (out.empty() ? "" : "\r\n ") + std::string("=?UTF-8?B?") +
           base64(std::string_view(text).substr(begin, end - begin)) + "?=";
    begin = end;
  }
  return out;
}

std::string quoted_printable(const std::string& text) {
  constexpr std::size_t kWidth = 73;
  std::string out, line;
  const auto flush = [&](const char* end) {
    out += line + end;
    line.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\n') {
      flush(kEnd);
      continue;
    }
    const bool last = i + 1 == text.size() || text[i + 1] == '\n';
    const bool blank_at_end = c == ' ' && last;
    const bool code =
        c < 0x20 || c > 0x7e || c == '=' || blank_at_end || (c == '.' && line.empty());
    if (line.size() + (code ? 3 : 1) > kWidth) flush("=\r\n");
    const bool dot = c == '.' && line.empty();
    line += code || dot ? fmt::format("={:02X}", c) : std::string(1, static_cast<char>(c));
  }
  if (!line.empty()) flush(kEnd);
  return out;
}

std::string mail_of(const RenderedAlert& alert, const std::string& from,
                    const std::vector<std::string>& to) {
  const std::string domain = from.substr(from.find('@') + 1);
  const std::string incident =
      "stoker." + hex64(xxh3_64(alert.thread.empty() ? alert.id : alert.thread));
  const std::string root = "<" + incident + "@" + domain + ">";
  const std::string own =
      "<" + incident + "." + hex64(xxh3_64(alert.key.text)) + "@" + domain + ">";
  const std::string boundary = "=_stoker_" + hex64(xxh3_64(alert.key.text + alert.id));
  std::string mail;
  const auto header = [&mail](const std::string& name, const std::string& value) {
    mail += name + ": " + value + kEnd;
  };
  std::string recipients;
  for (const std::string& address : to)
    recipients += (recipients.empty() ? "" : ",\r\n ") + address;
  header("Date", date_of(alert.at));
  header("From", "stoker <" + from + ">");
  header("To", recipients);
  header("Subject", encoded_header(title_of(alert)));
  header("Message-ID", alert.update ? own : root);
  if (alert.update) {
    header("In-Reply-To", root);
    header("References", root);
  }
  header("Auto-Submitted", "auto-generated");
  header("List-Id",
         "stoker alerts <" + (alert.run.empty() ? "site" : alert.run) + ".stoker." + domain + ">");
  if (alert.severity == core::Severity::Critical && status_of(alert) == "firing")
    header("Importance", "high");
  header("X-Stoker-Incident", encoded_header(one_line(alert.id, 200)));
  header("X-Stoker-Status", status_of(alert));
  header("MIME-Version", "1.0");
  header("Content-Type", "multipart/alternative; boundary=\"" + boundary + "\"");
  const auto part = [&](const char* type, const std::string& body) {
    mail += "\r\n--" + boundary + "\r\nContent-Type: " + type +
            "; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
            quoted_printable(body);
  };
  part("text/plain", text_of(alert));
  part("text/html", html_of(alert));
  return mail + "\r\n--" + boundary + "--\r\n";
}

}  // namespace stoker::alerts
