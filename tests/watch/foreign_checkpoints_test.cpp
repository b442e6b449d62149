// Checkpoints of known formats, by names and marks.
#include "watch/foreign_checkpoints.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::watch;

namespace {

struct Checkpoints {
  testing::Folder folder;
  void write(const std::string& name, const std::string& text) const {
    const std::string path = folder.path + "/" + name;
    REQUIRE(os::make_directories(path.substr(0, path.rfind('/'))));
    REQUIRE(os::replace_file(path, text, os::Durability::Cached));
  }
  [[nodiscard]] std::optional<ForeignCheckpoint> newest() const {
    const auto found = newest_foreign_checkpoint(folder.path);
    REQUIRE(found);
    return *found;
  }
  [[nodiscard]] std::uint64_t iteration() const {
    const auto found = newest();
    return found ? found->iteration.value : 0;
  }
};

}  // namespace

TEST_CASE("foreign checkpoints: the iteration in a file's name") {
  const auto of = [](std::string_view name) {
    const auto found = iteration_of_file(name);
    return found ? found->value : 0;
  };
  CHECK(of("epoch=3-step=1200.ckpt") == 1200);
  CHECK(of("epoch=3-step=1200-v1.ckpt") == 1200);
  CHECK(of("epoch=3-step=1200-val_loss=2.31.ckpt") == 1200);
  CHECK(of("megatron_gpt--val_loss=2.31-step=1000-consumed_samples=8000.0-last.ckpt") == 1000);
  CHECK(of("step_451.pt") == 451);
  CHECK(of("checkpoint_000100.pth") == 100);
  CHECK(of("model-500.safetensors") == 500);
  CHECK(of("gpt2_iter000070.pt") == 70);
  for (const char* name :
       {"last.ckpt", "model.pt", "step_451.txt", "step_451", "best-step.pt", "step_12-of-99.pt",
        "step_99999999999999999999.pt", "optimizer_12.pt", ""})
    CHECK_MESSAGE(of(name) == 0, name);
}

TEST_CASE("foreign checkpoints: folders and marks count when what is written last is there") {
  const Checkpoints c;
  CHECK_FALSE(c.newest());
  c.write("checkpoint-500/model.safetensors", "x");
  CHECK_FALSE(c.newest());
  c.write("checkpoint-500/trainer_state.json", "{}");
  CHECK(c.iteration() == 500);
  c.write("step-600/.metadata", "x");
  CHECK(c.iteration() == 600);
  c.write("step_650/model.safetensors", "x");  // Accelerate
  CHECK(c.iteration() == 600);
  c.write("step_650/random_states_0.pkl", "x");
  CHECK(c.iteration() == 650);
  c.write("660/default/_METADATA", "{}");  // orbax
  c.write("670.orbax-checkpoint-tmp-1/_CHECKPOINT_METADATA", "{}");
  CHECK(c.iteration() == 650);
  c.write("660/_CHECKPOINT_METADATA", "{}");
  CHECK(c.iteration() == 660);
  c.write("iter_0000700/mp_rank_00/model_optim_rng.pt", "x");
  CHECK(c.iteration() == 660);
  c.write("latest_checkpointed_iteration.txt", "700\n");
  CHECK(c.iteration() == 700);
  c.write("latest", "global_step800");
  CHECK(c.iteration() == 800);
  CHECK(c.newest()->marked);
  c.write("latest", "../../etc");
  CHECK(c.iteration() == 700);
  CHECK_FALSE(newest_foreign_checkpoint(c.folder.path + "/missing").value());
}

TEST_CASE("foreign checkpoints: news are what was not there before, once it stands still") {
  CheckpointNews news;
  const auto file = [](std::uint64_t iteration, const char* print) {
    return ForeignCheckpoint{Iteration(iteration), "step.pt", print, false};
  };
  CHECK_FALSE(news.take(file(676, "9")));  // of a run before
  CHECK_FALSE(news.take(file(676, "9")));
  CHECK_FALSE(news.take(file(700, "1")));  // being written
  CHECK_FALSE(news.take(file(700, "5")));
  CHECK(news.take(file(700, "5")) == Iteration(700));
  CHECK_FALSE(news.take(file(700, "5")));
  CHECK(news.take(ForeignCheckpoint{Iteration(800), "800", "800", true}) == Iteration(800));
  CHECK_FALSE(news.take(file(820, "1")));
  CHECK(news.take(file(840, "1")) == Iteration(820));  // a newer one was begun
  CHECK(news.last(file(840, "9")) == Iteration(840));  // the training has ended
  CHECK_FALSE(news.last(file(840, "9")));
  CHECK_FALSE(news.take(std::nullopt));
  CheckpointNews of_before;
  CHECK_FALSE(of_before.last(file(676, "9")));  // no look yet: it may be of a run before
  CHECK_FALSE(of_before.take(file(676, "9")));
  CHECK_FALSE(of_before.last(file(676, "9")));
}

TEST_CASE("foreign checkpoints: put into the folder by another user -> neither newest nor loaded") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to give files to another user needs root");
    return;
  }
  constexpr uid_t kStranger = 4242;
  const Checkpoints c;
  c.write("checkpoint-40/trainer_state.json", "{}");
  c.write("40/model.pt", "x");
  c.write("checkpoint-99999999/trainer_state.json", "{}");
  c.write("model_70.pt", "x");
  c.write("latest", "global_step800");
  const auto give = [&c](const std::string& name, uid_t uid) {
    REQUIRE(::lchown((c.folder.path + "/" + name).c_str(), uid, uid) == 0);
  };
  for (const char* name : {"40", "checkpoint-99999999", "model_70.pt", "latest"})
    give(name, kStranger);
  REQUIRE(::chmod(c.folder.path.c_str(), 01777) == 0);
  CHECK(c.iteration() == 40);
  CHECK(foreign_checkpoint_path(c.folder.path, Iteration(40)) == c.folder.path + "/checkpoint-40");
  CHECK_FALSE(foreign_checkpoint_path(c.folder.path, Iteration(70)));
  REQUIRE(::chown(c.folder.path.c_str(), kStranger, kStranger) == 0);  // who could exchange it all
  CHECK(c.iteration() == 99999999);
}
