"""The journal from a newer version, and the journal with flipped bits: named in one line, kept, restored, derived again."""
import hashlib
import json
import os
import shutil
import sqlite3

from e2e._harness import check, main, run_program


FORMAT = "user_version=3"  # as it is


def fingerprint(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def a_finished_run(site):
    """A state directory with a journal worth damaging; returns the number of its rows."""
    site.start_daemon()
    site.stoker("run", site.write_files(site.prepare_data(), ranks_per_node=1), "--yes")
    site.wait_state("finished", 120)
    site.audit()
    change(os.path.join(site.state, "journal.db"), FORMAT)
    db = sqlite3.connect(os.path.join(site.state, "journal.db"))
    rows = db.execute("SELECT max(seq) FROM rows").fetchone()[0]
    db.close()
    return rows


def refused(site, *argv, says):
    """A program that must refuse: exit 1, one line that says all of `says`."""
    done = run_program(*argv, ok=False, env=site.env, limit=30)
    what = f"{' '.join(argv)}: exit {done.returncode}\n{done.stderr}"
    check(done.returncode == 1 and len(done.stderr.strip().splitlines()) == 1, what)
    check(all(word in done.stderr for word in says), what)


def change(journal, pragma):
    """As another program would; what it did stands in the file itself, not in its -wal."""
    db = sqlite3.connect(journal)
    db.execute("PRAGMA " + pragma)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def a_newer_database(site):
    a_finished_run(site)
    journal = os.path.join(site.state, "journal.db")
    for pragma, words in [("user_version=99", ["written by a newer stoker (format 99", "start the newer stokerd"]),
                          ("application_id=7", ["no journal of stoker"])]:
        change(journal, pragma)
        before = fingerprint(journal)
        for argv in [["--once"], ["--audit"], []]:
            refused(site, "stokerd", "--state", site.state, *argv, says=[journal, *words])
        check(fingerprint(journal) == before, f"a journal with {pragma} was changed")
        # Reading goes on from what was published.
        status = site.status()
        check(status["state"] == "finished" and status["stale"], f"status: {status}")
        change(journal, FORMAT)


def flip(path, offset, bit=0):
    with open(path, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ (1 << bit)]))


def find_text(path, text):
    """Where `text` stands last in the file: older versions of a page may stand before."""
    with open(path, "rb") as f:
        at = f.read().rfind(text)
    check(at >= 0, f"{text!r} is not in {path}")
    return at


def hash_of_the_run(journal):
    """Which stands nowhere but behind its state."""
    db = sqlite3.connect(journal)
    value = db.execute("SELECT hash FROM run_states").fetchone()[0]
    db.close()
    return value


def once(site):
    """One pass of the daemon; returns what it said, one message a line."""
    done = run_program("stokerd", "--state", site.state, "--once", ok=False, env=site.env)
    check(done.returncode == 0, f"--once: exit {done.returncode}\n{done.stderr}")
    return [json.loads(line)["message"] for line in done.stderr.splitlines()]


def flipped_bits(site):
    """Damage is named, what is intact is kept, the rest comes from the backup or is derived again."""
    rows = a_finished_run(site)
    good = os.path.join(site.folder, "good")
    shutil.copytree(site.state, good, ignore=shutil.ignore_patterns("*.sock"))
    journal = os.path.join(site.state, "journal.db")
    cases = {
        "a row": (lambda: find_text(journal, b'"kind":"run_added"') + 9, "row "),
        "the state": (lambda: find_text(journal, b'stoker 0.1.0{"') + 16, "the state row is damaged"),
        "a run's state": (lambda: find_text(journal, hash_of_the_run(journal)), "the state row of"),
        "the tables' definitions": (lambda: find_text(journal, b"CREATE TABLE rows") + 3, ""),
        "a column's name": (lambda: find_text(journal, b"prev_hash BLOB") + 1, ""),
        "the file's first bytes": (lambda: 3, ""),
        "the page size": (lambda: 16, ""),
        "the mark of the program": (lambda: 70, "a bit of its header is wrong"),
        "the first page's kind": (lambda: 100, ""),
        "a cursor": (lambda: find_text(journal, b"lead.jsonl"), ""),
    }
    for name, (where, word) in cases.items():
        for with_backup in (True, False):
            shutil.rmtree(site.state)
            shutil.copytree(good, site.state)
            if not with_backup:
                shutil.rmtree(os.path.join(site.state, "backups"))
            flip(journal, where())
            said = once(site)
            what = f"a flipped bit in {name} ({'with' if with_backup else 'without'} a backup): {said}"
            check("damaged: " in said[0] and journal in said[0] and word in said[0], f"not named: {what}")
            check(said[1].startswith("the journal is restored: "), f"not restored: {what}")
            check("no state was left" not in said[1], f"the state was given up: {what}")
            kept = [n for n in os.listdir(site.state) if n.startswith("journal.db.damaged-")]
            check(len(kept) >= 1 and not any(n.endswith((".grafted", ".restoring")) for n in os.listdir(site.state)),
                  f"files left: {os.listdir(site.state)}")
            check([r["state"] for r in json.loads(site.stoker("status", "--json").stdout)] == ["finished"], f"forgotten: {what}")
            db = sqlite3.connect(journal)
            now, lost = db.execute("SELECT max(seq), sum(lost) FROM rows").fetchone()
            db.close()
            check(now >= rows and lost <= 1, f"rows: {now} of {rows}, {lost} lost; {what}")
            again = run_program("stokerd", "--state", site.state, "--audit", ok=False, env=site.env)
            check(again.returncode == (1 if lost else 0), f"audit after {what}: {again.returncode} {again.stderr}")
            check(not lost or "was lost to damage" in again.stderr, f"audit after {what}: {again.stderr}")
            check("damaged" not in " ".join(once(site)), f"still damaged: {what}")


