// A stack machine over numbered values; the opcodes are those of CPython's Lib/pickletools.py.
#include "diagnose/parse/pickle.hpp"

#include <charconv>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "diagnose/parse/pickle_values.hpp"

namespace stoker::diagnose {

namespace {

using Value = PickleValue;
using Kind = Value::Kind;
using Place = PickleValue::Place;

class Machine {
 public:
  Machine(std::string_view bytes, const PickleLimits& limits)
      : rest_(bytes), limits_(limits), budget_(limits) {}

  // True: stopped in order.
  bool run() {
    while (!wrong_ && !stopped_) step(byte());
    if (!wrong_ && stack_.empty()) fail_with("the pickle is empty");
    return !wrong_;
  }
  // After run().
  Json result() { return unfold_pickle(values_, stack_.back(), limits_, budget_); }
  [[nodiscard]] const char* wrong() const { return wrong_; }
  [[nodiscard]] const std::string& refused() const { return budget_.refused(); }

 private:
  void fail_with(const char* what) {
    if (wrong_ == nullptr) wrong_ = what;
  }
  bool charge(std::size_t bytes) {
    if (budget_.take(bytes)) return true;
    fail_with("it is too large");
    return false;
  }
  bool room_for_one(std::size_t held) {
    if (budget_.has_room(held)) return true;
    fail_with("it is too large");
    return false;
  }
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) {
      fail_with("it ends too soon");
      rest_ = {};
      return {};
    }
    const auto taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  unsigned char byte() {
    const auto one = take(1);
    return one.empty() ? 0 : static_cast<unsigned char>(one[0]);
  }
  std::uint64_t little(std::size_t size) {
    const auto bytes = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }
  std::string_view line() {
    const auto end = rest_.find('\n');
    if (end == std::string_view::npos) {
      fail_with("it ends too soon");
      return {};
    }
    const auto text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  Place make(Value value) {
    if (!room_for_one(values_.size()) || !charge(sizeof(Value))) return 0;
    values_.push_back(std::move(value));
    return static_cast<Place>(values_.size() - 1);
  }
  void lay(Place place) {
    if (!room_for_one(stack_.size())) return;
    if (stack_.size() == highest_) {
      if (!charge(kGrowing * sizeof(Place))) return;
      ++highest_;
    }
    stack_.push_back(place);
  }
  void push(Value value) { lay(make(std::move(value))); }
  void push(Kind kind) { push(Value{kind, 0, 0, {}, {}}); }
  void push_int(std::int64_t value) { push(Value{Kind::Int, value, 0, {}, {}}); }
  void push_text(std::string_view text) { push(Value{Kind::Text, 0, 0, text, {}}); }
  void push_list(std::vector<Place> items) {
    if (charge(kBlock + items.size() * sizeof(Place)))
      push(Value{Kind::List, 0, 0, {}, std::move(items)});
  }
  Place pop() {
    if (stack_.empty()) {
      fail_with("an opcode stands where it cannot");
      return make({});
    }
    const Place top = stack_.back();
    stack_.pop_back();
    return top;
  }
  // What lies above the last mark, in order; the mark goes too.
  std::vector<Place> pop_marked() {
    std::size_t at = stack_.size();
    while (at > 0 && values_[stack_[at - 1]].kind != Kind::Mark) --at;
    if (at == 0) {
      fail_with("a mark is missing");
      return {};
    }
    std::vector<Place> items(stack_.begin() + static_cast<std::ptrdiff_t>(at), stack_.end());
    stack_.resize(at - 1);
    return items;
  }
  void extend(Kind kind, const std::vector<Place>& items) {
    if (stack_.empty() || values_.empty()) return fail_with("an opcode stands where it cannot");
    Value& target = values_[stack_.back()];
    if (target.kind == Kind::Opaque) return;
    if (target.kind != kind || (kind == Kind::Map && items.size() % 2 != 0))
      return fail_with("an opcode stands where it cannot");
    if (target.items.empty() && !items.empty() && !charge(kBlock)) return;
    if (!charge(kGrowing * items.size() * sizeof(Place))) return;
    target.items.insert(target.items.end(), items.begin(), items.end());
  }
  void tuple(std::size_t size) {
    std::vector<Place> items(size);
    for (std::size_t i = size; i-- > 0;) items[i] = pop();
    push_list(std::move(items));
  }
  void remember(std::uint64_t key) {
    if (stack_.empty()) return fail_with("an opcode stands where it cannot");
    const auto [known, fresh] = memo_.try_emplace(key, stack_.back());
    if (fresh) charge(kMemoEntry);
    known->second = stack_.back();
  }
  void recall(std::uint64_t key) {
    const auto known = memo_.find(key);
    if (known == memo_.end()) return fail_with("it names what was never put aside");
    lay(known->second);
  }
  // A call is not made: a typed list or an ordered map is its argument, all else is nothing.
  void reduce() {
    const Place arguments = pop();
    pop();
    const Value& given = values_.empty() ? none_ : values_[arguments];
    if (given.kind == Kind::List && !given.items.empty() &&
        (values_[given.items[0]].kind == Kind::List || values_[given.items[0]].kind == Kind::Map))
      lay(given.items[0]);
    else
      push(Kind::Opaque);
  }
  std::uint64_t line_number() {
    const auto text = line();
    std::uint64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{})
      fail_with("a number is malformed");
    return value;
  }
  void text_number() {
    auto text = line();
    if (text == "00" || text == "01") return push(text == "01" ? Kind::True : Kind::False);
    if (text.ends_with('L')) text.remove_suffix(1);
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    push_int(value);
  }
  void long_number(std::uint64_t size) {
    const auto bytes = take(size);
    if (bytes.size() > 8) return push(Kind::Opaque);
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    if (!bytes.empty() && bytes.size() < 8 && (static_cast<unsigned char>(bytes.back()) & 0x80))
      value |= ~std::uint64_t{0} << (8 * bytes.size());
    push_int(static_cast<std::int64_t>(value));
  }
  void real_number() {
    const auto bytes = take(8);
    std::uint64_t bits = 0;
    for (const char c : bytes) bits = bits << 8 | static_cast<unsigned char>(c);
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    push(Value{Kind::Float, 0, value, {}, {}});
  }

