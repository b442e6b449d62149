"""Two daemons on one state directory that is on a shared disk: the second waits for the first one's lease, takes over when it stands
still, and the first, which was only frozen, wakes up and does nothing."""
import os
import signal
import subprocess
import sys

from e2e import _harness
from e2e._harness import check, main, run_program

LOOP = """
import time
for i in range(1, 1_000_000):
    print(f"step={i} loss=1.5", flush=True)
    time.sleep(0.05)
"""
RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: local, nodes: 1, time_limit: 1h, array: {{tasks: 3, top_up_below: 1}}}}
train: {{command: [{python}, {script}], ranks_per_node: 1}}
watch: {{progress: {{iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}}}}
"""

SHARED = {"STOKER_STATE_FS": "network", "STOKER_LEASE_TIMEOUT": "10s"}


def supervise(site):
    script, config = os.path.join(site.folder, "train.py"), os.path.join(site.folder, "run.yaml")
    with open(script, "w", encoding="utf-8") as f:
        f.write(LOOP)
    with open(config, "w", encoding="utf-8") as f:
        f.write(_harness.on_any_disk(RUN.format(run=site.run, directory=site.directory, python=sys.executable, script=script)))
    site.stoker("run", config, "--yes")


def the_second_waits_and_takes_over(site):
    site.env.update(SHARED)
    site.start_daemon()
    first = site.daemon
    supervise(site)
    before = site.wait_iteration(10)
    log = os.path.join(site.folder, "second.log")
    with open(log, "w", encoding="utf-8") as f:
        second = subprocess.Popen([os.path.join(_harness.BIN, "stokerd"), "--state", site.state], env=site.env, stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                                  start_new_session=True)

    def said(text):
        with open(log, encoding="utf-8") as f:
            return text in f.read()
    try:
        site.wait(lambda: said("waits for its lease"), 30, "the second daemon to wait")
        site.wait_iteration(before["iteration"] + 50)
        check(second.poll() is None and not said("epoch 2"), "the second daemon did not wait for a living one")
        once = run_program("stokerd", "--state", site.state, "--once", ok=False, env=site.env)
        check(once.returncode == 1 and "works on it" in once.stderr, f"--once beside a living daemon: {once.returncode} {once.stderr}")
        os.kill(first.pid, signal.SIGSTOP)
        site.wait(lambda: said("epoch 2"), 60, "the second daemon to take over")
        site.daemon = second
        after = site.wait_iteration(site.status()["iteration"] + 50)
        check(after["generation"] == before["generation"] and after["restarts"] == before["restarts"], "taking over disturbed the training")
        os.kill(first.pid, signal.SIGCONT)
        check(first.wait(timeout=60) == 1, f"the frozen daemon woke up and ended with {first.returncode}")
        check("another stokerd has taken over" in site.tail_of_log(), "the frozen daemon does not say why it ends")
        check(os.path.exists(os.path.join(site.state, "stokerd.sock")), "the frozen daemon took its successor's socket away")
        asked = site.stoker("ack", "nothing", ok=False)
        check("no daemon" not in asked.stderr, f"the successor does not answer: {asked.stderr}")
        again = site.wait_iteration(site.status()["iteration"] + 20)
        check(again["generation"] == before["generation"], "the frozen daemon started something")
        site.stoker("stop", site.run, "--now", "--reason", "test ends")
    finally:
        for process in (first, second):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        site.daemon = None


main(the_second_waits_and_takes_over)
