"""kept(): a folder of our own, or none."""
import os
import tempfile
import unittest
from unittest import mock

from kept import kept


class KeptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        caches = mock.patch.dict(os.environ, XDG_CACHE_HOME=self.folder)
        caches.start()
        self.addCleanup(caches.stop)

    def refused(self):
        with self.assertRaisesRegex(PermissionError, "it is not used"):
            kept("venv")

    def test_made_once_for_us_alone(self):
        path = kept("venv")
        self.assertEqual((path, os.stat(path).st_mode & 0o777), (os.path.join(os.path.realpath(self.folder), "stoker", "venv"), 0o700))
        self.assertEqual(kept("venv"), path)

    def test_others_may_write_one_of_the_folders(self):
        for path in (kept("venv"), os.path.join(self.folder, "stoker"), self.folder):
            os.chmod(path, 0o777)
            self.refused()
            os.chmod(path, 0o700)
        kept("venv")

    def test_link(self):
        os.mkdir(os.path.join(self.folder, "theirs"), 0o700)
        os.mkdir(os.path.join(self.folder, "stoker"), 0o700)
        os.symlink("../theirs", os.path.join(self.folder, "stoker", "venv"))
        self.refused()

    def test_another_users(self):
        kept("venv")
        with mock.patch("os.getuid", return_value=os.getuid() + 1):
            self.refused()


if __name__ == "__main__":
    unittest.main()
