/* SPDX-License-Identifier: MIT
 *
 * The profile of a step. See step_profile.h.
 *
 * The sessions are made anew in each pass: an executor of the CPU keeps its ops' times only where its session was made
 * so. CUPTI is first opened when the steps without it have been timed.
 */
#include "lab/step_profile.h"

#include "gpu/gpu.h"
#include "lab/cell.h"
#include "lab/files.h"
#include "lab/stats.h"
#include "lab/step_cupti.h"
#include "lab/step_trace.h"

#include <string.h>

enum {
    MOST_BATCH = 8,
    WARM = 3, /* steps before a pass */
};

typedef struct pass {
    b1_engine *engine;
    b1_session_options how;
    b1_model_info info;
    int batch, context, steps;
    b1_session *sessions[MOST_BATCH];
    b1i_steps run;
    double bytes;    /* of a step */
    double *step_ns; /* [steps] */
} pass;

/* ---- steps ---- */

static void close_sessions(pass *p)
{
    for (int i = 0; i < MOST_BATCH; i++) {
        b1_session_close(p->sessions[i]);
        p->sessions[i] = NULL;
    }
}

static b1_status open_sessions(pass *p, b1_error *err)
{
    b1_status st = B1_OK;
    for (int i = 0; i < p->batch; i++) B1I_TRY(b1_session_create(p->engine, &p->how, &p->sessions[i], err));
    p->run = (b1i_steps){p->sessions, p->batch, p->info.vocab, p->context, 0};
    B1I_TRY(b1i_steps_begin(&p->run, err));
fail:
    return st;
}

static b1_status one_step(pass *p, double *ns, b1_error *err)
{
    uint64_t took = 0;
    b1_status st = b1i_steps_one(&p->run, &took, err);
    *ns = (double)took;
    return st;
}

static b1_status warm_up(pass *p, b1_error *err)
{
    double ns;
    b1_status st = B1_OK;
    for (int i = 0; st == B1_OK && i < WARM; i++) st = one_step(p, &ns, err);
    return st;
}

/* The median of steps that nothing looks at; and what a step reads. */
static b1_status plain_steps(pass *p, double *ms, b1_error *err)
{
    b1_status st;
    B1I_TRY(open_sessions(p, err));
    B1I_TRY(warm_up(p, err));
    p->bytes = (double)b1_session_traffic_bytes(p->sessions[0], p->context) +
               (double)b1_session_kv_bytes(p->sessions[0], p->context) * (p->batch - 1);
    for (int i = 0; i < p->steps; i++) B1I_TRY(one_step(p, &p->step_ns[i], err));
    *ms = b1i_median(p->step_ns, (size_t)p->steps) / 1e6;
fail:
    close_sessions(p);
    return st;
}

/* ---- on the CPU: the executor's own times ---- */

static b1_status executor_steps(pass *p, b1i_step_record *records, b1i_step_seen *seen, b1_error *err)
{
    b1_status st = B1_OK;
    for (int s = 0; s < p->steps; s++) {
        int count;
        B1I_TRY(one_step(p, &p->step_ns[s], err));
        const b1_plan_op *ops = b1_session_plan(p->sessions[0], &count);
        for (int i = 0; i < count; i++)
            records[i] = (b1i_step_record){b1i_step_kernel, ops[i].name,
                                           ops[i].layer < 0 ? B1I_LAYER_NONE : ops[i].layer, 0, ops[i].time_ns};
        seen[s] = (b1i_step_seen){records, (size_t)count, -1, -1};
        records += count;
    }
fail:
    return st;
}

/* The sessions stay open, for the records name what is theirs. */
static b1_status by_executor(pass *p, json_t **trace, b1_error *err)
{
    b1_status st;
    int count;
    b1i_step_record *records = NULL;
    b1i_step_seen *seen = NULL;
    p->how.op_times = true;
    B1I_TRY(open_sessions(p, err));
    (void)b1_session_plan(p->sessions[0], &count);
    const size_t most = (size_t)count * (size_t)p->steps;
    records = b1i_calloc(most, sizeof *records);
    seen = b1i_calloc((size_t)p->steps, sizeof *seen);
    if (!records || !seen) B1I_TRY(b1i_fail_memory(err, most * sizeof *records));
    B1I_TRY(warm_up(p, err));
    B1I_TRY(executor_steps(p, records, seen, err));
    B1I_TRY(b1i_step_trace_json(seen, (size_t)p->steps, p->info.layers, trace, err));
fail:
    b1i_free(records);
    b1i_free(seen);
    return st;
}

/* ---- on a GPU: CUPTI ---- */

static b1_status cupti_step(void *user, double *ns, b1_error *err) { return one_step(user, ns, err); }

/* A step's end is seen before its last kernel has ended; the logits are not. */
static void settle(void *user)
{
    const pass *p = user;
    (void)b1_session_logits(p->sessions[0]);
}

static b1_status by_cupti(pass *p, int ordinal, json_t **trace, b1_error *err)
{
    b1_status st;
    b1i_gpu *gpu = NULL;
    const b1i_step_source source = {p, cupti_step, settle};
    B1I_TRY(b1i_gpu_open(ordinal, &gpu, err));
    B1I_TRY(open_sessions(p, err));
    B1I_TRY(b1i_step_cupti(gpu, &source, p->info.layers, p->steps, p->step_ns, trace, err));
fail:
    b1i_gpu_close(gpu);
    return st;
}

/* ---- the document ---- */

