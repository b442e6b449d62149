"""How soon what follows the end of an adopted script is done, on the played SLURM and at the daemon's own pace: for `./dev bench slurm`.

Each prints "NAME: SECONDSs". The daemon has just asked for the queue, so that its next question by itself is a minute away.
"""
import time

from slurm.fake._site import LIMIT, main

ERROR = "RuntimeError: CUDA error: an illegal memory access was encountered\nsrun: error: n01: task 0: Exited with exit code 1\n"


def trains_at_own_pace(site):
    site.begin(pace="15")
    site.trains()
    asked = len(site.calls("squeue"))
    site.wait(lambda: len(site.calls("squeue")) > asked, 90, "the daemon's next question by itself")


def write(site, text):
    with open(site.log_path, "a", encoding="utf-8") as f:
        f.write(text)


def error_to_next_submission(site):
    trains_at_own_pace(site)
    write(site, ERROR)
    time.sleep(3)  # until srun has ended the other ranks
    site.end_task("FAILED", exit=1)
    ended = time.monotonic()
    site.wait_jobs(2, 120)
    print(f"error_to_next_submission: {time.monotonic() - ended:.1f}s", flush=True)


def last_iteration_to_finished(site):
    trains_at_own_pace(site)
    write(site, " iteration   100000/  100000 | consumed samples: 800000 | elapsed time per iteration (ms): 100.0 | learning rate: 1.000E-04 | lm loss: 1.0 |\n")
    time.sleep(8)  # the last save
    site.end_task("COMPLETED")
    ended = time.monotonic()
    site.wait(lambda: site.status().get("state") == "finished", 120, "the end")
    print(f"last_iteration_to_finished: {time.monotonic() - ended:.1f}s", flush=True)


if __name__ == "__main__":
    main(error_to_next_submission, last_iteration_to_finished)
