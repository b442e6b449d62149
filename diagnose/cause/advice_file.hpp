// Reads an `advice: {action, node_action, text}` map of a signature or class file.
#pragma once

#include "configs/schema/yaml_reader.hpp"
#include "diagnose/cause/failure_class.hpp"

namespace stoker::diagnose {

inline void read_advice(configs::MapReader& map, Advice& advice) {
  map.require("action", advice.action);
  map.read("node_action", advice.node_action);
  map.require("text", advice.text);
}

}  // namespace stoker::diagnose
