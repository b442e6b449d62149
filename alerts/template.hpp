// Templates of sinks: text with named fields in braces, "{title}". Braces around anything that is
// no name (a JSON object) stand for themselves.
#pragma once

#include <map>
#include <string>

#include "common/result.hpp"

namespace stoker::alerts {

// Names the first unknown field and the known ones. `known`: the keys count.
Status check_template(const std::string& text, const std::map<std::string, std::string>& known);
// `json`: values are escaped for a place between the quotes of a JSON string.
std::string fill_template(const std::string& text, const std::map<std::string, std::string>& fields,
                          bool json);

}  // namespace stoker::alerts
