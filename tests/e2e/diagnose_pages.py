"""What `stoker diagnose` shows: README's transcript is what the program says, the page for a browser is complete in itself, and
input that is no good log is reported in one line while the rest is diagnosed."""
import gzip
import html.parser
import json
import lzma
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

from e2e._harness import BIN, check, main, run_program

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
# A captured log (SLURM with PMIx; the host ran out of memory).
CAPTURED = """\
srun: error: cna1632: task 27: Out Of Memory
slurmstepd: error:  mpi/pmix_v4: _errhandler: cna1632 [0]: pmixp_client_v2.c:212: Error handler invoked: status = -61, \
source = [slurm.pmix.636184.2:27]
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd: error: *** STEP 636184.2 ON cna1632 CANCELLED AT 2025-11-07T11:19:15 ***
"""
OUT_OF_MEMORY = ("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has\n"
                 "srun: error: n04: task 3: Exited with exit code 1\n")


def words(text):
    return " ".join(text.split())


def write(site, name, content):
    path = os.path.join(site.folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())
    return path


def readme_says_what_is_said(site):
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        blocks = re.findall(r"```\n\$ (stoker diagnose [^\n]*)\n(.*?)```", f.read(), re.S)
    check(len(blocks) == 1, f"README shows {len(blocks)} transcripts of stoker diagnose")
    command, shown = blocks[0]
    write(site, "main.log", CAPTURED)
    said = run_program(*command.split(), env=site.env, cwd=site.folder).stdout
    check(words(said) == words(shown), f"README shows\n{shown}\nand the program says\n{said}")
    first = [line.split(" ")[0] for line in shown.splitlines() if line and not line.startswith(" ")]
    check(first == [line.split(" ")[0] for line in said.splitlines() if line and not line.startswith(" ")], "other sections")


