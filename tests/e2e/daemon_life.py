"""What stokerd does besides supervising: one pass from cron, reloading, the web door, the group of its socket."""
import grp
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request

from e2e._harness import BIN, check, main, run_program
from e2e._users import GROUP, MATE, STRANGER, make_users

LONG = dict(samples=60000, hidden=64, ffn=256, sequence=64)


def once(site, limit=120):
    done = run_program("stokerd", "--state", site.state, "--once", ok=False, env=site.env, limit=limit)
    return done.returncode, done.stderr


def one_pass_tells_how_it_went(site):
    """0 fine, 1 could not observe everything, 2 a run needs a person; each pass does what is due."""
    prefix = site.prepare_data()
    code, _ = once(site)
    check(code == 0, f"--once on an empty state exited with {code}")
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, **LONG), "--yes")
    site.wait_iteration(10)
    site.kill_daemon(signal.SIGTERM)
    code, said = once(site)
    check(code == 0, f"--once beside a healthy training exited with {code}\n{said}")
    check(site.status()["state"] == "training", "the pass did not leave the training running")
    before = site.status()["iteration"]
    site.wait(lambda: once(site)[0] == 0 and site.status()["iteration"] > before, 60, "a pass that saw it move")
    database = os.path.join(site.state, "local")
    hidden = database + ".away"
    os.rename(database, hidden)
    with open(database, "w", encoding="utf-8") as f:
        f.write("no scheduler here\n")
    try:
        code, said = once(site, limit=150)
        check(code == 1, f"--once without a scheduler exited with {code}\n{said}")
        check(site.page_pids(), "the training was ended because the scheduler gave no answer")
    finally:
        os.remove(database)
        os.rename(hidden, database)
    with open(os.path.join(site.directory, "switch", "kill"), "w", encoding="utf-8") as f:
        f.write("{}")
    site.wait(lambda: once(site)[0] == 0 and site.status()["state"] == "stopped", 120, "passes that obey a switch file")
    site.use_run("bad")
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, command="sh, -c, 'exit 3'", without_progress=1, restarts=1), "--yes")
    site.wait_state("held", 90)
    site.kill_daemon(signal.SIGTERM)
    code, said = once(site)
    check(code == 2, f"--once with a held run exited with {code}\n{said}")
    site.audit()


def reload_keeps_what_is_good(site):
    """SIGHUP reads RUN.yaml again; one with an error keeps its old policy and the log says where."""
    prefix = site.prepare_data()
    site.start_daemon()
    config = site.write_files(prefix, **LONG)
    site.stoker("run", config, "--yes")
    site.wait_iteration(10)
    with open(config, encoding="utf-8") as f:
        good = f.read()
    with open(config, "w", encoding="utf-8") as f:
        f.write(good.replace("total: 20", "total: 33") + "nonsense: 1\n")
    site.daemon.send_signal(signal.SIGHUP)
    site.wait(lambda: "kept as they were" in site.tail_of_log() and "nonsense" in site.tail_of_log(), 20,
              "the error of the reload in the log")
    check(site.status()["budget"]["restarts_total"] == 20, "a configuration with an error was taken")
    with open(config, "w", encoding="utf-8") as f:
        f.write(good.replace("total: 20", "total: 33"))
    site.daemon.send_signal(signal.SIGHUP)
    site.wait(lambda: site.status()["budget"]["restarts_total"] == 33, 20, "the new policy")
    check(site.status()["state"] == "training", "a reload disturbed the training")
    done = site.stoker("alerts", "test", ok=False)
    check(done.returncode == 1 and "sink" in done.stderr + done.stdout, "alerts test without a sink says nothing")
    pulse = os.path.join(site.folder, "pulse.txt")
    with open(config, "w", encoding="utf-8") as f:
        f.write(good + f"alerts: {{sinks: {{log: {{kind: pulse, path: {pulse}}}}}, routes: [{{to: [log]}}]}}\n")
    site.daemon.send_signal(signal.SIGHUP)
    site.wait(lambda: site.stoker("alerts", "test", ok=False).returncode == 0, 20, "a test alert through the pulse file")
    check(os.path.exists(pulse) and "test" in open(pulse, encoding="utf-8").read(), "the test alert is not in the file")


