"""The array task's time limit: saved before the wall, the next task continues, no iteration twice in the samples' log, no overlap;
the chain is topped up before it runs dry."""
from e2e._harness import check, main

# far more samples than three tasks of a fast machine can train
SHAPE = dict(samples=400000, hidden=64, ffn=256, sequence=64, save_every=100000, time_limit="12s", exit_before_limit="4s",
             tasks=2)


def tasks_follow_each_other(site):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **SHAPE), "--yes")
    site.wait(lambda: site.status().get("generation", 0) >= 3, 150, "the third task")
    status = site.status()
    check(status["restarts"] == 0, f"a planned end was counted as a failure: {status['restarts']}")
    submitted = [a for e in site.events() for a in e["actions"] if a.startswith("submit")]
    check(len(submitted) >= 2, "the chain was not topped up")
    site.stoker("stop", site.run, "--now", "--reason", "enough")
    site.wait_state("stopped", 40)
    site.audit()


main(tasks_follow_each_other)
