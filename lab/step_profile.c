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
#include "lab/step_trace.h"

#include <string.h>
#include <time.h>

enum {
    MOST_BATCH = 8,
    WARM = 3,          /* steps before a pass */
    CALL_STEPS = 5,    /* steps in which the host's calls are recorded */
    PAUSE_NS = 200000, /* between steps that are recorded, so that it is plain whose a record is */
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

typedef struct window {
    uint64_t begin, end; /* of a step, on the records' clock */
} window;

static b1_status recorded_steps(pass *p, window *windows, int steps, b1_error *err)
{
    b1_status st = B1_OK;
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    for (int i = 0; i < steps; i++) {
        nanosleep(&pause, NULL);
        windows[i].begin = b1i_gpu_activities_now();
        B1I_TRY(one_step(p, &p->step_ns[i], err));
        windows[i].end = b1i_gpu_activities_now();
    }
    nanosleep(&pause, NULL);
    /* A step's end is seen before its last kernel has ended; the logits are not. */
    (void)b1_session_logits(p->sessions[0]);
fail:
    return st;
}

/* The step that an activity belongs to: the last that had begun; −1: none. */
static int step_of(const window *windows, int steps, uint64_t begin_ns)
{
    int s = steps - 1;
    while (s >= 0 && windows[s].begin > begin_ns) s--;
    return s;
}

/* Splits the activities into steps. `records` [seen->count]. */
static void split(const b1i_gpu_activities *all, const window *windows, int steps, b1i_step_record *records,
                  b1i_step_seen *seen)
{
    static const int what[] = {[b1i_gpu_did_kernel] = b1i_step_kernel,
                               [b1i_gpu_did_memset] = b1i_step_memset,
                               [b1i_gpu_did_copy] = b1i_step_copy,
                               [b1i_gpu_did_graph] = b1i_step_graph};
    size_t used = 0;
    for (int s = 0; s < steps; s++) seen[s] = (b1i_step_seen){NULL, 0, -1, -1};
    for (size_t i = 0; i < all->count; i++) {
        const b1i_gpu_activity *a = &all->items[i];
        const int s = step_of(windows, steps, a->begin_ns);
        if (s < 0 || a->did == b1i_gpu_did_copy) continue; /* copies are the logits' */
        if (!seen[s].count++) seen[s].records = &records[used];
        records[used++] = (b1i_step_record){what[a->did], a->name, B1I_LAYER_UNKNOWN, a->begin_ns, a->end_ns};
    }
}

/* The host's part of each step: in calls that launch, and from the last of them to the step's end. */
static void host_times(const b1i_gpu_activities *calls, const window *windows, int steps, double *launch_ns,
                       double *sync_ns)
{
    for (int s = 0; s < steps; s++) launch_ns[s] = sync_ns[s] = -1;
    for (size_t i = 0; i < calls->count; i++) {
        const b1i_gpu_activity *a = &calls->items[i];
        const int s = step_of(windows, steps, a->begin_ns);
        if (s < 0 || a->begin_ns > windows[s].end || a->did != b1i_gpu_did_launch) continue;
        launch_ns[s] = (launch_ns[s] < 0 ? 0 : launch_ns[s]) + (double)(a->end_ns - a->begin_ns);
        sync_ns[s] = windows[s].end > a->end_ns ? (double)(windows[s].end - a->end_ns) : 0;
    }
}

typedef struct recording {
    window *windows;
    b1i_step_record *records;
    b1i_step_seen *seen;
    double *launch_ns, *sync_ns; /* [CALL_STEPS] */
    b1i_gpu_activities kernels, calls;
} recording;

/* The steps while CUPTI records kernels, or calls. The recording has ended when this returns. */
static b1_status record(pass *p, b1i_gpu *gpu, bool calls, window *windows, b1i_gpu_activities *out, b1_error *err)
{
    b1_status st = calls ? b1i_gpu_calls_begin(gpu, err) : b1i_gpu_activities_begin(gpu, false, err);
    if (st != B1_OK) return st;
    st = warm_up(p, err);
    if (st == B1_OK) st = recorded_steps(p, windows, calls ? CALL_STEPS : p->steps, err);
    b1_status ended = b1i_gpu_activities_end(gpu, out, st == B1_OK ? err : NULL);
    return st != B1_OK ? st : ended;
}

static b1_status trace_of(pass *p, recording *r, json_t **trace, b1_error *err)
{
    const size_t steps = (size_t)p->steps;
    r->records = b1i_calloc(r->kernels.count + 1, sizeof *r->records);
    r->seen = b1i_calloc(steps, sizeof *r->seen);
    if (!r->records || !r->seen) return b1i_fail_memory(err, r->kernels.count * sizeof *r->records);
    split(&r->kernels, r->windows, p->steps, r->records, r->seen);
    for (size_t i = 0; i < steps; i++)
        if (r->seen[i].count == 0)
            return b1i_fail(err, B1_DEVICE, "CUPTI recorded nothing of step %zu of %zu", i + 1, steps);
    for (size_t i = 0; i < steps; i++) {
        r->seen[i].launch_ns = r->launch_ns[i % CALL_STEPS];
        r->seen[i].sync_ns = r->sync_ns[i % CALL_STEPS];
    }
    return b1i_step_trace_json(r->seen, steps, p->info.layers, trace, err);
}

static b1_status by_cupti(pass *p, int ordinal, json_t **trace, b1_error *err)
{
    b1_status st;
    b1i_gpu *gpu = NULL;
    recording r = {0};
    window calls[CALL_STEPS];
    double launch_ns[CALL_STEPS], sync_ns[CALL_STEPS], *profiled = p->step_ns;
    r.launch_ns = launch_ns;
    r.sync_ns = sync_ns;
    r.windows = b1i_calloc((size_t)p->steps, sizeof *r.windows);
    double *others = b1i_calloc(CALL_STEPS, sizeof *others);
    if (!r.windows || !others) B1I_TRY(b1i_fail_memory(err, (size_t)p->steps * sizeof *r.windows));
    B1I_TRY(b1i_gpu_open(ordinal, &gpu, err));
    B1I_TRY(open_sessions(p, err));
    B1I_TRY(record(p, gpu, false, r.windows, &r.kernels, err));
    p->step_ns = others;
    B1I_TRY(record(p, gpu, true, calls, &r.calls, err));
    host_times(&r.calls, calls, CALL_STEPS, launch_ns, sync_ns);
    B1I_TRY(trace_of(p, &r, trace, err));
    if (r.kernels.dropped) st = b1i_fail(err, B1_DEVICE, "CUPTI lost %zu records: memory was short", r.kernels.dropped);
fail:
    p->step_ns = profiled;
    b1i_gpu_activities_free(&r.kernels);
    b1i_gpu_activities_free(&r.calls);
    b1i_gpu_close(gpu);
    b1i_free(others);
    b1i_free(r.windows);
    b1i_free(r.records);
    b1i_free(r.seen);
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
