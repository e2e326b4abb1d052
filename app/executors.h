/* SPDX-License-Identifier: MIT
 *
 * The executors that a bench measures on a device.
 */
#ifndef APP_EXECUTORS_H
#define APP_EXECUTORS_H

#include "lab/device.h"

enum { B1I_EXECUTORS_MOST = 64 };

typedef struct b1i_executors {
    const char *names[B1I_EXECUTORS_MOST];
    size_t count;
} b1i_executors;

/* What `given` [count] means on the device: none is the device's usual two, "all" is all of its own, and on a GPU
 * separate and fused are their graphs. B1_ARGUMENT: too many. */
b1_status b1i_executors_of(const b1i_device *device, const char *const *given, size_t count, b1i_executors *out,
                           b1_error *err);

#endif
