/* SPDX-License-Identifier: MIT
 *
 * Scripts that run a planned study elsewhere: scheduling stays outside the engine. Each runs `batchone study run --cell
 * ID --out DIR` (of an A/B `batchone ab run --session ID --out DIR`, whose two arms stay in one process) for every cell
 * that is planned, and may be run again: a cell that is there is left alone.
 */
#ifndef LAB_FLEET_H
#define LAB_FLEET_H

#include "base/base.h"

#include <stdio.h>

/* "slurm", "parallel", "ssh", NULL past the last. */
const char *b1i_fleet_kind(int index);
/* Writes the script. `hosts` [count]: ssh alone. B1_ARGUMENT: no such kind, no plan in the directory, hosts missing. */
b1_status b1i_fleet_emit(const char *kind, const char *directory, const char *executable, const char *const *hosts,
                         size_t count, FILE *file, b1_error *err);

#endif
