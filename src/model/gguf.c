/* SPDX-License-Identifier: MIT
 *
 * The GGUF container's reader. Owns the walk over header, keys and tensor table of one mapped file.
 *
 * Refuses, with the byte where it stands: other versions than 2 and 3 (a byte-swapped one by its own sentence), counts
 * and lengths that exceed the bytes that remain, names that are empty, twice there or not printable, text that is not
 * UTF-8 or, outside arrays, holds a zero byte, bools that are neither 0 nor 1, unknown types, arrays nested deeper than
 * NEST_MAX, an alignment that is no power of two or no multiple of 8, tensors of more than four dimensions, rows that
 * are no whole number of blocks, offsets that do not follow one another, a file that is shorter or longer than its
 * tensors.
 *
 * Invariants: nothing is allocated by a number of the file before the bytes that it announces are known to be there;
 * every view that a key or tensor holds lies inside the map; each byte of the header is walked once.
 */
#include "model/gguf.h"
#include "model/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS_MAX = 1 << 16, TENSORS_MAX = 1 << 18, KEY_NAME_MAX = 65535, TENSOR_NAME_MAX = 64, NEST_MAX = 4 };
/* The fewest bytes of a key (name length, 1 byte, type, 1 byte of value) and of a tensor (name length, 1 byte, number
 * of dimensions, type, offset). */
enum { KEY_BYTES_MIN = 14, TENSOR_BYTES_MIN = 25 };

static const struct {
    const char *name;
    unsigned bytes; /* 0: not of a fixed size */
} types[b1i_gguf_type_count] = {
    [b1i_gguf_u8] = {"u8", 1},       [b1i_gguf_i8] = {"i8", 1},     [b1i_gguf_u16] = {"u16", 2},
    [b1i_gguf_i16] = {"i16", 2},     [b1i_gguf_u32] = {"u32", 4},   [b1i_gguf_i32] = {"i32", 4},
    [b1i_gguf_f32] = {"f32", 4},     [b1i_gguf_bool] = {"bool", 1}, [b1i_gguf_string] = {"string", 0},
    [b1i_gguf_u64] = {"u64", 8},     [b1i_gguf_i64] = {"i64", 8},   [b1i_gguf_f64] = {"f64", 8},
    [b1i_gguf_array] = {"array", 0},
};

const char *b1i_gguf_type_name(b1i_gguf_type type) { return types[type].name; }

/* ---- bytes ---- */

typedef struct reader {
    const b1i_map *map;
    size_t at;
    b1_error *err;
} reader;

static size_t remaining(const reader *r) { return r->map->size - r->at; }

/* `what` ends the sentence: "the length of …". */
static b1_status take(reader *r, void *out, size_t bytes, const char *what)
{
    if (remaining(r) < bytes)
        return b1i_fail(r->err, B1_MODEL, "%s: the file ends at byte %zu, inside %s at byte %zu", r->map->path,
                        r->map->size, what, r->at);
    memcpy(out, r->map->data + r->at, bytes);
    r->at += bytes;
    return B1_OK;
}

static b1_status take_string(reader *r, b1i_gguf_string_view *out, const char *what)
{
    uint64_t bytes = 0;
    b1_status st = take(r, &bytes, 8, what);
    if (st != B1_OK) return st;
    if (bytes > remaining(r))
        return b1i_fail(r->err, B1_MODEL, "%s: %s at byte %zu claims %llu bytes, but %zu remain", r->map->path, what,
                        r->at - 8, (unsigned long long)bytes, remaining(r));
    *out = (b1i_gguf_string_view){(const char *)r->map->data + r->at, (size_t)bytes};
    r->at += (size_t)bytes;
    return B1_OK;
}

/* The offset of the first byte that is not UTF-8, or `bytes`. */
static size_t utf8_length(const char *text, size_t bytes)
{
    uint32_t code;
    bool cut;
    for (size_t at = 0; at < bytes;) {
        int n = (unsigned char)text[at] < 0x80 ? 1 : b1i_utf8_step(text + at, bytes - at, &code, &cut);
        if (n < 0) return at;
        at += (size_t)n;
    }
    return bytes;
}

