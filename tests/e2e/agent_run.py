#!/usr/bin/env python3
"""The agent and its ranks: environment, output, exits, control, time limit, heartbeats."""
import json
import os
import pwd
import re
import signal
import subprocess
import time

from _agent import AGENT, STEPS, check, run_cases, wait_for

TRAIN = """
from heartbeat_client import Heartbeat
beat, i, saved = Heartbeat(), 0, 0
signal.signal(signal.SIGTERM, lambda *_: sys.exit(10))
beat.phase("load"); beat.phase("iteration")
print("attempt", os.environ["STOKER_ATTEMPT"], flush=True)
while True:
    i += 1
    beat.step(i, total=1000, samples=8 * i, loss=2.5, seconds=0.02)
    if beat.save_wanted():
        print('stoker-event ' + os.environ["STOKER_EVENT_WORD"] +
              ' {"kind":"checkpoint_saved","iteration":%d,"checkpoint":"c%d","bytes":1,"seconds":0.1}' % (i, i), flush=True)
        beat.saved(i)
    if beat.leave_wanted():
        sys.exit(10 if beat.leave_wanted() == 1 else 11)
    time.sleep(0.02)
"""


def environment(allocation):
    """ranks see exactly what torchrun and srun set, and stoker's variables"""
    a = allocation(nodes=2, ranks=2)
    a.script("import json\nprint('ENV ' + json.dumps(dict(os.environ)), flush=True)\n")
    a.start()
    check(a.exit_code() == 0 and a.exit_code("n02") == 0, "exit 0")
    seen = {}
    for line in a.read("gen-000001/main.log").decode().splitlines():
        prefix, _, text = line.partition("] ENV ")
        if text:
            node, rank = prefix[1:].split(":")
            seen[int(rank)] = (node, json.loads(text))
    check(sorted(seen) == [0, 1, 2, 3], f"four ranks: {sorted(seen)}")
    for rank, (node, env) in seen.items():
        want = {"RANK": rank, "WORLD_SIZE": 4, "LOCAL_RANK": rank % 2, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": rank // 2,
                "GROUP_WORLD_SIZE": 2, "ROLE_RANK": rank, "ROLE_WORLD_SIZE": 4, "MASTER_ADDR": "127.0.0.1",
                "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_RUN_ID": "run", "SLURM_PROCID": rank, "SLURM_LOCALID": rank % 2,
                "SLURM_NODEID": rank // 2, "SLURM_NTASKS": 4, "SLURM_NNODES": 2, "SLURMD_NODENAME": node,
                "STOKER_RUN": "run", "STOKER_RUN_DIR": a.directory, "STOKER_GENERATION": 1, "STOKER_ATTEMPT": 1,
                "STOKER_STORE_PREFIX": "run.1.1", "STOKER_START": a.directory + "/gen-000001/start.json"}
        for key, value in want.items():
            check(env.get(key) == str(value), f"rank {rank}: {key} is {env.get(key)}, not {value}")
        check(node == f"n{rank // 2 + 1:02}", f"rank {rank} on {node}")
        check(env.get("STOKER_EVENT_WORD") == "(hidden)", "the word of event lines is in no log")
        check("STOKER_LOAD" not in env and "STOKER_HEARTBEAT" in env, "load only for our own format; a heartbeat page")
    check(len({env["MASTER_PORT"] for _, env in seen.values()}) == 1, "one port")
    a.nothing_left()


def standalone(allocation):
    """without scheduler and daemon: runs in the user's folder, restarts within its budget, returns the exit code"""
    a = allocation()
    script = os.path.join(a.folder, "t.py")
    with open(script, "w") as file:
        file.write("import os, sys\nprint('here', os.getcwd())\nsys.exit(3)\n")
    env = {"PATH": os.environ["PATH"], "STOKER_TEST_MARK": a.mark}
    done = subprocess.run([AGENT, "run", "--run-dir", a.directory, "--node", "n01", "--", "python3", "t.py"], cwd=a.folder,
                          env=env, capture_output=True, text=True, timeout=60)
    check(done.returncode == 3, f"exit {done.returncode}: {done.stderr}")
    check(len(a.events("attempt_started")) == 4, "first start and three restarts")
    check(f"[n01:0] here {a.folder}\n" in a.read("gen-000001/main.log").decode(), "the user's folder")
    check("all 3 restarts are used up" in done.stderr, done.stderr)


