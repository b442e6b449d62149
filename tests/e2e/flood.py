"""A stranger floods the lead's port while a rank dies: the training goes on, the lead stays small and the journal short. CI has
some seconds of it; --long five minutes of 10,000 connections a second."""
import json
import os
import resource
import signal
import socket
import time

from _agent import STEPS, check, run_cases, wait_for
from _flood import Flood
from _harness import Failed as SiteFailed
from _harness import Site

LONG = bool(os.environ.get("STOKER_LONG"))
FLOOD_S, RATE = (300, 10000) if LONG else (5, 2000)


def memory_kib(pid, word="VmRSS"):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(word))


def lead_address(a):
    """`a`: an Allocation or a Site."""
    path = os.path.join(a.directory, "gen-000001", "agents", "lead.json")
    wait_for(lambda: os.path.exists(path), 30, "the lead's address")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def agent_of(a, node):
    """The agent process of a node, not its keeper: the younger one."""
    found = []
    for pid, (_, command) in a.processes().items():
        if "stoker-agent run" in command and f"--node {node}" in command:
            found.append(pid)
    check(len(found) == 2, f"keeper and agent of {node}: {found}")
    return max(found)


def rank_of(a, rank):
    """Its process, which may come a little later than its peers'."""
    def found():
        for pid, (_, command) in a.processes().items():
            if "rank.py" in command and "guardian" not in command:
                try:
                    with open(f"/proc/{pid}/environ", "rb") as file:
                        if f"\0RANK={rank}\0".encode() in b"\0" + file.read():
                            return pid
                except OSError:
                    continue  # gone meanwhile
        return 0

    return wait_for(found, 20, f"rank {rank}")


def few_descriptors():
    """The soft limit that clusters have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))


def flood(allocation):
    """a stranger floods the lead's port while a rank is killed: it is restarted meanwhile, memory and journal stay small"""
    few_descriptors()
    a = allocation(nodes=2, orders={"orphan_grace": 0, "restart_budget": 1000})
    a.script(STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    lead, agent = lead_address(a), agent_of(a, "n01")
    before = memory_kib(agent)
    stranger = Flood(lead["address"], lead["port"], 1050, RATE)
    began = time.monotonic()
    restarts, longest = 0, 0.0
    while restarts == 0 or time.monotonic() - began < FLOOD_S:
        restarts += 1
        killed = time.monotonic()
        os.kill(rank_of(a, 1), 9)
        a.wait_event("phase", 60, phase="iteration", attempt=restarts + 1)
        longest = max(longest, time.monotonic() - killed)
        check(not a.events("agent_lost"), "a node was convicted")
        if LONG:
            time.sleep(20)
    done = stranger.end()
    grown = memory_kib(agent, "VmHWM") - before
    notices = [e["body"] for e in a.events("notice")]
    refused = [n for n in notices if "refused" in n["text"]]
    print(f"flood: {done}, {done['knocks'] / done['seconds']:.0f} a second; {restarts} restarts, the longest {longest:.1f} s; RSS {before} + {grown} KiB; {len(notices)} notices")
    check(done["knocks"] > 100, f"the flood reached the port: {done}")
    check(refused, "the refusals are reported")
    check(len(refused) <= 1 + (time.monotonic() - began) / 60, f"one notice a minute: {refused}")
    check(len(notices) - restarts < 20, f"rows of the journal: {notices}")
    if "asan" not in os.environ.get("STOKER_BIN", "") and "tsan" not in os.environ.get("STOKER_BIN", ""):
        check(grown < 5 * 1024, f"the lead has grown by {grown} KiB")
    a.write_control(level="leave_now")
    check(a.exit_code() == 0, "left")
    a.nothing_left()


def flood_is_evidence(allocation):
    """a link that closes while strangers flood the port: the lead waits for its agent and says so before it counts as lost"""
    a = allocation(nodes=2)
    a.script(STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    lead, agent = lead_address(a), agent_of(a, "n02")
    stranger = Flood(lead["address"], lead["port"], 100, 500)
    wait_for(lambda: [e for e in a.events("notice") if "refused" in e["body"]["text"]], 30, "the lead sees the flood")
    os.kill(agent, 9)
    a.wait_event("agent_lost", 60)
    stranger.end()
    words = [json.dumps(e["body"]) for e in a.lines()]
    lost = [i for i, w in enumerate(words) if '"agent_lost"' in w][0]
    check(any("strangers flood" in w for w in words[:lost]), "it was given time, and that was said")
    a.write_control(level="leave_now")
    a.exit_code()


def joins_in_a_flood(allocation):
    """a follower comes while strangers flood the port: it is let in"""
    few_descriptors()
    a = allocation(nodes=2)
    a.script(STEPS)
    a.start(nodes=["n01"])
    lead = lead_address(a)
    stranger = Flood(lead["address"], lead["port"], 1050, RATE)
    wait_for(lambda: [e for e in a.events("notice") if "refused" in e["body"]["text"]], 30, "the lead sees the flood")
    a.start(nodes=["n02"])
    a.wait_event("agent_joined", 60, node="n02")
    print(f"joined: {stranger.end()}")
    a.wait_event("phase", 60, phase="iteration")
    a.write_control(level="leave_now")
    check(a.exit_code() == 0, "left")


def silence(allocation):
    """who connects and says nothing is sent away, without any flood; the followers are not touched by it"""
    a = allocation(nodes=2)
    a.script(STEPS)
    a.start()
    a.wait_event("phase", phase="iteration")
    lead = lead_address(a)
    with socket.create_connection((lead["address"], lead["port"]), timeout=30) as stranger:
        check(stranger.recv(1) == b"", "the lead closes the connection")
    said = wait_for(lambda: [e["body"]["text"] for e in a.events("notice", node="n01") if "refused" in e["body"]["text"]], 30,
                    "the lead reports it")
    check("port: 1 within" in said[0] and "(said nothing: 1), the newest from 127.0.0.1" in said[0], str(said))
    check(not a.events("agent_lost"), "a follower was touched by it")
    a.write_control(level="leave_now")
    check(a.exit_code() == 0, "left")


def with_a_daemon(_allocation):
    """the daemon restarts a killed rank inside the allocation while strangers flood the lead's port; its journal stays short"""
    few_descriptors()
    site = Site()
    try:
        site.start_daemon()
        site.stoker("run", site.write_files(site.prepare_data(), samples=200000, nodes=2, ranks_per_node=1), "--yes")
        site.wait_iteration(5)
        before = len(site.events())
        lead = lead_address(site)
        stranger = Flood(lead["address"], lead["port"], 1050, RATE)
        os.kill(site.rank_pid(1), signal.SIGKILL)
        status = site.wait(lambda: site.status().get("restarts") == 1 and site.status().get("state") == "training" and site.status(),
                           60, "the restart")
        site.wait(lambda: [e for e in site.events() if "refused" in json.dumps(e)], 30, "the refusals reach the journal")
        done = stranger.end()
        rows = site.events()[before:]
        print(f"with a daemon: {done}; {len(rows)} rows, {sum('refused' in json.dumps(e) for e in rows)} of refusals")
        check(status["generation"] == 1, f"the job was given up: {status}")
        check(sum("refused" in json.dumps(e) for e in rows) < 3, f"rows of refusals: {rows}")
    except SiteFailed as failure:
        check(False, failure)
    finally:
        site.close()


run_cases([flood, with_a_daemon, joins_in_a_flood, flood_is_evidence, silence])
