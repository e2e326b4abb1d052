/* SPDX-License-Identifier: MIT
 *
 * Explains a step: measures it and what separates its causes, and puts what follows into one document. See explain.h.
 *
 * The order matters twice. Which executor is explained may follow from measuring all of them, so they come first, on
 * one engine; and the profile comes last, on an engine of its own, for nothing shall be timed where a profiler has
 * been.
 */
#include "lab/explain.h"

#include "lab/explain_parts.h"
#include "lab/files.h"
#include "lab/gpus.h"
#include "lab/machine.h"
#include "lab/study/measure.h"

#include <stdio.h>
#include <string.h>

enum {
    TRIALS_MOST = 48,
    PRICES_MOST = 32,
    CONTEXT = 2048,
    WARMUP = 5,
    STEPS = 30,
    FEWER = 8, /* the part of the context that the step is measured at as well */
    FEWER_LEAST = 64,
};
/* The reference is an oracle: of a larger model its steps alone would take longer than all else. */
#define REFERENCE_MOST_BYTES (64ull << 20)

static const char *const formats[] = {"bf16", "q8_0", "q4_0"}; /* that a shape is tried in */
enum { FORMATS = sizeof formats / sizeof *formats };

typedef struct trial {
    const char *what; /* "executor", "context", "threads", "weights" */
    b1i_setting setting;
    json_t *cell;
} trial;

typedef struct explanation {
    const b1i_explain_options *options;
    b1i_measure_options how;
    b1i_setting setting; /* with everything filled in but the executor */
    bool gpu;
    b1_inspection *inspection;
    b1_model_info info;
    json_t *gpus;
    b1i_price prices[PRICES_MOST];
    b1i_subject *subject;
    trial trials[TRIALS_MOST];
    size_t count, planned;
    size_t base, best;
    json_t *profile;
    b1i_causes causes;
} explanation;

/* ---- small help ---- */

static double number(const json_t *from, const char *key) { return json_number_value(json_object_get(from, key)); }
static json_t *again(const json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    return value ? json_incref(value) : json_null();
}

static b1_status set_text(char **to, const char *text, b1_error *err)
{
    char *copy = b1i_strdup(text);
    if (!copy) return b1i_fail_memory(err, strlen(text));
    b1i_free(*to);
    *to = copy;
    return B1_OK;
}

static bool is_ok(const trial *t) { return strcmp(b1i_lab_text_at(t->cell, "status"), "ok") == 0; }

static void tell(const explanation *e, const char *what)
{
    const b1i_explain_options *o = e->options;
    if (o->progress) o->progress(o->progress_user, what, e->count, e->planned);
}

/* ---- trials ---- */

/* The next trial, of the explained setting; its cell is still missing. */
static b1_status begin(explanation *e, const char *what, const char *executor, trial **out, b1_error *err)
{
    trial *t = &e->trials[e->count];
    if (e->count == TRIALS_MOST) return b1i_fail(err, B1_ARGUMENT, "more than %d trials", TRIALS_MOST);
    b1_status st = b1i_setting_copy(&e->setting, &t->setting, err);
    if (st != B1_OK) return st;
    t->what = what;
    e->count++; /* it is freed with the others from here on */
    *out = t;
    return executor ? set_text(&t->setting.executor, executor, err) : B1_OK;
}

static b1_status measure(explanation *e, trial *t, b1_error *err)
{
    char what[160];
    snprintf(what, sizeof what, "%s %s", t->setting.executor, strcmp(t->what, "executor") == 0 ? "" : t->what);
    tell(e, what);
    if (e->options->cancelled && e->options->cancelled()) return b1i_fail(err, B1_CANCELLED, "cancelled");
    if (e->subject && b1i_subject_fits(e->subject, &t->setting))
        return b1i_subject_measure(e->subject, &t->setting, &e->how, &t->cell, NULL, err);
    return b1i_setting_measure(&t->setting, &e->how, &t->cell, NULL, err);
}

/* The reference of a large model: a row without figures. */
static json_t *left_out(const b1i_setting *setting)
{
    return json_pack(
        "{s:s,s:s,s:s}", "status", "skipped", "message",
        "the reference is there to be right, and of a model of this size slow; --executor reference explains it",
        "executor", setting->executor);
}

