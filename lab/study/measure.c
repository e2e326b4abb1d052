/* SPDX-License-Identifier: MIT
 *
 * One setting measured in this process. See measure.h.
 *
 * A subject is what several cells may share: the engine with its weights, and the buffer that the ceiling is read from.
 * What cannot be opened or run is a cell all the same, with the sentence of who refused.
 */
#include "lab/study/measure.h"

#include "base/threads.h"
#include "lab/cell.h"
#include "lab/evidence.h"
#include "lab/gpus.h"
#include "lab/jitter.h"
#include "lab/machine.h"
#include "lab/stats.h"
#include "lab/step_profile.h"
#include "lab/study/cell.h"
#include "lab/study/stack.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of the buffer that the ceiling is read from: the bench's. Beside a stack, whose memory is not ours to take, a part of
 * what is free. */
uint64_t b1i_subject_ceiling_bytes = 1ull << 30;
#define GPU_CEILING_MOST_BYTES (2ull << 30)
enum {
    CEILING_PART = 4,
    STACK_CEILING_PART = 16,
    GLANCES = 5,
    BATCH_MOST = 8,
    PROFILED_STEPS = 10,
    ENDURANCE_LEAST = 30,
    ENDURANCE_MOST = 1000
};

#define ENDURANCE_MS 1000.0

struct b1i_subject {
    b1i_setting setting; /* that it was opened for */
    int ordinal;         /* of the GPU; B1I_DEVICE_CPU */
    char device_name[256];
    char uuid[48], binary[65];     /* uuid "": none */
    double peak_gbps, peak_tflops; /* 0: not known */
    b1_inspection *inspection;     /* NULL: not even that was possible */
    bool foreign;                  /* the weights' format is a stack's own */
    b1_engine *engine;             /* NULL: of a stack */
    b1i_ceiling *ceiling;
    b1_model_info info; /* of the engine, else of the inspection */
    int threads;
};

static const char *status_word(b1_status st)
{
    switch (st) {
    case B1_MEMORY:
        return "out_of_memory";
    case B1_UNSUPPORTED:
    case B1_ARGUMENT:
    case B1_CONTEXT:
        return "unsupported";
    default:
        return "failed";
    }
}

/* ---- the subject ---- */

static int ordinal_of(const char *device)
{
    int ordinal = 0;
    return sscanf(device, "cuda:%d", &ordinal) == 1 ? ordinal : B1I_DEVICE_CPU;
}

/* What is known before anything is opened. */
static b1_status identify(b1i_subject *s, b1_error *err)
{
    b1_status st;
    uint64_t bytes;
    b1i_gpu_facts facts;
    B1I_TRY(b1i_sha256_file("/proc/self/exe", s->binary, &bytes, err));
    s->ordinal = ordinal_of(s->setting.device);
    s->threads = s->setting.threads ? s->setting.threads : b1i_cpu_count();
    if (s->ordinal == B1I_DEVICE_CPU) {
        b1i_machine_cpu(s->device_name, sizeof s->device_name);
    } else if (b1i_device_facts(s->ordinal, &facts, NULL) == B1_OK) {
        snprintf(s->device_name, sizeof s->device_name, "%s", facts.name);
        snprintf(s->uuid, sizeof s->uuid, "%s", facts.uuid);
        s->peak_gbps = b1i_gpu_peak(facts.name);
        s->peak_tflops = b1i_gpu_tflops(facts.name);
    } else {
        snprintf(s->device_name, sizeof s->device_name, "unknown");
    }
    s->info = (b1_model_info){.name = s->setting.model};
    st = s->setting.synthetic ? b1_inspect_synthetic(s->setting.model, s->setting.weights, &s->inspection, err)
                              : b1_inspect(s->setting.model, &s->inspection, err);
    if (st == B1_ARGUMENT && s->setting.synthetic && s->setting.stack && s->setting.weights) {
        /* Maybe a format that the stack alone has: then it says how many bytes its weights are. */
        s->foreign = b1_inspect_synthetic(s->setting.model, NULL, &s->inspection, NULL) == B1_OK;
        st = s->foreign ? B1_OK : st;
    }
    if (st == B1_OK) b1_inspection_info(s->inspection, &s->info);
    if (s->foreign) s->info.weight_bytes = s->info.stored_bytes = 0;
fail:
    return st;
}

