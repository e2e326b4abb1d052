/* SPDX-License-Identifier: MIT
 *
 * The oracle of `tiles`: lane by lane, in 64 bits with the remainder by 2^32 taken where the definition takes it.
 */
#include "lab/oracle_tiles.h"

#include <inttypes.h>

static const uint64_t WORD = 0xffffffff;

/* One lane through one stage. */
static uint64_t stage(uint64_t x, uint32_t rounds)
{
    for (uint64_t i = 0; i < rounds; i++) {
        x = (x ^ x * 0x2000) & WORD;
        x = x ^ x / 0x20000;
        x = (x ^ x * 0x20) & WORD;
        x = (x * 1664525 + i) & WORD;
    }
    return x;
}

void b1i_oracle_tiles(const uint32_t *iterations, uint32_t jobs, uint32_t consume, uint32_t *out)
{
    uint64_t left[B1I_ORACLE_LANES];
    for (uint64_t job = 0; job < jobs; job++) {
        for (uint64_t lane = 0; lane < B1I_ORACLE_LANES; lane++)
            left[lane] = stage((job * B1I_ORACLE_LANES + lane + 1) * 2654435769 & WORD, iterations[job]);
        for (size_t lane = 0; lane < B1I_ORACLE_LANES; lane++) {
            const uint64_t other = left[lane + 97 < B1I_ORACLE_LANES ? lane + 97 : lane + 97 - B1I_ORACLE_LANES];
            *out++ = (uint32_t)stage((left[lane] + other * 7) & WORD, consume);
        }
    }
}

b1_status b1i_oracle_tiles_equal(const char *what, const uint32_t *got, const uint32_t *want, uint32_t jobs,
                                 b1_error *err)
{
    size_t wrong = 0, first = 0;
    for (size_t i = (size_t)jobs * B1I_ORACLE_LANES; i-- > 0;)
        if (got[i] != want[i]) {
            wrong++;
            first = i;
        }
    if (!wrong) return B1_OK;
    return b1i_fail(err, B1_DEVICE,
                    "%s: %zu of %zu words are not the oracle's; job %zu, lane %zu: 0x%08" PRIx32
                    ", expected 0x%08" PRIx32,
                    what, wrong, (size_t)jobs * B1I_ORACLE_LANES, first / B1I_ORACLE_LANES, first % B1I_ORACLE_LANES,
                    got[first], want[first]);
}
