/* SPDX-License-Identifier: MIT
 *
 * Jitter: how steps differ that follow one another, for what a deadline misses is the worst step, not the median.
 *
 * {"steps", "left_out" (steps that do not count, for the machine or a counter was read right before them),
 *  "deadline_ms", "missed" (steps that took longer), "missed_in_a_row" (at most), "p50_ms", "p99_ms", "p999_ms" (null
 *  where there are fewer than 100, 1000 steps), "max_ms", "histogram": [{"from_ms", "to_ms", "steps"}] (bins of 1 %,
 *  those with steps), "outliers": {"above_ms" (a step is one above that, a quarter past the median, or past a deadline
 *  that the median keeps), "steps", "switched" (of them, in which a thread of this process lost its CPU), "worst":
 *  [{"step", "ms", "late", "switches": {"thread": [voluntary, involuntary], "process": [the same, of all threads]},
 *  "machine": what it did right after the step}], at most 32}}
 *
 * "machine" of a GPU is b1i_device_moment(); of the CPU {"cpu", "mhz", "throttled" (times since the steps began)}, null
 * where the system is silent; null where it was not read, for that is done seldom. "switches" is null where the steps
 * were not watched. "deadline_ms", "missed", "missed_in_a_row" are null without one.
 */
#ifndef LAB_JITTER_H
#define LAB_JITTER_H

#include "lab/cell.h"
#include "lab/device.h"

typedef struct b1i_jitter b1i_jitter;
/* Of steps on the device `ordinal`; deadline_ms 0: none. */
b1_status b1i_jitter_open(int ordinal, double deadline_ms, b1i_jitter **out, b1_error *err);
void b1i_jitter_close(b1i_jitter *jitter); /* NULL is fine */
/* Around each step, by the thread that runs it; `took` alone for steps that ran elsewhere. */
void b1i_jitter_before(b1i_jitter *jitter);
b1_status b1i_jitter_took(b1i_jitter *jitter, double ns, b1_error *err);
/* What is above; B1_ARGUMENT: there was no step. */
b1_status b1i_jitter_json(const b1i_jitter *jitter, json_t **out, b1_error *err);
/* Whether the document agrees with itself; `say` gets a line for what does not. */
void b1i_jitter_check(const json_t *json, void (*say)(void *user, const char *line), void *user);

/* Steps that follow one another with nothing between them, so that what a cache holds from one to the next is read from
 * there: at least `steps`, after a few that do not count, and where the device has an energy counter at least a second
 * of them. */
typedef struct b1i_endurance {
    int ordinal, steps;
    double deadline_ms; /* 0: none */
    bool (*cancelled)(void);
} b1i_endurance;
/* *jitter as above, of `steps` 0 JSON's null; *energy as energy.h says, or JSON's null. The sessions' content is lost.
 */
b1_status b1i_endure(b1i_steps *steps, const b1i_endurance *how, json_t **jitter, json_t **energy, b1_error *err);

#endif
