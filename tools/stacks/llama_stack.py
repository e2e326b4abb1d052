#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""llama.cpp as an outside stack of `batchone study --stack "python3 tools/stacks/llama_stack.py …"`, through the bindings
of the package llama-cpp-python (LLAMA_CPP_LIB_PATH names a folder with another build of the library).

A model that is a GGUF file is read; of any other, a GGUF of the cell's shape with random weights in the cell's format is
written to --models, once, and kept there. The KV cache is filled by a prefill of context - 1 tokens; each step appends
one token to each sequence until its logits are on the host, and is taken back outside of its time. Keys and values are
f16, as wide as bf16.
"""
import argparse
import ctypes
import os
import struct
import tempfile

import protocol
from protocol import Refusal, unsupported

# Of each format: GGUF's number, values and bytes of a block, and where in it scales lie, which are f16.
FORMATS = {"f32": (0, 1, 4, ()), "f16": (1, 1, 2, ()), "bf16": (30, 1, 2, ()), "q4_0": (2, 32, 18, (0,)),
           "q4_1": (3, 32, 20, (0, 2)), "q5_0": (6, 32, 22, (0,)), "q5_1": (7, 32, 24, (0, 2)), "q8_0": (8, 32, 34, (0,)),
           "q4_k": (12, 256, 144, (0, 2)), "q5_k": (13, 256, 176, (0, 2)), "q6_k": (14, 256, 210, (208,))}
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
POOL_BYTES = 1 << 24
PREFILL = 512  # tokens of a batch


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=os.path.join(tempfile.gettempdir(), "batchone-stacks"), metavar="DIR",
                        help="where made models are kept (%(default)s)")
    parser.add_argument("--flash-attention", choices=("auto", "on", "off"), default="auto")
    parser.add_argument("--warm", type=float, default=0.3, metavar="SECONDS", help="before the first step (0.3)")
    return parser.parse_args()


# ---- a model of the shape ----


def tensors(cell, kind):
    """Name, rows (0: a vector), columns and format of each."""
    s, f32 = cell["shape"], FORMATS["f32"]
    q, kv, hidden, ffn = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"], s["hidden"], s["ffn"]
    yield "token_embd.weight", s["vocab"], hidden, kind
    for i in range(s["layers"]):
        b = f"blk.{i}."
        yield b + "attn_norm.weight", 0, hidden, f32
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            yield f"{b}attn_{name}.weight", rows, hidden, kind
            if cell["architecture"] == "qwen2":
                yield f"{b}attn_{name}.bias", 0, rows, f32
            if cell["architecture"] == "qwen3" and name != "v":
                yield f"{b}attn_{name}_norm.weight", 0, s["head_dim"], f32
        yield b + "attn_output.weight", hidden, q, kind
        yield b + "ffn_norm.weight", 0, hidden, f32
        for name, rows, columns in (("gate", ffn, hidden), ("up", ffn, hidden), ("down", hidden, ffn)):
            yield f"{b}ffn_{name}.weight", rows, columns, kind
    yield "output_norm.weight", 0, hidden, f32
    if not protocol.is_tied(cell):
        yield "output.weight", s["vocab"], hidden, kind


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, value):
    codes = {"u32": (4, "<I"), "f32": (6, "<f")}
    if kind == "text":
        return text(name) + struct.pack("<I", 8) + text(value)
    return text(name) + struct.pack("<I", codes[kind][0]) + struct.pack(codes[kind][1], value)


def metadata(cell):
    s, arch = cell["shape"], ARCHITECTURES[cell["architecture"]]
    theta = 5e5 if cell["model"].startswith("llama-3") else 1e6
    rows = [("general.architecture", "text", arch), ("tokenizer.ggml.model", "text", "none"),
            (f"{arch}.block_count", "u32", s["layers"]), (f"{arch}.context_length", "u32", max(131072, cell["context"])),
            (f"{arch}.embedding_length", "u32", s["hidden"]), (f"{arch}.feed_forward_length", "u32", s["ffn"]),
            (f"{arch}.attention.head_count", "u32", s["heads"]), (f"{arch}.vocab_size", "u32", s["vocab"]),
            (f"{arch}.attention.head_count_kv", "u32", s["kv_heads"]), (f"{arch}.rope.freq_base", "f32", theta),
            (f"{arch}.attention.key_length", "u32", s["head_dim"]), (f"{arch}.rope.dimension_count", "u32", s["head_dim"]),
            (f"{arch}.attention.value_length", "u32", s["head_dim"]),
            (f"{arch}.attention.layer_norm_rms_epsilon", "f32", 1e-5)]
    return len(rows), b"".join(key(*row) for row in rows)


def random_pool(kind, numpy):
    """Bytes of random blocks, twice, so that a tensor may begin anywhere in the first half. Values are small."""
    number, _, size, scales = kind
    rng = numpy.random.default_rng(1)
    if number in (0, 1, 30):
        values = (rng.standard_normal(POOL_BYTES // size, dtype=numpy.float32) * 0.02)
        data = {0: values, 1: values.astype(numpy.float16), 30: (values.view(numpy.uint32) >> 16).astype(numpy.uint16)}
        return data[number].tobytes() * 2
    blocks = rng.integers(0, 256, (POOL_BYTES // size, size), dtype=numpy.uint8)
    for at in scales:
        small = rng.uniform(1e-4, 1e-3, len(blocks)).astype(numpy.float16)
        blocks[:, at:at + 2] = small.view(numpy.uint8).reshape(-1, 2)
    return blocks.tobytes() * 2


def write_model(path, cell):
    """The whole file under another name, and then its own."""
    import numpy
    kind, infos, at = FORMATS[cell["weights"]], [], 0
    plan = list(tensors(cell, kind))
    for name, rows, columns, (number, values, size, _) in plan:
        if columns % values:
            raise unsupported(f"{cell['weights']} has blocks of {values} values, which {name} does not divide into")
        dims = (columns, rows) if rows else (columns,)
        infos.append(text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, at))
        at += -(-max(rows, 1) * columns // values * size // 32) * 32
    count, keys = metadata(cell)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(plan), count) + keys + b"".join(infos)
    pool, start = memoryview(random_pool(kind, numpy)), 0
    half = len(pool) // 2
    with open(f"{path}.{os.getpid()}", "wb", buffering=0) as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for name, rows, columns, (_, values, size, _) in plan:
            left = total = max(rows, 1) * columns // values * size
            if not rows:
                f.write(struct.pack("<f", 0.02 if name.endswith("bias") else 1) * columns)
                left = 0
            else:
                start = (start + 104729 * size) % half
            while left:
                part = min(left, half // size * size)
                part = f.write(pool[start:start + part])
                if part % size:  # a write that was cut: the rest of the block follows
                    part += f.write(pool[start + part:start + part + size - part % size])
                left -= part
            f.write(b"\0" * (-total % 32))
    os.replace(f"{path}.{os.getpid()}", path)


def model_file(args, cell):
    if cell["model"].endswith(".gguf"):
        return cell["model"]
    os.makedirs(args.models, exist_ok=True)
    shape = "-".join(str(cell["shape"][k]) for k in sorted(cell["shape"]))
    tied = "tied" if protocol.is_tied(cell) else "untied"
    path = os.path.join(args.models, f"{cell['architecture']}-{shape}-{tied}-{cell['weights']}.gguf")
    if not os.path.exists(path):
        try:
            write_model(path, cell)
        finally:
            if os.path.exists(f"{path}.{os.getpid()}"):
                os.unlink(f"{path}.{os.getpid()}")
    return path


# ---- steps ----


class Decoder:
    def __init__(self, llama, args, cell):
        self.llama, self.cell = llama, cell
        on_gpu = cell["device"].startswith("cuda")
        if on_gpu and not llama.llama_supports_gpu_offload():
            raise unsupported("this build of llama.cpp has no GPU in it")
        llama.llama_backend_init()
        params = llama.llama_model_default_params()
        params.n_gpu_layers = 999 if on_gpu else 0
        params.main_gpu = int(cell["device"].partition(":")[2] or 0) if on_gpu else 0
        self.model = llama.llama_model_load_from_file(model_file(args, cell).encode(), params)
        if not self.model:
            raise Refusal("failed", "llama.cpp does not load the model: its reason is on stderr")
        params = llama.llama_context_default_params()
        params.n_ctx = cell["context"] * cell["batch"]
        params.n_batch = params.n_ubatch = PREFILL
        params.n_seq_max = cell["batch"]
        params.n_threads = params.n_threads_batch = cell.get("threads") or os.cpu_count()
        params.flash_attn_type = {"auto": -1, "off": 0, "on": 1}[args.flash_attention]
        self.context = llama.llama_init_from_model(self.model, params)
        if not self.context:
            raise Refusal("out_of_memory", "llama.cpp makes no context of this length: its reason is on stderr")
        self.memory = llama.llama_get_memory(self.context)
        self.batch = llama.llama_batch_init(PREFILL, 0, cell["batch"])
        for sequence in range(cell["batch"]):
            self.prefill(sequence)
        self.fill([(1, cell["context"] - 1, sequence) for sequence in range(cell["batch"])], True)

    def fill(self, rows, logits):
        """`rows` of (token, position, sequence) become the batch."""
        self.batch.n_tokens = len(rows)
        for i, (token, position, sequence) in enumerate(rows):
            self.batch.token[i], self.batch.pos[i] = token, position
            self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, sequence
            self.batch.logits[i] = logits

    def decode(self):
        code = self.llama.llama_decode(self.context, self.batch)
        if code:
            raise Refusal("failed", f"llama_decode: {code}")

    def prefill(self, sequence):
        vocab = self.cell["shape"]["vocab"]
        for first in range(0, self.cell["context"] - 1, PREFILL):
            last = min(first + PREFILL, self.cell["context"] - 1)
            self.fill([(1 + i * 7919 % (vocab - 1), i, sequence) for i in range(first, last)], False)
            self.decode()
        self.llama.llama_synchronize(self.context)

    def step(self):
        self.decode()
        self.llama.llama_synchronize(self.context)

    def rewind(self):
        for sequence in range(self.cell["batch"]):
            self.llama.llama_memory_seq_rm(self.memory, sequence, self.cell["context"] - 1, -1)


def measure(harness, args):
    cell = harness.cell
    harness.is_called("llama.cpp" if args.flash_attention == "auto" else f"llama.cpp-flash-{args.flash_attention}",
                      "llama-cpp-python")
    if not cell["model"].endswith(".gguf") and cell["weights"] not in FORMATS:
        raise unsupported(f"llama.cpp runs {', '.join(FORMATS)} here, not {cell['weights']}")
    if cell["architecture"] not in ARCHITECTURES:
        raise unsupported(f"no {cell['architecture']} here: {', '.join(ARCHITECTURES)}")
    from llama_cpp import llama_cpp as llama
    decoder = Decoder(llama, args, cell)
    warmed = protocol.warm(decoder.step, decoder.rewind, args.warm, 3)
    logits = llama.llama_get_logits(decoder.context)
    finite = all(abs(x) < 1e30 for x in ctypes.cast(logits, ctypes.POINTER(ctypes.c_float * cell["shape"]["vocab"]))[0])
    harness.hello(attention=f"flash attention {args.flash_attention}", warmed_steps=warmed, weights=cell["weights"],
                  finite=finite, kv="f16", model_bytes=llama.llama_model_size(decoder.model))
    harness.steps(decoder.step, decoder.rewind)


if __name__ == "__main__":
    protocol.serve(measure, arguments())
