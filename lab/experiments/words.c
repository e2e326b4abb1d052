/* SPDX-License-Identifier: MIT
 *
 * Words that are known, and memory that is compared with them. See words.h.
 */
#include "lab/experiments/words.h"

#include "lab/lab.h"

#include <string.h>

enum { CHUNK_BYTES = 4 << 20 };

static size_t chunk_of(uint64_t left) { return left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES; }

/* Words `first` … first + count − 1 to `to`, and into the sums. */
static void make_words(uint64_t *to, uint64_t first, size_t count, b1i_words_sum *s)
{
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = b1i_mix64(first + i);
        s->sum += (uint32_t)word + (uint32_t)(word >> 32);
        s->mix ^= word;
        to[i] = word;
    }
}

b1_status b1i_words_put(b1i_lab_device *device, uint64_t memory, uint64_t bytes, uint64_t piece, b1i_words_sum *sums,
                        b1_error *err)
{
    b1_status st = B1_OK;
    uint64_t *chunk = b1i_malloc(CHUNK_BYTES);
    if (!chunk) return b1i_fail_memory(err, CHUNK_BYTES);
    memset(sums, 0, (size_t)(bytes / piece) * sizeof *sums);
    for (uint64_t at = 0; at < bytes;) {
        const size_t some = chunk_of(bytes - at);
        for (uint64_t from = at; from < at + some;) { /* the chunk's parts, each of one piece */
            const uint64_t end = (from / piece + 1) * piece, to = end < at + some ? end : at + some;
            make_words(chunk + (from - at) / 8, from / 8, (size_t)(to - from) / 8, &sums[from / piece]);
            from = to;
        }
        B1I_TRY(b1i_lab_put(device, memory + at, chunk, some, err));
        at += some;
    }
fail:
    b1i_free(chunk);
    return st;
}

/* What must stand at `byte`. */
static uint64_t word_of(const b1i_words_rule *rule, uint64_t byte)
{
    if (rule->kind == b1i_words_own) return b1i_mix64(byte / 8);
    const uint32_t place = (uint32_t)byte % rule->tile / 4; /* a tile is a power of two */
    return (place * rule->step + rule->seed) | (uint64_t)((place + 1) * rule->step + rule->seed) << 32;
}

b1_status b1i_words_check(b1i_lab_device *device, const char *what, const b1i_words_rule *rule, uint64_t memory,
                          uint64_t offset, uint64_t bytes, b1_error *err)
{
    b1_status st = B1_OK;
    const size_t room = chunk_of(bytes);
    uint64_t *chunk = b1i_malloc(room ? room : 1);
    if (!chunk) return b1i_fail_memory(err, room);
    for (uint64_t at = offset; at < offset + bytes;) {
        const size_t some = chunk_of(offset + bytes - at);
        B1I_TRY(b1i_lab_get(device, chunk, memory + at, some, err));
        if (b1i_lab_plant) b1i_lab_plant(what, chunk, some);
        for (size_t i = 0; i < some / 8; i++) {
            const uint64_t must = word_of(rule, at + i * 8);
            if (chunk[i] == must) continue;
            st = b1i_fail(err, B1_DEVICE, "%s: at byte %llu there is %016llx, expected %016llx", what,
                          (unsigned long long)(at + i * 8), (unsigned long long)chunk[i], (unsigned long long)must);
            goto fail;
        }
        at += some;
    }
fail:
    b1i_free(chunk);
    return st;
}
