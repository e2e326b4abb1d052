#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random blocks of every quantised weight format and their values, as the PyPI package `gguf` dequantises them.

    python tools/make_format_fixtures.py [FOLDER]        (needs numpy and gguf; FOLDER: tests/fixtures/formats)

Writes NAME.bin per format: int32 number of elements, int32 bytes of the blocks, the blocks, the values as f32.
All bits of the quants and of the packed sub-block scales are random, so every sub-block differs from its neighbours;
the half-precision scales are finite and of both signs. The first block holds extremes: all quants zero, then all ones.
"""
import pathlib, struct, sys
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize

# name, type, elements and bytes of a block, offsets of its f16 fields
FORMATS = [
    ("q8_0", T.Q8_0, 32, 34, [0]),
    ("q4_0", T.Q4_0, 32, 18, [0]),
    ("q4_1", T.Q4_1, 32, 20, [0, 2]),
    ("q5_0", T.Q5_0, 32, 22, [0]),
    ("q5_1", T.Q5_1, 32, 24, [0, 2]),
    ("q4_k", T.Q4_K, 256, 144, [0, 2]),
    ("q5_k", T.Q5_K, 256, 176, [0, 2]),
    ("q6_k", T.Q6_K, 256, 210, [208]),
]

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures/formats")
folder.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(7)
for name, kind, elements, size, halves in FORMATS:
    count = 2048 // elements + 2
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    blocks[0], blocks[1] = 0, 255
    for at in halves:
        scale = (rng.uniform(0.5, 2, count) * rng.choice([-1, 1], count) * 10.0 ** rng.integers(-4, 2, count)).astype("<f2")
        blocks[:, at:at + 2] = scale.view(np.uint8).reshape(count, 2)
    values = dequantize(blocks, kind).astype("<f4").reshape(-1)
    assert values.size == count * elements and np.isfinite(values).all()
    (folder / f"{name}.bin").write_bytes(struct.pack("<ii", values.size, blocks.size) + blocks.tobytes() + values.tobytes())
    print(name, values.size)