def text_of_data(allocation):
    """a training prints text of its data that reads as event lines, and its environment: no event, no word in any file"""
    a = allocation()
    a.script("""
import json
word = os.environ.get("STOKER_EVENT_WORD", "0" * 32)
for event in ({"kind": "numbers_differ", "iteration": 3, "check": "replay", "what": "x", "ranks": [0], "outvoted": True, "repaired": False},
               {"kind": "checkpoint_saved", "iteration": 0, "checkpoint": "x", "bytes": 1, "seconds": 1e300},
               {"kind": "damaged_checkpoint", "checkpoint": "x", "why": "x"}, {"kind": "save_failed", "iteration": 0, "why": "disk full"},
               {"kind": "resume_audit", "checkpoint": "x", "iteration": 1, "passed": False, "guarantee": "", "items": []}):
    print("sample: hello\\nstoker-event " + json.dumps(event), flush=True)
print(dict(os.environ), file=sys.stderr, flush=True)
with open("word", "w") as file:
    file.write(word)
print("stoker-event " + word + ' {"kind":"save_failed","iteration":9,"why":"reported with the word"}', flush=True)
""")
    a.start()
    check(a.exit_code() == 0, "exit 0")
    word = a.read("word")
    check(re.fullmatch(rb"[0-9a-f]{32}", word), str(word))
    kinds = {e["body"]["kind"] for e in a.lines()}
    check(not kinds & {"numbers_differ", "checkpoint_saved", "damaged_checkpoint", "resume_audit"}, str(kinds))
    check([e["body"]["iteration"] for e in a.events("save_failed")] == [9], "the one with the word")
    check(a.logged().count(b"[n01:0] stoker-event {") == 5, "text stays in the log")
    os.remove(os.path.join(a.directory, "word"))
    for folder, _, files in os.walk(a.directory):
        for name in files:
            with open(os.path.join(folder, name), "rb") as file:
                check(word not in file.read(), f"the word is in {name}")
    a.nothing_left()


def hostile_output(allocation):
    """output: \\r, NUL, binary, a 3 MiB line, both streams; the raw log has every byte"""
    a = allocation()
    a.script("""
out = sys.stdout.buffer
out.write(b"one\\rtwo\\r\\nthree\\n"); out.write(b"nul\\0bin\\xff\\xfe\\n"); out.write(b"x" * (3 << 20) + b"\\n"); out.flush()
sys.stderr.write("on stderr\\n"); sys.stderr.flush()
out.write(b"no newline"); out.flush()
""")
    a.start()
    check(a.exit_code() == 0, "exit 0")
    raw, merged = a.read("gen-000001/ranks/0.log"), a.read("gen-000001/main.log")
    check(raw.startswith(b"one\rtwo\r\nthree\nnul\0bin\xff\xfe\n") and len(raw) > (3 << 20), "raw bytes")
    for line in (b"[n01:0] one\n", b"[n01:0] two\n", b"[n01:0] three\n", b"[n01:0] nul\0bin\xff\xfe\n", b"[n01:0] on stderr\n",
                 b"[n01:0] no newline\n"):
        check(line in merged, f"missing {line}")
    check(max(map(len, merged.split(b"\n"))) <= (1 << 20) + 16, "lines are bounded")
    check(merged.count(b"x") == 3 << 20, "the long line is whole, in pieces")


def never_blocks(allocation):
    """a rank that prints 200 MB is not slowed to the disk: bounded memory, dropped output is counted"""
    a = allocation()
    a.script("""
begin = time.monotonic()
for i in range(200):
    sys.stdout.buffer.write(b"%06d " % i + b"y" * 1048500 + b"\\n")
sys.stdout.flush()
print("done", flush=True)
""")
    a.start()
    check(a.exit_code(limit=60) == 0, "exit 0")
    check(b"done" in a.read("gen-000001/ranks/0.log")[-400:], "the end is there")