static b1_status open_engine(b1i_subject *s, const b1i_measure_options *options, b1_error *err)
{
    const b1i_setting *setting = &s->setting;
    const b1_engine_options o = {.device = setting->device,
                                 .executor = setting->executor,
                                 .weights = setting->weights,
                                 .threads = setting->threads,
                                 .context = setting->context,
                                 .progress = options->progress,
                                 .progress_user = options->progress_user};
    b1_status st = setting->synthetic ? b1_engine_open_synthetic(setting->model, &o, &s->engine, err)
                                      : b1_engine_open(setting->model, &o, &s->engine, err);
    if (st != B1_OK) return st;
    b1_engine_info(s->engine, &s->info);
    s->threads = b1_engine_threads(s->engine);
    return B1_OK;
}

static b1_status open_ceiling(b1i_subject *s, b1_error *err)
{
    const unsigned part = s->setting.stack ? STACK_CEILING_PART : CEILING_PART;
    if (s->ordinal != B1I_DEVICE_CPU)
        return b1i_ceiling_open_gpu(s->ordinal, GPU_CEILING_MOST_BYTES, part, &s->ceiling, err);
    uint64_t most = b1i_memory_available() / CEILING_PART;
    return b1i_ceiling_open(most < b1i_subject_ceiling_bytes ? most : b1i_subject_ceiling_bytes, &s->ceiling, err);
}

/* *out is there, and to be closed, also where opening failed, but for a lack of memory for itself. */
static b1_status subject_open(const b1i_setting *setting, const b1i_measure_options *options, b1i_subject **out,
                              b1_error *err)
{
    b1_status st;
    b1i_subject *s = *out = b1i_calloc(1, sizeof *s);
    if (!s) return b1i_fail_memory(err, sizeof *s);
    B1I_TRY(b1i_setting_copy(setting, &s->setting, err));
    B1I_TRY(identify(s, err));
    if (setting->weights && !setting->synthetic && !setting->stack) {
        st = b1i_fail(err, B1_ARGUMENT, "%s is a file and has its own format: weights=%s is for built-in shapes alone",
                      setting->model, setting->weights);
        goto fail;
    }
    if (!setting->stack) B1I_TRY(open_engine(s, options, err));
    B1I_TRY(open_ceiling(s, err));
fail:
    return st;
}

b1_status b1i_subject_open(const b1i_setting *setting, const b1i_measure_options *options, b1i_subject **out,
                           b1_error *err)
{
    b1_status st = subject_open(setting, options, out, err);
    if (st == B1_OK) return st;
    b1i_subject_close(*out);
    *out = NULL;
    return st;
}

