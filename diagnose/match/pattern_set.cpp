// The one place that touches Vectorscan: it sees expressions in the form of block_expression.hpp,
// RE2 sees them as they are.
#include "diagnose/match/pattern_set.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <hs/hs.h>
#include <limits>
#include <mutex>
#include <re2/re2.h>

#include "common/check.hpp"
#include "diagnose/match/block_expression.hpp"

namespace stoker::diagnose {

namespace {

RE2::Options options() {
  RE2::Options o;
  o.set_log_errors(false);
  o.set_encoding(RE2::Options::EncodingLatin1);  // logs are bytes
  return o;
}

}  // namespace

struct PatternSet::Compiled {
  // Made at the first line that may match; any thread.
  struct Expression {
    explicit Expression(std::string expression) : text(std::move(expression)) {}
    const std::string text;
    std::once_flag once;
    std::unique_ptr<RE2> re;
    std::vector<std::string> group_names;  // by group, "" = unnamed

    const RE2& made() {
      std::call_once(once, [this] {
        re = std::make_unique<RE2>(text, options());
        group_names.resize(static_cast<std::size_t>(std::max(re->NumberOfCapturingGroups(), 0)) +
                           1);
        for (const auto& [group, name] : re->CapturingGroupNames())
          group_names[static_cast<std::size_t>(group)] = name;
      });
      return *re;
    }
  };

  hs_database_t* database = nullptr;
  std::deque<Expression> expressions;
  bool digits_alike = true;
  ~Compiled() { hs_free_database(database); }
};

struct PatternSet::Scratch::State {
  hs_scratch_t* memory = nullptr;
  ~State() { hs_free_scratch(memory); }
};

namespace {

// Of another CPU or version it is refused.
hs_database_t* restored(const std::optional<std::string>& bytes) {
  hs_database_t* database = nullptr;
  if (!bytes || hs_deserialize_database(bytes->data(), bytes->size(), &database) != HS_SUCCESS)
    return nullptr;
  return database;
}

void keep(const PatternCache& cache, const std::string& key, const hs_database_t* database) {
  char* bytes = nullptr;
  std::size_t size = 0;
  if (hs_serialize_database(database, &bytes, &size) != HS_SUCCESS) return;
  cache.store(key, {bytes, size});
  std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc): the library's allocator is malloc
}

}  // namespace

PatternSet::PatternSet(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
PatternSet::PatternSet(PatternSet&&) noexcept = default;
PatternSet& PatternSet::operator=(PatternSet&&) noexcept = default;
PatternSet::~PatternSet() = default;

PatternSet::Scratch::Scratch(const PatternSet& set) : state_(std::make_unique<State>()) {
  const auto made = hs_alloc_scratch(set.compiled_->database, &state_->memory);
  STOKER_CHECK(made == HS_SUCCESS, "hs_alloc_scratch");
}
PatternSet::Scratch::Scratch(Scratch&&) noexcept = default;
PatternSet::Scratch::~Scratch() = default;

Result<PatternSet> PatternSet::compile(const std::vector<std::string>& expressions,
                                       const PatternCache* cache) {
  auto compiled = std::make_unique<Compiled>();
  std::vector<std::string> plain;
  for (const std::string& expression : expressions) {
    compiled->expressions.emplace_back(expression);
    auto block = block_expression(expression);
    compiled->digits_alike &= block.digits_alike;
    plain.push_back(std::move(block.text));
  }
  const std::string key = cache == nullptr ? "" : pattern_key(expressions);
  if (cache != nullptr) compiled->database = restored(cache->load(key));
  if (compiled->database != nullptr) return PatternSet(std::move(compiled));

  for (std::size_t i = 0; i < expressions.size(); ++i) {
    const RE2& re = compiled->expressions[i].made();
    if (!re.ok()) return fail("not an expression: " + re.error(), expressions[i]);
  }
  std::vector<const char*> texts;
  std::vector<unsigned> flags, ids;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    texts.push_back(plain[i].c_str());
    flags.push_back(HS_FLAG_ALLOWEMPTY);
    ids.push_back(static_cast<unsigned>(i));
  }
  hs_compile_error_t* error = nullptr;
  const auto made =
      hs_compile_multi(texts.data(), flags.data(), ids.data(), static_cast<unsigned>(texts.size()),
                       HS_MODE_BLOCK, nullptr, &compiled->database, &error);
  if (made != HS_SUCCESS) {
    const bool named = error != nullptr && error->expression >= 0;
    auto refused = fail(std::string("not an expression for Vectorscan: ") +
                            (error != nullptr ? error->message : "unknown"),
                        named ? expressions[static_cast<std::size_t>(error->expression)] : "");
    hs_free_compile_error(error);
    return refused;
  }
  if (cache != nullptr) keep(*cache, key, compiled->database);
  return PatternSet(std::move(compiled));
}

