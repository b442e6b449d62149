"""Plays one sequence in one world and judges it: `python3 _play.py JSON` prints one line of JSON at the end.

    {"world": "embedded", "training": "loop", "seed": 7, "steps": [[name, seed, wait], …] or null, "shared": FOLDER, "keep": FOLDER}
"""
import contextlib
import json
import os
import random
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..")))

from operators._deeds import NAMED, draw_sequence  # noqa: E402
from operators._rules import violations  # noqa: E402
from operators._wanted import settled, wishes  # noqa: E402
from operators._witness import Witness  # noqa: E402


def make_world(name, training, draw, shared):
    if name == "embedded":
        from operators._worlds import Embedded
        return Embedded(training, draw, shared)
    from operators._slurm import OnSlurm
    return OnSlurm(training, draw, shared)


SAMPLES_A_SECOND = 1  # at least, on a machine that is quick enough to be judged by the clock


def wait_until(condition, seconds, witness=None):
    """With a witness the time is up only when it has looked often enough: a machine that starves it starves stoker as well."""
    end = time.monotonic() + seconds
    enough = len(witness.samples()) + seconds * SAMPLES_A_SECOND if witness else 0
    while not condition():
        if time.monotonic() > end and (witness is None or len(witness.samples()) >= enough):
            return False
        time.sleep(0.2)
    return True


def settle(world, witness, after):
    """Waits until the run is where it was to be and stays there a little longer, or the time is up. What it was before an order
    took effect may be what was asked for too: then the wait goes on (`stop` takes 20 s where a training does not answer)."""
    def good(mark=False):
        with witness.lock:
            fine = not settled(witness.history)
            if fine and mark:
                witness.history.append({"t": round(time.monotonic(), 3), "kind": "settle", "after": after})
            return fine
    end = time.monotonic() + world.settle_s + world.grace_s
    while time.monotonic() < end and wait_until(good, world.settle_s, witness):
        time.sleep(2)
        if wait_until(lambda: good(mark=True), world.grace_s, witness):
            return
    witness.add("settle", after=after)


def heal(world, witness):
    """What was broken by hand works again; the run itself is left as it is."""
    world.free_disk()
    world.thaw()
    if world.site.daemon is None or world.site.daemon.poll() is not None:
        world.start_daemon()
        witness.add("deed", name="daemon_started")
    witness.add("deed", name="releasing")  # one job after another: the first may run before the last is released
    world.release()
    witness.add("deed", name="released")
    folder = os.path.join(world.site.directory, "switch")
    wait_until(lambda: not os.path.isdir(folder) or not [n for n in os.listdir(folder) if not n.startswith(".")], world.grace_s)
    witness.add("deed", name="switches_read", only="")


def steps_of(world, witness, steps):
    for name, seed, wait in steps:
        time.sleep(wait)
        if world.site.daemon is not None and world.site.daemon.poll() is not None:
            witness.add("daemon_died", code=world.site.daemon.returncode)
            world.site.daemon = None
        NAMED[name](world, random.Random(seed), witness.add)


def come_back(world, witness):
    """Wherever the last operation led: `resume` takes the run up again, and `stop --now` ends it."""
    with witness.lock:
        possible = wishes(witness.history)
    from operators._deeds import order
    state = witness.last()["status"]
    if possible != {("train", False, False)} or state.get("state") != "training":
        if state.get("state") != "finished":
            with contextlib.suppress(OSError):
                os.unlink(world.kill_switch)
            order(world, witness.add, "resume", world.site.run, "--reason", "go on")
            settle(world, witness, "resume after everything")
    if witness.last()["status"].get("state") != "finished":
        order(world, witness.add, "kill", world.site.run, "--reason", "the end")
        settle(world, witness, "stop --now after everything")


def play(world, steps):
    witness = world.witness = Witness(world)
    witness.start()
    try:
        world.begin()
        settle(world, witness, "the first start")
        steps_of(world, witness, steps)
        heal(world, witness)
        settle(world, witness, f"after {steps[-1][0] if steps else 'nothing'}")
        come_back(world, witness)
    finally:
        witness.stop()
    for row in world.site.events():
        witness.add("row", **{k: row[k] for k in ("seq", "time", "kind", "decision", "reason") if k in row and k != "kind"}, event=row["kind"])
    if world.site.daemon:
        world.kill_daemon(signal.SIGTERM)
    done = world.audit()
    witness.add("audit", exit=done.returncode, said=(done.stdout + done.stderr)[-1000:])
    return witness.history


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))  # its world is closed all the same
    given = json.loads(sys.argv[1])
    draw = random.Random(given["seed"])
    began = time.monotonic()
    world = make_world(given["world"], given["training"], draw, given["shared"])
    steps = draw_sequence(draw, draw.randint(3, 9), world.without())
    steps = given["steps"] if given.get("steps") is not None else steps
    world.use_disk = any(s[0] == "disk_full" for s in steps) and os.geteuid() == 0
    answer = {"seed": given["seed"], "steps": steps, "violations": [], "broken": ""}
    try:
        history = play(world, steps)
        for h in history:
            h["t"] = round(h["t"] - began, 3)
        limits = {"grace_s": world.grace_s, "effect_s": world.effect_s, "settle_s": world.settle_s}
        answer["violations"] = violations(history, limits)
        if answer["violations"] and given.get("keep"):
            keep(given, world, history, answer)
    except Exception:  # the harness itself is at fault: said so, and no verdict
        answer["broken"] = traceback.format_exc()[-3000:]
    finally:
        try:
            world.close()
        except Exception:
            answer["broken"] += traceback.format_exc()[-3000:]
    answer["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(answer), flush=True)


def keep(given, world, history, answer):
    os.makedirs(given["keep"], exist_ok=True)
    with open(os.path.join(given["keep"], f"{given['world']}-{given['training']}-{given['seed']}.jsonl"), "w", encoding="utf-8") as f:
        for h in [answer, *history]:
            f.write(json.dumps(h) + "\n")
    with contextlib.suppress(OSError), open(os.path.join(world.folder, "stokerd.log"), encoding="utf-8", errors="replace") as f, \
            open(os.path.join(given["keep"], f"{given['world']}-{given['training']}-{given['seed']}.log"), "w", encoding="utf-8") as out:
        out.write(f.read())


if __name__ == "__main__":
    main()
