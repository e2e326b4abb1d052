/* SPDX-License-Identifier: MIT
 *
 * One setting measured in this process, by the bench's protocol (bench.h): our own engine, or an outside stack between
 * two readings of the ceiling.
 *
 * cell.json, schema batchone.cell/1: all keys of a cell of batchone.bench/1 (bench_cell.h), and
 *   "id", "session", "kind": "decode", "setting", "architecture", "dtype" (of keys and values, "bf16"), "attention"
 *   (what computes it: "split-kv", "math", a stack's word), "batch", "layers", "parameters" (of the matrices that a
 * step multiplies by), "kernels": {"step" (kernels or dispatches of a step), "layer_min", "layer_max", "outside" (those
 * of no layer), "from"} or null, "source": "batchone" or {"stack", "version", "command", "facts" (its first line)},
 *   "device_name", "device_uuid", "flops" (of those matrices and of attention, of all sequences), "peak_tflops" (the
 *   datasheet's dense bf16 rate), "t_arithmetic_ms" (their quotient; null: not known), "cv" (standard deviation over
 *   mean of the steps), "modes": null or {"kind" (modes.h), "low_ms", "high_ms", "step" (index of the first step of the
 *   second level; null of other kinds), "sm_mhz": [at the beginning, at the end] or null}, "jitter" (jitter.h) or null,
 *   "energy" (energy.h) or null, "machine" (b1i_machine_record), "binary_sha256", "version", "date", "elapsed_s"; of a
 *   stack also "harness_ns": [[…]] (the harness's own stamps, by slice).
 *
 * The verdict is `drifting` where the steps have two levels or a trend. kv_bytes are those of all sequences, so that
 * weight_bytes + kv_bytes are the bytes of a step. Jitter, energy and profile are passes of their own after the timing.
 */
#ifndef LAB_STUDY_MEASURE_H
#define LAB_STUDY_MEASURE_H

#include "lab/setting.h"

/* An engine that is open, with what its ceiling is read from: for several cells of the same model, device, weights and
 * threads in one process (A/B, explain). */
typedef struct b1i_subject b1i_subject;
typedef struct b1i_measure_options {
    bool (*cancelled)(void);
    bool (*progress)(void *user, const char *what, uint64_t done, uint64_t total); /* of loading; may be NULL */
    void *progress_user;
} b1i_measure_options;

/* B1_MEMORY, B1_UNSUPPORTED, B1_DEVICE, …: as opening the engine. A stack opens nothing but the ceiling. */
b1_status b1i_subject_open(const b1i_setting *setting, const b1i_measure_options *options, b1i_subject **out,
                           b1_error *err);
void b1i_subject_close(b1i_subject *subject);
/* Whether a cell of `setting` can be measured on it. */
bool b1i_subject_fits(const b1i_subject *subject, const b1i_setting *setting);
/* Measures; *cell is a new reference with status and figures, also where the cell could not run (B1_OK). `profile` may
 * be NULL; else what the setting's profile pass gave, or NULL. Fails only with B1_CANCELLED, and B1_MEMORY for the
 * document itself. */
b1_status b1i_subject_measure(b1i_subject *subject, const b1i_setting *setting, const b1i_measure_options *options,
                              json_t **cell, json_t **profile, b1_error *err);
/* The profile pass alone, of batchone's own engine, for who times other cells before. */
b1_status b1i_subject_profile(const b1i_subject *subject, const b1i_setting *setting, json_t **profile, b1_error *err);
/* The three in one, a subject that does not open being a cell with that status. */
b1_status b1i_setting_measure(const b1i_setting *setting, const b1i_measure_options *options, json_t **cell,
                              json_t **profile, b1_error *err);

/* The cell of a setting that was never measured here: its process died. */
b1_status b1i_setting_failed(const b1i_setting *setting, const char *status, const char *message, json_t **cell,
                             b1_error *err);

/* Of the buffer that the CPU's ceiling is read from, at most: 1 GiB. For tests. */
extern uint64_t b1i_subject_ceiling_bytes;

/* Recomputes a cell's figures from its slices and bytes, and of a built-in shape what follows from the setting, which
 * is the cell's; `say` gets a line for each that does not follow. B1_MEMORY. */
b1_status b1i_cell_check(const json_t *cell, const b1i_setting *setting, void (*say)(void *user, const char *line),
                         void *user, b1_error *err);
/* Writes a folder DIRECTORY/cells/ID of these documents (references are taken), with its own manifest: under another
 * name, synced, then renamed. B1_ARGUMENT: it is there already. */
typedef struct b1i_cell_file {
    const char *name; /* "cell.json" */
    json_t *json;     /* NULL: none */
} b1i_cell_file;
b1_status b1i_cell_write(const char *directory, const char *id, const b1i_cell_file *files, size_t count,
                         b1_error *err);
/* Removes a folder and its files: what a process that was killed left. */
void b1i_cell_remove(const char *path);
/* Checks a written folder's own manifest. The lines that `say` gets name its files alone. */
b1_status b1i_cell_whole(const char *directory, const char *id, void (*say)(void *user, const char *line), void *user,
                         bool *holds, b1_error *err);

#endif
