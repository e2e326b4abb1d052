/* SPDX-License-Identifier: MIT
 *
 * The last result of `batchone ceiling`, kept in the user's cache folder.
 */
#ifndef APP_CEILING_FILE_H
#define APP_CEILING_FILE_H

#include "base/base.h"

/* GB/s of the last result that was measured on a machine like this one (CPU model and usable cores are the same), and
 * its date into `date` [≥ 32]; 0 where there is none. */
double b1i_ceiling_recall(char *date, size_t bytes);

#endif
