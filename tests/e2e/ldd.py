"""stokerd, stoker and stoker-agent never link LibTorch; no program of the CPU build links CUDA, NCCL or NVML."""
import os
import subprocess

from e2e._harness import BIN, check, main


def no_tensor_library(_site):
    for program in ("stokerd", "stoker", "stoker-agent"):
        out = subprocess.run(["ldd", os.path.join(BIN, program)], text=True, capture_output=True, check=True).stdout
        for word in ("libtorch", "libcuda", "libnccl", "libc10", "libgloo"):
            check(word not in out, f"{program} links {word}:\n{out}")


def no_gpu_library(_site):
    """Of all that was built, the training core and the tests too: a node without CUDA starts every program."""
    programs = [os.path.join(BIN, name) for name in sorted(os.listdir(BIN))]
    programs = [p for p in programs if os.path.isfile(p) and os.access(p, os.X_OK)]
    check(any(p.endswith("/stokerd") for p in programs), f"no programs in {BIN}")
    for program in programs:
        done = subprocess.run(["ldd", program], text=True, capture_output=True)
        for word in ("libcuda", "libcublas", "libnccl", "libnvidia", "libnvrtc"):
            check(word not in done.stdout, f"{program} links {word}:\n{done.stdout}")


def cuda_preset_names_what_is_missing(_site):
    dev = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "dev"))
    cases = [({"CUDACXX": "/nonexistent/nvcc"}, "nvcc is missing (looked for /nonexistent/nvcc)"),
             ({"CUDACXX": "/bin/true", "STOKER_LIBTORCH": "/nonexistent"}, "/nonexistent has no lib/libtorch_cuda.so")]
    for environment, words in cases:
        done = subprocess.run([dev, "build", "--preset", "cuda"], env=dict(os.environ, **environment), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        said = done.stderr.strip().split("\n")
        check(done.returncode == 1 and len(said) == 1 and words in said[0],
              f"exit {done.returncode}: {done.stdout}{done.stderr}")


def programs_answer_version(_site):
    for program in ("stokerd", "stoker", "stoker-agent", "stoker-train"):
        done = subprocess.run([os.path.join(BIN, program), "--version"], text=True, capture_output=True, timeout=20)
        check(done.returncode == 0 and done.stdout.strip(), f"{program} --version: {done.returncode} {done.stderr}")


main(no_tensor_library, no_gpu_library, cuda_preset_names_what_is_missing, programs_answer_version)
