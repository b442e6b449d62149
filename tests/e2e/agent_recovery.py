#!/usr/bin/env python3
"""The agent's recovery: nothing outlives it, restarts inside the allocation, spares, lead death, stop ladder, standbys."""
import itertools
import os
import signal
import sys
import time

from _agent import STEPS, check, run_cases, wait_for

# A rank with a child, a setsid'ed grandchild, and one that has even dropped its environment.
FAMILY = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
keep = {k: v for k, v in os.environ.items() if k == "STOKER_TEST_MARK"}
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.execve("/bin/sleep", ["sleep", "1001"], dict(os.environ))
    subprocess.Popen(["/bin/sleep", "1002"], start_new_session=True, env=keep)
    time.sleep(1003)
subprocess.Popen(["/bin/sleep", "1004"])
print("family is up", flush=True)
time.sleep(1000)
"""

# A rank that can be a warm standby: it is ready after a slow start, then becomes a rank by its order.
WARM = """
import json
fd = os.environ.pop("STOKER_STANDBY_FD", None)
time.sleep(3)
if fd:
    import socket
    link = socket.socket(fileno=int(fd)); link.sendall(b"R")
    open(f"ready.{os.getpid()}", "w").close()
    line = link.makefile().readline()
    if not line:
        sys.exit(0)
    os.environ.update(json.loads(line)["environment"]); link.close()
print("rank", os.environ["RANK"], "attempt", os.environ["STOKER_ATTEMPT"], "warm" if fd else "cold", flush=True)
""" + STEPS


def family_up(a, attempt=1):
    wait_for(lambda: len([c for _, c in a.processes().values() if "sleep 100" in c]) >= 3, what="the family is up")


def watchmen(a):
    found = {}
    for pid, (name, command) in a.processes().items():
        if name == "stoker-guardian":
            found["guardian"] = pid
        elif "stoker-agent run" in command:
            found["keeper" if pid == a.agents["n01"].pid else "agent"] = pid
        elif "rank.py" in command and "rank" not in found:
            found["rank"] = pid
    with open(f"/proc/{found['guardian']}/task/{found['guardian']}/status") as _:
        pass
    # the rank is the guardian's child
    for pid in a.processes():
        with open(f"/proc/{pid}/stat") as file:
            if int(file.read().rsplit(")", 1)[1].split()[1]) == found["guardian"]:
                found["rank"] = pid
    return found


def nothing_survives(allocation):
    """kill -9 of agent, keeper, guardian and the rank, alone and in every order: nothing survives 3 s later"""
    orders = [(one,) for one in ("agent", "keeper", "guardian", "rank")]
    orders += list(itertools.permutations(("agent", "guardian", "rank")))
    orders += [("keeper", "agent"), ("agent", "keeper"), ("keeper", "guardian"), ("guardian", "keeper"), ("guardian", "agent")]
    for order in orders:
        a = allocation(orders={"in_allocation": False})
        a.script(FAMILY)
        a.start()
        family_up(a)
        found = watchmen(a)
        check(len(found) == 4, f"{found}")
        for name in order:
            try:
                os.kill(found[name], signal.SIGKILL)
            except OSError:
                pass
        wait_for(lambda: a.agents["n01"].poll() is not None and not a.processes(), 3.0,
                 lambda: f"nothing survives the death of {order}; left: {found} {a.processes()}")
        check(not [f for f in os.listdir("/dev/shm") if a.mark in f], "shared memory is gone")
        a.close()


def restart_by_control(allocation):
    """a dead rank: all ranks stopped, then restarted on the same node by control; both ranks of an attempt have one port"""
    a = allocation(ranks=2)
    a.script("print('PORT', os.environ['STOKER_ATTEMPT'], os.environ['MASTER_PORT'], flush=True)\n" + STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    victim = [pid for pid, (_, c) in a.processes().items() if "rank.py" in c and "guardian" not in c][0]
    os.kill(victim, signal.SIGSEGV)
    died = a.wait_event("rank_exited")
    check(died["signal"] == 11 and not died["expected"], str(died))
    ended = a.wait_event("attempt_ended")
    check(ended["worst_code"] == 139 and not ended["all_zero"] and ended["first_node"] == "n01", str(ended))
    a.write_control(restart=1, reason="rank died")
    started = a.wait_event("attempt_started", attempt=2)
    check("rank died" in started["why"], str(started))
    a.wait_event("phase", attempt=2, phase="iteration")
    told = wait_for(lambda: a.logged().count(b"PORT ") == 4 and a.logged().endswith(b"\n") and a.logged(), 30, "four ranks print")
    ports = {line.split(b"PORT ")[1] for line in told.splitlines()}
    check(sorted(p.split()[0] for p in ports) == [b"1", b"2"], f"one port for both ranks of an attempt: {ports}")
    a.write_control(level="leave_now")
    check(a.exit_code() == 0, "left")
    a.nothing_left()


def orphaned(allocation):
    """without a word from the daemon the lead restarts within its budget, then leaves with the rank's code"""
    a = allocation(orders={"orphan_grace": 3 * 10**8, "restart_budget": 2})
    a.script("sys.exit(7)\n")
    a.start()
    check(a.exit_code() == 7, "exit 7")
    whys = [e["body"]["why"] for e in a.events("attempt_started")]
    check(len(whys) == 3 and "orphaned" in whys[1], str(whys))


