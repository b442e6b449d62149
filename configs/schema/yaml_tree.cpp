// The tree is built from yaml-cpp's events, not from its Node: only the events show duplicate keys
// and let us count before memory is spent. After a limit is hit the remaining events are ignored.
#include "configs/schema/yaml_tree.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace stoker::configs {
namespace {

Position position_of(const YAML::Mark& mark) {
  return mark.is_null() ? Position{} : Position{mark.line + 1, mark.column + 1};
}

std::size_t count_nodes(const YamlNode& node) {
  std::size_t n = 1;
  for (const YamlNode& child : node.items) n += count_nodes(child);
  return n;
}

std::size_t depth_of(const YamlNode& node) {
  std::size_t deepest = 0;
  for (const YamlNode& child : node.items) deepest = std::max(deepest, depth_of(child));
  return deepest + 1;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string file, Diagnostics& errors, YamlLimits limits)
      : file_(std::move(file)), errors_(errors), limits_(limits) {}

  YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node;
    node.at = position_of(mark);
    place(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (stopped_) return;
    const Position at = position_of(mark);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) return error(at, "an alias inside the value that it names");
    if (++aliases_ > limits_.aliases)
      return stop(at, fmt::format("more than {} aliases", limits_.aliases));
    if (depth_of(found->second) + open_.size() > limits_.depth)
      return stop(at, fmt::format("nested deeper than {} levels", limits_.depth));
    nodes_ += count_nodes(found->second) - 1;
    YamlNode copy = found->second;
    copy.at = at;
    place(std::move(copy), 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node;
    node.shape = Shape::Scalar;
    node.at = position_of(mark);
    node.text = value;
    node.quoted = tag == "!";
    check_tag(tag, node.at);
    place(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Shape::Sequence);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Shape::Map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    std::optional<YamlKey> key;  // of a map: read, its value is next
    bool drop = false;           // its value is read and thrown away: the key was refused
  };

  void error(Position at, std::string message) {
    errors_.push_back({file_, at, std::move(message)});
  }
  void stop(Position at, std::string message) {
    if (!stopped_) error(at, std::move(message));
    stopped_ = true;
  }
  void check_tag(const std::string& tag, Position at) {
    if (!stopped_ && !tag.empty() && tag != "?" && tag != "!")
      error(at, fmt::format("tags are not used here: \"{}\"", tag));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Shape shape) {
    if (stopped_) return;
    Frame frame;
    frame.node.shape = shape;
    frame.node.at = position_of(mark);
    frame.anchor = anchor;
    check_tag(tag, frame.node.at);
    if (open_.size() + 1 >= limits_.depth)
      return stop(frame.node.at, fmt::format("nested deeper than {} levels", limits_.depth));
    open_.push_back(std::move(frame));
  }

  void close() {
    if (stopped_ || open_.empty()) return;
    Frame frame = std::move(open_.back());
    open_.pop_back();
    place(std::move(frame.node), frame.anchor);
  }

  // Puts a finished node where it belongs: a key, a value, an item or the root.
  void place(YamlNode node, YAML::anchor_t anchor) {
    if (stopped_) return;
    if (++nodes_ > limits_.nodes)
      return stop(node.at, fmt::format("more than {} values", limits_.nodes));
    if (anchor != 0) anchors_[anchor] = node;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = open_.back();
    if (frame.node.shape == Shape::Sequence) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.key) {
      take_key(frame, node);
    } else {
      if (!frame.drop) {
        frame.node.keys.push_back(*frame.key);
        frame.node.items.push_back(std::move(node));
      }
      frame.key.reset();
    }
  }

  void take_key(Frame& frame, const YamlNode& node) {
    frame.key = YamlKey{node.text, node.at};
    frame.drop = true;
    if (node.shape != Shape::Scalar) return error(node.at, "a key must be plain text");
    if (node.text == "<<" && !node.quoted)
      return error(node.at, "merge keys (<<) are not supported: write the keys out");
    for (const YamlKey& other : frame.node.keys)
      if (other.text == node.text)
        return error(node.at, fmt::format("duplicate key \"{}\": it is already in line {}",
                                          node.text, other.at.line));
    frame.drop = false;
  }

  std::string file_;
  Diagnostics& errors_;
  YamlLimits limits_;
  YamlNode root_;
  std::vector<Frame> open_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  std::size_t nodes_ = 0;
  std::size_t aliases_ = 0;
  bool stopped_ = false;
};

}  // namespace

YamlNode parse_yaml(std::string_view text, const std::string& file, Diagnostics& errors,
                    YamlLimits limits) {
  if (text.size() > limits.bytes) {
    errors.push_back({file, {}, fmt::format("larger than {} bytes", limits.bytes)});
    return {};
  }
  const auto nul = text.find('\0');
  if (nul != std::string_view::npos) {
    const auto line =
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(nul), '\n');
    errors.push_back({file, {static_cast<int>(line) + 1, 1}, "a NUL byte: this is no YAML text"});
    return {};
  }
  TreeBuilder builder(file, errors, limits);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      errors.push_back({file, {1, 1}, "the file is empty"});
      return {};
    }
    YamlNode root = builder.take_root();
    TreeBuilder rest(file, errors, limits);
    if (parser.HandleNextDocument(rest))
      errors.push_back({file, rest.take_root().at, "a second document: one file holds one"});
    return root;
  } catch (const YAML::Exception& e) {
    errors.push_back({file, position_of(e.mark), e.msg});
  } catch (const std::exception& e) {
    errors.push_back({file, {}, fmt::format("cannot be read as YAML: {}", e.what())});
  }
  return {};
}

}  // namespace stoker::configs
