#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Quantiles, their intervals and bootstrap intervals of fixed data as C constants.

    python tools/make_stats_cases.py > tests/stats_cases.h

Quantiles are numpy's (method "linear"), intervals of a percentile come from scipy's binomial distribution, and the
bootstrap is repeated here with numpy's medians and quantiles on the indices that the documented generator gives; each
of its intervals is also compared with scipy.stats.bootstrap's (paired, percentile), whose generator is its own: bounds
further apart than a tenth of the interval's width end the script. Needs numpy and scipy.
"""
import sys

import numpy as np
from scipy import stats

MASK = (1 << 64) - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def data(name, n, seed):
    g = np.random.default_rng(seed)
    made = {
        "normal": lambda: g.normal(1000.0, 30.0, n),
        "lognormal": lambda: g.lognormal(8.0, 0.7, n),
        "ties": lambda: g.integers(5, 9, n).astype(float) * 32.0,
        "two peaks": lambda: np.where(g.random(n) < 0.3, 500.0, 200.0) + g.random(n),
    }[name]()
    return np.round(made, 3)


def numbers(values):
    return ", ".join(repr(float(v)) for v in values)


def percentile_cases():
    print("static const struct percentile_case {\n    const char *name;\n    size_t count;\n"
          "    double values[64], p10, p50, p90, p97_5;\n} percentile_cases[] = {")
    for i, (name, n) in enumerate([("normal", 1), ("normal", 2), ("lognormal", 20), ("lognormal", 21), ("ties", 33),
                                   ("two peaks", 64)]):
        v = data(name, n, 100 + i)
        q = np.percentile(v, [10, 50, 90, 97.5], method="linear")
        print(f'    {{"{name}", {n}, {{{numbers(v)}}}, {numbers(q)}}},')
    print("};\n")


def interval_of(n, q):
    """The largest l with P(B < l) <= 2.5 % and the smallest h with P(B >= h) <= 2.5 %, B of Binomial(n, q)."""
    b = stats.binom(n, q)
    low = max((l for l in range(1, n + 1) if b.cdf(l - 1) <= 0.025), default=0)
    high = min((h for h in range(1, n + 1) if b.sf(h - 1) <= 0.025), default=0)
    return low, high


def interval_cases():
    print("static const struct interval_case {\n    size_t count;\n    double p;\n    size_t low, high;\n"
          "} interval_cases[] = {")
    for p in (10, 50, 90):
        for n in [*range(1, 65), 100, 1000]:
            low, high = interval_of(n, p / 100)
            print(f"    {{{n}, {p}, {low}, {high}}},")
    print("};\n")


def bootstrap(a, b, resamples, seed):
    n = len(a)
    picks = np.array([[(mix64((seed + r * n + k) & MASK) * n) >> 64 for k in range(n)] for r in range(resamples)])
    ratios = np.median(a[picks], axis=1) / np.median(b[picks], axis=1)
    return np.percentile(ratios, [2.5, 97.5], method="linear")


def bootstrap_cases():
    resamples = 10000
    print("static const struct bootstrap_case {\n    const char *name;\n    size_t count, resamples;\n"
          "    uint64_t seed;\n    double a[64], b[64], low, high;\n} bootstrap_cases[] = {")
    for i, (name, n) in enumerate([("normal", 21), ("lognormal", 21), ("ties", 30), ("two peaks", 64)]):
        a, b, seed = data(name, n, 200 + i), data(name, n, 300 + i), (0, 12345, (1 << 53) - 1, MASK)[i]
        low, high = bootstrap(a, b, resamples, seed)
        theirs = stats.bootstrap((a, b), lambda x, y, axis: np.median(x, axis=axis) / np.median(y, axis=axis),
                                 n_resamples=resamples, paired=True, method="percentile",
                                 random_state=np.random.default_rng(1)).confidence_interval
        for mine, other in ((low, theirs.low), (high, theirs.high)):
            if abs(mine - other) > 0.1 * (high - low):
                sys.exit(f"{name}: [{low}, {high}], scipy says [{theirs.low}, {theirs.high}]")
        print(f'    {{"{name}", {n}, {resamples}, {seed}u, {{{numbers(a)}}}, {{{numbers(b)}}}, {numbers([low, high])}}},')
    print("};")


print("/* SPDX-License-Identifier: MIT */\n/* Made by tools/make_stats_cases.py; do not edit. */\n/* clang-format off */")
percentile_cases()
interval_cases()
bootstrap_cases()
print("/* clang-format on */")
