// Which command a Python training's standby has.
#include "worker/agent/rank/preload.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sstream>

#include "worker/agent/rank/rank_environment.hpp"

using namespace stoker;
using namespace stoker::agent;
using Words = std::vector<std::string>;

TEST_CASE("preload: a script or a module -> the helper in front, the command behind it") {
  CHECK(preload_command({"python3", "train.py", "-m", "x"}, "torch,numpy", "/g/h.py") ==
        Words{"python3", "/g/h.py", "torch,numpy", "1", "python3", "train.py", "-m", "x"});
  CHECK(preload_command({"/venv/bin/python3.11", "-u", "-X", "utf8", "-m", "train", "--x"}, "torch",
                        "h.py") == Words{"/venv/bin/python3.11", "-u", "-X", "utf8", "h.py",
                                         "torch", "4", "/venv/bin/python3.11", "-u", "-X", "utf8",
                                         "-m", "train", "--x"});
}

TEST_CASE("preload: no interpreter, no script, nothing to import -> no standby") {
  for (const Words& command :
       {Words{}, Words{"torchrun", "train.py"}, Words{"python3"}, Words{"python3", "-m"},
        Words{"python3", "-c", "print()"}, Words{"python3", "-"}, Words{"pythonic", "train.py"},
        Words{"python3-config", "train.py"}})
    CHECK_FALSE(preload_command(command, "torch", "h.py"));
  CHECK_FALSE(preload_command({"python3", "train.py"}, "", "h.py"));
}

TEST_CASE("preload: the helper is part of the program") {
  CHECK(python_standby().find("STOKER_STANDBY_FD") != std::string_view::npos);
}

TEST_CASE("preload: what the order of a rank sets is what its helper watches in learned modules") {
  StartRanks order;
  order.set_load = true;
  order.attempt = Attempt(1);
  wire::Start start;
  start.run = RunName("r");
  const std::string_view text = python_standby();
  const std::size_t from = text.find("OF_RANK = frozenset(\"\"\"") + 23;
  std::istringstream watched(std::string(text.substr(from, text.find("\"\"\"", from) - from)));
  std::map<std::string, bool> names;
  for (std::string name; watched >> name;) names[name] = true;
  const auto set = rank_environment(start, order, 0, {"/dev/shm/page", ""});
  CHECK(names.size() == set.size());
  for (const auto& variable : set) CHECK_MESSAGE(names.contains(variable.first), variable.first);
}
