#!/usr/bin/env python3
"""The agent's fences and endurance: a delayed old job, frozen ranks and their stacks, watchmen that die without a spinning
survivor, the last line of a foreign training."""
import os
import signal
import subprocess
import time

from _agent import STEPS, check, run_cases, wait_for

FAULTHANDLER = """
import faulthandler
faulthandler.register(signal.SIGUSR1)
def stuck_in_the_loader():
    time.sleep(1000)
def turning():
    time.sleep(1000)
print("up", flush=True)
stuck_in_the_loader() if os.environ["RANK"] == "1" else turning()
"""


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def agents(a):
    return [pid for pid, (name, command) in a.processes().items() if "stoker-agent run" in command]


def ranks(a):
    found = {}
    for pid, (name, command) in a.processes().items():
        if "rank.py" in command and "guardian" not in command:
            with open(f"/proc/{pid}/environ", "rb") as file:
                found[int(file.read().split(b"\0RANK=")[1].split(b"\0")[0])] = pid
    return found


def freeze(pid):
    """Returns once it stands still."""
    os.kill(pid, signal.SIGSTOP)

    def stopped():
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "T"
    wait_for(stopped, 10, f"process {pid} to stop")


def delayed_old_job(allocation):
    """a job of an older submission that starts while its successor runs leaves before any rank starts"""
    a = allocation()
    a.script(STEPS)
    a.start(STOKER_TOKEN="run-2-bbbb")
    a.wait_event("phase", phase="iteration")
    late = allocation()
    late.directory, late.orders, late.job = a.directory, a.orders, 78
    late.start(STOKER_TOKEN="run-1-aaaa")
    check(late.exit_code(limit=15) == 3, "exit 3")
    said = open(os.path.join(late.folder, "agent.n01.log")).read()
    check("comes late" in said and "order 2" in said and said.count("\n") == 1, said)
    check(not os.path.exists(os.path.join(a.directory, "gen-000002")), "it minted a generation")
    check(len(ranks(a)) == 1, "the running training was touched")
    a.write_control(level="leave_now")
    a.exit_code()
    again = allocation()  # no process lives any more: the same old job may start
    again.directory, again.orders, again.job = a.directory, a.orders, 79
    again.start(STOKER_TOKEN="run-1-cccc")
    again.wait_event("attempt_started", generation=2)
    again.write_control(level="leave_now", generation=2)
    check(again.exit_code() == 0, "left")


def waits_for_its_predecessor(allocation):
    """a start waits while agents of the generation before are heard, says so, and trains once they have fallen silent"""
    a = allocation()
    a.script(STEPS)
    a.start(STOKER_TOKEN="run-1-aaaa")
    a.wait_event("phase", phase="iteration")
    following = allocation()
    following.directory, following.orders, following.job = a.directory, dict(a.orders, number=2), 78
    following.start(STOKER_TOKEN="run-2-bbbb")
    log = os.path.join(following.folder, "agent.n01.log")
    wait_for(lambda: "generation 1 (job 77_1) is still heard" in open(log).read(), 20, "the successor says what it waits for")
    check(not os.path.exists(os.path.join(a.directory, "gen-000002")), "it minted a generation beside a living one")
    check(len(ranks(a)) == 1, "two trainings at once")
    for pid in agents(a):  # without a goodbye: only silence proves
        os.kill(pid, signal.SIGKILL)
    following.wait_event("attempt_started", generation=2)
    check(not ranks(a), "a rank of the generation before is still there")
    wait_for(lambda: len(ranks(following)) == 1, 20, "the successor's rank")
    following.write_control(level="leave_now", generation=2)
    check(following.exit_code() == 0, "left")


