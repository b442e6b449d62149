// A field belongs to a number if it follows when that number changes, and stays when all others do.
#include "diagnose/parse/step_places.hpp"

#include <algorithm>
#include <vector>

#include "diagnose/input/line_scan.hpp"
#include "diagnose/parse/iteration_line.hpp"

namespace stoker::diagnose {

namespace {

constexpr unsigned kRounds = 3;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_fraction(std::string_view line, DigitRun run) {
  return run.begin > 1 && line[run.begin - 1u] == '.' && is_digit(line[run.begin - 2u]);
}

bool all_fit(std::string_view line, std::span<const DigitRun> runs) {
  return std::all_of(runs.begin(), runs.end(), [&](DigitRun run) {
    return run.end - run.begin <=
           static_cast<int>(is_fraction(line, run) ? kLongestFraction : kLongestCount);
  });
}

// The line with each run as short or as long as the shape allows; groups of thousands stay.
std::string stretched(std::string_view line, std::span<const DigitRun> runs, bool longest) {
  std::string other;
  std::size_t done = 0;
  for (const DigitRun run : runs) {
    other += line.substr(done, run.begin - done);
    done = run.end;
    std::size_t length = longest ? is_fraction(line, run) ? kLongestFraction : kLongestCount : 1;
    if (keeps_length(line, run)) length = static_cast<std::size_t>(run.end - run.begin);
    for (std::size_t i = 0; i < length; ++i) other += static_cast<char>('1' + (i * 7 + done) % 9);
  }
  other += line.substr(done);
  return other;
}

// The line with other digits at one place, or at all others.
std::string changed(std::string_view line, NumberPlace place, bool inside, unsigned round) {
  std::string other(line);
  for (std::size_t i = 0; i < other.size(); ++i) {
    const bool in_place = i >= place.at && i < place.at + place.length;
    if (!is_digit(other[i]) || in_place != inside) continue;
    const unsigned digit = static_cast<unsigned>(other[i] - '0');
    const unsigned step = 1 + (round * 3 + static_cast<unsigned>(i) * 7) % 8;
    other[i] = static_cast<char>('1' + (digit + step) % 9);  // never the same, never 0
    if (other[i] == line[i]) other[i] = line[i] == '9' ? '1' : static_cast<char>(line[i] + 1);
  }
  return other;
}

std::optional<StepNumbers> parsed(std::string_view line) {
  std::string storage;
  const auto metrics = parse_iteration_line(without_colours(line, storage));
  if (!metrics) return std::nullopt;
  return step_numbers(*metrics);
}

// Where numbers may begin, with their sign.
std::vector<NumberPlace> numbers_of(std::string_view line, bool count) {
  std::vector<NumberPlace> all;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (!is_digit(line[i]) || (i > 0 && is_digit(line[i - 1]))) continue;
    std::size_t end = i;
    while (end < line.size() && is_digit(line[end])) ++end;
    if (!count) {
      if (i > 0 && line[i - 1] == '-') --i;
      const auto number = scan_number(line.substr(i));
      if (number) end = i + number->length;
    }
    all.push_back({static_cast<std::uint16_t>(i), static_cast<std::uint16_t>(end - i)});
    i = end - 1;
  }
  return all;
}

template <class T>
T value_at(std::string_view line, NumberPlace place) {
  if constexpr (std::is_same_v<T, double>)
    return real_at(line, {place});
  else
    return count_at(line, place);
}

StepForm::Number number_of(std::string_view line, std::span<const DigitRun> runs,
                           NumberPlace place) {
  StepForm::Number number;
  number.told = true;
  number.minus = line[place.at] == '-';
  for (std::uint16_t i = 0; i < runs.size(); ++i) {
    if (runs[i].end <= place.at + (number.minus ? 1 : 0)) number.first = i + 1u;
    if (runs[i].begin < place.at + place.length) number.last = i;
  }
  std::uint16_t part = number.first;
  const auto between = [&] {
    return part < number.last ? line.substr(runs[part].end, runs[part + 1u].begin - runs[part].end)
                              : std::string_view();
  };
  if (between() == ".") number.point = true, ++part;
  const auto power = between();
  if (power.size() == 2 && (power[0] == 'e' || power[0] == 'E') &&
      (power[1] == '-' || power[1] == '+'))
    number.power = true, ++part;
  number.plain = part == number.last && runs[part].end == place.at + place.length;
  return number;
}

// False: the field is present, but no single number has it.
template <class T>
bool find_number(std::string_view line, const StepNumbers& numbers,
                 std::optional<T> StepNumbers::*field, StepForm::Number& number) {
  const auto& told = numbers.*field;
  if (!told) return true;
  for (const NumberPlace candidate : numbers_of(line, !std::is_same_v<T, double>)) {
    if (value_at<T>(line, candidate) != *told) continue;
    bool good = true;
    for (unsigned round = 0; round < kRounds && good; ++round) {
      const std::string alone = changed(line, candidate, true, round);
      const std::string others = changed(line, candidate, false, round);
      const auto follows = parsed(alone), stays = parsed(others);
      good = follows && stays && (*stays).*field == told &&
             (*follows).*field == std::optional<T>(value_at<T>(alone, candidate));
    }
    if (!good) continue;
    number = number_of(line, digit_runs(line), candidate);
    return true;
  }
  return false;
}

bool holds_for(const StepForm& form, const std::string& line) {
  const auto numbers = parsed(line);
  if (numbers.has_value() != form.is_step) return false;
  return !numbers || *numbers == read_step(form.places(digit_runs(line)), line);
}

}  // namespace

