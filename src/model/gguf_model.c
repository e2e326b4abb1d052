/* SPDX-License-Identifier: MIT
 *
 * From GGUF containers to a b1i_model: one file, or all parts of a split one.
 *
 * Refuses a file without tensors, a part of a split file that is not the first, parts that are missing or disagree, and
 * whatever gguf_config.c and weights.c refuse.
 *
 * Invariant: the containers live only while the model is filled; the maps pass to the model.
 */
#include "model/gguf_config.h"
#include "model/loaders.h"
#include "model/tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- tensors ---- */

/* The divisors of RoPE's frequencies: the one tensor that is read here, for it is part of the configuration. */
static b1_status put_rope_factors(b1i_filling *f, const b1i_found *found)
{
    b1i_model *m = f->model;
    uint64_t half = (uint64_t)m->config.head_dim / 2;
    if (found->format != b1i_f32 || found->shape[0] != half || found->shape[1] != 1 || found->shape[2] != 1 ||
        found->shape[3] != 1)
        return b1i_fail(f->err, B1_MODEL, "%s: tensor rope_freqs.weight is not [%llu] in f32", found->path,
                        (unsigned long long)half);
    if (m->config.rope.kind != b1i_rope_plain)
        return b1i_fail(f->err, B1_MODEL,
                        "%s: tensor rope_freqs.weight and the rope.scaling keys both scale RoPE; one of them may",
                        found->path);
    if (m->freq_factors) return b1i_fail(f->err, B1_MODEL, "%s: tensor rope_freqs.weight is there twice", found->path);
    m->freq_factors = b1i_malloc(half * sizeof(float));
    if (!m->freq_factors) return b1i_fail_memory(f->err, half * sizeof(float));
    memcpy(m->freq_factors, found->data, half * sizeof(float));
    m->config.rope.freq_factors = m->freq_factors;
    for (uint64_t i = 0; i < half; i++)
        if (!(m->freq_factors[i] > 0) || !isfinite(m->freq_factors[i]))
            return b1i_fail(f->err, B1_MODEL, "%s: tensor rope_freqs.weight holds %g at %llu, expected above 0",
                            found->path, (double)m->freq_factors[i], (unsigned long long)i);
    return B1_OK;
}

/* Old files carry RoPE's frequencies once a layer; they follow from the configuration. */
static bool is_harmless(const b1i_gguf_string_view *name)
{
    static const char *const ends[] = {".attn_rot_embd.weight", ".attn_rot_embd", ".rope_freqs"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t bytes = strlen(ends[i]);
        if (name->bytes > bytes && memcmp(name->text + name->bytes - bytes, ends[i], bytes) == 0) return true;
    }
    return false;
}

static b1_status put_tensors(b1i_filling *f, const b1i_gguf *g, int map)
{
    b1_status st;
    for (size_t i = 0; i < g->tensor_count; i++) {
        const b1i_gguf_tensor *t = &g->tensors[i];
        b1i_found found = {.name = t->name.text,
                           .name_bytes = t->name.bytes,
                           .format = t->format,
                           .dims = t->dims,
                           .data = g->map.data + t->offset,
                           .map = map,
                           .path = g->map.path};
        memcpy(found.shape, t->shape, sizeof found.shape);
        if (b1i_gguf_is(&t->name, "rope_freqs.weight"))
            B1I_TRY(put_rope_factors(f, &found));
        else if (!is_harmless(&t->name))
            B1I_TRY(b1i_filling_put(f, &found));
    }
    return B1_OK;
fail:
    return st;
}

/* ---- split files ---- */

typedef struct parts {
    b1i_gguf **part; /* [count], NULL until opened */
    int count;
} parts;

static void close_parts(parts *p)
{
    for (int i = 0; i < p->count; i++) b1i_gguf_close(p->part[i]);
    b1i_free(p->part);
}

static b1_status read_split(const b1i_gguf *g, int *number, int *count, int64_t *tensors, b1_error *err)
{
    b1_status st;
    int64_t no, of;
    B1I_TRY(b1i_gguf_int(g, "split.no", false, 0, &no, err));
    B1I_TRY(b1i_gguf_int(g, "split.count", false, 1, &of, err));
    B1I_TRY(b1i_gguf_int(g, "split.tensors.count", of > 1, (int64_t)g->tensor_count, tensors, err));
    if (of == 0 && no == 0) of = 1;
    if (of < 1 || of > 99999 || no < 0 || no >= of)
        return b1i_fail(err, B1_MODEL, "%s: split.no %lld of split.count %lld makes no sense", g->map.path,
                        (long long)no, (long long)of);
    *number = (int)no;
    *count = (int)of;
fail:
    return st;
}

/* Opens part `i` beside the first, whose name without its number is `stem` bytes long and which says that all parts
 * together have `whole` tensors. */
static b1_status open_part(parts *p, int i, size_t stem, int64_t whole, b1_error *err)
{
    b1_status st;
    const char *first = p->part[0]->map.path;
    int number, count;
    int64_t tensors;
    size_t bytes = stem + sizeof "-00001-of-00001.gguf";
    char *path = b1i_malloc(bytes);
    if (!path) return b1i_fail_memory(err, bytes);
    snprintf(path, bytes, "%.*s-%05d-of-%05d.gguf", (int)stem, first, i + 1, p->count);
    B1I_TRY(b1i_gguf_open(path, &p->part[i], err));
    B1I_TRY(read_split(p->part[i], &number, &count, &tensors, err));
    if (number != i || count != p->count) {
        st = b1i_fail(err, B1_MODEL, "%s: says that it is part %d of %d, but %s makes it part %d of %d", path,
                      number + 1, count, first, i + 1, p->count);
        goto fail;
    }
    if (tensors != whole)
        st = b1i_fail(err, B1_MODEL, "%s: split.tensors.count is %lld, but %s says %lld", path, (long long)tensors,
                      first, (long long)whole);
fail:
    b1i_free(path);
    return st;
}

