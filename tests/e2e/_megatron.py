"""What megatron_data.py asks the real library: run by the python of a virtual environment with megatron-core and torch.

Reads a JSON document on stdin: the data sets, how they are blended and asked for, and the samples that stoker-train drew. The library
opens the same files, makes its own index arrays and draws the same samples; each difference ends the program.
"""
import glob
import json
import logging
import os
import sys
import warnings

warnings.filterwarnings("ignore")  # about accelerators that are not here
logging.disable(logging.WARNING)
import megatron.core
import numpy
import torch
from megatron.core.datasets.blended_dataset import BlendedDataset
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder


class Tokenizer:
    """What GPTDataset asks a tokenizer for."""
    eod, pad, vocab_size = 256, 255, 257
    unique_identifiers = {"class": "bytes"}


def need(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def read_and_write(prefix):
    """The library reads our data set, and writes the same bytes."""
    data = IndexedDataset(prefix)
    builder = IndexedDatasetBuilder(prefix + ".again.bin", dtype=data.index.dtype)
    for i in range(len(data)):
        builder.add_document(torch.from_numpy(data[i].astype(numpy.int64)), [len(data[i])])
    builder.finalize(prefix + ".again.idx")
    for end in (".idx", ".bin"):
        need(open(prefix + end, "rb").read() == open(prefix + ".again" + end, "rb").read(), f"{prefix}{end}: the library writes others")
    return len(data)


def our_arrays(cache, prefix, first, end, samples):
    """The arrays that stoker-train cached for these documents; the number of samples that it asked for is in the description."""
    found = {}
    for path in glob.glob(os.path.join(cache, "*-description.txt")):
        about = json.loads(open(path).readline())
        if about["class"] == "GPTDataset" and about["prefix"] == prefix and about["documents"] == [first, end]:
            found[about["num_samples"]] = path.removesuffix("-description.txt")
    need(samples in found, f"{prefix} [{first}, {end}): the library asks for {samples} samples, stoker-train for {sorted(found)}")
    return {kind: numpy.load(f"{found[samples]}-{kind}_index.npy") for kind in ("document", "sample", "shuffle")}


def compare_arrays(ask, part):
    """Each of the three index arrays of one data set's split."""
    indices = part.indices
    ours = our_arrays(ask["cache"], part.dataset.path_prefix, int(indices[0]), int(indices[-1]) + 1, part.num_samples)
    for kind, theirs in (("document", part.document_index), ("sample", part.sample_index), ("shuffle", part.shuffle_index)):
        need(numpy.array_equal(ours[kind].reshape(-1), theirs.reshape(-1)), f"{kind}_index of {part.dataset.path_prefix} differs")
    return len(part.shuffle_index)


def main():
    ask = json.load(sys.stdin)
    documents = sum(read_and_write(prefix) for prefix in ask["prefixes"])
    config = GPTDatasetConfig(random_seed=ask["seed"], sequence_length=ask["sequence"], blend=(ask["prefixes"], ask["weights"]),
                              split=",".join(str(x) for x in ask["split"]), path_to_cache=None, tokenizer=Tokenizer(),
                              reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False)
    built = BlendedMegatronDatasetBuilder(GPTDataset, ask["sizes"], lambda: True, config).build()[0]
    parts = built.datasets if isinstance(built, BlendedDataset) else [built]
    entries = [compare_arrays(ask, part) for part in parts]
    for sample in ask["samples"]:
        theirs = built[sample["id"]]
        tokens = [*theirs["tokens"].tolist(), int(theirs["labels"][-1])]
        text = "".join("<|endoftext|>" if t == Tokenizer.eod else chr(t) for t in tokens)
        need(text == sample["text"], f"sample {sample['id']}: {text!r}, stoker-train drew {sample['text']!r}")
        if len(parts) > 1:
            need(int(theirs["dataset_id"]) == sample["source"], f"sample {sample['id']} is of another data set")
    print(f"megatron-core {megatron.core.__version__}: {documents} documents written alike, index arrays of {entries} samples equal, "
          f"{len(ask['samples'])} samples drawn alike")


main()
