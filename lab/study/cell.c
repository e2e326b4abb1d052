/* SPDX-License-Identifier: MIT
 *
 * cell.json: its keys from what was measured, and its figures from its steps once more. See measure.h.
 */
#include "lab/study/cell.h"

#include "lab/files.h"
#include "lab/jitter.h"
#include "lab/machine.h"
#include "lab/modes.h"
#include "lab/stats.h"
#include "lab/study/measure.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIGURES_FAR 1e-9 /* relative: what is lost where figures are written */

/* ---- what follows from the steps alone ---- */

/* Standard deviation over mean. */
static double cv_of(const double *ns, size_t count)
{
    double mean = 0, sum = 0;
    for (size_t i = 0; i < count; i++) mean += ns[i] / (double)count;
    for (size_t i = 0; i < count; i++) sum += (ns[i] - mean) * (ns[i] - mean);
    return count > 1 && mean > 0 ? sqrt(sum / (double)(count - 1)) / mean : 0;
}

static json_t *modes_json(const b1i_modes *m)
{
    if (m->kind == b1i_modes_one) return json_null();
    return json_pack("{s:s,s:f,s:f,s:o}", "kind", b1i_modes_names[m->kind], "low_ms", m->low_ns / 1e6, "high_ms",
                     m->high_ns / 1e6, "step",
                     m->kind == b1i_modes_levels ? json_integer((json_int_t)m->step) : json_null());
}

/* ---- what follows from the shape alone ---- */

uint64_t b1i_matrix_parameters(const b1_model_info *i)
{
    uint64_t hidden = (uint64_t)i->hidden, heads = (uint64_t)(i->heads + 2 * i->kv_heads) * (uint64_t)i->head_dim;
    uint64_t attention = hidden * heads + hidden * (uint64_t)i->heads * (uint64_t)i->head_dim;
    return (uint64_t)i->layers * (attention + 3 * hidden * (uint64_t)i->ffn) + hidden * (uint64_t)i->vocab;
}

double b1i_step_flops(const b1_model_info *i, const b1i_setting *setting)
{
    double attention = 4.0 * i->layers * i->heads * i->head_dim * setting->context;
    return (2.0 * (double)b1i_matrix_parameters(i) + attention) * setting->batch;
}

uint64_t b1i_kv_elements(const b1_model_info *i)
{
    return 2 * (uint64_t)i->layers * (uint64_t)i->kv_heads * (uint64_t)i->head_dim;
}

/* ---- the document ---- */

static json_t *clock_of(const json_t *state)
{
    json_t *mhz = json_object_get(state, "sm_mhz");
    return mhz ? json_incref(mhz) : json_null();
}

static json_t *clocks(const b1i_measured *m)
{
    if (!m->gpu_before || !m->gpu_after) return json_null();
    return json_pack("[o,o]", clock_of(m->gpu_before), clock_of(m->gpu_after));
}

static json_t *machine(b1i_measured *m)
{
    json_t *record = b1i_machine_record();
    if (record && m->ordinal != B1I_DEVICE_CPU && m->gpu_before) {
        json_object_set_new(record, "gpu", b1i_device_record(m->ordinal, m->gpu_before, m->gpu_after));
        m->gpu_before = m->gpu_after = NULL;
    }
    return record;
}

static json_t *given(json_t **taken)
{
    json_t *value = *taken;
    *taken = NULL;
    return value ? value : json_null();
}

static json_t *number_or_null(bool known, double x) { return known ? b1i_lab_number(x) : json_null(); }
static json_t *count_or_null(uint64_t n) { return n ? json_integer((json_int_t)n) : json_null(); }

static json_t *dtype(const b1i_measured *m)
{
    return b1i_lab_text(m->kv_element_bytes == 2 ? "bf16" : m->kv_element_bytes == 4 ? "f32" : NULL);
}

