#include "wire/status.hpp"

STOKER_JSON_ONCE_SOURCE(stoker::wire::StatusDocument)
