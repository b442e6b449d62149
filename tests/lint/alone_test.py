#!/usr/bin/env python3
"""A file that lives on what another of its batch includes is named."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import alone  # noqa: E402

KIND = "enum class AlertKind { One, Two };\n"


class Alone(unittest.TestCase):
    def problems(self, **files):
        texts = {f"core/{name}.hpp": text for name, text in files.items()}
        return [problem.partition(":")[0] for problem in alone.problems(list(texts), texts.__getitem__)]

    def test_not_reached(self):
        self.assertEqual(self.problems(kind=KIND, use="bool heed(AlertKind kind);\n"), ["core/use.hpp"])

    def test_reached(self):
        self.assertEqual(self.problems(kind=KIND, use='#include "core/kind.hpp"\nbool heed(AlertKind kind);\n'), [])
        self.assertEqual(self.problems(kind=KIND, between='#include "core/kind.hpp"\n',
                                       use='#include "between.hpp"\nbool heed(AlertKind kind);\n'), [])

    def test_forward_and_parameters(self):
        self.assertEqual(self.problems(kind="class Kind {\n};\n", use="class Kind;\nbool heed(const Kind& kind);\n"), [])
        self.assertEqual(self.problems(kind="class Kind {\n};\n", use="template <class Kind>\nbool heed(const Kind& kind);\n"), [])

    def test_words_that_are_no_code_and_names_with_two_meanings(self):
        self.assertEqual(self.problems(kind=KIND, use='// AlertKind\nconst char* name = "AlertKind";\n'), [])
        self.assertEqual(self.problems(kind=KIND, other="struct Site {\n  struct AlertKind {\n  };\n};\n", use="AlertKind of();\n"), [])

    def test_functions_by_their_namespace(self):
        clock = "namespace stoker::os {\nbool is_late(int at);\n}\n"
        self.assertEqual(self.problems(clock=clock, use="bool late = os::is_late(3);\n"), ["core/use.hpp"])
        self.assertEqual(self.problems(clock=clock, use='#include "core/clock.hpp"\nbool late = os::is_late(3);\n'), [])
        self.assertEqual(self.problems(clock=clock, use="bool late = of.is_late(3) && is_late(4) && wire::is_late(5);\n"), [])

    def test_attributes(self):
        self.assertEqual(self.problems(result="template <class T>\nclass [[nodiscard]] Result {\n};\n", use="Result<int> f();\n"), ["core/use.hpp"])


if __name__ == "__main__":
    unittest.main()
