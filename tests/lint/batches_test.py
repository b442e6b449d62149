#!/usr/bin/env python3
"""Files that know the same name are not compiled together, wherever the name stands."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cmake"))
import batches  # noqa: E402

OPTIONS = "namespace {\nstruct Options {\n  int a;\n};\n}  // namespace\n"
READ = "inline int read(int x) {\n  return x;\n}\n"


def together(files):
    """The batches of the .cpp files among these texts; an include of what is not there is not ours."""
    def read(name):
        if name not in files:
            raise FileNotFoundError(name)
        return files[name]
    return batches.batches([name for name in files if name.endswith(".cpp")], read)


class Batches(unittest.TestCase):
    def test_nothing_in_common(self):
        self.assertEqual(together({"core/one.cpp": OPTIONS, "core/two.cpp": "#include <vector>\nint f() {\n}\n"}),
                         [["core/one.cpp", "core/two.cpp"]])

    def test_both_define_it(self):
        self.assertEqual(together({"core/one.cpp": OPTIONS, "core/two.cpp": OPTIONS}), [["core/one.cpp"], ["core/two.cpp"]])

    def test_one_includes_it(self):
        self.assertEqual(together({"core/one.cpp": '#include "wire/read.hpp"\n', "core/two.cpp": READ, "wire/read.hpp": READ}),
                         [["core/one.cpp"], ["core/two.cpp"]])

    def test_one_includes_it_from_beside_through_another(self):
        files = {"core/one.cpp": '#include "beside.hpp"\n', "core/two.cpp": READ, "core/beside.hpp": '#include "deep.hpp"\n',
                 "core/deep.hpp": '#include "beside.hpp"\n' + READ}
        self.assertEqual(together(files), [["core/one.cpp"], ["core/two.cpp"]])


if __name__ == "__main__":
    unittest.main()
