#include "slurm/script_words.hpp"

#include <algorithm>
#include <utility>

namespace stoker::slurm {
namespace {

constexpr int kMostEndless = 64;
constexpr int kDeepest = 64;  // of what is nested in one word; deeper, the rest is one piece

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}
bool is_operator(char c) {
  return std::string_view(";|&<>").find(c) != std::string_view::npos;
}

struct Delimiter {
  std::string word;
  bool plain = false, tabs = false;  // `tabs`: "<<-", leading tabs are no part of the text
};

struct Nesting {
  int depth;
  int* endless;  // here-documents without an end so far, in the whole text
  [[nodiscard]] Nesting deeper() const { return {depth + 1, endless}; }
};

std::size_t nested_end(std::string_view text, std::size_t at, Nesting in);

// "<<EOF", at its first '<'; `at` moves behind the delimiter.
Delimiter read_delimiter(std::string_view text, std::size_t& at) {
  Delimiter delimiter;
  at += 2;
  if (at < text.size() && text[at] == '-') delimiter.tabs = true, ++at;
  while (at < text.size() && is_blank(text[at])) ++at;
  while (at < text.size() && !is_blank(text[at]) && text[at] != '\n' && !is_operator(text[at]) &&
         text[at] != ')') {
    const char c = text[at++];
    if (c == '\'' || c == '"' || c == '\\')
      delimiter.plain = true;
    else
      delimiter.word += c;
  }
  return delimiter;
}

// The lines from `at` up to the delimiter's, behind which `at` moves. Without such a line there is
// no document: "<<" was something else.
std::string read_document(std::string_view text, std::size_t& at, const Delimiter& delimiter) {
  std::string out;
  for (std::size_t i = at; i < text.size();) {
    const auto end = std::min(text.find('\n', i), text.size());
    std::string_view line = text.substr(i, end - i);
    i = std::min(end + 1, text.size());
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (delimiter.tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
    if (line == delimiter.word) {
      at = i;
      return out;
    }
    out.append(line).append("\n");
  }
  return "";
}

bool begins_document(std::string_view text, std::size_t at) {
  return text.substr(at).starts_with("<<") && !text.substr(at).starts_with("<<<");
}

// Behind the bracket that closes the one at `at`: of $(…), ${…}, NAME=(…).
std::size_t closing_end(std::string_view text, std::size_t at, Nesting in) {
  const char open = text[at], close = open == '(' ? ')' : '}';
  const bool commands = open == '(' && !text.substr(at).starts_with("((");
  std::vector<Delimiter> waiting;
  for (std::size_t i = at + 1; i < text.size();) {
    const char c = text[i];
    if (c == close) return i + 1;
    if (c == '\n') {
      ++i;
      for (const Delimiter& delimiter : std::exchange(waiting, {})) {
        if (*in.endless >= kMostEndless) break;
        const std::size_t begin = i;
        read_document(text, i, delimiter);
        if (i == begin) ++*in.endless;
      }
    } else if (commands && c == '#' && (is_blank(text[i - 1]) || text[i - 1] == '\n')) {
      i = std::min(text.find('\n', i), text.size());
    } else if (commands && begins_document(text, i)) {
      waiting.push_back(read_delimiter(text, i));
    } else if (c == open) {
      i = in.depth > kDeepest ? text.size() : closing_end(text, i, in.deeper());
    } else {
      i = nested_end(text, i, in.deeper());
    }
  }
  return text.size();
}

std::size_t quoted_end(std::string_view text, std::size_t at, Nesting in) {
  for (std::size_t i = at + 1; i < text.size();) {
    if (text[i] == '"') return i + 1;
    i = text[i] == '\'' ? i + 1 : nested_end(text, i, in.deeper());
  }
  return text.size();
}

std::size_t nested_end(std::string_view text, std::size_t at, Nesting in) {
  if (in.depth > kDeepest) return text.size();
  const auto behind = [&](std::size_t found) {
    return found == std::string_view::npos ? text.size() : found + 1;
  };
  const char c = text[at];
  const char next = at + 1 < text.size() ? text[at + 1] : '\0';
  if (c == '\\') return std::min(at + 2, text.size());
  if (c == '\'') return behind(text.find('\'', at + 1));
  if (c == '"') return quoted_end(text, at, in);
  if (c == '$' && (next == '(' || next == '{')) return closing_end(text, at + 1, in);
  if (c != '`') return at + 1;
  std::size_t i = at + 1;
  while (i < text.size() && text[i] != '`') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

class Lexer {
 public:
  Lexer(std::string_view text, int& endless) : text_(text), endless_(endless) {}

  std::vector<RawCommand> read() {
    while (at_ < text_.size()) step();
    end_command();
    return std::move(commands_);
  }

 private:
  struct Waiting {
    std::size_t command;
    Delimiter delimiter;
  };

  void step() {
    const char c = text_[at_];
    if (c == '\n') return end_line();
    if (is_blank(c)) return ++at_, end_word();
    if (c == '#' && word_.empty()) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (text_.substr(at_).starts_with("\\\n") || text_.substr(at_).starts_with("\\\r\n")) {
      at_ += text_[at_ + 1] == '\n' ? 2 : 3;
    } else if (is_operator(c)) {
      read_operator();
    } else if (c == '(' && word_.ends_with('=')) {
      take(closing_end(text_, at_, {0, &endless_}));
    } else if (c == '(' || c == ')') {
      ++at_;
      end_command();
    } else {
      take(nested_end(text_, at_, {0, &endless_}));
    }
  }

  void take(std::size_t end) {
    word_ += text_.substr(at_, end - at_);
    at_ = end;
  }

  void read_operator() {
    if (begins_document(text_, at_)) {
      end_word();
      waiting_.push_back({commands_.size(), read_delimiter(text_, at_)});
      return;
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_operator(text_[at_])) ++at_;
    const std::string sign(text_.substr(begin, at_ - begin));
    if (sign.find_first_of("<>") == std::string::npos) {
      end_command();
      command_.conditional = sign == "&&" || sign == "||";
      return;
    }
    if (word_.find_first_not_of("0123456789") == std::string::npos) word_.clear();  // 2>
    end_word();
    command_.words.push_back(sign);
  }

  void end_word() {
    if (!word_.empty()) command_.words.push_back(std::exchange(word_, {}));
  }
  void end_command() {
    end_word();
    if (!command_.words.empty()) commands_.push_back(std::move(command_));
    command_ = {};
  }
  void end_line() {
    ++at_;
    const bool goes_on = command_.conditional && command_.words.empty() && word_.empty();
    end_command();
    command_.conditional = goes_on;
    for (const Waiting& w : std::exchange(waiting_, {})) {
      if (endless_ >= kMostEndless) return;
      const std::size_t begin = at_;
      std::string text = read_document(text_, at_, w.delimiter);
      if (at_ == begin) ++endless_;
      if (w.command < commands_.size())
        commands_[w.command].documents.push_back({std::move(text), w.delimiter.plain});
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string word_;
  RawCommand command_;
  std::vector<RawCommand> commands_;
  std::vector<Waiting> waiting_;
  int& endless_;  // documents without an end so far; each was looked for to the text's end
};

}  // namespace

std::size_t piece_end(std::string_view text, std::size_t at, int& endless) {
  return nested_end(text, at, {0, &endless});
}

std::vector<RawCommand> shell_commands(std::string_view text, int& endless) {
  return Lexer(text, endless).read();
}

std::vector<std::string> split_words(std::string_view line) {
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
    } else if (is_blank(c) || c == '\n') {
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

}  // namespace stoker::slurm
