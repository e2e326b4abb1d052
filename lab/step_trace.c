/* SPDX-License-Identifier: MIT
 *
 * What was seen of some steps. See step_trace.h.
 */
#include "lab/step_trace.h"

#include "lab/files.h"
#include "lab/stats.h"

#include <sha2.h>
#include <stdlib.h>
#include <string.h>

static const char *const what_names[] = {
    [b1i_step_kernel] = "kernel", [b1i_step_memset] = "memset", [b1i_step_copy] = "copy", [b1i_step_graph] = "graph"};

/* ---- where the layers lie ---- */

/* The i-th place of `name`, every `stride`-th of them counted; count where there is none. */
static size_t next_place(const char *const *names, size_t count, const char *name, size_t from, size_t stride)
{
    for (size_t i = from; i < count; i++)
        if (strcmp(names[i], name) == 0 && stride-- == 1) return i;
    return count;
}

static size_t times_of(const char *const *names, size_t count, const char *name)
{
    size_t times = 0;
    for (size_t i = 0; i < count; i++) times += strcmp(names[i], name) == 0;
    return times;
}

/* A kernel that occurs once a layer, or failing that equally often in each; `stride`: how often. Its first place. */
static bool find_anchor(const char *const *names, size_t count, size_t layers, size_t *at, size_t *stride)
{
    *stride = 0;
    for (size_t i = 0; i < count; i++) {
        if (next_place(names, i, names[i], 0, 1) < i) continue; /* seen before */
        const size_t times = times_of(names, count, names[i]);
        if (times % layers || (*stride && times / layers >= *stride)) continue;
        *at = i;
        *stride = times / layers;
        if (*stride == 1) break;
    }
    return *stride > 0;
}

typedef struct gaps {
    size_t last;  /* the last anchor's place */
    size_t usual; /* the commonest distance between two anchors */
    int least, most;
} gaps;

static bool measure_gaps(const char *const *names, size_t count, size_t layers, size_t anchor, size_t stride, gaps *g)
{
    size_t *often = b1i_calloc(count + 1, sizeof *often), at = anchor;
    if (!often) return false;
    *g = (gaps){.least = (int)count};
    for (size_t i = 1; i < layers; i++) {
        const size_t next = next_place(names, count, names[anchor], at + 1, stride), gap = next - at;
        often[gap]++;
        if (often[gap] > often[g->usual]) g->usual = gap;
        if ((int)gap < g->least) g->least = (int)gap;
        if ((int)gap > g->most) g->most = (int)gap;
        at = next;
    }
    g->last = at;
    b1i_free(often);
    return true;
}

/* How many kernels of [from, end) come again a layer later. */
static size_t repeats(const char *const *names, size_t from, size_t end, size_t period)
{
    size_t same = 0;
    for (size_t i = from; i + period < end; i++) same += strcmp(names[i], names[i + period]) == 0;
    return same;
}

bool b1i_layers_find(const char *const *names, size_t count, int layers, b1i_layers *out)
{
    size_t anchor, stride, best = 0;
    gaps g;
    *out = (b1i_layers){0};
    if (layers < 2 || !find_anchor(names, count, (size_t)layers, &anchor, &stride)) return false;
    if (!measure_gaps(names, count, (size_t)layers, anchor, stride, &g)) return false;
    /* The layers reach from some kernels before the first anchor to as many less than a layer past the last. */
    const size_t span = g.last - anchor + g.usual;
    const size_t from = anchor + 1 > g.usual ? anchor + 1 - g.usual : 0;
    if (span > count) return false;
    for (size_t first = from; first <= anchor && first + span <= count; first++) {
        const size_t same = repeats(names, first, first + span, g.usual) + 1;
        if (same <= best) continue;
        best = same;
        *out = (b1i_layers){first, first + span, g.least, g.most};
    }
    return best > 0;
}

/* ---- one step ---- */

typedef struct times {
    double kernel, gap, overlap; /* ns; gap < 0: not seen */
} times;

static times times_of_step(const b1i_step_seen *s)
{
    times t = {0};
    uint64_t covered = 0; /* up to there something ran */
    double sum = 0, covers = 0;
    bool placed = true;
    for (size_t i = 0; i < s->count; i++) {
        const b1i_step_record *r = &s->records[i];
        const double ns = (double)(r->end_ns - r->begin_ns);
        if (r->what == b1i_step_graph) continue;
        if (r->what == b1i_step_kernel) t.kernel += ns;
        placed = placed && r->begin_ns > 0;
        if (covered && r->begin_ns > covered) t.gap += (double)(r->begin_ns - covered);
        const uint64_t from = r->begin_ns > covered ? r->begin_ns : covered;
        if (r->end_ns > from) covers += (double)(r->end_ns - from);
        if (r->end_ns > covered) covered = r->end_ns;
        sum += ns;
    }
    t.overlap = sum - covers;
    if (!placed) t.gap = t.overlap = -1;
    return t;
}

