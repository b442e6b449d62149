"""The real daemon with the files of 2,048 agents and 16,384 ranks, written live by fleet_agent.py."""
import json
import os
import time

from daemon_bench import cpu_seconds, milliseconds, resident_mb
from e2e._harness import Site

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = """\
run: {run}
directory: {directory}
scheduler: {{kind: local, nodes: 1, time_limit: 2h, array: {{tasks: 2, top_up_below: 1}}}}
train: {{command: [sleep, 1d], ranks_per_node: 8, agent: {agent}}}
"""


class Follower:
    """Reads events.jsonl as it grows, and remembers when each notice was seen."""

    def __init__(self, site):
        self.path, self.at, self.rest, self.seen = os.path.join(site.directory, "events.jsonl"), 0, "", {}

    def look(self):
        try:
            with open(self.path, encoding="utf-8", errors="replace") as file:
                file.seek(self.at)
                text = file.read()
                self.at = file.tell()
        except OSError:
            return
        now = time.time()
        lines = (self.rest + text).split("\n")
        self.rest = lines.pop()
        for line in lines:
            at = line.find("fleet ")
            if at >= 0:
                self.seen.setdefault(line[at:line.find('"', at)], now)


def late(plan, follower, begins, since):
    """Seconds from a notice to its published decision, sorted, of those after `since`; never seen counts as an hour."""
    with open(os.path.join(plan, "sent.jsonl"), encoding="utf-8") as file:
        sent = [json.loads(line) for line in file]
    return sorted(follower.seen.get(s["text"][s["text"].find("fleet "):], s["at"] + 3600) - s["at"]
                  for s in sent if s["text"].startswith(begins) and s["at"] > since)


def fleet(seconds=60):
    site = Site("fleet")
    plan = os.path.join(site.directory, "plan")
    try:
        site.start_daemon()
        config = os.path.join(site.folder, "fleet.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(RUN.format(run=site.run, directory=site.directory,
                                  agent=os.path.join(HERE, "fleet_agent.py")))
        site.stoker("run", config, "--yes")
        site.wait_iteration(3, 120)
        follower = Follower(site)
        before, began, since = cpu_seconds(site.daemon.pid), time.monotonic(), time.time()
        while time.monotonic() - began < seconds:
            follower.look()
            time.sleep(0.02)
        share = 100 * (cpu_seconds(site.daemon.pid) - before) / (time.monotonic() - began)
        answers = milliseconds(site, "status", site.run)
        follower.look()
        time.sleep(2)
        follower.look()
        waits = late(plan, follower, "fleet notice", since)
        p99 = waits[int(0.99 * (len(waits) - 1))]
        note = "2,048 agents, 16,384 ranks"
        yield dict(name="fleet: CPU of the daemon", value=share, unit="%", goal="<= 10", ok=share <= 10,
                   note=f"of one core over {seconds} s; {note}")
        yield dict(name="fleet: event to decision, p99", value=p99, unit="s", goal="< 1", ok=p99 < 1,
                   note=f"{len(waits)} edges of the lead's file, to its published row")
        yield dict(name="fleet: status", value=answers, unit="ms", goal="< 100", ok=answers < 100, note="median of 7")
        open(os.path.join(plan, "lose-lead"), "w", encoding="utf-8").close()
        began, before = time.monotonic(), cpu_seconds(site.daemon.pid)
        while time.monotonic() - began < 30:
            follower.look()
            time.sleep(0.02)
        share = 100 * (cpu_seconds(site.daemon.pid) - before) / (time.monotonic() - began)
        waits = late(plan, follower, "the lead: fleet", since)
        p99 = waits[int(0.99 * (len(waits) - 1))]
        rss = resident_mb(site.daemon.pid)
        yield dict(name="fleet: without its lead, p99", value=p99, unit="s", goal="< 1", ok=p99 < 1,
                   note=f"{len(waits)} agents report for themselves at once; {share:.1f} % of a core over 30 s")
        yield dict(name="fleet: RSS of the daemon", value=rss, unit="MB", goal="<= 128", ok=rss <= 128, note=note)
    finally:
        site.close()
