"""SLURM: a pass over a full queue, a hostlist of a large cluster, and how soon the next submission follows the end of a job."""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BIN = os.environ.get("STOKER_BIN", os.path.join(ROOT, "build", "bin"))


def parsing():
    done = subprocess.run([os.path.join(BIN, "slurm_speed"), os.path.join(ROOT, "tests", "slurm", "rest", "22.05.8", "jobs.json")], stdout=subprocess.PIPE, text=True, check=True)
    told = json.loads(done.stdout)
    yield dict(name="slurm: squeue's output of 20,000 jobs", value=told["queue_ms"], unit="ms", goal="<= 50", ok=told["queue_ms"] <= 50,
               note=f"{told['text_mb']:.1f} MB of text, 50 runs, 100 guarded folders, rivals looked for; median of 11")
    yield dict(name="slurm: memory of that pass", value=told["queue_mb"], unit="MB", goal="<= 20", ok=told["queue_mb"] <= 20,
               note="growth of the peak, the text itself included")
    yield dict(name="slurm: slurmrestd's answer with 20,000 jobs", value=told["rest_ms"], unit="ms", goal="<= 100", ok=told["rest_ms"] <= 100,
               note=f"{told['json_mb']:.0f} MB of JSON in pieces, 50 runs; median of 11")
    yield dict(name="slurm: memory of that pass", value=told["rest_mb"], unit="MB", goal="<= 60", ok=told["rest_mb"] <= 60,
               note="growth of the peak; the JSON is not kept")
    yield dict(name="slurm: hostlist of 100,000 nodes", value=told["hostlist_ms"], unit="ms", goal="<= 50", ok=told["hostlist_ms"] <= 50,
               note="expanded, and folded again; median of 11")


def resubmission():
    """On the played SLURM of tests/slurm/fake: the real daemon, its real waits."""
    script = os.path.join(ROOT, "tests", "slurm", "fake", "answers.py")
    done = subprocess.run([sys.executable, script, "end_seen_to_next_submission"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "tests"), STOKER_BIN=BIN), check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("end seen -> next submission: ")]
    seconds = float(found[0].split(": ")[1].rstrip("s")) if found else None
    yield dict(name="slurm: end of a job seen -> next sbatch", value=seconds, unit="s", goal="<= 10", ok=seconds is not None and seconds <= 10,
               note="the last lines of its logs are awaited for 7 s" if found else done.stdout[-200:])


def ends_of_scripts():
    """The same, with the daemon's own pace: nothing but the logs says that the job has ended."""
    script = os.path.join(ROOT, "tests", "slurm", "fake", "_ends.py")
    for case, what in (("error_to_next_submission", "end of a failed script -> next sbatch"), ("last_iteration_to_finished", "end of a script -> finished")):
        done = subprocess.run([sys.executable, script, case], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "tests"), STOKER_BIN=BIN), check=False)
        found = [line for line in done.stdout.splitlines() if line.startswith(case + ": ")]
        seconds = float(found[0].split(": ")[1].rstrip("s")) if found else None
        yield dict(name=f"slurm: {what}", value=seconds, unit="s", goal="<= 10", ok=seconds is not None and seconds <= 10,
                   note="the daemon asks SLURM once a minute" if found else done.stdout[-200:])


def slurm():
    yield from parsing()
    yield from ends_of_scripts()
    yield from resubmission()