class Page(html.parser.HTMLParser):
    VOID = {"meta", "br", "hr", "img", "link", "input"}

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text, self.wrong = [], [], [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text += data


def page_of(site, *files):
    path = os.path.join(site.folder, "cause.html")
    run_program("stoker", "diagnose", *files, "--html", path, env=site.env)
    with open(path, encoding="utf-8") as f:
        return f.read()


def page_for_a_browser(site):
    forged = ("<script>alert(1)</script><img src=x onerror=alert(2)> \"'&amp; </title></style><svg/onload=alert(3)> "
              "http://evil.example/x \x1b[2J")
    main_log = write(site, "logs/ranks/3.log", f"[2026-05-01 10:00:00] [rank3]: torch.OutOfMemoryError: CUDA out of memory. {forged}\n")
    write(site, "logs/ranks/4.log", "[2026-05-01 10:00:00] start\n[2026-05-01 10:30:00] [rank4]:[E] Watchdog caught collective "
                                    f"operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600001 ms {forged}\n")
    write(site, "logs/<b>x.log", "[2026-05-01 10:05:00] nothing\n[2026-05-01 10:06:00] nothing\n")
    text = page_of(site, os.path.dirname(os.path.dirname(main_log)))
    page = Page(text)
    check(not page.wrong and not page.open, f"tags that do not close: {page.wrong} {page.open}")
    check(not {"script", "img", "link", "iframe", "object", "base", "b"} - {"b"} & set(page.tags), f"tags: {set(page.tags)}")
    for tag, name, value in page.attributes:
        check(not name.startswith("on") and name not in ("src", "href", "xlink:href", "srcset", "action", "data"),
              f"an attribute that acts: {tag} {name}={value}")
        check("url(" not in value and "javascript:" not in value, f"{tag} {name}={value}")
    style = re.search(r"<style>(.*?)</style>", text, re.S).group(1)
    check("url(" not in style and "@import" not in style, f"the style fetches: {style}")
    shown_links = re.sub(r"http://evil\.example/x", "", text)
    check("http://" not in shown_links and "https://" not in shown_links, "a link that is not the log's own text")
    check("<script>alert(1)</script>" in page.text and "<script" not in text.replace("&lt;script", ""), "log text is not escaped")
    check("\x1b" not in text, "a control character")
    check("cuda_oom" in page.text and "CUDA out of memory" in page.text, "no cause on the page")
    svg = ElementTree.fromstring(re.search(r"<svg .*?</svg>", text, re.S).group(0))  # well-formed, or this raises
    rows = [t.text for t in svg.findall("text")]
    check("rank 3" in rows and "rank 4" in rows and any("x.log" in t for t in rows), f"rows of the timeline: {rows}")
    check(rows[-2:] == ["2026-05-01T10:00:00Z", "2026-05-01T10:30:00Z"], f"its axis: {rows[-2:]}")
    width = float(svg.get("width"))
    for mark in [*svg.iter("rect"), *svg.iter("circle")]:
        right = float(mark.get("x", mark.get("cx"))) + float(mark.get("width", 0))
        check(0 <= right <= width, f"a mark outside: {mark.attrib}")
    marks = [c.find("title").text for c in svg.iter("circle")]
    check(any("cuda_oom" in m for m in marks) and any("nccl_timeout" in m for m in marks), f"marks: {marks}")
    healthy = Page(page_of(site, write(site, "good.log", "iteration 1/ 2 | lm loss: 2.0 |\n")))
    check("healthy" in healthy.text and not healthy.wrong, "a page of a good log")


def zst(data):
    """A frame of raw blocks."""
    return (b"\x28\xb5\x2f\xfd\xa0" + len(data).to_bytes(4, "little") +
            ((len(data) << 3) | 1).to_bytes(3, "little") + data)


def diagnosed(site, *files, code=0):
    done = run_program("stoker", "diagnose", "--json", *files, ok=False, env=site.env, limit=60)
    check(done.returncode == code, f"{files}: exit {done.returncode} {done.stderr}")
    return json.loads(done.stdout), done.stderr.splitlines()


def packed_and_torn(site):
    text = ("filler\n" * 20_000 + OUT_OF_MEMORY).encode()
    for name, data in [("a.gz", gzip.compress(text)), ("a.xz", lzma.compress(text)), ("a.zst", zst(text[-60_000:]))]:
        found, said = diagnosed(site, write(site, name, data))
        check(found["class"] == "cuda_oom" and not said and not any("unpacking" in n for n in found.get("notes", [])), f"{name}: {found}")
    good = write(site, "main.log", OUT_OF_MEMORY)
    # The failure comes first, so that the readable part shows it.
    text = (OUT_OF_MEMORY + "".join(f"{i * 7919 % 100_003} filler\n" for i in range(30_000))).encode()
    for name, data in [("torn.gz", gzip.compress(text)), ("torn.xz", lzma.compress(text)), ("torn.zst", zst(text[:100_000]))]:
        path = write(site, name, data[:len(data) // 2])
        found, _ = diagnosed(site, path, good)
        notes = [n for n in found["notes"] if f"{name}: truncated" in n]
        check(found["class"] == "cuda_oom" and len(notes) == 1, f"{name}: {found['notes']}")
    # Of gzip nothing that is intact is lost: the failure stands in the last line.
    last = write(site, "last.gz", gzip.compress(("filler\n" * 20_000 + OUT_OF_MEMORY).encode())[:-8])
    found, _ = diagnosed(site, last)
    check(found["class"] == "cuda_oom" and len(found["notes"]) == 1, f"last.gz: {found}")
    found, _ = diagnosed(site, write(site, "magic.gz", b"\x1f\x8b"), good)
    check(found["class"] == "cuda_oom" and any("magic.gz" in n for n in found["notes"]), f"{found['notes']}")


def what_is_no_log(site):
    good = write(site, "logs/main.log", OUT_OF_MEMORY)
    folder = os.path.dirname(good)
    os.symlink(folder, os.path.join(folder, "loop"))
    os.symlink("b", os.path.join(site.folder, "a"))
    os.symlink("a", os.path.join(site.folder, "b"))
    os.mkfifo(os.path.join(folder, "fifo"))
    found, said = diagnosed(site, folder)
    check(found["class"] == "cuda_oom" and not said, f"a folder with a loop and a FIFO: {said}")
    for path, word in [(os.path.join(site.folder, "a"), "symbolic links"), (os.path.join(folder, "fifo"), "no regular file"),
                       (os.path.join(site.folder, "gone"), "no such file"), ("/proc/self/mem", "cannot read"),
                       (os.path.join(site.folder, "x" * 5000), "no such file"), ("/dev/zero", "no regular file")]:
        found, said = diagnosed(site, path, good, code=1)
        check(found["class"] == "cuda_oom", f"{path}: the rest is not diagnosed: {found}")
        check(len(said) == 1 and word in said[0] and said[0].startswith("stoker: "), f"{path}: {said}")
    found, said = diagnosed(site, write(site, "core", bytes(range(256)) * 4 + bytes(4000)), good)
    check(found["class"] == "cuda_oom" and any("binary" in n for n in found["notes"]), f"binary: {found['notes']}")
    hole = write(site, "hole.log", bytes(100_000) + b"\n" + OUT_OF_MEMORY.encode())
    check(diagnosed(site, hole)[0]["class"] == "cuda_oom", "a hole of NUL bytes hides a failure")
    closed = write(site, "closed.log", OUT_OF_MEMORY)
    os.chmod(closed, 0)
    os.chmod(site.folder, 0o755)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}  # root may read everything
    argv = [os.path.join(BIN, "stoker"), "diagnose", "--json", closed, good]
    try:
        done = subprocess.run(argv, env=dict(site.env, HOME="/nonexistent"), text=True, capture_output=True, timeout=60, check=False,
                              **nobody)
    except PermissionError:
        print("SKIPPED: this folder is closed to others, and root may read everything", flush=True)
        return
    check(done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "ermission" in done.stderr, f"unreadable: {done.stderr}")
    check(json.loads(done.stdout)["class"] == "cuda_oom", "unreadable: the rest is not diagnosed")


def bytes_of_all_kinds(site):
    path = write(site, "mixed.log", b"caf\xe9 \xff\xfe \xe2\x82\n" + "größe 大\r\n".encode() +
                 b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. \xe9\xff\x1b[31m\n")
    found, _ = diagnosed(site, path)
    check(found["class"] == "cuda_oom" and found["root"]["line"] == 3 and found["ranks"] == [3], f"{found}")
    page = run_program("stoker", "diagnose", path, env=site.env).stdout
    check("\x1b" not in page and "CAUSE" in page, page)


def clocks(site):
    crash = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has\n"
    xid = "NVRM: Xid (PCI:0000:cb:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"
    back = write(site, "back.log", f"[2026-05-01 12:00:00] start\n[2026-05-01 09:00:00] {crash}[2026-05-01 09:00:01] end\n")
    found, _ = diagnosed(site, back)
    check(found["class"] == "cuda_oom" and any("jumps back by 3h" in n or "jumps back by 2h" in n for n in found["notes"]), f"{found['notes']}")
    timed = write(site, "main.log", f"[2026-05-01 12:00:00] start\n[2026-05-01 12:10:00] {crash}")
    yearless = write(site, "dmesg-n03.txt", f"May  1 12:09:59 n03 kernel: {xid}")
    found, _ = diagnosed(site, timed, "--kernel-log", yearless)
    check(found["class"] == "gpu_fallen_off_bus" and any("with a year" in n for n in found["notes"]), f"{found['class']} {found['notes']}")
    # The same moment, in two zones: the GPU was first.
    east = write(site, "east.log", f"2026-05-01T20:00:00+08:00 start\n2026-05-01T20:10:00+08:00 {crash}")
    utc = write(site, "kern-n03.log", f"2026-05-01T12:09:58,000000+00:00 boot\nkern  :warn  : 2026-05-01T12:09:59,000000+00:00 {xid}")
    found, _ = diagnosed(site, east, "--kernel-log", utc)
    check(found["class"] == "gpu_fallen_off_bus" and not any("apart" in n for n in found["notes"]), f"{found['class']} {found['notes']}")
    local = write(site, "local.log", f"[2026-05-01 20:00:00] start\n[2026-05-01 20:10:00] {crash}")
    found, _ = diagnosed(site, local, "--kernel-log", utc)
    check(any("another time zone" in n for n in found["notes"]), f"{found['notes']}")


main(readme_says_what_is_said, page_for_a_browser, packed_and_torn, what_is_no_log, bytes_of_all_kinds, clocks)
