// Which checkpoints count: names, ancestry, and writers of generations that were given up.
#include "wire/lineage.hpp"

#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::wire;

TEST_CASE("lineage: a child resumes at 80 -> its parent counts up to 80, a late save at 90 never") {
  const Lineage first = descend({}, Iteration(0), Generation(1));
  CHECK(accepts(first, Generation(1), Iteration(1'000'000)));
  const Lineage second = descend(first, Iteration(80), Generation(2));
  CHECK(accepts(second, Generation(1), Iteration(80)));
  CHECK_FALSE(accepts(second, Generation(1), Iteration(90)));
  CHECK(accepts(second, Generation(2), Iteration(90)));
  CHECK_FALSE(accepts(second, Generation(3), Iteration(80)));
}

TEST_CASE("lineage: a rollback behind the parent's start -> bounds only shrink") {
  const Lineage second =
      descend(descend({}, Iteration(0), Generation(1)), Iteration(80), Generation(2));
  const Lineage third = descend(second, Iteration(40), Generation(3));
  CHECK(accepts(third, Generation(1), Iteration(40)));
  CHECK_FALSE(accepts(third, Generation(1), Iteration(60)));
  CHECK_FALSE(accepts(third, Generation(2), Iteration(90)));
  const Lineage scratch = descend(third, Iteration(0), Generation(4));
  CHECK_FALSE(accepts(scratch, Generation(1), Iteration(40)));
}

TEST_CASE("lineage: names of checkpoints and generations -> there and back, strays do not count") {
  CHECK(checkpoint_name(Iteration(123), Generation(17)) == "step-000123.g000017");
  CHECK(parse_checkpoint_name("step-000123.g000017") ==
        CheckpointId{Iteration(123), Generation(17)});
  CHECK(parse_checkpoint_name("step-12345678.g000017")->iteration == Iteration(12345678));
  for (const char* stray :
       {"step-000123", "step-000123.g000017.orig", "step-123.g17", "global_step9",
        "step--00123.g000017", "pruned.step-000123.g000017", "step-000123.g99999999999"})
    CHECK_FALSE_MESSAGE(parse_checkpoint_name(stray).has_value(), std::string(stray));
  CHECK(parse_generation_name(generation_name(Generation(42))) == Generation(42));
  CHECK_FALSE(parse_generation_name("gen-42").has_value());
}
