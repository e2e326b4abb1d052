#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hugging Face transformers as an outside stack of `batchone study --stack "python3 tools/stacks/transformers_stack.py …"`.

The model has the cell's shape and random weights, made on the device: no file is read, and nothing is fetched. Its KV
cache holds context - 1 random positions; each step writes the last one, and is taken back outside of its time. A step is
one forward pass of one token of each sequence until the device is idle; its logits stay there.

--mode eager     the model's forward pass as it is
--mode graph     the same captured in one CUDA graph, and replayed
--mode compile   torch.compile of the forward pass (--compile-mode)

--attention default   what transformers asks of scaled_dot_product_attention, and PyTorch's choice for it
--attention flash | efficient | cudnn | math    the same call with one backend of PyTorch allowed
--attention flash-attn | flashinfer             those packages' own kernels, where they are installed

A static cache's forward pass masks the positions behind the last one. All backends but `default` go without that mask
(--mask none), for flash takes none, and here none is needed: the cache is exactly as long as the context.
"""
import argparse
import os
import statistics
import sys
import warnings

import protocol
from protocol import unsupported

MODES = ("eager", "graph", "compile")
BACKENDS = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION", "math": "MATH"}
LARGE = ("sklearn", "scipy", "torchvision", "PIL", "librosa", "soundfile", "tensorflow", "jax", "pandas")
PACKAGES = {"flash-attn": "flash_attn", "flashinfer": "flashinfer"}
CLASSES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
# Rotary embeddings as published, by the beginning of the model's name; their values cost nothing, their kind may.
ROPES = {"llama-3.1": {**LLAMA3, "factor": 8.0}, "llama-3.2": {**LLAMA3, "factor": 32.0},
         "": {"rope_type": "default", "rope_theta": 1000000.0}}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=MODES, default="eager")
    parser.add_argument("--attention", choices=("default", *BACKENDS, *PACKAGES), default="default")
    parser.add_argument("--cache", choices=("static", "dynamic"), default="static")
    parser.add_argument("--mask", choices=("auto", "none"), help="auto with the default attention, else none")
    parser.add_argument("--compile-mode", default="reduce-overhead",
                        choices=("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"))
    parser.add_argument("--warm", type=float, default=0.3, metavar="SECONDS", help="before the first step (0.3)")
    parser.add_argument("--profile-steps", type=int, default=5, metavar="N", help="steps of a profile (5)")
    return parser.parse_args()


def name_of(args):
    """What tells this variant from the others: cells of one name are compared with each other."""
    name = f"transformers-{args.mode}"
    if args.mode == "compile" and args.compile_mode != "reduce-overhead":
        name += f"-{args.compile_mode}"
    if args.cache == "dynamic":
        name += "-dynamic"
    if args.attention != "default":
        name += f"-{args.attention}"
    elif args.mask == "none":
        name += "-nomask"
    return name


def check(args, cell):
    """What can be refused before anything is loaded."""
    on_gpu = cell["device"].startswith("cuda")
    if cell["architecture"] not in CLASSES:
        raise unsupported(f"no {cell['architecture']} here: {', '.join(CLASSES)}")
    if args.mode == "graph" and not on_gpu:
        raise unsupported(f"a CUDA graph needs a GPU, and the cell is for {cell['device']}")
    if args.cache == "dynamic" and args.mode != "eager":
        raise unsupported(f"a dynamic cache moves in memory at each step, which --mode {args.mode} does not follow")
    if cell["weights"] not in ("bf16", "f16", "f32", "nf4"):
        raise unsupported(f"bf16, f16, f32 and nf4 (by bitsandbytes) run here, not {cell['weights']}")


def leave_out(args, cell):
    """Large packages that transformers imports where it finds them, though a step has no use for them."""
    for name in LARGE:
        sys.modules.setdefault(name, None)
    if cell["weights"] != "nf4":
        sys.modules.setdefault("accelerate", None)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


# ---- the model ----


def config_of(cell, kind):
    s = cell["shape"]
    rope = next(value for start, value in ROPES.items() if cell["model"].startswith(start))
    extra = {"sliding_window": None} if cell["architecture"] == "mistral" else {}
    return kind(vocab_size=s["vocab"], hidden_size=s["hidden"], intermediate_size=s["ffn"], num_hidden_layers=s["layers"],
                num_attention_heads=s["heads"], num_key_value_heads=s["kv_heads"], head_dim=s["head_dim"],
                max_position_embeddings=max(131072, cell["context"]), rope_parameters=dict(rope),
                tie_word_embeddings=protocol.is_tied(cell), pad_token_id=None, bos_token_id=None, eos_token_id=None, **extra)


def register_attention(name):
    """An attention of its own under "batchone": without a mask function, transformers makes no mask for it."""
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    def flash_attn(module, query, key, value, attention_mask, scaling=None, **kwargs):
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))
        return kernels.flash_attn_func(q, k, v, softmax_scale=scaling), None

    def flashinfer(module, query, key, value, attention_mask, scaling=None, **kwargs):
        out = kernels.single_decode_with_kv_cache(query[0, :, 0], key[0], value[0], kv_layout="HND", sm_scale=scaling)
        return out.view(1, 1, *out.shape), None

    if name in PACKAGES:
        kernels = __import__(PACKAGES[name])
        ALL_ATTENTION_FUNCTIONS.register("batchone", {"flash-attn": flash_attn, "flashinfer": flashinfer}[name])
        return getattr(kernels, "__version__", "unknown")
    ALL_ATTENTION_FUNCTIONS.register("batchone", sdpa_attention_forward)
    return torch.__version__


def make_model(args, cell, torch):
    import transformers
    name = CLASSES[cell["architecture"]]
    config = config_of(cell, getattr(transformers, name + "Config"))
    model_class = getattr(transformers, name + "ForCausalLM")
    dtype = {"f16": torch.float16, "f32": torch.float32}.get(cell["weights"], torch.bfloat16)
    own = args.attention in PACKAGES or (args.mask == "none" and args.cache == "static")
    package = register_attention(args.attention) if own else None
    config._attn_implementation = "batchone" if own else "sdpa"
    config.dtype = dtype
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(cell["device"]):
            model = model_class(config)
    finally:
        torch.set_default_dtype(before)
    model.eval().requires_grad_(False)
    if cell["weights"] == "nf4":
        quantise(model, cell, torch)
    return model, dtype, package


def quantise(model, cell, torch):
    """Every matrix of the layers to NF4 with double quantisation, as transformers' own integration does; the head stays."""
    import bitsandbytes as bnb
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, linear in list(part.named_children()):
                if not isinstance(linear, torch.nn.Linear):
                    continue
                new = bnb.nn.Linear4bit(linear.in_features, linear.out_features, bias=linear.bias is not None,
                                        compute_dtype=torch.bfloat16, compress_statistics=True, quant_type="nf4",
                                        device="meta")
                new.weight = bnb.nn.Params4bit(linear.weight.data, requires_grad=False, compress_statistics=True,
                                               quant_type="nf4").to(cell["device"])
                new.bias = linear.bias
                setattr(part, name, new)


