#include "core/policy.hpp"

STOKER_JSON_ONCE_SOURCE(stoker::core::RunPolicy)
