// Lines are read in chunks of 16 bytes, the last of which may overlap the one before.
#include "diagnose/line_shapes.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace stoker::diagnose {

namespace {

constexpr std::size_t kChunk = 16;
constexpr std::size_t kMostShapes = 4096;
constexpr std::size_t kMostBytes = 4u << 20;
constexpr std::size_t kSlots = 4 * kMostShapes;
constexpr std::size_t kSeen = 4 * kMostShapes;
constexpr std::size_t kProbes = 8;
// A shape costs as much as this many lines save.
constexpr std::int64_t kPrice = 16, kMostCredit = 1 << 16;

using Bytes [[gnu::vector_size(kChunk)]] = unsigned char;

struct Halves {
  std::uint64_t low, high;
};

// Each digit becomes '0'.
inline Bytes without_digits(const char* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  const Bytes digit = reinterpret_cast<Bytes>(static_cast<Bytes>(bytes - '0') < 10);
  return (bytes & ~digit) | (digit & '0');
}

inline Halves halves(Bytes bytes) {
  Halves two;
  std::memcpy(&two, &bytes, sizeof two);
  return two;
}

// A line shorter than a chunk, filled up with zeros.
struct Short {
  explicit Short(std::string_view line) { std::memcpy(bytes.data(), line.data(), line.size()); }
  std::array<char, kChunk> bytes{};
};

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15, kOther = 0xc2b2ae3d27d4eb4f;

inline std::uint64_t mix(std::uint64_t sum, Halves chunk) {
  const std::uint64_t a = (chunk.low ^ sum) * kOdd;
  return (a ^ (a >> 29)) + chunk.high * kOther;
}

}  // namespace

std::uint64_t LineShapes::hash(std::string_view line) {
  std::uint64_t sum = line.size() * kOdd;
  if (line.size() < kChunk) {
    const Short padded(line);
    sum = mix(sum, halves(without_digits(padded.bytes.data())));
  } else {
    std::uint64_t second = kOther;  // two chains, so that one need not wait for the other
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
  return sum * kOther ^ sum >> 17;
}

std::string LineShapes::shape_text(std::string_view line) {
  std::string text(line);
  for (char& c : text)
    if (c >= '0' && c <= '9') c = '0';
  return text;
}

namespace {

bool has_shape(std::string_view line, const std::string& shape) {
  if (line.size() != shape.size()) return false;
  if (line.size() < kChunk) return LineShapes::shape_text(line) == shape;
  const auto differs = [&](std::size_t at) {
    Bytes wanted;
    std::memcpy(&wanted, shape.data() + at, sizeof wanted);
    const Halves d = halves(without_digits(line.data() + at) ^ wanted);
    return d.low | d.high;
  };
  std::uint64_t difference = differs(line.size() - kChunk);
  for (std::size_t i = 0; i + kChunk <= line.size(); i += kChunk) difference |= differs(i);
  return difference == 0;
}

}  // namespace

const LineShapes::Shape* LineShapes::find(std::string_view line, std::uint64_t hash) {
  if (shapes_.empty()) return nullptr;
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    const Slot& slot = slots_[(hash + probe) % kSlots];
    if (slot.place == 0) return nullptr;
    if (slot.hash != hash) continue;
    const Shape& shape = shapes_[slot.place - 1];
    if (!has_shape(line, shape.text)) continue;
    credit_ = std::min(credit_ + 1, kMostCredit);
    return &shape;
  }
  return nullptr;
}

bool LineShapes::worth_learning(std::uint64_t hash) {
  if (seen_.empty()) seen_.resize(kSeen);
  auto& before = seen_[(hash >> 32) % kSeen];
  const auto mark = static_cast<std::uint32_t>(hash | 1);
  if (before != mark) {
    before = mark;
    return false;
  }
  return credit_ >= kPrice;
}

const LineShapes::Shape* LineShapes::learn(Shape shape, std::uint64_t hash) {
  credit_ -= kPrice;
  if (shapes_.size() >= kMostShapes || bytes_ + shape.text.size() > kMostBytes) forget();
  if (slots_.empty()) {
    slots_.resize(kSlots);
    shapes_.reserve(kMostShapes);
  }
  for (std::size_t probe = 0; probe < kProbes; ++probe) {
    Slot& slot = slots_[(hash + probe) % kSlots];
    if (slot.place != 0) continue;
    bytes_ += shape.text.size();
    shapes_.push_back(std::move(shape));
    slot = {hash, static_cast<std::uint32_t>(shapes_.size())};
    return &shapes_.back();
  }
  return nullptr;
}

void LineShapes::forget() {
  shapes_.clear();
  std::fill(slots_.begin(), slots_.end(), Slot{});
  bytes_ = 0;
}

}  // namespace stoker::diagnose
