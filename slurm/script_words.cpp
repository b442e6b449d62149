#include "slurm/script_words.hpp"

#include <algorithm>

namespace stoker::slurm {
namespace {

constexpr std::size_t kLongestValue = 64u << 10;  // a script that doubles a variable line by line

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}
bool is_operator(char c) {
  return std::string_view(";|&<>").find(c) != std::string_view::npos;
}
bool is_name(char c, bool first) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (!first && c >= '0' && c <= '9');
}

// The words of a line as they stand: quotes kept, split at blanks outside of them and at ; | & < >.
std::vector<std::string> raw_words(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      word += c;
      word += line[++i];
    } else if (quote != 0) {
      word += c;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
      word += c;
    } else if (c == '#' && word.empty()) {
      break;
    } else if (is_blank(c)) {
      end_word();
    } else {
      if (!word.empty() && is_operator(c) != is_operator(word.back())) end_word();
      word += c;
    }
  }
  end_word();
  return words;
}

}  // namespace

std::vector<std::string> logical_lines(std::string_view text) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view piece = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    if (piece.ends_with('\\')) {
      line += piece.substr(0, piece.size() - 1);
      line += ' ';
      continue;
    }
    lines.push_back(line + std::string(piece));
    line.clear();
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::vector<std::string> ScriptWords::split(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      open = true;
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
      open = true;
    } else if (c == '#' && !open) {
      break;
    } else if (is_blank(c)) {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (open) words.push_back(std::move(word));
  return words;
}

ScriptWord ScriptWords::expand(std::string_view raw) const {
  ScriptWord out{{}, std::string(raw), true};
  char quote = 0;
  for (std::size_t i = 0; i < raw.size() && out.text.size() < kLongestValue; ++i) {
    const char c = raw[i];
    if (c == '\\' && quote != '\'' && i + 1 < raw.size()) {
      out.text += raw[++i];
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (c == '`' && quote != '\'') {
      out.known = false;
    } else if (c != '$' || quote == '\'') {
      out.text += c;
    } else {
      const bool braces = i + 1 < raw.size() && raw[i + 1] == '{';
      std::size_t end = i + (braces ? 2 : 1);
      const std::size_t begin = end;
      while (end < raw.size() && is_name(raw[end], end == begin)) ++end;
      const std::string name(raw.substr(begin, end - begin));
      const bool plain = !name.empty() && (!braces || (end < raw.size() && raw[end] == '}'));
      const auto value = variables_.find(name);
      if (plain && (name.starts_with("SLURM_") || name == "HOSTNAME"))
        out.text += '*';  // another one in each job
      else if (plain && value != variables_.end() && !unknown_.contains(name))
        out.text += value->second;
      else
        out.known = false;
      if (plain || end > i + 1) i = end - (braces && plain ? 0 : 1);
    }
  }
  return out;
}

bool ScriptWords::assign(std::string_view raw) {
  std::size_t end = 0;
  while (end < raw.size() && is_name(raw[end], end == 0)) ++end;
  if (end == 0 || end >= raw.size() || raw[end] != '=') return false;
  const std::string name(raw.substr(0, end));
  const ScriptWord value = expand(raw.substr(end + 1));
  variables_[name] = value.text;
  if (value.known)
    unknown_.erase(name);
  else
    unknown_[name] = true;
  return true;
}

std::vector<ScriptWord> ScriptWords::read(std::string_view line) {
  std::vector<ScriptWord> words;
  std::vector<std::string> raw = raw_words(line);
  std::size_t first = 0;
  if (!raw.empty() && raw.front() == "export") first = 1;
  while (first < raw.size() && assign(raw[first])) ++first;
  for (std::size_t i = first; i < raw.size(); ++i) words.push_back(expand(raw[i]));
  // SRUN_ARGS="--wait=60 --kill-on-bad-exit=1" and the like become several words where they are
  // used.
  std::vector<ScriptWord> out;
  for (ScriptWord& word : words) {
    if (!word.raw.starts_with('$') || word.text.find(' ') == std::string::npos) {
      out.push_back(std::move(word));
      continue;
    }
    for (std::string& part : split(word.text))
      out.push_back({std::move(part), word.raw, word.known});
  }
  return out;
}

}  // namespace stoker::slurm