static json_t *no_trace(const char *why)
{
    return json_pack("{s:s,s:[],s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:[]}", "message", why, "kernels",
                     "sequence_sha256", "kernels_per_step", "kernels_per_layer", "outside", "kernel_ms", "gap_ms",
                     "overlap_ms", "launch_ms", "sync_ms", "host_over_kernel", "activities");
}

static json_t *document(const pass *p, bool gpu, bool found, double plain_ms, double peak_gbps)
{
    const double profiled = found ? b1i_median(p->step_ns, (size_t)p->steps) / 1e6 : 0;
    return json_pack("{s:s,s:s,s:b,s:i,s:i,s:i,s:o,s:f,s:o,s:o}", "schema", "batchone.step-profile/1", "by",
                     gpu ? "cupti" : "executor", "found", found, "batch", p->batch, "context", p->context, "steps",
                     p->steps, "profiled_ms", found ? json_real(profiled) : json_null(), "unprofiled_ms", plain_ms,
                     "distortion", found ? b1i_lab_number(profiled / plain_ms) : json_null(), "utilisation",
                     peak_gbps > 0 ? b1i_lab_number(p->bytes / 1e6 / plain_ms / peak_gbps) : json_null());
}

static b1_status profile(pass *p, double peak_gbps, json_t **out, b1_error *err)
{
    b1_status st;
    b1_error why = {0};
    double plain_ms = 0;
    json_t *trace = NULL;
    const int ordinal = b1i_gpu_ordinal(p->info.device);
    B1I_TRY(plain_steps(p, &plain_ms, err));
    st = ordinal >= 0 ? by_cupti(p, ordinal, &trace, &why) : by_executor(p, &trace, &why);
    if (st == B1_CANCELLED) B1I_TRY(b1i_fail(err, st, "%s", why.message));
    const bool found = st == B1_OK;
    *out = document(p, ordinal >= 0, found, plain_ms, peak_gbps);
    if (!found) {
        json_decref(trace);
        trace = no_trace(why.message);
    }
    st = *out && trace && json_object_update(*out, trace) == 0
             ? B1_OK
             : b1i_fail(err, B1_MEMORY, "not enough memory for the profile");
fail:
    json_decref(trace);
    return st;
}

b1_status b1i_step_profile(b1_engine *engine, const b1_session_options *how, int batch, int context, double peak_gbps,
                           int steps, json_t **out, b1_error *err)
{
    b1_status st;
    pass p = {.engine = engine, .how = *how, .batch = batch, .context = context, .steps = steps};
    *out = NULL;
    if (batch < 1 || batch > MOST_BATCH || context < 1 || steps < 1)
        return b1i_fail(err, B1_ARGUMENT, "a profile of %d steps of %d sequences at %d positions", steps, batch,
                        context);
    if (p.how.context < context) p.how.context = context;
    p.how.op_times = false;
    p.step_ns = b1i_calloc((size_t)steps, sizeof *p.step_ns);
    if (!p.step_ns) return b1i_fail_memory(err, (size_t)steps * sizeof *p.step_ns);
    b1_engine_info(engine, &p.info);
    st = profile(&p, peak_gbps, out, err);
    close_sessions(&p);
    b1i_free(p.step_ns);
    if (st != B1_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return st;
}

/* ---- without a profiler ---- */

json_t *b1i_step_kernels(b1_session *session, int layers)
{
    int count, step = 0, outside = 0, least = 0, most = 0, seen = 0;
    const b1_plan_op *ops = b1_session_plan(session, &count);
    for (int layer = 0; layer < layers; layer++) {
        int kernels = 0, items = 0;
        for (int i = 0; i < count; i++) {
            if (ops[i].layer != layer) continue;
            items++;
            kernels += ops[i].launches;
        }
        if (!items) continue;
        if (!seen || kernels < least) least = kernels;
        if (kernels > most) most = kernels;
        seen++;
    }
    for (int i = 0; i < count; i++) {
        step += ops[i].launches;
        if (ops[i].layer < 0) outside += ops[i].launches;
    }
    if (step == 0 || seen != layers) return json_null();
    return json_pack("{s:i,s:i,s:i,s:i,s:s}", "step", step, "layer_min", least, "layer_max", most, "outside", outside,
                     "from", "plan");
}

/* The names of the kernels by how many, as a stack may give them without an order. */
static bool same_rows(const json_t *a, const json_t *b)
{
    const json_t *rows[2] = {json_object_get(a, "kernels"), json_object_get(b, "kernels")};
    if (json_array_size(rows[0]) == 0 || json_array_size(rows[0]) != json_array_size(rows[1])) return false;
    for (size_t i = 0; i < json_array_size(rows[0]); i++) {
        const json_t *row = json_array_get(rows[0], i);
        bool found = false;
        for (size_t j = 0; !found && j < json_array_size(rows[1]); j++) {
            const json_t *other = json_array_get(rows[1], j);
            found = json_equal(json_object_get(row, "name"), json_object_get(other, "name")) &&
                    json_equal(json_object_get(row, "count"), json_object_get(other, "count")) &&
                    json_equal(json_object_get(row, "layer"), json_object_get(other, "layer"));
        }
        if (!found) return false;
    }
    return true;
}

bool b1i_step_profile_same(const json_t *a, const json_t *b)
{
    const char *x = json_string_value(json_object_get(a, "sequence_sha256"));
    const char *y = json_string_value(json_object_get(b, "sequence_sha256"));
    if (!json_is_true(json_object_get(a, "found")) || !json_is_true(json_object_get(b, "found"))) return false;
    if (x && y) return strcmp(x, y) == 0;
    return same_rows(a, b);
}
