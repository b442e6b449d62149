// The trace of a step: its rows, its times, the files of several ranks put together; and that what
// an executor did is what the schedule says, in its order.
#include "worker/train/run/trace.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <map>
#include <thread>

#include "common/json.hpp"
#include "common/os/files.hpp"
#include "recipe/schedule/generators.hpp"
#include "recipe/schedule/passes.hpp"
#include "tests/folder.hpp"
#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/command/trace_command.hpp"
#include "worker/train/executor/executor.hpp"

using namespace stoker;
using namespace stoker::train;
using recipe::ScheduleKind;

namespace {

Trace opened(const std::string& file, std::uint32_t rank, Mesh mesh,
             std::optional<TraceRange> range = {}, const std::string& start = "r.1.1") {
  auto trace = Trace::open({file, range}, {rank, mesh, "n01", start});
  REQUIRE_MESSAGE(trace, trace.error().message());
  return std::move(*trace);
}

Json read(const std::string& path) {
  const auto text = os::read_file(path);
  REQUIRE_MESSAGE(text, text.error().message());
  return parse_json(*text, path).value();
}

using Rows = std::map<int, std::vector<Json>>;  // complete events of one rank, by row

std::map<std::uint32_t, Rows> rows_of(const Json& trace) {
  std::map<std::uint32_t, Rows> ranks;
  for (const Json& e : trace.at("traceEvents"))
    if (e.at("ph") == "X") ranks[e.at("pid")][e.at("tid")].push_back(e);
  return ranks;
}

// Computes nothing; what a schedule moves through it are activations of 8 bytes.
struct NoModel final : Model {
  [[nodiscard]] std::size_t activation_bytes(const MicroBatch&) const override { return 8; }
  Result<double> forward(Unit, const MicroBatch&, const Activation&, Activation& out) override {
    out.assign(8, 'a');
    return 0.5;
  }
  Status backward(Unit, double, const Activation&, Activation& down) override {
    down.assign(8, 'g');
    return ok();
  }
  Status input_gradient(Unit u, double s, const Activation& up, Activation& down) override {
    return backward(u, s, up, down);
  }
  Status weight_gradient(Unit) override { return ok(); }
  Result<double> evaluate(Unit u, const MicroBatch& b, const Activation& in,
                          Activation& out) override {
    return forward(u, b, in, out);
  }
};

// One traced iteration on every rank of a pipeline.
void run_traced(const recipe::PipelineSchedule& lowered, Mesh mesh, const std::string& file) {
  FakeHub hub(mesh);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < mesh.world(); ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      Trace trace = opened(file, r, mesh);
      CHECK(trace.plan(Iteration(1), Iteration(1)));
      NoModel model;
      trace.begin(Iteration(1));
      const auto loss = run_schedule(
          {lowered, comm, 10s, 0.5}, model,
          {[](std::uint32_t m) -> Result<MicroBatch> {
             return MicroBatch{{m}, {0, 0}};
           },
           [&] { trace.op_ends(); }, [](std::uint32_t) { return ok(); }, [] { return ok(); },
           [&](const recipe::PipelineOp& op) { trace.op_begins(op); }});
      CHECK(loss);
      trace.end(Iteration(1));
    });
  for (auto& thread : threads) thread.join();
}

// Of one row: none begins before the one before has ended.
void check_apart(const std::vector<Json>& row) {
  for (std::size_t i = 1; i < row.size(); ++i) {
    const double end = row[i - 1].at("ts").get<double>() + row[i - 1].at("dur").get<double>();
    CHECK(row[i].at("ts").get<double>() >= end - 0.002);  // times are written in whole nanoseconds
  }
}

}  // namespace

