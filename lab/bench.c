/* SPDX-License-Identifier: MIT
 *
 * The protocol of a cell. See bench.h.
 */
#include "lab/bench.h"

#include "lab/machine.h"
#include "lab/stats.h"

#include <math.h>
#include <string.h>

enum {
    WARMUP_NS = 100000000,
    WARMUP_MOST = 2000,  /* steps, however short they are */
    SLICE_NS = 40000000, /* what a slice's steps should take together */
    SLICES_LEAST = 6,    /* so many slices at least, where there are so many steps */
    TRIES = 8,           /* a slice is measured again so often */
};

#define CEILINGS_APART 0.05 /* the readings before and after a slice agree within this */
#define DRIFT          0.10 /* first and last third of the slices agree within this */

const char *const b1i_verdict_names[] = {"ok", "noisy", "drifting", "throttled"};

static b1_status one_step(const b1i_bench_subject *s, const b1i_bench_plan *plan, uint64_t *ns, b1_error *err)
{
    if (plan->cancelled && plan->cancelled()) return b1i_fail(err, B1_CANCELLED, "cancelled while measuring");
    return s->step(s->user, ns, err);
}

/* Runs the warm-up; *ns is the median of its last steps. */
static b1_status warm_up(const b1i_bench_subject *s, const b1i_bench_plan *plan, b1i_bench_result *out, double *ns,
                         b1_error *err)
{
    double last[8];
    uint64_t sum = 0, one = 0;
    size_t kept = 0;
    while ((out->warmup < plan->warmup || sum < WARMUP_NS) && out->warmup < plan->warmup + WARMUP_MOST) {
        b1_status st = one_step(s, plan, &one, err);
        if (st != B1_OK) return st;
        last[(size_t)out->warmup % 8] = (double)one;
        if (kept < 8) kept++;
        sum += one;
        out->warmup++;
    }
    *ns = kept ? b1i_median(last, kept) : SLICE_NS;
    return B1_OK;
}

/* One slice's steps, appended behind those kept so far. The one that follows a reading of the ceiling counts only where
 * all do: it finds caches and clocks as no step does that follows a step. */
static b1_status slice_steps(const b1i_bench_subject *s, const b1i_bench_plan *plan, int count, b1i_bench_result *out,
                             b1_error *err)
{
    if (!b1i_grow(&out->step_ns, &out->step_room, out->step_count + (size_t)count, sizeof *out->step_ns))
        return b1i_fail_memory(err, sizeof *out->step_ns * (size_t)count);
    for (int i = count > 1 ? -1 : 0; i < count; i++) {
        uint64_t ns;
        b1_status st = one_step(s, plan, &ns, err);
        if (st != B1_OK) return st;
        if (i >= 0) out->step_ns[out->step_count++] = (double)ns;
    }
    return B1_OK;
}

bool b1i_bench_agree(double before, double after)
{
    return fabs(before - after) <= CEILINGS_APART * fmax(before, after);
}

/* Measures all slices; *quiet is false where one never had two ceilings that agree. */
static b1_status measure_slices(const b1i_bench_subject *s, const b1i_bench_plan *plan, int per_slice,
                                b1i_bench_result *out, bool *quiet, b1_error *err)
{
    b1_status st;
    double before, after;
    *quiet = true;
    if ((st = s->ceiling(s->user, &before, err)) != B1_OK) return st;
    while (out->step_count < (size_t)plan->steps) {
        if (!b1i_grow(&out->slices, &out->slice_room, out->slice_count + 1, sizeof *out->slices))
            return b1i_fail_memory(err, sizeof *out->slices);
        size_t first = out->step_count;
        bool agree = false;
        for (int attempt = 0; !agree && attempt <= (*quiet ? TRIES : 0); attempt++) {
            out->step_count = first;
            if (attempt > 0) before = after;
            if ((st = slice_steps(s, plan, per_slice, out, err)) != B1_OK) return st;
            if ((st = s->ceiling(s->user, &after, err)) != B1_OK) return st;
            agree = b1i_bench_agree(before, after);
        }
        *quiet = *quiet && agree;
        out->slices[out->slice_count++] = (b1i_slice){(before + after) / 2, first, out->step_count - first};
        before = after;
    }
    return B1_OK;
}

