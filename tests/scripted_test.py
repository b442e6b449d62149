"""A test that is a program: its exit code and output, and nothing of it is left, neither files nor processes."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from scripted import processes_of, run_once

LEAVES = """
import os, subprocess, sys, tempfile, time
folder = tempfile.mkdtemp()
open(os.path.join(folder, "left"), "w").close()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", folder + "/x"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                 start_new_session=True)
print(os.environ["TMPDIR"], flush=True)
"""


class Scripted(unittest.TestCase):
    def leaves_nothing(self, code, output):
        folder = output.split("\n")[0]
        self.assertNotEqual(folder, "")
        self.assertFalse(os.path.exists(folder))
        self.assertEqual(processes_of(folder), [])

    def test_ends_by_itself(self):
        code, output = run_once(["-c", LEAVES + "sys.exit(77)"], dict(os.environ), 30)
        self.assertEqual(code, 77)
        self.leaves_nothing(code, output)

    def test_runs_into_its_limit(self):
        code, output = run_once(["-c", LEAVES + "time.sleep(60)"], dict(os.environ), 3)
        self.assertEqual(code, 124)
        self.leaves_nothing(code, output)


if __name__ == "__main__":
    unittest.main()
