/* SPDX-License-Identifier: MIT
 *
 * Kernels that know time and nothing else: a spin of known length, and the SM's clock against globaltimer.
 */
#include "common.cuh"
#include "probe_args.h"

extern "C" __global__ void k_spin(const __grid_constant__ b1i_spin_args a)
{
    const uint64_t from = global_ns();
    while (global_ns() - from < a.ns) {}
}

/* Begins and ends at steps of globaltimer, so that its resolution costs no more than one step of either end. */
extern "C" __global__ void k_clock(const __grid_constant__ b1i_clock_args a)
{
    uint64_t seen = global_ns(), from, now, tick = ~0ull;
    while ((from = global_ns()) == seen) {}
    const long long cycles = clock64();
    now = seen = from;
    do {
        while ((now = global_ns()) == seen) {}
        if (now - seen < tick) tick = now - seen;
        seen = now;
    } while (now - from < a.ns);
    uint64_t *out = reinterpret_cast<uint64_t *>(a.out);
    out[0] = clock64() - cycles;
    out[1] = now - from;
    out[2] = tick;
}