static size_t kernels_of(const b1i_step_seen *s)
{
    size_t kernels = 0;
    for (size_t i = 0; i < s->count; i++) kernels += s->records[i].what == b1i_step_kernel;
    return kernels;
}

/* Whether two steps ran the same kernels in the same order. */
static bool alike(const b1i_step_seen *a, const b1i_step_seen *b)
{
    size_t i = 0, j = 0;
    for (;; i++, j++) {
        while (i < a->count && a->records[i].what != b1i_step_kernel) i++;
        while (j < b->count && b->records[j].what != b1i_step_kernel) j++;
        if (i == a->count || j == b->count) return i == a->count && j == b->count;
        if (strcmp(a->records[i].name, b->records[j].name) != 0) return false;
    }
}

/* ---- the kernels by name ---- */

typedef struct row {
    const char *name;
    int layer; /* 1: of the layers; 0: of none; −1: not known */
    size_t count;
} row;

typedef struct trace {
    const b1i_step_seen *steps;
    size_t count;   /* of steps */
    size_t kernels; /* of the first step, which the others are compared with */
    bool *same;     /* [count]: whether it is like the first */
    int *row_of;    /* [kernels] */
    row *rows;      /* [row_count ≤ kernels] */
    size_t row_count;
    const char **names; /* [kernels] */
    int *layer;         /* [kernels]: as row.layer */
    bool layered;       /* whether the layers are known */
    int least, most, outside;
    double *work; /* [count · kernels + count] */
} trace;

static b1_status trace_alloc(trace *t, b1_error *err)
{
    const size_t n = t->kernels + 1;
    t->same = b1i_calloc(t->count, sizeof *t->same);
    t->row_of = b1i_calloc(n, sizeof *t->row_of);
    t->rows = b1i_calloc(n, sizeof *t->rows);
    t->names = b1i_calloc(n, sizeof *t->names);
    t->layer = b1i_calloc(n, sizeof *t->layer);
    t->work = b1i_calloc(t->count * n, sizeof *t->work);
    if (t->same && t->row_of && t->rows && t->names && t->layer && t->work) return B1_OK;
    return b1i_fail_memory(err, t->count * n * sizeof *t->work);
}

static void trace_free(trace *t)
{
    b1i_free(t->same);
    b1i_free(t->row_of);
    b1i_free(t->rows);
    b1i_free(t->names);
    b1i_free(t->layer);
    b1i_free(t->work);
}

/* One more layer has `kernels` kernels. */
static void layer_ends(trace *t, int kernels)
{
    if (kernels == 0) return;
    if (!t->layered || kernels < t->least) t->least = kernels;
    if (kernels > t->most) t->most = kernels;
    t->layered = true;
}

/* By the records' own layers; false: they do not say. */
static bool layers_of_records(trace *t)
{
    const b1i_step_seen *s = t->steps;
    int current = B1I_LAYER_NONE, kernels = 0;
    for (size_t i = 0, k = 0; i < s->count; i++) {
        const b1i_step_record *r = &s->records[i];
        if (r->what != b1i_step_kernel) continue;
        if (r->layer == B1I_LAYER_UNKNOWN) return false;
        if (r->layer != current) {
            layer_ends(t, kernels);
            kernels = 0;
        }
        current = r->layer;
        kernels += current >= 0;
        t->outside += current < 0;
        t->layer[k++] = current >= 0;
    }
    layer_ends(t, kernels);
    return true;
}

/* Which kernels belong to layers: as their records say, else by what repeats. */
static void place_layers(trace *t, int layers)
{
    const b1i_step_seen *s = t->steps;
    b1i_layers found;
    size_t k = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->records[i].what == b1i_step_kernel) t->names[k++] = s->records[i].name;
    if (layers_of_records(t)) return;
    t->layered = b1i_layers_find(t->names, t->kernels, layers, &found);
    for (k = 0; k < t->kernels; k++) t->layer[k] = t->layered ? k >= found.first && k < found.end : -1;
    t->least = found.least;
    t->most = found.most;
    t->outside = (int)(t->kernels - (found.end - found.first));
}

static void make_rows(trace *t)
{
    for (size_t k = 0; k < t->kernels; k++) {
        size_t r = 0;
        while (r < t->row_count && (t->rows[r].layer != t->layer[k] || strcmp(t->rows[r].name, t->names[k]) != 0)) r++;
        if (r == t->row_count) t->rows[t->row_count++] = (row){t->names[k], t->layer[k], 0};
        t->rows[r].count++;
        t->row_of[k] = (int)r;
    }
}

/* Times of the kernels of row `r`: each launch to work [*launches] and behind them the sum of each step [*sums]. */
static void row_times(const trace *t, int r, size_t *launches, double *sum, size_t *sums)
{
    *launches = *sums = 0;
    for (size_t s = 0; s < t->count; s++) {
        size_t k = 0;
        double ns = 0;
        if (!t->same[s]) continue;
        for (size_t i = 0; i < t->steps[s].count; i++) {
            const b1i_step_record *record = &t->steps[s].records[i];
            if (record->what != b1i_step_kernel || t->row_of[k++] != r) continue;
            t->work[(*launches)++] = (double)(record->end_ns - record->begin_ns);
            ns += (double)(record->end_ns - record->begin_ns);
        }
        sum[(*sums)++] = ns;
    }
}

