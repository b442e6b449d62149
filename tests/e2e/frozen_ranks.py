"""Silent hangs: all ranks frozen, one rank frozen. The verdict comes within the floor, names what is frozen, stacks are taken
before the kill, and the training goes on; the dry run of every destructive verb does nothing."""
import json
import os
import signal
import time

from e2e._harness import check, main

SHAPE = dict(samples=200000, nodes=2, spares=1, ranks_per_node=1, hidden=64, ffn=256, sequence=64, floor="4s")


def start(site, save_every=1000000):
    """Far from a save: a freeze within one is judged by that phase's own limit, which takes longer to learn."""
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, save_every=save_every, **SHAPE), "--yes")
    return site.wait_iteration(30)


def verdict(site):
    return site.wait(lambda: [e for e in site.events() if "made no progress" in e["reason"]], 40, "the verdict")[0]


def stacks_event(site):
    return next((e for e in site.events() if e["reason"].startswith("stacks of")), None)


def all_ranks_frozen(site):
    start(site)
    pids = site.page_pids()
    began = time.monotonic()
    for pid in pids.values():
        os.kill(pid, signal.SIGSTOP)
    told = verdict(site)
    took = time.monotonic() - began
    check(took < 4 + 25, f"{took:.1f} s from the freeze to the verdict, floor 4 s")
    check("all 2 ranks" in told["reason"], told["reason"])
    again = site.wait(lambda: site.status().get("restarts", 0) >= 1 and site.status()["state"] == "training" and site.status(), 60,
                      "training after the restart")
    written = site.wait(lambda: stacks_event(site), 30, "the stacks")
    folder = os.path.join(site.directory, written["reason"].split(" are in ")[1].split(":")[0])
    texts = [open(os.path.join(folder, n), encoding="utf-8", errors="replace").read() for n in os.listdir(folder)]
    # the state of a frozen process: read while it still was there
    check(len(texts) == 2 and all("state T" in t for t in texts), f"stacks of frozen ranks: {os.listdir(folder)}")
    check(not set(pids.values()) & set(site.page_pids().values()), "frozen ranks are still there")
    shown = json.loads(site.stoker("stacks", site.run, "--last", "--json").stdout)
    check(len(shown["groups"]) >= 1, f"{shown}")
    site.wait_iteration(again["iteration"] + 5)


def one_rank_frozen(site):
    start(site)
    os.kill(site.rank_pid(1), signal.SIGSTOP)
    verdict(site)
    site.wait(lambda: site.status().get("restarts", 0) >= 1 and site.status()["state"] == "training", 60, "the restart")
    written = site.wait(lambda: stacks_event(site), 30, "the stacks")
    check("rank 1 on n02" in written["reason"], f"the odd one out is not named: {written['reason']}")
    odd = json.loads(site.stoker("stacks", site.run, "--last", "--json").stdout)["odd"]
    told = [e["reason"] for e in site.events() if e["reason"].startswith("stacks of")]
    later = len(told) > 1  # a slow machine may have been suspected once more since
    check(later or odd == [{"rank": 1, "node": "n02"}], f"{odd} {told}")


# Attached to a process and in no hurry, as gdb is while it reads the symbols of large libraries.
SLOW_TOOL = """\
#!/usr/bin/python3
import ctypes, sys, time
ctypes.CDLL(None).ptrace(16, int(sys.argv[sys.argv.index("-p") + 1]), 0, 0)  # PTRACE_ATTACH
time.sleep(60)
"""


def a_slow_tool_holds_no_restart(site):
    """What a tool is attached to cannot be reaped: the tool ends with the ranks, and the restart stays in the allocation."""
    folder = os.path.join(site.folder, "tools")
    os.mkdir(folder)
    with open(os.path.join(folder, "gdb"), "w", encoding="utf-8") as file:
        file.write(SLOW_TOOL)
    os.chmod(file.name, 0o755)
    site.env["PATH"] = folder + ":" + site.env["PATH"]
    start(site)
    os.kill(site.rank_pid(1), signal.SIGSTOP)
    verdict(site)
    now = site.wait(lambda: site.status().get("restarts", 0) >= 1 and site.status()["state"] == "training" and site.status(), 60, "the restart")
    check(now["generation"] == 1 and now["attempt"] >= 2, f"generation {now['generation']}, attempt {now['attempt']}")


def dry_runs_do_nothing(site):
    start(site, save_every=50)
    saved = site.wait(lambda: site.status().get("checkpoint"), 30, "a checkpoint")["iteration"]
    seen = len(site.events())
    pids = site.page_pids()
    for verb in (["stop"], ["stop", "--now"], ["stop", "--at", "2h"], ["pause"], ["restart"], ["rollback", "--to", str(saved)]):
        said = site.stoker(verb[0], site.run, *verb[1:], "--dry-run")
        check("would" in said.stdout, f"{verb}: {said.stdout}")
    said = site.stoker("exclude", "n02", "--for", "1h", "--dry-run")
    check("would" in said.stdout, f"exclude: {said.stdout}")
    site.wait_iteration(site.status()["iteration"] + 5, 60)
    check(site.page_pids() == pids, "a dry run touched the training")
    check(all(json.loads(n)["state"] == "ok" for n in site.stoker("nodes", "--json").stdout.splitlines()), "n02 is excluded")
    said = site.stoker("pause", site.run)
    check("no --reason" in said.stderr, "acting without a reason is not remarked on")
    site.wait(lambda: any("no reason given" in e["reason"] for e in site.events()), 30, "the journal to say so")
    asked = [e["reason"] for e in site.events()[seen:] if e["kind"] == "operator_asked"]
    check(len(asked) == 1, f"a dry run did something before the pause: {asked}")


main(all_ranks_frozen, one_rank_frozen, a_slow_tool_holds_no_restart, dry_runs_do_nothing)
