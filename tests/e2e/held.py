"""When a person is needed: a crash loop is held with its reason and stops submitting; a command that does not exist, too."""
import os

from e2e._harness import check, main


def orders(site):
    return len(os.listdir(os.path.join(site.directory, "orders")))


def crash_loop_is_held(site):
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix, command="sh, -c, 'echo no luck; exit 3'", without_progress=2)
    site.stoker("run", config, "--yes")
    held = site.wait_state("held", 90)
    check("3" in held["reason"], f"the reason has no numbers: {held['reason']}")
    check(any(a["severity"] == "critical" and a["command"] for a in held["alerts"]), "no critical alert with a command")
    before, name, folder = orders(site), site.run, site.directory
    # While another run lives its whole life here, nothing is done for the one that is held.
    site.use_run("beside")
    site.stoker("run", site.write_files(prefix), "--yes")
    site.wait_state("finished", 90)
    site.run, site.directory = name, folder
    check(orders(site) == before and site.status()["state"] == "held", "a held run was submitted again")
    check(not site.page_pids(), "ranks of a held run are alive")
    site.audit()


def a_refused_configuration_is_held(site):
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix)
    site.stoker("run", config, "--yes")
    site.wait_state("finished", 90)
    site.use_run("second")
    config = site.write_files(prefix, samples=80000)
    site.stoker("run", config, "--yes")
    site.wait_iteration(5)
    train = config.replace(".yaml", ".train.yaml")
    with open(train, "a", encoding="utf-8") as f:
        f.write("nonsense: true\n")
    for pid in site.page_pids().values():
        os.kill(pid, 9)
    held = site.wait_state("held", 60)
    check("configuration" in held["reason"], f"the reason does not name the configuration: {held['reason']}")


main(crash_loop_is_held, a_refused_configuration_is_held)
