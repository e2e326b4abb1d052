/* SPDX-License-Identifier: MIT
 *
 * samples.jsonl: a row a line, in the order measured, which is the plan's:
 *
 *   {"cell","kind","round","ns"}, on a GPU "sm_mhz", where the CPU throttled during the round "cpu_throttles" (how
 *   often), and "throttled": true where the clock was more than 7 % below the warm one or the CPU throttled
 */
#ifndef LAB_SAMPLES_H
#define LAB_SAMPLES_H

#include "lab/plan.h"

#define B1I_THROTTLED_BELOW 0.93 /* of the warm clock */
enum { B1I_SAMPLE_TEXT = 512 };  /* a row as text is shorter */

typedef struct b1i_sample {
    uint32_t cell; /* index in the plan */
    b1i_lab_kind kind;
    int round; /* from 1 */
    double ns;
    double sm_mhz;          /* 0: not measured */
    uint64_t cpu_throttles; /* during the round */
} b1i_sample;

typedef struct b1i_samples {
    b1i_sample *rows; /* [count], of whole rounds alone */
    size_t count, room;
    int rounds;     /* whole ones */
    uint64_t bytes; /* of the file that these are */
} b1i_samples;

bool b1i_sample_throttled(const b1i_lab_plan *plan, const b1i_sample *sample);
/* The row with its line end into `text` [B1I_SAMPLE_TEXT]; its length. */
size_t b1i_sample_text(const b1i_lab_plan *plan, const b1i_sample *sample, char *text);
/* Reads the directory's. B1_IO: a row is not as the plan has it, with its line. `all`: that all rounds are there is
 * demanded; otherwise a last round that is not whole is left out. Freed with b1i_samples_free(). */
b1_status b1i_samples_read(const char *directory, const b1i_lab_plan *plan, bool all, b1i_samples *out, b1_error *err);
void b1i_samples_free(b1i_samples *samples);

#endif