def nobody_spins(allocation):
    """a guardian dies (its socket hangs up), a follower dies: the agents that stay use no processor time"""
    a = allocation(nodes=2, ranks=2)
    a.script(STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    guardian = [pid for pid, (name, _) in a.processes().items() if name == "stoker-guardian"][0]
    os.kill(guardian, signal.SIGKILL)
    a.wait_event("attempt_ended")
    living = {pid: cpu_seconds(pid) for pid in agents(a)}
    check(len(living) == 4, f"two agents and their keepers: {living}")
    time.sleep(2)
    for pid, before in living.items():
        used = cpu_seconds(pid) - before
        check(used < 0.3, f"agent process {pid} used {used:.2f} s of 2 s while it only waits")
    follower = [pid for pid in agents(a) if b"SLURMD_NODENAME=n02" in open(f"/proc/{pid}/environ", "rb").read()]
    for pid in follower:
        os.kill(pid, signal.SIGKILL)
    a.wait_event("agent_lost")
    living = {pid: cpu_seconds(pid) for pid in agents(a)}
    time.sleep(2)
    for pid, before in living.items():
        used = cpu_seconds(pid) - before
        check(used < 0.3, f"agent process {pid} used {used:.2f} s of 2 s after a follower's end")


def stacks_by_faulthandler(allocation):
    """stacks: a Python rank's frames by faulthandler's signal, equal ones grouped, the odd one named; a rank without a handler survives"""
    a = allocation(ranks=3, orders={"environment": {"STOKER_FAULTHANDLER": "USR1"}})
    a.script(FAULTHANDLER)
    a.start()
    wait_for(lambda: a.logged().count(b" up\n") == 3, what="three ranks are up")
    a.write_control(stacks=1)
    told = a.wait_event("stacks", limit=60)
    check(told["ranks"] == 3, str(told))
    text = {r: a.read(f"{told['directory']}/n01.{r}.txt").decode() for r in range(3)}
    check("stuck_in_the_loader" in text[1] and "turning" in text[0], text[1][-800:])
    check(told["groups"] == 2 and [o["rank"] for o in told["odd"]] == [1], str(told))
    b = allocation(orders={"environment": {"STOKER_FAULTHANDLER": "USR1"}})
    b.script(STEPS)  # says so, but has registered nothing: USR1 would end it
    b.start()
    b.wait_event("phase", phase="iteration")
    b.write_control(stacks=1)
    b.wait_event("stacks", limit=60)
    time.sleep(0.3)
    check(len(ranks(b)) == 1 and not b.events("rank_exited"), "asking for stacks ended the rank")


def stacks_of_frozen_ranks(allocation):
    """stacks of a frozen rank: it is the odd one; of all frozen ranks: written all the same, and before they are killed"""
    a = allocation(ranks=3)
    a.script(STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    found = ranks(a)
    freeze(found[2])
    a.write_control(stacks=1)
    told = a.wait_event("stacks", limit=60)
    check([o["rank"] for o in told["odd"]] == [2], str(told))
    check("state T" in a.read(told["directory"] + "/n01.2.txt").decode(), "the frozen rank's state")
    for pid in found.values():
        freeze(pid)
    a.write_control(stacks=2)
    wait_for(lambda: len(a.events("stacks")) == 2, 60, "stacks of frozen ranks")
    begin = time.monotonic()
    a.write_control(restart=1)
    a.wait_event("attempt_started", attempt=2)
    check(time.monotonic() - begin < 20, "frozen ranks were ended within the bound")
    sources = a.wait_event("health_sources")
    check({s["name"] for s in sources["sources"]} == {"NVML", "kernel log", "/dev/shm", "stacks"}, str(sources))
    a.write_control(level="leave_now")
    a.exit_code()
    a.nothing_left()


def last_line_counts(allocation):
    """a foreign training's last line, without a newline and right before its end, reaches the last beat"""
    a = allocation(orders={"progress": {"iteration": r"step=(\d+)", "loss": r"loss=([0-9.]+)"}, "in_allocation": False})
    a.script("""
for i in range(1, 400):
    print(f"step={i} loss=1.5", flush=True)
sys.stdout.write("step=400 loss=0.25")
sys.stdout.flush()
os._exit(0)
""")
    a.start()
    check(a.exit_code() == 0, "exit 0")
    kinds = [e["body"] for e in a.lines() if e["body"]["kind"] in ("beat", "attempt_ended")]
    end = [i for i, body in enumerate(kinds) if body["kind"] == "attempt_ended"][0]
    last = kinds[end - 1]
    check(last["kind"] == "beat" and last["iteration_max"] == 400 and last["loss"] == 0.25, str(last))


def told_to_restart(allocation):
    """a foreign rank that ends with 0 when it is ordered to restart is restarted, not taken for finished"""
    a = allocation()
    a.script("signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n" + STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    a.write_control(restart=1)
    a.wait_event("attempt_started", attempt=2)
    ended = a.events("attempt_ended")[0]["body"]
    check(ended["all_zero"] and ended["told"], str(ended))
    a.write_control(level="leave_now")
    check(a.exit_code() == 0, "left")


def stopped_with_its_guardian(allocation):
    """a rank that was stopped together with its guardian is ended all the same when a restart is asked for"""
    a = allocation()
    a.script(STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    frozen = [pid for pid, (name, command) in a.processes().items() if name == "stoker-guardian" or "rank.py" in command]
    check(len(frozen) >= 2, f"rank and guardian: {frozen}")
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    a.write_control(restart=1)
    a.wait_event("attempt_started", attempt=2)
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in frozen), 20, "the stopped ones to be gone")
    a.write_control(level="leave_now")
    check(a.exit_code() == 0, "left")


def starts_once_there_is_room(allocation):
    """an agent that cannot write its claim on a full disk waits for room and then starts: its task is not burned"""
    a = allocation()
    if os.geteuid() != 0:
        print("mounting a small disk needs root: not tried")
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=64", "stoker-test", a.directory], check=True)
    try:
        a.script(STEPS)
        a.write_orders()
        a.write_orders = lambda: None
        ballast = 0
        try:
            while True:  # no inode is left: nothing can be created
                open(f"{a.directory}/ballast.{ballast}", "x").close()
                ballast += 1
        except OSError:
            pass
        a.start()
        log = os.path.join(a.folder, "agent.n01.log")
        wait_for(lambda: "waiting for room" in open(log).read(), 30, "the agent says what it waits for")
        check(a.agents["n01"].poll() is None, "the agent left")
        for i in range(ballast):
            os.unlink(f"{a.directory}/ballast.{i}")
        a.wait_event("phase", 30, phase="iteration")
        a.write_control(level="leave_now")
        check(a.exit_code() == 0, "left")
    finally:
        subprocess.run(["umount", "-l", a.directory], check=True)


run_cases([delayed_old_job, waits_for_its_predecessor, nobody_spins, stacks_by_faulthandler, stacks_of_frozen_ranks, last_line_counts,
           told_to_restart, stopped_with_its_guardian, starts_once_there_is_room])
