// Lines are read in chunks of 16 bytes, the last of which may overlap the one before.
#include "diagnose/match/line_shapes.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace stoker::diagnose {

namespace {

constexpr std::size_t kChunk = 16;
constexpr std::size_t kMostShapes = 2048, kMostPrints = 8192;
constexpr std::size_t kMostBytes = 4u << 20;  // of each kind
constexpr std::size_t kSeen = 1u << 14;
constexpr std::size_t kProbes = 8;
constexpr std::size_t kShapeSlots = 4 * kMostShapes, kPrintSlots = 4 * kMostPrints;
static_assert(std::has_single_bit(kShapeSlots) && std::has_single_bit(kPrintSlots));
// A shape costs as much as this many lines save.
constexpr std::int64_t kPrice = 32, kMostCredit = 1 << 16;

using Bytes [[gnu::vector_size(kChunk)]] = unsigned char;

inline Bytes load(const char* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

// 0xff where a digit is.
inline Bytes digits_of(Bytes bytes) {
  return reinterpret_cast<Bytes>(static_cast<Bytes>(bytes - '0') < 10);
}

// Each digit becomes '0'.
inline Bytes without_digits(const char* from) {
  const Bytes bytes = load(from), digit = digits_of(bytes);
  return (bytes & ~digit) | (digit & '0');
}

struct Halves {
  std::uint64_t low, high;
};
inline Halves halves(Bytes bytes) {
  Halves two;
  std::memcpy(&two, &bytes, sizeof two);
  return two;
}

// Bit i: byte i is a digit.
inline std::uint64_t digit_bits(const char* from) {
  const Halves digit = halves(digits_of(load(from)));
  constexpr std::uint64_t kGather = 0x0102040810204080, kLowest = 0x0101010101010101;
  const auto bits = [](std::uint64_t half) { return ((half & kLowest) * kGather) >> 56; };
  return bits(digit.low) | bits(digit.high) << 8;
}

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15, kOther = 0xc2b2ae3d27d4eb4f;

inline std::uint64_t mix(std::uint64_t sum, Halves chunk) {
  const std::uint64_t a = (chunk.low ^ sum) * kOdd;
  return (a ^ (a >> 29)) + chunk.high * kOther;
}

// Of the text with '0' for each digit.
std::uint64_t print_hash(std::string_view line) {
  std::uint64_t sum = line.size() * kOdd;
  if (line.size() < kChunk) {
    std::array<char, kChunk> padded{};
    std::memcpy(padded.data(), line.data(), line.size());
    sum = mix(sum, halves(without_digits(padded.data())));
  } else {
    std::uint64_t second = kOther;  // two chains: one need not wait for the other
    std::size_t i = 0;
    for (; i + 2 * kChunk <= line.size(); i += 2 * kChunk) {
      sum = mix(sum, halves(without_digits(line.data() + i)));
      second = mix(second, halves(without_digits(line.data() + i + kChunk)));
    }
    if (i + kChunk <= line.size()) sum = mix(sum, halves(without_digits(line.data() + i)));
    second = mix(second, halves(without_digits(line.data() + line.size() - kChunk)));
    sum ^= second * kOdd;
  }
  sum ^= sum >> 32;
  return (sum * kOther) ^ (sum >> 17);
}

// Is each byte of the line what the print has there: above it by less than 10 where a '0' stands,
// and by nothing elsewhere? Both are `size` bytes long, kWide at least.
template <std::size_t kWide>
[[gnu::always_inline]] inline bool same_but_digits(const char* line, const char* print,
                                                   std::size_t size) {
  using Wide [[gnu::vector_size(kWide)]] = unsigned char;
  const std::size_t last = size - kWide;
  Wide difference{};
  std::size_t i = last;
  for (std::size_t next = 0;; next += kWide) {
    Wide text, known;
    std::memcpy(&text, line + i, kWide);
    std::memcpy(&known, print + i, kWide);
    const Wide most = reinterpret_cast<Wide>(known == '0') & 9;
    const Wide above = text - known;
    difference |= (above > most ? above : most) ^ most;
    if (next >= last) break;
    i = next;
  }
  const Wide all = difference;
  std::array<std::uint64_t, kWide / sizeof(std::uint64_t)> parts;
  std::memcpy(&parts, &all, sizeof parts);
  std::uint64_t any = 0;
  for (const std::uint64_t part : parts) any |= part;
  return any == 0;
}

[[gnu::target("avx2")]] bool same_in_pairs(const char* line, const char* print, std::size_t size) {
  return same_but_digits<2 * kChunk>(line, print, size);
}

bool has_print(std::string_view line, std::string_view print) {
  static const bool pairs_are_quick = __builtin_cpu_supports("avx2") != 0;
  if (line.size() != print.size()) return false;
  if (pairs_are_quick && line.size() >= 2 * kChunk)
    return same_in_pairs(line.data(), print.data(), line.size());
  if (line.size() >= kChunk) return same_but_digits<kChunk>(line.data(), print.data(), line.size());
  return std::equal(line.begin(), line.end(), print.begin(),
                    [](char c, char known) { return (c >= '0' && c <= '9' ? '0' : c) == known; });
}

// The place behind a hash that `same` agrees with, or 0.
template <class Slots, class Same>
std::uint32_t lookup(const Slots& slots, std::uint64_t hash, Same same) {
  for (std::size_t probe = 0; probe < kProbes && !slots.empty(); ++probe) {
    const auto& slot = slots[(hash + probe) & (slots.size() - 1)];
    if (slot.place == 0) return 0;
    if (slot.hash == hash && same(slot.place - 1)) return slot.place;
  }
  return 0;
}

template <class Slots>
void enter(Slots& slots, std::uint64_t hash, std::uint32_t place) {
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    auto& slot = slots[(hash + probe) & (slots.size() - 1)];
    if (slot.place == 0) {
      slot = {hash, place};
      return;
    }
  }
}

bool seen_before(std::vector<std::uint32_t>& seen, std::uint64_t hash) {
  if (seen.empty()) seen.resize(kSeen);
  auto& before = seen[(hash >> 32) % kSeen];
  const auto mark = static_cast<std::uint32_t>(hash | 1);
  return std::exchange(before, mark) == mark;
}

}  // namespace