/* The keys that a cell of the bench has not; NULL: no memory. */
static json_t *study_keys(b1i_measured *m, const b1i_modes *modes)
{
    const b1i_bench_result *r = &m->cell.result;
    const bool ok = !m->cell.message, floor = ok && m->peak_tflops > 0 && m->flops > 0;
    char date[32];
    b1i_machine_date(date, sizeof date);
    json_t *j =
        json_pack("{s:s,s:i,s:s,s:o,s:o,s:o,s:i,s:o,s:o,s:o,s:o,s:s,s:s?}", "id", m->id, "session", m->setting->session,
                  "kind", "decode", "architecture", b1i_lab_text(m->architecture), "dtype", dtype(m), "attention",
                  b1i_lab_text(m->attention), "batch", m->setting->batch, "layers", count_or_null((uint64_t)m->layers),
                  "parameters", count_or_null(m->parameters), "kernels", given(&m->kernels), "source",
                  given(&m->source), "device_name", m->device_name, "device_uuid", m->uuid);
    json_t *more = json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:s,s:s,s:f}", "flops", number_or_null(m->flops > 0, m->flops),
        "peak_tflops", number_or_null(m->peak_tflops > 0, m->peak_tflops), "t_arithmetic_ms",
        number_or_null(floor, m->flops / m->peak_tflops / 1e9), "cv",
        number_or_null(ok, ok ? cv_of(r->step_ns, r->step_count) : 0), "modes", ok ? modes_json(modes) : json_null(),
        "energy", given(&m->energy), "jitter", given(&m->jitter), "setting", b1i_setting_json(m->setting),
        "binary_sha256", m->binary, "version", b1_version(), "date", date, "elapsed_s", m->elapsed_s);
    if (!j || !more || json_object_update(j, more) != 0) {
        json_decref(j);
        j = NULL;
    }
    json_decref(more);
    return j;
}

void b1i_measured_drop(b1i_measured *m)
{
    json_t **const taken[] = {&m->kernels,    &m->source,     &m->energy,   &m->jitter,
                              &m->harness_ns, &m->gpu_before, &m->gpu_after};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        json_decref(*taken[i]);
        *taken[i] = NULL;
    }
}

b1_status b1i_measured_json(b1i_measured *m, json_t **out, b1_error *err)
{
    b1i_bench_result *r = &m->cell.result;
    b1i_modes modes = {b1i_modes_one, 0, 0, 0};
    b1_status st = B1_OK;
    json_t *document = NULL, *keys = NULL, *found;
    *out = NULL;
    if (!m->cell.message) {
        B1I_TRY(b1i_modes_find(r->step_ns, r->step_count, &modes, err));
        if (modes.kind != b1i_modes_one && r->verdict != b1i_verdict_throttled) r->verdict = b1i_verdict_drifting;
    }
    json_t *mhz = clocks(m);
    document = b1i_cell_json(&m->cell);
    keys = study_keys(m, &modes);
    found = json_object_get(keys, "modes");
    bool good = document && keys && json_object_update(document, keys) == 0 &&
                json_object_set_new(document, "machine", machine(m)) == 0;
    if (good && json_is_object(found)) good = json_object_set(found, "sm_mhz", mhz) == 0;
    if (good && m->harness_ns) good = json_object_set_new(document, "harness_ns", given(&m->harness_ns)) == 0;
    json_decref(mhz);
    if (good) {
        *out = document;
        document = NULL;
    } else {
        st = b1i_fail(err, B1_MEMORY, "not enough memory for the JSON document");
    }
fail:
    json_decref(document);
    json_decref(keys);
    b1i_measured_drop(m);
    return st;
}

/* ---- checking ---- */

typedef struct check {
    const json_t *cell;
    const b1i_setting *setting;
    void (*say)(void *user, const char *line);
    void *user;
} check;

__attribute__((format(printf, 2, 3))) static void differs(const check *c, const char *format, ...)
{
    char line[600];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    c->say(c->user, line);
}

/* The figure `key` is `value`; a value that is not finite is null. */
static void figure(const check *c, const char *key, double value)
{
    const json_t *stored = json_object_get(c->cell, key);
    if (!isfinite(value) ? !json_is_null(stored)
                         : !json_is_number(stored) ||
                               !(fabs(json_number_value(stored) - value) <= FIGURES_FAR * fmax(fabs(value), 1e-9)))
        differs(c, "%s does not follow from its steps and setting, which give %.9g", key, value);
}

/* The slices as they were measured. B1_IO: they are none. */
static b1_status read_slices(const json_t *cell, b1i_bench_result *r, b1_error *err)
{
    const json_t *slices = json_object_get(cell, "slices");
    size_t steps = 0, count = json_array_size(slices);
    for (size_t i = 0; i < count; i++) steps += json_array_size(json_object_get(json_array_get(slices, i), "step_ns"));
    if (!steps) return b1i_fail(err, B1_IO, "it has no steps");
    if (!b1i_grow(&r->slices, &r->slice_room, count, sizeof *r->slices) ||
        !b1i_grow(&r->step_ns, &r->step_room, steps, sizeof *r->step_ns))
        return b1i_fail_memory(err, steps * sizeof *r->step_ns);
    for (size_t i = 0; i < count; i++) {
        const json_t *slice = json_array_get(slices, i), *list = json_object_get(slice, "step_ns");
        b1i_slice *s = &r->slices[r->slice_count++];
        *s = (b1i_slice){b1i_lab_number_at(slice, "ceiling_gbps"), r->step_count, json_array_size(list)};
        if (!(s->ceiling_gbps > 0) || !s->steps) return b1i_fail(err, B1_IO, "slice %zu has no ceiling or no steps", i);
        for (size_t k = 0; k < s->steps; k++) {
            double ns = json_number_value(json_array_get(list, k));
            if (!(ns > 0)) return b1i_fail(err, B1_IO, "step %zu of slice %zu is no time", k, i);
            r->step_ns[r->step_count++] = ns;
        }
    }
    return B1_OK;
}

