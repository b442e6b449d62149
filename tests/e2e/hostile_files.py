"""Hostile files where stoker reads: control.json, orders and switch files; FIFOs, huge, deep, torn, foreign. Never a hang, never
an act, the training goes on; what was refused is reported."""
import json
import os

from e2e._harness import check, main

SHAPE = dict(samples=60000, hidden=64, ffn=256, sequence=64, save_every=20)


def start(site, **more):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **dict(SHAPE, **more)), "--yes")
    site.wait_iteration(10)


def replace(path, content=None, kind=None):
    """Puts something else at `path`, by rename."""
    aside = path + ".evil"
    if kind == "fifo":
        os.mkfifo(aside)
    elif kind == "folder":
        os.makedirs(os.path.join(aside, "x"))
        os.remove(path)
    elif kind == "link":
        os.symlink("/dev/zero", aside)
    elif kind == "huge":
        with open(aside, "wb") as f:
            f.truncate(1 << 33)
    else:
        with open(aside, "wb") as f:
            f.write(content)
    os.rename(aside, path)


def control(site):
    """What the agents obey is replaced; they keep what they knew, and obey the next good one."""
    start(site)
    path = os.path.join(site.directory, "control.json")
    pids = site.page_pids()
    with open(path, "rb") as f:
        good = f.read()
    older = dict(json.loads(good), epoch=0)
    cases = [dict(content=b""), dict(content=good[:-9]), dict(content=b"\xff\xfe\0garbage"), dict(content=b"[" * 900000),
             dict(content=b'{"a":' * 900000), dict(content=json.dumps(older).encode()), dict(content=b"null"),
             dict(content=b'{"version": 99}'), dict(kind="fifo"), dict(kind="link"), dict(kind="huge")]
    for case in cases:
        replace(path, **case)
        now = site.status()["iteration"]
        site.wait_iteration(now + 5, 30)
        check(site.page_pids() == pids, f"ranks changed after {str(case)[:60]}")
    site.stoker("save", site.run, "--reason", "still obeyed")  # the daemon writes it again
    site.wait(lambda: any(e["kind"] == "agent_acknowledged" or "save" in json.dumps(e.get("event", {})) and "acknowledged"
                          in json.dumps(e) for e in site.events()), 30, "the acknowledgement of a save")
    check(site.page_pids() == pids and site.status()["restarts"] == 0, "the training was touched")
    site.stoker("stop", site.run, "--reason", "enough")
    site.wait_state("stopped", 60)
    site.audit()


def switches(site):
    start(site, save_every=1000000)
    folder = os.path.join(site.directory, "switch")
    os.symlink("/etc/passwd", os.path.join(folder, "stop"))
    os.mkfifo(os.path.join(folder, "KILL"))
    os.makedirs(os.path.join(folder, "restart"))
    with open(os.path.join(folder, "pause"), "wb") as f:
        f.truncate(1 << 33)
    site.wait(lambda: len({json.dumps(e["event"]) for e in site.events() if e["kind"] == "switch_refused"}) >= 4, 30,
              "four refusals")
    for name, content in [("save", b"[" * 60000), ("save", b'{"by": 7, "reason": ["x"], "until": {}}'),
                          ("save", b"\xff\xfe\x1b[31m plain words"), ("save", b'{"until": "never"}')]:
        known = site.status().get("checkpoint") or {"iteration": 0}
        with open(os.path.join(folder, name), "wb") as f:
            f.write(content)
        site.wait(lambda: not os.path.exists(os.path.join(folder, "save")), 30, f"the file {content[:30]} to be taken")
        site.wait(lambda k=known: (site.status().get("checkpoint") or {"iteration": 0})["iteration"] > k["iteration"], 30,
                  f"a checkpoint for {content[:30]}")
    if os.geteuid() == 0:
        stranger = os.path.join(folder, "stop.new")
        with open(stranger, "wb") as f:
            f.write(b"{}")
        os.chown(stranger, 65534, 65534)
        os.remove(os.path.join(folder, "stop"))
        os.rename(stranger, os.path.join(folder, "stop"))
        site.wait(lambda: any("65534" in json.dumps(e) or "nobody" in json.dumps(e) for e in site.events()
                              if e["kind"] == "switch_refused"), 30, "the refusal of a stranger's file")
    # The daemon has looked through the folder once more: it takes a good file that came after all of those, and the training
    # goes on beyond it.
    saved = site.status()["checkpoint"]["iteration"]
    site.switch("save")
    now = site.wait(lambda: site.status()["checkpoint"]["iteration"] > saved and site.status(), 30, "a save after them all")
    now = site.wait_iteration(now["iteration"] + 5, 30)
    check(now["state"] == "training" and now["restarts"] == 0 and not now["conditions"], f"a hostile switch file acted: {now}")
    told = "".join(e["reason"] for e in site.events())
    check("\x1b" not in told, "control characters reach the journal")
    site.audit()


def an_unknown_name(site):
    """A file that is no verb is left alone and hurts nothing."""
    start(site)
    folder = os.path.join(site.directory, "switch")
    for name in ["sto", "stop~", ".stop.swp", "save.txt", "x" * 200, "\udcff\udcfe"]:
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write("x")
    now = site.status()["iteration"]
    site.wait_iteration(now + 20, 60)
    check(site.status()["state"] == "training", "a file of another name acted")
    check(not any(n.startswith(".handled") for n in os.listdir(folder)), f"consumed: {os.listdir(folder)}")


main(control, switches, an_unknown_name)
