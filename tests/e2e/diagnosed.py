"""Diagnosis live: what the logs say decides: a cause that every start meets again is held at once, an Xid accuses its node."""
import json
import os
import sys

from e2e._harness import check, main, on_any_disk

OUT_OF_MEMORY = """
import sys, time
print("loading", flush=True)
time.sleep(20)  # meanwhile the daemon compiles its patterns, on a busy machine too
sys.stderr.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB\\n")
sys.exit(1)
"""
STEPS = """
import time
i = 0
while True:
    i += 1
    print(f"step={i} loss=1.5", flush=True)
    time.sleep(0.05)
"""
RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: local, nodes: 1, time_limit: 1h, array: {{tasks: 3, top_up_below: 1}}}}
train: {{command: [{python}, {script}], ranks_per_node: 1, finished: exit_zero}}
watch: {{progress: {{iteration: 'step=(\\d+)', loss: 'loss=([0-9.]+)'}}, kernel_logs: ['{kernel}']}}
"""


def supervise(site, text):
    script = os.path.join(site.folder, "train.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write(text)
    config = os.path.join(site.folder, "diagnosed.yaml")
    with open(config, "w", encoding="utf-8") as f:
        f.write(on_any_disk(RUN.format(run=site.run, directory=site.directory, python=sys.executable, script=script,
                                       kernel=os.path.join(site.folder, "kern-%N.log"))))
    site.start_daemon()
    site.stoker("run", config, "--yes")


def no_restart_helps(site):
    supervise(site, OUT_OF_MEMORY)
    held = site.wait_state("held", 150)
    check("ran out of GPU memory" in held["reason"], f"the reason does not name the cause: {held['reason']}")
    check(held["restarts"] <= 1, f"it was started {held['restarts']} times more")
    told = [e for e in site.events() if "the logs say" in json.dumps(e)]
    check(told and "CUDA out of memory" in json.dumps(told[0]), "no event has the line as its evidence")
    site.audit()


def an_xid_accuses_its_node(site):
    supervise(site, STEPS)
    site.wait_iteration(10)
    name = json.loads(site.stoker("nodes", site.run, "--json").stdout.splitlines()[0])["node"]
    with open(os.path.join(site.folder, f"kern-{name}.log"), "w", encoding="utf-8") as f:
        f.write("[  812.345678] NVRM: Xid (PCI:0000:3b:00): 79, pid=0, GPU has fallen off the bus.\n")
    site.wait(lambda: "fallen off the bus" in site.stoker("nodes", site.run, "--json").stdout, 90, "evidence in stoker nodes")
    check(site.status()["state"] == "training", "a training that goes on was stopped")
    site.audit()


main(no_restart_helps, an_xid_accuses_its_node)
