/* SPDX-License-Identifier: MIT
 *
 * Lists of executors. See executors.h.
 */
#include "app/executors.h"

#include <string.h>

static b1_status add(b1i_executors *list, const char *name, b1_error *err)
{
    if (list->count == B1I_EXECUTORS_MOST)
        return b1i_fail(err, B1_ARGUMENT, "more than %d executors are named", B1I_EXECUTORS_MOST);
    for (int i = 0; i < (int)list->count; i++) /* an alias may be another's */
        if (strcmp(list->names[i], name) == 0)
            return b1i_fail(err, B1_ARGUMENT, "the executor %s is named twice", name);
    list->names[list->count++] = name;
    return B1_OK;
}

/* A name that is listed twice is of two devices; those of the CPU come first. */
static bool is_of(int index, bool gpu) { return (strcmp(b1_executor_device(index), "cuda") == 0) == gpu; }

/* A name of another kind of device stays, for who opens it to refuse with a sentence. */
static const char *own_name(const char *name, bool gpu)
{
    const char *own = b1i_executor_on(name, gpu);
    return own ? own : name;
}

b1_status b1i_executors_of(const b1i_device *device, const char *const *given, size_t count, b1i_executors *out,
                           b1_error *err)
{
    static const char *const usual[2][2] = {{"fused", "persistent"}, {"fused_graph", "fused_pdl"}};
    const bool gpu = device->ordinal != B1I_DEVICE_CPU;
    bool all = false;
    b1_status st = B1_OK;
    *out = (b1i_executors){.count = 0};
    for (size_t i = 0; i < count; i++) all = all || strcmp(given[i], "all") == 0;
    for (int i = 0; all && b1_executor_name(i); i++)
        if (is_of(i, gpu)) B1I_TRY(add(out, b1_executor_name(i), err));
    for (size_t i = 0; !all && i < count; i++) B1I_TRY(add(out, own_name(given[i], gpu), err));
    for (int i = 0; count == 0 && i < 2; i++) B1I_TRY(add(out, usual[gpu][i], err));
fail:
    return st;
}
