/* SPDX-License-Identifier: MIT
 *
 * Steps while CUPTI records. See step_cupti.h.
 *
 * A record belongs to the last step that had begun when it did, by CUPTI's own clock, which is asked before each step.
 * Between two steps there is a pause, for a GPU's times are fitted to that clock and may be off by some microseconds.
 */
#include "lab/step_cupti.h"

#include "lab/step_trace.h"

#include <time.h>

enum {
    WARM = 3,          /* steps before those that count */
    CALL_STEPS = 5,    /* steps in which the host's calls are recorded */
    PAUSE_NS = 200000, /* between two steps */
};

typedef struct window {
    uint64_t begin, end; /* of a step, on the records' clock */
} window;

typedef struct recording {
    const b1i_step_source *source;
    b1i_gpu *gpu;
    int steps;
    window *windows; /* [steps] */
    double *step_ns; /* [steps] */
    b1i_gpu_activities seen;
} recording;

static b1_status run_steps(recording *r, b1_error *err)
{
    b1_status st = B1_OK;
    double ns;
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    for (int i = 0; i < WARM; i++) B1I_TRY(r->source->step(r->source->user, &ns, err));
    for (int i = 0; i < r->steps; i++) {
        r->source->settle(r->source->user);
        nanosleep(&pause, NULL);
        r->windows[i].begin = b1i_gpu_activities_now();
        B1I_TRY(r->source->step(r->source->user, &r->step_ns[i], err));
        r->windows[i].end = b1i_gpu_activities_now();
    }
fail:
    r->source->settle(r->source->user);
    return st;
}

/* The recording has ended when this returns. */
static b1_status record(recording *r, bool calls, b1_error *err)
{
    b1_status st = calls ? b1i_gpu_calls_begin(r->gpu, err) : b1i_gpu_activities_begin(r->gpu, false, err);
    if (st != B1_OK) return st;
    st = run_steps(r, err);
    b1_status ended = b1i_gpu_activities_end(r->gpu, &r->seen, st == B1_OK ? err : NULL);
    if (st == B1_OK) st = ended;
    if (st == B1_OK && r->seen.dropped)
        st = b1i_fail(err, B1_DEVICE, "CUPTI lost %zu of its records: the profile would not be whole", r->seen.dropped);
    return st;
}

/* The step that an activity belongs to; −1: none. */
static int step_of(const recording *r, const b1i_gpu_activity *a)
{
    int s = r->steps - 1;
    while (s >= 0 && r->windows[s].begin > a->begin_ns) s--;
    return s;
}

/* Splits the activities into steps: seen [steps], records [as many as activities]. Copies are the logits', which no
 * step hands over. */
static void split(const recording *r, b1i_step_record *records, b1i_step_seen *seen)
{
    static const int what[] = {[b1i_gpu_did_kernel] = b1i_step_kernel,
                               [b1i_gpu_did_memset] = b1i_step_memset,
                               [b1i_gpu_did_graph] = b1i_step_graph};
    size_t used = 0;
    for (int s = 0; s < r->steps; s++) seen[s] = (b1i_step_seen){NULL, 0, -1, -1};
    for (size_t i = 0; i < r->seen.count; i++) {
        const b1i_gpu_activity *a = &r->seen.items[i];
        const int s = step_of(r, a);
        if (s < 0 || a->did == b1i_gpu_did_copy) continue;
        if (!seen[s].count++) seen[s].records = &records[used];
        records[used++] = (b1i_step_record){what[a->did], a->name, B1I_LAYER_UNKNOWN, a->begin_ns, a->end_ns};
    }
}

/* The host's part of a step: in calls that launch, and from the last of them to the step's end; −1: not seen. */
static void host_times(const recording *r, int step, double *launch_ns, double *sync_ns)
{
    *launch_ns = *sync_ns = -1;
    for (size_t i = 0; i < r->seen.count; i++) {
        const b1i_gpu_activity *a = &r->seen.items[i];
        const uint64_t end = r->windows[step].end;
        if (a->did != b1i_gpu_did_launch || a->begin_ns > end || step_of(r, a) != step) continue;
        *launch_ns = (*launch_ns < 0 ? 0 : *launch_ns) + (double)(a->end_ns - a->begin_ns);
        *sync_ns = end > a->end_ns ? (double)(end - a->end_ns) : 0;
    }
}

static b1_status record_calls(const recording *kernels, double *launch_ns, double *sync_ns, b1_error *err)
{
    window windows[CALL_STEPS];
    double step_ns[CALL_STEPS];
    recording r = {kernels->source, kernels->gpu, CALL_STEPS, windows, step_ns, {0}};
    b1_status st = record(&r, true, err);
    for (int i = 0; st == B1_OK && i < CALL_STEPS; i++) host_times(&r, i, &launch_ns[i], &sync_ns[i]);
    b1i_gpu_activities_free(&r.seen);
    return st;
}

static b1_status trace_of(const recording *r, int layers, json_t **trace, b1_error *err)
{
    b1_status st = B1_OK;
    double launch_ns[CALL_STEPS], sync_ns[CALL_STEPS];
    b1i_step_record *records = b1i_calloc(r->seen.count + 1, sizeof *records);
    b1i_step_seen *seen = b1i_calloc((size_t)r->steps, sizeof *seen);
    if (!records || !seen) B1I_TRY(b1i_fail_memory(err, r->seen.count * sizeof *records));
    split(r, records, seen);
    for (int i = 0; i < r->steps; i++)
        if (seen[i].count == 0)
            B1I_TRY(b1i_fail(err, B1_DEVICE, "CUPTI recorded nothing of step %d of %d", i + 1, r->steps));
    B1I_TRY(record_calls(r, launch_ns, sync_ns, err));
    for (int i = 0; i < r->steps; i++) { /* they are of other steps: what counts is their median */
        seen[i].launch_ns = launch_ns[i % CALL_STEPS];
        seen[i].sync_ns = sync_ns[i % CALL_STEPS];
    }
    B1I_TRY(b1i_step_trace_json(seen, (size_t)r->steps, layers, trace, err));
fail:
    b1i_free(records);
    b1i_free(seen);
    return st;
}

b1_status b1i_step_cupti(b1i_gpu *gpu, const b1i_step_source *source, int layers, int steps, double *step_ns,
                         json_t **trace, b1_error *err)
{
    recording r = {source, gpu, steps, b1i_calloc((size_t)steps, sizeof *r.windows), step_ns, {0}};
    if (!r.windows) return b1i_fail_memory(err, (size_t)steps * sizeof *r.windows);
    b1_status st = record(&r, false, err);
    if (st == B1_OK) st = trace_of(&r, layers, trace, err);
    b1i_gpu_activities_free(&r.seen);
    b1i_free(r.windows);
    return st;
}
