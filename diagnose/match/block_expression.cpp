// Walks over the text of the expression; what it does not know for certain is kept as it is and
// said in `digits_alike`.
#include "diagnose/match/block_expression.hpp"

#include <array>
#include <string_view>

namespace stoker::diagnose {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view expression) : rest_(expression) {}

  BlockExpression run() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '\\')
        escape();
      else if (c == '[')
        set();
      else if (c == '{')
        repeat();
      else if (rest_.starts_with("(?"))
        group();
      else if (c == '^' || c == '$')
        rest_.remove_prefix(1);
      else if (is_digit(c))
        replace(1, "[0-9]"), optional();
      else if (c == '.')
        copy(1), optional();
      else
        copy(1);
    }
    return std::move(out_);
  }

 private:
  void copy(std::size_t length) {
    out_.text += rest_.substr(0, length);
    rest_.remove_prefix(std::min(length, rest_.size()));
  }
  void replace(std::size_t length, std::string_view text) {
    out_.text += text;
    rest_.remove_prefix(length);
  }
  // Escapes that stand for a character by its number, for a class of Unicode or for quoted text.
  static bool is_opaque(char letter) {
    return is_digit(letter) ||
           std::string_view("xpPQEcNoKRXG").find(letter) != std::string_view::npos;
  }
  void escape() {
    if (rest_.size() > 1 && is_opaque(rest_[1])) out_.digits_alike = false;
    // Vectorscan 5.4.9 does not see "a\b.*\bc(?: d)? e" in "a b/c e": RE2 looks at borders.
    if (rest_.size() > 1 && std::string_view("AzZbB").find(rest_[1]) != std::string_view::npos)
      return rest_.remove_prefix(2);
    const bool may_be_digit =
        rest_.size() > 1 && std::string_view("dwS").find(rest_[1]) != std::string_view::npos;
    copy(2);
    if (may_be_digit) optional();
  }
  // What was copied last may be a digit: none of it will do as well.
  void optional() {
    const char next = rest_.empty() ? 0 : rest_.front();
    if (next == '*' || next == '?') return;
    if (next == '+') return replace(1, "*");
    const auto counts = next == '{' ? count() : std::string_view{};
    if (counts.empty()) {
      out_.text += '?';
      return;
    }
    const auto comma = counts.find(',');
    const auto most = counts.substr(comma == std::string_view::npos ? 0 : comma + 1);
    out_.text += most.empty() ? "*" : "{0," + std::string(most) + "}";
    rest_.remove_prefix(counts.size() + 2);
  }
  // The inside of "{2,5}"; empty: this brace stands for itself.
  [[nodiscard]] std::string_view count() const {
    const auto close = rest_.find('}');
    const auto inside =
        close == std::string_view::npos ? std::string_view{} : rest_.substr(1, close - 1);
    const bool counts = !inside.empty() && is_digit(inside.front()) &&
                        inside.find_first_not_of("0123456789,") == std::string_view::npos;
    return counts ? inside : std::string_view{};
  }
  void repeat() {
    const auto counts = count();
    copy(counts.empty() ? 1 : counts.size() + 2);
  }
  void group() {  // "(?P<name>" and flags may hold digits and '^'
    if (rest_.starts_with("(?P<")) return copy(rest_.find('>') + 1);
    const auto end = rest_.find_first_of(":)");
    copy(end == std::string_view::npos ? rest_.size() : end + 1);
  }

  // One member of a set: its bytes are copied, and the digits that it holds are marked.
  void member(std::array<bool, 10>& holds) {
    const auto mark = [&](char from, char to) {
      for (char d = '0'; d <= '9'; ++d)
        if (d >= from && d <= to) holds.at(static_cast<std::size_t>(d - '0')) = true;
    };
    if (rest_.starts_with("[:")) {
      out_.digits_alike = false;
      return copy(2);
    }
    if (rest_.front() == '\\' && rest_.size() > 1) {
      const char letter = rest_[1];
      if (is_opaque(letter)) out_.digits_alike = false;
      if (letter == 'd' || letter == 'w' || letter == 'S') mark('0', '9');
      return copy(2);
    }
    const char from = rest_.front();
    if (rest_.size() > 2 && rest_[1] == '-' && rest_[2] != ']') {
      if (rest_[2] == '\\') out_.digits_alike = false;
      mark(from, rest_[2]);
      return copy(3);
    }
    mark(from, from);
    copy(1);
  }

  void set() {
    copy(1);
    const bool negated = rest_.starts_with('^');
    if (negated) copy(1);
    std::array<bool, 10> holds{};
    bool first = true;  // a ']' here is a member
    while (!rest_.empty() && (first || rest_.front() != ']')) {
      first = false;
      member(holds);
    }
    std::size_t held = 0;
    for (const bool one : holds) held += one ? 1 : 0;
    const bool some = held > 0 && held < holds.size();
    if (some && negated) out_.digits_alike = false;
    if (some && !negated) out_.text += "0-9";
    if (negated)
      out_.text += "\\n";  // Vectorscan 5.4.9 runs past the only character that ends a run
    copy(1);
    if (negated ? held < holds.size() : held > 0) optional();
  }

  std::string_view rest_;
  BlockExpression out_;
};

}  // namespace

BlockExpression block_expression(const std::string& expression) {
  return Rewriter(expression).run();
}

}  // namespace stoker::diagnose