void ShapeText::put_run(std::string_view line, DigitRun run) {
  const auto length = static_cast<std::size_t>(run.end - run.begin);
  const std::size_t kept = keeps_length(line, run) ? length : 1;
  std::memset(text_.data() + size_, '0', kept);
  size_ += kept;
  runs_[count_++] = run;
}

bool ShapeText::read(std::string_view line) {
  size_ = count_ = 0;
  if (line.size() > kLongest) return false;
  std::size_t done = 0;  // what stands in front of it was put
  const auto run_from = [&](std::size_t begin) {
    std::size_t end = begin + 1;
    while (end < line.size() && line[end] >= '0' && line[end] <= '9') ++end;
    const bool fraction =
        begin > 1 && line[begin - 1] == '.' && line[begin - 2] >= '0' && line[begin - 2] <= '9';
    if (count_ == kMostRuns || end - begin > (fraction ? kLongestFraction : kLongestCount))
      return false;
    const std::size_t between = begin - done;
    if (between <= kChunk && done + kChunk <= line.size())
      std::memcpy(text_.data() + size_, line.data() + done, kChunk);
    else
      std::memcpy(text_.data() + size_, line.data() + done, between);
    size_ += between;
    put_run(line, {static_cast<std::uint16_t>(begin), static_cast<std::uint16_t>(end)});
    done = end;
    return true;
  };
  std::size_t at = 0;
  for (; at + kChunk <= line.size(); at += kChunk) {
    std::uint64_t bits = digit_bits(line.data() + at);
    while (bits != 0) {
      const auto begin = at + static_cast<std::size_t>(std::countr_zero(bits));
      if (begin >= done && !run_from(begin)) return false;
      const std::size_t skip = done - at;
      bits = skip >= kChunk ? 0 : bits & (~std::uint64_t{0} << skip);
    }
  }
  for (at = std::max(at, done); at < line.size(); ++at)
    if (line[at] >= '0' && line[at] <= '9') {
      if (!run_from(at)) return false;
      at = done - 1;
    }
  std::memcpy(text_.data() + size_, line.data() + done, line.size() - done);
  size_ += line.size() - done;
  return true;
}

