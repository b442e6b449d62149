"""What each fuzz target begins with, as bytes: text that the real programs printed or wrote, and files made as they make them."""
import bz2
import glob
import gzip
import json
import lzma
import os
import pickle
import struct

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SEPARATOR = "\x1f"


def files(*pattern):
    return [open(path, "rb").read() for path in sorted(glob.glob(os.path.join(ROOT, *pattern)))]


def rows(*lines):
    """As squeue, sacct and sinfo print what they are asked for here."""
    return "".join(SEPARATOR.join(line) + "\n" for line in lines).encode()


def flight_dump(protocol):
    entry = {"pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 81, "profiling_name": "nccl:all_reduce",
             "state": "started", "is_p2p": False, "frames": [{"name": "step", "filename": "t.py", "line": 7}]}
    done = dict(entry, collective_seq_id=80, state="completed")
    return pickle.dumps({"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
                         "pg_status": {"0": {"last_enqueued_collective": 81, "last_completed_collective": 80}},
                         "entries": [done, entry], "seconds": 1.5, "kinds": frozenset((1, 2**40))}, protocol)


def of_logs():
    files = sorted(glob.glob(os.path.join(ROOT, "configs", "signatures", "*.yaml")))
    families = [open(path, encoding="utf-8").read() for path in files]
    lines = [line.split(":", 1)[1].strip().strip("'\"") for text in families for line in text.split("\n")
             if line.strip().startswith("example:")]
    log = ["\n".join(lines[i:i + 8]).encode() for i in range(0, len(lines), 8)]
    rows = " iteration 12/ 100 | consumed samples: 24 | lm loss: 2.1E+00 | loss scale: 1.0 |\n{'loss': 2.1, 'epoch': 0.1}\n"
    ras = "#0-0 (27a079b828ff1a75) MISMATCH\n  26 ranks have launched up to operation 6650\n" \
          "  6 ranks have launched up to operation 6649\n  Rank 0 -- GPU 0 managed by process 4 on node 172.16.64.210\n"
    watchdog = "[PG ID 1 PG GUID 5(tp) Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, OpType=" \
               "ALLREDUCE)\n[PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: 4, last completed NCCL work: 0\n"
    export = "__REALTIME_TIMESTAMP=1700000000000000\n_TRANSPORT=kernel\n_HOSTNAME=n01\nMESSAGE=NVRM: Xid (PCI:0000:3b:00): 79\n\n"
    journal = '{"__CURSOR":"s=1","_TRANSPORT":"kernel","_HOSTNAME":"n01","MESSAGE":"NVRM: Xid (PCI:0000:3b:00): 79"}\n'
    colours = journal.replace('"NVRM', '[27,91,51,49,109,78],"_PID":"1","SYSLOG_IDENTIFIER":"x","_X":"NVRM')
    threads = 'Thread 0x7f01 (most recent call first):\n  File "t.py", line 7 in step\nThread 12 (idle): "main"\n    recv (s.py:3)\n'
    event = json.dumps({"version": 1, "at": 1, "wall": 1, "body": {"kind": "notice", "node": "n01", "text": "x"}})
    sieve = log + [line.encode() for line in rows.split("\n")]
    clocks = "Dec 31 23:59:00 n01 kernel: x\n2026-05-01T10:00:00.5+08:00 y\nE1218 20:27:21.4 z\nn01:1:2 [0] NCCL INFO comm 0x1 rank 1 " \
             "nranks 2 cudaDev 0 busId cb000 - Init COMPLETE\n** Starting validation **\n iteration 2/ 3 | elapsed time per iteration " \
             "(ms): 5.0 | lm loss: 2.0 |\n:::MLLOG {\"time_ms\": 1696564728839, \"key\": \"eval_stop\"}\n"
    return {"log": log, "rank_log": log, "sieve": sieve, "kernel": log, "origin": [line.encode() for line in lines], "metrics": [rows.encode()],
            "journal": [export.encode()], "journal_json": [journal.encode(), colours.encode()], "pickle": [flight_dump(p) for p in range(6)],
            "stacks": [threads.encode()],
            "collectives": [ras.encode(), watchdog.encode()], "signatures": [text[:3000].encode() for text in families],
            "agent_event": [event.encode()], "clocks": [clocks.encode()], "packed": packed()}


def packed():
    text = b"iteration 1/ 2 | lm loss: 2.0 |\n" * 20
    return [gzip.compress(text, mtime=0), gzip.compress(text, mtime=0)[:-9], lzma.compress(text), bz2.compress(text),
            b"\xff\xfe" + "one line\n".encode("utf-16-le"), text]