static b1_status open_all(const char *path, parts *p, b1_error *err)
{
    b1_status st;
    b1i_gguf *first = NULL;
    int number, count;
    int64_t tensors;
    char tail[32];
    B1I_TRY(b1i_gguf_open(path, &first, err));
    B1I_TRY(read_split(first, &number, &count, &tensors, err));
    if (number != 0) {
        st = b1i_fail(err, B1_MODEL, "%s: is part %d of %d of a split file; open the first part", path, number + 1,
                      count);
        goto fail;
    }
    p->part = b1i_calloc((size_t)count, sizeof(void *));
    if (!p->part) {
        st = b1i_fail_memory(err, (size_t)count * sizeof(void *));
        goto fail;
    }
    p->count = count;
    p->part[0] = first;
    if (count == 1) return B1_OK;
    snprintf(tail, sizeof tail, "-00001-of-%05d.gguf", count);
    size_t bytes = strlen(path), tail_bytes = strlen(tail);
    if (bytes < tail_bytes || strcmp(path + bytes - tail_bytes, tail) != 0)
        return b1i_fail(err, B1_MODEL, "%s: is the first of %d parts, so its name must end in %s", path, count, tail);
    for (int i = 1; i < count; i++) {
        st = open_part(p, i, bytes - tail_bytes, tensors, err);
        if (st != B1_OK) return st;
    }
    int64_t sum = 0;
    for (int i = 0; i < count; i++) sum += (int64_t)p->part[i]->tensor_count;
    if (sum != tensors)
        return b1i_fail(err, B1_MODEL, "%s: split.tensors.count is %lld, but the %d parts hold %lld tensors", path,
                        (long long)tensors, count, (long long)sum);
    return B1_OK;
fail:
    b1i_gguf_close(first);
    return st;
}

/* ---- the whole ---- */

static b1_status fill(b1i_model *m, const parts *p, b1_error *err)
{
    b1_status st;
    const b1i_gguf *first = p->part[0];
    b1i_filling f = {.model = m, .spelling = b1i_spelling_gguf, .path = first->map.path, .err = err};
    uint64_t tensors = 0;
    for (int i = 0; i < p->count; i++) tensors += p->part[i]->tensor_count;
    if (tensors == 0) return b1i_fail(err, B1_MODEL, "%s: has no tensors: a vocabulary, not a model", first->map.path);
    B1I_TRY(b1i_gguf_config(first, &f));
    if (b1i_filling_least(&f) > tensors)
        return b1i_fail(err, B1_MODEL, "%s: %d layers need %llu tensors, but there are %llu", first->map.path,
                        m->config.layers, (unsigned long long)b1i_filling_least(&f), (unsigned long long)tensors);
    B1I_TRY(b1i_filling_begin(&f));
    for (int i = 0; i < p->count; i++) B1I_TRY(put_tensors(&f, p->part[i], i));
    B1I_TRY(b1i_filling_end(&f));
fail:
    return st;
}

/* The maps pass from the containers to the model, in the parts' order. */
static b1_status take_maps(b1i_model *m, parts *p, b1_error *err)
{
    m->maps = b1i_calloc((size_t)p->count, sizeof *m->maps);
    if (!m->maps) return b1i_fail_memory(err, (size_t)p->count * sizeof *m->maps);
    m->map_count = p->count;
    for (int i = 0; i < p->count; i++) {
        m->maps[i] = p->part[i]->map;
        p->part[i]->map = (b1i_map){0};
    }
    return B1_OK;
}

static b1_status load_tokenizer(b1i_model *m, const b1i_gguf *g, b1_error *err)
{
    static const char prefix[] = "tokenizer.";
    bool any = false;
    for (size_t i = 0; i < g->key_count && !any; i++)
        any = g->keys[i].name.bytes >= sizeof prefix && memcmp(g->keys[i].name.text, prefix, sizeof prefix - 1) == 0;
    return any ? b1i_tokenizer_from_gguf(g, &m->tokenizer, err) : B1_OK;
}

b1_status b1i_model_open_gguf(const char *path, unsigned parts_wanted, b1i_model **out, b1_error *err)
{
    b1_status st;
    parts p = {0};
    *out = NULL;
    b1i_model *m = b1i_calloc(1, sizeof *m);
    if (!m) return b1i_fail_memory(err, sizeof *m);
    B1I_TRY(open_all(path, &p, err));
    if (parts_wanted & B1I_LOAD_TENSORS) B1I_TRY(fill(m, &p, err));
    if (parts_wanted & B1I_LOAD_TOKENIZER) B1I_TRY(load_tokenizer(m, p.part[0], err));
    B1I_TRY(take_maps(m, &p, err));
    close_parts(&p);
    *out = m;
    return B1_OK;
fail:
    close_parts(&p);
    b1i_model_close(m);
    return st;
}