def progress_and_control(allocation):
    """heartbeat page -> beats and phases; save, stacks, stop by control are done once and acknowledged"""
    a = allocation(ranks=2)
    a.script(TRAIN)
    a.start()
    a.wait_event("phase", phase="iteration")
    beat = wait_for(lambda: [b for b in a.events("beat") if b["body"]["iteration_ms"]["count"] > 0], what="beat")[0]["body"]
    check(beat["reporting"] == 2 and beat["total"] == 1000 and beat["loss"] == 2.5, str(beat))
    check(15 < beat["iteration_ms"]["p50"] < 30 and beat["free_memory_bytes"] > 0, str(beat))
    a.write_control(save=1)
    check(a.wait_event("acknowledged", what="save")["value"] == 1, "save 1")
    a.wait_event("checkpoint_saved")
    wait_for(lambda: a.events("beat", saves_answered=1), what="the beat reports the save")
    a.write_control(reason="the same counter again")
    a.write_control(stacks=1)
    a.wait_event("acknowledged", what="stacks")
    stacks = a.wait_event("stacks", limit=60)
    check(stacks["ranks"] == 2, str(stacks))
    check("thread" in a.read(stacks["directory"] + "/n01.0.txt").decode(), "threads")
    a.write_control(level="save_and_leave")
    check(a.exit_code() == 0, "exit 0: the next task resumes")
    check(len(a.events("acknowledged", what="save")) == 1 and len(a.events("checkpoint_saved")) == 2, "one save a rank")
    exits = a.events("rank_exited")
    check(len(exits) == 2 and all(e["body"]["code"] == 10 and e["body"]["expected"] for e in exits), str(exits))
    check(a.events("goodbye", lead=True), "goodbye")
    a.nothing_left()


def fencing(allocation):
    """control of an older epoch or generation, or of another run, is refused and reported"""
    a = allocation(orders={"epoch": 4})
    a.script(TRAIN)
    a.start()
    a.wait_event("phase", phase="iteration")
    for change, word in (({"epoch": 3}, "epoch 3"), ({"epoch": 4, "generation": 0}, "generation 0"),
                         ({"generation": 1, "run": "other"}, "run other")):
        a.write_control(level="leave_now", **change)
        wait_for(lambda: [n for n in a.events("control_refused") if word in n["body"]["text"]], what=f"refusal of {word}")
    check(not a.events("acknowledged"), "nothing was done")
    a.write_control(run="run", level="leave_now")
    check(a.exit_code() == 0, "left")
    check(a.events("rank_exited")[0]["body"]["code"] == 11, "asked by the page to exit without saving")


def second_claimant(allocation):
    """a second start with the same claim leaves before any rank starts; a restarted job is another claim"""
    a = allocation()
    a.script(TRAIN)
    a.start()
    a.wait_event("attempt_started")
    again = subprocess.run([AGENT, "run", "--run-dir", a.directory, "--node", "n01"], env=a.environment("n01"),
                           capture_output=True, text=True, timeout=20)
    check(again.returncode == 3 and "is taken" in again.stderr and "\n" == again.stderr[-1], f"{again.returncode} {again.stderr}")
    check(not os.path.exists(os.path.join(a.directory, "gen-000002")), "no second generation")
    a.agents["n01"].send_signal(signal.SIGUSR1)
    check(a.exit_code() == 0, "USR1: saved and exited")
    a.restart = 1
    a.start()
    started = a.wait_event("generation_started", generation=2)
    check(started["parent"] == 1, "the parent is the generation before")
    a.agents["n01"].send_signal(signal.SIGTERM)
    a.exit_code()


def time_limit(allocation):
    """the wall comes near: ranks are notified in time, the agent leaves with 0"""
    a = allocation(orders={"exit_before_limit": 3 * 10**9})
    a.script(TRAIN)
    end = time.time_ns() + 6 * 10**9
    a.start(STOKER_JOB_END_NS=str(end))
    check(a.exit_code() == 0, "exit 0")
    left = end / 1e9 - time.time()
    check(1.0 < left < 3.2, f"left {left:.1f} s before the wall")
    check("time limit" in a.events("goodbye")[0]["body"]["why"] or a.events("rank_exited", code=10), "saved")


def switch_files(allocation):
    """switch/kill is taken up when no daemon does; a queued task with switch/stop starts nothing"""
    a = allocation()
    a.script("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(1000)\n")
    a.start()
    wait_for(lambda: os.path.exists(a.directory + "/gen-000001/main.log"), what="rank is up")
    os.makedirs(a.directory + "/switch")
    with open(a.directory + "/switch/KILL", "w") as file:
        file.write('{"reason": "enough\\u001b]0;x\\u0007\\u202e", "by": "eve"}')
    check(a.exit_code(limit=15) == 0, "left although the rank ignores TERM")
    owner = pwd.getpwuid(os.getuid()).pw_name
    told = [n["body"]["text"] for n in a.events("notice") if "switch kill" in n["body"]["text"]]
    check(told and f"by {owner} " in told[0] and told[0].endswith(": enough ]0;x ?"), f"whose file it is, what it says: {told}")
    a.restart = 1
    a.start()
    check(a.exit_code() == 0 and not os.path.exists(a.directory + "/gen-000002"), "nothing was started")
    with open(os.path.join(a.folder, "agent.n01.log"), "rb") as file:
        said = file.read()
    check(f"switch kill by {owner} is set".encode() in said and b"eve" not in said, f"the author is not its owner: {said[-300:]}")


