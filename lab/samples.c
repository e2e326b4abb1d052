/* SPDX-License-Identifier: MIT
 *
 * Rows of samples. See samples.h.
 */
#include "lab/samples.h"

#include "lab/files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME "samples.jsonl"

bool b1i_sample_throttled(const b1i_lab_plan *plan, const b1i_sample *s)
{
    bool slow = s->sm_mhz > 0 && s->sm_mhz < B1I_THROTTLED_BELOW * plan->warm_mhz;
    return slow || s->cpu_throttles > 0;
}

size_t b1i_sample_text(const b1i_lab_plan *plan, const b1i_sample *s, char *text)
{
    char clock[48] = "", throttles[48] = "";
    if (s->sm_mhz > 0) snprintf(clock, sizeof clock, ",\"sm_mhz\":%.3f", s->sm_mhz);
    if (s->cpu_throttles)
        snprintf(throttles, sizeof throttles, ",\"cpu_throttles\":%llu", (unsigned long long)s->cpu_throttles);
    int n = snprintf(text, B1I_SAMPLE_TEXT, "{\"cell\":\"%s\",\"kind\":\"%s\",\"round\":%d,\"ns\":%.3f%s%s%s}\n",
                     plan->cells[s->cell].name, b1i_lab_kind_names[s->kind], s->round, s->ns, clock, throttles,
                     b1i_sample_throttled(plan, s) ? ",\"throttled\":true" : "");
    return (size_t)n;
}

void b1i_samples_free(b1i_samples *samples)
{
    b1i_free(samples->rows);
    *samples = (b1i_samples){0};
}

/* Where reading is: the row that must come next. */
typedef struct reader {
    const b1i_lab_plan *plan;
    size_t *order; /* of the round */
    size_t measured, at;
    unsigned kind;
    int round;
    size_t line;
} reader;

static void next_kind(reader *r)
{
    while (r->kind < b1i_lab_kinds && !(r->plan->cells[r->order[r->at]].kinds & 1u << r->kind)) r->kind++;
}

static void begin_round(reader *r)
{
    r->round++;
    r->at = 0;
    r->kind = 0;
    r->measured = b1i_lab_plan_order(r->plan, r->round, r->order);
    if (r->measured) next_kind(r);
}

/* To the row after this one; true where the round ends here. */
static bool advance(reader *r)
{
    r->kind++;
    next_kind(r);
    if (r->kind < b1i_lab_kinds) return false;
    r->kind = 0;
    if (++r->at == r->measured) return true;
    next_kind(r);
    return false;
}

static b1_status read_row(const reader *r, json_t *j, b1i_sample *s, b1_error *err)
{
    const char *cell, *kind;
    const b1i_lab_plan_cell *planned = &r->plan->cells[r->order[r->at]];
    json_t *clock = NULL;
    json_int_t throttles = 0, round;
    int throttled = 0;
    *s = (b1i_sample){.cell = (uint32_t)r->order[r->at], .kind = (b1i_lab_kind)r->kind, .round = r->round};
    if (json_unpack(j, "{s:s,s:s,s:I,s:F,s?o,s?I,s?b!}", "cell", &cell, "kind", &kind, "round", &round, "ns", &s->ns,
                    "sm_mhz", &clock, "cpu_throttles", &throttles, "throttled", &throttled) != 0)
        return b1i_fail(err, B1_IO, NAME ": line %zu: a key is missing, of another type, or unknown", r->line);
    if (strcmp(cell, planned->name) != 0 || strcmp(kind, b1i_lab_kind_names[r->kind]) != 0 || round != r->round)
        return b1i_fail(err, B1_IO,
                        NAME ": line %zu: is %s of \"%s\" in round %lld; the plan has %s of \"%s\" in round %d there",
                        r->line, kind, cell, (long long)round, b1i_lab_kind_names[r->kind], planned->name, r->round);
    if (!(s->ns >= 0) || !isfinite(s->ns)) return b1i_fail(err, B1_IO, NAME ": line %zu: ns is no time", r->line);
    s->sm_mhz = json_number_value(clock);
    s->cpu_throttles = throttles > 0 ? (uint64_t)throttles : 0;
    if ((clock && !(s->sm_mhz > 0)) || throttles < 0)
        return b1i_fail(err, B1_IO, NAME ": line %zu: a clock or count is out of its range", r->line);
    if (r->plan->warm_mhz > 0 && !clock)
        return b1i_fail(err, B1_IO, NAME ": line %zu: has no clock, and the plan has a warm one", r->line);
    if ((throttled != 0) != b1i_sample_throttled(r->plan, s))
        return b1i_fail(err, B1_IO, NAME ": line %zu: \"throttled\" does not follow from the row", r->line);
    return B1_OK;
}

static b1_status read_line(const reader *r, const char *line, size_t bytes, b1i_samples *out, b1_error *err)
{
    char name[64];
    json_t *j;
    b1i_sample s;
    snprintf(name, sizeof name, NAME ": line %zu", r->line);
    b1_status st = b1i_lab_parse(line, bytes, name, &j, err);
    if (st == B1_OK) st = read_row(r, j, &s, err);
    json_decref(j);
    if (st != B1_OK) return st;
    if (!b1i_grow(&out->rows, &out->room, out->count + 1, sizeof *out->rows))
        return b1i_fail_memory(err, out->count * sizeof *out->rows);
    out->rows[out->count++] = s;
    return B1_OK;
}

static b1_status read_rows(reader *r, const char *text, size_t bytes, b1i_samples *out, b1_error *err)
{
    size_t whole = 0, at = 0;
    begin_round(r);
    while (at < bytes) {
        const char *end = memchr(text + at, '\n', bytes - at);
        if (!end) break;
        r->line++;
        if (r->round > r->plan->rounds || !r->measured)
            return b1i_fail(err, B1_IO, NAME ": line %zu: the plan has %d rounds of %zu rows", r->line, r->plan->rounds,
                            b1i_lab_plan_rows(r->plan));
        size_t length = (size_t)(end - text) - at;
        b1_status st = read_line(r, text + at, length, out, err);
        if (st != B1_OK) return st;
        at += length + 1;
        if (!advance(r)) continue;
        whole = out->count;
        out->bytes = at;
        out->rounds = r->round;
        begin_round(r);
    }
    out->count = whole;
    return B1_OK;
}

b1_status b1i_samples_read(const char *directory, const b1i_lab_plan *plan, bool all, b1i_samples *out, b1_error *err)
{
    b1_status st;
    char *text = NULL;
    size_t bytes = 0;
    reader r = {.plan = plan};
    *out = (b1i_samples){0};
    if (!(r.order = b1i_malloc((plan->count + 1) * sizeof *r.order)))
        return b1i_fail_memory(err, plan->count * sizeof *r.order);
    B1I_TRY(b1i_lab_read(directory, NAME, &text, &bytes, err));
    B1I_TRY(read_rows(&r, text, bytes, out, err));
    size_t rows = b1i_lab_plan_rows(plan);
    if (all && (out->bytes != bytes || (rows && out->rounds != plan->rounds)))
        st = b1i_fail(err, B1_IO, NAME ": ends in line %zu; the plan has %d rounds of %zu rows", r.line, plan->rounds,
                      rows);
fail:
    if (st != B1_OK) b1i_samples_free(out);
    b1i_free(r.order);
    b1i_free(text);
    return st;
}
