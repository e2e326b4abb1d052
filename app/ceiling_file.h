/* SPDX-License-Identifier: MIT
 *
 * The last result of `batchone ceiling` for each device, kept in the user's cache folder.
 */
#ifndef APP_CEILING_FILE_H
#define APP_CEILING_FILE_H

#include "lab/device.h"

/* GB/s of the last result for the device, measured on a machine like this one (CPU model and usable cores are the same;
 * or the very same GPU), and its date into `date` [≥ 32]; 0 where there is none. */
double b1i_ceiling_recall(const b1i_device *device, char *date, size_t bytes);

/* Keeps a document of batchone.ceiling/1; where that cannot be done the result is not less true, so nothing is said. */
void b1i_ceiling_keep(const b1i_device *device, json_t *document);

/* Measures the device now, into a document that is kept too. */
b1_status b1i_ceiling_measure(const b1i_device *device, json_t **document, b1_error *err);

#endif
