"""Bad input, played as a user would: every case ends in one clear line, the right exit code, and nothing submitted or lost."""
import os
import socket
import struct
import subprocess

from e2e._harness import check, main, run_program

RUN = "run: hello\nscheduler: {{kind: local, nodes: {nodes}}}\ntrain: {{command: [{command}], ranks_per_node: {ranks}}}\n{more}"
TRAIN = """\
model: {{layers: 2, hidden: 32, heads: 2, ffn: 64, sequence: 32, vocabulary: 257}}
data: {{train: [{{prefix: {prefix}}}]}}
batch: {{micro: {micro}, global: {batch}, ramp_up: {{start: {start}, increment: {increment}, samples: 64}}}}
train: {{samples: 160}}
lr: {{max: 1.0e-3, decay_samples: 160}}
{more}
"""


def write(site, name, text):
    path = os.path.join(site.folder, name)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    return path


def run_file(site, name="hello.yaml", nodes=1, ranks=1, command="/bin/true", more=""):
    return write(site, name, RUN.format(nodes=nodes, ranks=ranks, command=command, more=more))


def train_file(site, name="train.yaml", prefix="data", micro=1, batch=8, start=4, increment=4, more=""):
    return write(site, name, TRAIN.format(prefix=prefix, micro=micro, batch=batch, start=start, increment=increment,
                                          more=more))


def refused(site, code, *argv, says=(), lines=1, **kwargs):
    """Runs a program that must refuse: exit `code`, one line a finding on stderr that says all of `says`, no data."""
    done = run_program(*argv, ok=False, env=site.env, cwd=site.folder, limit=30, **kwargs)
    told = done.stderr.strip().splitlines()
    what = f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout[-500:]}{done.stderr[-2000:]}"
    check(done.returncode == code, f"expected exit {code}: {what}")
    check(len(told) == lines, f"expected {lines} lines: {what}")
    for word in says:
        check(word in done.stderr, f"{word!r} is not said: {what}")
    check(all(c.isprintable() or c == "\n" for c in done.stderr), f"control characters: {what!r}")
    return told


def nothing_was_done(site, name="hello"):
    """The daemon knows no run and made no run directory for it."""
    check(run_program("stoker", "--state", site.state, "status", "--json", env=site.env).stdout.strip() == "[]",
          "a refused run is known")
    check(not os.path.exists(os.path.join(site.state, "runs", name)), "a refused run has a directory")
    check("hello" not in site.admin("list").stdout, "a refused run is in the queue")


def errors_all_at_once(site):
    site.start_daemon()
    bad = write(site, "bad.yaml",
                "run: my run!\n"
                "scheduler: {kind: locl, nods: 2, nodes: zero, time_limit: soon}\n"
                "train: {command: [/nope/prog], ranks_per_nod: 2}\n"
                "hang: {floor: 10min, ceiling: 1min}\n"
                "run: again\n")
    wanted = ['bad.yaml:1:6: error: run: ', 'bad.yaml:2:19: error: kind: ', 'did you mean "local"?',
              'bad.yaml:2:25: error: unknown key "nods"; did you mean "nodes"?', "bad.yaml:2:41: error: nodes: ",
              "bad.yaml:2:59: error: time_limit: ", 'bad.yaml:3:19: error: train.command.[0]: the command "/nope/prog" ',
              'bad.yaml:3:32: error: unknown key "ranks_per_nod"; did you mean "ranks_per_node"?',
              "bad.yaml:4:31: error: ceiling: ", 'bad.yaml:5:1: error: duplicate key "run"']
    for verb in ["check", "run", "plan"]:
        refused(site, 2, "stoker", verb, "bad.yaml", says=wanted, lines=9)
    nothing_was_done(site)
    nothing_was_done(site, "again")
    train = write(site, "bad.train.yaml",
                  "model: {layers: 2, hidden: 33, heads: 2, fnn: 64, sequence: -5, vocabulary: 257}\n"
                  "data: {train: [{prefix: data, wieght: 3}]}\nbatch: {micro: 1, global: 8}\ntrain: {samples: many}\n"
                  "parallel: {tensor: 2, pipeline: 2, zero: 2}\n")
    wanted = ['bad.train.yaml:1:1: error: "lr" is missing', "bad.train.yaml:1:39: error: heads: ",
              'bad.train.yaml:1:42: error: unknown key "fnn"; did you mean "ffn"?', "bad.train.yaml:1:61: error: sequence: ",
              'bad.train.yaml:2:31: error: unknown key "wieght"; did you mean "weight"?',
              "bad.train.yaml:4:18: error: samples: ",
              "bad.train.yaml:5:42: error: zero: "]
    refused(site, 22, "stoker-train", "--config", train, says=wanted, lines=7)
    both = run_file(site, "both.yaml", command="stoker-train, --config, bad.train.yaml", more="watsh: {}\n")
    refused(site, 2, "stoker", "check", "both.yaml", says=wanted + ['both.yaml:4:1: error: unknown key "watsh"'], lines=8)
    refused(site, 2, "stoker", "run", both, says=wanted, lines=8)
    nothing_was_done(site)
    # The daemon does not trust the command line: what reaches its socket is checked again.
    site.kill_daemon()
    done = run_program("stokerd", "--state", site.state, "--run", "bad.yaml", "--until-end", ok=False, env=site.env,
                       cwd=site.folder)
    check(done.returncode == 64 and done.stderr.count("bad.yaml:") == 9, f"exit {done.returncode}\n{done.stderr}")


