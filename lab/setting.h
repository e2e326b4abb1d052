/* SPDX-License-Identifier: MIT
 *
 * A setting: everything that decides what one cell of a study measures. Its id is a hash of it and of the binary, so
 * that the same id is the same measurement, wherever it is made.
 */
#ifndef LAB_SETTING_H
#define LAB_SETTING_H

#include "lab/device.h"

/* All texts are owned (b1i_setting_free). */
typedef struct b1i_setting {
    char *model;    /* a path, or a built-in shape's name */
    bool synthetic; /* it is a shape */
    char *device;   /* "cpu", "cuda:0" */
    char *executor; /* one of batchone's, never an alias; NULL: the stack's */
    char *stack;    /* the command of an outside stack; NULL: batchone itself */
    char *weights;  /* a format; NULL: as the model has them ("as-is"), of a shape bf16 */
    int context;    /* positions that a step reads */
    int threads;    /* 0: all */
    int batch;      /* sequences of a step, 1 … 8 */
    int session;    /* 1 …: which repetition; each is a cell of its own */
    int warmup, steps;
    bool profile;       /* a pass under CUPTI after the timing */
    double deadline_ms; /* steps that take longer are counted; 0: none */
} b1i_setting;

void b1i_setting_free(b1i_setting *setting); /* a zeroed one is fine */
/* {"model", "synthetic", "device", "executor", "stack", "weights", "context", "threads", "batch", "session", "warmup",
 * "steps", "profile"}, all of them always, null for NULL, and "deadline_ms" where there is one; a new reference, NULL:
 * no memory. */
json_t *b1i_setting_json(const b1i_setting *setting);
/* B1_IO with a sentence that names the key: it is missing, unknown, or its value is not what is allowed. */
b1_status b1i_setting_read(const json_t *json, b1i_setting *out, b1_error *err);
/* B1_ARGUMENT with the list: batchone has no such format of weights. NULL is as-is. A stack may have others. */
b1_status b1i_setting_format(const char *weights, b1_error *err);
b1_status b1i_setting_copy(const b1i_setting *from, b1i_setting *out, b1_error *err);
/* 16 hex digits: the beginning of the SHA-256 of the JSON (keys sorted, compact) and of the binary's own SHA-256. */
enum { B1I_SETTING_ID = 17 };
b1_status b1i_setting_id(const b1i_setting *setting, const char *binary_sha256, char id[B1I_SETTING_ID], b1_error *err);

#endif
