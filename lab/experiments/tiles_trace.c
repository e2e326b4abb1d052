/* SPDX-License-Identifier: MIT
 *
 * What a trace of `tiles` must show before it is written: that every job was seen, once, and that the variant did what
 * its name says.
 */
#include "lab/experiments/tiles.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static b1_status check_marks(const b1i_tiles_mark *marks, uint32_t jobs, b1_error *err)
{
    for (uint32_t stage = 0; stage < 2; stage++)
        for (uint32_t job = 0; job < jobs; job++) {
            const b1i_tiles_mark *m = &marks[(size_t)stage * jobs + job];
            if (m->times != 1)
                return b1i_fail(err, B1_DEVICE,
                                "the trace has stage %c of job %" PRIu32 " %" PRIu32 " times, expected once",
                                "AB"[stage], job, m -> times);
            if (m->end_ns < m->begin_ns)
                return b1i_fail(err, B1_DEVICE, "in the trace stage %c of job %" PRIu32 " ends before it begins",
                                "AB"[stage], job);
        }
    for (uint32_t job = 0; job < jobs; job++)
        if (marks[jobs + job].begin_ns < marks[job].end_ns)
            return b1i_fail(err, B1_DEVICE, "in the trace B of job %" PRIu32 " begins before its A ends", job);
    return B1_OK;
}

static b1_status check_variant(b1i_tiles_variant variant, const b1i_tiles_mark *marks, uint32_t jobs, b1_error *err)
{
    uint64_t last = 0;
    for (uint32_t job = 0; job < jobs; job++)
        if (marks[job].end_ns > last) last = marks[job].end_ns;
    for (uint32_t job = 0; job < jobs; job++) {
        const b1i_tiles_mark *a = &marks[job], *b = &marks[jobs + job];
        if (variant == b1i_tiles_separate && b->begin_ns < last)
            return b1i_fail(err, B1_DEVICE, "in the trace B of job %" PRIu32 " begins before the last A ends", job);
        if ((variant == b1i_tiles_fused || variant == b1i_tiles_queue) && a->unit != b->unit)
            return b1i_fail(err, B1_DEVICE,
                            "in the trace A and B of job %" PRIu32 " are on units %" PRIu32 " and %" PRIu32
                            ", expected one",
                            job, a->unit, b->unit);
        if (variant == b1i_tiles_semaphore && a->unit == b->unit)
            return b1i_fail(err, B1_DEVICE, "in the trace A and B of job %" PRIu32 " are both on unit %" PRIu32, job,
                            a->unit);
    }
    return B1_OK;
}

static int by_unit_and_time(const void *a, const void *b)
{
    const b1i_trace_span *x = a, *y = b;
    if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
    if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* No unit does two things at once. */
static b1_status check_units(const b1i_trace_span *spans, size_t count, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_trace_span *s = b1i_malloc(count * sizeof *s);
    if (!s) return b1i_fail_memory(err, count * sizeof *s);
    memcpy(s, spans, count * sizeof *s);
    qsort(s, count, sizeof *s, by_unit_and_time);
    for (size_t i = 1; i < count && st == B1_OK; i++)
        if (s[i].unit == s[i - 1].unit && s[i].begin_ns < s[i - 1].end_ns)
            st = b1i_fail(err, B1_DEVICE,
                          "in the trace unit %" PRIu32 " is in %c of job %" PRIu32 " and in %c of job "
                          "%" PRIu32 " at once",
                          s[i].unit, s[i - 1].stage, s[i - 1].job, s[i].stage, s[i].job);
    b1i_free(s);
    return st;
}

b1_status b1i_tiles_trace_spans(b1i_tiles_variant variant, const b1i_tiles_mark *marks, uint32_t jobs,
                                b1i_trace_span *spans, b1_error *err)
{
    b1_status st;
    B1I_TRY(check_marks(marks, jobs, err));
    B1I_TRY(check_variant(variant, marks, jobs, err));
    for (uint32_t job = 0; job < jobs; job++)
        for (uint32_t stage = 0; stage < 2; stage++) {
            const b1i_tiles_mark *m = &marks[(size_t)stage * jobs + job];
            *spans++ = (b1i_trace_span){job, m->unit, "AB"[stage], m -> begin_ns, m -> end_ns};
        }
    B1I_TRY(check_units(spans - 2 * (size_t)jobs, 2 * (size_t)jobs, err));
fail:
    return st;
}
