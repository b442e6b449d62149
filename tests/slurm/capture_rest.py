"""What this machine's slurmrestd answers, for tests/slurm/rest: one folder a version of its API, one file an answer, and their HTTP
status in status.json. Names of the user, the cluster and folders are changed.

    roots.py enter 24.11 env PYTHONPATH=tests python3 tests/slurm/capture_rest.py FOLDER
"""
import http.client
import json
import os
import sys
import time

from slurm.cluster import Cluster

TOKEN = "tr11-42-0badcafe"
SCRIPT = "#!/bin/bash\nsrun --overlap bash -c 'trap : USR1; while :; do sleep 1; done' & wait; wait\n"


class Capture:
    def __init__(self, cluster, api, folder):
        self.cluster, self.api, self.folder = cluster, api, os.path.join(folder, api)
        self.status = {}
        os.makedirs(self.folder, exist_ok=True)

    def ask(self, name, method, what, body=None, token=None):
        link = http.client.HTTPConnection(self.cluster.rest_url.removeprefix("http://"), timeout=60)
        with open(self.cluster.token_file, encoding="utf-8") as f:
            token = token or f.read().strip()
        headers = {"X-SLURM-USER-NAME": self.cluster.user, "X-SLURM-USER-TOKEN": token, "Content-Type": "application/json"}
        link.request(method, f"/slurm/{self.api}/{what}", json.dumps(body) if body else None, headers)
        got = link.getresponse()
        text = got.read().decode()
        link.close()
        for mine, theirs in ((self.cluster.name, "jean"), (self.cluster.user, "alice"), (self.cluster.scratch.replace("/", "\\/"), "\\/gpfs\\/tr11"),
                             (self.cluster.folder.replace("/", "\\/"), "\\/gpfs")):
            text = text.replace(mine, theirs)
        if name:
            self.status[name] = got.status
            with open(os.path.join(self.folder, name + ".json"), "w", encoding="utf-8") as f:
                f.write(text.rstrip("\n") + "\n")
        return json.loads(text)

    def submit(self, answer, script=SCRIPT, **fields):
        job = {"name": "tr11", "nodes": "1", "time_limit": 20, "current_working_directory": self.cluster.scratch,
               "environment": ["PATH=/usr/bin:/bin"], "requeue": False, **fields}
        return self.ask(answer, "POST", "job/submit", {"script": script, "job": job}).get("job_id")

    def wait(self, job, state):
        self.cluster.wait(lambda: state in [j[2] for j in self.cluster.jobs() if j[0] == str(job)], 60, f"{job} to be {state}")

    def all(self):
        other = self.submit("", script="#!/bin/bash\nexit 15\n", name="other")
        self.wait(other, "FAILED")
        array = self.submit("submitted", comment=TOKEN, array="1-10%1", nodes="3", tasks_per_node=1, excluded_nodes=["n06"], dependency="singleton",
                            open_mode=["APPEND"], kill_on_node_fail=False, standard_output=self.cluster.scratch + "/slurm-%A_%a.out",
                            argv=[f"{self.cluster.scratch}/batch/{TOKEN}.sh"])
        self.wait(array, "RUNNING")
        self.submit("submitted_held", name="held", hold=True)
        self.submit("refused_partition", partition="nonesuch")
        self.submit("refused_option", open_mode=7)
        self.ask("ping", "GET", "ping")
        self.ask("jobs", "GET", "jobs")
        self.ask("job", "GET", f"job/{array}")
        self.ask("nodes", "GET", "nodes")
        self.ask("changed", "POST", f"job/{array}", {"excluded_nodes": ["n05", "n06"]})
        self.ask("job_changed", "GET", f"job/{array}")
        self.ask("denied", "GET", "job/99")
        self.ask("wrong_token", "GET", "jobs", token="x")
        mine = {"user_name": self.cluster.user}
        time.sleep(2)  # the rank has set its trap
        self.ask("signalled", "DELETE", "jobs/", {"jobs": [f"{array}_1"], "signal": "USR1", "flags": ["FULL_STEPS_ONLY"], **mine})
        time.sleep(3)
        self.wait(array, "RUNNING")  # the batch script has no trap
        self.ask("cancel_denied", "DELETE", "jobs/", {"jobs": ["99"], **mine})
        foreign = self.cluster.run("sbatch", "--parsable", "-H", "-o", "/dev/null", "--wrap", "true", root=True).stdout.strip()
        self.ask("cancel_foreign", "DELETE", "jobs/", {"jobs": [foreign], **mine})
        self.ask("cancelled_waiting", "DELETE", "jobs/", {"jobs": [str(array)], "job_state": ["PENDING"], **mine})
        self.ask("cancelled", "DELETE", "jobs/", {"jobs": [f"{array}_1"], **mine})
        self.wait(array, "CANCELLED")
        if self.api == self.cluster.rest_apis()[-1]:
            self.ask("jobs_cancelled", "GET", "jobs")
        self.cluster.run("scancel", foreign, root=True)
        with open(os.path.join(self.folder, "status.json"), "w", encoding="utf-8") as f:
            json.dump(self.status, f, indent=1)
            f.write("\n")


def main():
    with Cluster(rest=True, min_job_age=10) as cluster:
        cluster.run("scontrol", "update", "NodeName=n08", "State=DRAIN", "Reason=Kill task failed", root=True)
        for api in cluster.rest_apis():
            Capture(cluster, api, sys.argv[1]).all()
            cluster.run("scancel", "--user", cluster.user, root=True)
            cluster.wait(lambda: not cluster.jobs(), 120, "the jobs to be forgotten")


if __name__ == "__main__":
    main()
