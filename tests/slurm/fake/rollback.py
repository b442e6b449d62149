"""Rollback of a script whose checkpoints are DeepSpeed's: the file `latest` names the tag's folder."""
import os

from e2e._harness import check
from slurm.fake._site import LIMIT, main


def begin(site, files):
    """A run in whose checkpoint folder lie the checkpoints of 10, 20 and 30, and these files."""
    tree = os.path.join(site.folder, "tree")
    for count in (10, 20, 30):
        os.makedirs(os.path.join(tree, f"global_step{count}"))
        open(os.path.join(tree, f"global_step{count}", "mp_rank_00_model_states.pt"), "w", encoding="utf-8").close()
    for name, text in files.items():
        with open(os.path.join(tree, name), "w", encoding="utf-8") as f:
            f.write(text)
    site.begin(more="checkpoints: {directory: " + tree + ", format: deepspeed}\n")
    site.trains(30)
    return tree


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def said(site, text):
    return site.wait(lambda: next((e for e in site.events() if text in e.get("reason", "")), None), LIMIT, f"the journal to say \"{text}\"")


def tracker_and_tag(site):
    """The job ends, `latest` is set, its old word kept beside it; Megatron-DeepSpeed's own file too; then the next job."""
    tree = begin(site, {"latest": "global_step30", "latest_checkpointed_iteration.txt": "30"})
    site.stoker("rollback", site.run, "--to", "20", "--reason", "loss spike")
    said(site, "the rollback to 20 is set")
    check(read(tree, "latest") == "global_step20", f"latest says {read(tree, 'latest')}")
    check(read(tree, "latest_checkpointed_iteration.txt") == "20", "Megatron's file was not set")
    kept = {name.split(".before-")[0]: read(tree, name) for name in os.listdir(tree) if ".before-" in name}
    check(kept == {"latest": "global_step30", "latest_checkpointed_iteration.txt": "30"}, f"the old words: {kept}")
    site.wait_jobs(2)
    first = site.jobs()[0]["tasks"]["1"]["state"]
    check(first == "CANCELLED", f"the job before is {first}")
    check(site.status()["restarts"] == 0, "a rollback was counted as a failure")


def tracker_alone(site):
    """DeepSpeed without Megatron: no file is made that was not there."""
    tree = begin(site, {"latest": "global_step30\n"})
    site.stoker("rollback", site.run, "--to", "10", "--reason", "loss spike")
    said(site, "the rollback to 10 is set")
    check(read(tree, "latest") == "global_step10", f"latest says {read(tree, 'latest')}")
    check(not os.path.exists(os.path.join(tree, "latest_checkpointed_iteration.txt")), "a file of Megatron was made")


def no_such_tag(site):
    """A checkpoint that is not there: nothing is changed, the job goes on."""
    tree = begin(site, {"latest": "global_step30"})
    site.stoker("rollback", site.run, "--to", "25", "--reason", "loss spike")
    said(site, "the rollback to 25 is given up, nothing was changed")
    check(sorted(os.listdir(tree)) == ["global_step10", "global_step20", "global_step30", "latest"], f"left behind: {os.listdir(tree)}")
    check(read(tree, "latest") == "global_step30", "latest was changed")
    site.trains()
    site.stays(1, 1)


if __name__ == "__main__":
    main(tracker_and_tag, tracker_alone, no_such_tag)
