#include "slurm/script_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace stoker::slurm {
namespace {

// Limits against a script that doubles a variable line by line, or hands itself to itself.
constexpr std::size_t kLongestValue = 64u << 10, kMostSpent = 64u << 20, kMostNested = 1000;
constexpr std::size_t kMostNestedBytes = 4u << 20;
constexpr int kDeepestShell = 8, kDeepestValue = 64;
constexpr char kBreak = '\1';  // between the words of an array and of a value without quotes

bool is_name(char c, bool first) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (!first && c >= '0' && c <= '9');
}
std::size_t name_length(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_name(text[end], end == 0)) ++end;
  return end;
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}
template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
bool is_shell(std::string_view program) {
  return is_one_of(program.substr(program.rfind('/') + 1),
                   std::array<std::string_view, 5>{"bash", "sh", "zsh", "dash", "ksh"});
}
const std::string kNothingKnown(1, kUnknown);

std::string spread(std::string value) {
  std::replace_if(value.begin(), value.end(), is_blank, kBreak);
  return value;
}
std::string joined(std::string value) {
  std::replace(value.begin(), value.end(), kBreak, ' ');
  return value;
}

}  // namespace

// ---- values

std::optional<std::string> ScriptReader::value_of(const std::string& name) const {
  if (name == "SLURM_SUBMIT_DIR") return start_;
  if (name == "PWD") return folder_.empty() ? kNothingKnown : folder_;
  if (name.starts_with("SLURM_") || name == "HOSTNAME") return "*";  // another one in each job
  const auto found = variables_.find(name);
  if (found == variables_.end()) return std::nullopt;
  return found->second;
}

std::string ScriptReader::parameter(std::string_view inside, bool splits) {
  const std::size_t length = name_length(inside);
  std::string name(inside.substr(0, length));
  std::string_view rest = inside.substr(length);
  std::optional<std::string> value;
  if (!name.empty()) {
    value = value_of(name);
  } else if (!rest.empty() && rest[0] >= '1' && rest[0] <= '9') {
    rest.remove_prefix(1);  // the script is given no arguments
  } else if (!rest.empty() && (rest[0] == '@' || rest[0] == '*')) {
    return "";
  } else {
    return kNothingKnown;
  }
  const bool all = rest.starts_with("[@]"), as_one = rest.starts_with("[*]");
  if (all || as_one) rest.remove_prefix(3);
  if (rest.starts_with("[")) return kNothingKnown;
  if (value && !all && !as_one) value = value->substr(0, value->find(kBreak));
  if (value && as_one && !splits) value = joined(*value);
  const auto shown = [&](const std::string& text) { return splits ? spread(text) : text; };
  if (rest.empty()) return value ? shown(*value) : name.empty() ? std::string() : kNothingKnown;
  const bool colon = rest[0] == ':';
  if (colon) rest.remove_prefix(1);
  const char sign = rest.empty() ? '\0' : rest[0];
  if (sign != '-' && sign != '=' && sign != '?' && sign != '+') return kNothingKnown;
  rest.remove_prefix(1);
  const bool there = value && !(colon && value->empty());
  if (sign == '+') return there ? expand(rest, splits ? Text::Script : Text::Value) : "";
  if (there) return shown(*value);
  if (sign == '?') return kNothingKnown;
  const std::string otherwise = expand(rest, Text::Value);
  if (sign == '=' && !name.empty()) set(name, otherwise);
  return shown(otherwise);
}

// Of the commands that stand in $(…), those whose output is known by reading.
std::string ScriptReader::command_value(std::string_view inside) {
  inside = trimmed(inside);
  if (inside == "pwd" || inside == "pwd -P") return folder_.empty() ? kNothingKnown : folder_;
  const auto commands = shell_commands(inside, endless_);
  if (commands.size() != 1 || commands[0].documents.size() != 1 || commands[0].words.size() != 1 ||
      commands[0].words[0] != "cat")
    return kNothingKnown;
  const HereDocument& document = commands[0].documents[0];
  return std::string(
      trimmed(document.plain ? document.text : expand(document.text, Text::Document)));
}

