"""The command contract without a daemon: flags, exit codes and JSON keys of `stoker`, from published files alone.

Also that a terabyte of log costs a reading command nothing; ./dev bench daemon has its milliseconds.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

BIN = os.environ.get("STOKER_BIN") or os.path.abspath(
    os.path.join(os.path.dirname(__file__), "..", "..", "build", "bin"))
STOKER = os.path.join(BIN, "stoker")
READING = ["status", "pulse", "why", "events", "chronicle", "nodes", "alerts", "parse", "doctor", "check", "plan",
           "diagnose", "replay", "tail"]
ACTING = ["save", "stop", "pause", "resume", "restart", "rollback", "exclude", "include", "ack", "silence", "stacks",
          "forget", "rename"]
FLAGS = {
    "check": ["--effective"], "plan": ["--nodes"], "run": ["--foreground", "--dry-run", "--yes"], "status": ["--watch"],
    "why": ["--last"], "events": ["--follow", "--since"], "logs": ["-f", "-n", "--rank", "--node"],
    "save": ["--at-iteration"], "stop": ["--after-checkpoint", "--now", "--at", "--at-iteration"],
    "diagnose": ["--kernel-log", "--html"], "replay": ["--config"],
    "rollback": ["--to", "--lr-scale", "--skip-samples"], "exclude": ["--for"], "silence": ["--for"],
}
STATUS_KEYS = {"run", "state", "conditions", "since", "reason", "stale", "job", "generation", "nodes", "iteration", "total",
               "loss", "checkpoint", "restarts", "budget", "eta_s", "alerts"}
STATUS = {"version": 1, "run": "hello", "state": "training", "since": "2026-05-01T03:00:00Z", "reason": "first iteration",
          "published": "2026-05-01T04:00:00Z", "job": "12_4", "generation": 2, "nodes": ["n01", "n02"], "iteration": 120,
          "total": 500, "loss": 2.5, "loss_history": [9, 5, 2.5], "checkpoint": {"iteration": 100, "age_s": 30}}
EVENT = {"seq": 1, "time": "2026-05-01T03:00:00Z", "run": "hello", "kind": "tick", "decision": "training -> recovering",
         "reason": "rank 3 died", "actions": ["write_control hello/1/0"], "event": {"kind": "tick"}}
TRAIN = """\
model: {layers: 2, hidden: 32, heads: 2, ffn: 64, sequence: 32, vocabulary: 257}
data: {train: [{prefix: data}]}
batch: {micro: 1, global: 8, ramp_up: {start: 4, increment: 4, samples: 64}}
train: {samples: 800}
lr: {max: 1.0e-3, decay_samples: 800}
"""


class Failed(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


class Site:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="stoker-contract-")
        self.state = os.path.join(self.folder, "state")
        self.run = os.path.join(self.folder, "hello")
        self.write("bin/stoker-train", "#!/bin/sh\n")
        os.chmod(os.path.join(self.folder, "bin", "stoker-train"), 0o755)
        self.env = dict(os.environ, STOKER_STATE=self.state, NO_COLOR="1",
                        PATH=os.path.join(self.folder, "bin") + ":" + os.environ["PATH"])
        os.makedirs(os.path.join(self.state, "published"))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def stoker(self, *argv, code=0):
        done = subprocess.run([STOKER, *argv], text=True, capture_output=True, env=self.env, timeout=30,
                              stdin=subprocess.DEVNULL)
        check(done.returncode == code, f"stoker {' '.join(argv)}: exit {done.returncode}, expected {code}\n{done.stderr}")
        return done

    def publish(self):
        self.write("state/published/site.json", json.dumps({"version": 1, "runs": [{"run": "hello", "directory": self.run}]}))
        self.write("hello/status.json", json.dumps(STATUS))
        self.write("hello/events.jsonl", json.dumps(EVENT) + "\n")
        self.write("state/published/nodes.jsonl", json.dumps(
            {"node": "n01", "state": "ok", "excluded_until": None, "evidence": []}) + "\n")
        os.makedirs(os.path.join(self.run, "switch"), exist_ok=True)


def flags(site):
    for verb in READING + ACTING + ["run", "logs"]:
        text = site.stoker(verb, "--help").stdout
        check(f"stoker {verb}" in text and "xample" in text, f"{verb} --help has no example")
        wanted = FLAGS.get(verb, []) + (["--json"] if verb in READING else [])
        for flag in wanted + ["--help"]:
            check(flag in text, f"{verb} --help does not know {flag}")
    for verb in ["save", "stop", "pause", "resume", "restart", "rollback", "exclude", "include", "forget", "rename"]:
        text = site.stoker(verb, "--help").stdout
        check("--reason" in text and "--dry-run" in text, f"{verb} has no --reason and --dry-run")
    for shell in ["bash", "zsh", "fish"]:
        text = site.stoker("completion", shell).stdout
        for verb in READING + ACTING:
            check(verb in text, f"the {shell} completion does not know {verb}")
    if shutil.which("bash"):
        script = site.write("completion.bash", site.stoker("completion", "bash").stdout)
        done = subprocess.run(["bash", "-c", f"source {script}; COMP_WORDS=(stoker chr); COMP_CWORD=1; _stoker; "
                               "echo ${COMPREPLY[@]}"], text=True, capture_output=True, env=site.env, check=False)
        check(done.stdout.strip() == "chronicle", f"bash completes chr to {done.stdout!r} {done.stderr}")


def reading(site):
    check(json.loads(site.stoker("status", "--json").stdout) == [], "status --json without runs is not []")
    site.publish()
    done = site.stoker("status", "hello", "--json")
    status = json.loads(done.stdout)
    check(STATUS_KEYS <= status.keys(), f"status lacks {STATUS_KEYS - status.keys()}")
    check(status["stale"] is True and "no daemon" in done.stderr, "a missing daemon is not reported")
    check(len(json.loads(site.stoker("status", "--json").stdout)) == 1, "status --json is no array")
    check(json.loads(site.stoker("status", site.run, "--json").stdout)["run"] == "hello", "RUN as a directory")
    event = json.loads(site.stoker("events", "hello", "--json").stdout)
    check({"seq", "time", "kind", "decision", "reason", "actions"} <= event.keys(), f"events: {event}")
    check(site.stoker("events", "hello", "--json", "--since", "2h").stdout == "", "--since 2h shows old events")
    check(json.loads(site.stoker("why", "hello", "--last", "1", "--json").stdout)[0]["reason"] == "rank 3 died", "why")
    node = json.loads(site.stoker("nodes", "--json").stdout)
    check({"node", "state", "excluded_until", "evidence"} <= node.keys(), f"nodes: {node}")
    check("***ALERT: hello is not observed!" in site.stoker("pulse", "hello", code=2).stdout, "pulse of a stale publication")
    check(site.stoker("chronicle", "hello").stdout.startswith("# Chronicle of hello"), "chronicle")
    check(json.loads(site.stoker("alerts", "--json").stdout) == [], "alerts")
    site.stoker("status", "nobody", code=1)
    colored = site.stoker("status", "hello", "--color", "always").stdout
    check("\033[" in colored and "\033[" not in site.stoker("status", "hello").stdout, "--color and NO_COLOR")


def configuration(site):
    site.write("train.yaml", TRAIN)
    good = site.write("run.yaml", "run: hello2\nscheduler: {nodes: 2}\ntrain: {command: [stoker-train, --config, "
                                  "train.yaml], ranks_per_node: 2}\n")
    site.stoker("check", good)
    effective = site.stoker("check", good, "--effective").stdout
    check("ceiling: 30min" in effective and "# default" in effective and ":2" in effective, effective)
    bad = site.write("bad.yaml", "run: x\nscheduler: {nods: 2}\ntrain: {command: [/nope/prog]}\nhang: {floor: soon}\n")
    lines = site.stoker("check", bad, code=2).stderr.splitlines()
    check([line.split(":")[1] for line in lines] == ["2", "3", "4"], f"{lines}")
    check(all(": error: " in line for line in lines), f"{lines}")
    three = site.write("three.yaml", "run: y\nscheduler: {nodes: 3}\ntrain: {command: [stoker-train, --config, "
                                     "train.yaml], ranks_per_node: 1}\n")
    told = site.stoker("check", three, code=2).stderr
    check("train.yaml:3:" in told and "1, 2, 4" in told, told)
    plan = json.loads(site.stoker("plan", good, "--json", "--tflops", "1", "--mtbf", "12h", "--save-cost", "40s").stdout)
    check(plan["parameters"] > 0 and plan["legal_nodes"] == [1, 2] and plan["save_interval_s"] > 0, f"{plan}")
    check("legal node counts" in site.stoker("plan", good, "--nodes", "1").stdout, "plan for people")
    site.stoker("run", bad, code=2)
    check("stokerd --state" in site.stoker("run", good, code=1).stderr, "run without a daemon names no command")
    check("nothing is submitted" in site.stoker("run", good, "--dry-run").stderr, "run --dry-run")
    doctor = subprocess.run([STOKER, "doctor", "--json"], text=True, capture_output=True, env=site.env, check=False)
    report = json.loads(doctor.stdout)
    check(doctor.returncode == (0 if report["ok"] else 1), f"doctor: exit {doctor.returncode}")


def switches(site):
    for verb in ["save", "stop", "pause", "resume", "restart"]:
        site.stoker(verb, "hello", "--reason", "why not")
        path = os.path.join(site.run, "switch", verb)
        with open(path, encoding="utf-8") as f:
            body = json.load(f)
        check(body["reason"] == "why not" and body["by"], f"{verb}: {body}")
        check(os.stat(path).st_mode & 0o777 == 0o640, f"{verb}: mode {oct(os.stat(path).st_mode)}")
    site.stoker("stop", "hello", "--now", "--reason", "x")
    check(os.path.exists(os.path.join(site.run, "switch", "kill")), "stop --now drops no kill file")
    check("stokerd" in site.stoker("rollback", "hello", "--to", "3", "--reason", "x", code=1).stderr, "rollback")


def large_log(site):
    log = os.path.join(site.run, "gen-000001", "main.log")
    site.write("hello/gen-000001/main.log", "")
    os.truncate(log, 1 << 40)
    with open(log, "a", encoding="utf-8") as f:
        f.write("\n" + "[n01:0] again\n" * 100 + "[n01:0] the end\n")
    check(site.stoker("logs", "hello", "-n", "1").stdout == "[n01:0] the end\n", "logs -n 1")
    for argv in [["--version"], ["status", "--json"], ["status", "hello"], ["logs", "hello", "-n", "50"], ["why", "hello"]]:
        site.stoker(*argv)


def main():
    if not os.path.exists(STOKER):
        print("SKIPPED: no stoker in", BIN)
        return 77
    site = Site()
    try:
        for part in [flags, reading, configuration, switches, large_log]:
            part(site)
    except Failed as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(site.folder, ignore_errors=True)
    print("the command contract holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
