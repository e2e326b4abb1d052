#!/usr/bin/env python3
"""Writes the seeds of the loaders' fuzz targets to fuzz/corpus/: tiny files that are right, one for each shape of them.

Usage: tools/make_fuzz_seeds.py   (needs nothing but Python; the result is committed)
"""
import json
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"
U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value_of(kind, value):
    if kind == STRING:
        return text(value)
    return struct.pack({U32: "<I", F32: "<f", BOOL: "<B", I32: "<i"}[kind], value)


def key(name, kind, value):
    if isinstance(value, list):
        body = struct.pack("<IQ", kind, len(value)) + b"".join(value_of(kind, v) for v in value)
        return text(name) + struct.pack("<I", ARRAY) + body
    return text(name) + struct.pack("<I", kind) + value_of(kind, value)


def gguf(path, keys, tensors):
    infos, data = b"", b""
    for name, *shape in tensors:
        count = 1
        for n in shape:
            count *= n
        infos += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}QIQ", *shape, 0, len(data))
        data += struct.pack("<f", 1.0) * count
        data += b"\0" * (-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(key(*k) for k in keys) + infos
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


def alphabet():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return sorted(chr(b) for b in plain) + [chr(256 + i) for i in range(68)]


def arch_keys(arch, vocab):
    numbers = {"block_count": 1, "context_length": 64, "embedding_length": 4, "feed_forward_length": 4,
               "attention.head_count": 2, "attention.head_count_kv": 1, "rope.dimension_count": 2, "vocab_size": vocab}
    return [("general.architecture", STRING, arch), *((f"{arch}.{k}", U32, v) for k, v in numbers.items()),
            (f"{arch}.attention.layer_norm_rms_epsilon", F32, 1e-5), (f"{arch}.rope.freq_base", F32, 1e4)]


def layer(biased, normed):
    b = "blk.0."
    out = [(b + "attn_norm.weight", 4), (b + "attn_q.weight", 4, 4), (b + "attn_k.weight", 4, 2),
           (b + "attn_v.weight", 4, 2), (b + "attn_output.weight", 4, 4), (b + "ffn_norm.weight", 4),
           (b + "ffn_gate.weight", 4, 4), (b + "ffn_up.weight", 4, 4), (b + "ffn_down.weight", 4, 4)]
    if biased:
        out += [(b + "attn_q.bias", 4), (b + "attn_k.bias", 2), (b + "attn_v.bias", 2)]
    if normed:
        out += [(b + "attn_q_norm.weight", 2), (b + "attn_k_norm.weight", 2)]
    return out


def tokens_gpt2(pre):
    words = alphabet() + ["He", "ll", "Hell", "<s>"]
    kinds = [1] * (len(words) - 1) + [3]
    t = "tokenizer.ggml."
    return words, [(t + "model", STRING, "gpt2"), (t + "pre", STRING, pre), (t + "tokens", STRING, words),
                   (t + "token_type", I32, kinds), (t + "merges", STRING, ["H e", "l l", "He ll"]),
                   (t + "bos_token_id", U32, len(words) - 1), (t + "eos_token_id", U32, len(words) - 1),
                   (t + "add_bos_token", BOOL, 1)]


def tokens_llama():
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + ["\u2581", "H", "e", "l", "ll", "\u2581He"]
    kinds = [2, 3, 3] + [6] * 256 + [1] * 6
    scores = [0.0] * 259 + [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]
    t = "tokenizer.ggml."
    return words, [(t + "model", STRING, "llama"), (t + "tokens", STRING, words), (t + "scores", F32, scores),
                   (t + "token_type", I32, kinds), (t + "bos_token_id", U32, 1), (t + "eos_token_id", U32, 2),
                   (t + "unknown_token_id", U32, 0), (t + "add_bos_token", BOOL, 1)]


def seeds_gguf(folder):
    outer = lambda vocab: [("token_embd.weight", 4, vocab), ("output_norm.weight", 4)]
    words, keys = tokens_gpt2("smollm")
    gguf(folder / "llama", arch_keys("llama", len(words)) + keys, outer(len(words)) + layer(False, False))
    scaling = [("qwen2.rope.scaling.type", STRING, "yarn"), ("qwen2.rope.scaling.factor", F32, 4.0),
               ("qwen2.rope.scaling.original_context_length", U32, 16)]
    gguf(folder / "qwen2", arch_keys("qwen2", 3) + scaling, outer(3) + layer(True, False) + [("output.weight", 4, 3)])
    gguf(folder / "qwen3", arch_keys("qwen3", 3), outer(3) + layer(False, True))
    gguf(folder / "factors", arch_keys("llama", 3), outer(3) + layer(False, False) + [("rope_freqs.weight", 1)])
    gguf(folder / "vocabulary", [("general.architecture", STRING, "llama")] + tokens_llama()[1], [])
    gguf(folder / "empty", [("general.alignment", U32, 64)], [])


def safetensors(path, entries, metadata=None, spaces=0):
    head, at = ({"__metadata__": metadata} if metadata else {}), 0
    for name, dtype, shape, size in entries:
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    raw = json.dumps(head).encode() + b" " * spaces
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(i % 256 for i in range(at)))


def seeds_safetensors(folder):
    safetensors(folder / "usual", [("a.weight", "F32", [2, 3], 24), ("b.weight", "BF16", [5], 10), ("c", "I64", [1], 8)],
                {"format": "pt"}, 6)
    safetensors(folder / "odd", [("none", "F16", [0, 4], 0), ("one", "F32", [], 4), ("half", "F4", [2, 2], 2)])


def seeds_config(folder):
    base = {"hidden_size": 8, "intermediate_size": 12, "num_attention_heads": 2, "num_key_value_heads": 1,
            "num_hidden_layers": 2, "vocab_size": 6, "rms_norm_eps": 1e-5, "max_position_embeddings": 64,
            "hidden_act": "silu", "tie_word_embeddings": False, "eos_token_id": [4, 5]}
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 32, "mscale": 0.7,
            "mscale_all_dim": 0.9, "truncate": False}
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 5e5}
    files = {
        "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_parameters": llama3, **base},
        "mistral": {"model_type": "mistral", "rope_theta": 1e6, "sliding_window": 32, **base},
        "qwen2": {"model_type": "qwen2", "rope_scaling": yarn, "use_sliding_window": True, "sliding_window": 16,
                  "max_window_layers": 0, "layer_types": ["sliding_attention"] * 2, **base},
        "qwen3": {"model_type": "qwen3", "head_dim": 4, "attention_bias": True,
                  "rope_scaling": {"type": "linear", "factor": 2}, **base},
        "refused": {"model_type": "llama", "quantization_config": {"quant_method": "gptq"}, **base},
    }
    for name, fields in files.items():
        (folder / name).write_text(json.dumps(fields))


def seeds_chat(folder):
    for name in ("chatml-system", "chatml-tools", "llama3-dated", "mistral-v1", "mistral-v3"):
        fixture = json.loads((ROOT / "tests" / "fixtures" / "tokenizer" / "chat" / f"{name}.json").read_text())
        (folder / name).write_text(fixture["template"])


for kind, make in (("gguf", seeds_gguf), ("safetensors", seeds_safetensors), ("config", seeds_config),
                   ("chat", seeds_chat)):
    (CORPUS / kind).mkdir(parents=True, exist_ok=True)
    make(CORPUS / kind)
