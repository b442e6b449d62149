"""What one SLURM, the real one or the simulator's, answers about the jobs of one sequence, as far as stoker reads it: without
ids and times, and with the nodes by their number in the sequence's lane."""
import re

# As slurm/queue_poll.cpp, slurm/node_states.cpp and slurm/accounting.cpp ask.
ROWS = "\x1f".join(f"%{letter}" for letter in "AFKTrSeVNUuojk")
NUMBERS = "JobArrayID:64,RestartCnt:16,exit_code:16"
NODES = "%N\x1f%T\x1f%E"
ACCOUNTS = ["sacct", "-X", "-P", "-n", "-D", "--delimiter=\x1f", "-S", "now-86400seconds", "-o", "JobID,State,ExitCode,Submit,NodeList,User,JobName,Comment"]
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY")


def tasks_of(text):
    """The tasks that scontrol names: "3", "2-4,6%1"; "rest" for NO_VAL."""
    found = []
    for part in text.split("%")[0].split(","):
        first, _, last = part.partition("-")
        found += ["rest"] if int(first) >= 0xfffffffe else [str(n) for n in range(int(first), int(last or first) + 1)]
    return found


def hosts_of(text):
    """The names in a list of nodes: "n01", "n[01-03,07]", "n01,n02"."""
    found = []
    for prefix, ranges, name in re.findall(r"([^,\[\]]+)\[([^\]]+)\]|([^,\[\]]+)", text):
        for part in ranges.split(",") if ranges else []:
            first, _, last = part.partition("-")
            found += [f"{prefix}{n:0{len(first)}}" for n in range(int(first), int(last or first) + 1)]
        found += [name] if name else []
    return found


class View:
    """`known`: the numbers of the sequence's jobs by their ids; `lane`: the names of its nodes."""

    def __init__(self, known, lane, rows, numbers, details, nodes, accounts=""):
        self.facts = {}
        self.lane = lane
        self.index = {str(job): n for n, job in known.items()}
        self.add_rows(rows)
        self.add_numbers(numbers)
        self.add_details(details)
        self.add_nodes(nodes)
        self.add_accounts(accounts)
        if accounts:
            self.join_node_failures()

    def join_node_failures(self):
        """Where there are accounts, slurmctld does not always wait for what a script on a failed node died of: seen on 22.05.8 are 0 and 15, by which of
        the node's messages and its own record is first."""
        failed = {key[1:] for key, fact in self.facts.items() if key[0] in ("squeue", "scontrol", "sacct") and fact[0] == "NODE_FAIL"}
        waits = {key[1:] for key, fact in self.facts.items() if key[0] == "scontrol" and fact[0] == "PENDING"}
        for key, fact in self.facts.items():
            # Of a job that waits again, sacct's row alone is of the attempt that failed.
            if key[1:] in failed and (key[0] == "sacct" or key[1:] not in waits):
                self.facts[key] = tuple("0 or 15" if word in ("0:0", "0:15") or (key[0] == "numbers" and n == 1 and word in ("0", "15")) else word
                                        for n, word in enumerate(fact))

    def hosts(self, text):
        """"0,1": the lane's first node and its second."""
        names = [] if text in ("(null)", "None assigned") else hosts_of(text)
        return ",".join(str(self.lane.index(name)) if name in self.lane else name for name in names)

    def add_rows(self, text):
        for line in text.splitlines():
            raw, array, task, state, reason, _, _, _, where, _, _, _, name, comment = line.split("\x1f")
            if array not in self.index:
                continue
            task = "rest" if task == "N/A" else task
            held = reason if state == "PENDING" and reason.startswith("JobHeld") else ""
            self.facts["squeue", self.index[array], task] = (state, held, self.hosts(where), "own" if raw != array else "array's", name == comment)

    def add_numbers(self, text):
        for line in text.splitlines():
            words = line.split()
            array, _, task = words[0].partition("_") if words else ("", "", "")
            if array not in self.index:
                continue
            ended = words[2] if ":" not in words[2] else str(256 * int(words[2].split(":")[0]) + int(words[2].split(":")[1]))
            self.facts["numbers", self.index[array], task or "rest"] = (words[1], ended)

    def add_details(self, text):
        for line in text.splitlines():
            record = dict(re.findall(r"(?:^| )(\w+)=(\S*)", line))
            array = record.get("ArrayJobId", record.get("JobId"))
            if array not in self.index:
                continue
            waits = record["JobState"] == "PENDING"
            fact = (record["JobState"], record["Restarts"], record["ExitCode"], waits and self.hosts(record["ExcNodeList"]),
                    waits and self.hosts(record["ReqNodeList"]))
            for task in tasks_of(record["ArrayTaskId"]) if "ArrayTaskId" in record else ["rest"]:
                self.facts["scontrol", self.index[array], task] = fact

    def add_nodes(self, text):
        for line in text.splitlines():
            name, state, reason = line.split("\x1f")
            if name in self.lane:
                out = state.startswith(("down", "drain"))
                self.facts["sinfo", 0, f"node {self.lane.index(name)}"] = ("out" if out else "usable", "drained" if state.startswith("drain") else "",
                                                                           reason if out else "")

    def add_accounts(self, text):
        """Of a job that was requeued, the newest row counts; and only one of an end proves anything."""
        newest = {}
        for line in text.splitlines():
            job, state, ended, _, where, _, name, comment = line.split("\x1f")
            array, _, task = job.partition("_")
            if array in self.index:
                task = task if task.isdigit() and int(task) < 0xfffffffe else "rest"
                newest["sacct", self.index[array], task] = (state.split()[0], "by" if " by " in state else "", ended, self.hosts(where), comment in ("", name))
        self.facts.update({key: fact for key, fact in newest.items() if fact[0] in OVER})
