// Templates of sinks: text with named fields in braces, "{title}". Braces around anything that is
// no name (a JSON object) stand for themselves.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/result.hpp"

namespace stoker::alerts {

// Names the first unknown field and the known ones. `known`: the keys count.
Status check_template(const std::string& text, const std::map<std::string, std::string>& known);

// How a value is written so that it stays one value: between the quotes of a JSON string, in a form
// (percent-encoded), in XML or HTML (also in a quoted attribute), or as it is.
enum class FieldForm { Json, Form, Markup, Text };
// By the media type that the body is sent as; text/plain and its like are Text. Empty: the values
// of a type that is not known could say anything in it.
std::optional<FieldForm> field_form(const std::string& content_type);

std::string fill_template(const std::string& text, const std::map<std::string, std::string>& fields,
                          FieldForm form);

}  // namespace stoker::alerts
