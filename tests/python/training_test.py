"""The Python package's training loop: which process writes the heartbeat page, and what a save on request does."""
import importlib
import os
import struct
import sys
import tempfile
import types
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "wire"), os.path.join(ROOT, "python")]
import heartbeat_client

sys.modules["stoker.heartbeat"] = heartbeat_client  # as deploy/wheel.py puts it beside the package
training = importlib.import_module("stoker.training")


class Owner(unittest.TestCase):
    def owners(self, variable, of_agent="0", **environment):
        """Which of eight local ranks write the page of the process that the agent started as its local rank `of_agent`."""
        agent = {"STOKER_HEARTBEAT": "/dev/shm/stoker-1a2b.4.3", "SLURM_LOCALID": of_agent, "LOCAL_RANK": of_agent, **environment}
        return [local for local in range(8) if training.own_page({**agent, variable: str(local)})]

    def test_a_rank_that_the_agent_started(self):
        page = {"STOKER_HEARTBEAT": "/page"}
        for local in "0123":
            self.assertEqual(training.own_page({**page, "RANK": "7", "LOCAL_RANK": local, "SLURM_LOCALID": local}), "/page")
        self.assertEqual(training.own_page(page), "/page")
        self.assertEqual(training.own_page({}), "")

    def test_ranks_of_a_launcher_inside(self):
        for variable in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"):
            self.assertEqual(self.owners(variable), [0])
            self.assertEqual(self.owners(variable, RANK="1"), [0])
            self.assertEqual(self.owners(variable, of_agent="1"), [1])  # one of two launchers on the node


class World:
    """COMM_WORLD of mpi4py as rank 0 of two sees it."""
    other = [0, 0, 0]

    def Get_size(self):
        return 2

    def Allreduce(self, _where, numbers, op):
        for i, value in enumerate(self.other):
            numbers[i] = op(numbers[i], value)


class Requests(unittest.TestCase):
    def setUp(self):
        self.page = tempfile.NamedTemporaryFile(suffix=".0")
        self.page.write(b"STOKERHB" + struct.pack("<I", 1) + bytes(8192 - 12))
        self.page.flush()
        os.environ["STOKER_HEARTBEAT"] = self.page.name
        self.saved = []

    def tearDown(self):
        for name in ("STOKER_HEARTBEAT", "OMPI_COMM_WORLD_LOCAL_RANK"):
            os.environ.pop(name, None)
        sys.modules.pop("mpi4py.MPI", None)
        self.page.close()

    def number(self, code, at):
        with open(self.page.name, "rb") as file:
            return struct.unpack_from(code, file.read(), at)[0]

    def ask(self):
        with open(self.page.name, "r+b") as file:
            file.seek(2048)
            file.write(struct.pack("<Q", self.number("<Q", 2048) + 1))

    def test_saves_once_at_an_iteration(self):
        loop = training.Training(total=10, save=self.saved.append)
        self.ask()
        loop.ask_at = 0
        self.assertTrue(loop.step(5, loss=1.0))
        self.assertEqual((self.saved, self.number("<Q", 144), self.number("<Q", 112)), ([5], 1, 5))
        loop.checkpoint(5)  # the training's own at the same iteration
        self.assertEqual(self.saved, [5])
        self.ask()
        loop.ask_at = 0
        loop.step(6)
        self.assertEqual((self.saved, self.number("<Q", 144)), ([5, 6], 2))

    def test_a_rank_without_a_page_saves_with_the_others(self):
        os.environ["OMPI_COMM_WORLD_LOCAL_RANK"] = "1"
        world = World()
        sys.modules["mpi4py.MPI"] = types.SimpleNamespace(COMM_WORLD=world, IN_PLACE=None, MAX=max, Is_initialized=lambda: True)
        loop = training.Training(total=10, save=self.saved.append)
        loop.step(1, loss=1.0)
        self.assertEqual((self.saved, self.number("<Q", 40), self.number("<I", 128)), ([], 0, 0))
        world.other, loop.ask_at = [1, 0, 0], 0
        self.assertTrue(loop.step(2))
        world.other, loop.ask_at = [0, 1, 0], 0
        self.assertFalse(loop.step(3))
        self.assertEqual(self.saved, [2, 3])


if __name__ == "__main__":
    unittest.main()
