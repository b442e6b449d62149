#!/usr/bin/env python3
"""SLURM's commands as far as stokerd calls them, played from one JSON file: squeue, sbatch, scontrol, scancel, sinfo, sacct, srun.

Installed under each command's name in FOLDER/bin; FOLDER/cluster.json is the cluster, FOLDER/calls.log gets one line a call.
`bend` of the cluster changes what a command does: {"squeue": {"sleep": 2, "out": "…", "err": "…", "code": 1, "cut": 40, "after": true}}
(`after`: the command does its work first).
"""
import fcntl
import json
import os
import re
import sys
import time

NAME = os.path.basename(sys.argv[0])
FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
LIVE = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED")


def option(name, default=""):
    for i, word in enumerate(sys.argv):
        if word == name:
            return sys.argv[i + 1]
        if name.startswith("--") and word.startswith(name + "="):
            return word[len(name) + 1:]
    return default


def start_next(cluster, job):
    """The next task of an array runs when none does."""
    if not cluster["starts"] or any(t["state"] in LIVE and t["state"] != "PENDING" for t in job["tasks"].values()):
        return
    for task in job["tasks"].values():
        if task["state"] == "PENDING":
            task.update(state="RUNNING", reason="None", start=int(time.time()), nodes=cluster["gives"])
            return


def write_field(letter, job, number, task):
    seconds = {"S": task["start"], "e": task["start"] and task["start"] + 36000, "V": job["submitted"]}
    if letter in seconds:
        return str(seconds[letter] or "N/A")
    return {"A": str(job["id"] + int(number)), "F": str(job["id"]), "K": number if job["array"] else "N/A", "T": task["state"],
            "r": task["reason"], "N": task["nodes"] if task["state"] != "PENDING" else "", "U": str(job["uid"]), "u": job["user"],
            "o": job["command"] or "(null)", "j": job["name"], "k": job["comment"] or "(null)"}[letter]


def steps(cluster, name, line):
    """Steps of the running tasks of a job "1000" or "1000_1": the batch script's, and those of the cluster's `steps`."""
    number, _, task = name.partition("_")
    out = ""
    for job in cluster["jobs"]:
        for key, entry in job["tasks"].items():
            if job["id"] != int(number) or (task and task != key) or entry["state"] != "RUNNING":
                continue
            label = f"{job['id']}_{key}" if job["array"] else str(job["id"])
            for step, nodes, program in [["batch", cluster["batch_node"] or entry["nodes"], "batch"], *cluster["steps"]]:
                out += line.format(id=f"{label}.{step}", nodes=nodes, name=program)
    return out


def squeue(cluster):
    if "-s" in sys.argv:
        return steps(cluster, option("-j"), "{id}\x1f{nodes}\x1f{name}\n"), "", 0
    wanted = [int(j.split("_")[0]) for j in option("-j").split(",") if j]
    users = [u for u in option("-u").split(",") if u]
    jobs = [j for j in cluster["jobs"] if (not wanted or j["id"] in wanted) and (not users or j["user"] in users)]
    if len(wanted) == 1 and not jobs:
        return "", "slurm_load_jobs error: Invalid job id specified\n", 1
    out = ""
    for job in jobs:
        for number, task in job["tasks"].items():
            if option("-O"):
                name = f"{job['id']}_{number}" if job["array"] else str(job["id"])
                out += f"{name:<64}{task['restarts']:<16}{task['exit'] * 256 + task['signal']:<16}\n"
            else:
                out += re.sub("%(.)", lambda m: write_field(m.group(1), job, number, task), option("-o") or os.environ["SQUEUE_FORMAT"]) + "\n"
    return out, "", 0


def script_options(path):
    found = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            match = re.match(r"#SBATCH --([a-z-]+)(?:=(.*?))?\s*$", line)
            if match:
                found[match.group(1)] = (match.group(2) or "").strip('"')
    return found


def count_nodes(hostlist):
    """Of "n[01-03,7],gpu3": 5."""
    count = 0
    for _, inside in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?", hostlist):
        for part in inside.split(","):
            first, _, last = part.partition("-")
            count += int(last) - int(first) + 1 if last else 1
    return count


def sbatch(cluster):
    options = script_options(sys.argv[-1])
    for word in sys.argv[1:-1]:
        name, _, value = word[2:].partition("=")
        options[name] = value
    if count_nodes(options.get("exclude", "")) >= cluster["nodes_here"]:
        said = "Requested node configuration is not available\n"
        return "", ("allocation failure: " if "test-only" in options else "sbatch: error: Batch job submission failed: ") + said, 1
    if "test-only" in options:
        return "", "sbatch: Job 1 to start at 2026-05-01T06:40:00 using 8 processors on nodes n01 in partition main\n", 0
    tasks = int(re.match(r"1-(\d+)", options["array"]).group(1)) if options.get("array") else 1
    number = cluster["next"]
    cluster["next"] += 100
    job = {"id": number, "array": "array" in options, "name": options.get("job-name", ""), "comment": options.get("comment", ""), "uid": os.geteuid(),
           "user": cluster["user"], "command": sys.argv[-1], "submitted": int(time.time()), "exclude": options.get("exclude", ""),
           "tasks": {str(i): {"state": "PENDING", "reason": "Resources" if i == 1 else "JobArrayTaskLimit", "start": 0, "nodes": "", "exit": 0,
                              "signal": 0, "restarts": 0} for i in range(1, tasks + 1)}}
    cluster["jobs"].append(job)
    start_next(cluster, job)
    return cluster["sbatch_says"].replace("ID", str(number)) + "\n", "sbatch: warning: this cluster is a story\n", 0


