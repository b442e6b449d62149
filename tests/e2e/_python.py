"""The Python package as the wheel installs it, and a Python that has the libraries of others (python_package.py, recipes.py,
tensorboard_files.py)."""
import functools
import os
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "deploy"))
import wheel
from kept import python_with

DEBIAN = "/usr/bin/python3"
LIBRARIES = ["torch==2.2.2", "numpy<2", "transformers==4.40.2", "accelerate==0.30.1", "lightning==2.2.5",
             "jax[cpu]==0.4.38", "orbax-checkpoint==0.5.20", "deepspeed==0.14.4", "ninja", "tensorboard==2.20.0"]


def package(folder):
    """The package as the wheel installs it."""
    for name, path in wheel.package_files().items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        shutil.copy(path, os.path.join(folder, name))
    return folder


@functools.cache
def torch_python():
    """The Python that has the libraries: with --long one that is made when it is missing, else Debian's, whose python3-torch is
    small beside PyPI's."""
    named = os.environ.get("STOKER_TORCH_PYTHON")
    if named or not os.environ.get("STOKER_LONG"):
        return named or (DEBIAN if os.path.exists(DEBIAN) else sys.executable)
    return python_with("torch-python", LIBRARIES) or sys.executable


def has(*modules):
    """Whether that Python has all of these."""
    path = dict(os.environ, PYTHONPATH=os.environ.get("STOKER_TORCH_PATH", ""))
    if subprocess.run([torch_python(), "-c", f"import {', '.join(modules)}"], env=path, capture_output=True).returncode == 0:
        return True
    print(f"not tested: {torch_python()} has no {' or '.join(modules)} (STOKER_TORCH_PYTHON names a Python that has)", flush=True)
    return False