def restored(site):
    with open(os.path.join(site.folder, "stokerd.log"), encoding="utf-8", errors="replace") as f:
        return f.read().count("the journal is restored")


def damage_under_a_running_training(site):
    """The daemon is away, its journal is hurt: the training does not notice, and the next daemon goes on with it."""
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, samples=60000, hidden=64, ffn=256, sequence=64, save_every=20), "--yes")
    site.wait_iteration(20)
    os.kill(site.page_pids()[1], 9)
    site.wait(lambda: site.status()["restarts"] == 1 and site.status()["state"] == "training", 60, "the restart")
    site.wait_iteration(site.status()["iteration"] + 20)
    pids = site.page_pids()
    for known, where in enumerate([b"lead.jsonl", b"rank 1 on n01"]):
        site.kill_daemon()
        journal = os.path.join(site.state, "journal.db")
        change(journal, FORMAT)
        flip(journal, find_text(journal, where))
        site.start_daemon()
        site.wait(lambda k=known + 1: restored(site) == k, 20, "the restored journal")
        now = site.status()["iteration"]
        site.wait_iteration(now + 30, 60)
        check(site.page_pids() == pids and site.status()["restarts"] == 1, f"the training was touched: {site.status()}")
        check(site.status()["state"] == "training", f"{site.status()}")
    site.stoker("stop", site.run, "--reason", "enough")
    site.wait_state("stopped", 60)


def damaged_wal(site):
    """SQLite drops a damaged -wal silently: little stands in it alone, and what is lost is reported."""
    site.start_daemon()
    site.stoker("run", site.write_files(site.prepare_data(), samples=60000, hidden=64, ffn=256, sequence=64), "--yes")
    site.wait_iteration(20)
    pids, published = site.page_pids(), os.path.join(site.state, "published", "events.jsonl")
    site.kill_daemon()
    flip(os.path.join(site.state, "journal.db-wal"), 40)
    with open(published, "a", encoding="utf-8") as f:  # as if it had more rows than the journal kept
        f.write(json.dumps({**json.loads(open(published, encoding="utf-8").read().splitlines()[-1]), "seq": 100000}) + "\n")
    site.start_daemon()
    site.wait(lambda: "contains row 100000, but the journal ends with row" in open(site.log.name, errors="replace").read(), 30,
              "the lost rows named")
    site.wait(lambda: site.status().get("state") == "training", 30, "the run under supervision")
    check(site.page_pids() == pids, "the training was touched")
    os.kill(pids[1], 9)
    site.wait(lambda: site.status()["restarts"] == 1 and site.status()["state"] == "training", 60, "the restart")
    kept = [n for n in os.listdir(os.path.dirname(published)) if n.startswith("events.jsonl.lost-")]
    check(len(kept) == 1, f"{kept}")
    with open(published, encoding="utf-8") as f:
        numbers = [json.loads(line)["seq"] for line in f]
    check(numbers and numbers == sorted(numbers) and numbers[-1] < 100000, f"published: {numbers[:3]} … {numbers[-3:]}")
    site.stoker("stop", site.run, "--reason", "enough")
    site.wait_state("stopped", 60)
    site.audit()


main(a_newer_database, flipped_bits, damage_under_a_running_training, damaged_wal)
