"""A test that is a program: its exit code and output, and nothing of it is left, neither files nor processes."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from scripted import janitor, run_once  # noqa: E402

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
        pids = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if janitor.belongs(pid, folder, None)]
        self.assertEqual([pid for pid in pids if not janitor.zombie(pid)], [])

    def test_ends_by_itself(self):
        code, output = run_once(["-c", LEAVES + "sys.exit(77)"], dict(os.environ), 30)
        self.assertEqual(code, 77)
        self.leaves_nothing(code, output)

    def test_runs_into_its_limit(self):
        code, output = run_once(["-c", LEAVES + "time.sleep(60)"], dict(os.environ), 3)
        self.assertEqual(code, 124)
        self.leaves_nothing(code, output)

    def test_a_janitor_ends_by_itself(self):
        janitors = """
import os, signal, subprocess, sys, tempfile, time
folder = tempfile.mkdtemp()
name = os.path.join(folder, "janitor.py")
with open(name, "w") as file:
    file.write("import sys, time; sys.stdin.read(); time.sleep(1); open(sys.argv[1], 'w').close()")
subprocess.Popen([sys.executable, name, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                 start_new_session=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
        with tempfile.TemporaryDirectory() as outside:
            done = os.path.join(outside, "removed")
            code, _ = run_once(["-c", janitors, done], dict(os.environ), 30)
            self.assertEqual(code, -9)
            self.assertTrue(os.path.exists(done))


if __name__ == "__main__":
    unittest.main()
