/* SPDX-License-Identifier: MIT
 *
 * GGUF as a container: header, keys, tensor table, all checked before use against the bytes that remain. Knows no
 * architecture and no tokenizer. Strings and arrays are views into the mapped file (unaligned, not NUL-terminated).
 */
#ifndef B1I_GGUF_H
#define B1I_GGUF_H

#include "model/format.h"

typedef enum b1i_gguf_type {
    b1i_gguf_u8,
    b1i_gguf_i8,
    b1i_gguf_u16,
    b1i_gguf_i16,
    b1i_gguf_u32,
    b1i_gguf_i32,
    b1i_gguf_f32,
    b1i_gguf_bool,
    b1i_gguf_string,
    b1i_gguf_array,
    b1i_gguf_u64,
    b1i_gguf_i64,
    b1i_gguf_f64,
    b1i_gguf_type_count
} b1i_gguf_type;

typedef struct b1i_gguf_string_view {
    const char *text;
    size_t bytes;
} b1i_gguf_string_view;

typedef struct b1i_gguf_key {
    b1i_gguf_string_view name;
    b1i_gguf_type type;
    b1i_gguf_type item;   /* of an array */
    uint64_t count;       /* of an array; 1 otherwise */
    const uint8_t *value; /* first byte of the value, or of the array's first item */
    size_t value_bytes;   /* all of it */
} b1i_gguf_key;

typedef struct b1i_gguf_tensor {
    b1i_gguf_string_view name;
    b1i_format_id format;
    int dims;
    uint64_t shape[4]; /* as in the file: columns first */
    uint64_t offset;   /* from the file's start */
    uint64_t bytes;
} b1i_gguf_tensor;

typedef struct b1i_gguf {
    b1i_map map;
    uint32_t version;
    b1i_gguf_key *keys;
    size_t key_count;
    b1i_gguf_tensor *tensors;
    size_t tensor_count;
} b1i_gguf;

b1_status b1i_gguf_open(const char *path, b1i_gguf **out, b1_error *err);
void b1i_gguf_close(b1i_gguf *gguf);
/* "u32", "string", … */
const char *b1i_gguf_type_name(b1i_gguf_type type);
/* NULL where there is none. */
const b1i_gguf_key *b1i_gguf_find(const b1i_gguf *gguf, const char *name);
/* The key's value where it has a fitting type: any integer type that holds it, any float type, a string, a bool.
 * A missing key gives `fallback` where `needed` is false, else B1_MODEL; a wrong type is always B1_MODEL. */
b1_status b1i_gguf_int(const b1i_gguf *g, const char *name, bool needed, int64_t fallback, int64_t *out, b1_error *err);
b1_status b1i_gguf_float(const b1i_gguf *g, const char *name, bool needed, double fallback, double *out, b1_error *err);
b1_status b1i_gguf_boolean(const b1i_gguf *g, const char *name, bool needed, bool fallback, bool *out, b1_error *err);
b1_status b1i_gguf_text(const b1i_gguf *g, const char *name, bool needed, b1i_gguf_string_view *out, b1_error *err);

/* Walks an array of strings: start with {key->value, 0}; false past the last. */
typedef struct b1i_gguf_walk {
    const uint8_t *at;
    uint64_t index;
} b1i_gguf_walk;
bool b1i_gguf_next_string(const b1i_gguf_key *array, b1i_gguf_walk *walk, b1i_gguf_string_view *out);

#endif
