#!/usr/bin/env python3
"""The proofs count every folder that a simulated life is made of: what sim/ includes, and what that includes."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import prove  # noqa: E402


def included(folder):
    """Folders whose headers the C++ files of `folder` include."""
    names = prove.git("ls-files", "--", f"{folder}/*.cpp", f"{folder}/*.hpp").split()
    found = set()
    for name in names:
        with open(os.path.join(prove.ROOT, name), encoding="utf-8") as file:
            found.update(re.findall(r'#include "(\w+)/', file.read()))
    return {other for other in found if os.path.isdir(os.path.join(prove.ROOT, other))}


class Folders(unittest.TestCase):
    def test_every_folder_of_the_simulation_counts(self):
        needed, new = set(), {"sim"}
        while new:
            needed |= new
            new = set().union(*(included(folder) for folder in new)) - needed
        self.assertLessEqual(needed, set(prove.SIMULATED), sorted(needed - set(prove.SIMULATED)))

    def test_guards_are_those_of_the_simulator(self):
        with open(os.path.join(prove.ROOT, "sim", "universe", "scenario.hpp"), encoding="utf-8") as file:
            names = file.read().split("EnumNames<stoker::sim::Guard>")[1].split("};")[0]
        self.assertEqual(sorted(prove.GUARDS + ["none"]), sorted(re.findall(r'"([\w-]+)"', names)))


if __name__ == "__main__":
    subprocess.run(["git", "-C", prove.ROOT, "rev-parse"], check=True, stdout=subprocess.DEVNULL)
    unittest.main()