def scontrol(cluster):
    words = sys.argv[1:]
    if "config" in words:
        storage = "slurmdbd" if cluster["accounts"] is not None else "none"
        return (f"Configuration data as of now\nAccountingStorageType   = accounting_storage/{storage}\nClusterName             = {cluster['name']}\n"
                f"SLURM_VERSION           = {cluster['version']}\n"), "", 0
    if "step" in words:
        return steps(cluster, words[-1], "StepId={id} UserId=1 State=RUNNING NodeList={nodes} Name={name} Network=(null)\n"), "", 0
    if "show" in words:
        wanted = next((w for w in words if w.isdigit()), "")
        out = ""
        for job in cluster["jobs"]:
            for number, task in job["tasks"].items():
                if not wanted or int(wanted) == job["id"]:
                    out += (f"JobId={job['id'] + int(number)} ArrayJobId={job['id']} ArrayTaskId={number} JobName={job['name']} "
                            f"JobState={task['state'].split()[0]} Restarts={task['restarts']} ExitCode={task['exit']}:{task['signal']} "
                            f"ExcNodeList={job['exclude'] or '(null)'} Command={job['command']} Comment={job['comment']}\n")
        return (out, "", 0) if out or not wanted else ("", "slurm_load_jobs error: Invalid job id specified\n", 1)
    for word in words:
        if word.startswith("ExcNodeList="):
            for job in cluster["jobs"]:
                if f"JobId={job['id']}" in words:
                    job["exclude"] = word.partition("=")[2]
    return "", "", 0


def scancel(cluster):
    number, _, task = sys.argv[-1].partition("_")
    if option("--signal"):
        return "", "", 0
    for job in cluster["jobs"]:
        if job["id"] == int(number):
            for name, entry in job["tasks"].items():
                meant = (not task or task == name) and (option("--state") != "PENDING" or entry["state"] == "PENDING")
                if meant and entry["state"] in LIVE:
                    entry["state"] = "CANCELLED"
            start_next(cluster, job)
            return "", "", 0
    return "", "scancel: error: Kill job error on job id: Invalid job id specified\n", 1


def srun(cluster):
    """A probe: the nodes of `inside` answer with so many processes."""
    words = sys.argv
    if "--overlap" not in words:  # the step of a batch script that a test plays: its program runs here
        program = next(i for i, word in enumerate(words[1:], 1) if not word.startswith("-"))
        os.execvp(words[program], words[program:])
    folder, question = words[words.index("--directory") + 1], words[words.index("--question") + 1]
    for node, processes in cluster["inside"].items():
        with open(os.path.join(folder, node + ".probe"), "w", encoding="utf-8") as f:
            json.dump({"question": question, "node": node, "processes": processes, "stacks": processes}, f)
    return "", "", 0


def sinfo(cluster):
    return "".join(f"{n}\x1f{state}\x1f{reason}\n" for n, (state, reason) in cluster["nodes"].items()), "", 0


def sacct(cluster):
    if cluster["accounts"] is None:
        return "", "Slurm accounting storage is disabled\n", 1
    return "".join("\x1f".join(map(str, row)) + "\n" for row in cluster["accounts"] if str(row[0]).split("_")[0] == option("-j")), "", 0


def main():
    with open(os.path.join(FOLDER, "calls.log"), "a", encoding="utf-8") as f:
        f.write(json.dumps([time.time(), NAME, sys.argv[1:]]) + "\n")
    with open(os.path.join(FOLDER, "lock"), "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = os.path.join(FOLDER, "cluster.json")
        with open(path, encoding="utf-8") as f:
            cluster = json.load(f)
        bend = cluster["bend"].get(NAME, {})
        out, err, code = "", "", 0
        if not bend or bend.get("after") or "cut" in bend or set(bend) == {"sleep"}:
            out, err, code = {"squeue": squeue, "sbatch": sbatch, "scontrol": scontrol, "scancel": scancel, "sinfo": sinfo, "sacct": sacct,
                              "srun": srun}[NAME](cluster)
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(cluster, f)
        os.rename(path + ".new", path)
    time.sleep(bend.get("sleep", 0))
    out = bend.get("out", out)[:bend.get("cut", None)]
    sys.stdout.write(out)
    sys.stderr.write(bend.get("err", err))
    sys.exit(bend.get("code", code))


if __name__ == "__main__":
    main()
