#!/usr/bin/env python3
"""Portable numerics: nodes with different CPUs give the same bits, and a checkpoint of one resumes bitwise on the other.

The other CPU is played by the variables that its users set: the tensor libraries then take the code of an older one.
"""
import sys

from _train import Training, check, run_test

OLDER_CPU = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Prescott"}


def digests(numerics, **environment):
    """What a training gives, and the settings that its manifest records."""
    training = Training(dtype=f"f32, numerics: {numerics}", samples=120)
    try:
        training.run(1, **environment)
        saved = [training.inspect(name) for name in training.checkpoints()]
        check(len(saved) >= 2, f"only {len(saved)} checkpoints")
        return [s["digest"] for s in saved], saved[-1]["numerics"]
    finally:
        training.remove()


def resumed_elsewhere():
    training = Training(dtype="f32, numerics: portable", samples=120, more="exit: {iteration: 8}")
    try:
        training.run(1, expect=12)
        training.configure(dtype="f32, numerics: portable", samples=120)
        training.run(1, **OLDER_CPU)
        check("guarantee: bitwise" in training.log(), "resumed on the other CPU, but not bitwise:\n" + training.log()[-800:])
        return training.inspect(training.checkpoints()[-1])["digest"]
    finally:
        training.remove()


def portable_is_identical():
    here, there = digests("native"), digests("native", **OLDER_CPU)
    check(here[1] != there[1] and here[0] != there[0], "the older CPU's code gives the same bits: this test shows nothing")
    here, there = digests("portable"), digests("portable", **OLDER_CPU)
    check(here == there, f"portable, yet different: {here} and {there}")
    check(resumed_elsewhere() == here[0][-1], "resumed on the other CPU, the last checkpoint differs")
    print(f"identical with {here[1]}")


if not {"avx2", "fma"} <= set(open("/proc/cpuinfo").read().split()):
    print("SKIPPED: this CPU has no AVX2 or no FMA")
    sys.exit(77)
run_test(portable_is_identical)
