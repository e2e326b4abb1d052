#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The default model's first greedy tokens as `transformers` finds them: tests/fixtures/greedy.json.

    pip install torch transformers accelerate gguf numpy
    tools/make_greedy_fixture.py [MODEL.gguf]

transformers reads the GGUF file itself and dequantises it to fp32; attention is eager and every sequence is evaluated
from its start, so no cache has a say. Each prompt gives {"text", "prompt": [ids], "tokens": [ids], "second": [ids],
"gap": [top logit minus second]}; a gap near fp32's rounding would make a comparison of tokens meaningless, so the script
refuses one. "final" holds the logits of the last step at every 97th id.
"""
import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TOP = Path(__file__).resolve().parent.parent
PROMPTS = ["The capital of France is", "def fibonacci(n):", "Water boils at", "Once upon a time there was",
           "The three primary colours are"]
COUNT = 64
SMALLEST_GAP = 1e-3  # logits are about 20, fp32 sums of this depth differ by about 1e-4 of that at most


def greedy(model, prompt):
    ids, tokens, second, gap = list(prompt), [], [], []
    for _ in range(COUNT):
        with torch.no_grad():
            row = model(torch.tensor([ids]), use_cache=False).logits[0, -1].float()
        top = torch.topk(row, 2)
        tokens.append(int(top.indices[0]))
        second.append(int(top.indices[1]))
        gap.append(float(top.values[0] - top.values[1]))
        ids.append(tokens[-1])
    return tokens, second, gap, row


def main():
    path = Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    source = dict(pretrained_model_name_or_path=str(path.parent), gguf_file=path.name)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32, attn_implementation="eager").eval()
    out = []
    for text in PROMPTS:
        prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens, second, gap, row = greedy(model, prompt)
        assert min(gap) > SMALLEST_GAP, (text, min(gap))
        print(f"{text!r} → {tokenizer.decode(tokens)!r}; smallest gap {min(gap):.4f}")
        out.append({"text": text, "prompt": prompt, "tokens": tokens, "second": second,
                    "gap": [round(g, 5) for g in gap], "final": [round(float(v), 5) for v in row[::97]]})
    target = TOP / "tests" / "fixtures" / "greedy.json"
    lines = ",\n".join(json.dumps(p) for p in out)
    target.write_text(f'{{"model": "{path.name}", "stride": 97, "prompts": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
