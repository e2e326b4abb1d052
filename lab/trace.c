/* SPDX-License-Identifier: MIT
 *
 * Traces as CSV and for Perfetto, and what follows from them. See trace.h.
 */
#include "lab/trace.h"

#include "lab/evidence.h"
#include "lab/files.h"
#include "lab/trace_room.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "job,stage,unit,begin_ns,end_ns\n"

/* ---- text that grows ---- */

typedef struct growing {
    char *bytes;
    size_t count, room;
    bool failed;
} growing;

__attribute__((format(printf, 2, 3))) static void add(growing *t, const char *format, ...)
{
    va_list values;
    if (t->failed || !b1i_grow(&t->bytes, &t->room, t->count + 256, 1)) {
        t->failed = true;
        return;
    }
    va_start(values, format);
    int n = vsnprintf(t->bytes + t->count, t->room - t->count, format, values);
    va_end(values);
    t->failed = n < 0 || (size_t)n >= t->room - t->count;
    if (!t->failed) t->count += (size_t)n;
}

/* ---- facts ---- */

static int by_job(const void *a, const void *b)
{
    const b1i_trace_span *x = a, *y = b;
    if (x->job != y->job) return x->job < y->job ? -1 : 1;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    return x->begin_ns < y->begin_ns ? -1 : x->begin_ns > y->begin_ns;
}

static int by_unit(const void *a, const void *b)
{
    uint32_t x = ((const b1i_trace_span *)a)->unit, y = ((const b1i_trace_span *)b)->unit;
    return x < y ? -1 : x > y;
}

/* The first A's begin, or the first span's where there is no A; the last A's end. */
static void edges(const b1i_trace_span *spans, size_t count, uint64_t *first_a, uint64_t *last_a, uint64_t *last)
{
    bool any = false;
    *first_a = count ? spans[0].begin_ns : 0;
    *last_a = *last = 0;
    for (size_t i = 0; i < count; i++) {
        const b1i_trace_span *s = &spans[i];
        if (s->end_ns > *last) *last = s->end_ns;
        if (s->stage != 'A') continue;
        if (!any || s->begin_ns < *first_a) *first_a = s->begin_ns;
        if (s->end_ns > *last_a) *last_a = s->end_ns;
        any = true;
    }
}

json_t *b1i_trace_facts(const b1i_trace_span *spans, size_t count)
{
    uint64_t first_a, last_a, last;
    size_t jobs = 0, units = 0, early = 0;
    bool complete = count > 0, ordered = true;
    b1i_trace_span *sorted = b1i_malloc((count + 1) * sizeof *sorted);
    if (!sorted) return NULL;
    if (count) memcpy(sorted, spans, count * sizeof *sorted);
    edges(spans, count, &first_a, &last_a, &last);
    qsort(sorted, count, sizeof *sorted, by_unit);
    for (size_t i = 0; i < count; i++) units += i == 0 || sorted[i].unit != sorted[i - 1].unit;
    qsort(sorted, count, sizeof *sorted, by_job);
    for (size_t i = 0, next; i < count; i = next, jobs++) {
        for (next = i; next < count && sorted[next].job == sorted[i].job;) next++;
        bool whole = next - i == 2 && sorted[i].stage == 'A' && sorted[i + 1].stage == 'B';
        complete = complete && whole && sorted[i].job == jobs;
        ordered = ordered && whole && sorted[i + 1].begin_ns >= sorted[i].end_ns;
        for (size_t k = i; k < next; k++)
            if (sorted[k].stage == 'B' && sorted[k].begin_ns < last_a) {
                early++;
                break;
            }
    }
    b1i_free(sorted);
    return json_pack("{s:I,s:I,s:I,s:I,s:b,s:b}", "jobs", (json_int_t)jobs, "units", (json_int_t)units, "early_jobs",
                     (json_int_t)early, "span_ns", (json_int_t)(last > first_a ? last - first_a : 0), "complete",
                     complete, "ordered", ordered && count > 0);
}

/* ---- writing ---- */