static b1_status take_name(reader *r, size_t max, b1i_gguf_string_view *out, const char *what)
{
    size_t start = r->at;
    b1_status st = take_string(r, out, what);
    if (st != B1_OK) return st;
    if (out->bytes == 0) return b1i_fail(r->err, B1_MODEL, "%s: %s at byte %zu is empty", r->map->path, what, start);
    if (out->bytes > max)
        return b1i_fail(r->err, B1_MODEL, "%s: %s at byte %zu has %zu bytes, more than %zu", r->map->path, what, start,
                        out->bytes, max);
    for (size_t i = 0; i < out->bytes; i++) {
        unsigned char c = (unsigned char)out->text[i];
        if (c <= 0x20 || c >= 0x7f)
            return b1i_fail(r->err, B1_MODEL, "%s: %s at byte %zu holds byte 0x%02x, which is no printable character",
                            r->map->path, what, start, c);
    }
    return B1_OK;
}

/* ---- keys ---- */

static b1_status take_text(reader *r, const b1i_gguf_string_view *key)
{
    b1i_gguf_string_view text;
    b1_status st = take_string(r, &text, "a string");
    if (st != B1_OK) return st;
    size_t good = utf8_length(text.text, text.bytes);
    if (good < text.bytes)
        return b1i_fail(r->err, B1_MODEL, "%s: key %.*s: the string before byte %zu is not UTF-8 (byte 0x%02x)",
                        r->map->path, (int)key->bytes, key->text, r->at, (unsigned char)text.text[good]);
    return B1_OK;
}

static b1_status take_bools(reader *r, const b1i_gguf_string_view *key, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++, r->at++) {
        uint8_t value = r->map->data[r->at];
        if (value > 1)
            return b1i_fail(r->err, B1_MODEL, "%s: key %.*s: the bool at byte %zu is %u, neither 0 nor 1", r->map->path,
                            (int)key->bytes, key->text, r->at, value);
    }
    return B1_OK;
}

static b1_status take_type(reader *r, const b1i_gguf_string_view *key, b1i_gguf_type *out)
{
    uint32_t type = 0;
    b1_status st = take(r, &type, 4, "a key's type");
    if (st != B1_OK) return st;
    if (type >= b1i_gguf_type_count)
        return b1i_fail(r->err, B1_MODEL, "%s: key %.*s: unknown value type %u at byte %zu", r->map->path,
                        (int)key->bytes, key->text, type, r->at - 4);
    *out = (b1i_gguf_type)type;
    return B1_OK;
}

static b1_status take_array(reader *r, const b1i_gguf_string_view *key, int depth, b1i_gguf_type *item,
                            uint64_t *count);

/* Steps over `count` values of `type`; *count bytes are known to fit only where the type has a fixed size. */
static b1_status take_values(reader *r, const b1i_gguf_string_view *key, b1i_gguf_type type, uint64_t count, int depth)
{
    b1_status st;
    size_t least = type == b1i_gguf_array ? 12 : type == b1i_gguf_string ? 8 : types[type].bytes;
    if (count > remaining(r) / least)
        return b1i_fail(r->err, B1_MODEL,
                        "%s: key %.*s: %llu %s%s at byte %zu take more than the %zu bytes that remain", r->map->path,
                        (int)key->bytes, key->text, (unsigned long long)count, types[type].name, count == 1 ? "" : "s",
                        r->at, remaining(r));
    if (type == b1i_gguf_bool) return take_bools(r, key, count);
    if (types[type].bytes > 0) {
        r->at += (size_t)count * types[type].bytes;
        return B1_OK;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (type == b1i_gguf_string)
            B1I_TRY(take_text(r, key));
        else {
            b1i_gguf_type item;
            uint64_t inner;
            B1I_TRY(take_array(r, key, depth + 1, &item, &inner));
        }
    }
    return B1_OK;
fail:
    return st;
}

