/* SPDX-License-Identifier: MIT
 *
 * The table of experiments.
 */
#include "lab/experiments/attention.h"
#include "lab/experiments/ceiling.h"
#include "lab/experiments/launch.h"
#include "lab/experiments/pointwise.h"
#include "lab/experiments/rms_softmax.h"
#include "lab/experiments/tiles.h"

#include <string.h>

const b1i_experiment *const b1i_experiments[] = {
    &b1i_experiment_pointwise,
    &b1i_experiment_rms_softmax,
    &b1i_experiment_tiles,
    &b1i_experiment_launch,
    &b1i_experiment_ceiling,
    &b1i_experiment_attention,
    NULL,
};

const b1i_experiment *b1i_experiment_find(const char *name)
{
    for (int i = 0; b1i_experiments[i]; i++)
        if (strcmp(b1i_experiments[i]->name, name) == 0) return b1i_experiments[i];
    return NULL;
}
