/* SPDX-License-Identifier: MIT
 *
 * environment.json, device-before.json and device-after.json: where a run was made, by what, and how long it took.
 *
 * environment.json: {"schema": "batchone.environment/1", "run", "experiment", "device", "options", "version",
 *  "binary_sha256", "machine", "container", "gpu", "cuda": {"driver_api", "toolkit" (that compiled the kernels),
 *  "runtime"}, "libraries": [{"name", "file"}], "globaltimer_tick_ns", "elapsed_s", "elapsed_excludes", "processes":
 *  [{"date", "first_round", "last_round", "outputs_checked", "elapsed_s"}]}
 *
 * It is written when a process begins and again when it ends: of one that was killed the last three of its entry are
 * null, and its rounds were compared with no oracle after their measurement.
 */
#ifndef LAB_ENVIRONMENT_H
#define LAB_ENVIRONMENT_H

#include "lab/run.h"

/* What this process of the run has done; −1: not known yet. */
typedef struct b1i_process {
    int first_round, last_round;
    bool ended, checked;
    uint64_t began_ns;
    char date[24];
} b1i_process;

/* `processes`: those before this one, as environment.json has them, or NULL. */
b1_status b1i_environment_write(const b1i_lab *lab, const json_t *processes, const b1i_process *now, b1_error *err);
/* Clocks, power, temperature, … of the device now, as `name`. */
b1_status b1i_environment_device(const b1i_lab *lab, const char *name, b1_error *err);
/* Fills the plan's run and binary, and the device's name. */
b1_status b1i_environment_identify(b1i_lab *lab, b1_error *err);

/* ---- of any run ---- */

typedef struct b1i_environment_facts {
    const char *run, *experiment, *binary;
    const b1i_device *device;
    json_t *options, *processes; /* taken over */
    double tick_ns, elapsed_s;
} b1i_environment_facts;
/* environment.json and a device's state as documents; new references, NULL: no memory. */
json_t *b1i_environment_json(const b1i_environment_facts *facts);
json_t *b1i_environment_state(const b1i_device *device);
/* A new run's id into `run` [≥ 40]. B1_SYSTEM. */
b1_status b1i_environment_name(char *run, size_t bytes, b1_error *err);
/* A GPU's name or the CPU's model; "unknown". */
void b1i_environment_device_name(const b1i_device *device, char *name, size_t bytes);

#endif