def weight_bytes(model):
    """Bytes of weights that a step reads: all of them, of an untied embedding one row; scales of NF4 with them."""
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
    if embedding.data_ptr() != head.data_ptr():
        total -= (embedding.shape[0] - 1) * embedding.shape[1] * embedding.element_size()
    for module in model.modules():
        state = getattr(getattr(module, "weight", None), "quant_state", None)
        if state is not None:
            total += state.absmax.numel() * state.absmax.element_size()
            if state.nested:
                total += state.state2.absmax.numel() * state.state2.absmax.element_size()
    return total


# ---- steps ----


class Decoder:
    """The model and its cache, one step at a time at exactly the cell's context."""

    def __init__(self, args, cell, torch):
        self.args, self.cell, self.torch = args, cell, torch
        self.on_gpu = cell["device"].startswith("cuda")
        self.model, dtype, self.package = make_model(args, cell, torch)
        self.tokens = torch.full((cell["batch"], 1), 1, device=cell["device"])
        self.positions = torch.full((cell["batch"], 1), cell["context"] - 1, device=cell["device"])
        self.call = self.model
        self.logits = None
        self.start = torch.full((), cell["context"] - 1, dtype=torch.int64, device=cell["device"])
        make = self.static_cache if args.cache == "static" else self.dynamic_cache
        self.cache = make(dtype)

    def static_cache(self, dtype):
        from transformers import StaticCache
        torch, cell, config = self.torch, self.cell, self.model.config
        cache = StaticCache(config=config, max_cache_len=cell["context"])
        cache.early_initialization(cell["batch"], config.num_key_value_heads, config.head_dim, dtype,
                                   torch.device(cell["device"]))
        for layer in cache.layers:
            layer.keys.normal_()
            layer.values.normal_()
        self.lengths = [layer.cumulative_length for layer in cache.layers]
        if self.args.mode != "compile":  # one tensor, so that one kernel sets all of them
            self.all_lengths = torch.empty(len(self.lengths), dtype=self.lengths[0].dtype, device=cell["device"])
            for i, layer in enumerate(cache.layers):
                layer.cumulative_length = self.all_lengths[i]
        self.rewind()
        return cache

    def dynamic_cache(self, dtype):
        from transformers import DynamicCache
        torch, cell, config = self.torch, self.cell, self.model.config
        cache = DynamicCache(config=config)
        shape = (cell["batch"], config.num_key_value_heads, cell["context"] - 1, config.head_dim)
        for i in range(config.num_hidden_layers):
            cache.update(*(torch.randn(shape, dtype=dtype, device=cell["device"]) for _ in range(2)), i)
        return cache

    def rewind(self):
        """The cache as before the step."""
        if self.args.cache == "dynamic":
            self.cache.crop(-1)
        elif self.args.mode == "compile":  # they are inputs of the compiled code, and must not share memory
            self.torch._foreach_copy_(self.lengths, [self.start] * len(self.lengths))
        else:
            self.all_lengths.fill_(self.cell["context"] - 1)

    def forward(self):
        self.logits = self.call(input_ids=self.tokens, position_ids=self.positions, past_key_values=self.cache,
                                use_cache=True).logits

    def wait(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def step(self):
        self.forward()
        self.wait()

    def graph_step(self):
        self.graph.replay()
        self.torch.cuda.synchronize()

    def compiled_step(self):
        self.torch.compiler.cudagraph_mark_step_begin()
        self.forward()
        self.wait()

    def prepare(self):
        """Makes the mode's step; returns it."""
        torch = self.torch
        if self.args.mode == "compile":
            self.call = torch.compile(self.model, mode=self.args.compile_mode, fullgraph=True, dynamic=False)
            return self.compiled_step
        if self.args.mode == "eager":
            return self.step
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.forward()
                self.rewind()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.forward()
        self.rewind()
        return self.graph_step

    def attention(self):
        """Which attention ran, seen at a forward pass in which every operator is looked at."""
        from torch.utils._python_dispatch import TorchDispatchMode
        seen = []

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                if "scaled_dot_product" in func.__name__:
                    seen.append(func.__name__)
                return func(*args, **(kwargs or {}))

        with Watch():
            self.forward()
        self.wait()
        self.rewind()
        if self.args.attention in PACKAGES:
            return f"{self.args.attention} {self.package}"
        words = ("flash", "efficient", "cudnn", "math", "overrideable")
        used = sorted({word for name in seen for word in words if word in name}) or ["math"]
        if self.args.attention == "default":
            return "sdpa default: " + "+".join(used)
        return "sdpa " + "+".join(used)


def pinned(args, torch):
    """The context in which one backend alone is allowed."""
    import contextlib
    if args.attention not in BACKENDS:
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel(getattr(SDPBackend, BACKENDS[args.attention]))


def first_pass(decoder, args):
    """One pass, in which a backend that refuses says why, in warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            return decoder.attention()
        except RuntimeError as error:
            if not any(text in str(error) for text in ("No available kernel", "No viable backend", "not support")):
                raise
            reasons = [protocol.one_line(w.message).split(" (Triggered internally")[0] for w in said]
            raise unsupported(f"{args.attention}: {protocol.one_line(error)} {' '.join(reasons)}".strip()) from error


def measure(harness, args):
    cell = harness.cell
    args.mask = args.mask or ("auto" if args.attention == "default" else "none")
    harness.is_called(name_of(args), "transformers", "torch")
    check(args, cell)
    leave_out(args, cell)
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    if cell["device"] == "cpu" and cell.get("threads"):
        torch.set_num_threads(cell["threads"])
    if args.attention == "flashinfer" and cell["batch"] != 1:
        raise unsupported("flashinfer's single-sequence kernel takes a batch of 1")
    with torch.no_grad(), pinned(args, torch):
        decoder = Decoder(args, cell, torch)
        attention = first_pass(decoder, args)
        step = decoder.prepare()
        warmed = protocol.warm(step, decoder.rewind, args.warm, 3)
        harness.hello(attention=attention, cache=args.cache, mask="none" if args.cache == "dynamic" else args.mask,
                      warmed_steps=warmed, weight_bytes=weight_bytes(decoder.model), weights=cell["weights"],
                      values="random", cuda=torch.version.cuda, finite=bool(decoder.logits.isfinite().all()))
        times = harness.steps(step, decoder.rewind)
        if cell.get("profile"):
            import torch_profile
            harness.say({"profile": torch_profile.profile(torch, step, decoder.rewind, cell, args.profile_steps,
                                                          statistics.median(times) / 1e6)})


if __name__ == "__main__":
    protocol.serve(measure, arguments())
