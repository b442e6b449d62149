"""The kernels of the node bench's burn, which a node's driver compiles: ptxas takes them for the oldest card they are for and for
newer ones, without spilling a register. Where ptxas is not, it is skipped."""
import os
import shutil
import subprocess
import tempfile

from e2e._harness import check, main, skip

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "worker", "agent", "gpu")
KERNELS = {"burn_bf16.ptx": ("sm_80", "sm_90", "sm_100"), "burn_f32.ptx": ("sm_75", "sm_90")}


def kernels_assemble(site):
    ptxas = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.access(ptxas, os.X_OK):
        skip("ptxas, the assembler of nvcc, is not here")
    check(set(KERNELS) == {n for n in os.listdir(FOLDER) if n.endswith(".ptx")}, "a kernel that is not tried here")
    for name, cards in KERNELS.items():
        for card in cards:
            with tempfile.NamedTemporaryFile(dir=site.folder) as out:
                done = subprocess.run([ptxas, "-v", "-arch", card, os.path.join(FOLDER, name), "-o", out.name],
                                      text=True, capture_output=True, timeout=60)
            check(done.returncode == 0, f"{name} for {card}: {done.stderr}")
            check("0 bytes spill stores" in done.stderr or "spill" not in done.stderr, f"{name} for {card} spills: {done.stderr}")


main(kernels_assemble)
