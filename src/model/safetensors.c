/* SPDX-License-Identifier: MIT
 *
 * The safetensors container's reader: eight bytes of header length, a JSON header, the data.
 *
 * Refuses a header that is longer than HEADER_MAX or than the file, that is no UTF-8 JSON object (spaces may follow
 * it), or that has a key twice; dtypes that are not known; a size that is not shape × dtype; tensors that leave a hole
 * in the data, overlap, or do not end where the file ends. Valid: tensors without elements, of rank 0, unaligned.
 *
 * Invariant: every tensor's bytes lie inside the map.
 */
#include "model/safetensors.h"
#include "model/json_load.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 100000000 };

static const struct {
    const char *name;
    unsigned bits;
    int format; /* -1: none of ours */
} dtypes[] = {
    {"F32", 32, b1i_f32}, {"F16", 16, b1i_f16}, {"BF16", 16, b1i_bf16}, {"F64", 64, -1},    {"I64", 64, -1},
    {"I32", 32, -1},      {"I16", 16, -1},      {"I8", 8, -1},          {"U64", 64, -1},    {"U32", 32, -1},
    {"U16", 16, -1},      {"U8", 8, -1},        {"BOOL", 8, -1},        {"F8_E4M3", 8, -1}, {"F8_E5M2", 8, -1},
    {"F8_E8M0", 8, -1},   {"F6_E2M3", 6, -1},   {"F6_E3M2", 6, -1},     {"F4", 4, -1},      {"C64", 64, -1},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof *dtypes };

/* A non-negative integer. */
static bool get_size(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* Sets dims, shape and bytes. */
static b1_status read_shape(const char *path, const json_t *shape, unsigned bits, b1i_safetensor *t, b1_error *err)
{
    uint64_t elements = 1, all_bits, size;
    if (!json_is_array(shape)) return b1i_fail(err, B1_MODEL, "%s: tensor %s has no shape", path, t->name);
    t->dims = (int)json_array_size(shape);
    for (int i = 0; i < 4; i++) t->shape[i] = 1;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        if (!get_size(json_array_get(shape, i), &size))
            return b1i_fail(err, B1_MODEL, "%s: tensor %s: dimension %zu of its shape is no size", path, t->name, i);
        if (i < 4) t->shape[i] = size;
        if (!b1i_mul(elements, size, &elements)) goto overflow;
    }
    if (!b1i_mul(elements, bits, &all_bits)) goto overflow;
    if (all_bits % 8 != 0)
        return b1i_fail(err, B1_MODEL, "%s: tensor %s: %llu values of %u bits do not fill whole bytes", path, t->name,
                        (unsigned long long)elements, bits);
    t->bytes = all_bits / 8;
    return B1_OK;
overflow:
    return b1i_fail(err, B1_MODEL, "%s: tensor %s has a shape whose product overflows", path, t->name);
}

