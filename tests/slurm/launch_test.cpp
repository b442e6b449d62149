// Launchers as commands name them.
#include "slurm/launch.hpp"

#include <doctest/doctest.h>

using namespace stoker::slurm;

namespace {
using Words = std::vector<std::string>;
}

TEST_CASE("launch: torchrun -> what its processes run, how many, the interpreter beside it") {
  const Launch plain = read_launch({"torchrun", "--nproc_per_node=8", "--nnodes", "2",
                                    "--rdzv-backend=c10d", "train.py", "--lr", "1"});
  CHECK(plain.launchers == Words{"torchrun"});
  CHECK(plain.program == Words{"python3", "train.py", "--lr", "1"});
  CHECK(plain.per_node == "8");
  CHECK(plain.nodes == 2u);
  CHECK(read_launch({"/venv/bin/torchrun", "-m", "my.train"}).program ==
        Words{"/venv/bin/python3", "-m", "my.train"});
  CHECK(read_launch({"torchrun", "--no-python", "prog", "x"}).program == Words{"prog", "x"});
  const Launch module = read_launch(
      {"/venv/bin/python", "-m", "torch.distributed.run", "--nproc-per-node", "gpu", "t.py"});
  CHECK(module.launchers == Words{"torchrun"});
  CHECK(module.program == Words{"/venv/bin/python", "t.py"});
  CHECK(module.per_node == "gpu");
}

TEST_CASE("launch: what torchrun is asked and stoker does not know -> it keeps its launcher") {
  CHECK(read_launch({"torchrun", "--something-new=1", "train.py"}).program.empty());
  CHECK(read_launch({"torchrun", "--nproc_per_node"}).program.empty());
  CHECK(read_launch({"torchrun"}).program.empty());
}

TEST_CASE("launch: launchers that set more than torchrun does -> kept, the outermost first") {
  for (const char* name : {"accelerate", "deepspeed", "mpirun"}) {
    const Launch launch = read_launch({name, "launch", "train.py"});
    CHECK(launch.launchers == Words{name});
    CHECK(launch.program.empty());
  }
  const Launch inner =
      read_launch({"srun", "-N2", "python", "-m", "torch.distributed.run", "t.py"});
  CHECK(inner.launchers == Words{"srun", "torchrun"});
  CHECK(inner.program.empty());
}

TEST_CASE("launch: a plain command, options of the training -> no launcher") {
  const Words argv{"python3", "-u", "train.py", "--launcher", "torchrun"};
  CHECK(read_launch(argv).launchers.empty());
  CHECK(read_launch(argv).program == argv);
  CHECK(read_launch({"./train", "srun"}).program == Words{"./train", "srun"});
  CHECK(read_launch({}).program.empty());
}
