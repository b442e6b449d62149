"""stoker bench-node on this node and on the nodes of a job, with a driver that plays (tests/fake_gpu) and a played SLURM; and
recover.preflight, the same test before the first start of a run."""
import json
import os
import stat

from e2e._harness import BIN, check, main, run_program, skip

FAKE = os.path.join(BIN, "..", "fake_gpu")
# Three nodes of the job are this one; n03 gives no answer, the GPUs of n02 are as the test says.
SRUN = """\
#!/usr/bin/env python3
import os, subprocess, sys
words = sys.argv[1:]
agent = words[[i for i, w in enumerate(words) if w.endswith("stoker-agent")][0]:]
with open(os.environ["SEEN"], "w") as f:
    f.write("\\n".join(words))
print("a banner of the site")
for node, gpus in (("n01", "gpus=2"), ("n02", os.environ["PLAYED"])):
    sys.stdout.flush()
    subprocess.run(agent, env=dict(os.environ, SLURMD_NODENAME=node, FAKE_GPU=gpus), check=True)
sys.exit("srun: error: n03: task 2: Exited with exit code 1")
"""
SQUEUE = """\
#!/bin/sh
case "$*" in *--jobs=815*) echo 'n[01-03]' ;; esac
"""


def environment(site, plays, **more):
    if not os.path.exists(os.path.join(FAKE, "libcuda.so.1")):
        skip("no driver that plays beside these programs: it is part of the tests' build")
    return dict(site.env, LD_LIBRARY_PATH=FAKE + ":" + os.environ.get("LD_LIBRARY_PATH", ""), FAKE_GPU=plays, **more)


def bench(site, plays, *words, code=0):
    done = run_program("stoker", "bench-node", *words, ok=False, env=environment(site, plays), cwd=site.folder)
    check(done.returncode == code, f"exit {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done


def this_node(site):
    document = json.loads(bench(site, "none=1", "--burn", "1s", "--json").stdout)
    check(document["ok"] and len(document["nodes"]) == 1, str(document))
    node = document["nodes"][0]
    check(node["note"] == "the driver has no GPU" and not node["gpus"], str(node))
    check({"gemm_f32", "memory_copy", "disk_write"} <= set(node["figures"]), str(node))
    check(not [n for n in os.listdir(site.folder) if "bench" in n], "the disk's test left a file")
    text = bench(site, "gpus=1", "--burn", "1s", "--gpus").stdout
    check("GPU 0000:0a:00 (Fake GPU)" in text and "good" in text and "gemm_f32" not in text, text)


def a_gpu_that_is_bad(site):
    document = json.loads(bench(site, "gpus=2 wrong=1", "--burn", "1s", "--gpus", "--json", code=1).stdout)
    check(not document["ok"] and len(document["poor"]) == 1, str(document))
    poor = document["poor"][0]
    check(poor["gpu"] == "0000:0b:00" and poor["figure"] == "gpu_wrong" and "wrong" in poor["text"], str(poor))
    text = bench(site, "gpus=2 ecc=0", "--burn", "1s", "--gpus", code=1).stdout
    check("bad" in text and "GPU 0000:0a:00: 1 uncorrected ECC errors" in text, text)


def agent_lines(site):
    done = run_program("stoker-agent", "bench", "--gpus", "--burn", "1", "--json", env=environment(site, "gpus=2"))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    check({line["gpu"] for line in lines} == {"0000:0a:00", "0000:0b:00"}, done.stdout)
    check({"TFLOP/s", "GB/s", "MHz"} <= {line["unit"] for line in lines}, done.stdout)


def nodes_of_a_job(site):
    for name, text in (("srun", SRUN), ("squeue", SQUEUE)):
        path = os.path.join(site.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    seen = os.path.join(site.folder, "seen")
    env = environment(site, "", SEEN=seen, PLAYED="gpus=2 flipped=0")
    env["PATH"] = site.folder + ":" + env["PATH"]
    words = ("bench-node", "--job", "815", "--burn", "1s", "--gpus", "--json")
    done = run_program("stoker", *words, ok=False, env=env, cwd=site.folder)
    check(done.returncode == 1, done.stderr)
    document = json.loads(done.stdout)
    check([n["node"] for n in document["nodes"]] == ["n01", "n02"], str(document))
    # The fake's rates are those of this machine's memory, which others use too; what is wrong is wrong.
    wrong = [(p["node"], p["gpu"]) for p in document["poor"] if p["figure"].startswith("gpu_wrong")]
    check(wrong == [("n02", "0000:0a:00")], str(document["poor"]))
    check("n03" not in [p["node"] for p in document["poor"]], "a node without an answer was called bad")
    check(document["silent"] == ["n03"], str(document))
    with open(seen, encoding="utf-8") as f:
        asked = f.read().splitlines()
    check({"--jobid=815", "--overlap", "--nodes=3", "--ntasks-per-node=1"} <= set(asked), str(asked))
    done = run_program("stoker", "bench-node", "--job", "816", ok=False, env=env, cwd=site.folder)
    check(done.returncode == 1 and "job 816" in done.stderr and "not show it running" in done.stderr, done.stderr)


def not_a_job_that_trains(site):
    os.makedirs(os.path.join(site.state, "published"))
    os.makedirs(site.directory)
    for path, document in ((os.path.join(site.state, "published", "site.json"),
                            {"version": 1, "runs": [{"run": "tr11", "directory": site.directory}]}),
                           (os.path.join(site.directory, "status.json"),
                            {"version": 1, "run": "tr11", "state": "training", "job": "815_3"})):
        with open(path, "w", encoding="utf-8") as f:
            json.dump(document, f)
    done = bench(site, "", "--job", "815", code=2)
    check("job 815 carries the ranks of tr11" in done.stderr, done.stderr)


def bad_words(site):
    for burn in ("0s", "2h", "soon"):
        done = bench(site, "", "--burn", burn, code=2)
        check("--burn takes 1s to 1h" in done.stderr, done.stderr)


def before_the_first_start(site):
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix, nodes=1, ranks_per_node=2, spares=0, samples=4000)
    with open(config, encoding="utf-8") as f:
        text = f.read().replace("recover: {", "recover: {preflight: true, ")
    with open(config, "w", encoding="utf-8") as f:
        f.write(text)
    site.stoker("run", config, "--yes")
    site.wait_iteration(5)
    told = [e["reason"] for e in site.events() if "passed the test before the first start" in e["reason"]]
    check(len(told) == 1, str(told))
    check(os.path.exists("/dev/nvidia0") or ("no GPU was tested on" in told[0] and "libcuda" in told[0]), told[0])
    site.stoker("restart", site.run, "--reason", "once is enough")
    site.wait(lambda: site.status()["attempt"] > 1 and site.status()["state"] == "training", 60, "the next attempt")
    told = [e for e in site.events() if "passed the test before the first start" in e["reason"]]
    check(len(told) == 1, f"tested again: {told}")
    site.audit()


main(this_node, a_gpu_that_is_bad, agent_lines, nodes_of_a_job, not_a_job_that_trains, bad_words, before_the_first_start)