def frozen_rank(allocation):
    """a frozen rank (SIGSTOP) and one that ignores TERM are killed within the grace"""
    a = allocation(ranks=2, orders={"stop_grace": 5 * 10**8})
    a.script("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    victim = [pid for pid, (_, c) in a.processes().items() if "rank.py" in c and "guardian" not in c][0]
    os.kill(victim, signal.SIGSTOP)
    old = wait_for(lambda: [b for b in a.events("beat") if b["body"]["progress_age_ms"] > 2500], what="its age grows")[-1]["body"]
    check(old["newest_progress_age_ms"] < 1000 and old["oldest"][0]["age_ms"] > 2000, str(old))
    a.write_control(restart=1)
    a.wait_event("attempt_started", attempt=2)
    a.wait_event("phase", attempt=2, phase="iteration")
    begin = time.monotonic()
    a.write_control(restart=2)
    a.wait_event("attempt_started", attempt=3)
    check(time.monotonic() - begin > 0.4, "TERM, then the grace, then KILL")
    a.agents["n01"].send_signal(signal.SIGTERM)
    a.write_control(level="leave_now")
    a.exit_code()
    a.nothing_left()


def spare_goes_in(allocation):
    """a node's agent dies with all its processes: the spare takes its place; an excluded node too is replaced"""
    a = allocation(nodes=2, spares=2)
    a.script(STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    first = a.wait_event("attempt_started")
    check(first["nodes"] == ["n01", "n02"], str(first))
    for pid in a.processes():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if b"SLURMD_NODENAME=n02" in file.read():
                    os.kill(pid, signal.SIGKILL)
        except OSError:
            continue  # its watchmen were faster
    check(a.wait_event("agent_lost", limit=3)["node"] == "n02", "lost")
    a.wait_event("attempt_ended")
    a.write_control(restart=1)
    check(a.wait_event("attempt_started", attempt=2)["nodes"] == ["n01", "n03"], "the spare")
    a.wait_event("phase", attempt=2, phase="iteration")
    a.write_control(restart=2, exclude=["n03"])
    check(a.wait_event("attempt_started", attempt=3)["nodes"] == ["n01", "n04"], "the other spare")
    a.wait_event("phase", attempt=3, phase="iteration")
    a.write_control(level="leave_now")
    check(a.exit_code() == 0 and a.exit_code("n03") == 0, "left")
    a.nothing_left()


def avoided_rather_than_left(allocation):
    """the orders' exclusions are gone without as far as there are spares; without one the allocation is not given up"""
    a = allocation(nodes=2, spares=1, orders={"exclude": ["n01"]})
    a.script(STEPS)
    a.start()
    check(a.wait_event("attempt_started")["nodes"] == ["n02", "n03"], "without n01")
    a.wait_event("phase", phase="iteration")
    a.write_control(restart=1, exclude=["n03"])  # the daemon's own word: never with it
    check(sorted(a.wait_event("attempt_started", attempt=2)["nodes"]) == ["n01", "n02"], "better with n01 than not at all")
    a.wait_event("phase", attempt=2, phase="iteration")
    a.write_control(level="leave_now")
    check(a.exit_code() == 0, "left")
    a.nothing_left()


def lead_dies(allocation):
    """the lead is killed: the follower says so, gives up after its bound, and nothing of it is left"""
    a = allocation(nodes=2)
    a.script(STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    for pid, (_, command) in a.processes().items():  # not the keeper: its death the lead would still tell
        if "stoker-agent run" in command and "--node n01" in command and pid != a.agents["n01"].pid:
            os.kill(pid, signal.SIGKILL)
    begin = time.monotonic()
    check(a.exit_code("n02", 60) == 1, "an error")
    check(time.monotonic() - begin > 8, "after 10 s")
    kinds = [e["body"]["kind"] for e in a.lines("agents/n02.jsonl")]
    check(kinds[0] == "agent_lost" and kinds[-1] == "goodbye", str(kinds))
    a.nothing_left()


def warm(allocation):
    """warm standbys: crash to first new iteration is fast, and standbys do not outlive the agent"""
    a = allocation(ranks=2, orders={"environment": {"STOKER_WARM": "1"}, "orphan_grace": 0})
    a.script(WARM)
    a.start()
    wait_for(lambda: len([n for n in os.listdir(a.directory) if n.startswith("ready.")]) == 2, what="two standbys")
    time.sleep(1.2)  # for a beat to the lead
    first = [pid for pid, (_, c) in a.processes().items() if c.startswith(sys.executable)
             and b"STOKER_STANDBY_FD" not in open(f"/proc/{pid}/environ", "rb").read()]
    begin = time.monotonic()
    os.kill(first[0], signal.SIGKILL)
    check(a.wait_event("attempt_started", attempt=2)["standby"], "warm")
    a.wait_event("phase", attempt=2, phase="iteration")
    took = time.monotonic() - begin
    print(f"    crash -> first new iteration: {took * 1000:.0f} ms", flush=True)
    check(took < 3, f"{took:.2f} s with a standby (3 s of start-up saved)")
    wait_for(lambda: a.logged().count(b"attempt 2 warm") == 2, 30, "both ranks were warm")
    a.agents["n01"].kill()
    a.nothing_left()


run_cases([nothing_survives, restart_by_control, orphaned, frozen_rank, spare_goes_in, avoided_rather_than_left, lead_dies, warm])
