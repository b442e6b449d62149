#!/usr/bin/env python3
"""How a training ends: each exit code of the contract, the heartbeat page, lost peers that are named, the warm standby."""
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

from _train import TRAIN, Failed, Training, check, free_port, run_test


def wait_for(condition, what, limit=60):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.002)
    raise Failed(f"not within {limit} s: {what}")


def iterations(training):
    return [int(n) for n in re.findall(r"iteration +(\d+)/", training.log())]


def saved_at_end(training):
    last = iterations(training)[-1]
    name = f"step-{last:06}.g000000"
    check(name in training.checkpoints(), f"left at iteration {last} without saving it")
    return last


def test_exit_points(training):
    for more, code, text in (("exit: {iteration: 7}", 12, "exiting program at iteration 7"),
                             ("exit: {samples: 70}", 12, "exiting program at iteration"),
                             ("exit: {duration: 1ms}", 10, "exiting program after")):
        training.configure("exits.yaml", more=more)
        training.run(expect=code, config="exits.yaml", STOKER_LOAD="none")
        check(text in training.log(), f"{more}: {training.log()[-300:]}")
        print(f"{more}: exit {code} at iteration {saved_at_end(training)}, saved", flush=True)


def test_signals(training, world):
    for number in (signal.SIGTERM, signal.SIGUSR1):
        ranks = training.start(world, STOKER_LOAD="none")
        wait_for(lambda: iterations(training), "the first iteration")
        ranks[-1].send_signal(number)
        codes = training.finish(ranks)
        check(set(codes) == {10}, f"{number.name}: exit codes {codes}\n{training.log()[-600:]}")
        print(f"{number.name} to one of {world} ranks: all leave with 10 at iteration {saved_at_end(training)}, saved",
              flush=True)


def test_kill_switch(training):
    switch = os.path.join(training.folder, "kill-me")
    ranks = training.start(2, flags=("--kill-switch", "kill-me"), STOKER_LOAD="none")
    wait_for(lambda: iterations(training), "the first iteration")
    open(switch, "w").close()
    codes = training.finish(ranks)
    check(set(codes) == {11} and "Detected kill switch at kill-me" in training.log(), f"kill switch: {codes}")
    print(f"kill switch: exit 11 at iteration {saved_at_end(training)}, saved")
    codes = training.finish(training.start(2, flags=("--kill-switch", "kill-me")))
    check(set(codes) == {11} and not iterations(training), f"kill switch still there: {codes}")
    print("kill switch still there: exit 11 before the first iteration")
    os.remove(switch)
    ranks = training.start(2, flags=("--kill-switch", "kill-me"), STOKER_LOAD="none")
    wait_for(lambda: iterations(training), "the first iteration")
    ranks[0].send_signal(signal.SIGSTOP)  # so that both reasons meet in one step
    open(switch, "w").close()
    ranks[0].send_signal(signal.SIGTERM)
    ranks[0].send_signal(signal.SIGCONT)
    codes = training.finish(ranks)
    check(set(codes) == {11}, f"kill switch and TERM in one step: {codes}")
    print("kill switch and TERM in one step: exit 11")
    os.remove(switch)
    os.makedirs(os.path.join(training.folder, "switch"))
    before = training.checkpoints()
    ranks = training.start(1, STOKER_LOAD="none")
    wait_for(lambda: iterations(training), "the first iteration")
    open(os.path.join(training.folder, "switch", "kill"), "w").close()
    codes = training.finish(ranks)
    check(codes == [11], f"switch/kill: {codes}")
    check(set(training.checkpoints()) - set(before) <= {"step-000005.g000000", "step-000010.g000000"},
          "switch/kill saved")
    os.remove(os.path.join(training.folder, "switch", "kill"))
    print("switch/kill: exit 11, without saving", flush=True)