def of_schedulers():
    script = "/gpfs/tr11/run/batch/tr11-42-0badcafe.sh"
    queue = rows(["124", "123", "4", "RUNNING", "None", "1700000000", "1700072000", "1699990000", "n[001-003,7]", "1000", "alice", script,
                  "tr11", "tr11-42-0badcafe"],
                 ["123", "123", "N/A", "PENDING", "Resources", "N/A", "N/A", "1699990000", "", "1000", "bob", "(null)", "a|b 'c\" $(d)", "(null)"],
                 ["125", "125", "5-10%1", "CANCELLED by 1000", "JobArrayTaskLimit", "N/A", "N/A", "1699990000", "", "1000", "alice", script, "x", ""])
    steps = rows(["34228748_1.0", "n[01-02]", "sleep"], ["34228748_1.batch", "n01", "batch"])
    jobs = b"JobId=124 ArrayJobId=123 ArrayTaskId=1 JobName=tr11 UserId=u(1000) Restarts=2 JobState=FAILED Reason=NonZeroExitCode " \
           b"ExitCode=137:0 DerivedExitCode=0:0 ExcNodeList=n[052-053] Command=" + script.encode() + b" \nJobId=123 ArrayJobId=123 " \
           b"ArrayTaskId=2-10%1 JobName=tr11 JobState=PENDING Reason=JobArrayTaskLimit ExitCode=0:0 ExcNodeList=(null) Command=(null)\n"
    shown = b"StepId=34228748_1.0 UserId=1001 StartTime=2026-11-22T17:58:46 TimeLimit=UNLIMITED State=RUNNING Partition=main " \
            b"NodeList=n[01-02] Nodes=2 CPUs=2 Tasks=2 Name=sleep Network=(null) TRES=cpu=2,mem=0,node=2 SrunHost:Pid=vm:8202\n"
    ended = [rows([job, state, "0:125", "1700000005", "n[001-003]", "alice", "tr11", "tr11-42-0badcafe"])
             for job, state in (("123_1", "OUT_OF_MEMORY"), ("123_[3-10%1]", "CANCELLED by 1000"), ("9+0", "NODE_FAIL"))]
    nodes = rows(["n01", "idle", "none"], ["n02", "down*", "Not responding"], ["n03", "drained", "stoker: xid 79 2026-11-22"])
    cron = b"# maintenance\nSHELL=/bin/bash\nMAILTO = root\n\n*/5 0-6,22 1 jan-mar mon often %in\n@daily once\n"
    return {"squeue": [queue, steps], "scontrol": [jobs, shown], "sacct": ended, "sinfo": [nodes], "crontab": [cron],
            "slurm_json": files("tests", "slurm", "json", "*.json"),
            "slurmrestd": files("tests", "slurm", "rest", "22.05.8", "*.json"),
            "adopt": files("tests", "slurm", "scripts", "*.s*")}


def as_json(*values):
    return [json.dumps(value).encode() for value in values]


def published():
    status = {"version": 1, "run": "tr11", "state": "training", "since": "2026-11-22T07:20:02Z", "reason": "because", "generation": 3, "nodes": ["n01"],
              "loss": 2.5, "loss_history": [3.0, 2.5], "checkpoint": {"iteration": 9}, "budget": {"restarts_left": 2}, "eta_s": 1e6, "alerts": []}
    event = {"seq": 7, "time": "2026-11-22T07:20:02Z", "run": "tr11", "kind": "rank_exited", "decision": "training -> recovering", "reason": "rank 3 died",
             "actions": ["write_control"], "event": {"at": 1, "body": {"kind": "rank_exited"}}}
    node = {"node": "n01", "state": "excluded", "excluded_until": "2026-11-23T07:20:02Z", "evidence": ["xid 79"], "score": 2.5, "gpus": []}
    sinks = [{"run": "tr11", "sink": "page", "kind": "pagerduty", "since": "2026-11-22T07:20:02Z", "why": "401", "failures": 3, "lost": ["held"]}]
    return as_json(status, {"version": 1, "runs": [{"run": "tr11", "directory": "/r"}], "alerts": [], "silences": []}, event, node, sinks)


