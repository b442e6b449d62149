"""kill -9 of stokerd leaves the training running; the next daemon goes on; without a daemon reading commands still answer."""
import signal

from e2e._harness import check, main

SHAPE = dict(samples=60000, hidden=64, ffn=256, sequence=64)


def training_goes_on_without_daemon(site):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
    site.wait_iteration(20)
    pids = site.page_pids()
    site.kill_daemon(signal.SIGKILL)
    at = site.status()
    check(at["stale"], "status without a daemon does not say that it is stale")
    done = max(site.losses())
    site.wait(lambda: max(site.losses()) >= done + 20, 60, "twenty iterations without a daemon")
    check(site.page_pids() == pids, "ranks changed while the daemon was away")
    site.start_daemon()
    site.wait_iteration(at["iteration"] + 30, 60)
    check(site.page_pids() == pids, "the new daemon restarted a healthy training")
    check(site.status()["restarts"] == 0, "a restart was counted")
    site.audit()


def two_daemons(site):
    site.start_daemon()
    from e2e._harness import run_program
    second = run_program("stokerd", "--state", site.state, ok=False, env=site.env, limit=20)
    check(second.returncode != 0 and second.stderr.strip(), "a second daemon on the same state started")


main(training_goes_on_without_daemon, two_daemons)
