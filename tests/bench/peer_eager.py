"""The training core's model in PyTorch eager: pre-LN GPT, learned positions, tanh GELU, tied embedding, AdamW, clip 1.0."""
import json
import math
import sys
import time

import torch
import torch.nn.functional as F

shape = json.loads(sys.argv[1])
L, H, FF, T, B, V = (*(shape[k] for k in ("layers", "hidden", "ffn", "sequence", "micro")), 257)
HEADS, P = 2, 0.1
torch.set_num_threads(2)
torch.manual_seed(1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(H), torch.nn.LayerNorm(H)
        self.qkv, self.out = torch.nn.Linear(H, 3 * H), torch.nn.Linear(H, H)
        self.up, self.down = torch.nn.Linear(H, FF), torch.nn.Linear(FF, H)

    def forward(self, x, mask):
        q, k, v = (t.view(B, T, HEADS, H // HEADS).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(H, dim=2))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(H // HEADS)
        weights = F.dropout(F.softmax(scores.masked_fill(mask, float("-inf")), dim=-1), P)
        x = x + F.dropout(self.out((weights @ v).transpose(1, 2).reshape(B, T, H)), P)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)), **TANH)), P)


TANH = {"approximate": "tanh"}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(V, H), torch.nn.Embedding(T, H)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(L))
        self.norm = torch.nn.LayerNorm(H)
        self.register_buffer("mask", torch.triu(torch.ones(T, T, dtype=torch.bool), 1))

    def forward(self, tokens, labels):
        x = F.dropout(self.tokens(tokens) + self.positions(torch.arange(T)), P)
        for block in self.blocks:
            x = block(x, self.mask)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.view(-1, V), labels.reshape(-1))


model = Model()
adam = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
seconds = []
for _ in range(40):
    tokens = torch.randint(0, V, (B, T + 1))
    began = time.perf_counter()
    adam.zero_grad(set_to_none=True)
    loss = model(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adam.step()
    loss.item()
    seconds.append(time.perf_counter() - began)
print(json.dumps({"seconds": seconds[5:]}))
