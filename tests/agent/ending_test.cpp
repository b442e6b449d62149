// What a job's first act finds: an end mark or a halt, lifted or not; and the mark that a lead
// writes.
#include "worker/agent/storage/ending.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "watch/end_file.hpp"

using namespace stoker;
using namespace stoker::agent;

namespace {

struct RunFolder {
  RunContext context;
  RunFolder() {
    char name[] = "/tmp/stoker-ending-XXXXXX";
    context.run_directory = ::mkdtemp(name);
    context.order = OrderNumber(3);
    context.token = Token("demo-3-0a");
  }
  ~RunFolder() { std::filesystem::remove_all(context.run_directory); }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  void begin(std::uint32_t generation) const {
    wire::Start start;
    start.generation = Generation(generation);
    const std::string folder = generation_directory(context, start.generation);
    REQUIRE(os::make_directories(folder));
    REQUIRE(os::replace_file(folder + "/start.json", to_json_text(start), os::Durability::Cached));
  }
  [[nodiscard]] wire::EndMark mark(std::uint32_t generation, std::uint32_t order) const {
    wire::EndMark mark;
    mark.generation = Generation(generation);
    mark.order = OrderNumber(order);
    mark.token = context.token;
    mark.why = "all ranks ended with exit code 0";
    return mark;
  }
  void control(const wire::Control& control) const {
    REQUIRE(os::replace_file(context.run_directory + "/control.json", to_json_text(control),
                             os::Durability::Cached));
  }
  [[nodiscard]] bool over(Duration most = 0s) const {
    return why_over(context, most, 1ms).has_value();
  }
};

}  // namespace

TEST_CASE("first act: an end mark of the newest generation -> nothing starts until it is lifted") {
  const RunFolder run;
  CHECK_FALSE(run.over());
  run.begin(1);
  CHECK_FALSE(run.over());
  REQUIRE(write_end(run.context.run_directory, run.mark(1, 3)));
  CHECK(run.over());
  wire::Control control;
  control.lifts = Generation(1);
  run.control(control);
  CHECK_FALSE(run.over());
}

TEST_CASE("first act: a newer generation had begun -> the end of an older one is of the past") {
  const RunFolder run;
  run.begin(1);
  run.begin(2);
  REQUIRE(write_end(run.context.run_directory, run.mark(1, 3)));  // seen late
  CHECK_FALSE(run.over());
  REQUIRE(write_end(run.context.run_directory, run.mark(2, 3)));
  CHECK(run.over());
}

TEST_CASE(
    "first act: a submission newer than the end, and no lift in sight -> waits, then is over") {
  const RunFolder run;
  run.begin(1);
  REQUIRE(write_end(run.context.run_directory, run.mark(1, 2)));
  CHECK(run.over(20ms));
}

TEST_CASE("first act: the daemon's halt -> nothing of an older submission starts") {
  RunFolder run;
  wire::Control control;
  control.halt = "the run is stopped: stop requested by alice";
  control.halt_order = OrderNumber(3);
  run.control(control);
  CHECK(run.over());
  run.context.order = OrderNumber(4);
  CHECK_FALSE(run.over());
}

TEST_CASE("first act: a person's own start -> obeys no end of another submission") {
  RunFolder run;
  run.begin(1);
  REQUIRE(write_end(run.context.run_directory, run.mark(1, 3)));
  run.context.order.reset();
  CHECK(run.over());  // the next task of the same array
  run.context.token = Token("job-77");
  CHECK_FALSE(run.over());
  run.context.token = Token("demo-3-0a");
  run.context.standalone = true;
  CHECK_FALSE(run.over());
}

TEST_CASE("end mark: what is there counts -> kept; a link or a foreign file -> replaced") {
  const RunFolder run;
  run.begin(1);
  const std::string& folder = run.context.run_directory;
  const std::string path = folder + "/gen-000001/end.json";
  REQUIRE(::symlink("/etc/passwd", path.c_str()) == 0);
  CHECK_FALSE(run.over());  // refused: it is no end
  REQUIRE(write_end(folder, run.mark(1, 3)));
  CHECK(run.over());
  auto other = run.mark(1, 3);
  other.kind = wire::End::Stopped;
  REQUIRE(write_end(folder, other));
  const auto there = watch::read_end(folder, Generation(1));
  REQUIRE(there);
  REQUIRE(there->has_value());
  CHECK((*there)->kind == wire::End::Finished);
}

TEST_CASE("kill switch: our own is taken away, a person's is named and stays") {
  const RunFolder run;
  const std::string path = run.context.run_directory + "/stop_training";
  CHECK_FALSE(kill_switch_set(path));
  set_kill_switch(path);
  CHECK(os::exists(path));
  CHECK_FALSE(kill_switch_set(path));
  clear_kill_switch(path);
  CHECK_FALSE(os::exists(path));
  REQUIRE(os::replace_file(path, "", os::Durability::Cached));
  const auto set = kill_switch_set(path);
  REQUIRE(set);
  CHECK(set->by != "");
  set_kill_switch(path);
  clear_kill_switch(path);
  CHECK(os::exists(path));
}
