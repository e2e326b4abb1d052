/* SPDX-License-Identifier: MIT
 *
 * data/gpus.json, built into the command.
 */
#ifndef APP_GPUS_H
#define APP_GPUS_H

#include <jansson.h>

/* The array of {"name", "gbps", "memory_gb", "source"}; a new reference, NULL: no memory. */
json_t *b1i_gpus(void);

#endif
