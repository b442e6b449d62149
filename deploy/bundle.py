#!/usr/bin/env python3
"""The relocatable bundle: stokerd, stoker and stoker-agent with their own loader and libraries.

Clusters run an older glibc than the machine that builds, so the bundle brings its own: <bundle>/lib holds ld.so and every
library that ldd names, <bundle>/libexec the programs, <bundle>/bin small static-free launchers (shell, or a C program where
there is no shell). `--prove` runs it in an empty chroot. `--train` makes a second one, with stoker-train and LibTorch.
"""
import argparse
import os
import platform
import pwd
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = ["stokerd", "stoker", "stoker-agent"]
LARGEST_MB = {"stoker": 35, "stoker-train": 300}  # of the packed bundle
TRAIN = """\
model: {layers: 2, hidden: 32, heads: 2, ffn: 64, sequence: 32, vocabulary: 257, dropout: 0.1}
data: {train: [{prefix: data, weight: 1.0}], split: [969, 30, 1], seed: 1}
batch: {micro: 1, global: 2}
train: {samples: 40, dtype: f32, clip: 1.0, seed: 1}
optimizer: {kind: adamw, beta1: 0.9, beta2: 0.95, eps: 1.0e-8, weight_decay: 0.1}
lr: {max: 1.0e-3, min: 1.0e-4, warmup_samples: 4, decay_samples: 40, style: cosine}
checkpoint: {directory: checkpoints, save: [{every: 10}]}
"""
LAUNCHER_FLAGS = ["-O2", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong", "-fPIE", "-static-pie", "-Wl,-z,relro,-z,now"]
LAUNCHER = r"""
/* Starts libexec/<own name> through the bundle's own loader: no shell, no library of the host. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char** argv) {
  char self[PATH_MAX + 64], loader[PATH_MAX + 128], library[PATH_MAX + 128], program[PATH_MAX + 512];
  ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);
  if (n < 0) {
    if (!realpath(argv[0], self)) { perror("stoker: cannot find myself (is /proc mounted?)"); return 127; }
  } else {
    self[n] = 0;
  }
  char* slash = strrchr(self, '/');
  char name[256];
  snprintf(name, sizeof name, "%s", slash + 1);
  *slash = 0;
  slash = strrchr(self, '/');
  strcpy(slash, STOKER_HOME);
  snprintf(loader, sizeof loader, "%s/lib/ld.so", self);
  snprintf(library, sizeof library, "%s/lib", self);
  snprintf(program, sizeof program, "%s/libexec/%s", self, name);
  setenv("STOKER_BUNDLE", self, 1);
  char** args = calloc((size_t)argc + 6, sizeof *args);
  int at = 0;
  args[at++] = loader;
  args[at++] = "--library-path";
  args[at++] = library;
  args[at++] = program;
  for (int i = 1; i < argc; ++i) args[at++] = argv[i];
  execv(loader, args);
  perror(loader);
  return 127;
}
"""


def libraries_of(program):
    """(name, path) of everything the loader would map, the loader itself as ld.so."""
    out = subprocess.run(["ldd", program], text=True, capture_output=True, check=True).stdout
    found = {}
    for line in out.split("\n"):
        m = re.match(r"\s*(\S+) => (/\S+)", line)
        if m:
            found[m.group(1)] = m.group(2)
        m = re.match(r"\s*(/\S*ld-linux\S*)", line)
        if m:
            found["ld.so"] = m.group(1)
    return found


def launcher(target, home=""):
    """One launcher; `home`: where lib and libexec are, from the folder above its own."""
    subprocess.run(["cc", *LAUNCHER_FLAGS, f'-DSTOKER_HOME="{home and "/" + home}"', "-x", "c", "-", "-o", target], text=True,
                   input=LAUNCHER, check=True)


def programs_in(bundle):
    return [name for name in [*PROGRAMS, "stoker-train"] if os.path.exists(os.path.join(bundle, "libexec", name))]


def make(build, bundle, programs=tuple(PROGRAMS)):
    shutil.rmtree(bundle, ignore_errors=True)
    for folder in ("bin", "lib", "libexec"):
        os.makedirs(os.path.join(bundle, folder))
    for program in programs:
        built = os.path.join(build, "bin", program)
        for name, path in libraries_of(built).items():
            shutil.copy2(os.path.realpath(path), os.path.join(bundle, "lib", name))
        shutil.copy2(built, os.path.join(bundle, "libexec", program))
        subprocess.run(["strip", os.path.join(bundle, "libexec", program)], check=True)
        launcher(os.path.join(bundle, "bin", program))
    size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(bundle) for f in fs)
    print(f"bundle: {bundle} ({size / 1e6:.0f} MB)")
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as f:
        if "STOKER_HARDEN:BOOL=ON" not in f.read():
            print("bundle: of a build without STOKER_HARDEN; for a cluster: ./dev build --preset release --bundle")