static b1_status try_executor(explanation *e, const char *name, b1_error *err)
{
    trial *t;
    b1_status st = begin(e, "executor", name, &t, err);
    if (st != B1_OK) return st;
    if (strcmp(name, "reference") == 0) {
        t->setting.warmup = t->setting.steps = 1;
        const bool asked = e->setting.executor && strcmp(e->setting.executor, name) == 0;
        if (e->info.weight_bytes > REFERENCE_MOST_BYTES && !asked)
            return (t->cell = left_out(&t->setting)) ? B1_OK : b1i_fail_memory(err, 256);
    }
    return measure(e, t, err);
}

/* Each executor of the device, on one engine. */
static b1_status try_executors(explanation *e, b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_subject_open(&e->setting, &e->how, &e->subject, err));
    for (int i = 0; b1_executor_name(i); i++)
        if ((strcmp(b1_executor_device(i), "cpu") != 0) == e->gpu) B1I_TRY(try_executor(e, b1_executor_name(i), err));
fail:
    return st;
}

/* What was asked for, or the fastest. */
static b1_status choose_base(explanation *e, b1_error *err)
{
    const char *asked = e->setting.executor;
    size_t found = e->count;
    for (size_t i = 0; i < e->count; i++) {
        const trial *t = &e->trials[i];
        if (asked ? strcmp(t->setting.executor, asked) == 0
                  : is_ok(t) &&
                        (found == e->count || number(t->cell, "t_obs_ms") < number(e->trials[found].cell, "t_obs_ms")))
            found = i;
    }
    if (found == e->count && asked)
        return b1i_fail(err, B1_ARGUMENT, "%s has no executor \"%s\"", e->setting.device, asked);
    if (found == e->count) found = 0;
    e->base = e->best = found;
    if (is_ok(&e->trials[found])) return B1_OK;
    const char *status = b1i_lab_text_at(e->trials[found].cell, "status");
    return b1i_fail(err, strcmp(status, "out_of_memory") == 0 ? B1_MEMORY : B1_UNSUPPORTED,
                    "%s could not be measured: %s", e->trials[found].setting.executor,
                    b1i_lab_text_at(e->trials[found].cell, "message"));
}

static b1_status try_fewer(explanation *e, b1_error *err)
{
    trial *t;
    const int part = e->setting.context / FEWER, fewer = part < FEWER_LEAST ? FEWER_LEAST : part;
    if (fewer >= e->setting.context) return B1_OK;
    b1_status st = begin(e, "context", e->trials[e->base].setting.executor, &t, err);
    if (st != B1_OK) return st;
    t->setting.context = fewer;
    st = measure(e, t, err);
    if (st == B1_OK) e->causes.fewer = b1i_seen_of(t->cell);
    return st;
}

/* On the CPU: one thread, and half of them. */
static b1_status try_threads(explanation *e, b1_error *err)
{
    const int all = (int)number(e->trials[e->base].cell, "threads");
    b1_status st = B1_OK;
    for (int part = 0; part < 2 && !e->gpu; part++) {
        trial *t;
        const int threads = part ? all / 2 : 1;
        if (threads >= all || (part && threads == 1)) continue;
        B1I_TRY(begin(e, "threads", e->trials[e->base].setting.executor, &t, err));
        t->setting.threads = threads;
        B1I_TRY(measure(e, t, err));
    }
fail:
    return st;
}

/* The built-in shape that a file's model has; NULL: none. */
static b1_status shape_of(const explanation *e, const char **shape, b1_error *err)
{
    *shape = e->setting.synthetic ? e->setting.model : NULL;
    for (int i = 0; !*shape && b1_shape_name(i); i++) {
        b1_inspection *known;
        b1_model_info k;
        const b1_model_info *m = &e->info;
        b1_status st = b1_inspect_synthetic(b1_shape_name(i), NULL, &known, err);
        if (st != B1_OK) return st;
        b1_inspection_info(known, &k);
        if (strcmp(k.architecture, m->architecture) == 0 && k.layers == m->layers && k.hidden == m->hidden &&
            k.ffn == m->ffn && k.heads == m->heads && k.kv_heads == m->kv_heads && k.vocab == m->vocab)
            *shape = b1_shape_name(i);
        b1_inspection_free(known);
    }
    return B1_OK;
}