/* One entry of the header; the offset is still from the data's start. */
static b1_status read_tensor(const char *path, const char *name, const json_t *entry, b1i_safetensor *t, b1_error *err)
{
    const json_t *dtype = json_object_get(entry, "dtype"), *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin = 0, end = 0;
    int d = 0;
    t->name = name;
    if (!json_is_string(dtype)) return b1i_fail(err, B1_MODEL, "%s: tensor %s has no dtype", path, name);
    while (d < DTYPE_COUNT && strcmp(dtypes[d].name, json_string_value(dtype)) != 0) d++;
    if (d == DTYPE_COUNT)
        return b1i_fail(err, B1_MODEL, "%s: tensor %s has the unknown dtype \"%s\"", path, name,
                        json_string_value(dtype));
    t->dtype = dtypes[d].name;
    t->readable = dtypes[d].format >= 0;
    if (t->readable) t->format = (b1i_format_id)dtypes[d].format;
    b1_status st = read_shape(path, json_object_get(entry, "shape"), dtypes[d].bits, t, err);
    if (st != B1_OK) return st;
    if (json_array_size(offsets) != 2 || !get_size(json_array_get(offsets, 0), &begin) ||
        !get_size(json_array_get(offsets, 1), &end) || end < begin)
        return b1i_fail(err, B1_MODEL, "%s: tensor %s: its data_offsets are not a begin and an end", path, name);
    if (end - begin != t->bytes)
        return b1i_fail(err, B1_MODEL,
                        "%s: tensor %s: data_offsets span %llu bytes, but its shape and dtype %s take %llu", path, name,
                        (unsigned long long)(end - begin), t->dtype, (unsigned long long)t->bytes);
    t->offset = begin;
    return B1_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const b1i_safetensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Sorted by offset, the tensors must tile [0, data_bytes). Makes their offsets absolute. */
static b1_status check_tiles(b1i_safetensors *s, uint64_t data_start, b1_error *err)
{
    uint64_t at = 0, data_bytes = s->map.size - data_start;
    const char *path = s->map.path;
    if (s->tensor_count > 0) qsort(s->tensors, s->tensor_count, sizeof *s->tensors, compare_offsets);
    for (size_t i = 0; i < s->tensor_count; i++) {
        b1i_safetensor *t = &s->tensors[i];
        if (t->offset != at)
            return b1i_fail(
                err, B1_MODEL, "%s: tensor %s begins at data offset %llu, which %s %llu, where the one before ends",
                path, t->name, (unsigned long long)t->offset,
                t->offset < at ? "overlaps what lies before" : "leaves a hole after", (unsigned long long)at);
        if (t->bytes > data_bytes - at)
            return b1i_fail(err, B1_MODEL,
                            "%s: tensor %s ends at data offset %llu, but the file has %llu bytes of data", path,
                            t->name, (unsigned long long)(at + t->bytes), (unsigned long long)data_bytes);
        at += t->bytes;
        t->offset += data_start;
    }
    if (at != data_bytes)
        return b1i_fail(err, B1_MODEL, "%s: the tensors end at data offset %llu, but the file has %llu bytes of data",
                        path, (unsigned long long)at, (unsigned long long)data_bytes);
    return B1_OK;
}

static b1_status check_metadata(const char *path, json_t *metadata, b1_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata)) return b1i_fail(err, B1_MODEL, "%s: __metadata__ is no JSON object", path);
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) return b1i_fail(
        err, B1_MODEL, "%s: __metadata__: the value of \"%s\" is no string", path, key);
    return B1_OK;
}

static b1_status read_header(b1i_safetensors *s, uint64_t *data_start, b1_error *err)
{
    b1_status st = B1_OK;
    const char *path = s->map.path, *name;
    uint64_t bytes = 0;
    json_t *entry;
    if (s->map.size < 8)
        return b1i_fail(err, B1_MODEL, "%s: %zu bytes are no safetensors file, which begins with 8 of length", path,
                        s->map.size);
    memcpy(&bytes, s->map.data, 8);
    if (bytes > HEADER_MAX || bytes > s->map.size - 8)
        return b1i_fail(err, B1_MODEL, "%s: the header claims %llu bytes, but %zu remain and %d are allowed", path,
                        (unsigned long long)bytes, s->map.size - 8, HEADER_MAX);
    const char *text = (const char *)s->map.data + 8;
    if (bytes < 2 || text[0] != '{') return b1i_fail(err, B1_MODEL, "%s: the header does not begin with \"{\"", path);
    B1I_TRY(b1i_json_object(text, (size_t)bytes, path, &s->header, err));
    size_t most = json_object_size(s->header);
    s->tensors = b1i_calloc(most + 1, sizeof *s->tensors);
    if (!s->tensors) return b1i_fail_memory(err, (most + 1) * sizeof *s->tensors);
    json_object_foreach(s->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            B1I_TRY(check_metadata(path, entry, err));
        else
            B1I_TRY(read_tensor(path, name, entry, &s->tensors[s->tensor_count++], err));
    }
    *data_start = 8 + bytes;
fail:
    return st;
}

b1_status b1i_safetensors_open(const char *path, b1i_safetensors **out, b1_error *err)
{
    b1_status st;
    uint64_t data_start = 0;
    *out = NULL;
    b1i_safetensors *s = b1i_calloc(1, sizeof *s);
    if (!s) return b1i_fail_memory(err, sizeof *s);
    B1I_TRY(b1i_map_open(path, &s->map, err));
    B1I_TRY(read_header(s, &data_start, err));
    B1I_TRY(check_tiles(s, data_start, err));
    *out = s;
    return B1_OK;
fail:
    b1i_safetensors_close(s);
    return st;
}

void b1i_safetensors_close(b1i_safetensors *file)
{
    if (!file) return;
    json_decref(file->header);
    b1i_free(file->tensors);
    b1i_map_close(&file->map);
    b1i_free(file);
}
