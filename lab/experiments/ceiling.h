/* SPDX-License-Identifier: MIT
 *
 * The experiment `ceiling`, and the CPU's bodies of it.
 */
#ifndef LAB_EXPERIMENTS_CEILING_H
#define LAB_EXPERIMENTS_CEILING_H

#include "lab/kernels/bandwidth_args.h"
#include "lab/lab.h"

extern const b1i_experiment b1i_experiment_ceiling;

/* Whether this CPU has stores that pass the caches; where not, the streaming bodies must not be called. */
extern const bool b1i_band_streams;

/* Reads: the sum of the 32-bit words of all passes; b1i_band_read8 and b1i_band_read_wide: the exclusive or of
 * the 64-bit words. */
void b1i_band_read4(const void *args, int worker, int workers);
void b1i_band_read8(const void *args, int worker, int workers);
void b1i_band_read16(const void *args, int worker, int workers);
void b1i_band_read_wide(const void *args, int worker, int workers);
void b1i_band_write16(const void *args, int worker, int workers);
void b1i_band_write16_streaming(const void *args, int worker, int workers);
void b1i_band_copy(const void *args, int worker, int workers);
void b1i_band_copy16_streaming(const void *args, int worker, int workers);

#endif
