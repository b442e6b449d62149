// A shape is searched in its text with '0' for each digit: there the expressions that may match any
// line of the shape are found, because they tell no digit from another.
#include "diagnose/line_sieve.hpp"

#include <cstring>

namespace stoker::diagnose {

std::uint64_t LineSieve::block(std::string_view block, const Take& take) {
  if (!learns_ || !patterns_->digits_alike()) {
    std::uint64_t lines = 0;
    lines = patterns_->scan(block, scratch_,
                            [&](std::uint64_t number, std::string_view text, auto ids) {
                              take({number, text, ids, nullptr});
                            });
    return lines;
  }
  const char* const end = block.data() + block.size();
  const char* run = block.data();  // of lines that must be searched
  std::uint64_t number = 0, run_number = 0;
  for (const char* at = block.data(); at < end; ++number) {
    const void* newline = std::memchr(at, '\n', static_cast<std::size_t>(end - at));
    const char* stop = newline != nullptr ? static_cast<const char*>(newline) : end;
    const char* next = newline != nullptr ? stop + 1 : end;
    const std::string_view text(at, static_cast<std::size_t>(stop - at));
    const LineShapes::Shape* shape = nullptr;
    if (text.size() <= LineShapes::kLongest) {
      const std::uint64_t hash = LineShapes::hash(text);
      shape = shapes_.find(text, hash);
      if (shape == nullptr && shapes_.worth_learning(hash)) shape = learn(text, hash);
    }
    if (shape != nullptr) {
      if (run < at) search({run, static_cast<std::size_t>(at - run)}, run_number, take);
      run = next;
      run_number = number + 1;
      if (shape->is_step || !shape->ids.empty())
        take({number, text, shape->ids, shape->is_step ? &shape->places : nullptr});
    }
    at = next;
  }
  if (run < end) search({run, static_cast<std::size_t>(end - run)}, run_number, take);
  return number;
}

void LineSieve::search(std::string_view run, std::uint64_t number, const Take& take) {
  patterns_->scan(run, scratch_, [&](std::uint64_t place, std::string_view text, auto ids) {
    take({number + place, text, ids, nullptr});
  });
}

const LineShapes::Shape* LineSieve::learn(std::string_view line, std::uint64_t hash) {
  if (line.find('\r') != std::string_view::npos) return nullptr;  // several lines in one
  LineShapes::Shape shape;
  shape.text = LineShapes::shape_text(line);
  patterns_->scan(shape.text, scratch_, [&](std::uint64_t, std::string_view, auto ids) {
    shape.ids.assign(ids.begin(), ids.end());
  });
  const auto iteration = std::find(shape.ids.begin(), shape.ids.end(), iteration_);
  if (iteration != shape.ids.end()) {
    if (const auto form = find_step_form(line)) {
      shape.ids.erase(iteration);
      shape.is_step = form->is_step;
      shape.places = form->places;
    }
  }
  return shapes_.learn(std::move(shape), hash);
}

}  // namespace stoker::diagnose
