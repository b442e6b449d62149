"""What exchange.py asks the real library: run by the python of a virtual environment with torch and transformers."""
import json
import os
import sys

import torch
import transformers


def need(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def opens(folder, greedy):
    """The exported model gives the log probabilities and the greedy tokens that stoker-train gave; its tokenizer the tokens."""
    want = json.load(open(greedy))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    need(tokenizer(want["prompt"])["input_ids"] == want["prompt_tokens"], f"tokens {tokenizer(want['prompt'])}")
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    need(not any(report.get(k) for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), f"loaded with {report}")
    model.eval()
    tokens, worst = list(want["prompt_tokens"]), 0.0
    for token, log_probability in zip(want["tokens"], want["log_probabilities"]):
        with torch.no_grad():
            scores = torch.log_softmax(model(torch.tensor([tokens])).logits[0, -1].double(), 0)
        need(int(scores.argmax()) == token, f"after {tokens}: {int(scores.argmax())} instead of {token}")
        worst = max(worst, abs(float(scores[token]) - log_probability))
        tokens.append(token)
    need(worst < 1e-4, f"log probabilities differ by {worst}")
    text = tokenizer.decode(want["tokens"])
    need(text == want["text"], f"text {text!r} instead of {want['text']!r}")
    print(f"transformers {transformers.__version__} opens the export: {len(want['tokens'])} greedy tokens equal, "
          f"log probabilities within {worst:.1e}")


def makes(folder, text):
    """A random model; a document for training, and one for validation that is exactly 16 samples."""
    torch.manual_seed(1)
    transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=257, n_positions=32, n_embd=32, n_layer=2, n_head=4, n_inner=64,
                                                         bos_token_id=256, eos_token_id=256)).save_pretrained(folder)
    documents = ["x" * 600, bytes(torch.randint(32, 127, (16 * 32,)).tolist()).decode()]
    with open(text, "w") as file:
        file.writelines(json.dumps({"text": document}) + "\n" for document in documents)
    print(f"transformers made {folder}")


def agrees(folder, again, text, losses):
    """The loss over the same samples; what was exported again is the same to the bit."""
    model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    tokens = list(json.loads(open(text).read().split("\n")[1])["text"].encode()) + [256]
    samples = torch.tensor([tokens[i * 32:i * 32 + 33] for i in range(16)])
    with torch.no_grad():
        logits = model(samples[:, :-1]).logits.double()
        loss = float(torch.nn.functional.cross_entropy(logits.reshape(-1, 257), samples[:, 1:].reshape(-1)))
    found = json.load(open(losses))["loss"]
    need(abs(found - loss) < 1e-5, f"loss {found}, transformers says {loss}")
    other = transformers.GPT2LMHeadModel.from_pretrained(again).state_dict()
    mine = model.state_dict()
    need(mine.keys() == other.keys() and all(torch.equal(mine[k], other[k]) for k in mine), "tensors differ after a round trip")
    print(f"a random GPT2LMHeadModel imported: loss {found:.7f}, transformers {loss:.7f}; {len(mine)} tensors bitwise equal again")


{"opens": opens, "makes": makes, "agrees": agrees}[sys.argv[1]](*sys.argv[2:])