LineShapes::Known LineShapes::known_by(std::uint32_t print) {
  if (latest_ != 0) {
    auto& next = prints_[latest_ - 1].next;
    if (next[0] != print) next = {print, next[0]};
  }
  latest_ = print;
  const Print& known = prints_[print - 1];
  credit_ = std::min(credit_ + 1, kMostCredit);
  const Shape& shape = shapes_[known.shape];
  return {&shape, shape.form.is_step ? &known.places : nullptr};
}

LineShapes::Known LineShapes::known_by_shape(const Shape& shape) {
  if (!shape.form.is_step) return {&shape, nullptr};
  now_places_ = shape.form.places(now_.runs());
  return {&shape, &now_places_};
}

LineShapes::Known LineShapes::follow(const char* at, const char* end, std::size_t& length) {
  if (latest_ == 0) return {};
  const auto left = static_cast<std::size_t>(end - at);
  for (const std::uint32_t next : prints_[latest_ - 1].next) {
    if (next == 0) break;
    const std::string_view print = text_of(prints_[next - 1]);
    length = print.size();
    if (length > left || (length < left && at[length] != '\n')) continue;
    if (has_print({at, length}, print)) return known_by(next);
  }
  return {};
}

LineShapes::Known LineShapes::find(std::string_view line) {
  has_shape_ = false;
  if (line.size() > ShapeText::kLongest) return {};
  const std::uint64_t hash = print_hash(line);
  const auto print = lookup(print_slots_, hash,
                            [&](std::uint32_t i) { return has_print(line, text_of(prints_[i])); });
  if (print != 0) return known_by(print);
  if (!now_.read(line)) return {};
  has_shape_ = true;
  now_hash_ = print_hash(now_.text());
  const auto place = lookup(shape_slots_, now_hash_,
                            [&](std::uint32_t i) { return now_.text() == shapes_[i].text; });
  if (place == 0) return {};
  const Shape& shape = shapes_[place - 1];
  credit_ = std::min(credit_ + 1, kMostCredit);
  const Known known = known_by_shape(shape);
  if (seen_before(seen_prints_, hash)) remember(line, hash, place - 1);
  return known;
}

bool LineShapes::worth_learning() {
  return has_shape_ && seen_before(seen_shapes_, now_hash_) && credit_ >= kPrice;
}

LineShapes::Known LineShapes::learn(Shape shape) {
  credit_ -= kPrice;
  if (shapes_.size() >= kMostShapes || shape_bytes_ > kMostBytes) forget();
  if (shape_slots_.empty()) shape_slots_.resize(kShapeSlots);
  shape_bytes_ += shape.text.size();
  shapes_.push_back(std::move(shape));
  enter(shape_slots_, now_hash_, static_cast<std::uint32_t>(shapes_.size()));
  return known_by_shape(shapes_.back());
}

void LineShapes::remember(std::string_view line, std::uint64_t hash, std::uint32_t shape) {
  if (prints_.size() >= kMostPrints || print_text_.size() > kMostBytes) {
    prints_.clear();
    print_text_.clear();
    print_slots_.clear();
    latest_ = 0;
  }
  if (print_slots_.empty()) print_slots_.resize(kPrintSlots);
  prints_.push_back({static_cast<std::uint32_t>(print_text_.size()),
                     static_cast<std::uint32_t>(line.size()),
                     shape,
                     {},
                     shapes_[shape].form.is_step ? now_places_ : StepPlaces{}});
  print_text_.insert(print_text_.end(), line.begin(), line.end());
  std::replace_if(
      print_text_.end() - static_cast<std::ptrdiff_t>(line.size()), print_text_.end(),
      [](char c) { return c >= '0' && c <= '9'; }, '0');
  enter(print_slots_, hash, static_cast<std::uint32_t>(prints_.size()));
}

void LineShapes::forget() {
  shapes_.clear();
  shape_slots_.clear();
  prints_.clear();  // they point to shapes
  print_text_.clear();
  print_slots_.clear();
  shape_bytes_ = latest_ = 0;
}

}  // namespace stoker::diagnose
