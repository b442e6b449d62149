"""Lint rules for a machine that is shared with strangers: what C++ files of the product may not do.

Each rule is a table: what is looked for, and the files that may do it, with the reason. To add an exception, add its file and
why it cannot hurt; a reason of the kind "it is more convenient" is none.
"""
import re

# A call, and what its arguments must have: a descriptor without it stays open in every program that we start.
CLOEXEC = {"open": "O_CLOEXEC", "openat": "O_CLOEXEC", "socket": "SOCK_CLOEXEC", "socketpair": "SOCK_CLOEXEC", "accept4": "SOCK_CLOEXEC",
           "pipe2": "O_CLOEXEC", "memfd_create": "MFD_CLOEXEC", "eventfd": "EFD_CLOEXEC", "signalfd": "SFD_CLOEXEC",
           "timerfd_create": "TFD_CLOEXEC", "inotify_init1": "IN_CLOEXEC", "epoll_create1": "EPOLL_CLOEXEC", "mkostemp": "O_CLOEXEC",
           "fopen": '"[rwa]b?[+]?e'}
NO_FLAG = {"accept": "accept4", "pipe": "pipe2", "dup": "fcntl(F_DUPFD_CLOEXEC)", "inotify_init": "inotify_init1",
           "epoll_create": "epoll_create1", "mkstemp": "mkostemp", "creat": "open"}

OURS_TOO = {"open", "accept", "dup", "pipe", "socket"}  # methods of ours have these names

PERMISSIONS = r"(?<![\w.>\"])(?:::)?(chmod|fchmod|fchmodat|umask)\(|\b(?:filesystem|fs)::permissions\("
PERMISSIONS_HOME = "common/os/permissions.cpp"

SHELL = r"(?<![\w.>])(?:::|std::)?(system|popen|wordexp|execlp|execvp|execvpe|posix_spawnp)\(|\"(?:/usr)?/bin/(?:ba|da|z|k)?sh\""
SHELL_MAY = {"embedded/local_scheduler.cpp": "runs the set-up script that the user names in RUN.yaml; no text of ours is part of the command"}

# std::thread throws where no thread can be made. std::async that may also wait for its get() does not.
THREADS = r"\bstd::j?thread\b(?!::)|\bstd::async\((?:std::launch::async\s*,|\s*\[)"
THREADS_HOME = ("worker/agent/aside.hpp", "worker/agent/aside.cpp")

# Where a run's files are: its group, and whoever once was allowed to, may have put a link there.
SHARED = ("watch/", "worker/agent/", "wire/")
FOLLOWS = {
    "watch/tail_source.cpp": "logs of a training, which may be links; read as text, never obeyed",
    "watch/finish_file.cpp": "a file of the training's own; that it is there is all that counts",
    "worker/agent/storage/ending.cpp": "a file of the training's own; that it is there is all that counts",
    "worker/agent/lead_actions.cpp": "a file of the training's own; that it is there is all that counts",
    "worker/agent/node/node_health.cpp": "/dev/kmsg and /proc",
    "worker/agent/rank/job_stacks.cpp": "/proc", "worker/agent/rank/process_tree.cpp": "/proc", "worker/agent/rank/rank_process.cpp": "/proc",
    "worker/agent/rank/stacks.cpp": "/proc; what the tools wrote is read without following",
    "worker/agent/node/bench.cpp": "made with O_EXCL, which follows nothing",
    "watch/checkpoint_scan.cpp": "the folder of checkpoints, which its owner may have put behind a link; its owner is checked",
    "worker/agent/storage/archive_copy.cpp": "its own record in the state of the job; copies are opened without following",
    "worker/agent/storage/claim.cpp": "a file that the user names",
    "wire/heartbeat_page.cpp": "a page in the private folder of the agent, named to the rank by its environment",
}


