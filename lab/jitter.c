/* SPDX-License-Identifier: MIT
 *
 * Jitter. See jitter.h.
 *
 * What a step costs here is two looks at the process's counters, outside the step's time. The machine is read only
 * after a step that is an outlier by the median so far, and not after each of those; the step that follows a reading
 * does not count.
 */
#include "lab/jitter.h"

#include "lab/energy.h"
#include "lab/files.h"
#include "lab/machine.h"
#include "lab/stats.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    WARM = 5,        /* steps that do not count */
    FIRST = 16,      /* steps until there is a median */
    READINGS = 256,  /* of the machine, at most */
    EVERY = 4,       /* steps between two of them, at least, but after the longest so far */
    WORST = 32,      /* that are listed */
    P99_STEPS = 100, /* so many steps that a percentile can be seen */
    P999_STEPS = 1000,
};
static const double OUTLIER = 1.25, BIN = 1.01;

typedef struct switches {
    long thread[2], process[2]; /* voluntary, involuntary */
} switches;

typedef struct sample {
    double ns;
    int32_t thread[2], process[2]; /* switches; −1: not watched */
    int reading;                   /* of the machine; −1: none */
} sample;

struct b1i_jitter {
    int ordinal;
    double deadline_ns; /* infinite: none */
    sample *samples;    /* [count] */
    size_t count, room;
    size_t left_out;    /* steps that did not count */
    double longest_ns;  /* so far */
    double outlier_ns;  /* by the median so far; infinite: not known yet */
    size_t median_at;   /* the count at which the median is taken again */
    size_t read_at;     /* the step from which on the machine may be read again */
    uint64_t throttles; /* of the CPU, when it began */
    json_t *readings;
    bool watched;   /* since the last step */
    bool disturbed; /* something was read after the last step, which delays the next one: that does not count */
    switches before;
};

/* ---- watching ---- */

static void read_switches(switches *out)
{
    struct rusage r;
    *out = (switches){{0}, {0}};
    if (getrusage(RUSAGE_THREAD, &r) == 0) {
        out->thread[0] = r.ru_nvcsw;
        out->thread[1] = r.ru_nivcsw;
    }
    if (getrusage(RUSAGE_SELF, &r) == 0) {
        out->process[0] = r.ru_nvcsw;
        out->process[1] = r.ru_nivcsw;
    }
}

b1_status b1i_jitter_open(int ordinal, double deadline_ms, b1i_jitter **out, b1_error *err)
{
    b1i_jitter *j = b1i_calloc(1, sizeof *j);
    *out = NULL;
    if (!j || !(j->readings = json_array())) {
        b1i_free(j);
        return b1i_fail_memory(err, sizeof *j);
    }
    j->ordinal = ordinal;
    j->deadline_ns = deadline_ms > 0 ? deadline_ms * 1e6 : INFINITY;
    j->outlier_ns = INFINITY;
    j->median_at = FIRST;
    if (ordinal == B1I_DEVICE_CPU) j->throttles = b1i_machine_throttle_count();
    *out = j;
    return B1_OK;
}

void b1i_jitter_close(b1i_jitter *j)
{
    if (!j) return;
    json_decref(j->readings);
    b1i_free(j->samples);
    b1i_free(j);
}

void b1i_jitter_before(b1i_jitter *j)
{
    read_switches(&j->before);
    j->watched = true;
}

/* The clock of a CPU as cpufreq has it; 0: it is silent. */
static double cpu_mhz(int cpu)
{
    char path[96], line[32];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu);
    return cpu >= 0 && b1i_machine_first_line(path, line, sizeof line) ? strtod(line, NULL) / 1e3 : 0;
}

static json_t *machine_now(const b1i_jitter *j)
{
    if (j->ordinal != B1I_DEVICE_CPU) return b1i_device_moment(j->ordinal);
    const int cpu = sched_getcpu();
    const double mhz = cpu_mhz(cpu);
    return json_pack("{s:o,s:o,s:I}", "cpu", cpu < 0 ? json_null() : json_integer(cpu), "mhz",
                     mhz > 0 ? json_real(mhz) : json_null(), "throttled",
                     (json_int_t)(b1i_machine_throttle_count() - j->throttles));
}

