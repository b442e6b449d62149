// A YAML text as a plain tree with positions: the one place that touches yaml-cpp and its
// exceptions. The text is hostile: bytes, depth, nodes (counted after aliases are expanded) and
// aliases are limited. Refused, each with its position: duplicate keys, merge keys (<<), keys that
// are no plain text, tags, several documents, an alias inside its own anchor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "configs/schema/diagnostic.hpp"

namespace stoker::configs {

enum class Shape { Absent, Null, Scalar, Sequence, Map };

struct YamlKey {
  std::string text;
  Position at;
};

struct YamlNode {
  Shape shape = Shape::Null;
  Position at;
  std::string text;             // of a scalar
  bool quoted = false;          // a scalar in quotes is text, never a number
  std::vector<YamlKey> keys;    // of a map: keys[i] names items[i]; no two are equal
  std::vector<YamlNode> items;  // of a sequence or map, in the order of the file
};

// Of a RUN.yaml or TRAIN.yaml; the parser may take 200 times as much.
inline constexpr std::size_t kLargestYaml = 256u << 10;

struct YamlLimits {
  std::size_t bytes = kLargestYaml;
  std::size_t nodes = 20000;
  std::size_t depth = 32;
  std::size_t aliases = 64;
};

// Parses one document. What is wrong is appended to `errors`; the tree then holds what could be
// understood, and its root is Null when there was nothing.
YamlNode parse_yaml(std::string_view text, const std::string& file, Diagnostics& errors,
                    YamlLimits limits = {});

}  // namespace stoker::configs
