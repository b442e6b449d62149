// Iteration lines as their programs print them (captured; public sources in the comments).
#include "diagnose/parse/iteration_line.hpp"

#include <cmath>
#include <doctest/doctest.h>

#include "diagnose/parse/user_pattern.hpp"

using namespace stoker;
using namespace stoker::diagnose;

TEST_CASE("iteration line: Megatron-DeepSpeed with a rank prefix -> every field") {
  // bigscience, train/tr11-176B-ml/chronicles.md
  const auto m = parse_iteration_line(
      " [default7]: iteration    12695/  115311 | consumed samples:      9841584 | consumed "
      "tokens: "
      " 20155564032 | elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | global "
      "batch size:  2048 | lm loss: 2.463556E+00 | loss scale: 1.0 | grad norm: 0.174 | num zeros: "
      "0.0 | params norm: 12.5 | curriculum seqlen:  2048 | number of skipped iterations:   1 | "
      "number of nan iterations:   2 | samples per second: 19.463 | TFLOPs: 149.02 |");
  REQUIRE(m);
  CHECK(m->iteration == 12695);
  CHECK(m->total == 115311);
  CHECK(m->consumed_samples == 9841584);
  CHECK(m->consumed_tokens == 20155564032);
  CHECK(*m->elapsed_ms == doctest::Approx(105220));
  CHECK(m->lr == 5.969e-05);
  CHECK(m->global_batch_size == 2048);
  CHECK(m->loss == 2.463556);
  CHECK(m->loss_scale == 1.0);
  CHECK(m->grad_norm == 0.174);
  CHECK(m->num_zeros == 0.0);
  CHECK(m->params_norm == 12.5);
  CHECK(m->skipped == 1);
  CHECK(m->nan == 2);
  CHECK(m->samples_per_s == 19.463);
  CHECK(m->tflops == 149.02);
  CHECK(m->metrics.at("curriculum seqlen") == 2048);
}

TEST_CASE("iteration line: current Megatron with time stamp and samples -> fields in ms") {
  const auto m = parse_iteration_line(
      " [2025-03-04 00:44:44.441123] iteration       25/73242187 | consumed samples:           50 |"
      " elapsed time per iteration (ms): 87.0 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning "
      "rate: 1.638000E-08 | global batch size:     2 | lm loss: 1.086954E+01 | loss scale: 1.0 | "
      "grad norm: 0.500 | number of skipped iterations:   0 | number of nan iterations:   0 |");
  REQUIRE(m);
  CHECK(m->iteration == 25);
  CHECK(m->elapsed_ms == 87.0);
  CHECK(m->tflops == 412.3);
  CHECK(m->loss == 10.86954);
}

TEST_CASE("iteration line: a skipped iteration -> no loss, no gradient norm, still progress") {
  const auto m = parse_iteration_line(
      "iteration        1/  508626 | consumed samples:          288 | elapsed time per iteration "
      "(ms): 255940.5 | learning rate: 0.000E+00 | global batch size:   288 | loss scale: "
      "4294967296.0 | number of skipped iterations:   1 | number of nan iterations:   0 |");
  REQUIRE(m);
  CHECK_FALSE(m->loss);
  CHECK_FALSE(m->grad_norm);
  CHECK(m->loss_scale == 4294967296.0);
  CHECK(m->skipped == 1);
}

TEST_CASE("iteration line: a loss that is NaN -> kept, and null in JSON") {
  const auto m = parse_iteration_line(
      "iteration 7/ 10 | learning rate: 1.0E-04 | lm loss: NAN | grad norm: nan |");
  REQUIRE(m);
  REQUIRE(m->loss);
  CHECK(std::isnan(*m->loss));
  CHECK_FALSE(m->grad_norm);
  const Json json = to_parse_json(*m, "a.log", 3);
  CHECK(json.at("loss").is_null());
  CHECK_FALSE(json.contains("grad_norm"));
  CHECK(json.at("line") == 3);
}

TEST_CASE("iteration line: two records torn into one line -> the first one's fields only") {
  const auto m = parse_iteration_line(
      "iteration 7/ 10 | learning rate: 1.0E-04 | lm loiteration 8/ 10 | lm loss: 3.0E+00 | iter"
      "ation 9/ 10 | lm loss: 4.0E+00 |");
  REQUIRE(m);
  CHECK(m->iteration == 7);
  CHECK(m->lr == 1e-4);
}