static void check_modes(const check *c, const b1i_modes *m)
{
    json_t *made = modes_json(m);
    const json_t *stored = json_object_get(c->cell, "modes");
    static const char *const same[] = {"kind", "step"};
    bool equal = json_is_null(made) == json_is_null(stored);
    for (int i = 0; i < 2 && equal && json_is_object(made); i++)
        equal = json_equal(json_object_get(made, same[i]), json_object_get(stored, same[i]));
    for (int i = 0; i < 2 && equal && json_is_object(made); i++) {
        const char *key = i ? "high_ms" : "low_ms";
        double value = b1i_lab_number_at(made, key);
        equal = fabs(b1i_lab_number_at(stored, key) - value) <= FIGURES_FAR * value;
    }
    if (!equal) differs(c, "modes do not follow from its steps, which are %s", b1i_modes_names[m->kind]);
    json_decref(made);
}

static void check_verdict(const check *c, const b1i_bench_result *r, const b1i_modes *m, double drift)
{
    const char *verdict = json_string_value(json_object_get(c->cell, "verdict"));
    b1i_verdict quiet = b1i_bench_verdict(r, false, true, drift); /* what the slices alone say */
    bool good = verdict != NULL;
    if (good && strcmp(verdict, "throttled") != 0) {
        if (m->kind != b1i_modes_one)
            good = strcmp(verdict, "drifting") == 0;
        else /* readings that disagree are not kept: noisy may stand for any */
            good = strcmp(verdict, "noisy") == 0 || strcmp(verdict, b1i_verdict_names[quiet]) == 0;
    }
    if (!good) differs(c, "its verdict, %s, does not follow from its steps", verdict ? verdict : "none");
}

/* Keys and values are of 32 bits with this executor alone, unless a session asks for it, and no cell does. */
static bool is_wide(const check *c) { return strcmp(b1i_lab_text_at(c->cell, "executor"), "reference") == 0; }

/* A stack measures the steps that it was asked for, our own engine whole slices of them, on as many threads. */
static void check_asked(const check *c, const b1i_bench_result *r)
{
    const size_t asked = (size_t)c->setting->steps;
    if (c->setting->stack ? r->step_count != asked : r->step_count < asked)
        differs(c, "it has %zu steps, and its setting asks for %zu", r->step_count, asked);
    if (!(b1i_lab_number_at(c->cell, "warmup") >= c->setting->warmup))
        differs(c, "it was warmed up by fewer steps than its setting asks for");
    if (c->setting->threads > 0 && !c->setting->stack && strcmp(c->setting->device, "cpu") == 0)
        figure(c, "threads", c->setting->threads);
    if (strcmp(b1i_lab_text_at(c->cell, "dtype"), is_wide(c) ? "f32" : "bf16") != 0)
        differs(c, "its dtype is not that of its executor's keys and values");
}