/* Other formats, of the model's shape with random weights. */
static b1_status try_weights(explanation *e, b1_error *err)
{
    const char *shape;
    b1_status st;
    B1I_TRY(shape_of(e, &shape, err));
    for (int i = 0; i < FORMATS && shape; i++) {
        trial *t;
        if (strcmp(b1i_lab_text_at(e->trials[e->base].cell, "weights"), formats[i]) == 0) continue;
        B1I_TRY(begin(e, "weights", e->trials[e->base].setting.executor, &t, err));
        B1I_TRY(set_text(&t->setting.model, shape, err));
        B1I_TRY(set_text(&t->setting.weights, formats[i], err));
        t->setting.synthetic = true;
        B1I_TRY(measure(e, t, err));
    }
fail:
    return st;
}

/* ---- causes ---- */

/* The trial of that executor in the explained setting; NULL: it gave no figures. */
static const trial *of_executor(const explanation *e, const char *name)
{
    for (size_t i = 0; i < e->count; i++)
        if (strcmp(e->trials[i].what, "executor") == 0 && strcmp(e->trials[i].setting.executor, name) == 0 &&
            is_ok(&e->trials[i]))
            return &e->trials[i];
    return NULL;
}

static int step_kernels(const trial *t) { return t ? (int)number(json_object_get(t->cell, "kernels"), "step") : 0; }

/* The executor that launches the base's kernels as a graph. */
static const char *graph_of(const char *executor)
{
    return strncmp(executor, "separate", 8) == 0 ? "separate_graph" : "fused_graph";
}

/* One that cannot be taken leaves the parts to what was timed. */
static b1_status take_profile(explanation *e, const char *executor, b1_error *err)
{
    b1i_setting s;
    b1i_subject *subject = NULL;
    b1_error why = {0};
    b1_status st;
    tell(e, "profile");
    B1I_TRY(b1i_setting_copy(&e->setting, &s, err));
    B1I_TRY(set_text(&s.executor, executor, err));
    st = b1i_subject_open(&s, &e->how, &subject, &why);
    if (st == B1_OK) st = b1i_subject_profile(subject, &s, &e->profile, &why);
    if (st == B1_CANCELLED) B1I_TRY(b1i_fail(err, st, "%s", why.message));
    e->causes.profile = b1i_profiled_of(e->profile);
    st = B1_OK;
fail:
    b1i_subject_close(subject);
    b1i_setting_free(&s);
    return st;
}

static b1_status find_causes(explanation *e, b1_error *err)
{
    b1i_causes *c = &e->causes;
    const trial *base = &e->trials[e->base], *fused = of_executor(e, "fused");
    const char *executor = base->setting.executor;
    b1_status st = B1_OK;
    c->gpu = e->gpu;
    c->form = b1i_form_of(executor, e->gpu);
    c->base = b1i_seen_of(base->cell);
    if (e->gpu) {
        const trial *graph = of_executor(e, graph_of(executor));
        if (graph) c->graph = b1i_seen_of(graph->cell);
        if (graph && c->form != b1i_form_whole) st = take_profile(e, graph->setting.executor, err);
        return st;
    }
    if (c->form != b1i_form_one) {
        c->dispatches = step_kernels(base);
        c->meetings = c->form == b1i_form_whole ? step_kernels(fused) : c->dispatches;
        B1I_TRY(b1i_pool_costs((int)number(base->cell, "threads"), &c->dispatch_ms, &c->meeting_ms, err));
    }
    st = take_profile(e, executor, err);
fail:
    return st;
}

static void find_best(explanation *e)
{
    for (size_t i = 0; i < e->count; i++) {
        const trial *t = &e->trials[i];
        if ((strcmp(t->what, "executor") == 0 || strcmp(t->what, "threads") == 0) && is_ok(t) &&
            number(t->cell, "t_obs_ms") < number(e->trials[e->best].cell, "t_obs_ms"))
            e->best = i;
    }
}

/* ---- the document ---- */