static b1_status take_array(reader *r, const b1i_gguf_string_view *key, int depth, b1i_gguf_type *item, uint64_t *count)
{
    b1_status st;
    if (depth > NEST_MAX)
        return b1i_fail(r->err, B1_MODEL, "%s: key %.*s: arrays nest deeper than %d at byte %zu", r->map->path,
                        (int)key->bytes, key->text, NEST_MAX, r->at);
    B1I_TRY(take_type(r, key, item));
    B1I_TRY(take(r, count, 8, "an array's length"));
    B1I_TRY(take_values(r, key, *item, *count, depth));
    return B1_OK;
fail:
    return st;
}

static b1_status take_key(reader *r, b1i_gguf_key *key)
{
    b1_status st;
    B1I_TRY(take_name(r, KEY_NAME_MAX, &key->name, "a key's name"));
    B1I_TRY(take_type(r, &key->name, &key->type));
    key->item = key->type;
    key->count = 1;
    if (key->type == b1i_gguf_array) {
        size_t start = r->at;
        B1I_TRY(take_array(r, &key->name, 1, &key->item, &key->count));
        key->value = r->map->data + start + 12;
    } else {
        key->value = r->map->data + r->at;
        B1I_TRY(take_values(r, &key->name, key->type, 1, 0));
    }
    key->value_bytes = (size_t)(r->map->data + r->at - key->value);
    if (key->type == b1i_gguf_string && memchr(key->value + 8, 0, key->value_bytes - 8))
        return b1i_fail(r->err, B1_MODEL, "%s: key %.*s: the string before byte %zu holds a zero byte", r->map->path,
                        (int)key->name.bytes, key->name.text, r->at);
    return B1_OK;
fail:
    return st;
}

/* ---- tensors ---- */

