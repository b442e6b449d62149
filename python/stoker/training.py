"""One rank's training loop: iterations and phases for the heartbeat page, requests to save and to leave from it."""
import array
import contextlib
import os
import sys
import time

from .heartbeat import Heartbeat

ASK_EVERY_S = 1.0  # the ranks agree on what was requested about this often


def of_torch(numbers):
    group = getattr(sys.modules.get("torch"), "distributed", None)
    if group is None or not group.is_available() or not group.is_initialized():
        return None
    torch = sys.modules["torch"]
    together = torch.tensor(numbers, dtype=torch.int64, device="cuda" if "nccl" in group.get_backend() else "cpu")
    group.all_reduce(together, op=group.ReduceOp.MAX)
    return together.tolist()


def of_jax(numbers):
    jax = sys.modules.get("jax")
    if jax is None or jax.process_count() < 2:
        return None
    import numpy
    from jax.experimental.multihost_utils import process_allgather
    mine = numpy.minimum(numbers, 2**31 - 1).astype(numpy.int32)  # JAX has 64 bits only where it is asked to
    return process_allgather(mine).max(axis=0).tolist()


def of_mpi(numbers):
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.COMM_WORLD.Get_size() < 2:
        return None
    together = array.array("q", numbers)
    mpi.COMM_WORLD.Allreduce(mpi.IN_PLACE, together, op=mpi.MAX)
    return together.tolist()


def largest_of_all_ranks(numbers):
    """Element by element the largest over all ranks of torch.distributed, JAX or MPI, the first of these that connects several;
    the same numbers where there is one rank."""
    for library in (of_torch, of_jax, of_mpi):
        together = library(numbers)
        if together is not None:
            return together
    return numbers


def own_page(environment=os.environ):
    """The heartbeat page if this process is to write it, else "". A launcher that the agent starts as one process (mpirun,
    accelerate launch, torchrun) hands that process's page to all of its ranks: the one with its local rank writes it."""
    path = environment.get("STOKER_HEARTBEAT", "")
    of_agent = environment.get("SLURM_LOCALID", "0")  # set by the agent; none of these launchers sets it
    for local in ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK"):  # Open MPI; MPICH and Intel MPI; torchrun
        if local in environment:
            return path if environment[local] == of_agent else ""
    return path


class Training:
    """`save(iteration)` writes a checkpoint that the training can resume from; every rank calls it at the same iteration.
    `agree(numbers)` is the element-wise maximum over all ranks. `total`: iterations in all, 0 = unknown."""

    def __init__(self, total=0, save=None, agree=largest_of_all_ranks):
        self.beat = Heartbeat(own_page())
        self.total, self.save, self.agree = total, save, agree
        self.supervised = bool(os.environ.get("STOKER_HEARTBEAT"))
        self.phase_now, self.ask_at, self.began, self.iteration = "", 0, time.monotonic(), 0
        self.last_save = self.before = None  # the iteration of the newest save; the one in front of this process's first
        self.loss, self.lr = None, 0.0  # the last ones that were seen: a page that loses its loss counts as not a number
        self.enter("startup")

    def enter(self, phase):
        """From now on the training is in this phase; for a phase with an end: `with training.phase(name)`."""
        if phase != self.phase_now:
            self.beat.phase(phase)
            self.phase_now = phase

    @contextlib.contextmanager
    def phase(self, name):
        before = self.phase_now
        self.enter(name)
        try:
            yield
        finally:
            self.enter(before)
            self.began = time.monotonic()  # the next iteration does not contain it

    def requested(self, iteration, seconds):
        """(save, leave) as all ranks see it at this iteration: save is 0 or 1; leave 0, 1 (save first) or 2 (do not save)."""
        if not self.supervised or iteration < self.ask_at:
            return 0, 0
        mine = [int(self.beat.save_wanted()), self.beat.leave_wanted(), int(seconds * 1e6)]
        save, leave, slowest = self.agree(mine)
        self.ask_at = iteration + max(1, min(1000, int(ASK_EVERY_S * 1e6 / max(1, slowest))))
        return save, leave

    def report(self, iteration, loss=None, lr=None, samples=0, tokens=0):
        """An iteration is done. A loss on a device is read only where the ranks agree, so that no step waits for it."""
        now = time.monotonic()
        seconds, self.began, self.iteration = now - self.began, now, iteration
        if hasattr(loss, "detach"):
            loss = float(loss.detach()) if loss.device.type == "cpu" or iteration >= self.ask_at else None
        self.loss = self.loss if loss is None else float(loss)
        self.lr = self.lr if lr is None else lr
        self.before = iteration - 1 if self.before is None else self.before
        self.enter("iteration")
        self.beat.step(iteration, total=self.total, samples=samples, tokens=tokens, loss=self.loss, seconds=seconds,
                       lr=self.lr, steps=iteration - self.before)
        return self.requested(iteration, seconds)

    def step(self, iteration, **numbers):
        """Reports a completed iteration (loss, lr, samples, tokens) and saves when that was requested.
        False: the training is to end now, with exit code 0."""
        save, leave = self.report(iteration, **numbers)
        if leave < 2 and (save or leave):
            self.checkpoint(iteration)
        return leave == 0

    def checkpoint(self, iteration):
        """Saves; for the training's own checkpoints too. One that was requested at the same iteration is not written twice."""
        if self.save is None:
            return
        if iteration != self.last_save:
            with self.phase("checkpoint"):
                self.save(iteration)
        self.last_save = iteration
        self.beat.saved(iteration)

    def end(self):
        self.enter("shutdown")