void b1i_subject_close(b1i_subject *s)
{
    if (!s) return;
    b1i_ceiling_close(s->ceiling);
    b1_engine_close(s->engine);
    b1_inspection_free(s->inspection);
    b1i_setting_free(&s->setting);
    b1i_free(s);
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

bool b1i_subject_fits(const b1i_subject *s, const b1i_setting *setting)
{
    const b1i_setting *own = &s->setting;
    return same_text(own->model, setting->model) && own->synthetic == setting->synthetic &&
           same_text(own->device, setting->device) && same_text(own->weights, setting->weights) &&
           own->threads == setting->threads && !own->stack == !setting->stack;
}

/* ---- a cell ---- */

/* What is known of the cell without measuring. Its texts belong to the subject and the setting. */
static void begin_cell(const b1i_subject *s, const b1i_setting *setting, b1i_measured *m)
{
    const b1_model_info *i = &s->info;
    *m = (b1i_measured){.setting = setting, .binary = s->binary, .device_name = s->device_name, .ordinal = s->ordinal};
    m->uuid = s->uuid[0] ? s->uuid : NULL;
    m->cell = (b1i_cell){.model = i->name ? i->name : setting->model,
                         .device = setting->device,
                         .weights = setting->weights ? setting->weights
                                    : i->weights     ? i->weights
                                                     : "unknown",
                         .executor = setting->executor ? setting->executor
                                     : setting->stack  ? "stack:unknown"
                                                       : "unknown",
                         .status = "ok",
                         .context = setting->context,
                         .threads = s->threads,
                         .peak_gbps = s->peak_gbps};
    if (!s->inspection) return;
    m->architecture = i->architecture;
    m->layers = i->layers;
    m->parameters = b1i_matrix_parameters(i);
    m->flops = b1i_step_flops(i, setting);
    m->peak_tflops = s->peak_tflops;
    m->kv_element_bytes = 2;
}

static void measure_session(b1i_subject *s, b1_session *const *sessions, const b1i_setting *setting, b1i_measured *m)
{
    const int context = setting->context, batch = setting->batch;
    uint64_t kv = b1_session_kv_bytes(sessions[0], context);
    uint64_t elements = b1i_kv_elements(&s->info);
    b1_engine_info(s->engine, &s->info); /* a session may have packed weights its own way */
    m->cell.weight_bytes = b1_session_traffic_bytes(sessions[0], context) - kv;
    m->cell.kv_bytes = kv * (uint64_t)batch;
    m->cell.stored_bytes = s->info.stored_bytes;
    m->cell.device_bytes = s->info.device_bytes;
    m->kv_element_bytes = elements ? kv / (elements * (uint64_t)context) : 0;
    m->attention = strcmp(b1_session_executor(sessions[0]), "reference") == 0 ? "math" : "split-kv";
    m->source = json_string("batchone");
    m->kernels = b1i_step_kernels(sessions[0], s->info.layers);
}

/* Steps that follow one another, in a pass of its own after the timing: about a second of them, or as many as the
 * timing's where those are more. One that fails leaves the cell as it is. */
static b1_status measure_endurance(const b1i_subject *s, b1_session *const *sessions,
                                   const b1i_measure_options *options, b1i_measured *m, b1_error *err)
{
    b1i_steps steps = {
        .sessions = sessions, .batch = m->setting->batch, .vocab = s->info.vocab, .context = m->setting->context};
    const double fit = ENDURANCE_MS / m->cell.result.t_obs_ms;
    const int second = fit > ENDURANCE_MOST ? ENDURANCE_MOST : fit < ENDURANCE_LEAST ? ENDURANCE_LEAST : (int)fit;
    const b1i_endurance how = {.ordinal = s->ordinal,
                               .steps = m->setting->steps > second ? m->setting->steps : second,
                               .deadline_ms = m->setting->deadline_ms,
                               .cancelled = options->cancelled};
    b1_error why = {0};
    b1_status st = b1i_endure(&steps, &how, &m->jitter, &m->energy, &why);
    if (st == B1_CANCELLED && err) *err = why;
    return st == B1_CANCELLED ? st : B1_OK;
}

/* A pass of its own too. One that fails leaves the reason in place of a profile, and the cell as it is. */
b1_status b1i_subject_profile(const b1i_subject *s, const b1i_setting *setting, json_t **profile, b1_error *err)
{
    b1_error why = {0};
    const b1_session_options how = {.executor = setting->executor, .context = setting->context};
    *profile = NULL;
    b1_status st = b1i_step_profile(s->engine, &how, setting->batch, setting->context, s->peak_gbps, PROFILED_STEPS,
                                    profile, &why);
    if (st == B1_CANCELLED && err) *err = why;
    if (st != B1_OK && st != B1_CANCELLED) {
        *profile = json_pack("{s:s,s:b,s:s}", "schema", "batchone.step-profile/1", "found", 0, "message", why.message);
        st = B1_OK;
    }
    return st;
}

static b1_status measure_engine(b1i_subject *s, const b1i_setting *setting, const b1i_measure_options *options,
                                b1i_measured *m, json_t **profile, b1_error *err)
{
    b1_session *sessions[BATCH_MOST] = {NULL};
    const b1_session_options o = {.executor = setting->executor, .context = setting->context};
    const b1i_bench_plan plan = {.warmup = setting->warmup, .steps = setting->steps, .cancelled = options->cancelled};
    b1_status st = B1_OK;
    for (int i = 0; i < setting->batch; i++) B1I_TRY(b1_session_create(s->engine, &o, &sessions[i], err));
    measure_session(s, sessions, setting, m);
    B1I_TRY(b1i_cell_measure(sessions, setting->batch, s->ceiling, s->info.vocab, setting->context, &plan,
                             &m->cell.result, err));
    B1I_TRY(measure_endurance(s, sessions, options, m, err));
    for (int i = 0; i < setting->batch; i++) {
        b1_session_close(sessions[i]); /* the profile's own need the memory */
        sessions[i] = NULL;
    }
    if (setting->profile && profile) B1I_TRY(b1i_subject_profile(s, setting, profile, err));
fail:
    for (int i = 0; i < setting->batch; i++) b1_session_close(sessions[i]);
    return st;
}

/* ---- a cell of an outside stack ---- */

/* The median of a few readings: those around a stack's steps lie far apart. */
static b1_status look(b1i_subject *s, double *gbps, b1_error *err)
{
    double seen[GLANCES];
    for (int i = 0; i < GLANCES; i++) {
        b1_status st = b1i_ceiling_glance(s->ceiling, &seen[i], err);
        if (st != B1_OK) return st;
    }
    *gbps = b1i_median(seen, GLANCES);
    return B1_OK;
}

/* Its steps as the one slice between two readings. Times are whole nanoseconds, as a cell keeps them. */
static b1_status take_steps(const b1i_stack_result *r, double before, double after, bool throttled, b1i_measured *m,
                            b1_error *err)
{
    b1i_bench_result *out = &m->cell.result;
    double drift;
    if (!b1i_grow(&out->slices, &out->slice_room, 1, sizeof *out->slices) ||
        !b1i_grow(&out->step_ns, &out->step_room, r->count, sizeof *out->step_ns) || !(m->harness_ns = json_array()))
        return b1i_fail_memory(err, r->count * sizeof *out->step_ns);
    json_t *seen = json_array();
    for (size_t i = 0; i < r->count; i++) {
        out->step_ns[i] = floor(r->step_ns[i]);
        json_array_append_new(seen, json_integer((json_int_t)r->harness_ns[i]));
    }
    if (json_array_append_new(m->harness_ns, seen) != 0) return b1i_fail_memory(err, r->count * sizeof *r->harness_ns);
    out->step_count = r->count;
    out->slices[out->slice_count++] = (b1i_slice){(before + after) / 2, 0, r->count};
    out->warmup = m->setting->warmup;
    b1_status st = b1i_bench_summarise(m->cell.weight_bytes + m->cell.kv_bytes, out, &drift, err);
    if (st == B1_OK) out->verdict = b1i_bench_verdict(out, throttled, b1i_bench_agree(before, after), drift);
    return st;
}

/* What the stack said of itself. */
static b1_status take_words(const b1i_stack_result *r, b1i_measured *m, b1_error *err)
{
    json_t *kernels = json_object_get(r->facts, "kernels");
    m->source = json_pack("{s:s,s:s,s:s,s:O?}", "stack", r->name, "version", r->version, "command", m->setting->stack,
                          "facts", r->facts);
    snprintf(m->stack_name, sizeof m->stack_name, "stack:%s", r->name);
    m->cell.executor = m->stack_name;
    const char *attention = json_string_value(json_object_get(r->facts, "attention"));
    if (attention) snprintf(m->stack_attention, sizeof m->stack_attention, "%s", attention);
    m->attention = attention ? m->stack_attention : NULL;
    m->kernels = json_is_object(kernels) ? json_incref(kernels) : NULL;
    return m->source ? B1_OK : b1i_fail(err, B1_MEMORY, "not enough memory for what the stack said of itself");
}

/* W of a format that is not known here. */
static b1_status take_weight_bytes(const b1i_stack_result *r, b1i_measured *m, b1_error *err)
{
    const json_t *bytes = json_object_get(r->facts, "weight_bytes");
    if (json_is_integer(bytes) && json_integer_value(bytes) > 0) {
        m->cell.weight_bytes = (uint64_t)json_integer_value(bytes);
        return B1_OK;
    }
    return b1i_fail(err, B1_UNSUPPORTED, "the format %s is not known here, and the stack does not say its weight_bytes",
                    m->setting->weights);
}

static b1_status stack_jitter(const b1i_stack_result *r, b1i_measured *m, b1_error *err)
{
    b1i_jitter *jitter = NULL;
    b1_status st;
    B1I_TRY(b1i_jitter_open(m->ordinal, m->setting->deadline_ms, &jitter, err));
    for (size_t i = 0; i < r->count; i++) B1I_TRY(b1i_jitter_took(jitter, r->step_ns[i], err));
    B1I_TRY(b1i_jitter_json(jitter, &m->jitter, err));
fail:
    b1i_jitter_close(jitter);
    return st;
}

static b1_status measure_stack(b1i_subject *s, const b1i_setting *setting, const b1i_measure_options *options,
                               b1i_measured *m, json_t **profile, b1_error *err)
{
    b1_status st;
    b1i_stack_result r = {0};
    double before, after;
    const uint64_t kv = b1_inspection_kv_bytes(s->inspection, setting->context);
    m->cell.weight_bytes = s->info.weight_bytes;
    m->cell.kv_bytes = kv * (uint64_t)setting->batch;
    B1I_TRY(look(s, &before, err));
    uint64_t throttles = b1i_ceiling_throttles(s->ceiling);
    B1I_TRY(b1i_stack_run(setting, &s->info, kv, options->cancelled, &r, err));
    B1I_TRY(take_words(&r, m, err));
    if (r.message) {
        m->cell.status = r.status;
        snprintf(m->message, sizeof m->message, "%s", r.message);
        m->cell.message = m->message;
        goto fail;
    }
    if (s->foreign) B1I_TRY(take_weight_bytes(&r, m, err));
    B1I_TRY(look(s, &after, err));
    B1I_TRY(take_steps(&r, before, after, b1i_ceiling_throttles(s->ceiling) != throttles, m, err));
    if (profile && r.profile) *profile = json_incref(r.profile);
    B1I_TRY(stack_jitter(&r, m, err));
fail:
    b1i_stack_result_free(&r);
    return st;
}

/* ---- the whole ---- */

/* The cell that `m` is, with `why` where it could not run. */
static b1_status end_cell(b1i_measured *m, b1_status st, const b1_error *why, uint64_t began, json_t **out,
                          b1_error *err)
{
    char id[B1I_SETTING_ID];
    if (st != B1_OK && !m->cell.message) {
        m->cell.status = status_word(st);
        m->cell.message = why->message[0] ? why->message : b1_status_text(st);
    }
    m->elapsed_s = (double)(b1i_now_ns() - began) / 1e9;
    m->id = id;
    b1_status named = b1i_setting_id(m->setting, m->binary, id, err);
    if (named != B1_OK) id[0] = 0;
    st = b1i_measured_json(m, out, err);
    if (st == B1_OK && named != B1_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return named != B1_OK ? named : st;
}

b1_status b1i_subject_measure(b1i_subject *subject, const b1i_setting *setting, const b1i_measure_options *options,
                              json_t **cell, json_t **profile, b1_error *err)
{
    b1i_measured m;
    b1_error why = {0};
    uint64_t began = b1i_now_ns();
    *cell = NULL;
    if (profile) *profile = NULL;
    begin_cell(subject, setting, &m);
    if (subject->ordinal != B1I_DEVICE_CPU) m.gpu_before = b1i_device_state(subject->ordinal);
    b1_status st = setting->stack ? measure_stack(subject, setting, options, &m, profile, &why)
                                  : measure_engine(subject, setting, options, &m, profile, &why);
    if (subject->ordinal != B1I_DEVICE_CPU) m.gpu_after = b1i_device_state(subject->ordinal);
    if (st == B1_CANCELLED) {
        if (err) *err = why;
        b1i_measured_drop(&m);
    } else {
        st = end_cell(&m, st, &why, began, cell, err);
    }
    b1i_bench_result_free(&m.cell.result);
    return st;
}

b1_status b1i_setting_measure(const b1i_setting *setting, const b1i_measure_options *options, json_t **cell,
                              json_t **profile, b1_error *err)
{
    b1_error why = {0};
    b1i_subject *subject = NULL;
    b1i_measured m;
    uint64_t began = b1i_now_ns();
    *cell = NULL;
    if (profile) *profile = NULL;
    b1_status st = subject_open(setting, options, &subject, &why);
    if (st == B1_OK) {
        st = b1i_subject_measure(subject, setting, options, cell, profile, err);
    } else if (st != B1_CANCELLED && subject) {
        begin_cell(subject, setting, &m);
        st = end_cell(&m, st, &why, began, cell, err);
    } else if (err) {
        *err = why;
    }
    b1i_subject_close(subject);
    return st;
}

b1_status b1i_setting_failed(const b1i_setting *setting, const char *status, const char *message, json_t **cell,
                             b1_error *err)
{
    b1i_measured m;
    b1_error ignored = {0};
    b1i_subject *s = b1i_calloc(1, sizeof *s);
    *cell = NULL;
    if (!s) return b1i_fail_memory(err, sizeof *s);
    b1_status st = b1i_setting_copy(setting, &s->setting, err);
    if (st == B1_OK) st = identify(s, &ignored); /* what inspection does not know is left out */
    if (st == B1_MEMORY) {
        if (err) *err = ignored.message[0] ? ignored : *err;
    } else {
        begin_cell(s, setting, &m);
        m.cell.status = status;
        m.cell.message = message;
        st = end_cell(&m, B1_OK, &ignored, b1i_now_ns(), cell, err);
    }
    b1i_subject_close(s);
    return st;
}
