#include "wire/orders.hpp"

STOKER_JSON_ONCE_SOURCE(stoker::wire::Orders)
STOKER_JSON_ONCE_SOURCE(stoker::wire::Start)
