// The resume audit: what refuses a start, what only lowers the guarantee, what an older checkpoint
// does not hold. And what "bitwise" depends on, gathered from all ranks.
#include <doctest/doctest.h>
#include <functional>
#include <thread>

#include "recipe/batch_plan.hpp"
#include "recipe/sequence_plan.hpp"
#include "worker/train/checkpoint/audit.hpp"
#include "worker/train/checkpoint/load.hpp"
#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/run/rank_numerics.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

recipe::TrainConfig small_config() {
  recipe::TrainConfig c;
  c.model.layers = 2, c.model.hidden = 32, c.model.heads = 4, c.model.ffn = 64;
  c.model.sequence = 32, c.model.vocabulary = 257;
  c.batch.global = 16;
  c.batch.ramp_up = recipe::RampUp{4, 4, 80};
  c.train.samples = 420;
  c.lr.max = 1e-3, c.lr.min = 1e-4, c.lr.warmup_samples = 40, c.lr.decay_samples = 300;
  return c;
}

AuditFacts facts_of(recipe::TrainConfig config) {
  return {std::move(config),
          0x1234,
          Mesh{1, 1, 2},
          {{"cpu", "one"}, {"ranks", "alike"}},
          "one stage a rank"};
}

struct Saved {
  wire::Manifest manifest;
  Position position;
};

// A checkpoint of iteration 20 by `facts`.
Saved saved_by(const AuditFacts& facts) {
  Saved s;
  const auto plan = recipe::BatchPlan::make(facts.config.batch).value();
  s.position.iteration = Iteration(20);
  s.position.consumed_samples = plan.consumed_after(Iteration(20));
  s.position.consumed_tokens =
      recipe::tokens_after(facts.config, plan, Iteration(20), s.position.consumed_samples);
  s.manifest.iteration = s.position.iteration;
  s.manifest.consumed_samples = s.position.consumed_samples;
  s.manifest.consumed_tokens = s.position.consumed_tokens;
  s.manifest.learning_rate = learning_rate_at(facts.config, s.position);
  s.manifest.numerics = facts.numerics;
  s.manifest.mesh = {{"tp", 1}, {"pp", 1}, {"dp", 2}};
  s.manifest.training = training_facts(facts, s.position);
  return s;
}

wire::ResumeAudit audit_after(const std::function<void(recipe::TrainConfig&)>& change,
                              const std::set<std::string>& accepted = {}) {
  const Saved s = saved_by(facts_of(small_config()));
  recipe::TrainConfig now = small_config();
  change(now);
  return audit_resume("step-000020.g000001", s.manifest, s.position, facts_of(now), accepted);
}

std::string changed(const wire::ResumeAudit& audit) {
  std::string names;
  for (const auto& item : audit.items)
    if (!item.equal) names += (names.empty() ? "" : ", ") + item.what;
  return names;
}

constexpr recipe::Curriculum kCurriculum{8, 32, 30, 8};

recipe::TrainConfig config_with(std::optional<recipe::Curriculum> curriculum) {
  recipe::TrainConfig c = small_config();
  c.train.curriculum = curriculum;
  return c;
}

}  // namespace

TEST_CASE("resume audit: the same configuration -> passed, bitwise") {
  const auto audit = audit_after([](auto&) {});
  CHECK(audit.passed);
  CHECK(audit.guarantee == "bitwise");
  CHECK(changed(audit) == "");
}

TEST_CASE("resume audit: another function of the same parameters -> refused by name") {
  const auto heads = audit_after([](auto& c) { c.model.heads = 8; });
  CHECK_FALSE(heads.passed);
  CHECK(changed(heads) == "model");
  const auto decay = audit_after([](auto& c) { c.lr.decay_samples = 3000; });
  CHECK_FALSE(decay.passed);
  CHECK(changed(decay).find("learning rate schedule") != std::string::npos);
  const auto min = audit_after([](auto& c) { c.lr.min = 5e-4; });
  CHECK_FALSE(min.passed);
  const auto later = audit_after([](auto& c) { c.batch.global = 32; });  // seen only in the future
  CHECK_FALSE(later.passed);
  CHECK(changed(later).find("batch") != std::string::npos);
}

TEST_CASE("resume audit: a change that --accept names -> passed") {
  CHECK(audit_after([](auto& c) { c.model.heads = 8; }, {"model"}).passed);
}

TEST_CASE("resume audit: another micro-batch -> passed, but not bitwise") {
  const auto audit = audit_after([](auto& c) { c.batch.micro = {{std::nullopt, 2}}; });
  CHECK(audit.passed);
  CHECK(audit.guarantee.find("micro batch was 1, is 2") != std::string::npos);
}

