// Vectorscan searches the text of a shape: what it finds there may match a line of the shape, and
// nothing else can (block_expression.hpp).
#include "diagnose/match/line_sieve.hpp"

#include <algorithm>
#include <cstring>

namespace stoker::diagnose {

std::uint64_t LineSieve::block(std::string_view block, const Take& take) {
  if (!learns_ || !patterns_->digits_alike()) return search(block, 0, take);
  const char* const end = block.data() + block.size();
  const char* run = block.data();  // of lines that must be searched
  std::uint64_t number = 0, run_number = 0;
  for (const char* at = block.data(); at < end; ++number) {
    std::size_t length = 0;
    LineShapes::Known known = shapes_.follow(at, end, length);
    if (known.shape == nullptr) {
      const void* newline = std::memchr(at, '\n', static_cast<std::size_t>(end - at));
      length = static_cast<std::size_t>(
          (newline != nullptr ? static_cast<const char*>(newline) : end) - at);
      known = shapes_.find({at, length});
      if (known.shape == nullptr && shapes_.worth_learning()) known = learn({at, length});
    }
    const std::string_view text(at, length);
    const char* next = at + length < end ? at + length + 1 : end;
    if (known.shape != nullptr) {
      if (run < at) search({run, static_cast<std::size_t>(at - run)}, run_number, take);
      run = next;
      run_number = number + 1;
      if (known.places != nullptr || !known.shape->ids.empty())
        take({number, text, known.shape->ids, known.places});
    }
    at = next;
  }
  if (run < end) search({run, static_cast<std::size_t>(end - run)}, run_number, take);
  return number;
}

std::uint64_t LineSieve::search(std::string_view run, std::uint64_t number, const Take& take) {
  return patterns_->scan(run, scratch_, [&](std::uint64_t place, std::string_view text, auto ids) {
    take({number + place, text, ids, nullptr});
  });
}

LineShapes::Known LineSieve::learn(std::string_view line) {
  if (line.find('\r') != std::string_view::npos) return {};  // several lines in one
  LineShapes::Shape shape;
  shape.text = shapes_.text();
  patterns_->scan(shape.text, scratch_, [&](std::uint64_t, std::string_view, auto ids) {
    shape.ids.assign(ids.begin(), ids.end());
  });
  const auto iteration = std::find(shape.ids.begin(), shape.ids.end(), iteration_);
  if (iteration != shape.ids.end()) {
    if (const auto form = find_step_form(line)) {
      shape.ids.erase(iteration);
      shape.form = *form;
    }
  }
  return shapes_.learn(std::move(shape));
}

}  // namespace stoker::diagnose
