#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tiny random models with the logits that `transformers` computes for them: tests/fixtures/models/NAME/.

    pip install torch transformers safetensors gguf numpy
    tools/make_model_fixtures.py [NAME…]        # all without a name

Each folder holds a model as its own kind of file (config.json and safetensors, or model.gguf) and expected.bin:

    bytes 0..7    "B1LOGITS"
    then          u32 count, u32 vocab, u32 first          little-endian
    then          i32 tokens[count]
    then          f32 logits[count - first][vocab]          of positions first … count - 1

Everything comes from numpy's PCG64 seeded with a hash of the name, so a second run writes the same models; the logits
are computed in fp32 with eager attention from the very files that are committed (a GGUF's weights are dequantised by
the `gguf` package). Norms and biases are random too, so that one that is left out shows.

A fixture proves something only if a wrong engine would fail on it. So each names mutations of its configuration (a
RoPE scaling dropped, a window switched off, …), and the script refuses to write a fixture whose logits move by less
than a hundredth under one of them.
"""
import hashlib
import json
import shutil
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

ROOT = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "models"
ORIGINAL = 32  # the RoPE context that scaled models were "trained" with; every sequence runs well past it
LIMIT_BYTES = 300_000


def base(kind, hidden, ffn, heads, kv_heads, layers=2, vocab=64, context=ORIGINAL, **more):
    """A config.json as the model's publishers write it."""
    classes = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
               "qwen3": "Qwen3ForCausalLM"}
    return {"architectures": [classes[kind]], "model_type": kind, "hidden_act": "silu", "hidden_size": hidden,
            "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "vocab_size": vocab, "max_position_embeddings": context,
            "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
            "use_cache": True, **more}


def without(config, *keys):
    return {k: v for k, v in config.items() if k not in keys}


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": ORIGINAL}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL}
PLAIN = {"rope_scaling": None}

