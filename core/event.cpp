#include "core/event.hpp"

STOKER_JSON_ONCE_SOURCE(stoker::core::Event)