TEST_CASE("trace: every schedule on 4 ranks -> its operations in its order, rows without overlap") {
  for (const ScheduleKind kind :
       {ScheduleKind::GPipe, ScheduleKind::OneFOneB, ScheduleKind::Interleaved, ScheduleKind::ZbH1,
        ScheduleKind::ZbV}) {
    INFO(name_of(kind));
    const stoker::testing::Folder folder;
    const std::string file = folder / "step.json";
    const std::uint32_t chunks = kind == ScheduleKind::Interleaved ? 2 : 1;
    const auto lowered =
        recipe::lower(recipe::make_schedule({kind, 4, chunks, 8}).value(), true).value();
    run_traced(lowered, {1, 4, 1}, file);
    const auto text = merge_traces({file, false});
    REQUIRE_MESSAGE(text, text.error().message());
    CHECK(text->find("4 ranks; open it with Perfetto") != std::string::npos);
    const Json merged = read(file);
    auto ranks = rows_of(merged);
    REQUIRE(ranks.size() == 4);
    for (auto& [rank, rows] : ranks) {
      std::vector<std::pair<double, std::string>> seen;
      for (const auto& [row, events] : rows) {
        check_apart(events);
        for (const Json& e : events)
          if (e.at("cat") == "operation") seen.emplace_back(e.at("ts"), e.at("name"));
      }
      std::stable_sort(seen.begin(), seen.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      std::vector<std::string> names, want;
      for (const auto& [at, name] : seen) names.push_back(name);
      for (const auto& op : lowered.ranks[rank]) want.push_back(op.text());
      CHECK(names == want);
    }
    // Each arrow begins at one send and ends at one receive.
    std::map<std::string, int> arrows;
    for (const Json& e : merged.at("traceEvents")) {
      if (e.at("ph") == "s") arrows[e.at("id")] += 1;
      if (e.at("ph") == "f") arrows[e.at("id")] += 100;
    }
    CHECK(arrows.size() >= 2 * 3 * 8);
    for (const auto& arrow : arrows) CHECK_MESSAGE(arrow.second == 101, arrow.first);
  }
}

TEST_CASE("trace: a range, the default, what this start does not make -> planned") {
  const stoker::testing::Folder folder;
  const auto planned = [&](std::optional<TraceRange> range, std::uint64_t next,
                           std::uint64_t last) {
    Trace trace = opened(folder / "t.json", 0, {}, range);
    if (!trace.plan(Iteration(next), Iteration(last))) return std::string("none");
    return fmt::format("{}-{}", trace.range()->first.value, trace.range()->last.value);
  };
  CHECK(planned({}, 11, 20) == "12-12");
  CHECK(planned({}, 20, 20) == "20-20");
  CHECK(planned(parse_trace_range("12-15").value(), 11, 20) == "12-15");
  CHECK(planned(parse_trace_range("9-12").value(), 11, 20) == "11-12");
  CHECK(planned(parse_trace_range("19-40").value(), 11, 20) == "19-20");
  CHECK(planned(parse_trace_range("3").value(), 11, 20) == "none");
  CHECK(planned(parse_trace_range("21-22").value(), 11, 20) == "none");
  for (const char* bad : {"", "0", "x", "3-", "5-4", "-3", "3-4-5", "3 ", "99999999999999999999"})
    CHECK_MESSAGE(!parse_trace_range(bad), bad);
}

TEST_CASE("trace: only the range is recorded, with calls, spans and bytes") {
  const stoker::testing::Folder folder;
  const std::string file = folder / "t.json";
  Trace trace = opened(file, 0, {}, TraceRange{Iteration(2), Iteration(3)});
  REQUIRE(trace.plan(Iteration(1), Iteration(9)));
  for (std::uint64_t i = 1; i <= 5; ++i) {
    trace.begin(Iteration(i));
    { const TraceSpan span(trace, TraceRow::Collective, "gradients", 4096); }
    trace.end(Iteration(i));
  }
  trace.finish();
  auto rows = rows_of(read(file)).at(0);
  REQUIRE(rows[static_cast<int>(TraceRow::Iteration)].size() == 2);
  const auto& calls = rows[static_cast<int>(TraceRow::Collective)];
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].at("name") == "gradients");
  CHECK(calls[0].at("args") == Json{{"bytes", 4096}, {"iteration", 2}});
  CHECK(calls[1].at("args").at("iteration") == 3);
}

TEST_CASE(
    "trace: a clock of another boot -> times on rank 0's clock; the same boot -> as they are") {
  const stoker::testing::Folder folder;
  const auto first_ts = [&](double ahead, double boot) {
    const std::string file = folder / "t.json";
    Trace trace = opened(file, 0, {}, TraceRange{Iteration(1), Iteration(1)});
    REQUIRE(trace.plan(Iteration(1), Iteration(1)));
    trace.begin(Iteration(1));
    const Trace::Clock ours = Trace::clock();
    trace.meet({ours.seconds - ahead, boot == 0 ? ours.boot : boot});
    trace.end(Iteration(1));
    trace.finish();
    return rows_of(read(file)).at(0).at(0).at(0).at("ts").get<double>() / 1e6 - ours.seconds;
  };
  CHECK(std::abs(first_ts(5000, 77) + 5000) < 1);
  CHECK(std::abs(first_ts(5000, 0)) < 1);
}

TEST_CASE("trace: what cannot be put together -> one line, and no file") {
  const stoker::testing::Folder folder;
  const std::string file = folder / "t.json";
  const Mesh mesh{1, 1, 3};
  const auto write = [&](std::uint32_t rank, const std::string& start) {
    Trace trace = opened(file, rank, mesh, TraceRange{Iteration(1), Iteration(1)}, start);
    REQUIRE(trace.plan(Iteration(1), Iteration(1)));
    trace.begin(Iteration(1));
    trace.end(Iteration(1));
  };
  const auto says = [&](const std::string& what) {
    const auto merged = merge_traces({file, false});
    REQUIRE_FALSE(merged);
    CHECK_MESSAGE(merged.error().message().find(what) != std::string::npos,
                  merged.error().message());
    CHECK_FALSE(os::exists(file));
  };
  says("there is no trace of several ranks");
  write(0, "r.1.1");
  says("2 of 3 ranks have no trace here");
  write(1, "r.1.1");
  write(2, "r.1.2");
  says("t.rank0002.json: is of another start than rank 0's");
  folder.write("t.rank0002.json", "{}");
  says("line 1 is not what --trace writes");
  write(2, "r.1.1");
  const std::string whole = os::read_file(folder / "t.rank0002.json").value();
  folder.write("t.rank0002.json", whole.substr(0, whole.size() - 10));
  says("is not what --trace writes");
  write(2, "r.1.1");
  CHECK(merge_traces({file, true}).value().find("\"world\":3") != std::string::npos);
  CHECK(os::exists(file));
}

TEST_CASE("trace: a folder that is not there -> an Error before anything runs") {
  const auto trace = Trace::open({"/nonexistent/t.json", {}}, {0, {}, "n01", "r.1.1"});
  REQUIRE_FALSE(trace);
  CHECK(trace.error().message().find("/nonexistent/t.json: no trace can be written") == 0);
}
