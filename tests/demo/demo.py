#!/usr/bin/env python3
"""./dev demo: a small GPT is trained on 2 nodes x 2 ranks with spares, and everything that can go wrong goes wrong.

Each act is shown in two lines: what was done to the training, and what stoker saw and did, with the seconds lost. At the end
stands the chronicle that stoker wrote by itself, and the weights are compared with an undisturbed run: identical, or exit 1.
"""
import argparse
import datetime
import glob
import json
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

# The batch is 4 until 64 samples are consumed (16 steps), then 8.
ITERATIONS = 1500
ITERATIONS_SLURM = 3000  # SLURM's shortest time limit is a minute
MEMORY_EVERY = 5  # iterations between snapshots in memory: no restart may repeat more


def samples(iterations):
    return 16 * 4 + (iterations - 16) * 8


def bold(text):
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


class Demo:
    def __init__(self, site, slow, iterations):
        self.site = site
        self.iterations = iterations
        self.slow = slow
        self.act_number = 0
        self.lost_total = 0.0

    def last_event(self):
        events = self.site.events()
        return events[-1]["seq"] if events else 0

    def act(self, what, do, until, seconds=300, tell=None, lost=None):
        """Does it, waits until stoker has dealt with it, and prints both in two lines.

        `tell` gives stoker's line where no decision was needed, `lost` the seconds where they are not those of the act.
        """
        self.act_number += 1
        if self.slow and sys.stdin.isatty():
            input(f"\n[Enter for act {self.act_number}: {what}] ")
        self.site.wait(lambda: self.site.status().get("state") == "training", 60, "the training to go on")
        time.sleep(0.5)  # what the act before had caused is reported
        seen = self.last_event()
        before = self.site.status()
        began = time.monotonic()
        detail = do()
        print(f"\n{bold(f'{self.act_number}. {what}')}{': ' + detail if detail else ''} "
              f"(iteration {before['iteration']} of {before['total']})", flush=True)
        self.site.wait(lambda: until(seen, before), seconds, f"stoker to deal with: {what}")
        gone = time.monotonic() - began if lost is None else lost(seen)
        self.lost_total += gone
        told = tell(seen, before) if tell else self.decided(seen)
        print(f"   stoker: {told} [{f'{gone:.1f}s lost' if gone else 'nothing lost'}]", flush=True)

    def decided(self, seen):
        """The sentences of the decisions since then: the first and the last."""
        reasons = [e["reason"] for e in self.site.events() if e["seq"] > seen and e["decision"] and e["reason"]]
        if not reasons:
            return "nothing to decide"
        return reasons[0] if reasons[-1] == reasons[0] else f"{reasons[0]}; then: {reasons[-1]}"

    def restarted(self, _seen, before):
        """The ranks were restarted, or the next task has begun: on a slow machine the time limit may come in the same
        moment, and its end is a planned one. They are past the iteration where they were hit."""
        now = self.site.status()
        return any(now.get(name, 0) > before[name] for name in ("restarts", "generation")) and self.further(_seen, before)

    def further(self, _seen, before):
        now = self.site.status()
        return now.get("state") == "training" and not now["stale"] and now["iteration"] > before["iteration"]