/* Names of type numbers that exist, but not here; for the sentence. */
static const char *const other_formats[] = {
    [9] = "Q8_1",     [10] = "Q2_K",  [11] = "Q3_K",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS",
    [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS",
    [24] = "I8",      [25] = "I16",   [26] = "I32",    [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",
    [34] = "TQ1_0",   [35] = "TQ2_0", [39] = "MXFP4",
};

/* Sets format and bytes; the row's fit and the product are checked. */
static b1_status size_tensor(reader *r, b1i_gguf_tensor *t, uint32_t type)
{
    const b1i_format *format = b1i_format_by_gguf(type);
    if (!format) {
        const char *name = type < sizeof other_formats / sizeof *other_formats ? other_formats[type] : NULL;
        return b1i_fail(r->err, B1_MODEL, "%s: tensor %.*s has the type %s (number %u), which is not supported",
                        r->map->path, (int)t->name.bytes, t->name.text, name ? name : "unknown", type);
    }
    t->format = (b1i_format_id)(format - b1i_formats);
    uint64_t elements = 1;
    for (int i = 0; i < t->dims; i++)
        if (!b1i_mul(elements, t->shape[i], &elements)) goto overflow;
    if (t->shape[0] % (uint64_t)format->block != 0)
        return b1i_fail(r->err, B1_MODEL, "%s: tensor %.*s has rows of %llu, no multiple of the %d of a %s block",
                        r->map->path, (int)t->name.bytes, t->name.text, (unsigned long long)t->shape[0], format->block,
                        format->name);
    if (!b1i_mul(elements / (uint64_t)format->block, (uint64_t)format->block_bytes, &t->bytes)) goto overflow;
    if (t->bytes > r->map->size)
        return b1i_fail(r->err, B1_MODEL, "%s: tensor %.*s takes %llu bytes, more than the whole file's %zu",
                        r->map->path, (int)t->name.bytes, t->name.text, (unsigned long long)t->bytes, r->map->size);
    return B1_OK;
overflow:
    return b1i_fail(r->err, B1_MODEL, "%s: tensor %.*s has a shape whose product overflows", r->map->path,
                    (int)t->name.bytes, t->name.text);
}

static b1_status take_tensor(reader *r, b1i_gguf_tensor *t)
{
    b1_status st;
    uint32_t dims, type;
    B1I_TRY(take_name(r, TENSOR_NAME_MAX, &t->name, "a tensor's name"));
    B1I_TRY(take(r, &dims, 4, "a tensor's number of dimensions"));
    if (dims > 4)
        return b1i_fail(r->err, B1_MODEL, "%s: tensor %.*s has %u dimensions, more than 4", r->map->path,
                        (int)t->name.bytes, t->name.text, dims);
    t->dims = (int)dims;
    for (int i = 0; i < 4; i++) t->shape[i] = 1;
    for (int i = 0; i < t->dims; i++) B1I_TRY(take(r, &t->shape[i], 8, "a tensor's shape"));
    B1I_TRY(take(r, &type, 4, "a tensor's type"));
    B1I_TRY(take(r, &t->offset, 8, "a tensor's offset"));
    return size_tensor(r, t, type);
fail:
    return st;
}

/* Makes offsets absolute, and checks that each tensor begins where the one before ended, padded to `alignment`. */
static b1_status place_tensors(reader *r, b1i_gguf *g, uint64_t alignment)
{
    uint64_t start = r->at + (alignment - r->at % alignment) % alignment, at = 0;
    const char *path = r->map->path;
    for (size_t i = r->at; i < start && i < r->map->size; i++)
        if (r->map->data[i] != 0)
            return b1i_fail(r->err, B1_MODEL, "%s: byte %zu between header and tensors is 0x%02x, not the 0 of padding",
                            path, i, r->map->data[i]);
    for (size_t i = 0; i < g->tensor_count; i++) {
        b1i_gguf_tensor *t = &g->tensors[i];
        if (t->offset != at)
            return b1i_fail(r->err, B1_MODEL,
                            "%s: tensor %.*s has offset %llu, but %llu follows from the tensors before it", path,
                            (int)t->name.bytes, t->name.text, (unsigned long long)t->offset, (unsigned long long)at);
        /* at ≤ size + alignment and bytes ≤ size: no sum here wraps */
        uint64_t end = start + at + t->bytes;
        if (end > r->map->size)
            return b1i_fail(r->err, B1_MODEL, "%s: tensor %.*s ends at byte %llu, but the file has %zu", path,
                            (int)t->name.bytes, t->name.text, (unsigned long long)end, r->map->size);
        t->offset = start + at;
        at += t->bytes + (alignment - t->bytes % alignment) % alignment;
    }
    if (r->map->size > start + at)
        return b1i_fail(r->err, B1_MODEL, "%s: the file has %zu bytes, but its %zu tensors end at byte %llu", path,
                        r->map->size, g->tensor_count, (unsigned long long)(start + at));
    return B1_OK;
}

/* ---- the whole ---- */

static int compare_names(const void *a, const void *b)
{
    const b1i_gguf_string_view *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    return order != 0 ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* `names` [count] is sorted here. */
static b1_status check_twice(reader *r, b1i_gguf_string_view *names, size_t count, const char *kind)
{
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (compare_names(&names[i - 1], &names[i]) == 0)
            return b1i_fail(r->err, B1_MODEL, "%s: %s %.*s is there twice", r->map->path, kind, (int)names[i].bytes,
                            names[i].text);
    return B1_OK;
}

static b1_status check_names(reader *r, const b1i_gguf *g)
{
    b1_status st;
    size_t most = g->key_count > g->tensor_count ? g->key_count : g->tensor_count;
    b1i_gguf_string_view *names = b1i_malloc((most + 1) * sizeof *names);
    if (!names) return b1i_fail_memory(r->err, most * sizeof *names);
    for (size_t i = 0; i < g->key_count; i++) names[i] = g->keys[i].name;
    B1I_TRY(check_twice(r, names, g->key_count, "key"));
    for (size_t i = 0; i < g->tensor_count; i++) names[i] = g->tensors[i].name;
    B1I_TRY(check_twice(r, names, g->tensor_count, "tensor"));
fail:
    b1i_free(names);
    return st;
}

static b1_status take_version(reader *r, uint32_t *version)
{
    b1_status st;
    uint8_t magic[4] = {0};
    const char *path = r->map->path;
    B1I_TRY(take(r, magic, 4, "the magic number"));
    if (memcmp(magic, "GGUF", 4) != 0)
        return b1i_fail(r->err, B1_MODEL, "%s is no GGUF file: it begins with bytes %02x %02x %02x %02x, not \"GGUF\"",
                        path, magic[0], magic[1], magic[2], magic[3]);
    B1I_TRY(take(r, version, 4, "the version"));
    uint32_t swapped = __builtin_bswap32(*version);
    if (swapped >= 1 && swapped <= 3)
        return b1i_fail(r->err, B1_MODEL,
                        "%s is a big-endian GGUF file (version %u with its bytes swapped); this machine reads "
                        "little-endian ones",
                        path, swapped);
    if (*version != 2 && *version != 3)
        return b1i_fail(r->err, B1_MODEL, "%s has GGUF version %u; versions 2 and 3 are known", path, *version);
    return B1_OK;
fail:
    return st;
}

static b1_status take_count(reader *r, size_t least, size_t max, const char *what, uint64_t *out)
{
    b1_status st = take(r, out, 8, what);
    if (st != B1_OK) return st;
    if (*out > remaining(r) / least || *out > max)
        return b1i_fail(r->err, B1_MODEL, "%s: %s is %llu, more than the %zu bytes that remain, or %zu, can be",
                        r->map->path, what, (unsigned long long)*out, remaining(r), max);
    return B1_OK;
}

static b1_status take_alignment(const b1i_gguf *g, int64_t *out, b1_error *err)
{
    b1_status st = b1i_gguf_int(g, "general.alignment", false, 32, out, err);
    if (st != B1_OK) return st;
    if (*out < 8 || *out > (1 << 24) || (*out & (*out - 1)) != 0)
        return b1i_fail(err, B1_MODEL,
                        "%s: general.alignment is %lld, no power of two that is a multiple of 8 (and at most 16 MiB)",
                        g->map.path, (long long)*out);
    return B1_OK;
}

static b1_status walk(b1i_gguf *g, b1_error *err)
{
    b1_status st;
    reader r = {&g->map, 0, err};
    uint64_t tensors, keys;
    int64_t alignment;
    size_t capacity = 0;
    B1I_TRY(take_version(&r, &g->version));
    B1I_TRY(take_count(&r, TENSOR_BYTES_MIN, TENSORS_MAX, "the number of tensors", &tensors));
    B1I_TRY(take_count(&r, KEY_BYTES_MIN, KEYS_MAX, "the number of keys", &keys));
    for (; g->key_count < keys; g->key_count++) {
        if (!b1i_grow(&g->keys, &capacity, g->key_count + 1, sizeof *g->keys))
            return b1i_fail_memory(err, capacity * sizeof *g->keys);
        B1I_TRY(take_key(&r, &g->keys[g->key_count]));
    }
    capacity = 0;
    for (; g->tensor_count < tensors; g->tensor_count++) {
        if (!b1i_grow(&g->tensors, &capacity, g->tensor_count + 1, sizeof *g->tensors))
            return b1i_fail_memory(err, capacity * sizeof *g->tensors);
        B1I_TRY(take_tensor(&r, &g->tensors[g->tensor_count]));
    }
    B1I_TRY(check_names(&r, g));
    B1I_TRY(take_alignment(g, &alignment, err));
    B1I_TRY(place_tensors(&r, g, (uint64_t)alignment));
fail:
    return st;
}

b1_status b1i_gguf_open(const char *path, b1i_gguf **out, b1_error *err)
{
    b1_status st;
    *out = NULL;
    b1i_gguf *g = b1i_calloc(1, sizeof *g);
    if (!g) return b1i_fail_memory(err, sizeof *g);
    B1I_TRY(b1i_map_open(path, &g->map, err));
    B1I_TRY(walk(g, err));
    *out = g;
    return B1_OK;
fail:
    b1i_gguf_close(g);
    return st;
}

void b1i_gguf_close(b1i_gguf *gguf)
{
    if (!gguf) return;
    b1i_free(gguf->keys);
    b1i_free(gguf->tensors);
    b1i_map_close(&gguf->map);
    b1i_free(gguf);
}
