// The tree is built from yaml-cpp's events, not from its Node: only the events show duplicate keys
// and let us count before memory is spent. After a limit is hit the remaining events are ignored.
#include "configs/schema/yaml_tree.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <sstream>

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace stoker::configs {
namespace {

Position position_of(const YAML::Mark& mark) {
  return mark.is_null() ? Position{} : Position{mark.line + 1, mark.column + 1};
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t' && c != '\r') || byte == 0x7f;
}

// The offset of the first byte that is no part of UTF-8 (RFC 3629); text.size() when all is.
std::size_t first_bad_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = byte(i);
    const std::size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size > 1 && (first < 0xc2 || first > 0xf4)) return i;
    for (std::size_t k = 1; k < size; ++k)
      if ((byte(i + k) & 0xc0) != 0x80) return i;
    const unsigned second = byte(i + 1);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
      return i;
    i += size;
  }
  return text.size();
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
  [[nodiscard]] bool stopped() const { return stopped_; }
  // Where the last scalar in quotes begins.
  [[nodiscard]] Position last_quoted() const { return last_quoted_; }

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
    if (node.quoted) last_quoted_ = node.at;
    check_tag(tag, node.at);
    if (!stopped_ && std::any_of(value.begin(), value.end(), is_control))
      error(node.at, "a control character in a value");
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
  Position last_quoted_;
  bool stopped_ = false;
};

// The place of byte `offset`; columns count bytes, as yaml-cpp's do.
Position place_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n');
  const auto begin = before.rfind('\n');
  const std::size_t column = begin == std::string_view::npos ? offset : offset - begin - 1;
  return {static_cast<int>(line) + 1, static_cast<int>(column) + 1};
}

std::string_view line_of(std::string_view text, int line) {
  for (int skip = 1; skip < line && !text.empty(); ++skip)
    text.remove_prefix(std::min(text.size(), std::min(text.find('\n'), text.size()) + 1));
  return text.substr(0, text.find('\n'));
}

// What makes these bytes no text at all; nothing when they are one.
std::optional<Diagnostic> why_no_text(std::string_view text, const std::string& file) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return Diagnostic{file, {1, 1}, "UTF-16 text: save the file as UTF-8"};
  if (const auto nul = text.find('\0'); nul != std::string_view::npos)
    return Diagnostic{file, place_of(text, nul), "a NUL byte: this is no YAML text"};
  if (const std::size_t bad = first_bad_utf8(text); bad < text.size())
    return Diagnostic{file, place_of(text, bad), "not UTF-8 text: save the file as UTF-8"};
  return std::nullopt;
}

// yaml-cpp takes the end of the file for the end of a quoted value.
bool is_closed(std::string_view text, Position quoted) {
  const std::string_view line = line_of(text, quoted.line);
  const auto column = static_cast<std::size_t>(quoted.column - 1);
  if (column >= line.size() || (line[column] != '"' && line[column] != '\'')) return true;
  const char quote = line[column];
  std::string_view rest = text.substr(static_cast<std::size_t>(line.data() - text.data()) + column);
  for (std::size_t i = 1; i < rest.size(); ++i) {
    if (quote == '"' && rest[i] == '\\')
      ++i;
    else if (rest[i] == quote)
      return true;
  }
  return false;
}

// The library's message, with what it does not say.
std::string explain(const YAML::Exception& e, std::string_view text) {
  if (dynamic_cast<const YAML::DeepRecursion*>(&e) != nullptr) return "nested too deep";
  const std::string_view line = line_of(text, position_of(e.mark).line);
  const std::string_view indent = line.substr(0, line.find_first_not_of(" \t"));
  if (indent.find('\t') != std::string_view::npos)
    return e.msg + "; the line is indented with a tab, YAML wants spaces";
  return e.msg;
}

}  // namespace

YamlNode parse_yaml(std::string_view text, const std::string& file, Diagnostics& errors,
                    YamlLimits limits) {
  if (text.size() > limits.bytes) {
    errors.push_back({file, {}, fmt::format("larger than {} bytes", limits.bytes)});
    return {};
  }
  if (auto why = why_no_text(text, file)) {
    errors.push_back(*std::move(why));
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
    if (const Position quoted = builder.last_quoted();
        quoted.line > 0 && !builder.stopped() && !is_closed(text, quoted)) {
      errors.push_back({file, quoted, "the quote that begins here is never closed"});
      return {};
    }
    TreeBuilder rest(file, errors, limits);
    if (parser.HandleNextDocument(rest))
      errors.push_back({file, rest.take_root().at, "a second document: one file holds one"});
    return root;
  } catch (const YAML::Exception& e) {
    if (!builder.stopped()) errors.push_back({file, position_of(e.mark), explain(e, text)});
  } catch (const std::exception& e) {
    errors.push_back({file, {}, fmt::format("cannot be read as YAML: {}", e.what())});
  }
  return {};
}

}  // namespace stoker::configs