TEST_CASE("iteration line: NeMo, IDEFICS -> their own names of loss and batch") {
  const auto nemo = parse_iteration_line(
      "(pretraining, pid=4112) Training epoch 2, iteration 7/999 | lr: 6.897e-06 | "
      "global_batch_size: 512 | global_step: 45 | reduced_train_loss: 11.02 | train_step_timing in "
      "s: 47.12 | consumed_samples: 23552");
  REQUIRE(nemo);
  CHECK(nemo->iteration == 7);
  CHECK(nemo->metrics.at("global_step") == 45);
  CHECK(nemo->loss == 11.02);
  CHECK(*nemo->elapsed_ms == doctest::Approx(47120));
  CHECK(nemo->consumed_samples == 23552);
  const auto idefics = parse_iteration_line(
      "iteration:  2500/500000   0% | elapsed time: 07:41:19 | per_token_loss: 3.1525 | lr: "
      "9.990E-06 | per_example_loss: 15523.8 | global_batch_size_current: 4096 |");
  REQUIRE(idefics);
  CHECK(idefics->iteration == 2500);
  CHECK(idefics->loss == 3.1525);
  CHECK_FALSE(idefics->elapsed_ms);
  CHECK(idefics->metrics.at("per_example_loss") == 15523.8);
}

TEST_CASE("iteration line: DeepSpeed, InternEvo -> pairs") {
  const auto ds = parse_iteration_line(
      "[2023-04-18 01:47:06,590] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=6, "
      "lr=[9.649913847830647e-06, 9.6e-06], mom=[(0.9, 0.95), (0.9, 0.95)]");
  REQUIRE(ds);
  CHECK(ds->iteration == 20);
  CHECK(ds->skipped == 6);
  CHECK(ds->lr == 9.649913847830647e-06);
  CHECK_FALSE(
      parse_iteration_line("[timer.py:260:stop] epoch=0/micro_step=199/global_step=199, "
                           "RunningAvgSamplesPerSec=58.7, CurrSamplesPerSec=61.35"));
  const auto intern = parse_iteration_line(
      "2023-11-10T15:06:02.978+08:00 INFO [training_internlm.py, line 601, in record] - pid=78690 "
      ": "
      "tflops=115.41 step=1 loss=11.33798599243164 tgs (tokens/gpu/second)=931.02 lr=6.0e-07 "
      "loss_scale=65536.0 grad_norm={'0_default': 90.85, '1_fp32': 0.0} num_consumed_tokens=131072 "
      "loss/cn=nan");
  REQUIRE(intern);
  CHECK(intern->iteration == 1);
  CHECK(intern->loss == 11.33798599243164);
  CHECK(intern->grad_norm == 90.85);
  CHECK(intern->consumed_tokens == 131072);
}

TEST_CASE("iteration line: Trainer dicts -> loss without an iteration; summaries are none") {
  const auto hf = parse_iteration_line("{'loss': 1.75, 'learning_rate': 2e-05, 'epoch': 0.04}");
  REQUIRE(hf);
  CHECK(hf->loss == 1.75);
  CHECK(hf->lr == 2e-05);
  CHECK(hf->metrics.at("epoch") == 0.04);
  CHECK_FALSE(hf->iteration);
  const auto text =
      parse_iteration_line("{'loss': '1.75', 'grad_norm': '0.9', 'learning_rate': '2e-05'}");
  REQUIRE(text);
  CHECK(text->grad_norm == 0.9);
  const auto json = parse_iteration_line(R"([0] {"step": 12, "loss": 2.5, "note": "a, b"})");
  REQUIRE(json);
  CHECK(json->iteration == 12);
  CHECK_FALSE(parse_iteration_line("{'train_runtime': 12.0, 'train_loss': 1.5, 'epoch': 3.0}"));
  CHECK_FALSE(parse_iteration_line("{'eval_loss': 1.5, 'eval_runtime': 2.0, 'epoch': 3.0}"));
  const auto eval = parse_validation_line("{'eval_loss': 1.5, 'eval_runtime': 2.0, 'epoch': 3.0}");
  REQUIRE(eval);
  CHECK(eval->loss == 1.5);
}

TEST_CASE("iteration line: torchtitan with colours, nanoGPT, llm.c -> words") {
  const auto titan = parse_iteration_line(
      "1: 2025-03-04 00:44:44,441 - root - INFO - \x1b[36mstep: 1990  \x1b[32mloss:  3.4370  "
      "\x1b[33mmemory: 68.57GiB(86.69%)  \x1b[34mtps: 6,785  \x1b[35mmfu: 39.73%\x1b[39m");
  REQUIRE(titan);
  CHECK(titan->iteration == 1990);
  CHECK(titan->loss == 3.437);
  CHECK(titan->metrics.at("tokens_per_s_per_gpu") == 6785);
  CHECK(titan->metrics.at("mfu") == 39.73);
  CHECK(titan->metrics.at("memory_gib") == 68.57);
  const auto nano = parse_iteration_line("iter 10: loss 9.8041, time 250.12ms, mfu 17.20%");
  REQUIRE(nano);
  CHECK(nano->iteration == 10);
  CHECK(nano->elapsed_ms == 250.12);
  const auto fast =
      parse_iteration_line("step:2/6200 train_loss:8.6834 train_time:75965ms step_avg:nanms");
  REQUIRE(fast);
  CHECK(fast->iteration == 2);
  CHECK(fast->total == 6200);
  CHECK(fast->loss == 8.6834);
  CHECK_FALSE(fast->elapsed_ms);
  const auto llmc = parse_iteration_line("step 1: train loss 4.301069 (took 1288.673000 ms)");
  REQUIRE(llmc);
  CHECK(llmc->loss == 4.301069);
  CHECK(llmc->elapsed_ms == 1288.673);
  const auto gpu = parse_iteration_line(
      "step   50/18865 | loss 5.803710 (-0.18z)| norm 1.2341 (+0.51z)| lr 5.00e-05 | 200.40 ms | "
      "45.2% bf16 MFU | 261632 tok/s");
  REQUIRE(gpu);
  CHECK(gpu->iteration == 50);
  CHECK(gpu->total == 18865);
  CHECK(gpu->loss == 5.80371);
  CHECK(gpu->grad_norm == 1.2341);
  CHECK(gpu->elapsed_ms == 200.4);
  CHECK(gpu->metrics.at("tokens_per_s") == 261632);
}