def progress(site, name, iterations, seconds):
    """Shows the training's progress on one line until it has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        s = site.status()
        if sys.stderr.isatty():
            print(f"\r   {name}: iteration {s.get('iteration', 0)} of {iterations}, loss {s.get('loss')}   ",
                  end="", file=sys.stderr, flush=True)
        if s.get("state") in ("finished", "held", "stopped"):
            break
        time.sleep(0.2)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if site.status().get("state") != "finished":
        raise SystemExit(f"{name} did not finish: {json.dumps(site.status())}\n{site.tail_of_log()}")


def damage_newest_checkpoint(site):
    checkpoint = site.newest_checkpoint()
    shard = max((os.path.join(checkpoint, f) for f in os.listdir(checkpoint) if f != "manifest.json"),
                key=os.path.getsize)
    with open(shard, "r+b") as f:
        f.seek(os.path.getsize(shard) // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 0x10]))
    return os.path.basename(checkpoint)


def story(site, demo):
    def kill_rank():
        pid = site.rank_pid(1)
        os.kill(pid, signal.SIGKILL)
        return f"kill -9 {pid}, which is rank 1"

    def freeze_rank():
        pid = site.rank_pid(2)
        os.kill(pid, signal.SIGSTOP)
        return f"SIGSTOP to {pid}, which is rank 2; no error, no output, nothing moves"

    def kill_node():
        name = damage_newest_checkpoint(site)
        # After the frozen rank its node may be excluded: lost is the one that carries ranks 2 and 3 now.
        attempts = [e["reason"] for e in site.events() if " ranks on " in (e["reason"] or "")]
        node = "n02" if "ranks on n[01-02]" in attempts[-1] else "n03"
        site.admin("kill-node", node)
        return f"one bit of {name} flipped, and node {node} lost with all its processes, memory and all"

    def kill_daemon():
        site.kill_daemon(signal.SIGKILL)
        time.sleep(1.0)
        site.start_daemon()
        return "kill -9 of stokerd; started again a second later"

    def drop_switch():
        site.switch("save", json.dumps({"by": "you", "reason": "before lunch"}))
        return "a file named save in the run's switch folder"

    def saved(seen, before):
        return any(e["seq"] > seen and "checkpoint_saved" in json.dumps(e) for e in site.events()) and \
            not os.path.exists(os.path.join(site.directory, "switch", "save"))

    def next_task(_seen, before):
        now = site.status()
        return now.get("generation", 0) > before["generation"] and now["iteration"] >= before["iteration"] \
            and now["state"] in ("training", "finished")

    def found(_seen, before):
        now = site.status()
        return (f"the restarted daemon found generation {now['generation']} of job {now['job']} training; it had gone on from "
                f"iteration {before['iteration']} to {now['iteration']} meanwhile")

    def answered(seen, _before):
        told = [e["reason"] for e in site.events() if e["seq"] > seen and e["reason"]]
        asked = next((r for r in told if "save" in r and "checkpoint of" not in r), "the switch file is taken")
        return asked + "; " + next((r for r in told if r.startswith("checkpoint of")), "saved")

    def between_tasks(seen):
        """Seconds from the moment the old task had saved and exited until the next one trained."""
        at = {e["decision"]: datetime.datetime.fromisoformat(e["time"].replace("Z", "+00:00"))
              for e in reversed(site.events()) if e["seq"] > seen and e["decision"]}
        left = next((t for d, t in at.items() if d.endswith(("-> stopping", "-> queued"))), at["starting -> training"])
        return (at["starting -> training"] - left).total_seconds()

    def avoided(seen, _before):
        damage = next((e["reason"] for e in site.events() if e["seq"] > seen and "is damaged" in e["reason"]), "")
        name = damage.partition(" is damaged")[0]
        said = "\n".join(e["reason"] for e in site.events() if e["seq"] > seen and e["reason"])
        source = re.search(r", from (memory of .*, iteration \d+|the checkpoint of \d+)", said)
        repeats = max(map(int, re.findall(r"(?:repeats |: )(\d+) iterations?\b(?: to repeat)?", said)), default=0)
        if not source or repeats > MEMORY_EVERY:
            raise SystemExit(f"the node's death repeats more than {MEMORY_EVERY} iterations: {said}")
        return (f"{demo.decided(seen)}; {name} is damaged: its content is not what the manifest says; the state came from {source[1]}; "
                f"repeats {repeats} iteration{'' if repeats == 1 else 's'}, {MEMORY_EVERY} at most")

    def no_loss(_seen):
        return 0

    site.wait_iteration(40)
    demo.act("A rank dies", kill_rank, demo.restarted)
    site.wait_iteration(120)
    demo.act("A rank freezes", freeze_rank, demo.restarted)
    site.wait_iteration(220)
    demo.act("A checkpoint is damaged and a node dies", kill_node, demo.restarted, tell=avoided)
    site.wait_iteration(300)
    demo.act("The daemon dies", kill_daemon, demo.further, tell=found, lost=no_loss)
    demo.act("Somebody wants a checkpoint now", drop_switch, saved, tell=answered, lost=no_loss)
    demo.act("The time limit comes", lambda: "this task's wall is near; the array has more tasks", next_task, seconds=200,
             lost=between_tasks)


def tell_end(site, demo, reference):
    progress(site, "disturbed run", demo.iterations, 800)
    print(f"\n{bold('The chronicle, as stoker wrote it')}\n")
    print(site.stoker("chronicle", site.run).stdout)
    mine = site.digest()
    print(f"undisturbed: iteration {reference['iteration']}, weights and optimizer state {reference['digest']}")
    print(f"disturbed:   iteration {mine['iteration']}, weights and optimizer state {mine['digest']}")
    same = mine["digest"] == reference["digest"] and mine["iteration"] == reference["iteration"]
    print(bold("identical" if same else "DIFFERENT"))
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--slow", action="store_true", help="wait for Enter between acts")
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    parser.add_argument("--slurm", action="store_true", help="on a real SLURM (Debian's packages, root): slurmctld, eight slurmd")
    parser.add_argument("text", nargs="*", help="text to train on (default: the licences of this system)")
    options = parser.parse_args()
    os.environ["STOKER_BIN"] = os.path.abspath(options.bin)
    from e2e._harness import Failed, Site

    texts = options.text or sorted(f for f in glob.glob("/usr/share/common-licenses/*")
                                   if os.path.isfile(f) and not os.path.islink(f))
    began = time.monotonic()
    cluster = None
    if options.slurm:
        from slurm.cluster import Cluster, why_not
        from slurm.real._site import SlurmSite
        if reason := why_not():
            print(f"SKIPPED: no SLURM can be started here: {reason}")
            return 77
        cluster = Cluster(keep=options.keep)
        cluster.__enter__()
        site = SlurmSite(cluster, "undisturbed")
    else:
        site = Site("undisturbed", keep=options.keep)
    iterations = ITERATIONS_SLURM if options.slurm else ITERATIONS
    shape = dict(nodes=2, spares=1 if options.slurm else 2, samples=samples(iterations), save_every=50, memory_every=MEMORY_EVERY, time_limit="2min" if options.slurm else "50s",
                 exit_before_limit="6s", hidden=96, ffn=384, sequence=96, floor="5s")
    good = False
    try:
        print(bold("stoker keeps a training alive: 2 nodes x 2 ranks, spare nodes, "
                   f"{'a real SLURM' if options.slurm else 'embedded scheduler'}"))
        prefix = site.prepare_data(texts)
        site.start_daemon()
        print(f"First without trouble, for comparison ({iterations} iterations):", flush=True)
        site.stoker("run", site.write_files(prefix, **dict(shape, time_limit="10min")), "--yes")
        progress(site, "undisturbed run", iterations, 1200)
        reference = site.digest()
        site.use_run("disturbed")
        site.stoker("run", site.write_files(prefix, **shape), "--yes")
        demo = Demo(site, options.slow, iterations)
        story(site, demo)
        good = tell_end(site, demo, reference)
        site.audit()
        print(f"The journal, replayed from zero, gives the same state. {time.monotonic() - began:.0f}s in all.")
    except Failed as failure:
        print(f"\nthe demo failed: {failure}", file=sys.stderr)
        good = False
    finally:
        site.close()
        if cluster:
            cluster.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