namespace {

// Follows the matches through the block: they come in the order of their ends.
struct LineWalk {
  std::string_view block;
  const PatternSet::Hit& hit;
  std::size_t line_begin = 0, line_end = 0;  // of the line with pending hits
  std::uint64_t number = 0;                  // its number
  std::vector<unsigned> pending;

  std::size_t end_of_line(std::size_t from) const {
    const auto newline = block.find('\n', from);
    return newline == std::string_view::npos ? block.size() : newline;
  }
  void flush() {
    if (pending.empty()) return;
    std::sort(pending.begin(), pending.end());
    hit(number, block.substr(line_begin, line_end - line_begin), pending);
    pending.clear();
  }
  void match(unsigned id, std::size_t end) {
    const std::size_t inside = end == 0 ? 0 : end - 1;  // the last byte that matched
    if (pending.empty() || inside > line_end) {
      flush();
      const auto before = inside == 0 ? std::string_view::npos : block.rfind('\n', inside - 1);
      const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
      number += newlines_between(line_begin, begin);
      line_begin = begin;
      line_end = end_of_line(inside);
    }
    if (std::find(pending.begin(), pending.end(), id) == pending.end()) pending.push_back(id);
  }
  std::uint64_t newlines_between(std::size_t from, std::size_t to) const {
    return static_cast<std::uint64_t>(std::count(block.begin() + static_cast<std::ptrdiff_t>(from),
                                                 block.begin() + static_cast<std::ptrdiff_t>(to),
                                                 '\n'));
  }
};

int on_match(unsigned id, unsigned long long, unsigned long long to, unsigned, void* context) {
  static_cast<LineWalk*>(context)->match(id, static_cast<std::size_t>(to));
  return 0;
}

}  // namespace

std::uint64_t PatternSet::scan(std::string_view block, Scratch& scratch, const Hit& hit) const {
  STOKER_CHECK(block.size() <= std::numeric_limits<unsigned>::max(), "block too large");
  LineWalk walk{block, hit, 0, 0, 0, {}};
  const auto done = hs_scan(compiled_->database, block.data(), static_cast<unsigned>(block.size()),
                            0, scratch.state_->memory, on_match, &walk);
  STOKER_CHECK(done == HS_SUCCESS, "hs_scan");
  walk.flush();
  const bool open = !block.empty() && block.back() != '\n';
  return walk.number + walk.newlines_between(walk.line_begin, block.size()) + (open ? 1 : 0);
}

bool PatternSet::digits_alike() const {
  return compiled_->digits_alike;
}

bool PatternSet::match(unsigned which, std::string_view line, std::vector<Group>& groups) const {
  auto& expression = compiled_->expressions.at(which);
  const RE2& re = expression.made();
  const auto& names = expression.group_names;
  std::vector<re2::StringPiece> found(names.size());
  const re2::StringPiece text(line.data(), line.size());
  if (!re.Match(text, 0, text.size(), RE2::UNANCHORED, found.data(),
                static_cast<int>(found.size())))
    return false;
  groups.assign(1, {"", {found[0].data(), found[0].size()}});
  for (std::size_t i = 1; i < names.size(); ++i)
    if (!names[i].empty() && found[i].data() != nullptr)
      groups.push_back({names[i], {found[i].data(), found[i].size()}});
  return true;
}

}  // namespace stoker::diagnose
