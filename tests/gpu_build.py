"""./dev test --only cuda: the preset cuda links, and the trainer's tests pass on its LibTorch, on the CPU. 0.6 GB are fetched
once; where nvcc is not, it is skipped."""
import os
import shutil


def gpu_build(tally, options, command, ctest):
    """`command` and `ctest` are run.py's."""
    if not options.long and not options.only:
        return None
    print("\n==> the GPU's build: nvcc, PyPI's LibTorch; the trainer's tests on it", flush=True)
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.access(nvcc, os.X_OK):
        return tally.add("build: cuda", "skipped", "nvcc, the GPU's compiler, is not here")
    good = command(["./dev", "build", "--preset", "cuda", "--werror"]) == 0
    tally.add("build: cuda, warnings are errors", "passed" if good else "failed")
    return ctest(tally, "build-cuda", prefix="cuda: ", select="^train_torch:") if good else None