  void step(unsigned char code);
  bool step_scalar(unsigned char code);
  bool step_container(unsigned char code);
  bool step_memo(unsigned char code);
  bool step_call(unsigned char code);

  std::string_view rest_;
  PickleLimits limits_;
  PickleBudget budget_;
  Value none_;
  std::deque<Value> values_;
  std::vector<Place> stack_;
  std::unordered_map<std::uint64_t, Place> memo_;
  std::size_t highest_ = 0;  // that the stack has been
  const char* wrong_ = nullptr;
  bool stopped_ = false;
};

void Machine::step(unsigned char code) {
  if (wrong_ != nullptr) return;
  switch (code) {
    case 0x80: byte(); return;     // PROTO
    case 0x95: little(8); return;  // FRAME
    case '.': stopped_ = true; return;
    case '(': return push(Kind::Mark);
    case '0': pop(); return;
    case '1': pop_marked(); return;
    case '2':
      if (stack_.empty()) return fail_with("an opcode stands where it cannot");
      return lay(stack_.back());
    default: break;
  }
  if (!step_scalar(code) && !step_container(code) && !step_memo(code) && !step_call(code))
    fail_with("an opcode is unknown");
}

bool Machine::step_scalar(unsigned char code) {
  switch (code) {
    case 'N': push(Kind::None); return true;
    case 0x88: push(Kind::True); return true;
    case 0x89: push(Kind::False); return true;
    case 'I':
    case 'L': text_number(); return true;
    case 'J': push_int(static_cast<std::int32_t>(little(4))); return true;
    case 'K': push_int(static_cast<std::int64_t>(little(1))); return true;
    case 'M': push_int(static_cast<std::int64_t>(little(2))); return true;
    case 0x8a: long_number(little(1)); return true;
    case 0x8b: long_number(little(4)); return true;
    case 'F': line(), push(Kind::Opaque); return true;
    case 'G': real_number(); return true;
    case 'S':
    case 'V': push_text(line()); return true;
    case 'T':
    case 'X':
    case 'B': push_text(take(little(4))); return true;
    case 'U':
    case 0x8c:
    case 'C': push_text(take(little(1))); return true;
    case 0x8d:
    case 0x8e:
    case 0x96: push_text(take(little(8))); return true;
    default: return false;
  }
}

bool Machine::step_container(unsigned char code) {
  switch (code) {
    case ']':
    case ')':
    case 0x8f: push(Kind::List); return true;
    case '}': push(Kind::Map); return true;
    case 'l':
    case 't':
    case 0x91: push_list(pop_marked()); return true;
    case 0x85: tuple(1); return true;
    case 0x86: tuple(2); return true;
    case 0x87: tuple(3); return true;
    case 'a': {
      const Place item = pop();
      extend(Kind::List, {item});
      return true;
    }
    case 'e':
    case 0x90: extend(Kind::List, pop_marked()); return true;
    case 's': {
      const Place value = pop(), key = pop();
      extend(Kind::Map, {key, value});
      return true;
    }
    case 'u': extend(Kind::Map, pop_marked()); return true;
    case 'd': {
      const auto items = pop_marked();
      push(Kind::Map);
      extend(Kind::Map, items);
      return true;
    }
    default: return false;
  }
}

bool Machine::step_memo(unsigned char code) {
  switch (code) {
    case 'p': remember(line_number()); return true;
    case 'q': remember(little(1)); return true;
    case 'r': remember(little(4)); return true;
    case 0x94: remember(memo_.size()); return true;
    case 'g': recall(line_number()); return true;
    case 'h': recall(little(1)); return true;
    case 'j': recall(little(4)); return true;
    default: return false;
  }
}

bool Machine::step_call(unsigned char code) {
  switch (code) {
    case 'c': line(), line(), push(Kind::Opaque); return true;
    case 0x93: pop(), pop(), push(Kind::Opaque); return true;
    case 'R':
    case 0x81: reduce(); return true;
    case 0x92: pop(), reduce(); return true;
    case 'b': pop(); return true;
    case 'i': line(), line(), pop_marked(), push(Kind::Opaque); return true;
    case 'o': pop_marked(), push(Kind::Opaque); return true;
    case 'P': line(), push(Kind::Opaque); return true;
    case 'Q': pop(), push(Kind::Opaque); return true;
    case 0x82: little(1), push(Kind::Opaque); return true;
    case 0x83: little(2), push(Kind::Opaque); return true;
    case 0x84: little(4), push(Kind::Opaque); return true;
    default: return false;
  }
}

}  // namespace

bool is_pickle(std::string_view head) {
  return head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

Result<Json> read_pickle(std::string_view bytes, const std::string& object,
                         const PickleLimits& limits) {
  Machine machine(bytes, limits);
  Json read = machine.run() ? machine.result() : Json();
  if (const std::string& why = machine.refused(); !why.empty())
    return fail("refused: " + why, object,
                "no training writes such a file; remove it if you do not know its origin");
  if (machine.wrong() != nullptr)
    return fail(std::string("is no pickle: ") + machine.wrong(), object);
  return read;
}

}  // namespace stoker::diagnose
