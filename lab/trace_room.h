/* SPDX-License-Identifier: MIT
 *
 * A trace as Perfetto reads it, as text.
 */
#ifndef LAB_TRACE_ROOM_H
#define LAB_TRACE_ROOM_H

#include "lab/trace.h"

/* A function of the spans alone, so that a stored file can be compared. Freed with b1i_free(). */
b1_status b1i_trace_perfetto(const b1i_trace_span *spans, size_t count, char **out, size_t *bytes, b1_error *err);

#endif