/* Whether it is to be seen what the machine did in a step that took `ns`. */
static bool worth_reading(const b1i_jitter *j, double ns)
{
    const bool odd = ns > j->outlier_ns || (ns > j->deadline_ns && j->deadline_ns > j->outlier_ns / OUTLIER);
    return odd && (j->count >= j->read_at || ns > j->longest_ns) && json_array_size(j->readings) < READINGS;
}

/* A copy of the times; NULL: no memory. */
static double *times_of(const b1i_jitter *j)
{
    double *ns = b1i_malloc(j->count * sizeof *ns);
    for (size_t i = 0; ns && i < j->count; i++) ns[i] = j->samples[i].ns;
    return ns;
}

static b1_status take_median(b1i_jitter *j, b1_error *err)
{
    double *ns = times_of(j);
    if (!ns) return b1i_fail_memory(err, j->count * sizeof *ns);
    j->outlier_ns = OUTLIER * b1i_median(ns, j->count);
    j->median_at = 2 * j->count;
    b1i_free(ns);
    return B1_OK;
}

b1_status b1i_jitter_took(b1i_jitter *j, double ns, b1_error *err)
{
    if (j->disturbed) {
        j->disturbed = j->watched = false;
        j->left_out++;
        return B1_OK;
    }
    if (!b1i_grow(&j->samples, &j->room, j->count + 1, sizeof *j->samples))
        return b1i_fail_memory(err, sizeof *j->samples);
    sample *s = &j->samples[j->count++];
    *s = (sample){ns, {-1, -1}, {-1, -1}, -1};
    if (j->watched) {
        switches now;
        read_switches(&now);
        for (int i = 0; i < 2; i++) {
            s->thread[i] = (int32_t)(now.thread[i] - j->before.thread[i]);
            s->process[i] = (int32_t)(now.process[i] - j->before.process[i]);
        }
        j->watched = false;
        const size_t readings = json_array_size(j->readings);
        if (worth_reading(j, ns) && json_array_append_new(j->readings, machine_now(j)) == 0) {
            s->reading = (int)readings;
            j->disturbed = true;
            j->read_at = j->count + EVERY;
        }
    }
    if (ns > j->longest_ns) j->longest_ns = ns;
    return j->count == j->median_at ? take_median(j, err) : B1_OK;
}

/* ---- the document ---- */

static json_t *ms(double ns) { return b1i_lab_number(ns / 1e6); }
static json_t *ms_if(bool known, double ns) { return known ? ms(ns) : json_null(); }

/* `sorted` [count ≥ 1], `median` > 0. */
static json_t *histogram(const double *sorted, size_t count, double median)
{
    json_t *bins = json_array();
    for (size_t i = 0; bins && i < count;) {
        const double k = sorted[i] > 0 ? floor(log(sorted[i] / median) / log(BIN)) : -1000;
        const double from = median * pow(BIN, k), to = median * pow(BIN, k + 1);
        const size_t first = i++; /* in any case, whatever the rounding of the edges */
        while (i < count && sorted[i] < to) i++;
        json_array_append_new(bins, json_pack("{s:o,s:o,s:I}", "from_ms", ms(fmin(from, sorted[first])), "to_ms",
                                              ms(to), "steps", (json_int_t)(i - first)));
    }
    return bins;
}

static json_t *pair(const int32_t switches_of[2])
{
    return json_pack("[i,i]", (int)switches_of[0], (int)switches_of[1]);
}

static json_t *outlier(const b1i_jitter *j, size_t at)
{
    const sample *s = &j->samples[at];
    json_t *machine = s->reading < 0 ? json_null() : json_incref(json_array_get(j->readings, (size_t)s->reading));
    return json_pack(
        "{s:I,s:o,s:b,s:o,s:o}", "step", (json_int_t)at, "ms", ms(s->ns), "late", s->ns > j->deadline_ns, "switches",
        s->thread[0] < 0 ? json_null() : json_pack("{s:o,s:o}", "thread", pair(s->thread), "process", pair(s->process)),
        "machine", machine);
}