TEST_CASE("iteration line: lines that only mention an iteration or a loss -> none") {
  for (const char* line :
       {"saving checkpoint at iteration     200 to checkpoints/x",
        "  successfully saved checkpoint at iteration     200 to checkpoints/x",
        "exiting program at iteration 200", "time (ms) | forward: 35494.41 | backward: 93053.38",
        " validation loss at iteration 1000 | lm loss value: 2.3E+00 | lm loss PPL: 1.0E+01 | ",
        "step:0/6200 val_loss:10.9264 train_time:285ms step_avg:nanms",
        "step 1000: train loss 3.4000, val loss 3.5000", "", "|", "iteration", "iteration 5",
        "step=", "{'loss'", "{'loss':", "step 99999999999999999999999 loss 1",
        "slurmstepd: error: *** STEP 1.0 ON n01 CANCELLED ***"})
    CHECK_MESSAGE(!parse_iteration_line(line), line);
}

TEST_CASE("validation line: Megatron, nanoGPT, speed-run, llm.c -> iteration, data set, loss") {
  const auto a = parse_validation_line(
      "[default7]:valid loss at iteration 45000 | lm loss value: 2.327091E+00 | lm loss PPL: "
      "1.024808E+01 |");
  REQUIRE(a);
  CHECK(a->iteration == 45000);
  CHECK(a->dataset == "valid");
  CHECK(a->loss == 2.327091);
  CHECK(a->ppl == 10.24808);
  const auto b = parse_validation_line("step 1000: train loss 3.4000, val loss 3.5000");
  REQUIRE(b);
  CHECK(b->iteration == 1000);
  CHECK(b->loss == 3.5);
  const auto c = parse_validation_line("step:0/6200 val_loss:10.9264 train_time:285ms");
  REQUIRE(c);
  CHECK(c->iteration == 0);
  CHECK(c->loss == 10.9264);
  const auto d = parse_validation_line("val loss 5.252026");
  REQUIRE(d);
  CHECK(d->loss == 5.252026);
  CHECK_FALSE(parse_validation_line("the value of this loss 3 is not known"));
}

TEST_CASE("user pattern: one capture each -> metrics; none -> refused by its key") {
  const auto pattern = UserPattern::compile({R"(tick (\d+))", R"(l=([0-9.eE+-]+))"});
  REQUIRE(pattern.has_value());
  const auto m = pattern->parse("tick 41 l=2.5e0");
  REQUIRE(m);
  CHECK(m->iteration == 41);
  CHECK(m->loss == 2.5);
  CHECK_FALSE(pattern->parse("tock 41"));
  CHECK(UserPattern::compile({R"(tick \d+)", ""}).error().object == "watch.progress.iteration");
  CHECK(UserPattern::compile({R"((\d+))", "(("}).error().object == "watch.progress.loss");
}

TEST_CASE("iteration line: DeepSpeed's pipeline engine and fairseq's pairs -> their fields") {
  const auto pipe = parse_iteration_line(
      "[rank0]: steps: 100 loss: 5.1234 iter time (s): 1.234 samples/sec: 103.734");
  REQUIRE(pipe);
  CHECK(pipe->iteration == 100);
  CHECK(pipe->loss == 5.1234);
  CHECK(pipe->elapsed_ms == 1234.0);
  CHECK(pipe->samples_per_s == 103.734);
  const auto fairseq = parse_iteration_line(
      "2023-01-01 10:00:00 | INFO | train_inner | epoch 001:    100 / 1374 loss=14.351, "
      "ppl=20899.56, wps=49604, bsz=8563.07, num_updates=190, lr=4.84525e-06, gnorm=3.901, "
      "clip=0.000, loss_scale=0.062, train_wall=945");
  REQUIRE(fairseq);
  CHECK(fairseq->iteration == 190);
  CHECK(fairseq->loss == 14.351);
  CHECK(fairseq->lr == 4.84525e-06);
  CHECK(fairseq->grad_norm == 3.901);
  CHECK(fairseq->loss_scale == 0.062);
  const auto padded = parse_iteration_line("step=  310 loss=nan grad_norm=1.5 lr=1.0e-4");
  REQUIRE(padded);
  CHECK(padded->iteration == 310);
  CHECK(std::isnan(*padded->loss));
}