def of_runs():
    resume = {"mode": "exact", "checkpoint": "/r/checkpoints/step-000123.g000017", "iteration": 123}
    orders = {"version": 1, "number": 42, "run": "tr11", "epoch": 3, "token": "tr11-42-0badcafe", "command": ["stoker-train", "--config", "T.yaml"],
              "resume": resume, "environment": {"A": "b"}, "exclude": ["n02"]}
    start = {"version": 1, "run": "tr11", "generation": 17, "parent": 16, "orders": orders, "token": "t", "job": "123_4", "lineage": []}
    frame = b'{"protocol": 2, "build": "fuzz", "node": "n02", "host": "n02", "boot_id": "b", "pid": 7, "nonce": "' + b"ab" * 32 + b'"}'
    page = b"STOKERHB" + struct.pack("<II", 1, 2) + struct.pack("<IIQQQQ", 1, 2, 5, 6, 7, 8)
    headers = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 100-199/1000\r\nETag: \"a1\"\r\nDate: Sun, 22 Nov 2026 07:20:02 GMT\r\n" \
              b"Last-Modified: Sun, 22 Nov 2026 07:20:02 GMT\r\nContent-Encoding: gzip\r\n\r\n"
    return {
        "star_frames": [struct.pack("<IB", 1 + 32 + len(frame), ord("h")) + bytes(32) + frame, struct.pack("<IB", 3, ord("j")) + b"{}"],
        "star_session": [frame],
        "node_report": as_json({"kind": "port_chosen", "attempt": 1, "port": 29500}, {"kind": "stacks_done", "directory": "gen-000001/stacks", "ranks": 8},
                               {"kind": "node_beat", "attempt": 1, "ranks": [{"rank": 3, "phase": "iteration", "iteration": 12, "loss": 2.5}]},
                               {"kind": "told", "body": {"kind": "notice", "node": "n01", "text": "x"}}, {"kind": "benched", "figures": {"copy": 1.5}}),
        "node_command": as_json({"kind": "welcome", "start": "/r/gen-000001/start.json"}, {"kind": "stop_ranks", "attempt": 1, "how": "leave_now"},
                                {"kind": "start_ranks", "attempt": 1, "groups": 2, "master_address": "10.0.0.1", "master_port": 29500}, {"kind": "ping"}),
        "control_socket": as_json({"version": 1, "verb": "rollback", "run": "tr11", "reason": "spike", "arguments": {"to": "1200", "lr-scale": "0.75"}},
                                  {"version": 1, "ok": True, "message": "done", "data": {"a": [1]}}),
        "embedded_request": as_json({"kind": "cancel", "token": "t", "job": "123_4"}, {"kind": "exclude", "job": "123", "nodes": ["n01"]},
                                    {"kind": "observe", "names": ["tr11"]}, {"kind": "list"}, {"good": True, "job": "7", "nodes": [], "lines": []}),
        "orders": as_json(orders, start, {"generation": 17, "token": "t", "job": "123_4"}),
        "control": as_json({"version": 1, "epoch": 3, "generation": 17, "level": "save_and_leave", "save": 2, "restart": 1},
                           {"version": 1, "run": "tr11", "generation": 17, "kind": "finished", "by": "lead", "why": "done", "iteration": 9},
                           {"by": "alice", "reason": "maintenance", "id": "1"}, {"version": 1, "lead": "n01", "address": "10.0.0.1", "port": 4711}),
        "manifest": as_json({"version": 1, "run": "tr11", "generation": 17, "iteration": 123, "files": [{"name": "rank-000.bin", "bytes": 8, "xxh3": "00"}],
                             "tensors": [{"name": "w", "dtype": "f32", "shape": [2, 1]}]}),
        "heartbeat": [page], "http_range": [headers], "published": published(),
        "web_request": [b"/api/v1/runs/hello/series?metric=loss&from=10&to=2026-05-01T03%3A56%3A11Z\nx=1; stoker-0badcafe=ab; y", b"/login?token=a+b\n"
                        b"W/\"0\", *"],
        "schedule_csv": [b"0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n", b"0F0,0I0,0W0,3F0\n1F0,2F0,2I0,2W0\n"],
        "run_yaml": files("configs", "examples", "[fh]*.yaml"), "train_yaml": files("configs", "examples", "train.yaml")}


def of_data():
    lengths, offsets = [3, 5], [0, 6]
    idx = b"MMIDIDX\0\0" + struct.pack("<QBQQ2i2q3q", 1, 8, 2, 3, *lengths, *offsets, 0, 1, 2)
    head = b"{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }"
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head
    tensors = b'{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[1,2],' \
              b'"data_offsets":[8,12]}}'
    return {"safetensors": [struct.pack("<Q", len(tensors)) + tensors + bytes(12)], "idx": [idx], "npy": [head + bytes(16)], "samples_log": [b"iteration 12 | samples 0-7 | data sets 0:8 | generation 1.1 | \n"],
            "tokenizer": [b"116 104\n256 101\n", *as_json({"kind": "bpe", "vocabulary": 258, "merges_xxh3": "00"}, {"kind": "bytes"})],
            "journal_recovery": [b"\x10\x00\x00", bytes(range(48)), b"\x00\x00\x00" * 8]}


def seeds():
    """Seeds of each target."""
    return {**of_logs(), **of_schedulers(), **of_runs(), **of_data()}
