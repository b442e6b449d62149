#!/usr/bin/env python3
"""Writes sample_index_goldens.txt: Megatron's index arrays for small cases, made with real numpy.

An independent implementation of megatron/core/datasets/gpt_dataset.py (python builders, no C++ helper).
Run it with a python that has numpy; the result is committed, so the tests need none.
Each case: a line `case samples=.. sequence=.. seed=.. threshold=..`, `lengths ..`, then the arrays.
"""
import pathlib
import sys

import numpy as np


def build(lengths, samples, sequence, seed, threshold):
    tokens = int(sum(lengths))
    epochs = 1
    while epochs * tokens < samples * sequence + 1:
        epochs += 1
    separate = False
    before = 0
    if epochs > 1:
        before = ((epochs - 1) * tokens - 1) // sequence
        separate = samples - before < int(threshold * ((tokens - 1) // sequence))
    random = np.random.RandomState(seed)

    def documents(n):
        index = np.mgrid[0:n, 0 : len(lengths)][1].reshape(-1).astype(np.int32)
        random.shuffle(index)
        return index

    if separate:
        first = documents(epochs - 1)
        order = np.concatenate((first, documents(1)))
    else:
        order = documents(epochs)
    total = (epochs * tokens - 1) // sequence
    stream = np.concatenate([np.stack([np.full(lengths[d], i), np.arange(lengths[d])], 1)
                             for i, d in enumerate(order)])
    pairs = [(0, 0)] + [tuple(int(x) for x in stream[k * sequence]) for k in range(1, total + 1)]
    part = before if separate else total
    first = np.arange(part, dtype=np.uint32)
    random.shuffle(first)
    last = np.arange(part, total, dtype=np.uint32)
    if part < total:
        random.shuffle(last)
    return order, pairs, np.concatenate((first, last)), separate


def main():
    out = []
    random = np.random.RandomState(7)
    small = [int(x) for x in random.randint(1, 30, size=11)]
    odd = [1, 1, 40, 2, 1, 17, 5]
    epoch = (sum(small) - 1) // 16
    # An eighth of the second epoch stays unused: the two thresholds disagree.
    between = (sum(small) - 1) // 7 * 2 - (sum(small) - 1) // 7 // 8
    cases = [
        (small, between, 7, 1234, 0.80), (small, between, 7, 1234, 0.95), (small, 2 * epoch, 16, 8, 0.95),
        (small, 8, 16, 1234, 0.80), (small, 13, 16, 1234, 0.80), (small, 19, 16, 1234, 0.80),
        (small, 19, 16, 1234, 0.95), (small, 30, 16, 42, 0.80), (small, 31, 7, 5, 0.95),
        (odd, 40, 4, 1234, 0.80), (odd, 30, 4, 99, 0.95), (odd, 3, 64, 1, 0.80), ([9], 12, 3, 3, 0.95),
    ]
    for lengths, samples, sequence, seed, threshold in cases:
        order, pairs, shuffle, separate = build(lengths, samples, sequence, seed, threshold)
        out.append(f"case samples={samples} sequence={sequence} seed={seed} threshold={threshold} "
                   f"separate={int(separate)}")
        out.append("lengths " + " ".join(map(str, lengths)))
        out.append("documents " + " ".join(map(str, order)))
        out.append("samples " + " ".join(f"{a} {b}" for a, b in pairs))
        out.append("shuffle " + " ".join(map(str, shuffle)))
    path = pathlib.Path(__file__).with_name("sample_index_goldens.txt")
    path.write_text("\n".join(out) + "\n")
    print(sum(line.startswith("case") for line in out), "cases", file=sys.stderr)


main()
