#include "core/action.hpp"

STOKER_JSON_ONCE_SOURCE(stoker::core::Intent)
