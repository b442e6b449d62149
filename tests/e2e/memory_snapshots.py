"""Snapshots in memory (`checkpoint.memory`): after the death of a rank, a hang and the loss of a node the training goes on from
memory, repeats no more iterations than configured, and ends with the very bits of the undisturbed run. What is damaged, was
rolled back or does not fit is not used."""
import glob
import json
import os
import re
import signal
import struct

from e2e._harness import check, main

SHAPE = dict(nodes=2, spares=1, ranks_per_node=2, hidden=64, ffn=256, sequence=64, save_every=100000, floor="5s")
HEADER = 4096  # of a slot: wire/memory_slot.hpp


def reasons(site, word):
    return [e["reason"] for e in site.events() if word in (e["reason"] or "")]


def log(site):
    paths = sorted(glob.glob(os.path.join(site.directory, "gen-*", "main.log")))
    return "".join(open(p, encoding="utf-8", errors="replace").read() for p in paths)


def repeated(site):
    """Of each attempt but the first: how many iterations it did once more."""
    found, reached = [], 0
    for attempt in re.split(r"resume audit: ", log(site)):
        done = [int(i) for i in re.findall(r" iteration +(\d+)/", attempt)]
        if reached and done:
            found.append(reached - done[0] + 1)
        reached = max([reached, *done])
    return found


def nothing_left(site):
    site.wait(lambda: not [p for p in site.our_processes() if p != site.daemon.pid], 30, "the end of all processes of the run")
    pages = [p for p in glob.glob("/dev/shm/stoker*") if site.directory.encode() in open(p, "rb").read(1 << 16)]
    check(not pages, f"left in /dev/shm: {pages}")


def undisturbed(site, **shape):
    prefix = site.prepare_data()
    site.start_daemon()
    site.use_run("undisturbed")
    site.stoker("run", site.write_files(prefix, **{**SHAPE, **shape, "spares": 0}), "--yes")
    site.wait_state("finished", 120)
    want = site.digest()
    site.use_run("disturbed")
    site.stoker("run", site.write_files(prefix, **{**SHAPE, **shape}), "--yes")
    return want


def ends_with(site, want):
    site.wait_state("finished", 120)
    got = site.digest()
    check(got["digest"] == want["digest"], f"another end: {got['digest']}, undisturbed {want['digest']}")


def every_kind_of_failure(site):
    """kill -9 of a rank, SIGSTOP of a rank, the loss of a node with all its processes: each from memory, bitwise."""
    want = undisturbed(site, samples=2000, memory_every=5, spares=2)

    def disturb(iteration, do, kind):
        site.wait_iteration(iteration)
        before = len(reasons(site, "from memory of"))
        do()
        site.wait(lambda: len(reasons(site, "from memory of")) > before, 60, f"a restart from memory after {kind}")
        site.wait(lambda: site.status().get("state") == "training", 60, "the training to go on")

    disturb(40, lambda: os.kill(site.rank_pid(1), signal.SIGKILL), "a dead rank")
    disturb(90, lambda: os.kill(site.rank_pid(2), signal.SIGSTOP), "a hang")
    # The hang has excluded n02, unless the rank froze inside a collective, where none is at fault for sure.
    second = "n02" if re.search(r"ranks on n\[01-02\]", reasons(site, "from memory of")[-1]) else "n03"
    disturb(140, lambda: site.admin("kill-node", second), "the loss of a node")
    ends_with(site, want)
    again = repeated(site)
    check(len(again) >= 3 and all(0 <= n <= 5 for n in again), f"iterations done again: {again}")
    audits = log(site).count("resume audit: memory of")
    check(audits == len(again) and log(site).count("guarantee: bitwise") == audits, "not audited as bitwise")
    said = reasons(site, "from memory of")
    check(any(re.search(r"on n\[01,0[34]\], from memory of n01, iteration \d+; repeats (\d+ iteration|none)", one) for one in said[2:]),
          f"the loss of {second}: {said}")
    check("from memory of" in site.stoker("chronicle", site.run).stdout, "the chronicle does not name the source")
    nothing_left(site)
    site.audit()


def every_iteration(site):
    """With `every: 1` no failure costs more than one iteration; four times at any moment."""
    want = undisturbed(site, samples=1600, memory_every=1)
    for i, rank in enumerate([0, 3, 1, 2]):
        site.wait(lambda: min((at for _, at in site.pages().values()), default=0) >= 20 + 25 * i, 60, "the next iteration to disturb")
        os.kill(site.rank_pid(rank), signal.SIGKILL)
        site.wait(lambda: len(reasons(site, "from memory of")) > i, 60, "a restart from memory")
        site.wait(lambda: len(repeated(site)) > i, 60, "the training to go on")
    ends_with(site, want)
    again = repeated(site)
    check(len(again) >= 4 and all(0 <= n <= 1 for n in again), f"iterations done again: {again}")