void ScriptReader::expand_dollar(std::string_view raw, std::size_t& at, bool splits,
                                 std::string& out) {
  const std::size_t begin = at;
  const char next = at + 1 < raw.size() ? raw[at + 1] : '\0';
  at = piece_end(raw, begin, endless_);
  if (next == '(') {
    const std::string_view inside = raw.substr(begin + 2, at - begin - 3);
    out += inside.starts_with("(") ? kNothingKnown : command_value(inside);
  } else if (next == '{') {
    out += parameter(raw.substr(begin + 2, at - begin - 3), splits);
  } else if (is_name(next, true)) {
    const std::size_t length = name_length(raw.substr(begin + 1));
    out += parameter(raw.substr(begin + 1, length), splits);
    at = begin + 1 + length;
  } else if (next == '\'') {
    return;  // $'…' is near enough to '…'
  } else if (next == '\0' || is_blank(next) || next == '"' || next == '/') {
    out += '$';
  } else {
    out += parameter(raw.substr(begin + 1, 1), splits);
    at = begin + 2;
  }
}

std::string ScriptReader::expand(std::string_view raw, Text kind) {
  std::string out;
  bool quoted = kind == Text::Document;
  if (expanding_ > kDeepestValue) return kNothingKnown;
  ++expanding_;
  for (std::size_t i = 0; i < raw.size();) {
    if (out.size() > kLongestValue || spent_ > kMostSpent) {
      out = kNothingKnown;
      break;
    }
    const char c = raw[i];
    const char next = i + 1 < raw.size() ? raw[i + 1] : '\0';
    if (c == '\\' && next != '\0') {
      const bool special = std::string_view("$`\\\n").find(next) != std::string_view::npos ||
                           (next == '"' && kind != Text::Document);
      if (quoted && !special) out += c;
      if (next != '\n') out += next;
      i += 2;
    } else if (c == '"' && kind != Text::Document) {
      quoted = !quoted;
      ++i;
    } else if (c == '\'' && !quoted) {
      const auto end = std::min(raw.find('\'', i + 1), raw.size());
      out += raw.substr(i + 1, end - i - 1);
      i = std::min(end + 1, raw.size());
    } else if (c == '`') {
      const auto end = piece_end(raw, i, endless_);
      out += command_value(raw.substr(i + 1, end - i - 2));
      i = end;
    } else if (c == '$') {
      expand_dollar(raw, i, !quoted && kind == Text::Script, out);
    } else {
      out += c;
      ++i;
    }
  }
  --expanding_;
  spent_ += out.size();
  return out;
}

void ScriptReader::set(const std::string& name, std::string value) {
  const auto before = variables_.find(name);
  // Where it may not be run, only what it adds is believed, and what no other source says.
  if ((branch_ > 0 || conditional_) && before != variables_.end() && !before->second.empty() &&
      !value.starts_with(before->second))
    value = kNothingKnown;
  if (value.size() > kLongestValue) value = kNothingKnown;
  variables_[name] = std::move(value);
  assigned_[name] = true;
}

bool ScriptReader::assign(const std::string& raw) {
  const std::size_t length = name_length(raw);
  std::string_view rest = std::string_view(raw).substr(length);
  const bool adds = rest.starts_with("+=");
  if (length == 0 || (!adds && !rest.starts_with("="))) return false;
  rest.remove_prefix(adds ? 2 : 1);
  const std::string name = raw.substr(0, length);
  const bool array = rest.starts_with("(");
  std::string value;
  if (array) {
    const std::string_view inside = rest.substr(1, rest.size() - (rest.ends_with(')') ? 2 : 1));
    for (const RawCommand& line : shell_commands(inside, endless_))
      for (const std::string& word : line.words)
        for (const ScriptWord& element : words_of(word))
          value += (value.empty() ? "" : std::string(1, kBreak)) + element.text;
  } else {
    value = joined(expand(rest, Text::Value));
  }
  if (adds) {
    const auto before = variables_.find(name);
    const std::string old = before == variables_.end() ? "" : before->second;
    value = array && !old.empty() ? old + kBreak + value : old + value;
  }
  set(name, std::move(value));
  return true;
}

std::map<std::string, std::string> ScriptReader::assigned() const {
  std::map<std::string, std::string> out;
  for (const auto& [name, yes] : assigned_) out[name] = joined(variables_.at(name));
  return out;
}

// ---- commands

