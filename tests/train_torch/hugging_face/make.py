#!/usr/bin/env python3
"""Makes the fixture of hugging_face_test.cpp with the real library: a tiny GPT-2, its logits, loss and greedy tokens.

Run once in a virtual environment with torch and transformers; the folder is committed.
"""
import json
import os

import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    torch.manual_seed(20)
    config = transformers.GPT2Config(vocab_size=61, n_positions=12, n_embd=16, n_layer=2, n_head=4, n_inner=40, initializer_range=0.4,
                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=60, eos_token_id=60)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms that are not zeros and ones
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
        tokens = torch.randint(0, 60, (1, 12))
        out = model(tokens, labels=tokens)
        greedy = tokens[:, :4]
        for _ in range(8):
            greedy = torch.cat([greedy, model(greedy).logits[:, -1:].argmax(-1)], 1)
    model.save_pretrained(HERE)
    with open(os.path.join(HERE, "expected.json"), "w") as file:
        json.dump({"transformers": transformers.__version__, "tokens": tokens[0].tolist(), "loss": float(out.loss),
                   "logits": out.logits[0].tolist(), "greedy": greedy[0].tolist()}, file)


main()