static json_t *trials_json(const explanation *e)
{
    json_t *list = json_array();
    for (size_t i = 0; i < e->count; i++) {
        const trial *t = &e->trials[i];
        json_array_append_new(
            list, json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "what", t->what, "setting",
                            b1i_setting_json(&t->setting), "status", again(t->cell, "status"), "verdict",
                            again(t->cell, "verdict"), "message", again(t->cell, "message"), "weights",
                            again(t->cell, "weights"), "t_obs_ms", again(t->cell, "t_obs_ms"), "ceiling_gbps",
                            again(t->cell, "ceiling_gbps"), "weight_bytes", again(t->cell, "weight_bytes"), "kv_bytes",
                            again(t->cell, "kv_bytes"), "kernels", again(t->cell, "kernels")));
    }
    return list;
}

static json_t *profile_json(const explanation *e)
{
    static const char *const keys[] = {"by",          "found",         "message",   "kernel_ms",
                                       "gap_ms",      "overlap_ms",    "launch_ms", "sync_ms",
                                       "profiled_ms", "unprofiled_ms", "distortion"};
    json_t *p = json_object();
    if (!e->profile) {
        json_decref(p);
        return json_null();
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) json_object_set_new(p, keys[i], again(e->profile, keys[i]));
    json_object_set_new(p, "attention_ms", b1i_lab_number(e->causes.profile.attention_ms));
    return p;
}

static b1i_source source_of(const explanation *e, const json_t *entry)
{
    const trial *best = &e->trials[e->best];
    const b1_model_info *i = &e->info;
    double need = number(best->cell, "device_bytes");
    if (need <= 0) need = (double)b1_inspection_memory_bytes(e->inspection, e->setting.context);
    const double attention = 4.0 * i->layers * i->heads * i->head_dim * e->setting.context;
    return (b1i_source){.gpu = e->gpu,
                        .name = json_string_value(json_object_get(entry, "name")),
                        .seen = b1i_seen_of(best->cell),
                        .peak_gbps = number(best->cell, "peak_gbps"),
                        .flops = 2 * number(best->cell, "parameters") + attention,
                        .need_bytes = need,
                        .layers = i->layers,
                        .launches =
                            b1i_form_of(best->setting.executor, e->gpu) == b1i_form_stream ? step_kernels(best) : 0};
}

static json_t *base_json(const explanation *e)
{
    static const char *const keys[] = {"model",        "architecture",    "device",   "device_name",  "weights",
                                       "executor",     "context",         "threads",  "layers",       "kernels",
                                       "verdict",      "t_obs_ms",        "p10_ms",   "p90_ms",       "cv",
                                       "weight_bytes", "stored_bytes",    "kv_bytes", "ceiling_gbps", "peak_gbps",
                                       "r_ceiling",    "t_arithmetic_ms", "version",  "date"};
    const json_t *cell = e->trials[e->base].cell;
    json_t *d = json_pack("{s:s}", "schema", "batchone.explain/1");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) json_object_set_new(d, keys[i], again(cell, keys[i]));
    return d;
}

static b1_status document(const explanation *e, json_t **out, b1_error *err)
{
    char date[24];
    b1i_step_parts parts;
    const b1i_causes *c = &e->causes;
    const trial *best = &e->trials[e->best];
    json_t *entry = e->gpu ? b1i_gpu_find(b1i_lab_text_at(best->cell, "device_name")) : NULL;
    const b1i_source source = source_of(e, entry);
    json_t *predictions = b1i_predictions(&source, e->gpus), *d = base_json(e);
    b1i_machine_date(date, sizeof date);
    date[strlen("2026-11-30")] = 0;
    b1i_step_parts_of(c, &parts);
    json_object_set_new(d, "t_floor_ms",
                        b1i_lab_number((c->base.weight_bytes + c->base.kv_bytes) / c->base.ceiling_gbps / 1e6));
    json_object_set_new(d, "parts_ms", b1i_step_parts_json(&parts));
    json_object_set_new(d, "dispatch",
                        e->gpu ? json_null()
                               : json_pack("{s:i,s:i,s:f,s:f}", "dispatches", c->dispatches, "meetings", c->meetings,
                                           "dispatch_us", c->dispatch_ms * 1e3, "meeting_us", c->meeting_ms * 1e3));
    json_object_set_new(d, "profile", profile_json(e));
    json_object_set_new(d, "interventions", trials_json(e));
    json_object_set_new(d, "best",
                        json_pack("{s:o,s:O}", "setting", b1i_setting_json(&best->setting), "t_obs_ms",
                                  json_object_get(best->cell, "t_obs_ms")));
    json_object_set_new(d, "prices", b1i_prices_json(e->prices, e->options->price_count, &source, predictions, date));
    json_object_set_new(d, "predictions", predictions);
    json_t *sentences = b1i_explain_sentences(d);
    b1_status st = sentences && json_object_set_new(d, "sentences", sentences) == 0
                       ? B1_OK
                       : b1i_fail(err, B1_MEMORY, "not enough memory for the explanation");
    json_decref(entry);
    if (st == B1_OK)
        *out = d;
    else
        json_decref(d);
    return st;
}