def code_of(text):
    """The text without comments, with its lines where they were."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def calls(code, name, space="::|std::"):
    """(line, arguments) of each call of a function of the system: `::name(`, or `name(` with flags of the system."""
    for m in re.finditer(rf"(?<![\w.>:])({space})?{name}\(", code):
        depth, at = 1, m.end()
        while depth and at < len(code):
            depth += {"(": 1, ")": -1}.get(code[at], 0)
            at += 1
        arguments = code[m.end():at - 1]
        if m.group(1) or name not in OURS_TOO or re.search(r"\b(O|SOCK|AF)_[A-Z]+", arguments):
            yield code.count("\n", 0, m.start()) + 1, arguments


def given(code, arguments, flag):
    """The flag is among the arguments, or in a variable of this file that is."""
    if re.search(flag, arguments):
        return True
    names = re.findall(r"\b[a-z_]\w*\b", arguments)
    return any(re.search(rf"\b{name}\b *(?:=|\|=)[^;]*{flag}", code) for name in names)


def of_product(names):
    return [name for name in names if not name.startswith("tests/")]


def cloexec(names, read):
    for name in of_product(names):
        code = code_of(read(name))
        for call, flag in CLOEXEC.items():
            for line, arguments in calls(code, call):
                if not given(code, arguments, flag):
                    yield f"{name}:{line}: {call}() without {flag.replace(chr(34), '')}"
        for call, better in NO_FLAG.items():
            for line, _ in calls(code, call):
                yield f"{name}:{line}: {call}() has no flag for it; take {better}"


def permissions(names, read):
    for name in of_product(names):
        if name == PERMISSIONS_HOME:
            continue
        for number, line in enumerate(code_of(read(name)).split("\n"), 1):
            if re.search(PERMISSIONS, line):
                yield f"{name}:{number}: sets a mode or the umask; {PERMISSIONS_HOME} does that"


def shell(names, read):
    for name in of_product(names):
        if name in SHELL_MAY:
            continue
        for number, line in enumerate(code_of(read(name)).split("\n"), 1):
            if re.search(SHELL, line):
                yield f"{name}:{number}: a shell, or a program by PATH: start it by os::spawn with its arguments"


def threads(names, read):
    for name in of_product(names):
        if not name.startswith("worker/agent/") or name in THREADS_HOME:
            continue
        for number, line in enumerate(code_of(read(name)).split("\n"), 1):
            if re.search(THREADS, line):
                yield f"{name}:{number}: a thread that cannot be made ends the agent: take run_aside() or try_thread() of {THREADS_HOME[0]}"


def links(names, read):
    for name in names:
        if not name.startswith(SHARED) or name in FOLLOWS:
            continue
        code = code_of(read(name))
        for call in ("open", "openat"):
            for line, arguments in calls(code, call):
                if not given(code, arguments, "O_NOFOLLOW"):
                    yield f"{name}:{line}: {call}() without O_NOFOLLOW in a shared directory; or take os::read_own_file()"
        for line, arguments in calls(code, "os::read_file"):
            if not re.search(r",\s*true\s*$", arguments):
                yield f"{name}:{line}: os::read_file() follows links in a shared directory: take os::read_own_file()"


# Standard output and standard error of a program are a person's terminal, or a log that is shown in one.
PRINTS = r"(?<![\w.>])(?:std::)?(?:v?f?printf|fputs|fputc|puts|putchar|fwrite)\(|\bfmt::print\(|\bstd::(?:cout|cerr|clog)\b" \
         r"|(?<![\w.>])::write\(\s*STD(?:OUT|ERR)_FILENO"
PRINTS_MAY = {
    "common/printable.cpp": "cleans it", "common/result.cpp": "a bug of ours, in our own words",
    "cli/show/console.cpp": "what all commands print with; their calls are looked at below",
    "daemon/loop/log.cpp": "cleans it", "daemon/main.cpp": "numbers, our own words, and cleaned lines",
    "worker/agent/main.cpp": "cleaned stacks",
    "worker/agent/gpu/bench_command.cpp": "figures, JSON, and cleaned notes",
    "worker/train/main.cpp": "the help", "worker/train/run/say.cpp": "cleans it, but for JSON",
}
# In cli/, what is not made of our own words must be cleaned in the call, or be JSON (which has no control characters).
CLEANS = r"\b(?:printable(?:_lines)?|dump_json|to_json_text)\("
CONSOLE = r"\b(?:console|console_)\s*\.\s*(?:line|out|raw_error)\("
CONSOLE_MAY = {
    "cli/application.cpp": "help and version; one console hands on what another was told",
    "cli/commands/bisect.cpp": "numbers; hosts() and row() clean",
    "cli/commands/chronicle.cpp": "cleaned two lines above", "cli/commands/pulse.cpp": "cleaned above",
    "cli/commands/completion.cpp": "a script of our own words",
    "cli/commands/cron.cpp": "commands of the user's own crontab, for a shell to read",
    "cli/commands/diagnose.cpp": "diagnosis_page() cleans", "cli/commands/why.cpp": "render() cleans",
    "cli/commands/doctor.cpp": "found and fix are cleaned where they join",
    "cli/commands/replay.cpp": "field() cleans; kinds and numbers",
    "cli/commands/self_test.cpp": "the version and the place of the program; what it found is cleaned",
    "cli/commands/sim.cpp": "scenarios and reports of the simulator",
    "cli/commands/stacks.cpp": "members_text() cleans; numbers",
    "cli/commands/status.cpp": "render_status() and failing_line() clean", "cli/commands/top.cpp": "cells clean",
    "cli/commands/what_if.cpp": "numbers, and formulas of our own",
}


def printing(names, read):
    for name in of_product(names):
        code = code_of(read(name))
        if name not in PRINTS_MAY:
            for number, line in enumerate(code.split("\n"), 1):
                if re.search(PRINTS, line):
                    yield f"{name}:{number}: prints without cleaning: take tell_stderr(), log() or Console"
        if name.startswith("cli/") and name not in CONSOLE_MAY:
            for m in re.finditer(CONSOLE, code):
                depth, at = 1, m.end()
                while depth and at < len(code):
                    depth += {"(": 1, ")": -1}.get(code[at], 0)
                    at += 1
                said = code[m.end():at - 1]
                words = re.sub(r'"(?:[^"\\\\]|\\\\.)*"', "", said)
                if not re.search(CLEANS, said) and re.search(r"[A-Za-z_]\w*", re.sub(r"\b(?:fmt::format|console_?|paint|Ink::\w+|std::\w+)\b", "", words)):
                    yield f"{name}:{code.count(chr(10), 0, m.start()) + 1}: text that may be another's is printed as it is: printable()"
