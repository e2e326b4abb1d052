/* SPDX-License-Identifier: MIT
 *
 * From measured cells and a profile to the parts of a step. See explain_parts.h.
 */
#include "lab/explain_parts.h"

#include "lab/files.h"

#include <math.h>
#include <string.h>

/* ---- what was measured ---- */

static double number(const json_t *from, const char *key) { return json_number_value(json_object_get(from, key)); }

b1i_seen b1i_seen_of(const json_t *cell)
{
    const char *status = json_string_value(json_object_get(cell, "status"));
    if (!status || strcmp(status, "ok") != 0) return (b1i_seen){0};
    return (b1i_seen){.t_ms = number(cell, "t_obs_ms"),
                      .p10_ms = number(cell, "p10_ms"),
                      .p90_ms = number(cell, "p90_ms"),
                      .ceiling_gbps = number(cell, "ceiling_gbps"),
                      .weight_bytes = number(cell, "weight_bytes"),
                      .kv_bytes = number(cell, "kv_bytes"),
                      .context = (int)number(cell, "context")};
}

double b1i_seen_memory_ms(const b1i_seen *s)
{
    return s->t_ms > 0 ? fmin((s->weight_bytes + s->kv_bytes) / s->ceiling_gbps / 1e6, s->t_ms) : 0;
}

double b1i_seen_beyond_ms(const b1i_seen *s) { return s->t_ms - b1i_seen_memory_ms(s); }

static bool ends(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

b1i_form b1i_form_of(const char *executor, bool gpu)
{
    if (strcmp(executor, "persistent") == 0) return b1i_form_whole;
    if (gpu)
        return ends(executor, "_stream") ? b1i_form_stream : ends(executor, "_pdl") ? b1i_form_pdl : b1i_form_graph;
    return strcmp(executor, "reference") == 0 ? b1i_form_one : b1i_form_dispatches;
}

b1i_profiled b1i_profiled_of(const json_t *profile)
{
    b1i_profiled p = {.found = json_is_true(json_object_get(profile, "found"))};
    const json_t *kernels = json_object_get(profile, "kernels");
    if (!p.found) return p;
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        const json_t *kernel = json_array_get(kernels, i);
        const char *name = json_string_value(json_object_get(kernel, "name"));
        *(name && strstr(name, "attention") ? &p.attention_ms : &p.others_ms) += number(kernel, "total_ns") / 1e6;
    }
    /* Medians of each kernel need not add up to the median of all of them. */
    const double all = number(profile, "kernel_ms"), sum = p.attention_ms + p.others_ms;
    if (all > 0 && sum > 0) {
        p.attention_ms *= all / sum;
        p.others_ms *= all / sum;
    }
    p.between_ms = number(profile, "gap_ms");
    p.overlap_ms = number(profile, "overlap_ms");
    p.whole_ms = number(profile, "profiled_ms");
    p.distortion = number(profile, "distortion");
    p.found = p.whole_ms > 0 && p.attention_ms + p.others_ms > 0;
    return p;
}

/* ---- the parts ---- */

static double beyond(const b1i_step_parts *p)
{
    return p->launch + p->synchronisation + p->kernels + p->attention + p->host;
}

/* Makes all but memory add up to `whole`: by a common factor; where there is nothing to scale it is the kernels'. */
static void fit(b1i_step_parts *p, double whole)
{
    const double sum = beyond(p), by = sum > 0 ? whole / sum : 0;
    p->launch *= by;
    p->synchronisation *= by;
    p->kernels *= by;
    p->attention *= by;
    p->host *= by;
    if (sum <= 0) p->kernels = whole;
}

/* What attention takes beyond its bytes, by how the step grows with the positions it reads; all of it is taken to be
 * proportional to them. */
static double attention_by_growth(const b1i_causes *c)
{
    if (c->fewer.t_ms <= 0 || c->fewer.context >= c->base.context) return 0;
    const double grown = b1i_seen_beyond_ms(&c->base) - b1i_seen_beyond_ms(&c->fewer);
    return fmax(0, grown) * c->base.context / (c->base.context - c->fewer.context);
}

