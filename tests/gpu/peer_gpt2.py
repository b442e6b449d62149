"""A GPT-2 in plain PyTorch, to be timed beside stoker-train (tests/gpu/speed.py): the same sizes, batch and sequence; bf16 by
autocast with f32 parameters, PyTorch's attention, fused AdamW, clipping. peer_gpt2.py SIZES.json, which also says
whether the model is compiled; the last line is JSON."""
import json
import statistics
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.mlp_in, self.mlp_out = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(b, s, h)), self.dropout)
        return x + F.dropout(self.mlp_out(F.gelu(self.mlp_in(self.norm2(x)), approximate="tanh")), self.dropout)


class Gpt2(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.word = nn.Embedding(c["vocabulary"], c["hidden"])
        self.position = nn.Embedding(c["sequence"], c["hidden"])
        self.dropout = c["dropout"]
        self.blocks = nn.ModuleList(Block(c["hidden"], c["heads"], c["dropout"]) for _ in range(c["layers"]))
        self.norm = nn.LayerNorm(c["hidden"])
        nn.init.normal_(self.word.weight, std=0.02)

    def forward(self, tokens, labels):
        x = F.dropout(self.word(tokens) + self.position.weight[: tokens.size(1)], self.dropout)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.word.weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1))


def main():
    with open(sys.argv[1]) as f:
        c = json.load(f)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Gpt2(c).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    step_of = torch.compile(model) if c["compile"] else model
    tokens = torch.randint(0, c["tokens_below"], (c["batch"], c["sequence"] + 1), device="cuda")
    times = []
    began = time.monotonic()
    for i in range(c["steps"]):
        start = time.monotonic()
        with torch.autocast("cuda", torch.bfloat16):
            loss = step_of(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        torch.cuda.synchronize()
        times.append(time.monotonic() - start)
        if i == 0:
            first = time.monotonic() - began
    step = statistics.median(times[c["warm"]:])
    print(json.dumps({"step_s": round(step, 5), "tokens_s": round(c["batch"] * c["sequence"] / step),
                      "first_step_s": round(first, 1), "peak_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2),
                      "loss": round(value, 4)}))


main()
