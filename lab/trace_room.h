/* SPDX-License-Identifier: MIT
 *
 * A trace as Perfetto reads it, as text; and the traces of a run, verified.
 */
#ifndef LAB_TRACE_ROOM_H
#define LAB_TRACE_ROOM_H

#include "lab/trace.h"

/* A function of the spans alone, so that a stored file can be compared. Freed with b1i_free(). */
b1_status b1i_trace_perfetto(const b1i_trace_span *spans, size_t count, char **out, size_t *bytes, b1_error *err);

/* Of `files`, a manifest's entries: says a line of each cell of the plan that is to be traced and has no trace, and of
 * each trace whose two files do not agree. Fails where there is no memory, or no plan that can be read. */
b1_status b1i_traces_check(const char *directory, const json_t *files, void (*say)(void *user, const char *line),
                           void *user, b1_error *err);

#endif
