#!/usr/bin/env python3
"""./dev pictures: the pictures of README and docs, taken from a real run of the programs, never drawn by hand.

A daemon supervises three trainings on the embedded scheduler: `gpt` loses a rank, and later one of its ranks freezes; `ablation`
trains beside it; `broken` has no data and is held. What then stands in a terminal (tmux) becomes SVG, what a browser shows PNG.
tests/lint/pictures.py names the pictures and what they are made of.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "lint"), HERE]
import lint  # noqa: E402
import pictures  # noqa: E402  (the rules)

DEBIAN_PYTHON = "/usr/bin/python3"  # has the modules of Debian's packages, which another Python in PATH lacks
COLUMNS, ROWS = 100, 60
PATIENCE_S = 120  # a browser on a busy machine
# As large as two cores train at some ten iterations a second; the batch is 4 until 64 samples are consumed, then 8.
GPT = dict(nodes=2, spares=1, samples=64 + 8 * 1000, save_every=20, hidden=96, ffn=384, sequence=96)
ABLATION = dict(nodes=1, ranks_per_node=1, samples=64 + 8 * 20000, save_every=100, hidden=48, ffn=192, sequence=48)


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


# ---- the story
def begin(site, name, **shape):
    site.use_run(name)
    site.stoker("run", site.write_files(shape.pop("prefix"), **shape), "--yes")


def trouble(site, what, do, iterations):
    """Does it, and waits until the training has gone on for so long after the restart."""
    before = site.status()
    say(f"{what} at iteration {before['iteration']}")
    do()
    site.wait(lambda: site.status().get("restarts", 0) > before["restarts"] and site.status()["state"] == "training", 90, "the restart")
    site.wait_iteration(site.status()["iteration"] + iterations, 300)


def story(site):
    prefix = site.prepare_data()
    begin(site, "broken", prefix=os.path.join(site.folder, "data-of-may"), nodes=1)
    begin(site, "ablation", prefix=prefix, **ABLATION)
    begin(site, "gpt", prefix=prefix, **GPT)
    site.wait_iteration(150, 300)
    trouble(site, "rank 1 is killed", lambda: os.kill(site.rank_pid(1), signal.SIGKILL), 100)
    trouble(site, "rank 2 freezes", lambda: os.kill(site.rank_pid(2), signal.SIGSTOP), 150)


# ---- terminals
def prompt(text):
    return text.rstrip().endswith("$")


def terminals(site, out):
    from e2e._screen import Screen
    from terminal import svg_of

    def keep(name, screen, title):
        rows = screen.tmux("capture-pane", "-e", "-N", "-p").rstrip("\n").split("\n")
        if prompt(screen.text()):
            rows = rows[:len(screen.text().rstrip().split("\n")) - 1]
        with open(os.path.join(out, name), "w", encoding="utf-8") as f:
            f.write(svg_of("\n".join(rows), screen.columns, title))

    screen = Screen(site, COLUMNS, ROWS)
    try:
        screen.line("PS1='$ '; clear")
        screen.wait(lambda text: text.strip() == "$", 10, "the shell")
        for command, word in (("stoker status gpt", "budget"), ("stoker why gpt --last 3", "because")):
            screen.line(command)
            screen.wait(lambda text, w=word: w in text and prompt(text), PATIENCE_S, command)
        keep("incident.svg", screen, "after two failures")
        for name, columns, rows in (("top.svg", 80, 24), ("top-wide.svg", 140, 32)):
            screen.resize(columns, rows)
            screen.line("clear; stoker top")
            screen.sees("stoker top", "daemon ok", "gpt", "broken")
            if name == "top-wide.svg":
                screen.keys("j", "j")
                screen.sees("* gpt")
            keep(name, screen, "stoker top")
            screen.keys("q")
            screen.wait(prompt, 10, "the shell")
    finally:
        screen.close()


# ---- what a browser shows
def pages(site, out):
    from e2e._browser import Browser
    address = json.loads(site.stoker("web", "--json").stdout)["url"]
    report = os.path.join(site.folder, "report.html")
    site.stoker("report", "gpt", "-o", report)
    browser = Browser()
    browser.call("Emulation.setScrollbarsHidden", hidden=True)

    def keep(name):
        browser.screenshot(os.path.join(out, name + ".png"))

    try:
        browser.look(1280, 760)
        browser.go(address)
        browser.wait_for("document.querySelectorAll('.run').length === 3", PATIENCE_S)
        home = address.split("/login")[0]
        for colour in ("light", "dark"):
            browser.look(1280, 760, dark=colour == "dark")
            browser.go(home + "/#/")
            browser.wait_for("document.querySelectorAll('.run').length === 3", PATIENCE_S)
            keep("runs-" + colour)
            browser.look(1280, 1060, dark=colour == "dark")
            browser.go(home + "/#/run/gpt")
            browser.wait_for("document.querySelectorAll('.chart canvas').length >= 12 && document.querySelector('.log').textContent", PATIENCE_S)
            browser.wait_for("document.querySelectorAll('.timeline .band-trouble').length >= 2", PATIENCE_S)
            time.sleep(1)
            keep("run-" + colour)
            browser.go("about:blank")
        browser.look(1280, 1060)
        browser.go("file://" + report)
        browser.wait_for("document.readyState === 'complete' && document.querySelectorAll('figure').length >= 6", PATIENCE_S)
        keep("report")
        check_quiet(browser)
    finally:
        browser.close()


def check_quiet(browser):
    if browser.complaints:
        raise SystemExit(f"the browser complains: {browser.complaints[:3]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"))
    parser.add_argument("--out", default=os.path.join(ROOT, pictures.FOLDER), help="the folder that gets them")
    options = parser.parse_args()
    try:
        import rich  # noqa: F401
    except ImportError:
        if sys.executable == DEBIAN_PYTHON:
            raise SystemExit("python3-rich is missing: ./dev setup installs it") from None
        os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, *sys.argv])
    os.environ["STOKER_BIN"] = os.path.abspath(options.bin)
    from e2e import _browser
    from e2e._harness import Failed, Site
    missing = _browser.missing() or ("" if shutil.which("tmux") else "no tmux here (package tmux)")
    if missing:
        raise SystemExit(f"{missing}: ./dev setup installs it")
    os.makedirs(options.out, exist_ok=True)
    site = Site("gpt")
    try:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        site.start_daemon("--listen", f"127.0.0.1:{port}")
        story(site)
        say("terminals")
        terminals(site, options.out)
        say("pages")
        pages(site, options.out)
        with open(os.path.join(options.out, os.path.basename(pictures.MADE)), "w", encoding="utf-8") as f:
            f.write(pictures.made_text(lint.tracked(""), lint.read))
    except Failed as failure:
        raise SystemExit(f"no pictures: {failure}") from None
    finally:
        site.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