/* Where most steps are late, being late makes no step an outlier. */
static json_t *outliers(const b1i_jitter *j, double median_ns)
{
    const double above_ns = OUTLIER * median_ns, late_ns = j->deadline_ns > median_ns ? j->deadline_ns : INFINITY;
    size_t worst[WORST], kept = 0, count = 0, switched = 0;
    json_t *rows = json_array();
    for (size_t i = 0; i < j->count; i++) {
        const sample *s = &j->samples[i];
        if (s->ns <= above_ns && s->ns <= late_ns) continue;
        count++;
        switched += s->process[1] > 0;
        size_t at = kept < WORST ? kept++ : WORST; /* from the longest on, equal ones by their place */
        while (at > 0 && j->samples[worst[at - 1]].ns < s->ns) {
            if (at < WORST) worst[at] = worst[at - 1];
            at--;
        }
        if (at < WORST) worst[at] = i;
    }
    for (size_t i = 0; rows && i < kept; i++) json_array_append_new(rows, outlier(j, worst[i]));
    return json_pack("{s:o,s:I,s:I,s:o}", "above_ms", ms(above_ns), "steps", (json_int_t)count, "switched",
                     (json_int_t)switched, "worst", rows);
}

static size_t missed(const b1i_jitter *j, size_t *in_a_row)
{
    size_t count = 0, run = 0;
    *in_a_row = 0;
    for (size_t i = 0; i < j->count; i++) {
        run = j->samples[i].ns > j->deadline_ns ? run + 1 : 0;
        count += run > 0;
        if (run > *in_a_row) *in_a_row = run;
    }
    return count;
}

b1_status b1i_jitter_json(const b1i_jitter *j, json_t **out, b1_error *err)
{
    *out = NULL;
    if (j->count == 0) return b1i_fail(err, B1_ARGUMENT, "no step was measured, and so there is no jitter");
    double *ns = times_of(j);
    if (!ns) return b1i_fail_memory(err, j->count * sizeof *ns);
    size_t in_a_row;
    const size_t late = missed(j, &in_a_row);
    const bool deadline = isfinite(j->deadline_ns);
    const double p50 = b1i_median(ns, j->count), p99 = b1i_percentile(ns, j->count, 99),
                 p999 = b1i_percentile(ns, j->count, 99.9);
    *out = json_pack("{s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "steps", (json_int_t)j->count, "left_out",
                     (json_int_t)j->left_out, "deadline_ms", ms_if(deadline, j->deadline_ns), "missed",
                     deadline ? json_integer((json_int_t)late) : json_null(), "missed_in_a_row",
                     deadline ? json_integer((json_int_t)in_a_row) : json_null(), "p50_ms", ms(p50), "p99_ms",
                     ms_if(j->count >= P99_STEPS, p99), "p999_ms", ms_if(j->count >= P999_STEPS, p999), "max_ms",
                     ms(ns[j->count - 1]), "histogram", histogram(ns, j->count, p50 > 0 ? p50 : 1), "outliers",
                     outliers(j, p50));
    b1i_free(ns);
    return *out ? B1_OK : b1i_fail(err, B1_MEMORY, "not enough memory for the document");
}

/* ---- whether it agrees with itself ---- */

/* Steps of the bins that lie wholly below, and of those that reach below `ms`. */
static void below(const json_t *bins, double value_ms, double *least, double *most)
{
    *least = *most = 0;
    for (size_t i = 0; i < json_array_size(bins); i++) {
        const json_t *bin = json_array_get(bins, i);
        if (b1i_lab_number_at(bin, "to_ms") <= value_ms * (1 + 1e-9)) *least += b1i_lab_number_at(bin, "steps");
        if (b1i_lab_number_at(bin, "from_ms") <= value_ms * (1 + 1e-9)) *most += b1i_lab_number_at(bin, "steps");
    }
}

