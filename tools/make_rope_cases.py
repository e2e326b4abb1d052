#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rotary frequencies of every scaling rule, in float64 from the published formulas, as C constants.

    python tools/make_rope_cases.py > tests/rope_cases.h

Sources: RoFormer (Su et al. 2021); linear interpolation (Chen et al. 2023); Llama 3.1's rule as Meta published it;
YaRN, NTK-by-parts (Peng et al. 2023). Where `transformers` and `torch` are installed, each case is compared with
theirs (float32) and a difference above 1e-6 ends the script.
"""
import math, sys

# name, kind, head_dim, theta, and the kind's parameters
CASES = [
    ("plain", "plain", 64, 100000.0, {}),
    ("plain, odd head", "plain", 24, 10000.0, {}),
    ("linear", "linear", 96, 10000.0, {"factor": 4.0}),
    ("llama 3.1", "llama3", 128, 500000.0, {"factor": 8.0, "original": 8192, "low": 1.0, "high": 4.0}),
    ("llama 3.2", "llama3", 64, 500000.0, {"factor": 32.0, "original": 8192, "low": 1.0, "high": 4.0}),
    ("llama 3, other bounds", "llama3", 32, 10000.0, {"factor": 4.0, "original": 64, "low": 2.0, "high": 8.0}),
    ("yarn", "yarn", 128, 1000000.0, {"factor": 4.0, "original": 32768, "fast": 32.0, "slow": 1.0, "truncate": True, "attention": 0.0}),
    ("yarn, range not rounded", "yarn", 64, 150000.0, {"factor": 32.0, "original": 4096, "fast": 32.0, "slow": 1.0, "truncate": False, "attention": 0.0}),
    ("yarn, other rotations", "yarn", 32, 10000.0, {"factor": 8.0, "original": 64, "fast": 16.0, "slow": 2.0, "truncate": True, "attention": 1.25}),
    ("yarn, range beyond the head", "yarn", 32, 20.0, {"factor": 4.0, "original": 4096, "fast": 64.0, "slow": 1.0, "truncate": True, "attention": 0.0}),
    ("yarn, empty range", "yarn", 16, 10000.0, {"factor": 2.0, "original": 4, "fast": 32.0, "slow": 32.0, "truncate": False, "attention": 0.0}),
]


def frequencies(kind, d, theta, p):
    plain = [theta ** (-2 * j / d) for j in range(d // 2)]
    if kind == "plain":
        return plain, 1.0
    if kind == "linear":
        return [f / p["factor"] for f in plain], 1.0
    if kind == "llama3":
        out = []
        for f in plain:
            wavelength = 2 * math.pi / f
            if wavelength < p["original"] / p["high"]:
                out.append(f)
            elif wavelength > p["original"] / p["low"]:
                out.append(f / p["factor"])
            else:
                s = (p["original"] / wavelength - p["low"]) / (p["high"] - p["low"])
                out.append((1 - s) * f / p["factor"] + s * f)
        return out, 1.0
    # The pair whose wavelength is original / rotations: solve 2 pi theta^(2j/d) = original / rotations for j.
    pair = lambda rotations: d / 2 * math.log(p["original"] / (2 * math.pi * rotations)) / math.log(theta)
    low, high = pair(p["fast"]), pair(p["slow"])
    if p["truncate"]:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    width = high - low or 0.001
    out = []
    for j, f in enumerate(plain):
        interpolated = min(max((j - low) / width, 0), 1)
        out.append(f * (1 - interpolated) + f / p["factor"] * interpolated)
    return out, p["attention"] or 0.1 * math.log(p["factor"]) + 1


def theirs(kind, d, theta, p):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    rope = {"rope_type": "default" if kind == "plain" else kind, "rope_theta": theta}
    names = {"factor": "factor", "original": "original_max_position_embeddings", "low": "low_freq_factor", "high": "high_freq_factor",
             "fast": "beta_fast", "slow": "beta_slow", "truncate": "truncate"}
    rope.update({names[k]: v for k, v in p.items() if k in names})
    if p.get("attention"):
        rope["attention_factor"] = p["attention"]
    context = int(p.get("original", 4096) * p.get("factor", 1))
    c = LlamaConfig(hidden_size=4 * d, num_attention_heads=4, head_dim=d, max_position_embeddings=context, rope_parameters=rope)
    if kind == "plain":
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
        f, a = LlamaRotaryEmbedding.compute_default_rope_parameters(c)
    else:
        f, a = ROPE_INIT_FUNCTIONS[kind](c, "cpu")
    return [float(x) for x in f], float(a)


try:
    import torch, transformers
    compare = True
except ImportError:
    compare = False
    print("transformers is not installed: not compared", file=sys.stderr)

print("/* SPDX-License-Identifier: MIT */\n/* Made by tools/make_rope_cases.py; do not edit. */\n/* clang-format off */")
print("static const struct rope_case {\n    const char *name;\n    int head_dim;\n    b1i_rope rope;\n    double factor, inverse[64];\n} rope_cases[] = {")
for name, kind, d, theta, p in CASES:
    f, a = frequencies(kind, d, theta, p)
    if compare:
        tf, ta = theirs(kind, d, theta, p)
        worst = max(abs(x / y - 1) for x, y in zip(f, tf))
        assert len(tf) == len(f) and worst < 1e-6 and abs(a - ta) < 1e-9, (name, worst, a, ta)
        print(f"{name}: {worst:.1e} from transformers {transformers.__version__}", file=sys.stderr)
    fields = {"factor": "factor", "original": "original_context", "low": "low_freq_factor", "high": "high_freq_factor",
              "fast": "beta_fast", "slow": "beta_slow", "truncate": "truncate", "attention": "attention_factor"}
    rope = "".join(f", .{fields[k]} = {str(v).lower() if isinstance(v, bool) else v}" for k, v in p.items())
    print(f'    {{"{name}", {d}, {{.kind = b1i_rope_{kind}, .theta = {theta}{rope}}}, {a!r},')
    for i in range(0, len(f), 4):
        print(("     {" if i == 0 else "      ") + ", ".join(map(repr, f[i:i + 4])) + ("}}," if i + 4 >= len(f) else ","))
print("};\n/* clang-format on */")