static void perfetto(growing *t, const b1i_trace_span *spans, size_t count)
{
    uint64_t first_a, last_a, last;
    edges(spans, count, &first_a, &last_a, &last);
    add(t, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for (size_t i = 0; i < count; i++) {
        const b1i_trace_span *s = &spans[i];
        double begin = s->begin_ns >= first_a ? (double)(s->begin_ns - first_a) : -(double)(first_a - s->begin_ns);
        add(t,
            "{\"name\":\"%c %" PRIu32 "\",\"cat\":\"%c\",\"ph\":\"X\",\"pid\":0,\"tid\":%" PRIu32
            ",\"ts\":%.3f,\"dur\":%.3f}%s\n",
            s->stage, s->job, s->stage, s->unit, begin / 1e3, (double)(s->end_ns - s->begin_ns) / 1e3,
            i + 1 < count ? "," : "");
    }
    add(t, "]}\n");
}

b1_status b1i_trace_perfetto(const b1i_trace_span *spans, size_t count, char **out, size_t *bytes, b1_error *err)
{
    growing t = {0};
    perfetto(&t, spans, count);
    *out = NULL;
    if (t.failed) {
        b1i_free(t.bytes);
        return b1i_fail_memory(err, t.room);
    }
    *out = t.bytes;
    *bytes = t.count;
    return B1_OK;
}

b1_status b1i_trace_write(struct b1i_evidence *evidence, const char *name, const b1i_trace_span *spans, size_t count,
                          b1_error *err)
{
    b1_status st = B1_OK;
    char file[220], *events = NULL;
    size_t bytes = 0;
    growing t = {0};
    add(&t, HEADER);
    for (size_t i = 0; i < count && st == B1_OK; i++) {
        const b1i_trace_span *s = &spans[i];
        if ((s->stage != 'A' && s->stage != 'B') || s->end_ns < s->begin_ns)
            st = b1i_fail(err, B1_DEVICE, "the trace %s has a stage '%c' of job %" PRIu32 " that ends before it begins",
                          name, s->stage, s->job);
        add(&t, "%" PRIu32 ",%c,%" PRIu32 ",%" PRIu64 ",%" PRIu64 "\n", s->job, s->stage, s->unit, s->begin_ns,
            s->end_ns);
    }
    if (st == B1_OK && t.failed) st = b1i_fail_memory(err, t.room);
    if (st != B1_OK) goto fail;
    snprintf(file, sizeof file, "traces/%s.csv", name);
    B1I_TRY(b1i_evidence_text(evidence, file, t.bytes, t.count, err));
    B1I_TRY(b1i_trace_perfetto(spans, count, &events, &bytes, err));
    snprintf(file, sizeof file, "traces/%s.perfetto.json", name);
    B1I_TRY(b1i_evidence_text(evidence, file, events, bytes, err));
fail:
    b1i_free(events);
    b1i_free(t.bytes);
    return st;
}

/* ---- reading ---- */

/* A number that ends in `end`; *at is moved past it. */
static bool number(const char **at, char end, uint64_t most, uint64_t *value)
{
    const char *c = *at;
    *value = 0;
    if (*c < '0' || *c > '9' || (*c == '0' && c[1] != end)) return false;
    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(*value, 10u, value) || __builtin_add_overflow(*value, (uint64_t)(*c - '0'), value))
            return false;
    if (*c != end || *value > most) return false;
    *at = c + 1;
    return true;
}

static bool read_span(const char **at, b1i_trace_span *s)
{
    uint64_t job, unit;
    if (!number(at, ',', UINT32_MAX, &job)) return false;
    s->stage = **at;
    if ((s->stage != 'A' && s->stage != 'B') || (*at)[1] != ',') return false;
    *at += 2;
    if (!number(at, ',', UINT32_MAX, &unit) || !number(at, ',', UINT64_MAX, &s->begin_ns) ||
        !number(at, '\n', UINT64_MAX, &s->end_ns))
        return false;
    s->job = (uint32_t)job;
    s->unit = (uint32_t)unit;
    return s->end_ns >= s->begin_ns;
}

b1_status b1i_trace_read(const char *path, b1i_trace_span **out, size_t *count, b1_error *err)
{
    char *text = NULL;
    size_t bytes, room = 0;
    b1_error why = {0};
    *out = NULL;
    *count = 0;
    b1_status st = b1i_read_file(path, (size_t)1 << 30, &text, &bytes, &why);
    if (st != B1_OK) return b1i_fail(err, st == B1_MODEL ? B1_IO : st, "%s", why.message);
    const char *at = text;
    if (strncmp(at, HEADER, strlen(HEADER)) != 0) {
        st = b1i_fail(err, B1_IO, "%s: line 1 is not \"job,stage,unit,begin_ns,end_ns\"", path);
        goto fail;
    }
    for (at += strlen(HEADER); at < text + bytes;) {
        if (!b1i_grow(out, &room, *count + 1, sizeof **out)) {
            st = b1i_fail_memory(err, room * sizeof **out);
            goto fail;
        }
        if (!read_span(&at, &(*out)[*count])) {
            st = b1i_fail(err, B1_IO, "%s: line %zu is no whole row", path, *count + 2);
            goto fail;
        }
        ++*count;
    }
fail:
    b1i_free(text);
    if (st != B1_OK) {
        b1i_free(*out);
        *out = NULL;
        *count = 0;
    }
    return st;
}
