/* SPDX-License-Identifier: MIT
 *
 * A setting as JSON, and its id. See setting.h.
 */
#include "lab/setting.h"

#include "lab/evidence_room.h" /* b1i_json_text_free */

#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONTEXT_MOST = 10000000,
    COUNT_MOST = 1000000, /* of steps, warm-up, sessions */
    THREADS_MOST = 4096,
    BATCH_MOST = 8,
    DEADLINE_MOST_MS = 1000000000,
};

void b1i_setting_free(b1i_setting *s)
{
    b1i_free(s->model);
    b1i_free(s->device);
    b1i_free(s->executor);
    b1i_free(s->stack);
    b1i_free(s->weights);
    *s = (b1i_setting){0};
}

json_t *b1i_setting_json(const b1i_setting *s)
{
    json_t *json = json_pack("{s:s,s:b,s:s,s:s?,s:s?,s:s?,s:i,s:i,s:i,s:i,s:i,s:i,s:b}", "model", s->model, "synthetic",
                             s->synthetic, "device", s->device, "executor", s->executor, "stack", s->stack, "weights",
                             s->weights, "context", s->context, "threads", s->threads, "batch", s->batch, "session",
                             s->session, "warmup", s->warmup, "steps", s->steps, "profile", s->profile);
    if (!json || !(s->deadline_ms > 0) || json_object_set_new(json, "deadline_ms", json_real(s->deadline_ms)) == 0)
        return json;
    json_decref(json);
    return NULL;
}

/* ---- reading ---- */

static b1_status copy_text(const char *from, char **to, b1_error *err)
{
    *to = NULL;
    if (!from || (*to = b1i_strdup(from))) return B1_OK;
    return b1i_fail_memory(err, strlen(from));
}

static b1_status copy_texts(const b1i_setting *from, b1i_setting *to, b1_error *err)
{
    b1_status st;
    b1i_setting made = *from;
    made.model = made.device = made.executor = made.stack = made.weights = NULL;
    B1I_TRY(copy_text(from->model, &made.model, err));
    B1I_TRY(copy_text(from->device, &made.device, err));
    B1I_TRY(copy_text(from->executor, &made.executor, err));
    B1I_TRY(copy_text(from->stack, &made.stack, err));
    B1I_TRY(copy_text(from->weights, &made.weights, err));
    *to = made;
    return B1_OK;
fail:
    b1i_setting_free(&made);
    return st;
}

b1_status b1i_setting_copy(const b1i_setting *from, b1i_setting *out, b1_error *err)
{
    *out = (b1i_setting){0};
    return copy_texts(from, out, err);
}

/* A text or null. */
static bool text_or_null(const json_t *value, char **out)
{
    *out = (char *)(uintptr_t)json_string_value(value);
    return *out || json_is_null(value);
}

/* The setting that JSON has, its texts borrowed, each of its type. */
static bool unpack(const json_t *json, b1i_setting *s)
{
    int synthetic = 0, profile = 0;
    json_int_t context, threads, batch, session, warmup, steps;
    const char *model, *device;
    const json_t *executor, *stack, *weights, *deadline = NULL;
    if (json_unpack((json_t *)(uintptr_t)json, "{s:s,s:b,s:s,s:o,s:o,s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s?o!}", "model",
                    &model, "synthetic", &synthetic, "device", &device, "executor", &executor, "stack", &stack,
                    "weights", &weights, "context", &context, "threads", &threads, "batch", &batch, "session", &session,
                    "warmup", &warmup, "steps", &steps, "profile", &profile, "deadline_ms", &deadline) != 0)
        return false;
    s->deadline_ms = json_number_value(deadline);
    if (deadline && !(s->deadline_ms > 0 && s->deadline_ms < DEADLINE_MOST_MS)) return false;
    if (!text_or_null(executor, &s->executor) || !text_or_null(stack, &s->stack) || !text_or_null(weights, &s->weights))
        return false;
    const struct {
        json_int_t value;
        int least, most, *to;
    } numbers[] = {
        {context, 1, CONTEXT_MOST, &s->context}, {threads, 0, THREADS_MOST, &s->threads},
        {batch, 1, BATCH_MOST, &s->batch},       {session, 0, COUNT_MOST, &s->session},
        {warmup, 0, COUNT_MOST, &s->warmup},     {steps, 1, COUNT_MOST, &s->steps},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value < numbers[i].least || numbers[i].value > numbers[i].most) return false;
        *numbers[i].to = (int)numbers[i].value;
    }
    s->model = (char *)(uintptr_t)model;
    s->device = (char *)(uintptr_t)device;
    s->synthetic = synthetic;
    s->profile = profile;
    return true;
}

/* Whether a word (NULL is one) may be shown as it is: not empty, no control character. */
static bool is_word(const char *text)
{
    if (!text) return true;
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) return false;
    return *text != 0;
}

b1_status b1i_setting_read(const json_t *json, b1i_setting *out, b1_error *err)
{
    b1i_setting s = {0};
    *out = s;
    if (!unpack(json, &s))
        return b1i_fail(err, B1_IO,
                        "a setting has a key too few or too many, or a value that is no such: it has exactly model, "
                        "synthetic, device, executor, stack, weights, context, threads, batch, session, warmup, steps "
                        "and profile");
    if (!*s.model || (s.executor && s.stack) || (s.stack && !*s.stack))
        return b1i_fail(err, B1_IO, "a setting has no model, or both an executor and a stack");
    if (!is_word(s.model) || !is_word(s.executor) || !is_word(s.weights))
        return b1i_fail(err, B1_IO, "a setting's model, executor or weights are empty or have a control character");
    if (!b1i_device_is_word(s.device) || strcmp(s.device, "auto") == 0 || strcmp(s.device, "cuda") == 0)
        return b1i_fail(err, B1_IO, "a setting's device is \"%s\", neither cpu nor cuda:N", s.device);
    return copy_texts(&s, out, err);
}

b1_status b1i_setting_id(const b1i_setting *setting, const char *binary_sha256, char id[B1I_SETTING_ID], b1_error *err)
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX hash;
    json_t *json = b1i_setting_json(setting);
    char *text = json ? json_dumps(json, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    json_decref(json);
    if (!text) return b1i_fail(err, B1_MEMORY, "not enough memory for a setting, or its model's name is no UTF-8");
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)text, strlen(text));
    SHA256Update(&hash, (const uint8_t *)binary_sha256, strlen(binary_sha256));
    SHA256Final(digest, &hash);
    for (int i = 0; i < (B1I_SETTING_ID - 1) / 2; i++) snprintf(id + 2 * (size_t)i, 3, "%02x", digest[i]);
    b1i_json_text_free(text);
    return B1_OK;
}