def slots(site):
    """Of all agents of the run: path -> iteration of each whole snapshot."""
    found = {}
    for pid in site.programs("stoker-agent", "run"):
        for fd in glob.glob(f"/proc/{pid}/fd/*"):
            try:
                if "stoker-snapshot" not in os.readlink(fd):
                    continue
                with open(fd, "rb") as f:
                    head = f.read(64)
            except OSError:
                continue
            if len(head) == 64 and head[:8] == b"STOKERMS" and struct.unpack_from("<I", head, 12)[0] == 2:
                check(os.stat(fd).st_mode & 0o077 == 0, f"{fd} is open to others")
                found[fd] = struct.unpack_from("<Q", head, 24)[0]
    return found


def a_damaged_one(site):
    """One bit of each copy of a shard is changed in memory: the older snapshot is used, and it is said."""
    want = undisturbed(site, samples=2000, memory_every=20)
    site.wait_iteration(64)
    pids = site.page_pids()
    for pid in pids.values():
        os.kill(pid, signal.SIGSTOP)  # so that none overtakes us
    newest = max(slots(site).values())
    for path, iteration in slots(site).items():
        if iteration != newest:
            continue
        with open(path, "r+b") as f:
            shard = struct.unpack_from("<I", f.read(64), 32)[0]
            if shard == 1:
                f.seek(HEADER + 1000)
                byte = f.read(1)
                f.seek(HEADER + 1000)
                f.write(bytes([byte[0] ^ 4]))
    os.kill(pids[0], signal.SIGKILL)
    site.wait(lambda: reasons(site, "from memory of"), 60, "a restart from memory")
    said = reasons(site, "from memory of")[0]
    check(f"iteration {newest - 20}; repeats" in said, f"{newest} is damaged, but {said}")
    notices = "\n".join(reasons(site, "in memory"))
    check("damaged and not used" in notices and "its digest is" in notices, f"nothing says what was damaged: {notices}")
    check(f"the snapshot of iteration {newest} in memory is not used" in notices, f"nothing says why {newest} is not used: {notices}")
    ends_with(site, want)


def not_past_a_rollback(site):
    """Who goes back to a checkpoint gets that, and a later crash resumes behind it, not in the future that was left."""
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **{**SHAPE, "spares": 0, "samples": 60000, "save_every": 100, "memory_every": 10}),
                "--yes")
    left = site.wait_iteration(430)["iteration"]
    site.stoker("rollback", site.run, "--to", "100", "--reason", "loss spike")
    site.wait(lambda: site.status().get("generation", 0) > 1 and site.status().get("state") == "training", 60, "the next generation")
    first = log(site).rindex("resume audit: ")
    check(log(site)[first:].startswith("resume audit: step-000100."), f"it began otherwise: {log(site)[first:first + 200]}")
    site.wait(lambda: 125 <= site.status().get("iteration", 0) < left, 60, "iteration 125")
    os.kill(site.rank_pid(1), signal.SIGKILL)
    said = site.wait(lambda: reasons(site, "from memory of"), 60, "a restart from memory")[0]
    at = int(re.search(r"iteration (\d+)", said.split("from memory of")[1]).group(1))
    check(110 <= at < left, said)
    check("of generation 2" in said, said)


def too_large(site):
    """Snapshots that do not fit the node are refused with the numbers: by the plan, and by the ranks before they take memory."""
    prefix = site.prepare_data()
    site.start_daemon()
    free = int(re.search(r"MemAvailable: +(\d+)", open("/proc/meminfo").read()).group(1)) * 1024
    layers, hidden = 2, int((1.4 * free / 2 / 12 / 24) ** 0.5) // 64 * 64  # two generations are 1.4 times what is free
    path = site.write_files(prefix, **{**SHAPE, "nodes": 1, "ranks_per_node": 1, "spares": 0, "memory_every": 5, "hidden": hidden,
                                       "ffn": 4 * hidden, "layers": layers})
    plan = site.stoker("plan", path, ok=False)
    check(plan.returncode == 1 and re.search(r"snapshots in memory do not fit: .* needs [\d.]+ GiB .*, it has [\d.]+ GiB", plan.stdout),
          f"{plan.returncode} {plan.stdout}{plan.stderr}")
    fits = json.loads(site.stoker("plan", path, "--json", "--node-memory", "9000GiB").stdout)["memory_snapshots"]
    check(fits["refused"] is None and fits["snapshot_bytes_per_node"] > free, f"{fits}, free {free}")
    site.stoker("run", path, "--yes")
    site.wait(lambda: "more memory for snapshots" in log(site), 60, "the ranks' refusal")
    line = next(x for x in log(site).splitlines() if "more memory for snapshots" in x)
    check(re.search(r"train.yaml:\d+:\d+: error: .*: the node of rank 0 needs [\d.]+ GiB more memory for snapshots \(1 ranks, two "
                    r"generations\), [\d.]+ GiB is free", line), line)
    site.wait(lambda: site.status().get("state") == "held", 60, "the run to be held")


main(every_kind_of_failure, every_iteration, a_damaged_one, not_past_a_rollback, too_large)