/* How far the ratios [count ≥ 3] went from their first third to their last, by the thirds' medians; 0 where the middle
 * third does not lie between, for that is no trend. `work` is [count]. */
static double trend(const double *ratio, size_t count, double *work)
{
    double median[3];
    for (size_t i = 0; i < 3; i++) {
        size_t first = count * i / 3, n = count * (i + 1) / 3 - first;
        memcpy(work, ratio + first, n * sizeof *work);
        median[i] = b1i_median(work, n);
    }
    bool between = (median[1] - median[0]) * (median[2] - median[1]) >= 0;
    return between ? fabs(median[2] / median[0] - 1) : 0;
}

/* As anyone can recompute them. */
b1_status b1i_bench_summarise(uint64_t bytes, b1i_bench_result *out, double *drift, b1_error *err)
{
    size_t n = out->step_count, slices = out->slice_count;
    double *work = b1i_malloc((n + 3 * slices) * sizeof *work);
    if (!work) return b1i_fail_memory(err, (n + 3 * slices) * sizeof *work);
    double *ratio = work + n, *ceiling = ratio + slices, *third = ceiling + slices;
    for (size_t i = 0; i < slices; i++) {
        const b1i_slice *s = &out->slices[i];
        memcpy(work, out->step_ns + s->first, s->steps * sizeof *work);
        ceiling[i] = s->ceiling_gbps;
        ratio[i] = (double)bytes / s->ceiling_gbps / b1i_median(work, s->steps);
    }
    *drift = slices >= SLICES_LEAST ? trend(ratio, slices, third) : 0;
    memcpy(work, out->step_ns, n * sizeof *work);
    out->t_obs_ms = b1i_median(work, n) / 1e6;
    out->p10_ms = b1i_percentile(work, n, 10) / 1e6;
    out->p90_ms = b1i_percentile(work, n, 90) / 1e6;
    out->p99_ms = b1i_percentile(work, n, 99) / 1e6;
    out->ceiling_gbps = b1i_median(ceiling, slices);
    out->r_ceiling = b1i_median(ratio, slices);
    b1i_free(work);
    return B1_OK;
}

b1i_verdict b1i_bench_verdict(const b1i_bench_result *result, bool throttled, bool quiet, double drift)
{
    return throttled                                  ? b1i_verdict_throttled
           : !quiet || result->r_ceiling > B1I_R_MOST ? b1i_verdict_noisy
           : drift > DRIFT                            ? b1i_verdict_drifting
                                                      : b1i_verdict_ok;
}

static uint64_t throttles(const b1i_bench_subject *s)
{
    return s->throttles ? s->throttles(s->user) : b1i_machine_throttle_count();
}

b1_status b1i_bench_measure(const b1i_bench_subject *subject, const b1i_bench_plan *plan, b1i_bench_result *out,
                            b1_error *err)
{
    *out = (b1i_bench_result){0};
    b1_status st;
    double step_ns, drift = 0;
    bool quiet = true;
    uint64_t throttled = throttles(subject);
    B1I_TRY(warm_up(subject, plan, out, &step_ns, err));
    int most = (plan->steps + SLICES_LEAST - 1) / SLICES_LEAST;
    if (plan->slice_most && plan->slice_most < most) most = plan->slice_most;
    double fits = SLICE_NS / (step_ns > 1 ? step_ns : 1);
    int per_slice = fits < 1 ? 1 : fits > most ? most : (int)fits;
    B1I_TRY(measure_slices(subject, plan, per_slice, out, &quiet, err));
    B1I_TRY(b1i_bench_summarise(subject->bytes, out, &drift, err));
    out->verdict = b1i_bench_verdict(out, throttles(subject) != throttled, quiet, drift);
    return B1_OK;
fail:
    return st;
}

void b1i_bench_result_free(b1i_bench_result *result)
{
    b1i_free(result->slices);
    b1i_free(result->step_ns);
    *result = (b1i_bench_result){0};
}
