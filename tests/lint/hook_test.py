#!/usr/bin/env python3
"""`./dev hooks`: a commit in a clone formats and lints what it changes, and nothing else."""
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
NEEDED = ("dev", ".clang-format", "tests/lint", "cmake")


class Hook(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="stoker-hook-")
        self.addCleanup(folder.cleanup)
        self.clone = folder.name
        for name in NEEDED:
            copy = shutil.copytree if os.path.isdir(os.path.join(ROOT, name)) else shutil.copy2
            os.makedirs(os.path.dirname(os.path.join(self.clone, name)), exist_ok=True)
            copy(os.path.join(ROOT, name), os.path.join(self.clone, name))
        self.git("init", "-q")
        subprocess.run(["./dev", "hooks"], cwd=self.clone, check=True, capture_output=True)

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.clone, text=True,
                              capture_output=True, check=False)

    def commit(self, text):
        with open(os.path.join(self.clone, "common.cpp"), "w", encoding="utf-8") as f:
            f.write(text)
        self.git("add", "common.cpp")
        return self.git("commit", "-qm", "one")

    def test_unformatted(self):
        done = self.commit("// What it owns.\nint   x  =  1 ;\n")
        self.assertIn("common.cpp: common.cpp/ has no row", done.stdout + done.stderr)  # lint has read it: no such folder
        self.assertEqual(self.git("show", ":common.cpp").stdout, "// What it owns.\nint x = 1;\n")

    def test_nothing_of_cpp(self):
        with open(os.path.join(self.clone, "notes.md"), "w", encoding="utf-8") as f:
            f.write("notes\n")
        self.git("add", "notes.md")
        self.assertEqual(self.git("commit", "-qm", "notes").returncode, 0)

    def test_words_of_a_document(self):
        with open(os.path.join(self.clone, "notes.md"), "w", encoding="utf-8") as f:
            f.write("As we were told.\n")  # english.py
        self.git("add", "notes.md")
        done = self.git("commit", "-qm", "notes")
        self.assertIn('notes.md:1: write for "told": reported, reports, says', done.stdout + done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_off(self):
        subprocess.run(["./dev", "hooks", "--off"], cwd=self.clone, check=True, capture_output=True)
        self.assertEqual(self.commit("int   x ;\n").returncode, 0)


if __name__ == "__main__":
    unittest.main()