def test_heartbeat(training):
    """The agent's half of the page: a save that is answered, then save and leave."""
    paths = [os.path.join(training.folder, f"page.{rank}") for rank in range(2)]
    for path in paths:
        with open(path, "wb") as file:
            file.write(b"STOKERHB" + struct.pack("<I", 1) + bytes(8192 - 12))

    def field(rank, offset, form):
        with open(paths[rank], "rb") as file:
            file.seek(offset)
            return struct.unpack(form, file.read(struct.calcsize(form)))[0]

    def put(offset, form, value):
        for path in paths:
            with open(path, "r+b") as file:
                file.seek(offset)
                file.write(struct.pack(form, value))

    training.configure("page.yaml", every=1000000)
    training.attempt += 1
    port = free_port()
    ranks = []
    for rank in range(2):
        log = open(os.path.join(training.folder, f"log.{training.attempt}.{rank}"), "w")
        ranks.append(subprocess.Popen([TRAIN, "--config", "page.yaml"], cwd=training.folder, stdout=log,
                                      stderr=subprocess.STDOUT, env=training.environment(
                                          rank, 2, port, {"STOKER_HEARTBEAT": paths[rank], "STOKER_LOAD": "none"})))
        log.close()
    try:
        wait_for(lambda: field(0, 40, "<Q") >= 1, "an iteration in the page")
        put(2048, "<Q", 1)
        wait_for(lambda: field(0, 144, "<Q") == 1 and field(1, 144, "<Q") == 1, "the save's answer")
        check(len(training.checkpoints()) == 1 and field(0, 112, "<Q") > 0, "answered without a checkpoint")
        put(2056, "<I", 1)
        codes = training.finish(ranks)
    finally:
        training.kill(ranks)
    check(set(codes) == {10}, f"save and leave: exit codes {codes}")
    check(field(1, 20, "<I") == 5, "the last phase is not shutdown")
    check(field(0, 4096 + 64, "<Q") > 0 and field(0, 4096 + 64 + 16, "<q") > 0, "no collective in the ring")
    saved_at_end(training)
    print("heartbeat page: a save is answered, save and leave ends with 10, phases and collectives are there", flush=True)


def test_lost_peer(training):
    training.configure("impatient.yaml", deadline="2s")
    for how, number, victim, limit in (("killed", signal.SIGKILL, 1, 15), ("killed", signal.SIGKILL, 0, 15),
                                       ("frozen", signal.SIGSTOP, 2, 20)):
        ranks = training.start(4, config="impatient.yaml", STOKER_LOAD="none")
        try:
            wait_for(lambda: iterations(training), "the first iteration")
            ranks[victim].send_signal(number)
            began = time.monotonic()
            codes = [r.wait(30) for i, r in enumerate(ranks) if i != victim]
            seconds = time.monotonic() - began
        finally:
            training.kill(ranks)
        log = training.log()
        check(set(codes) == {20}, f"rank {victim} {how}: exit codes {codes}\n{log[-800:]}")
        named = re.findall(r"collective \"\w+\" on rank \d: peer lost: rank (\d)", log)
        check(named and set(named) == {str(victim)}, f"rank {victim} {how}: named {named}\n{log[-800:]}")
        check(seconds < limit, f"rank {victim} {how}: the others took {seconds:.1f} s")
        print(f"rank {victim} of 4 {how}: the others leave with 20 after {seconds:.1f} s and name it", flush=True)


def test_configuration(training):
    training.configure("bad.yaml", more="batches: 3")
    training.run(expect=22, config="bad.yaml")
    check(re.search(r"bad\.yaml:\d+:\d+: error: ", training.log()), training.log())
    print("configuration with an unknown key: exit 22 with its place")
    training.run(3, expect=22)  # 4 samples on 3 ranks
    check(re.search(r"train\.yaml:\d+:\d+: error: ", training.log()), training.log())
    print("batch that does not fit three ranks: exit 22 before the first iteration:",
          re.search(r"error: (.*)", training.log()).group(1)[:160], flush=True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ranks = training.start(2, MASTER_PORT=str(taken.getsockname()[1]))
        try:
            check(ranks[0].wait(60) != 0 and "port is in use" in training.log(), training.log())
        finally:
            training.kill(ranks)
    print("port in use: reported in one line", flush=True)


def test_unreadable_data(training):
    """Data that got shorter, and a damaged index: no crash like any other, as no node is to blame; the index is built again."""
    data = os.path.join(training.folder, "data", "text.bin")
    size = os.path.getsize(data)
    whole = open(data, "rb").read()
    ranks = training.start(2, STOKER_LOAD="none")
    wait_for(lambda: iterations(training), "the first iteration")
    os.truncate(data, 0)
    codes = training.finish(ranks)
    with open(data, "r+b") as file:  # the same file: who has it open reads on
        file.write(whole)
    check(set(codes) <= {20, 27} and 27 in codes, f"exit codes {codes}\n{training.log()[-600:]}")
    check(os.path.getsize(data) == size and "text.bin: ends at byte" in training.log(), training.log()[-600:])
    cache = os.path.join(training.folder, "index-cache")
    arrays = sorted(name for name in os.listdir(cache) if name.endswith("-shuffle_index.npy"))
    for name in arrays:
        with open(os.path.join(cache, name), "r+b") as file:
            file.seek(200)
            byte = file.read(1)[0]
            file.seek(200)
            file.write(bytes([byte ^ 1]))
    training.run(expect=27, config="seven.yaml")
    check("shuffle_index.npy: damaged: bytes 0 to " in training.log(), training.log()[-600:])
    training.run(expect=12, config="seven.yaml")
    shutil.rmtree(cache)
    print("data that got shorter, a damaged index: exit 27; the next start has built the index again", flush=True)


def waiting_standby(training):
    """A standby of one rank that waits for its order, and our end of its descriptor."""
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "STOKER_STANDBY_FD": str(theirs.fileno())}
    process = subprocess.Popen([TRAIN, "--config", "train.yaml"], cwd=training.folder, env=environment,
                               pass_fds=[theirs.fileno()])
    theirs.close()
    ours.settimeout(60)
    check(ours.recv(1) == b"R", "no ready byte")
    return process, ours


