// What never leaves the journal, the orders and the process itself: values of train.environment,
// and options of alert sinks that are secrets (a webhook's address is one: who knows it can post;
// the arguments of `exec` may hold another). In everything that people or other users read stands
// kHidden in their place.
#pragma once

#include <string_view>

#include "common/json.hpp"

namespace stoker::core {

inline constexpr std::string_view kHidden = "(hidden)";

// `document` with these values hidden, however deep they lie: those of each object "environment",
// and of each object "options" those whose name speaks of a secret. Options that name a file
// (url_file) stay.
Json without_secrets(Json document);

// Whether a field or a variable of this name holds a secret, as names go: DB_PASSWORD, HF_TOKEN,
// aws_secret_access_key, WANDB_KEY. Not a name that ends in "_file".
bool names_secret(std::string_view name);

}  // namespace stoker::core
