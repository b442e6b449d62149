#include "wire/checkpoint_manifest.hpp"

STOKER_JSON_ONCE_SOURCE(stoker::wire::Manifest)
