// Lines as their programs print them: nanotron, Lightning, NeMo, MLPerf, Composer.
#include "diagnose/parse/progress_forms.hpp"

#include <doctest/doctest.h>

#include "diagnose/input/parse_file.hpp"
#include "diagnose/parse/iteration_line.hpp"

using namespace stoker;
using namespace stoker::diagnose;

TEST_CASE("iteration line: nanotron with shortened numbers -> numbers") {
  const auto m = parse_iteration_line(
      "12/05/2023 19:21:45 [INFO|DP=0|PP=0|TP=0|n01]: iteration: 7 / 1000 | consumed_tokens: 4.1K "
      "| "
      "elapsed_time_per_iteration_ms: 2.83K | tokens_per_sec: 1.45K | global_batch_size: 16 | "
      "lm_loss: 5.55 | lr: 0.00015 | model_tflops_per_gpu: 115 | grad_norm: 0.56 |");
  REQUIRE(m);
  CHECK(m->iteration == 7);
  CHECK(m->total == 1000);
  CHECK(m->consumed_tokens == 4100);
  CHECK(m->elapsed_ms == doctest::Approx(2830));
  CHECK(m->loss == 5.55);
  CHECK(m->lr == 0.00015);
  CHECK(m->tflops == 115);
  CHECK(m->grad_norm == 0.56);
  CHECK(m->global_batch_size == 16);
}

TEST_CASE("iteration line: progress bars of NeMo and Lightning -> step, loss and total") {
  const auto nemo = parse_iteration_line(
      "Epoch 0: :   1%|          | 5/500 [00:35<57:42, v_num=, reduced_train_loss=10.90, "
      "global_step=4.000, consumed_samples=1280.0, train_step_timing in s=5.95]");
  REQUIRE(nemo);
  CHECK(nemo->iteration == 4);
  CHECK(nemo->total == 500);
  CHECK(nemo->loss == 10.90);
  CHECK(nemo->consumed_samples == 1280);
  CHECK(nemo->elapsed_ms == doctest::Approx(5950));
  const auto lightning = parse_iteration_line(
      "Epoch 2:  10%|█         | 100/1000 [00:10<01:30, 10.0it/s, v_num=0, train_loss=2.31]");
  REQUIRE(lightning);
  CHECK(lightning->iteration == 2100);  // an epoch has 1,000 batches
  CHECK_FALSE(lightning->total);
  CHECK(lightning->loss == 2.31);
  const auto last = parse_iteration_line(  // Lightning 2.2.5, max_steps=400
      "Epoch 3:  33%|███▎      | 40/120 [00:01<00:02, 32.10it/s, loss=0.0433]");
  REQUIRE(last);
  CHECK(last->iteration == 400);
  CHECK_FALSE(last->total);
  const auto own = parse_iteration_line(
      "Epoch 1/3:  33%|███▎      | 40/120 [00:01<00:02, 32.10it/s, loss=0.0433]");
  REQUIRE(own);
  CHECK(own->iteration == 40);
  const auto accelerate =
      parse_iteration_line("  2%|▏         | 8/400 [00:00<00:20, 18.98it/s, loss=234.4351]");
  REQUIRE(accelerate);
  CHECK(accelerate->iteration == 8);
  CHECK(accelerate->total == 400);
  CHECK_FALSE(parse_iteration_line(" 45%|████▌     | 723/1602 [2:12:45<2:59:53, 12.28s/it]"));
}

TEST_CASE("iteration line: a loss in front of the bar, or under another trainer's names -> read") {
  // torchtune, LitGPT, LLaMA-Factory, fairseq
  const auto tune =
      parse_iteration_line("1|25|Loss: 0.92:   2%|2         | 25/1000 [01:00<39:00,  2.40s/it]");
  REQUIRE(tune);
  CHECK(tune->iteration == 25);
  CHECK(tune->total == 1000);
  CHECK(tune->loss == 0.92);
  const auto lit = parse_iteration_line(
      "Epoch 1 | iter 100 step 25 | loss train: 2.301, val: n/a | iter time: 301.50 ms (step)");
  REQUIRE(lit);
  CHECK(lit->iteration == 25);
  CHECK(lit->loss == 2.301);
  const auto factory = parse_iteration_line(
      R"({"current_steps": 10, "total_steps": 300, "loss": 1.25, "lr": 1e-05, "epoch": 0.1})");
  REQUIRE(factory);
  CHECK(factory->iteration == 10);
  CHECK(factory->total == 300);
  CHECK(factory->loss == 1.25);
  const auto fairseq = parse_iteration_line(
      R"(| INFO | train_inner | {"epoch": 1, "train_loss": "9.5", "num_updates": "200", "lr": "1e-05"})");
  REQUIRE(fairseq);
  CHECK(fairseq->iteration == 200);
  CHECK(fairseq->loss == 9.5);
}

TEST_CASE(
    "iteration line: MLPerf's train_loss event -> loss, samples and rate; eval -> validation") {
  // mlcommons/training_results_v4.1
  const auto m = parse_iteration_line(
      R"(  0: :::MLLOG {"namespace": "", "time_ms": 1728634295491, "event_type": "POINT_IN_TIME", )"
      R"("key": "train_loss", "value": 2.194765329360962, "metadata": {"file": "x.py", "lineno": 223, )"
      R"("samples_count": 640, "lr": 0.0003499176480626913}})");
  REQUIRE(m);
  CHECK(m->loss == 2.194765329360962);
  CHECK(m->consumed_samples == 640);
  CHECK(m->lr == 0.0003499176480626913);
  const auto eval = parse_validation_line(
      R"(:::MLLOG {"namespace": "", "key": "eval_accuracy", "value": 0.93, "metadata": {}})");
  REQUIRE(eval);
  CHECK(eval->dataset == "eval_accuracy");
  CHECK(eval->loss == 0.93);
  CHECK_FALSE(parse_iteration_line(R"(:::MLLOG {"key": "init_start", "value": null})"));
}

TEST_CASE("parse file: Composer's record over several lines -> one record at its head") {
  std::vector<FoundMetrics> found;
  MetricsReader reader([&](const FoundMetrics& m) { found.push_back(m); });
  for (const char* line :
       {"started", "[epoch=0][batch=10/4800]:", "\t Train time/batch: 9",
        "\t Train loss/train/total: 10.3421", "\t Train metrics/train/Perplexity: 31000.5",
        "\t Train lr-DecoupledAdamW/group0: 0.0001", "\t Eval metrics/eval/CE: 1.0",
        "[epoch=0][batch=11/4800]:", "\t Train loss/train/total: 10.1"})
    reader.line(line);
  reader.finish();
  REQUIRE(found.size() == 2);
  CHECK(found[0].line == 2);
  const auto& first = std::get<IterationMetrics>(found[0].found);
  CHECK(first.iteration == 10);
  CHECK(first.total == 4800);
  CHECK(first.loss == 10.3421);
  CHECK(first.lr == 0.0001);
  CHECK(first.metrics.at("metrics/train/Perplexity") == 31000.5);
  CHECK(std::get<IterationMetrics>(found[1].found).loss == 10.1);
}