def test_standby(training):
    world, fds, ends = 2, [], []
    training.run(world, expect=12, config="seven.yaml", STOKER_LOAD="none")
    orders, processes = [], []
    for rank in range(world):
        ours, theirs = socket.socketpair()
        os.set_inheritable(theirs.fileno(), True)
        ends.append(ours)
        fds.append(theirs)
    port = free_port()
    training.attempt += 1
    for rank in range(world):
        environment = {**os.environ, "STOKER_STANDBY_FD": str(fds[rank].fileno())}
        log = open(os.path.join(training.folder, f"log.{training.attempt}.{rank}"), "w")
        processes.append(subprocess.Popen([TRAIN, "--config", "train.yaml"], cwd=training.folder, env=environment,
                                          stdout=log, stderr=subprocess.STDOUT, pass_fds=[fds[rank].fileno()]))
        fds[rank].close()
        orders.append({k: v for k, v in training.environment(rank, world, port, {}).items()
                       if os.environ.get(k) != v})
    try:
        for end in ends:
            end.settimeout(60)
            check(end.recv(1) == b"R", "no ready byte")
        time.sleep(0.3)
        check(not iterations(training), "began without an order")
        began = time.monotonic()
        for end, order in zip(ends, orders):
            end.sendall(json.dumps({"version": 1, "environment": order}).encode() + b"\n")
        wait_for(lambda: 8 in iterations(training), "iteration 8")
        seconds = time.monotonic() - began
        codes = training.finish(processes)
        check(set(codes) == {0}, f"exit codes {codes}\n{training.log()[-500:]}")
        print(f"standby, {world} ranks: {seconds * 1000:.0f} ms from the order to the first new iteration")
    finally:
        training.kill(processes)
    process, ours = waiting_standby(training)
    ours.close()
    check(process.wait(20) == 0, "a dismissed standby must leave quietly")
    print("standby that is dismissed: exit 0", flush=True)
    process, ours = waiting_standby(training)
    training.configure(more="exit: {iteration: 3}")  # edited while it waits
    order = {k: v for k, v in training.environment(0, 1, free_port(), {"STOKER_LOAD": "none"}).items()
             if os.environ.get(k) != v}
    ours.sendall(json.dumps({"version": 1, "environment": order}).encode() + b"\n")
    check(process.wait(60) == 12, f"standby with an edited TRAIN.yaml: exit {process.returncode}, not 12")
    ours.close()
    print("standby whose TRAIN.yaml was edited while it waited: trains by the new one, exit 12", flush=True)


def test_ramp_up_is_behind(training):
    """Four ranks cannot share the first batches of 2 samples; a resume after the ramp-up may use them."""
    path = os.path.join(training.folder, "train.yaml")
    text = open(path).read().replace("start: 4, increment: 4", "start: 2, increment: 2")
    open(path, "w").write(text)
    training.run(4, expect=22)
    with open(os.path.join(training.folder, "begin.yaml"), "w") as file:
        file.write(text + "exit: {samples: 100}\n")
    training.run(2, expect=12, config="begin.yaml")
    training.run(4, expect=0)
    print("four ranks from scratch: exit 22; from a checkpoint after the ramp-up: trained to the end", flush=True)


def main():
    training = Training(directory="saved")
    try:
        fresh = 0

        def own_folder():  # every test saves into a folder of its own: directories are never replaced
            nonlocal fresh
            fresh += 1
            path = os.path.join(training.folder, "checkpoints")
            if os.path.isdir(path):
                os.rename(path, f"{path}.{fresh}")
            training.configure()
            training.configure("seven.yaml", more="exit: {iteration: 7}")

        for test in (test_exit_points, lambda t: test_signals(t, 1), lambda t: test_signals(t, 2),
                     test_kill_switch, test_heartbeat, test_lost_peer, test_configuration, test_unreadable_data, test_standby,
                     test_ramp_up_is_behind):
            own_folder()
            test(training)
    finally:
        training.remove()


run_test(main)
