/* SPDX-License-Identifier: MIT
 *
 * Values of a GGUF file's keys by name. A value that is there with a wrong type is an error, never the fallback.
 */
#include "model/gguf.h"

#include <math.h>
#include <string.h>

const b1i_gguf_key *b1i_gguf_find(const b1i_gguf *gguf, const char *name)
{
    size_t bytes = strlen(name);
    for (size_t i = 0; i < gguf->key_count; i++) {
        const b1i_gguf_key *key = &gguf->keys[i];
        if (key->name.bytes == bytes && memcmp(key->name.text, name, bytes) == 0) return key;
    }
    return NULL;
}

/* The key, or NULL with B1_OK where it may be missing. */
static b1_status look(const b1i_gguf *g, const char *name, bool needed, const b1i_gguf_key **key, b1_error *err)
{
    *key = b1i_gguf_find(g, name);
    if (!*key && needed) return b1i_fail(err, B1_MODEL, "%s: key %s is missing", g->map.path, name);
    return B1_OK;
}

static b1_status wrong_type(const b1i_gguf *g, const b1i_gguf_key *key, const char *wanted, b1_error *err)
{
    return b1i_fail(err, B1_MODEL, "%s: key %.*s is of type %s, not %s", g->map.path, (int)key->name.bytes,
                    key->name.text, b1i_gguf_type_name(key->type), wanted);
}

b1_status b1i_gguf_int(const b1i_gguf *g, const char *name, bool needed, int64_t fallback, int64_t *out, b1_error *err)
{
    const b1i_gguf_key *key;
    b1_status st = look(g, name, needed, &key, err);
    *out = fallback;
    if (st != B1_OK || !key) return st;
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
    } v = {0};
    if (key->value_bytes <= sizeof v) memcpy(&v, key->value, key->value_bytes);
    switch (key->type) {
    case b1i_gguf_u8:
        *out = v.u8;
        break;
    case b1i_gguf_i8:
        *out = v.i8;
        break;
    case b1i_gguf_u16:
        *out = v.u16;
        break;
    case b1i_gguf_i16:
        *out = v.i16;
        break;
    case b1i_gguf_u32:
        *out = v.u32;
        break;
    case b1i_gguf_i32:
        *out = v.i32;
        break;
    case b1i_gguf_i64:
        *out = v.i64;
        break;
    case b1i_gguf_u64:
        if (v.u64 > INT64_MAX)
            return b1i_fail(err, B1_MODEL, "%s: key %s is %llu, which is out of range", g->map.path, name,
                            (unsigned long long)v.u64);
        *out = (int64_t)v.u64;
        break;
    default:
        return wrong_type(g, key, "an integer", err);
    }
    return B1_OK;
}

b1_status b1i_gguf_float(const b1i_gguf *g, const char *name, bool needed, double fallback, double *out, b1_error *err)
{
    const b1i_gguf_key *key;
    b1_status st = look(g, name, needed, &key, err);
    *out = fallback;
    if (st != B1_OK || !key) return st;
    if (key->type == b1i_gguf_f32) {
        float value;
        memcpy(&value, key->value, 4);
        *out = value;
    } else if (key->type == b1i_gguf_f64)
        memcpy(out, key->value, 8);
    else
        return wrong_type(g, key, "a float", err);
    if (!isfinite(*out)) return b1i_fail(err, B1_MODEL, "%s: key %s is not a finite number", g->map.path, name);
    return B1_OK;
}

b1_status b1i_gguf_boolean(const b1i_gguf *g, const char *name, bool needed, bool fallback, bool *out, b1_error *err)
{
    const b1i_gguf_key *key;
    b1_status st = look(g, name, needed, &key, err);
    *out = fallback;
    if (st != B1_OK || !key) return st;
    if (key->type != b1i_gguf_bool) return wrong_type(g, key, "a bool", err);
    *out = *key->value != 0;
    return B1_OK;
}

b1_status b1i_gguf_text(const b1i_gguf *g, const char *name, bool needed, b1i_gguf_string_view *out, b1_error *err)
{
    const b1i_gguf_key *key;
    b1_status st = look(g, name, needed, &key, err);
    *out = (b1i_gguf_string_view){NULL, 0};
    if (st != B1_OK || !key) return st;
    if (key->type != b1i_gguf_string) return wrong_type(g, key, "a string", err);
    *out = (b1i_gguf_string_view){(const char *)key->value + 8, key->value_bytes - 8};
    return B1_OK;
}

bool b1i_gguf_next_string(const b1i_gguf_key *array, b1i_gguf_walk *walk_at, b1i_gguf_string_view *out)
{
    if (array->item != b1i_gguf_string || walk_at->index >= array->count) return false;
    uint64_t bytes;
    memcpy(&bytes, walk_at->at, 8);
    *out = (b1i_gguf_string_view){(const char *)walk_at->at + 8, (size_t)bytes};
    walk_at->at += 8 + bytes;
    walk_at->index++;
    return true;
}