static json_t *rows_json(const trace *t)
{
    json_t *rows = json_array();
    double *sum = t->work + t->count * t->kernels;
    for (size_t r = 0; rows && r < t->row_count; r++) {
        size_t launches, sums;
        const row *of = &t->rows[r];
        row_times(t, (int)r, &launches, sum, &sums);
        json_array_append_new(rows, json_pack("{s:s%,s:i,s:f,s:f,s:o}", "name", of->name, strlen(of->name), "count",
                                              (int)of->count, "ns", b1i_median(t->work, launches), "total_ns",
                                              b1i_median(sum, sums), "layer",
                                              of->layer < 0 ? json_null() : json_boolean(of->layer)));
    }
    return rows;
}

static json_t *sequence_json(const trace *t)
{
    SHA2_CTX context;
    char hex[SHA256_DIGEST_STRING_LENGTH];
    SHA256Init(&context);
    for (size_t k = 0; k < t->kernels; k++) {
        SHA256Update(&context, (const uint8_t *)t->names[k], strlen(t->names[k]));
        SHA256Update(&context, (const uint8_t *)"\n", 1);
    }
    return json_string(SHA256End(&context, hex));
}

/* Of the first step, from its first record. */
static json_t *activities_json(const b1i_step_seen *s)
{
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < s->count && s->records[i].begin_ns > 0; i++) {
        const b1i_step_record *r = &s->records[i];
        const uint64_t origin = s->records[0].begin_ns;
        json_array_append_new(rows, json_pack("{s:s,s:o,s:I,s:I}", "kind", what_names[r->what], "name",
                                              r->what == b1i_step_kernel ? json_string(r->name) : json_null(),
                                              "begin_ns", (json_int_t)(r->begin_ns - origin), "end_ns",
                                              (json_int_t)(r->end_ns - origin)));
    }
    return rows;
}

/* ---- all of them ---- */

/* The median of a figure of the steps in ms; null where it was seen of none. */
static json_t *median_json(const trace *t, double (*figure)(const b1i_step_seen *step), double *ms)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        const double ns = figure(&t->steps[i]);
        if (ns >= 0) t->work[count++] = ns;
    }
    *ms = count ? b1i_median(t->work, count) / 1e6 : -1;
    return count ? b1i_lab_number(*ms) : json_null();
}

static double kernel_ns(const b1i_step_seen *s) { return times_of_step(s).kernel; }
static double gap_ns(const b1i_step_seen *s) { return times_of_step(s).gap; }
static double overlap_ns(const b1i_step_seen *s) { return times_of_step(s).overlap; }
static double launch_ns(const b1i_step_seen *s) { return s->launch_ns; }
static double sync_ns(const b1i_step_seen *s) { return s->sync_ns; }

static json_t *trace_json(const trace *t)
{
    size_t odd = 0;
    double kernel, launch, sync, none;
    char message[96];
    for (size_t i = 0; i < t->count; i++) odd += !t->same[i];
    snprintf(message, sizeof message, "%zu of %zu steps did not run the kernels of the first", odd, t->count);
    json_t *j =
        json_pack("{s:o,s:o,s:i,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "kernels", rows_json(t), "sequence_sha256",
                  sequence_json(t), "kernels_per_step", (int)t->kernels, "kernels_per_layer",
                  t->layered ? json_pack("{s:i,s:i}", "min", t->least, "max", t->most) : json_null(), "outside",
                  t->layered ? json_integer(t->outside) : json_null(), "kernel_ms", median_json(t, kernel_ns, &kernel),
                  "gap_ms", median_json(t, gap_ns, &none), "overlap_ms", median_json(t, overlap_ns, &none), "launch_ms",
                  median_json(t, launch_ns, &launch), "sync_ms", median_json(t, sync_ns, &sync), "activities",
                  activities_json(t->steps), "message", odd ? json_string(message) : json_null());
    const bool host = launch >= 0 && sync >= 0 && kernel > 0;
    if (j &&
        json_object_set_new(j, "host_over_kernel", host ? b1i_lab_number((launch + sync) / kernel) : json_null()) == 0)
        return j;
    json_decref(j);
    return NULL;
}

b1_status b1i_step_trace_json(const b1i_step_seen *steps, size_t count, int layers, json_t **out, b1_error *err)
{
    trace t = {.steps = steps, .count = count, .kernels = kernels_of(&steps[0])};
    *out = NULL;
    b1_status st = trace_alloc(&t, err);
    if (st == B1_OK) {
        for (size_t i = 0; i < count; i++) t.same[i] = alike(&steps[0], &steps[i]);
        place_layers(&t, layers);
        make_rows(&t);
        *out = trace_json(&t);
        if (!*out) st = b1i_fail(err, B1_MEMORY, "not enough memory for the profile");
    }
    trace_free(&t);
    return st;
}
