#!/usr/bin/env python3
"""Stands in for the agents of 2,048 nodes with 8 ranks each: writes what their lead and, without it, each of them would write.

Started as train.agent of a run on one node of the embedded scheduler. In the folder `plan` of the run directory it keeps
`sent.jsonl`: each line {"text", "at"} is a notice that it wrote and the moment (time.time()). The file `lose-lead` there
ends the lead silently: then each other agent says so in a file of its own.
"""
import glob
import json
import os
import sys
import time

NODES, RANKS_PER_NODE = 2048, 8
STEP_S, SAVE_EVERY = 2.0, 30


def crc_table():
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ 0x82F63B78 if value & 1 else value >> 1
        table.append(value)
    return table


TABLE = crc_table()


def line(body):
    now = time.time_ns()
    text = json.dumps({"version": 1, "at": time.monotonic_ns(), "wall": now, "body": body}, separators=(",", ":"))
    crc = 0xFFFFFFFF
    for byte in text.encode():
        crc = TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    return f"{text}\t{crc ^ 0xFFFFFFFF:08x}\n"


class Fleet:
    def __init__(self, directory):
        self.plan = os.path.join(directory, "plan")
        os.makedirs(self.plan, exist_ok=True)
        self.nodes = [f"n{i:04d}" for i in range(1, NODES + 1)]
        self.folder = os.path.join(directory, "gen-000001")
        os.makedirs(os.path.join(self.folder, "agents"), exist_ok=True)
        self.lead = open(os.path.join(self.folder, "lead.jsonl"), "a", encoding="utf-8")
        orders = json.load(open(max(glob.glob(os.path.join(directory, "orders", "*.json"))), encoding="utf-8"))
        job = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ["SLURM_JOB_ID"]
        self.write({"kind": "generation_started", "generation": 1, "parent": 0, "iteration": 0,
                    "token": os.environ["STOKER_TOKEN"], "job": f"{job}_{os.environ.get('SLURM_ARRAY_TASK_ID', 1)}",
                    "restart": 0, "order": orders["number"], "nodes": self.nodes, "boot_id": "b"})
        for node in self.nodes:
            self.write({"kind": "agent_joined", "node": node, "host": node, "boot_id": "b", "pid": 1})
        self.write({"kind": "attempt_started", "attempt": 1, "nodes": self.nodes, "world_size": NODES * RANKS_PER_NODE,
                    "load": "", "iteration": 0, "standby": False, "why": "first start"})
        self.phase("iteration", 0)

    def write(self, body):
        self.lead.write(line(body))
        self.lead.flush()

    def phase(self, phase, iteration):
        self.write({"kind": "phase", "attempt": 1, "phase": phase, "iteration": iteration})

    def beat(self, iteration, age_ms, fresh):
        ranks = NODES * RANKS_PER_NODE
        oldest = [{"rank": r * 17, "node": self.nodes[r * 17 // RANKS_PER_NODE], "age_ms": age_ms + 9 - r,
                   "phase": "iteration", "iteration": iteration} for r in range(8)]
        self.write({"kind": "beat", "attempt": 1, "phase": "iteration", "phase_age_ms": age_ms, "ranks": ranks,
                    "reporting": ranks, "iteration_min": iteration, "iteration_max": iteration, "total": 1000000,
                    "consumed_samples": iteration * 2048, "loss": 2.0, "learning_rate": 6e-5, "gradient_norm": 0.2,
                    "tflops": 400.0, "iteration_ms": {"count": fresh, "p50": 1000 * STEP_S, "p99": 1020 * STEP_S,
                                                      "max": 1050 * STEP_S},
                    "progress_age_ms": age_ms + 9, "newest_progress_age_ms": age_ms, "oldest": oldest})

    def notice(self, number, sent):
        text = f"fleet notice {number}"
        sent.write(json.dumps({"text": text, "at": time.time()}) + "\n")
        self.write({"kind": "notice", "node": self.nodes[number % NODES], "text": text})
        sent.flush()

    def run(self):
        began, before, number = time.monotonic(), 0, 0
        with open(os.path.join(self.plan, "sent.jsonl"), "a", encoding="utf-8") as sent:
            while not os.path.exists(os.path.join(self.plan, "lose-lead")):
                since = time.monotonic() - began
                iteration = int(since / STEP_S)
                for save in range((before // SAVE_EVERY + 1) * SAVE_EVERY, iteration + 1, SAVE_EVERY):
                    self.write({"kind": "checkpoint_saved", "iteration": save, "bytes": 1 << 40, "seconds": 1.0,
                                "checkpoint": f"step-{save:06d}.g000001"})
                self.beat(iteration, int(1000 * (since % STEP_S)), iteration - before)
                before = iteration
                for _ in range(2):  # edges beside the beats: something is said twice a second
                    time.sleep(0.5)
                    number += 1
                    self.notice(number, sent)
            self.lead.close()
            for number, node in enumerate(self.nodes[1:]):  # its connection broke: each says so by itself
                with open(os.path.join(self.folder, "agents", node + ".jsonl"), "a", encoding="utf-8") as file:
                    text = f"the lead: fleet {number}"
                    file.write(line({"kind": "agent_lost", "node": self.nodes[0], "why": text}))
                    file.write(line({"kind": "notice", "node": node, "text": text}))
                    sent.write(json.dumps({"text": text, "at": time.time()}) + "\n")
            sent.flush()
        time.sleep(3600)


if __name__ == "__main__":
    Fleet(sys.argv[sys.argv.index("--run-dir") + 1]).run()