# name → config, tokens, dtype of the file, shards, mutations that must show
HF = {
    # Llama 2 files say neither rope_theta nor head_dim; the architecture's default is 10000
    "llama2": dict(config=base("llama", 48, 64, 3, 3), tokens=112, dtype="f32", mutations=[{"rope_theta": 1e6}]),
    # Llama 3.1: Llama-3 RoPE scaling in the older spelling, GQA; runs over several KV chunks of any likely size
    "llama3": dict(config=base("llama", 64, 96, 4, 2, context=320, rope_theta=500.0, rope_scaling=LLAMA3), tokens=300,
                   dtype="bf16", mutations=[PLAIN]),
    # Llama 3.2: tied, head_dim that is not hidden / heads, rope_parameters in the newer spelling
    "llama3-tied": dict(config=base("llama", 64, 96, 4, 2, context=256, tie_word_embeddings=True, head_dim=32,
                                    rope_parameters={**LLAMA3, "rope_theta": 10000.0, "factor": 4.0}), tokens=112,
                        dtype="bf16", mutations=[{"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}]),
    # says that it is tied, but has a head of its own: that head is used, as transformers does
    "llama-own-head": dict(config=base("llama", 32, 48, 2, 1, context=256, tie_word_embeddings=True,
                                       rope_theta=10000.0), tokens=80, dtype="bf16", own_head=True,
                           mutations=[{"rope_theta": 1e6}]),
    # linear RoPE in the oldest spelling, two shards, biases on q, k, v and o
    "llama-linear": dict(config=base("llama", 64, 96, 4, 4, context=128, rope_theta=10000.0, attention_bias=True,
                                     rope_scaling={"type": "linear", "factor": 4.0}), tokens=112, dtype="bf16",
                         shards=2, mutations=[PLAIN]),
    # eight query heads to each KV head
    "llama-groups": dict(config=base("llama", 64, 64, 16, 2, rope_theta=10000.0, head_dim=16), tokens=112,
                         dtype="bf16", mutations=[{"rope_theta": 1e6}]),
    # sizes that are multiples of nothing; one KV head; f16
    "llama-odd": dict(config=base("llama", 60, 88, 3, 1, vocab=67, rope_theta=10000.0, head_dim=24), tokens=112,
                      dtype="f16", mutations=[{"rope_theta": 1e6}]),
    # Mistral 7B v0.1: a sliding window that is on
    "mistral-window": dict(config=base("mistral", 64, 96, 4, 2, context=512, rope_theta=10000.0, sliding_window=24),
                           tokens=300, dtype="bf16", mutations=[{"sliding_window": None}, {"sliding_window": 25}]),
    # Mistral-Nemo: head_dim below hidden / heads, no window
    "mistral-nemo": dict(config=base("mistral", 96, 64, 4, 2, context=512, rope_theta=1000000.0, head_dim=16,
                                     sliding_window=None), tokens=112, dtype="bf16",
                         mutations=[{"sliding_window": 24}, {"rope_theta": 1e4}]),
    # Qwen2: q, k, v biases, tied; a window that the file names but does not switch on
    "qwen2": dict(config=base("qwen2", 64, 96, 4, 2, context=512, rope_theta=1000000.0, tie_word_embeddings=True,
                              rms_norm_eps=1e-6, sliding_window=16, use_sliding_window=False, max_window_layers=0),
                  tokens=112, dtype="bf16", mutations=[{"use_sliding_window": True}]),
    # Qwen2.5 with YaRN switched on, as its model card says
    "qwen2-yarn": dict(config=base("qwen2", 64, 96, 4, 1, context=128, rope_theta=10000.0, rms_norm_eps=1e-6,
                                   rope_scaling=YARN), tokens=128, dtype="bf16", mutations=[PLAIN]),
    # Qwen3: q and k norms, head_dim that is not hidden / heads
    "qwen3": dict(config=base("qwen3", 64, 96, 4, 2, context=512, rope_theta=1000000.0, rms_norm_eps=1e-6, head_dim=32,
                              tie_word_embeddings=True, attention_bias=False), tokens=300, dtype="bf16",
                  mutations=[{"rope_theta": 1e4}]),
    # YaRN with every parameter of its own, and the correction range not rounded
    "qwen3-yarn": dict(config=base("qwen3", 48, 64, 6, 2, context=128, rms_norm_eps=1e-6, head_dim=16,
                                   rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                                    "original_max_position_embeddings": ORIGINAL, "beta_fast": 24.0,
                                                    "beta_slow": 2.0, "attention_factor": 1.3, "truncate": False}),
                       tokens=128, dtype="bf16",
                       mutations=[{"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}]),
}
HF["llama2"]["config"] = without(HF["llama2"]["config"], "num_key_value_heads")
for name in ("llama-groups", "llama-odd", "mistral-nemo"):
    HF[name]["config"]["max_position_embeddings"] = 512

G = gguf.GGMLQuantizationType
# name → config (what transformers computes with), tokens, type of each matrix, mutations, extra GGUF keys
GGUF = {
    # Llama 3.1: Q and K rows permuted, the scaling as a rope_freqs tensor, Q8_0
    "gguf-llama3": dict(config=base("llama", 64, 96, 4, 2, context=256, rope_theta=10000.0, rope_scaling=LLAMA3,
                                    head_dim=32), tokens=112, types=[G.Q8_0], mutations=[PLAIN]),
    # one matrix of every block format; K-quants need rows of 256
    "gguf-llama-mixed": dict(config=base("llama", 256, 256, 4, 1, layers=1, vocab=32, context=256, rope_theta=10000.0,
                                         head_dim=64, tie_word_embeddings=True), tokens=96,
                             types={"attn_q": G.Q4_K, "attn_k": G.Q5_1, "attn_v": G.Q5_0, "attn_output": G.Q6_K,
                                    "ffn_gate": G.Q4_0, "ffn_up": G.Q4_1, "ffn_down": G.Q5_K, "token_embd": G.Q8_0},
                             mutations=[{"rope_theta": 1e6}]),
    # Qwen2 is not permuted; YaRN by GGUF's own keys, f16 matrices
    "gguf-qwen2-yarn": dict(config=base("qwen2", 64, 96, 4, 2, context=128, rope_theta=10000.0, rms_norm_eps=1e-6,
                                        rope_scaling=YARN), tokens=128, types=[G.F16], mutations=[PLAIN]),
    # Qwen3: q and k norms, not permuted; f32, bf16 and f16 in turn
    "gguf-qwen3": dict(config=base("qwen3", 64, 64, 4, 2, context=256, rope_theta=1000000.0, rms_norm_eps=1e-6,
                                   head_dim=16, tie_word_embeddings=True), tokens=112, types=[G.F32, G.BF16, G.F16],
                       mutations=[{"rope_theta": 1e4}]),
}


def generator(name):
    return np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def random_tensor(rng, name, shape):
    """f32. Norms spread about 1, biases about 0; matrices keep the variance of their input, q and k a little more, so
    that attention is neither flat nor one-hot."""
    if "norm" in name:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    if name.endswith("bias"):
        return (0.3 * rng.standard_normal(shape)).astype(np.float32)
    gain = 1.6 if ("q_proj" in name or "k_proj" in name) else 1.0
    return (gain / np.sqrt(shape[1]) * rng.standard_normal(shape)).astype(np.float32)


def configuration(config, folder):
    """The configuration as transformers reads it from the file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    out = AutoConfig.from_pretrained(folder)
    out._attn_implementation = "eager"
    return out


def make_weights(name, config, folder):
    model = AutoModelForCausalLM.from_config(configuration(config, folder), dtype=torch.float32)
    rng = generator(name)
    tied = config["tie_word_embeddings"] and not FIXTURES[name].get("own_head")
    return {k: random_tensor(rng, k, tuple(v.shape)) for k, v in sorted(model.state_dict().items())
            if not (tied and k == "lm_head.weight")}


def logits_of(config, weights, tokens, folder):
    """[count][vocab] f32 of a model with these f32 weights, and nothing left at its initial value."""
    model = AutoModelForCausalLM.from_config(configuration(config, folder), dtype=torch.float32)
    state = {k: torch.from_numpy(v.copy()) for k, v in weights.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    model.eval()
    with torch.no_grad():
        return model(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()


def write_expected(folder, tokens, logits, first=0):
    with open(folder / "expected.bin", "wb") as f:
        f.write(b"B1LOGITS" + struct.pack("<3I", len(tokens), logits.shape[1], first))
        f.write(np.asarray(tokens, "<i4").tobytes())
        f.write(np.ascontiguousarray(logits[first:], "<f4").tobytes())


def check_mutations(name, config, weights, tokens, logits):
    scratch = Path("/tmp/b1-fixture-mutation")
    scale = np.abs(logits).max()
    assert np.isfinite(logits).all() and 1 < scale < 100, scale
    moved = []
    for change in [*FIXTURES[name]["mutations"], {"swap": True}]:
        mutated, other = dict(config), dict(weights)
        if "swap" in change:  # two rows of a K matrix change places: attention must be seen in the logits
            key = next(k for k in weights if k.endswith("layers.0.self_attn.k_proj.weight"))
            other[key] = weights[key].copy()
            other[key][[0, 1]] = other[key][[1, 0]]
        else:
            mutated.update(change)
            if "rope_theta" in change and "rope_parameters" in mutated:
                raise AssertionError("a mutation that changes nothing")
        wrong = logits_of(mutated, other, tokens, scratch)
        moved.append(float(np.abs(wrong - logits)[ORIGINAL:].max() / scale))
        assert moved[-1] > 1e-2, f"{name}: {change} moves the logits by {moved[-1]:.2e} only"
    shutil.rmtree(scratch)
    return moved


def finish(name, folder, config, weights, tokens):
    logits = logits_of(config, weights, tokens, Path("/tmp/b1-fixture-reading"))
    moved = check_mutations(name, config, weights, tokens, logits)
    write_expected(folder, tokens, logits)
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{name}: {size} bytes, {len(tokens)} tokens, max|logit| {np.abs(logits).max():.2f}, mutations move "
          + ", ".join(f"{m:.3f}" for m in moved))
    assert size < LIMIT_BYTES, size


def make_hf(name):
    spec, folder = HF[name], ROOT / name
    weights = make_weights(name, spec["config"], folder)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[spec["dtype"]]
    stored = {k: torch.from_numpy(v).to(dtype) for k, v in weights.items()}
    shards = spec.get("shards", 1)
    if shards == 1:
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        names, where = sorted(stored), {}
        for i in range(shards):
            file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
            part = {k: stored[k] for k in names[i::shards]}
            save_file(part, folder / file, metadata={"format": "pt"})
            where.update({k: file for k in part})
        total = sum(v.numel() * v.element_size() for v in stored.values())
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    read = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as f:
            read.update({k: f.get_tensor(k).float().numpy() for k in f.keys()})
    tokens = generator(name + " tokens").integers(0, spec["config"]["vocab_size"], spec["tokens"]).tolist()
    config = spec["config"]
    if spec.get("own_head"):
        config = {**config, "tie_word_embeddings": False}
    finish(name, folder, config, read, tokens)


# ---- GGUF ----------------------------------------------------------------------------------------------------------

GGUF_NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
              "lm_head.weight": "output.weight"}
GGUF_LAYER = {"input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "ffn_norm.weight",
              "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
              "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight",
              "self_attn.q_proj.bias": "attn_q.bias", "self_attn.k_proj.bias": "attn_k.bias",
              "self_attn.v_proj.bias": "attn_v.bias", "self_attn.q_norm.weight": "attn_q_norm.weight",
              "self_attn.k_norm.weight": "attn_k_norm.weight", "mlp.gate_proj.weight": "ffn_gate.weight",
              "mlp.up_proj.weight": "ffn_up.weight", "mlp.down_proj.weight": "ffn_down.weight"}


def gguf_name(name):
    if name in GGUF_NAMES:
        return GGUF_NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{GGUF_LAYER[rest]}"


def interleave(w, heads):
    """Rows of each head from half-split to pairs side by side: j and j + d/2 become 2j and 2j + 1."""
    d = w.shape[0] // heads
    return np.ascontiguousarray(w.reshape(heads, 2, d // 2, -1).swapaxes(1, 2).reshape(w.shape))


def half_split(w, heads):
    d = w.shape[0] // heads
    return np.ascontiguousarray(w.reshape(heads, d // 2, 2, -1).swapaxes(1, 2).reshape(w.shape))


def random_k_blocks(rng, kind, shape):
    """K-quants have no quantiser in the `gguf` package: every bit is random, but for the block's own f16 scales, which
    are set so that the values have the wanted spread. Each of the sub-blocks gets its own scale and minimum."""
    blocks = shape[0] * shape[1] // 256
    size = {G.Q4_K: 144, G.Q5_K: 176, G.Q6_K: 210}[kind]
    raw = rng.integers(0, 256, (blocks, size), dtype=np.uint8)

    def scales(base):
        return (base * rng.uniform(0.7, 1.3, blocks)).astype("<f2").view(np.uint8).reshape(blocks, 2)

    unit = 1 / np.sqrt(shape[1])
    if kind == G.Q6_K:  # d × int8 scale × (−32 … 31)
        raw[:, 208:210] = scales(unit / (74 * 18))
    else:  # d × 6-bit scale × (0 … 15 or 31) − dmin × 6-bit minimum: the means of both cancel
        levels = 15 if kind == G.Q4_K else 31
        raw[:, 0:2] = scales(unit / (levels * 14))
        raw[:, 2:4] = scales(unit / 28)
    return raw.reshape(shape[0], -1)


def encode(rng, name, w, kind):
    """File bytes [rows][…] of w in `kind`."""
    if kind in (G.Q4_K, G.Q5_K, G.Q6_K):
        return random_k_blocks(rng, kind, w.shape)
    return gguf.quants.quantize(w, kind)


def write_gguf(name, folder, config, weights, types):
    """Writes model.gguf; returns the weights that it holds, dequantised, under transformers' names."""
    kind = config["model_type"]
    writer = gguf.GGUFWriter(folder / "model.gguf", kind)
    head_dim = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    writer.add_name(name)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    scaling = config.get("rope_scaling") or {}
    if scaling.get("type") == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(scaling["factor"])
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    if scaling.get("rope_type") == "llama3":  # divisors of the plain frequencies
        theta, d = config["rope_theta"], head_dim
        plain = theta ** -(np.arange(0, d, 2, dtype=np.float64) / d)
        probe = AutoModelForCausalLM.from_config(configuration(config, folder), dtype=torch.float32)
        writer.add_tensor("rope_freqs.weight", (plain / probe.model.rotary_emb.inv_freq.double().numpy())
                          .astype(np.float32))
    rng, read, turn = generator(name + " blocks"), {}, 0
    for key, w in weights.items():
        out = gguf_name(key)
        heads = {"q": config["num_attention_heads"], "k": config["num_key_value_heads"]}
        permuted = kind == "llama" and (".attn_q." in out or ".attn_k." in out)
        if permuted:
            w = interleave(w, heads[out.split(".attn_")[1][0]])
        if w.ndim == 1:
            t = G.F32
        elif isinstance(types, dict):
            t = types[out.split(".")[-2]]
        else:
            t, turn = types[turn % len(types)], turn + 1
        data = encode(rng, out, w, t)
        writer.add_tensor(out, data, raw_dtype=t)
        value = gguf.quants.dequantize(data, t).reshape(w.shape).astype(np.float32)
        read[key] = half_split(value, heads[out.split(".attn_")[1][0]]) if permuted else value
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read


def make_gguf(name):
    spec, folder = GGUF[name], ROOT / name
    weights = make_weights(name, spec["config"], folder)
    read = write_gguf(name, folder, spec["config"], weights, spec["types"])
    (folder / "config.json").unlink()
    tokens = generator(name + " tokens").integers(0, spec["config"]["vocab_size"], spec["tokens"]).tolist()
    finish(name, folder, spec["config"], read, tokens)


FIXTURES = {**HF, **GGUF}


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or FIXTURES:
        if name not in FIXTURES:
            sys.exit(f"no fixture {name!r}; there are: {', '.join(FIXTURES)}")
        shutil.rmtree(ROOT / name, ignore_errors=True)
        (make_hf if name in HF else make_gguf)(name)


if __name__ == "__main__":
    main()
