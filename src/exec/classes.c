/* SPDX-License-Identifier: MIT
 *
 * The table of all executors, and what their names mean on a device.
 */
#include "exec/exec.h"

#include <stdio.h>
#include <string.h>

const b1i_executor_class *const b1i_executor_classes[] = {
    &b1i_executor_persistent,      &b1i_executor_fused,
    &b1i_executor_separate,        &b1i_executor_reference,
    &b1i_executor_fused_pdl,       &b1i_executor_fused_graph,
    &b1i_executor_fused_stream,    &b1i_executor_separate_graph,
    &b1i_executor_separate_stream, NULL,
};

/* As they are listed: each device's plainest first. */
static const b1i_executor_class *const listed[] = {
    &b1i_executor_reference,    &b1i_executor_separate,        &b1i_executor_fused,
    &b1i_executor_persistent,   &b1i_executor_separate_stream, &b1i_executor_separate_graph,
    &b1i_executor_fused_stream, &b1i_executor_fused_graph,     &b1i_executor_fused_pdl,
};
enum { LISTED = sizeof listed / sizeof *listed };

/* Names that stand for another on a device. */
static const struct {
    const char *device, *name, *means;
} aliases[] = {
    {"cuda", "separate", "separate_graph"},
    {"cuda", "fused", "fused_graph"},
};

const char *b1_executor_name(int index) { return index >= 0 && index < LISTED ? listed[index]->name : NULL; }
const char *b1_executor_device(int index) { return index >= 0 && index < LISTED ? listed[index]->device : NULL; }

const b1i_executor_class *b1i_executor_class_by_name(const char *device, const char *name)
{
    for (int i = 0; i < LISTED; i++)
        if (strcmp(listed[i]->device, device) == 0 && strcmp(listed[i]->name, name) == 0) return listed[i];
    return NULL;
}

static const b1i_executor_class *meant(const char *device, const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcmp(aliases[i].device, device) == 0 && strcmp(aliases[i].name, name) == 0) name = aliases[i].means;
    return b1i_executor_class_by_name(device, name);
}

bool b1i_executor_known(const char *device, const char *name) { return meant(device, name) != NULL; }

/* "a, b and c" of a device, to `text`. */
static const char *list_names(const char *device, char text[200])
{
    size_t at = 0;
    int left = 0;
    for (int i = 0; i < LISTED; i++) left += strcmp(listed[i]->device, device) == 0;
    for (int i = 0; i < LISTED; i++) {
        if (strcmp(listed[i]->device, device) != 0) continue;
        left--;
        int n = snprintf(text + at, 200 - at, "%s%s", listed[i]->name, left > 1 ? ", " : left == 1 ? " and " : "");
        if (n > 0 && at + (size_t)n < 200) at += (size_t)n;
    }
    return text;
}

static b1_status no_such(const char *device, const char *name, b1_error *err)
{
    char text[200];
    list_names(device, text);
    for (int i = 0; i < LISTED; i++)
        if (strcmp(listed[i]->name, name) == 0)
            return b1i_fail(err, B1_UNSUPPORTED, "the executor %s runs on %s, and this engine is on %s; there are %s",
                            name, listed[i]->device, device, text);
    return b1i_fail(err, B1_ARGUMENT, "no executor is named '%s'; on %s there are %s", name, device, text);
}

b1_status b1i_executor_choose(const char *device, const char *name, const b1i_model *model, const b1i_gpu_info *gpu,
                              const b1i_executor_class **out, b1_error *err)
{
    b1_status st = B1_UNSUPPORTED;
    b1_error why = {0};
    *out = NULL;
    if (name) {
        const b1i_executor_class *class = meant(device, name);
        if (!class) return no_such(device, name, err);
        if ((st = class->supports(model, gpu, err)) == B1_OK) *out = class;
        return st;
    }
    for (int i = 0; b1i_executor_classes[i] && !*out; i++) {
        const b1i_executor_class *class = b1i_executor_classes[i];
        if (strcmp(class->device, device) != 0) continue;
        if ((st = class->supports(model, gpu, &why)) == B1_OK) *out = class;
    }
    if (st != B1_OK && err) *err = why; /* of the plainest */
    return st;
}