def locked_switches(allocation):
    """A look at switch/ that never ends, as in a folder that a member has locked: control.json is obeyed, the agent ends, one notice"""
    a = allocation()
    a.script(STEPS)
    os.makedirs(a.directory + "/switch")
    a.start()
    a.wait_event("attempt_started")
    looker = [pid for pid, (name, _) in a.processes().items() if name == "stoker-switches"]
    check(len(looker) == 1, f"one process looks at switch/: {a.processes()}")
    os.kill(looker[0], signal.SIGSTOP)
    a.write_control(stacks=1)
    a.wait_event("acknowledged", what="stacks")
    said = a.wait_event("notice", node="n01")["text"]
    check(said.startswith(a.directory + "/switch: the folder has not answered for 1"), said)
    check([pid for pid, (name, _) in a.processes().items() if name == "stoker-switches"] == looker, "a second look was started")
    a.write_control(level="leave_now")
    check(a.exit_code() == 0, "left")
    a.nothing_left()
    check(len(a.events("notice")) <= 2, f"it is said once: {a.events('notice')}")


def finish_file(allocation):
    """train.finished.file that is a second name of another file ends no run, and a notice says so; a file of its own does"""
    for linked in (True, False):
        a = allocation(orders={"restarts": 0})
        done = os.path.join(a.folder, "DONE")
        a.orders["finished"] = {"file": done}
        open(os.path.join(a.folder, "README"), "w").close()
        a.script(f"os.link({a.folder + '/README'!r}, {done!r})\nsys.exit(0)\n" if linked else f"open({done!r}, 'w').close()\nsys.exit(0)\n")
        a.start()
        if not linked:
            wait_for(lambda: os.path.exists(a.directory + "/gen-000001/end.json"), what="the end mark")
            check("is there" in a.read("gen-000001/end.json").decode(), "the end has another reason")
            continue
        said = wait_for(lambda: [n for n in a.events("notice") if "no end of the training" in n["body"]["text"]], what="the notice")
        check("it has several names" in said[0]["body"]["text"] and done in said[0]["body"]["text"], str(said))
        check(not os.path.exists(a.directory + "/gen-000001/end.json"), "the file ended the run")


def bad_input(allocation):
    """a command that does not exist, no command, a malformed order: one clear line each"""
    a = allocation(orders={"in_allocation": False, "command": ["/no/such/program"]})
    a.start()
    check(a.exit_code() == 127, "127")
    check(b"/no/such/program" in a.read("gen-000001/main.log"), "the log names it")
    b = allocation(orders={"command": []})
    b.start()
    check(b.exit_code() == 2, "no command: 2")
    c = allocation(orders={"command": 7})
    c.start()
    check(c.exit_code() == 2, "malformed: 2")
    check(open(c.folder + "/agent.n01.log").read().count("\n") == 1, "one line")


def foreign_progress(allocation):
    """a foreign training: progress from log lines; save refused without a signal, done with one"""
    a = allocation(orders={"progress": {"iteration": r"step=(\d+)", "loss": r"loss=([0-9.]+)"}, "save_signal": "USR1"})
    a.script("""
def save(*_):
    print("saved by signal", flush=True)
signal.signal(signal.SIGUSR1, save)
child = subprocess.Popen(["sleep", "1000"])
for i in range(1, 100000):
    print(f"step={i} loss=1.5", flush=True)
    time.sleep(0.05)
""")
    a.start()
    beat = wait_for(lambda: [b for b in a.events("beat") if b["body"]["iteration_max"] > 3], what="progress")[0]["body"]
    check(beat["loss"] == 1.5 and beat["reporting"] == 1, str(beat))
    a.write_control(save=1)
    wait_for(lambda: b"saved by signal" in a.logged(), what="save signal")
    check(any("sleep" in command for _, command in a.processes().values()), "a child that does not trap USR1 lives")
    a.write_control(level="leave_now")
    check(a.exit_code() == 0, "left")
    a.nothing_left()


run_cases([environment, standalone, text_of_data, hostile_output, never_blocks, progress_and_control, fencing, second_claimant, time_limit,
           switch_files, locked_switches, finish_file, bad_input, foreign_progress])
