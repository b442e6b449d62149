"""Writers that come too late, and two daemons on one run directory: a late writer's directories never become the resume point,
the second daemon is refused."""
import json
import os
import signal
import subprocess
import time

from e2e._harness import BIN, Site, check, main, run_program

SHAPE = dict(samples=400000, nodes=1, ranks_per_node=1, hidden=64, ffn=256, sequence=64, save_every=20)


def checkpoints(site):
    return sorted(os.listdir(os.path.join(site.directory, "checkpoints")))


def steps_of(site, generation):
    return [int(n[5:11]) for n in checkpoints(site) if n.endswith(f".g{generation:06}")]


def start_late_writer(site, train):
    """A rank of generation 1 that no agent knows of any more, as behind a network that came back."""
    generation = os.path.join(site.directory, "gen-000001")
    newest = max(n for n in checkpoints(site) if n.endswith(".g000001"))
    env = dict(site.env, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29999",
               STOKER_RUN=site.run, STOKER_RUN_DIR=site.directory, STOKER_GENERATION="1", STOKER_ATTEMPT="9",
               STOKER_START=os.path.join(generation, "start.json"), STOKER_LOAD=os.path.join(site.directory, "checkpoints", newest))
    log = open(os.path.join(site.folder, "late.log"), "wb")
    return subprocess.Popen([os.path.join(BIN, "stoker-train"), "--config", train], cwd=site.directory, env=env, stdout=log,
                            stderr=log, start_new_session=True)


def freeze_inside_a_save(site, writer):
    """SIGSTOP while its directory is still aside."""
    for _ in range(400):
        site.wait(lambda: [n for n in checkpoints(site) if ".g000001.partial." in n], 30, "a save of the late writer")
        writer.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
        if [n for n in checkpoints(site) if ".g000001.partial." in n]:
            return
        writer.send_signal(signal.SIGCONT)
        time.sleep(0.02)
    check(False, "the late writer could not be frozen inside a save")


def a_late_writer(site):
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix, **SHAPE)
    site.stoker("run", config, "--yes")
    site.wait(lambda: site.status().get("checkpoint"), 60, "a checkpoint")
    site.stoker("stop", site.run, "--reason", "the late writer takes its place")
    site.wait_state("stopped", 60)
    writer = start_late_writer(site, config.replace(".yaml", ".train.yaml"))
    try:
        freeze_inside_a_save(site, writer)
        before = max(steps_of(site, 1))
        site.stoker("resume", site.run, "--reason", "go on")
        site.wait(lambda: steps_of(site, 2), 60, "a checkpoint of generation 2")
        check(min(steps_of(site, 2)) <= before + 20, f"generation 2 began at {steps_of(site, 2)}, not at {before}")
        writer.send_signal(signal.SIGCONT)  # its successor has saved: now it goes on
        site.wait(lambda: max(steps_of(site, 1)) > before, 60, "the late writer to finish its save")
        os.kill(site.rank_pid(0), signal.SIGKILL)
        started = site.wait(lambda: [e for e in site.events() if e["reason"].startswith("attempt 2 of generation 2")], 60,
                            "attempt 2 of generation 2")[0]
        loaded = started["event"]["event"]["body"]["load"]
        check(loaded.endswith(".g000002"), f"attempt 2 resumed from the late writer's {loaded}")
        site.wait(lambda: max(steps_of(site, 1)) > max(steps_of(site, 2)) or writer.poll() is not None, 30, "the late writer to pass")
        site.stoker("stop", site.run, "--reason", "once more")
        site.wait_state("stopped", 60)
        site.stoker("resume", site.run, "--reason", "go on")
        start = site.wait(lambda: os.path.exists(os.path.join(site.directory, "gen-000003", "start.json")) and json.load(
            open(os.path.join(site.directory, "gen-000003", "start.json"), encoding="utf-8")), 60, "generation 3")
        check(start["iteration"] in steps_of(site, 2), f"generation 3 resumes at {start['iteration']}")
        told = [e["event"]["event"]["body"]["load"] for e in site.wait(
            lambda: [e for e in site.events() if e["reason"].startswith("attempt 1 of generation 3")], 60, "generation 3 to start")]
        check(told[0].endswith(".g000002"), f"generation 3 loads {told[0]}")
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()


def two_states_one_directory(site):
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix, **SHAPE)
    site.stoker("run", config, "--yes")
    site.wait_iteration(20)
    pids, generations = site.page_pids(), [n for n in os.listdir(site.directory) if n.startswith("gen-")]
    other = Site(folder=site.folder)
    other.state = os.path.join(site.folder, "state2")
    os.makedirs(other.state)
    other.env = dict(site.env, STOKER_STATE=other.state)
    try:
        other.start_daemon()
        refused = other.stoker("run", config, "--yes", ok=False)
        check(refused.returncode == 1, f"the second daemon took the run: {refused.stdout}")
        check(site.state in refused.stderr and "owner.json" in refused.stderr and refused.stderr.count("\n") <= 2, refused.stderr)
        site.wait_iteration(site.status()["iteration"] + 10, 60)
        check(site.page_pids() == pids, "the training was touched")
        check([n for n in os.listdir(site.directory) if n.startswith("gen-")] == generations, "a second generation was minted")
        again = site.stoker("run", config, "--yes")
        check(again.returncode == 0, "its own daemon was refused")
        other.kill_daemon(signal.SIGTERM)
    finally:
        if other.daemon:
            other.kill_daemon()
        other.log.close()
    foreign = run_program("stokerd", "--state", os.path.join(site.folder, "state3"), "--run", config, "--until-end", ok=False,
                          env=dict(site.env, STOKER_STATE=os.path.join(site.folder, "state3")), limit=30)
    check(foreign.returncode != 0 and "owner.json" in foreign.stderr, f"--run: {foreign.returncode} {foreign.stderr[-500:]}")
    control = os.path.join(site.directory, "control.json")
    with open(control, encoding="utf-8") as f:
        words = json.load(f)
    words.update(epoch=0, level="leave_now", reason="of an older daemon")  # what a daemon of an older epoch would write
    with open(control + ".new", "w", encoding="utf-8") as f:
        json.dump(words, f)
    os.rename(control + ".new", control)
    site.wait(lambda: any("epoch 0 refused" in e["reason"] for e in site.events()), 20, "the refusal of the older epoch")
    check(site.page_pids() == pids, "an older epoch ended the training")


main(a_late_writer, two_states_one_directory)