std::vector<ScriptWord> ScriptReader::words_of(const std::string& raw) {
  const std::string text = expand(raw, Text::Script);
  std::vector<ScriptWord> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(kBreak, at), text.size());
    if (end > at) out.push_back({text.substr(at, end - at), raw, false});
    at = end + 1;
  }
  return out;
}

// Keywords in front of a command; counts the branches that it opens and closes.
std::size_t ScriptReader::skip_keywords(const RawCommand& raw) {
  std::size_t at = 0;
  for (; at < raw.words.size(); ++at) {
    const std::string& word = raw.words[at];
    if (word == "for" || word == "select" || word == "case") {
      ++branch_;
      if (word != "case" && at + 1 < raw.words.size())
        variables_[raw.words[at + 1]] = kNothingKnown;
      return raw.words.size();
    }
    if (word == "if" || word == "while" || word == "until")
      ++branch_;
    else if (word == "fi" || word == "done" || word == "esac")
      branch_ = std::max(0, branch_ - 1);
    else if (!is_one_of(
                 word, std::array<std::string_view, 10>{"then", "else", "elif", "do", "!", "{", "}",
                                                        "time", "exec", "command"}))
      break;
  }
  return at;
}

void ScriptReader::change_folder(const ScriptCommand& command) {
  if (branch_ > 0 || command.words.size() < 2 || !command.words[1].known()) {
    folder_.clear();
    return;
  }
  const std::string& to = command.words[1].text;
  if (to == "-")
    folder_.clear();
  else if (to.starts_with('/'))
    folder_ = to;
  else if (!folder_.empty())
    folder_ += "/" + to;
}

void ScriptReader::read_text(const std::string& text, const Take& take) {
  nested_bytes_ += text.size();
  const bool too_much = ++nested_ > kMostNested || nested_bytes_ > kMostNestedBytes;
  if (depth_ >= kDeepestShell || too_much) return;
  const std::string folder = folder_;
  const int branch = std::exchange(branch_, 0);
  ++depth_;
  read(text, take);
  --depth_;
  branch_ = branch;
  folder_ = folder;
}

// What a command hands to another shell.
void ScriptReader::read_nested(ScriptCommand& command, const RawCommand& raw, const Take& take) {
  auto& words = command.words;
  bool shell = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    shell = shell || is_shell(words[i].text) || words[i].text.ends_with(".sh");
    if (!is_shell(words[i].text) || i + 2 >= words.size()) continue;
    const std::string& option = words[i + 1].text;
    if (!option.starts_with('-') || option.starts_with("--") || !option.ends_with('c')) continue;
    words[i + 2].script = true;
    read_text(words[i + 2].text, take);
  }
  if (words[0].text == "eval") {
    std::string text;
    for (std::size_t i = 1; i < words.size(); ++i) {
      words[i].script = true;
      text += words[i].text + " ";
    }
    read_text(text, take);
  }
  if (!shell) return;  // a document is a script when it is given to a shell or becomes one
  for (const HereDocument& document : raw.documents)
    read_text(document.plain ? document.text : expand(document.text, Text::Document), take);
}

void ScriptReader::read_command(const RawCommand& raw, const Take& take) {
  std::size_t first = skip_keywords(raw);
  conditional_ = raw.conditional;
  const auto is = [&](std::string_view word) {
    return first < raw.words.size() && raw.words[first] == word;
  };
  const bool declares =
      is("export") || is("readonly") || is("declare") || is("typeset") || is("local");
  if (declares)
    while (++first < raw.words.size() && raw.words[first].starts_with('-')) {
    }
  while (first < raw.words.size() && (assign(raw.words[first]) || declares)) ++first;
  ScriptCommand command;
  for (std::size_t i = first; i < raw.words.size(); ++i)
    for (ScriptWord& word : words_of(raw.words[i])) command.words.push_back(std::move(word));
  if (command.words.empty()) return;
  const std::string& program = command.words[0].text;
  if (program == "cd" || program == "pushd") return change_folder(command);
  if (program == "read" && raw.documents.size() == 1) {
    const HereDocument& document = raw.documents[0];
    return set(command.words.back().text,
               document.plain ? document.text : expand(document.text, Text::Document));
  }
  command.folder = folder_;
  read_nested(command, raw, take);
  take(command);
}

void ScriptReader::read(std::string_view text, const Take& take) {
  for (const RawCommand& raw : shell_commands(text, endless_)) read_command(raw, take);
}

}  // namespace stoker::slurm
