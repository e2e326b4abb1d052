/* SPDX-License-Identifier: MIT
 *
 * A setting as JSON, and its id. See setting.h.
 */
#include "lab/setting.h"

#include "lab/evidence_room.h" /* b1i_json_text_free */
#include "lab/files.h"

#include <limits.h>
#include <sha2.h>
#include <stdarg.h>
#include <stddef.h>
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

/* ---- what each key may be ---- */

typedef enum kind { a_text, a_text_or_null, a_flag, a_number } kind;

static const struct key {
    const char *name;
    kind kind;
    size_t at;
    int least, most; /* of a number */
} KEYS[] = {
    {"model", a_text, offsetof(b1i_setting, model), 0, 0},
    {"synthetic", a_flag, offsetof(b1i_setting, synthetic), 0, 0},
    {"device", a_text, offsetof(b1i_setting, device), 0, 0},
    {"executor", a_text_or_null, offsetof(b1i_setting, executor), 0, 0},
    {"stack", a_text_or_null, offsetof(b1i_setting, stack), 0, 0},
    {"weights", a_text_or_null, offsetof(b1i_setting, weights), 0, 0},
    {"context", a_number, offsetof(b1i_setting, context), 1, CONTEXT_MOST},
    {"threads", a_number, offsetof(b1i_setting, threads), 0, THREADS_MOST},
    {"batch", a_number, offsetof(b1i_setting, batch), 1, BATCH_MOST},
    {"session", a_number, offsetof(b1i_setting, session), 0, COUNT_MOST},
    {"warmup", a_number, offsetof(b1i_setting, warmup), 0, COUNT_MOST},
    {"steps", a_number, offsetof(b1i_setting, steps), 1, COUNT_MOST},
    {"profile", a_flag, offsetof(b1i_setting, profile), 0, 0},
};
enum { KEY_COUNT = sizeof KEYS / sizeof *KEYS, SHOWN_MOST = 80 };
#define DEADLINE "deadline_ms" /* the one that may be missing */

/* "context" is 0: it must be a whole number from 1 to 8 */
static b1_status bad_value(const char *key, const json_t *value, b1_error *err, const char *must, ...)
    __attribute__((format(printf, 4, 5)));
static b1_status bad_value(const char *key, const json_t *value, b1_error *err, const char *must, ...)
{
    char what[200];
    va_list values;
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *shown = text ? text : "";
    const int bytes = b1i_lab_whole(shown, SHOWN_MOST);
    va_start(values, must);
    (void)vsnprintf(what, sizeof what, must, values);
    va_end(values);
    b1_status st =
        b1i_fail(err, B1_IO, "\"%s\" is %.*s%s: it must be %s", key, bytes, shown, shown[bytes] ? "…" : "", what);
    b1i_json_text_free(text);
    return st;
}

static b1_status read_text(const struct key *k, const json_t *value, b1i_setting *s, b1_error *err)
{
    const char *text = json_string_value(value);
    memcpy((char *)s + k->at, &text, sizeof text);
    if (text || (k->kind == a_text_or_null && json_is_null(value))) return B1_OK;
    return bad_value(k->name, value, err, k->kind == a_text ? "a text" : "a text or null");
}

static b1_status read_key(const struct key *k, const json_t *json, b1i_setting *s, b1_error *err)
{
    const json_t *value = json_object_get(json, k->name);
    const json_int_t number = json_integer_value(value);
    const int whole = number > INT_MAX ? INT_MAX : number < INT_MIN ? INT_MIN : (int)number;
    const bool flag = json_is_true(value);
    if (!value) return b1i_fail(err, B1_IO, "\"%s\" is missing", k->name);
    switch (k->kind) {
    case a_text:
    case a_text_or_null:
        return read_text(k, value, s, err);
    case a_flag:
        memcpy((char *)s + k->at, &flag, sizeof flag);
        return json_is_boolean(value) ? B1_OK : bad_value(k->name, value, err, "true or false");
    case a_number:
        memcpy((char *)s + k->at, &whole, sizeof whole);
        if (json_is_integer(value) && whole >= k->least && whole <= k->most) return B1_OK;
        return bad_value(k->name, value, err, "a whole number from %d to %d", k->least, k->most);
    }
    return B1_OK;
}

/* No key but those that there are. */
static b1_status check_keys(const json_t *json, b1_error *err)
{
    char list[200] = "";
    const char *name;
    json_t *value;
    for (int i = 0; i < KEY_COUNT; i++)
        (void)snprintf(list + strlen(list), sizeof list - strlen(list), "%s, ", KEYS[i].name);
    json_object_foreach((json_t *)(uintptr_t)json, name, value)
    {
        bool known = strcmp(name, DEADLINE) == 0;
        for (int i = 0; i < KEY_COUNT && !known; i++) known = strcmp(name, KEYS[i].name) == 0;
        if (!known)
            return b1i_fail(err, B1_IO, "\"%.60s\" is no key of a setting; there are %sand " DEADLINE, name, list);
    }
    return B1_OK;
}

/* A word (NULL is one) may be shown as it is: not empty, no control character. */
static b1_status check_word(const json_t *json, const char *key, const char *text, b1_error *err)
{
    if (!text || (*text && b1i_lab_is_plain(text))) return B1_OK;
    return bad_value(key, json_object_get(json, key), err, "not empty and without control characters");
}

b1_status b1i_setting_read(const json_t *json, b1i_setting *out, b1_error *err)
{
    b1_status st;
    b1i_setting s = {0}; /* its texts are borrowed */
    const json_t *deadline = json_object_get(json, DEADLINE), *device;
    *out = s;
    if (!json_is_object(json)) return b1i_fail(err, B1_IO, "it is no JSON object");
    for (int i = 0; i < KEY_COUNT; i++) B1I_TRY(read_key(&KEYS[i], json, &s, err));
    B1I_TRY(check_keys(json, err));
    s.deadline_ms = json_number_value(deadline);
    if (deadline && !(s.deadline_ms > 0 && s.deadline_ms < DEADLINE_MOST_MS))
        return bad_value(DEADLINE, deadline, err, "a number above 0 and below %d", DEADLINE_MOST_MS);
    B1I_TRY(check_word(json, "model", s.model, err));
    B1I_TRY(check_word(json, "executor", s.executor, err));
    B1I_TRY(check_word(json, "weights", s.weights, err));
    if (s.stack && !*s.stack) return b1i_fail(err, B1_IO, "\"stack\" is \"\": it must be a command or null");
    if (s.executor && s.stack)
        return b1i_fail(err, B1_IO, "\"executor\" and \"stack\" are both given: one of them must be null");
    device = json_object_get(json, "device");
    if (!b1i_device_is_word(s.device) || strcmp(s.device, "auto") == 0 || strcmp(s.device, "cuda") == 0)
        return bad_value("device", device, err, "cpu or cuda:N");
    return copy_texts(&s, out, err);
fail:
    return st;
}

b1_status b1i_setting_format(const char *weights, b1_error *err)
{
    b1_error why = {0};
    b1_inspection *inspection = NULL;
    if (!weights) return B1_OK;
    /* Only a name that is no format is refused as an argument: of any shape, then. */
    b1_status st = b1_inspect_synthetic(b1_shape_name(0), weights, &inspection, &why);
    b1_inspection_free(inspection);
    return st == B1_ARGUMENT ? b1i_fail(err, st, "%s", why.message)
           : st == B1_MEMORY ? b1i_fail_memory(err, 64)
                             : B1_OK;
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
