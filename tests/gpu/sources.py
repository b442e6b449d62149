"""tests/gpu/sources.py: the digest of what computes on a GPU. Results carry it, so that lint sees whether they are of today's
sources."""
import glob
import hashlib
import os

PATTERNS = ("kernels/*.cu", "kernels/*.hpp", "worker/train/device/*", "worker/train/nccl/*", "worker/train/comm/nccl_*",
            "worker/train/torch/*")


def digest(root):
    whole = hashlib.sha256()
    for name in sorted(os.path.relpath(p, root) for pattern in PATTERNS for p in glob.glob(os.path.join(root, pattern))):
        with open(os.path.join(root, name), "rb") as f:
            whole.update(name.encode() + b"\0" + f.read() + b"\0")
    return whole.hexdigest()


if __name__ == "__main__":
    print(digest(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")))
