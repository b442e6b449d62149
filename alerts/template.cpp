// One walk over the text for both.
#include "alerts/template.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <functional>

#include "alerts/url.hpp"
#include "common/escape_html.hpp"
#include "common/json.hpp"

namespace stoker::alerts {

namespace {

// Calls `text` with what stands between fields and `field` with each name.
void walk(const std::string& whole, const std::function<void(std::string_view)>& text,
          const std::function<void(const std::string&)>& field) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t open = std::min(whole.find('{', at), whole.size());
    text(std::string_view(whole).substr(at, open - at));
    if (open == whole.size()) return;
    const std::size_t end = whole.find_first_not_of(kLetters, open + 1);
    if (end != std::string::npos && end > open + 1 && whole[end] == '}') {
      field(whole.substr(open + 1, end - open - 1));
      at = end + 1;
    } else {
      text("{");
      at = open + 1;
    }
  }
}

std::string json_escaped(const std::string& value) {
  const std::string quoted = dump_json(Json(value));
  return quoted.substr(1, quoted.size() - 2);
}

std::string written(const std::string& value, FieldForm form) {
  switch (form) {
    case FieldForm::Json: return json_escaped(value);
    case FieldForm::Form: return url_encoded(value);
    case FieldForm::Markup: return escape_html(value);
    case FieldForm::Text: break;
  }
  return value;
}

}  // namespace

std::optional<FieldForm> field_form(const std::string& content_type) {
  std::string type = content_type.substr(0, content_type.find(';'));
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  while (type.ends_with(' ')) type.pop_back();
  const auto is = [&type](std::string_view end) {  // "application/json", "application/x+json"
    return type.ends_with(fmt::format("/{}", end)) || type.ends_with(fmt::format("+{}", end));
  };
  if (is("json")) return FieldForm::Json;
  if (is("x-www-form-urlencoded")) return FieldForm::Form;
  if (is("xml") || is("html")) return FieldForm::Markup;
  if (type.starts_with("text/")) return FieldForm::Text;
  return std::nullopt;
}

Status check_template(const std::string& text, const std::map<std::string, std::string>& known) {
  std::string unknown, names;
  walk(
      text, [](std::string_view) {},
      [&](const std::string& name) {
        if (!known.contains(name) && unknown.empty()) unknown = name;
      });
  if (unknown.empty()) return ok();
  for (const auto& [name, value] : known) names += (names.empty() ? "" : ", ") + name;
  return fail("the template names an unknown field {" + unknown + "}; known: " + names);
}

std::string fill_template(const std::string& text, const std::map<std::string, std::string>& fields,
                          FieldForm form) {
  std::string out;
  walk(
      text, [&out](std::string_view piece) { out += piece; },
      [&](const std::string& name) {
        const auto found = fields.find(name);
        if (found != fields.end()) out += written(found->second, form);
      });
  return out;
}

}  // namespace stoker::alerts