def batch_that_does_not_divide(site):
    site.prepare_data()
    site.start_daemon()
    # 4, 10, 16: with 4 ranks of micro-batch 1 the second step is the first bad one; 1 and 2 nodes of one rank fit.
    train = train_file(site, batch=16, start=4, increment=6)
    run = run_file(site, nodes=4, command="stoker-train, --config, train.yaml")
    wanted = ["train.yaml:3:", "global batch 10 at iteration ", "micro-batch 1 x 4 data-parallel ranks = 4",
              "legal node counts", ": 1, 2"]
    for verb in ["check", "run", "plan"]:
        refused(site, 2, "stoker", verb, run, says=wanted)
    nothing_was_done(site)
    # Whole micro-batches do not fit at all.
    train_file(site, "micro.yaml", micro=3)
    run = run_file(site, "micro.run.yaml", command="stoker-train, --config, micro.yaml")
    refused(site, 2, "stoker", "check", run, says=["micro.yaml:3:", "global batch 4 at iteration 1 ", "micro-batch 3"])
    # Without stoker: each rank refuses by itself, before it asks for its peers.
    env = dict(site.env, RANK="0", WORLD_SIZE="4", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    done = run_program("stoker-train", "--config", train, ok=False, env=env, cwd=site.folder, limit=60)
    check(done.returncode == 22 and all(w in done.stderr for w in wanted) and "iteration  " not in done.stdout,
          f"exit {done.returncode}\n{done.stdout}{done.stderr}")


def commands_that_do_not_exist(site):
    site.start_daemon()
    for command, word in [("/nope/prog", "does not exist"), ("no-such-program-xyz", "nowhere in PATH"),
                          (write(site, "plain.txt", "no program"), "is no program; chmod +x it"), (site.folder, "is no program")]:
        run = run_file(site, command=f'"{command}"')
        refused(site, 2, "stoker", "check", run, says=["hello.yaml:3:19: error: ", word])
        refused(site, 2, "stoker", "run", run, says=["hello.yaml:3:19: error: ", word])
    nothing_was_done(site)
    folder = os.path.join(site.folder, "alone")
    os.makedirs(folder)
    refused(site, 127, "stoker-agent", "run", "--run-dir", folder, "--node", "n1", "--", "/nope/prog",
            says=["/nope/prog", "No such file"])


class Unwritable:
    """A directory that not even root may write to (chattr +i); `None` where the file system cannot say so."""

    def __init__(self, path):
        os.makedirs(path, exist_ok=True)
        self.path = path

    def __enter__(self):
        done = subprocess.run(["chattr", "+i", self.path], capture_output=True, check=False)
        self.immutable = done.returncode == 0
        if not self.immutable:
            os.chmod(self.path, 0o555)
        return self if self.immutable or os.geteuid() != 0 else None

    def __exit__(self, *_):
        if self.immutable:
            subprocess.run(["chattr", "-i", self.path], check=True)
        os.chmod(self.path, 0o755)


def directories_that_cannot_be_written(site):
    prefix = site.prepare_data()
    text = os.path.join(site.folder, "text.txt")
    in_the_way = write(site, "file", "mine\n")
    run = run_file(site, more=f"directory: {in_the_way}/run\n")
    refused(site, 2, "stoker", "check", run, says=["hello.yaml:4:12: error: directory: ", in_the_way, "Not a directory"])
    refused(site, 1, "stokerd", "--state", f"{in_the_way}/state", "--once", says=[in_the_way, "--state"])
    refused(site, 1, "stoker-train", "prepare", text, "-o", f"{in_the_way}/data", "--bytes", says=[in_the_way])
    refused(site, 1, "stoker-agent", "run", "--run-dir", in_the_way, "--node", "n1", "--", "/bin/true", says=[in_the_way])
    check(open(in_the_way, encoding="utf-8").read() == "mine\n", "the file in the way was touched")
    with Unwritable(os.path.join(site.folder, "locked")) as locked:
        if locked is None:
            print("SKIPPED: no file system here refuses root a directory", flush=True)
            return
        run = run_file(site, more=f"directory: {locked.path}/run\n")
        refused(site, 2, "stoker", "check", run, says=["hello.yaml:4:12: error: directory: ", locked.path])
        site.start_daemon()
        refused(site, 2, "stoker", "run", run, says=["hello.yaml:4:12: error: directory: ", locked.path])
        nothing_was_done(site)
        refused(site, 1, "stokerd", "--state", f"{locked.path}/state", "--once", says=[locked.path, "--state"])
        refused(site, 1, "stoker-train", "prepare", text, "-o", f"{locked.path}/data", "--bytes", says=[locked.path])
        refused(site, 1, "stoker-agent", "run", "--run-dir", f"{locked.path}/run", "--node", "n1", "--", "/bin/true",
                says=[locked.path])
        train = train_file(site, prefix=prefix, more=f"checkpoint: {{directory: {locked.path}/checkpoints}}\n")
        told = refused(site, 22, "stoker-train", "--config", train, says=[f"{locked.path}/checkpoints"])
        check("iteration" not in told[0], f"found out after training: {told}")


def a_port_in_use(site):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused(site, 1, "stokerd", "--state", site.state, "--listen", address,
                says=[address, "Address already in use", "name another port"])
    for wrong in ["127.0.0.1", "127.0.0.1:99999", "127.0.0.1:http", ":9470", "no.such.host:9470"]:
        refused(site, 1, "stokerd", "--state", site.state, "--listen", wrong, says=[wrong, "127.0.0.1:9470"])
    mine = write(site, "notes.txt", "mine\n")
    refused(site, 1, "stokerd", "--state", site.state, "--listen", mine, says=[mine, "no socket"])
    check(open(mine, encoding="utf-8").read() == "mine\n", "--listen ate a file")
    page = os.path.join(site.folder, "page.sock")
    site.start_daemon("--listen", page)
    other = os.path.join(site.folder, "other")
    refused(site, 1, "stokerd", "--state", other, "--listen", page, says=[page, "listens there already"])
    refused(site, 1, "stokerd", "--state", site.state, "--once", says=[site.state, "--state"])
    site.kill_daemon()
    site.start_daemon("--listen", page)  # the socket of a killed daemon is no hindrance


def an_empty_text(site):
    write(site, "empty.txt", "")
    write(site, "blank.txt", "\n\n  \n")
    write(site, "broken.jsonl", "no json\n")
    os.mkfifo(os.path.join(site.folder, "pipe"))
    for argv, words in [(["empty.txt"], ["empty.txt", "the text is empty"]),
                        (["nope.txt"], ["nope.txt", "No such file"]), (["."], ["not a regular file"]),
                        (["pipe"], ["pipe: not a regular file"]),
                        (["broken.jsonl", "--documents", "jsonl"], ["broken.jsonl:1", "not valid JSON"]),
                        (["blank.txt", "--merges", "nope"], ["nope", "No such file"])]:
        refused(site, 1, "stoker-train", "prepare", *argv, "-o", "out", says=words)
    done = run_program("stoker-train", "prepare", "blank.txt", "-o", "out", "--documents", "paragraph", ok=False, env=site.env,
                       cwd=site.folder)
    check(done.returncode == 1 and "the text is empty" in done.stderr, f"blank text: {done.returncode} {done.stderr}")
    left = [n for n in os.listdir(site.folder) if n.startswith("out")]
    check(not left, f"a refused prepare left {left}")


def a_corrupt_index(site):
    good = site.prepare_data()
    with open(good + ".idx", "rb") as f:
        index = f.read()

    def patched(at, form, value):
        return index[:at] + struct.pack(form, value) + index[at + struct.calcsize(form):]

    cases = {"truncated": (index[:-7], "corrupt index"), "header": (index[:20], "less than the header"), "empty": (b"", "0 bytes"),
             "magic": (b"X" + index[1:], "no Megatron index"), "version": (patched(9, "<Q", 7), "version 7"),
             "type": (patched(17, "<B", 6), "token type 6"), "many": (patched(18, "<Q", 2**63 - 1), "9223372036854775807"),
             "boundaries": (patched(26, "<Q", 1 << 40), "1099511627776"), "length": (patched(34, "<i", -1), "-1 tokens"),
             "outside": (patched(34, "<i", 1 << 30), "lies outside"), "longer": (index + b"longer", "corrupt index")}
    for name, (content, word) in cases.items():
        write(site, f"{name}.idx", content)
        os.symlink(good + ".bin", os.path.join(site.folder, f"{name}.bin"))
        train = train_file(site, prefix=os.path.join(site.folder, name))
        refused(site, 22, "stoker-train", "--config", train, says=[f"{name}.idx", word])
    write(site, "short.idx", index)
    write(site, "short.bin", b"12")
    refused(site, 22, "stoker-train", "--config", train_file(site, prefix="short"), says=["short.idx", "short.bin of 2 bytes"])
    write(site, "alone.idx", index)
    refused(site, 22, "stoker-train", "--config", train_file(site, prefix="alone"), says=["alone.bin", "No such file"])
    check(not os.path.exists(os.path.join(site.folder, "checkpoints")), "a refused training left checkpoints")


def gpu_without_its_build(site):
    """train.device: cuda: what the GPU has not is said at its place; a build for the CPU says how to get one for the GPU."""
    text = write(site, "words.txt", "words for a training " * 200)
    run_program("stoker-train", "prepare", text, "-o", os.path.join(site.folder, "words"), "--bytes", env=site.env)
    for more, says in (("dtype: f64", "f64 is for the CPU"), ("numerics: portable", "portable is for the CPU"),
                       ("dtype: bf16", "train.device: cuda: this stoker-train was built without its GPU part; build it with ")):
        train = train_file(site, prefix="words")
        with open(train) as f:
            plain = f.read()
        write(site, os.path.basename(train), plain.replace("train: {samples: 160", f"train: {{samples: 160, device: cuda, {more}"))
        refused(site, 22, "stoker-train", "--config", train, says=[says])
    check(not os.path.exists(os.path.join(site.folder, "checkpoints")), "a refused training left checkpoints")


def hostile_yaml(site):
    good = "run: hello\nscheduler: {kind: local, nodes: 1}\ntrain: {command: [/bin/true]}\n"
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9))
    cases = {"deep flow": (b"a: " + b"[" * 200000, "nested"), "deep map": (b"a: " + b"{a: " * 50000, "nested deeper than 32"),
             "deep list": (b"- " * 100000, "nested deeper than 32"), "bomb": (bomb, "more than"),
             "huge": (good + "#" * (2 << 20), "larger than "), "duplicate": (good + "run: b\n", ":4:1: error: duplicate"),
             "tab": ("run: hello\nscheduler:\n\tkind: local\n", "3:6: error: illegal map value; the line is indented with a tab"),
             "nul": ("run: a\0b\n", ":1:7: error: a NUL byte"), "utf-16": (good.encode("utf-16"), "UTF-16"),
             "latin-1": (b"run: h\xe4llo\n" + good.encode(), ":1:7: error: not UTF-8"), "empty": ("", ":1:1: error: the file is empty"),
             "list": ("- a\n", "expected a map, got a list"), "quote": ('train: 1\nrun: "a\n', ":2:6: error: the quote"),
             "two": (good + "---\n" + good, "a second document"), "tag": (good + "directory: !!python/object x\n", "tags"),
             "escape": (good + 'directory: "/tmp/\\x1b[31m"\n', ":4:12: error: a control character")}
    for name, (text, word) in cases.items():
        path = write(site, f"{name}.yaml", text)
        refused(site, 2, "stoker", "check", path, says=[f"{name}.yaml", word])
        if name not in ("duplicate", "tag", "escape", "two"):  # those are good YAML: TRAIN.yaml's own keys are missing, too
            refused(site, 22, "stoker-train", "--config", path, says=[f"{name}.yaml", word])
    folder = os.path.join(site.folder, "folder.yaml")
    os.makedirs(folder)
    pipe = os.path.join(site.folder, "pipe.yaml")
    os.mkfifo(pipe)
    os.symlink("/dev/zero", os.path.join(site.folder, "zero.yaml"))
    for name in ["folder.yaml", "pipe.yaml", "zero.yaml", "nope.yaml"]:
        for code, argv in [(2, ["stoker", "check"]), (2, ["stoker", "run"]), (2, ["stoker", "plan"]),
                           (22, ["stoker-train", "--config"])]:
            refused(site, code, *argv, name, says=[name])
    write(site, "bom.yaml", b"\xef\xbb\xbf" + good.encode())
    run_program("stoker", "check", "bom.yaml", env=site.env, cwd=site.folder)


main(errors_all_at_once, batch_that_does_not_divide, commands_that_do_not_exist, directories_that_cannot_be_written,
     a_port_in_use, an_empty_text, a_corrupt_index, gpu_without_its_build, hostile_yaml)
