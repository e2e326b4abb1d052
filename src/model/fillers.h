/* SPDX-License-Identifier: MIT
 *
 * Random weights, one filler per format: what b1i_formats[].random points to.
 */
#ifndef B1I_FILLERS_H
#define B1I_FILLERS_H

#include "model/format.h"

#define B1I_FILLER(name, elements, bytes, gguf) \
    void b1i_fill_##name(uint64_t seed, int64_t count, float scale, uint8_t *blocks);
B1I_FORMATS(B1I_FILLER)
#undef B1I_FILLER

#endif
