#!/usr/bin/env python3
"""A bench that became slower than 1.3 times its last figure fails; without a last figure too, until one is recorded."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import last  # noqa: E402


class Last(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="stoker-bench-")
        self.addCleanup(folder.cleanup)
        before = last.RECORD
        self.addCleanup(lambda: setattr(last, "RECORD", before))
        last.RECORD = os.path.join(folder.name, "last.json")

    def test_without_a_last_figure(self):
        self.assertEqual(last.compare("sim", 10, 0.1)[:2], (None, False))
        self.assertEqual(last.compare("sim", 10, 0.1, record=True)[:2], (None, True))

    def test_slower_than_allowed(self):
        last.compare("sim", 10, 0.1, record=True)
        self.assertEqual(last.compare("sim", 12.9, 0.1)[1], True)
        self.assertEqual(last.compare("sim", 13.1, 0.1)[1], False)

    def test_slower_machine_is_no_slower_program(self):
        last.compare("sim", 10, 0.1, record=True)
        self.assertEqual(last.compare("sim", 30, 0.3)[:2], (1.0, True))

    def test_unit_is_positive(self):
        self.assertGreater(last.unit(), 0)


if __name__ == "__main__":
    unittest.main()