bool keeps_length(std::string_view line, DigitRun run) {
  const bool group_follows =
      run.end + 1u < line.size() && line[run.end] == ',' && is_digit(line[run.end + 1u]);
  const bool is_group =
      run.begin > 1 && line[run.begin - 1u] == ',' && is_digit(line[run.begin - 2u]);
  return group_follows || is_group;
}

std::vector<DigitRun> digit_runs(std::string_view line) {
  std::vector<DigitRun> runs;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (!is_digit(line[i])) continue;
    const std::size_t begin = i;
    while (i < line.size() && is_digit(line[i])) ++i;
    runs.push_back({static_cast<std::uint16_t>(begin), static_cast<std::uint16_t>(i)});
  }
  return runs;
}

StepPlaces StepForm::places(std::span<const DigitRun> runs) const {
  const auto length = [&](std::size_t run) {
    return static_cast<std::size_t>(runs[run].end - runs[run].begin);
  };
  const auto place = [&](const Number& number) {
    RealPlace real;
    if (!number.told) return real;
    const auto begin = runs[number.first].begin - (number.minus ? 1 : 0);
    real.at = static_cast<std::uint16_t>(begin);
    real.length = static_cast<std::uint16_t>(runs[number.last].end - begin);
    const std::size_t whole = length(number.first);
    const std::size_t fraction = number.point ? length(number.first + 1u) : 0;
    const std::size_t power = number.power ? length(number.last) : 0;
    if (!number.plain || whole > kMostDigits || fraction > kMostFraction || power > kMostPower)
      return real;
    real.whole = static_cast<std::uint8_t>(whole);
    real.fraction = static_cast<std::uint8_t>(fraction);
    real.power = static_cast<std::uint8_t>(power);
    return real;
  };
  return {place(iteration), place(skipped),    place(nan),
          place(loss),      place(loss_scale), place(grad_norm)};
}

std::optional<StepForm> find_step_form(std::string_view line) {
  const auto runs = digit_runs(line);
  if (!all_fit(line, runs)) return std::nullopt;
  StepForm form;
  const auto numbers = parsed(line);
  form.is_step = numbers.has_value();
  if (numbers && (!find_number(line, *numbers, &StepNumbers::iteration, form.iteration) ||
                  !find_number(line, *numbers, &StepNumbers::loss, form.loss) ||
                  !find_number(line, *numbers, &StepNumbers::loss_scale, form.loss_scale) ||
                  !find_number(line, *numbers, &StepNumbers::grad_norm, form.grad_norm) ||
                  !find_number(line, *numbers, &StepNumbers::skipped, form.skipped) ||
                  !find_number(line, *numbers, &StepNumbers::nan, form.nan)))
    return std::nullopt;
  for (unsigned round = 0; round < kRounds; ++round)
    if (!holds_for(form, changed(line, {}, false, round))) return std::nullopt;
  if (!holds_for(form, stretched(line, runs, false)) ||
      !holds_for(form, stretched(line, runs, true)))
    return std::nullopt;
  return form;
}

StepNumbers read_step(const StepPlaces& places, std::string_view line) {
  const auto count = [line](NumberPlace place) {
    return place.length > 0 ? std::optional(count_at(line, place)) : std::nullopt;
  };
  const auto real = [line](const RealPlace& place) {
    return place.length > 0 ? std::optional(real_at(line, place)) : std::nullopt;
  };
  return {count(places.iteration), real(places.loss),     real(places.loss_scale),
          real(places.grad_norm),  count(places.skipped), count(places.nan)};
}

}  // namespace stoker::diagnose