/* A number of bytes that is one; false: it is none. */
static bool bytes_at(const json_t *cell, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(cell, key);
    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static b1_status check_figures(const check *c, b1_error *err)
{
    const json_t *j = c->cell;
    b1i_bench_result r = {0};
    b1i_modes modes;
    b1_error why = {0};
    uint64_t weight, kv;
    double drift, peak = b1i_lab_number_at(j, "peak_gbps");
    b1_status st = B1_OK;
    if (!bytes_at(j, "weight_bytes", &weight) || !bytes_at(j, "kv_bytes", &kv))
        B1I_TRY(b1i_fail(&why, B1_IO, "it has no weight_bytes or kv_bytes"));
    const double bytes = (double)(weight + kv); /* two of 63 bits */
    B1I_TRY(read_slices(j, &r, &why));
    B1I_TRY(b1i_bench_summarise(weight + kv, &r, &drift, &why));
    B1I_TRY(b1i_modes_find(r.step_ns, r.step_count, &modes, &why));
    check_asked(c, &r);
    figure(c, "t_obs_ms", r.t_obs_ms);
    figure(c, "p10_ms", r.p10_ms);
    figure(c, "p90_ms", r.p90_ms);
    figure(c, "p99_ms", r.p99_ms);
    figure(c, "ceiling_gbps", r.ceiling_gbps);
    figure(c, "r_ceiling", r.r_ceiling);
    figure(c, "t_floor_ms", bytes / peak / 1e6);
    figure(c, "r_floor", bytes / peak / 1e6 / r.t_obs_ms);
    figure(c, "t_arithmetic_ms", b1i_lab_number_at(j, "flops") / b1i_lab_number_at(j, "peak_tflops") / 1e9);
    figure(c, "cv", cv_of(r.step_ns, r.step_count));
    check_modes(c, &modes);
    check_verdict(c, &r, &modes, drift);
fail:
    b1i_bench_result_free(&r);
    if (st == B1_MEMORY) return b1i_fail(err, st, "%s", why.message);
    if (st != B1_OK) differs(c, "%s", why.message);
    return B1_OK;
}

/* What a built-in shape and the setting decide. A format that is a stack's own has bytes that are its word. */
static b1_status check_shape(const check *c, b1_error *err)
{
    const b1i_setting *s = c->setting;
    b1_inspection *inspection = NULL;
    b1_model_info info;
    b1_error why = {0};
    b1_status st;
    if (!s->synthetic) return B1_OK;
    st = b1_inspect_synthetic(s->model, s->weights, &inspection, &why);
    const bool known = st == B1_OK;
    if (st == B1_ARGUMENT && s->stack) st = b1_inspect_synthetic(s->model, NULL, &inspection, &why);
    if (st == B1_MEMORY) return b1i_fail(err, st, "%s", why.message);
    if (st != B1_OK) {
        differs(c, "its shape cannot be checked: %s", why.message);
        return B1_OK;
    }
    b1_inspection_info(inspection, &info);
    const uint64_t kv = b1i_kv_elements(&info) * (is_wide(c) ? 4 : 2) * (uint64_t)s->context * (uint64_t)s->batch;
    if (strcmp(b1i_lab_text_at(c->cell, "model"), info.name) != 0 ||
        strcmp(b1i_lab_text_at(c->cell, "architecture"), info.architecture) != 0)
        differs(c, "its model or architecture is not that of its shape, %s", info.name);
    figure(c, "layers", info.layers);
    figure(c, "parameters", (double)b1i_matrix_parameters(&info));
    figure(c, "flops", b1i_step_flops(&info, s));
    figure(c, "kv_bytes", (double)kv);
    if (known) figure(c, "weight_bytes", (double)info.weight_bytes);
    b1_inspection_free(inspection);
    return B1_OK;
}

/* A stack's steps against what the harness saw of them. */
static void check_harness(const check *c)
{
    const json_t *seen = json_object_get(c->cell, "harness_ns"), *slices = json_object_get(c->cell, "slices");
    double theirs = 0, ours = 0;
    bool same = json_array_size(seen) == json_array_size(slices);
    for (size_t i = 0; same && i < json_array_size(seen); i++) {
        const json_t *a = json_object_get(json_array_get(slices, i), "step_ns"), *b = json_array_get(seen, i);
        same = json_array_size(a) == json_array_size(b);
        for (size_t k = 0; k < json_array_size(a); k++) theirs += json_number_value(json_array_get(a, k));
        for (size_t k = 0; k < json_array_size(b); k++) ours += json_number_value(json_array_get(b, k));
    }
    if (!same || !(fabs(theirs - ours) <= B1I_STACK_APART * ours))
        differs(c, "the stack's steps are not those that the harness saw");
}

b1_status b1i_cell_check(const json_t *cell, const b1i_setting *setting, void (*say)(void *user, const char *line),
                         void *user, b1_error *err)
{
    const check c = {cell, setting, say, user};
    static const char *const words[] = {"ok", "out_of_memory", "unsupported", "failed"};
    const char *status = json_string_value(json_object_get(cell, "status"));
    const json_t *jitter = json_object_get(cell, "jitter");
    bool known = false;
    b1_status st = B1_OK;
    for (int i = 0; i < 4; i++) known = known || (status && strcmp(status, words[i]) == 0);
    if (!known) {
        differs(&c, "its status is none");
    } else if (strcmp(status, "ok") == 0) {
        B1I_TRY(check_figures(&c, err));
        B1I_TRY(check_shape(&c, err));
        if (json_object_get(cell, "harness_ns") || setting->stack) check_harness(&c);
        if (json_is_object(jitter)) b1i_jitter_check(jitter, say, user);
    } else if (!json_is_string(json_object_get(cell, "message")) || json_is_number(json_object_get(cell, "t_obs_ms")) ||
               json_array_size(json_object_get(cell, "slices"))) {
        differs(&c, "its status is %s, yet it has figures or says no reason", status);
    }
fail:
    return st;
}
