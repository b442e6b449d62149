#include "core/decision.hpp"

STOKER_JSON_ONCE_SOURCE(stoker::core::Decision)
