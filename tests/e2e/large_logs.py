"""Inputs that are large in one way: a line without an end, ranks without number, files without number. `stoker diagnose` of
eight times as much takes about eight times the processor time, never sixty-four (both are measured here, one after the other);
memory stays within its limit. STOKER_LONG=1: a line of 1 GB, 10^6 ranks, 10^5 files."""
import json
import os
import subprocess

from e2e._harness import BIN, check, main

LONG = bool(os.environ.get("STOKER_LONG"))
GROWTH = 8
MOST_RATIO = 20  # of GROWTH = 8: a quadratic part would show as 64
LEAST_S = 0.05   # what is shorter is noise of the clock
MEMORY_MB = 64   # for any line length
FILES_MB = 160   # about 1 kB a file is kept
RANKS_MB = 160   # at most 20,000 findings and 100,000 reports of collectives are kept of a log


def diagnosed(site, path):
    """The answer, the processor's seconds and the most MiB of one `stoker diagnose`."""
    answer = os.path.join(site.folder, "answer.json")
    with open(answer, "wb") as out:
        child = subprocess.Popen([os.path.join(BIN, "stoker"), "diagnose", "--json", "--threads", "1", path],
                                 stdout=out, stderr=subprocess.STDOUT, env=site.env)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    with open(answer, encoding="utf-8") as out:
        text = out.read()
    check(child.returncode == 0, f"{path}: exit {child.returncode}: {text[:300]}")
    return json.loads(text), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def grows_with(site, sizes, write, verify, most_mb):
    """`write(path, size)` makes an input, `verify(answer, size)` judges the answer."""
    tiny = os.path.join(site.folder, "tiny")
    write(tiny, 1)
    diagnosed(site, tiny)  # fills the cache of compiled patterns
    _, base, _ = diagnosed(site, tiny)
    seconds = []
    for size in sizes:
        path = os.path.join(site.folder, f"input-{size}")
        write(path, size)
        answer, used, memory = diagnosed(site, path)
        print(f"{size}: {used:.2f} s of the processor, {memory:.0f} MiB", flush=True)
        verify(answer, size)
        check(memory <= most_mb, f"{size}: {memory:.0f} MiB of memory, more than {most_mb}")
        seconds.append(max(used - base, LEAST_S))
    for size, before, after in zip(sizes[1:], seconds, seconds[1:]):
        check(after / before <= MOST_RATIO, f"{size}: up to {GROWTH} times as much took {after / before:.1f} times as long")


def a_line_without_an_end(site):
    piece = b"iteration 7/ 100 | lm loss: 2.1E+00 | no newline comes here " * 1024

    def write(path, megabytes):
        with open(path, "wb") as f:
            for _ in range(megabytes * 1_000_000 // len(piece)):
                f.write(piece)
            f.write(b"\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")

    def verify(answer, megabytes):
        check(answer["class"] == "cuda_oom" and answer["root"]["line"] == 2, f"what follows the line was lost: {answer}")
        check("cut" in json.dumps(answer["notes"]) or megabytes < 2, f"the cut line is not noted: {answer['notes']}")

    grows_with(site, [16, 128] + [1000] * LONG, write, verify, MEMORY_MB)


def ranks_without_number(site):
    def write(path, ranks):
        with open(path, "w", encoding="ascii") as f:
            for rank in range(ranks):
                f.write(f"[rank{rank}]:[E ProcessGroupNCCL.cpp:523] [Rank {rank}] Watchdog caught collective operation timeout: "
                        f"WorkNCCL(SeqNum={rank + 7}, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600743 milliseconds\n")

    def verify(answer, ranks):
        check(answer["class"] == "nccl_timeout", f"{ranks} ranks are {answer['class']}")

    grows_with(site, [2_500, 20_000] + [160_000, 1_000_000] * LONG, write, verify, RANKS_MB)


def files_without_number(site):
    def write(path, files):
        for i in range(files):
            folder = os.path.join(path, f"n{i // 1000:03}")
            if i % 1000 == 0:
                os.makedirs(folder)
            with open(os.path.join(folder, f"rank_{i}.log"), "w", encoding="ascii") as f:
                f.write(f"step: 1 loss: 2.0\nstep: 2 loss: 1.9\nhello of {i}\n")
        if files > 1:
            with open(os.path.join(path, "n000", "rank_1.log"), "a", encoding="ascii") as f:
                f.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")

    def verify(answer, files):
        check(answer["class"] == "cuda_oom" and answer["ranks"] == [1], f"{files} files: {answer['class']}, {answer['ranks']}")

    grows_with(site, [500, 4_000] + [32_000, 100_000] * LONG, write, verify, FILES_MB)


main(a_line_without_an_end, ranks_without_number, files_without_number)