/* ---- the whole ---- */

/* What was left open of the setting. */
static b1_status prepare(explanation *e, b1_error *err)
{
    const b1i_explain_options *o = e->options;
    b1i_setting *s = &e->setting;
    b1_status st;
    if (o->price_count > PRICES_MOST)
        return b1i_fail(err, B1_ARGUMENT, "%zu prices are more than %d", o->price_count, PRICES_MOST);
    if (!(e->gpus = b1i_gpus())) return b1i_fail_memory(err, 4096);
    for (size_t i = 0; i < o->price_count; i++) B1I_TRY(b1i_price_read(o->prices[i], e->gpus, &e->prices[i], err));
    B1I_TRY(b1i_setting_copy(&o->setting, s, err));
    if (s->stack)
        return b1i_fail(err, B1_ARGUMENT, "a stack's step cannot be taken apart; explain is for batchone's own");
    e->gpu = strcmp(s->device, "cpu") != 0;
    st = s->synthetic ? b1_inspect_synthetic(s->model, s->weights, &e->inspection, err)
                      : b1_inspect(s->model, &e->inspection, err);
    if (st != B1_OK) goto fail;
    b1_inspection_info(e->inspection, &e->info);
    if (!s->context) s->context = e->info.context_max < CONTEXT ? e->info.context_max : CONTEXT;
    if (!s->batch) s->batch = 1;
    if (!s->session) s->session = 1;
    if (!s->warmup) s->warmup = WARMUP;
    if (!s->steps) s->steps = STEPS;
    s->profile = false;
    for (int i = 0; b1_executor_name(i); i++) e->planned += (strcmp(b1_executor_device(i), "cpu") != 0) == e->gpu;
    e->planned += 1 + FORMATS + (e->gpu ? 0 : 2);
fail:
    return st;
}

static b1_status investigate(explanation *e, b1_error *err)
{
    b1_status st;
    B1I_TRY(try_executors(e, err));
    B1I_TRY(choose_base(e, err));
    B1I_TRY(try_fewer(e, err));
    b1i_subject_close(e->subject); /* its memory is wanted by the next ones */
    e->subject = NULL;
    B1I_TRY(try_threads(e, err));
    B1I_TRY(try_weights(e, err));
    find_best(e);
    B1I_TRY(find_causes(e, err));
fail:
    return st;
}

static void let_go(explanation *e)
{
    b1i_subject_close(e->subject);
    for (size_t i = 0; i < e->count; i++) {
        b1i_setting_free(&e->trials[i].setting);
        json_decref(e->trials[i].cell);
    }
    json_decref(e->profile);
    json_decref(e->gpus);
    b1_inspection_free(e->inspection);
    b1i_setting_free(&e->setting);
}

b1_status b1i_explain(const b1i_explain_options *options, json_t **out, b1_error *err)
{
    b1_status st;
    *out = NULL;
    explanation *e = b1i_calloc(1, sizeof *e);
    if (!e) return b1i_fail_memory(err, sizeof *e);
    e->options = options;
    e->how = (b1i_measure_options){.cancelled = options->cancelled};
    B1I_TRY(prepare(e, err));
    B1I_TRY(investigate(e, err));
    B1I_TRY(document(e, out, err));
fail:
    let_go(e);
    b1i_free(e);
    return st;
}