/* Of a graph's step: busy by its kernels' own times; the rest lies between kernels or outside them, as the profile
 * divides it. */
static void of_graph(const b1i_causes *c, b1i_step_parts *p)
{
    const b1i_seen *g = &c->graph;
    const b1i_profiled *f = &c->profile;
    const double kv_ms = g->kv_bytes / g->ceiling_gbps / 1e6, weights_ms = g->weight_bytes / g->ceiling_gbps / 1e6;
    if (!f->found) {
        p->attention = fmin(attention_by_growth(c), b1i_seen_beyond_ms(g));
        p->kernels = b1i_seen_beyond_ms(g) - p->attention;
        return;
    }
    const double busy = fmax(f->attention_ms + f->others_ms - f->overlap_ms, 0), shrink = fmin(1, g->t_ms / busy);
    const double rest = fmax(0, g->t_ms - busy), outside = fmax(0, f->whole_ms - busy - f->between_ms);
    const double share = f->between_ms + outside > 0 ? f->between_ms / (f->between_ms + outside) : 0;
    p->attention = fmax(0, f->attention_ms * shrink - kv_ms);
    p->kernels = fmax(0, (f->others_ms - f->overlap_ms) * shrink - weights_ms);
    p->synchronisation = rest * share;
    p->host = rest * (1 - share);
    fit(p, b1i_seen_beyond_ms(g));
}

/* `saved` less, first of what lies between kernels. */
static void take(b1i_step_parts *p, double saved)
{
    const double of_sync = fmin(saved, p->synchronisation);
    p->synchronisation -= of_sync;
    fit(p, fmax(0, beyond(p) - (saved - of_sync)));
}

static void on_gpu(const b1i_causes *c, b1i_step_parts *p)
{
    const double whole = b1i_seen_beyond_ms(&c->base);
    if (c->graph.t_ms <= 0) { /* nothing to compare with: what grows with the context, and the rest */
        p->attention = fmin(attention_by_growth(c), whole);
        *(c->form == b1i_form_whole ? &p->synchronisation : &p->kernels) = whole - p->attention;
        return;
    }
    of_graph(c, p);
    const double more = whole - beyond(p);
    if (more > 0)
        *(c->form == b1i_form_stream ? &p->launch : &p->synchronisation) += more;
    else
        take(p, -more);
}

static void on_cpu(const b1i_causes *c, b1i_step_parts *p)
{
    const b1i_profiled *f = &c->profile;
    const b1i_seen *b = &c->base;
    const double whole = b1i_seen_beyond_ms(b);
    p->launch = c->dispatches * fmax(0, c->dispatch_ms - c->meeting_ms);
    p->synchronisation = c->meetings * c->meeting_ms;
    if (f->found) {
        const double by = b->t_ms / fmax(f->whole_ms, f->attention_ms + f->others_ms);
        const double attention = f->attention_ms * by, others = f->others_ms * by;
        p->attention = fmax(0, attention - b->kv_bytes / b->ceiling_gbps / 1e6);
        p->kernels = fmax(0, others - b->weight_bytes / b->ceiling_gbps / 1e6 - p->launch - p->synchronisation);
        p->host = fmax(0, b->t_ms - attention - others);
    } else {
        p->attention = fmin(attention_by_growth(c), whole);
        p->kernels = fmax(0, whole - p->attention - p->launch - p->synchronisation);
    }
    fit(p, whole);
}

void b1i_step_parts_of(const b1i_causes *c, b1i_step_parts *out)
{
    *out = (b1i_step_parts){.memory = b1i_seen_memory_ms(&c->base)};
    if (c->gpu)
        on_gpu(c, out);
    else
        on_cpu(c, out);
    fit(out, b1i_seen_beyond_ms(&c->base)); /* to the last digit */
}

json_t *b1i_step_parts_json(const b1i_step_parts *p)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f}", "memory", p->memory, "launch", p->launch, "synchronisation",
                     p->synchronisation, "kernels", p->kernels, "attention", p->attention, "host", p->host);
}