TEST_CASE("resume audit: another CPU on one rank -> passed, but not bitwise") {
  const Saved s = saved_by(facts_of(small_config()));
  AuditFacts now = facts_of(small_config());
  now.numerics["ranks"] = "mixed 0123";
  const auto audit = audit_resume("c", s.manifest, s.position, now, {});
  CHECK(audit.passed);
  CHECK(audit.guarantee.find("ranks was \"alike\"") != std::string::npos);
}

TEST_CASE(
    "resume audit: a checkpoint of a build without the newer items -> they are not compared") {
  Saved s = saved_by(facts_of(small_config()));
  for (const char* item : {"model", "learning rate schedule", "batch", "micro batch", "stages"})
    s.manifest.training.erase(item);
  const auto audit = audit_resume("c", s.manifest, s.position, facts_of(small_config()), {});
  CHECK(audit.passed);
  CHECK(audit.guarantee == "bitwise");
}

TEST_CASE("resume audit: a curriculum -> its keys and the tokens it has consumed are compared") {
  const Saved s = saved_by(facts_of(config_with(kCurriculum)));
  CHECK(s.position.consumed_tokens < s.position.consumed_samples * 32);
  const auto with = [&](std::optional<recipe::Curriculum> c, std::set<std::string> accepted = {}) {
    return audit_resume("c", s.manifest, s.position, facts_of(config_with(c)), accepted);
  };
  CHECK(with(kCurriculum).passed);
  CHECK(with(kCurriculum).guarantee == "bitwise");
  CHECK(changed(with({})) == "consumed tokens, curriculum");
  CHECK_FALSE(with({}).passed);
  // A change that shows only later: the same tokens so far.
  recipe::Curriculum later = kCurriculum;
  later.max = 24, later.total = 20;
  CHECK(changed(with(later)).find("curriculum") != std::string::npos);
  CHECK(with({}, {"consumed tokens", "curriculum"}).passed);
  CHECK_FALSE(with({}, {"curriculum"}).passed);
}

TEST_CASE("resume audit: a checkpoint of a build without a curriculum -> one was not in force") {
  Saved s = saved_by(facts_of(small_config()));
  s.manifest.training.erase("curriculum");
  s.manifest.training["position"].erase("consumed_tokens");
  const auto position = position_of(s.manifest);
  REQUIRE(position);
  CHECK(position->consumed_tokens == s.position.consumed_samples * 32);
  CHECK(audit_resume("c", s.manifest, *position, facts_of(small_config()), {}).passed);
  // Also where it would be over by now: the tokens say that none was there.
  recipe::Curriculum early = kCurriculum;
  early.total = 2;
  const auto audit = audit_resume("c", s.manifest, *position, facts_of(config_with(early)), {});
  CHECK(changed(audit) == "consumed tokens, curriculum");
}

TEST_CASE("position: tokens that contradict the manifest -> refused") {
  Saved s = saved_by(facts_of(config_with(kCurriculum)));
  CHECK(position_of(s.manifest).value() == s.position);
  s.manifest.consumed_tokens += 8;
  CHECK(position_of(s.manifest).error().what.find("tokens") != std::string::npos);
}

TEST_CASE("numerics: ranks that are alike, and one with another CPU -> said on every rank") {
  for (const bool mixed : {false, true}) {
    constexpr std::uint32_t kRanks = 3;
    FakeHub hub(Mesh{1, 1, kRanks});
    std::vector<std::map<std::string, std::string>> seen(kRanks);
    std::vector<std::thread> ranks;
    for (std::uint32_t r = 0; r < kRanks; ++r)
      ranks.emplace_back([&, r] {
        FakeComm comm(hub, r);
        const std::map<std::string, std::string> own{{"cpu", mixed && r == 2 ? "other" : "one"}};
        if (auto all = numerics_of_all(comm, own, 60s)) seen[r] = *all;
      });
    for (auto& rank : ranks) rank.join();
    for (const auto& all : seen) {
      REQUIRE(all.contains("ranks"));
      CHECK(all.at("cpu") == "one");
      CHECK((all.at("ranks") == "alike") == !mixed);
      CHECK(all == seen[0]);
    }
  }
}

TEST_CASE("numerics: of this process -> the build's digest; the CPU's model only when native") {
  const auto native = own_numerics({{"blas", "x"}}, recipe::Numerics::Native);
  CHECK(native.at("build").size() == 16);
  CHECK(native.contains("cpu"));
  CHECK_FALSE(own_numerics({}, recipe::Numerics::Portable).contains("cpu"));
}
