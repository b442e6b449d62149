"""How long a training still takes: a range, with the tasks that its time limit needs; a heartbeat shortens it, an end takes it away."""
import json

from e2e._harness import check, main

SHAPE = dict(samples=60000, hidden=64, ffn=256, sequence=64)


def a_limit_far_too_short(site):
    prefix = site.prepare_data()
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, time_limit="60s", exit_before_limit="20s", tasks=6, **SHAPE), "--yes")
    site.wait_iteration(30)
    now = site.wait(lambda: (s := site.status()).get("forecast") and s, 30, "a forecast")
    told = now["forecast"]
    check(0 < told["low_s"] < now["eta_s"] < told["high_s"], f"the range: {now['eta_s']} {told}")
    parts = told["iterations_s"] + told["saves_s"] + told["waits_s"] + told["failures_s"]
    check(abs(parts - now["eta_s"]) < 1e-6 * now["eta_s"], f"{parts} is not {now['eta_s']}: {told}")
    left = (now["total"] - now["iteration"]) * now["step_norm_s"]
    check(told["iterations_s"] > 0.8 * left, f"less than its iterations alone, {left}: {told}")
    check(now["eta_s"] < 40 or told["tasks"] > 0, f"tasks of 60s are not counted: {now['eta_s']} {told}")
    line = next(x for x in site.stoker("status", site.run).stdout.splitlines() if x.startswith("  eta"))
    check("; " in line and " to " in line, f"no range for people: {line}")
    later = site.wait_iteration(now["iteration"] + 50)
    check(later["forecast"]["low_s"] < later["eta_s"] < later["forecast"]["high_s"], f"the range later: {later}")
    site.stoker("stop", site.run, "--reason", "enough")
    stopped = site.wait_state("stopped", 60)
    check(stopped.get("eta_s") is None and stopped.get("forecast") is None, f"a stopped run has a forecast: {json.dumps(stopped)}")
    site.audit()


main(a_limit_far_too_short)