void b1i_jitter_check(const json_t *json, void (*say)(void *user, const char *line), void *user)
{
    static const struct {
        const char *key;
        double share;
    } percentiles[] = {{"p50_ms", 0.5}, {"p99_ms", 0.99}, {"p999_ms", 0.999}, {"max_ms", 1}};
    const json_t *bins = json_object_get(json, "histogram"), *worst = NULL;
    const double steps = b1i_lab_number_at(json, "steps"), late = b1i_lab_number_at(json, "missed");
    double least, most, sum = 0;
    for (size_t i = 0; i < json_array_size(bins); i++) sum += b1i_lab_number_at(json_array_get(bins, i), "steps");
    if (!(sum == steps && steps >= 1)) say(user, "the histogram of jitter does not add up to its steps");
    for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++) {
        char line[96];
        const double value = b1i_lab_number_at(json, percentiles[i].key);
        if (isnan(value)) continue;
        below(bins, value, &least, &most);
        /* It lies between two steps, which may lie in two bins. */
        const double rank = percentiles[i].share * (steps - 1);
        if (least <= ceil(rank) && most >= floor(rank) + 1) continue;
        snprintf(line, sizeof line, "%s of jitter does not follow from its histogram", percentiles[i].key);
        say(user, line);
    }
    if (!isnan(late)) {
        below(bins, b1i_lab_number_at(json, "deadline_ms"), &least, &most);
        if (late > steps - least || late < steps - most)
            say(user, "missed of jitter does not follow from its histogram");
    }
    worst = json_array_get(json_object_get(json_object_get(json, "outliers"), "worst"), 0);
    if (worst && fabs(b1i_lab_number_at(worst, "ms") - b1i_lab_number_at(json, "max_ms")) >
                     1e-9 * b1i_lab_number_at(json, "max_ms"))
        say(user, "the worst step of jitter is not its longest");
}

/* ---- steps that follow one another ---- */

typedef struct endurance {
    b1i_steps *steps;
    b1i_jitter *jitter;
    size_t least; /* of jitter's steps */
} endurance;

static b1_status endure_step(void *user, b1_error *err)
{
    endurance *e = user;
    uint64_t ns;
    b1i_jitter_before(e->jitter);
    b1_status st = b1i_steps_one(e->steps, &ns, err);
    return st == B1_OK ? b1i_jitter_took(e->jitter, (double)ns, err) : st;
}

static bool endure_more(void *user)
{
    const endurance *e = user;
    return e->jitter->count < e->least;
}

static void endure_looked(void *user) { ((endurance *)user)->jitter->disturbed = true; }

b1_status b1i_endure(b1i_steps *steps, const b1i_endurance *how, json_t **jitter, json_t **energy, b1_error *err)
{
    b1_status st;
    uint64_t ns;
    endurance e = {steps, NULL, (size_t)how->steps};
    b1i_energy *counter = NULL;
    const b1i_energy_work work = {&e, endure_step, steps->batch, endure_more, endure_looked, how->cancelled};
    *jitter = *energy = NULL;
    B1I_TRY(b1i_jitter_open(how->ordinal, how->deadline_ms, &e.jitter, err));
    B1I_TRY(b1i_energy_open(how->ordinal, &counter, err));
    if (counter || how->steps) B1I_TRY(b1i_steps_begin(steps, err));
    for (int i = 0; (counter || how->steps) && i < WARM; i++) B1I_TRY(b1i_steps_one(steps, &ns, err));
    B1I_TRY(b1i_energy_measure(counter, &work, B1I_ENERGY_NS, energy, err));
    *jitter = json_null();
    if (how->steps) B1I_TRY(b1i_jitter_json(e.jitter, jitter, err));
fail:
    b1i_energy_close(counter);
    b1i_jitter_close(e.jitter);
    if (st != B1_OK) {
        json_decref(*energy);
        *energy = NULL;
    }
    return st;
}
