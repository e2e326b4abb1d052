/* SPDX-License-Identifier: MIT
 *
 * The parts of a step, and what follows from them: pure functions of what was measured. For explain alone.
 *
 * memory           bytes over the ceiling of the same moment, (W + K) / ceiling
 * launch           of a stream of launches: what the same kernels take longer than as a graph. On the CPU: what waking
 *                  the workers costs, for each dispatch of the step
 * synchronisation  between kernels, where all of the device waits for the last of them. On the CPU: meetings of all
 *                  workers
 * attention        what attention's kernels take beyond reading K and V at the ceiling
 * kernels          what the others take beyond reading W at the ceiling: arithmetic, unpacking, uneven shares
 * host             before the first kernel and after the last: parameters, the call, the wait's end
 *
 * Each is at least 0, and together they are the step: what is read off a profile or off an empty dispatch is scaled to
 * what the unprofiled step leaves beyond memory.
 */
#ifndef LAB_EXPLAIN_PARTS_H
#define LAB_EXPLAIN_PARTS_H

#include "base/base.h"

#include <jansson.h>

/* A measured cell; t_ms 0: there is none. Beyond memory it is t_ms − memory, at least 0. */
typedef struct b1i_seen {
    double t_ms, p10_ms, p90_ms, ceiling_gbps, weight_bytes, kv_bytes;
    int context;
} b1i_seen;
/* Of a cell.json; zeroed where its status is not ok. */
b1i_seen b1i_seen_of(const json_t *cell);
/* (W + K) / ceiling, no more than the step. */
double b1i_seen_memory_ms(const b1i_seen *seen);
double b1i_seen_beyond_ms(const b1i_seen *seen);

/* How a step gets to its device. */
typedef enum b1i_form {
    b1i_form_stream,     /* GPU: kernel by kernel */
    b1i_form_graph,      /* GPU: one graph */
    b1i_form_pdl,        /* GPU: a graph whose kernels begin before the one before has ended */
    b1i_form_whole,      /* one kernel or dispatch for the step, whose workers meet inside */
    b1i_form_dispatches, /* CPU: a dispatch a stage */
    b1i_form_one         /* nothing is handed out */
} b1i_form;
b1i_form b1i_form_of(const char *executor, bool gpu);

/* Of a step-profile document; found false: there is none. */
typedef struct b1i_profiled {
    bool found;
    double attention_ms, others_ms, between_ms, overlap_ms, whole_ms; /* the whole: median of the profiled steps */
    double distortion;
} b1i_profiled;
b1i_profiled b1i_profiled_of(const json_t *profile);

typedef struct b1i_causes {
    bool gpu;
    b1i_form form;
    b1i_seen base;
    b1i_seen graph;                 /* GPU: the same kernels as a graph (the base itself, of a graph) */
    b1i_seen fewer;                 /* the base's executor at fewer positions */
    b1i_profiled profile;           /* GPU: of that graph; CPU: of the base */
    int dispatches;                 /* CPU: of a step of the base */
    int meetings;                   /* CPU: of a step */
    double dispatch_ms, meeting_ms; /* CPU: of an empty one */
} b1i_causes;

typedef struct b1i_step_parts {
    double memory, launch, synchronisation, kernels, attention, host;
} b1i_step_parts;
void b1i_step_parts_of(const b1i_causes *causes, b1i_step_parts *out);
/* {"memory": …, …}; a new reference, NULL: no memory. */
json_t *b1i_step_parts_json(const b1i_step_parts *parts);

/* ---- on the pool (explain_pool.c) ---- */

/* An empty dispatch to `workers`, and a meeting of them inside one: medians, in milliseconds. */
b1_status b1i_pool_costs(int workers, double *dispatch_ms, double *meeting_ms, b1_error *err);

/* ---- other devices (explain_predict.c) ---- */

typedef struct b1i_source {
    bool gpu;
    const char *name;  /* of data/gpus.json; NULL: not there */
    b1i_seen seen;     /* of the best setting */
    double peak_gbps;  /* 0: unknown */
    double flops;      /* of a step; 0: unknown */
    double need_bytes; /* of memory */
    int layers;
    int launches; /* of a step that launches kernel by kernel: slow memory may hide what they cost; else 0 */
} b1i_source;
/* [{"gpu", "gbps", "fits", "t_ms": [low, high] (null where it does not fit), "how"}] for each of `gpus` but the
 * source's own; a new reference, NULL: no memory. */
json_t *b1i_predictions(const b1i_source *source, const json_t *gpus);

typedef struct b1i_price {
    char name[64], currency[8]; /* of data/gpus.json or "this"; "" */
    double per_hour;
} b1i_price;
/* "NAME=2.49" or "NAME=2.49EUR", NAME being "this", an entry's name, or how just one of them begins, in any case.
 * B1_ARGUMENT names what is wrong. */
b1_status b1i_price_read(const char *text, const json_t *gpus, b1i_price *out, b1_error *err);
/* The price of a million tokens, by the measured step of `this` device and by the predictions of others. */
json_t *b1i_prices_json(const b1i_price *prices, size_t count, const b1i_source *source, const json_t *predictions,
                        const char *date);

/* ---- in words (explain_words.c) ---- */

/* The sentences that a whole document (batchone.explain/1) says; a new reference, NULL: no memory. */
json_t *b1i_explain_sentences(const json_t *document);

#endif
