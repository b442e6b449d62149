"""stokerd, stoker and stoker-agent never link LibTorch, CUDA or NCCL."""
import os
import subprocess

from e2e._harness import BIN, check, main


def no_tensor_library(_site):
    for program in ("stokerd", "stoker", "stoker-agent"):
        out = subprocess.run(["ldd", os.path.join(BIN, program)], text=True, capture_output=True, check=True).stdout
        for word in ("libtorch", "libcuda", "libnccl", "libc10", "libgloo"):
            check(word not in out, f"{program} links {word}:\n{out}")


def programs_answer_version(_site):
    for program in ("stokerd", "stoker", "stoker-agent", "stoker-train"):
        done = subprocess.run([os.path.join(BIN, program), "--version"], text=True, capture_output=True, timeout=20)
        check(done.returncode == 0 and done.stdout.strip(), f"{program} --version: {done.returncode} {done.stderr}")


main(no_tensor_library, programs_answer_version)