def ask(port, path, token=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token:
        request.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def the_web_door(site):
    """Page, metrics, health and API of a running daemon on loopback, for a client with the token; it changes nothing."""
    prefix = site.prepare_data()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    site.start_daemon("--listen", f"127.0.0.1:{port}")
    site.stoker("run", site.write_files(prefix, **LONG), "--yes")
    site.wait_iteration(10)
    path = os.path.join(site.state, "http-token")
    check(os.stat(path).st_mode & 0o777 == 0o600, "the token can be read by others")
    with open(path, encoding="utf-8") as f:
        token = f.read().strip()
    for page in ("/", "/metrics", "/healthz", "/api/v1/status"):
        check(ask(port, page)[0] == 401, f"{page} without a token is open")
        check(ask(port, page, token + "x")[0] == 401, f"{page} with a wrong token is open")
        check(ask(port, page, token)[0] == 200, f"{page} with the token is closed")
    check(site.run in ask(port, "/", token)[1], "the page does not name the run")
    status = json.loads(ask(port, "/api/v1/status/" + site.run, token)[1])
    check(status["state"] == "training" and status["iteration"] >= 10, f"the API says {status}")
    iteration = re.search(r'stoker_run_iteration\{run="run"\} (\d+)', ask(port, "/metrics", token)[1])
    check(iteration and int(iteration.group(1)) >= 10, "the metrics have no iteration")
    check(json.loads(ask(port, "/api/v1/health", token)[1])["journal_rows"] > 0, "the health has no journal")
    check(ask(port, "/nothing", token)[0] == 404, "a page that is not there is there")
    site.stoker("stop", site.run, "--now", "--reason", "test ends")


def as_user(site, user, *argv):
    """A command of another user, with the groups that the user database gives it."""
    entry = pwd.getpwnam(user)

    def become():
        os.initgroups(user, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    program = os.path.join(site.folder, "stoker")  # the build's own folder may be closed to others
    if not os.path.exists(program):
        shutil.copy(os.path.join(BIN, "stoker"), program)
    return subprocess.run([program, "--state", site.state, *argv], env=site.env, text=True,
                          capture_output=True, timeout=30, preexec_fn=become)


def a_group_knocks(site):
    """The socket belongs to the run's group; its members may act on that run, and on no other."""
    make_users()
    gid = grp.getgrnam(GROUP).gr_gid
    prefix = site.prepare_data()
    os.chmod(site.folder, 0o755)
    site.start_daemon()
    site.stoker("run", site.write_files(prefix, more=f"group: {GROUP}", **LONG), "--yes")
    site.wait_iteration(5)
    path = os.path.join(site.state, "stokerd.sock")
    site.wait(lambda: os.stat(path).st_gid == gid, 10, "the socket's group")
    check(os.stat(path).st_mode & 0o777 == 0o660, "the socket is open to everybody")
    shared = site.run
    site.use_run("private")
    site.stoker("run", site.write_files(prefix, **LONG), "--yes")
    site.wait_iteration(5)
    done = as_user(site, MATE, "save", shared, "--reason", "I am in the group")
    check(done.returncode == 0 and "save" in done.stdout + done.stderr, f"a member may not save: {done.stderr}")
    done = as_user(site, MATE, "stop", "private", "--now", "--reason", "not mine")
    check(done.returncode == 1 and "may not act" in done.stderr, f"a member of another group acted: {done.stderr}")
    done = as_user(site, STRANGER, "stop", shared, "--now", "--reason", "a stranger")
    check(done.returncode == 1, f"a stranger stopped a run: {done.stdout}{done.stderr}")
    for run in (shared, "private"):
        status = json.loads(site.stoker("status", run, "--json").stdout)
        check(status["state"] == "training", f"{run} is {status['state']}: {status['reason']}")


def slow_patterns(path):
    """A signature file whose compilation takes minutes."""
    with open(path, "w", encoding="utf-8") as f:
        f.write("family: site\nsignatures:\n")
        for i in range(400):
            word = f"q{i:04}zx"
            f.write(f"  - {{name: slow_{i}, class: unknown, weight: 10, pattern: '{word} [0-9]+ .{{1,900}}a.{{1,900}}b', source: the site, "
                    f"example: '{word} 0 aaaa bbbb', counter_example: 'other {i}'}}\n")
    return path


def a_stop_does_not_wait_for_patterns(site):
    """SIGTERM while a site's patterns are compiled: goodbye in the journal, no socket, no lock, and the process is gone."""
    steps = "i=0; while true; do i=$((i+1)); echo step=$i; sleep 0.1; done"
    script = os.path.join(site.folder, "train.sh")
    with open(script, "w", encoding="ascii") as f:
        f.write(steps)
    patterns = slow_patterns(os.path.join(site.folder, "slow.yaml"))
    site.start_daemon()
    site.stoker("run", site.write_files("unused", command=f"/bin/sh, {script}", ranks_per_node=1,
                                        more=f"watch: {{signatures: [{patterns}], progress: {{iteration: 'step=(\\d+)'}}}}"), "--yes")
    site.wait_iteration(5)  # its log was read, so the patterns were asked for
    site.kill_daemon(signal.SIGTERM)
    compiled = os.path.join(site.state, "patterns")
    check(not os.path.exists(compiled) or not os.listdir(compiled), "the patterns were ready before the stop: this test proves nothing")
    check(not os.path.exists(os.path.join(site.state, "stokerd.sock")), "the socket was left behind")
    site.start_daemon()
    check("did not shut down cleanly" not in site.tail_of_log(), "the goodbye is not in the journal")
    site.stoker("stop", site.run, "--now", "--reason", "seen enough")
    site.wait_state("stopped", 60)
    site.audit()


main(one_pass_tells_how_it_went, reload_keeps_what_is_good, the_web_door, a_group_knocks,
     a_stop_does_not_wait_for_patterns)
