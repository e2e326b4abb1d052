/* SPDX-License-Identifier: MIT
 *
 * The settings of an A/B as text. See ab.h.
 */
#include "lab/ab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

enum { VALUE_MOST = 256 };

static b1_status set_text(char **to, const char *value, b1_error *err)
{
    b1i_free(*to);
    *to = NULL;
    if (!value || (*to = b1i_strdup(value))) return B1_OK;
    return b1i_fail_memory(err, strlen(value));
}

static b1_status set_number(const char *key, const char *value, int least, int most, int *to, b1_error *err)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || number < least || number > most)
        return b1i_fail(err, B1_ARGUMENT, "%s=%s: it must be a whole number from %d to %d", key, value, least, most);
    *to = (int)number;
    return B1_OK;
}

static b1_status set_executor(b1i_setting *s, const char *value, b1_error *err)
{
    const bool gpu = strcmp(s->device, "cpu") != 0;
    const char *name = b1i_executor_on(value, gpu);
    char list[400] = "";
    if (name) {
        b1_status st = set_text(&s->stack, NULL, err);
        return st == B1_OK ? set_text(&s->executor, name, err) : st;
    }
    for (int i = 0; b1_executor_name(i); i++) {
        size_t used = strlen(list);
        if ((strcmp(b1_executor_device(i), "cuda") == 0) != gpu) continue;
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", b1_executor_name(i));
    }
    return b1i_fail(err, B1_ARGUMENT, "executor=%s: on %s there are %s", value, s->device, list);
}

static b1_status set_stack(b1i_setting *s, const char *value, b1_error *err)
{
    if (!*value) return b1i_fail(err, B1_ARGUMENT, "stack= is followed by no command");
    b1_status st = set_text(&s->executor, NULL, err);
    return st == B1_OK ? set_text(&s->stack, value, err) : st;
}

/* One "key=value" that is not the stack's. */
static b1_status set(b1i_setting *s, const char *key, const char *value, b1_error *err)
{
    if (strcmp(key, "executor") == 0) return set_executor(s, value, err);
    if (strcmp(key, "weights") == 0) return set_text(&s->weights, strcmp(value, "as-is") ? value : NULL, err);
    if (strcmp(key, "threads") == 0) return set_number(key, value, 0, 4096, &s->threads, err);
    if (strcmp(key, "context") == 0) return set_number(key, value, 1, 10000000, &s->context, err);
    if (strcmp(key, "batch") == 0) return set_number(key, value, 1, 8, &s->batch, err);
    return b1i_fail(err, B1_ARGUMENT,
                    "\"%s\" is no setting: there are executor, weights, threads, context, batch, and "
                    "last stack",
                    key);
}

/* Takes the next "key=value" of *text, which ends at a comma. */
static b1_status take(b1i_setting *s, const char **text, unsigned *seen, b1_error *err)
{
    static const char *const keys[] = {"executor", "weights", "threads", "context", "batch"};
    char key[32], value[VALUE_MOST];
    const char *at = *text, *equals = strchr(at, '=');
    size_t length = strcspn(at, ","), name = equals ? (size_t)(equals - at) : length;
    if (name == 0 || name >= length || name >= sizeof key || name + 1 == length || length - name > sizeof value)
        return b1i_fail(err, B1_ARGUMENT, "\"%.*s\" is no KEY=VALUE", (int)(length < 80 ? length : 80), at);
    snprintf(key, sizeof key, "%.*s", (int)name, at);
    snprintf(value, sizeof value, "%.*s", (int)(length - name - 1), equals + 1);
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i], key) != 0) continue;
        if (*seen & 1u << i) return b1i_fail(err, B1_ARGUMENT, "%s= is given twice", key);
        *seen |= 1u << i;
    }
    *text = at + length + (at[length] == ',');
    if (at[length] == ',' && !**text) return b1i_fail(err, B1_ARGUMENT, "\"%s\" ends with a comma", at);
    return set(s, key, value, err);
}

b1_status b1i_ab_settings(const char *text, const b1i_setting *base, b1i_setting *out, b1_error *err)
{
    unsigned seen = 0;
    b1_status st = b1i_setting_copy(base, out, err);
    while (st == B1_OK && *text) {
        if (strncmp(text, "stack=", 6) == 0) {
            st = seen & 1 ? b1i_fail(err, B1_ARGUMENT, "an executor is batchone's own, and a stack has none of them")
                          : set_stack(out, text + 6, err);
            break;
        }
        st = take(out, &text, &seen, err);
    }
    b1_error why = {0};
    if (st == B1_OK && !out->stack && (st = b1i_setting_format(out->weights, &why)) != B1_OK)
        b1i_fail(err, st, "weights=%s", why.message);
    if (st != B1_OK) b1i_setting_free(out);
    return st;
}

/* ---- writing ---- */

char *b1i_ab_text(const b1i_setting *s)
{
    const char *parts[] = {s->stack      ? ""
                           : s->executor ? s->executor
                                         : "",
                           s->weights ? s->weights : "as-is", s->stack ? s->stack : ""};
    size_t room = 128 + strlen(parts[0]) + strlen(parts[1]) + strlen(parts[2]);
    char *text = b1i_malloc(room);
    if (text)
        snprintf(text, room, "%s%s%sweights=%s,threads=%d,context=%d,batch=%d%s%s",
                 s->stack ? "" : "executor=", parts[0], s->stack ? "" : ",", parts[1], s->threads, s->context, s->batch,
                 s->stack ? ",stack=" : "", parts[2]);
    return text;
}

/* ---- what differs ---- */

/* The fusion of an executor that launches kernels one by one, or by a graph; 0: of any other. */
static int fusion(const char *executor)
{
    static const char *const names[2][4] = {{"separate_stream", "separate_graph", NULL},
                                            {"fused_stream", "fused_graph", "fused_pdl", NULL}};
    for (int f = 0; f < 2; f++)
        for (int i = 0; names[f][i]; i++)
            if (strcmp(names[f][i], executor) == 0) return f + 1;
    return 0;
}

static bool same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

bool b1i_ab_launch_only(const b1i_setting *a, const b1i_setting *b)
{
    return a->executor && b->executor && strcmp(a->executor, b->executor) != 0 && fusion(a->executor) &&
           fusion(a->executor) == fusion(b->executor) && same(a->weights, b->weights) && a->threads == b->threads &&
           a->context == b->context && a->batch == b->batch;
}