def kind_of(bundle):
    return "stoker-train" if "stoker-train" in programs_in(bundle) else "stoker"


def packed_name(bundle):
    said = subprocess.run([os.path.join(bundle, "bin", "stoker"), "--version"], text=True, capture_output=True, check=True)
    return f"{kind_of(bundle)}-{said.stdout.split()[-1]}-linux-{platform.machine()}"


def pack(bundle):
    """The bundle as one file, in a folder of its own name; 1 when it is too large."""
    kind, name = kind_of(bundle), packed_name(bundle)
    target = os.path.join(os.path.dirname(bundle), name + ".tar.zst")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(bundle)) as folder:
        shutil.copytree(bundle, os.path.join(folder, name))
        settled = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]
        with open(target, "wb") as out:
            tar = subprocess.Popen(["tar", "-C", folder, *settled, "-c", name], stdout=subprocess.PIPE)
            packed = subprocess.run(["zstd", "-q", "-12", "-c"], stdin=tar.stdout, stdout=out)
            tar.stdout.close()
            if tar.wait() != 0 or packed.returncode != 0:
                print("bundle: tar or zstd failed")
                return 1
    size = os.path.getsize(target) / 1e6
    print(f"bundle: {target} ({size:.1f} MB, at most {LARGEST_MB[kind]})")
    return 0 if size <= LARGEST_MB[kind] else 1


def self_test(bundle):
    """`stoker self-test` on this host, by another user: a copy in a folder that this user can read and not write."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        copy = os.path.join(folder, "stoker")
        shutil.copytree(bundle, copy)
        scratch = os.path.join(folder, "scratch")
        os.mkdir(scratch)
        nobody = pwd.getpwnam("nobody")
        os.chown(scratch, nobody.pw_uid, nobody.pw_gid)
        before = listing(copy)
        run = subprocess.run([os.path.join(copy, "bin", "stoker"), "self-test", "--directory", scratch], text=True,
                             capture_output=True, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], cwd=scratch,
                             env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}, timeout=300)
        print(run.stdout + run.stderr, end="")
        left = os.listdir(scratch)
        if left:
            print(f"the self-test left {left}")
        if run.returncode != 0 or left or listing(copy) != before:
            return 1
        return trains(copy, scratch, nobody) if "stoker-train" in programs_in(copy) else 0


def trains(bundle, folder, user):
    """Twenty iterations of the training core, with this bundle's LibTorch, as this user."""
    for name, text in (("text", "".join(f"Line {i}: {i * 7919 % 1009} shovels.\n" for i in range(2000))), ("train.yaml", TRAIN)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    for words in (["prepare", "text", "-o", "data", "--bytes"], ["--config", "train.yaml"]):
        run = subprocess.run([os.path.join(bundle, "bin", "stoker-train"), *words], text=True, capture_output=True, user=user.pw_uid,
                             group=user.pw_gid, extra_groups=[], cwd=folder, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}, timeout=300)
        print((run.stdout + run.stderr)[-400:], end="")
        if run.returncode != 0:
            print(f"stoker-train {words[0]}: exit {run.returncode}")
            return 1
    saved = sorted(os.listdir(os.path.join(folder, "checkpoints")))
    print(f"stoker-train: trained and saved {', '.join(saved)}")
    return 0 if any("20" in name for name in saved) else 1


def listing(folder):
    return sorted(os.path.join(d, f) for d, _, fs in os.walk(folder) for f in fs)


def prove(bundle):
    """Runs every program in a chroot that holds nothing but the bundle."""
    with tempfile.TemporaryDirectory() as root:
        shutil.copytree(bundle, os.path.join(root, "stoker"))
        os.makedirs(os.path.join(root, "state"))
        for program in programs_in(bundle):
            run = subprocess.run(["chroot", root, f"/stoker/bin/{program}", "--version"], text=True,
                                 capture_output=True)
            if run.returncode != 0:
                print(f"{program}: exit {run.returncode}: {run.stderr.strip()}")
                return 1
            print(f"{program}: {run.stdout.strip()}")
        run = subprocess.run(["chroot", root, "/stoker/bin/stoker", "--state", "/state", "status", "--json"],
                             text=True, capture_output=True)
        print(f"stoker status --json: {run.stdout.strip()}")
        if run.returncode != 0 or run.stdout.strip() != "[]":
            return 1
    return self_test(bundle)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--prove", action="store_true", help="run the bundle in an empty chroot (needs root)")
    parser.add_argument("--pack", action="store_true", help="also write it as one .tar.zst")
    parser.add_argument("--train", action="store_true", help="with stoker-train and LibTorch")
    options = parser.parse_args()
    bundle = os.path.join(options.build, "bundle-train" if options.train else "bundle")
    if options.prove:
        return prove(bundle)
    make(options.build, bundle, PROGRAMS + ["stoker-train"] * options.train)
    return pack(bundle) if options.pack else 0


if __name__ == "__main__":
    sys.exit(main())
