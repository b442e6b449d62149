"""slurmrestd as far as stokerd calls it, played from the same cluster as SLURM's commands (_commands.py), in the shapes that v0.0.42 of
SLURM 24.11 has. On loopback, for callers with the right token.

`bend` of the cluster changes an answer: {"GET jobs": {"status": 500, "body": "…", "cut": 40, "sleep": 2, "after": true, "silent": true,
"headers": {…}}} (`after`: the order is carried out first; `silent`: the connection ends without an answer).
"""
import base64
import http.server
import json
import os
import re
import threading
import time

from slurm.fake._commands import LIVE, start_next

BASE = "/slurm/v0.0.42/"
UNKNOWN = {"description": "Unable to query JobId", "error_number": 2017, "error": "Invalid job id specified", "source": "_handle_job_get"}


def number(value):
    return {"set": value is not None, "infinite": False, "number": value or 0}


def token(name, lifespan):
    """As `scontrol token` writes it, but for the signature, which is not checked here."""
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    return f"{part({'alg': 'HS256'})}.{part({'exp': int(time.time()) + lifespan, 'sun': name})}.{name}"


def job_as_json(cluster, job, task, entry):
    state = entry["state"].split()
    return {"job_id": job["id"] + int(task), "array_job_id": number(job["id"] if job["array"] else 0), "array_task_id": number(int(task) if job["array"] else None),
            "array_task_string": "", "job_state": state[:1], "state_reason": entry["reason"], "nodes": entry["nodes"] if state[0] != "PENDING" else "",
            "user_name": job["user"], "user_id": job["uid"], "name": job["name"], "command": job["command"], "comment": job["comment"],
            "cluster": cluster["name"], "start_time": number(entry["start"]), "end_time": number(entry["start"] and entry["start"] + 36000),
            "submit_time": number(job["submitted"]), "restart_cnt": entry["restarts"], "excluded_nodes": job["exclude"],
            "exit_code": {"return_code": number(entry["exit"]), "signal": {"id": number(entry["signal"] or None), "name": ""}}}


def jobs(cluster, wanted=None):
    return [job_as_json(cluster, job, task, entry) for job in cluster["jobs"] if wanted in (None, job["id"]) for task, entry in job["tasks"].items()]


def submit(cluster, asked):
    fields, first = asked["job"], cluster["next"]
    cluster["next"] += 100
    tasks = int(re.match(r"1-(\d+)", fields.get("array", "1-1")).group(1))
    job = {"id": first, "array": "array" in fields, "name": fields["name"], "comment": fields["comment"], "uid": os.geteuid(), "user": cluster["user"],
           "command": fields["argv"][0], "submitted": int(time.time()), "exclude": ",".join(fields.get("excluded_nodes", [])),
           "tasks": {str(i): {"state": "PENDING", "reason": "Resources" if i == 1 else "JobArrayTaskLimit", "start": 0, "nodes": "", "exit": 0,
                              "signal": 0, "restarts": 0} for i in range(1, tasks + 1)}}
    cluster["jobs"].append(job)
    start_next(cluster, job)
    return 200, {"job_id": first, "step_id": "batch"}


def cancel(cluster, asked):
    status = []
    for name in asked["jobs"]:
        first, _, task = name.partition("_")
        found = [job for job in cluster["jobs"] if job["id"] == int(first) and job["user"] == asked.get("user_name", job["user"])]
        for key, entry in ((k, e) for job in found for k, e in job["tasks"].items()):
            if entry["state"] in LIVE and task in ("", key) and entry["state"] in asked.get("job_state", [entry["state"]]):
                entry["state"] = "CANCELLED"
        for job in found:
            start_next(cluster, job)
        status += [] if found else [{"error": {"code": 2017, "message": "Invalid job id specified"}, "step_id": name}]
    return 200, {"status": status}


def change(cluster, wanted, asked):
    for job in cluster["jobs"]:
        if job["id"] == wanted and asked["excluded_nodes"]:  # an empty list changes nothing; one of an empty name does
            job["exclude"] = ",".join(name for name in asked["excluded_nodes"] if name)
    return 200, {"results": None}


def answer(cluster, method, what, asked):
    """(HTTP status, the answer's own members)."""
    kind, _, name = what.partition("/")
    if (method, what) == ("GET", "ping"):
        return 200, {"pings": [{"hostname": "fake", "pinged": "UP"}]}
    if (method, what) == ("GET", "jobs"):
        return 200, {"jobs": jobs(cluster)}
    if (method, what) == ("GET", "nodes"):
        return 200, {"nodes": [{"name": n, "state": [state.upper()], "reason": reason} for n, (state, reason) in cluster["nodes"].items()]}
    if (method, what) == ("POST", "job/submit"):
        return submit(cluster, asked)
    if (method, what) == ("DELETE", "jobs/"):
        return cancel(cluster, asked)
    if method == "POST" and kind == "job":
        return change(cluster, int(name), asked)
    if method == "GET" and kind == "job":
        found = jobs(cluster, int(name))
        return (200, {"jobs": found}) if found else (404, {"jobs": [], "errors": [UNKNOWN]})
    return 500, {"errors": [{"error": f"the story has no {method} {what}"}]}


class PlayedRest:
    def __init__(self, site):
        self.site, self.token_file = site, os.path.join(site.folder, "token")
        self.right = ""
        self.write_token()
        played = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_one(self):
                played.handle(self)
            do_GET = do_POST = do_DELETE = handle_one

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.way = f", rest: {{url: 'http://127.0.0.1:{self.server.server_address[1]}', token_file: {self.token_file}}}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def write_token(self, lifespan=3600, right=True):
        """A new one in the file; `right`: the server knows it, and only it, from now on."""
        text = token(self.site.run, lifespan)
        with open(os.open(self.token_file + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
            f.write(text + "\n")
        os.rename(self.token_file + ".new", self.token_file)
        self.right = text if right else ""

    def handle(self, request):
        asked = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        method, what = request.command, request.path.removeprefix(BASE)
        with open(os.path.join(self.site.fake, "calls.log"), "a", encoding="utf-8") as f:
            f.write(json.dumps([time.time(), method, [what]]) + "\n")
        with self.site.changing() as cluster:
            bend = cluster["bend"].get(f"{method} {what}") or cluster["bend"].get(method, {})
            if what == request.path:
                status, said = 404, "Unable find requested URL. Please view /openapi/v3 for API reference."
            elif request.headers.get("X-SLURM-USER-TOKEN") != self.right:
                status, said = 511, self.whole(cluster, {"jobs": [], "errors": [{"error": "Protocol authentication error", "error_number": 1007}]})
            elif bend.get("after") or not {"status", "body", "silent"} & set(bend):
                status, members = answer(cluster, method, what, json.loads(asked or "{}"))
                said = self.whole(cluster, members)
            else:
                status, said = 200, ""
        time.sleep(bend.get("sleep", 0))
        request.close_connection = True
        if bend.get("silent"):
            return
        body = bend.get("body", said).encode()
        request.send_response(bend.get("status", status))
        for header, value in {"Content-Length": str(len(body)), **bend.get("headers", {})}.items():
            request.send_header(header, value)
        request.end_headers()
        request.wfile.write(body[:bend.get("cut")])

    @staticmethod
    def whole(cluster, members):
        meta = {"slurm": {"release": "24.11.5", "cluster": cluster["name"]}}
        return json.dumps({"meta": meta, "errors": [], "warnings": [], **members})

    def close(self):
        self.server.shutdown()
        self.server.server_close()
