/* SPDX-License-Identifier: MIT
 *
 * What all models share, whatever they were loaded from: opening by what lies at the path, rows of a weight, release
 * and closing.
 */
#include "model/model.h"
#include "model/loaders.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

const char *const b1i_arch_names[b1i_arch_count] = {"llama", "mistral", "qwen2", "qwen3"};

b1_status b1i_model_open(const char *path, unsigned parts, b1i_model **out, b1_error *err)
{
    struct stat s;
    *out = NULL;
    if (stat(path, &s)) return b1i_fail(err, B1_MODEL, "%s: cannot be opened: %s", path, strerror(errno));
    return S_ISDIR(s.st_mode) ? b1i_model_open_hf(path, parts, out, err) : b1i_model_open_gguf(path, parts, out, err);
}

void b1i_model_close(b1i_model *m)
{
    if (!m) return;
    b1_tokenizer_close(m->tokenizer);
    for (int i = 0; i < m->map_count; i++) b1i_map_close(&m->maps[i]);
    b1i_free(m->maps);
    b1i_free(m->layer);
    b1i_free(m->freq_factors);
    b1i_free(m);
}

bool b1i_tensor_same(const b1i_tensor *a, const b1i_tensor *b)
{
    return !a->data && !b->data && a->rows > 0 && a->rows == b->rows && a->cols == b->cols && a->format == b->format &&
           a->seed == b->seed && a->scale == b->scale;
}

uint64_t b1i_tensor_bytes(const b1i_tensor *t)
{
    return (uint64_t)t->rows * b1i_format_bytes(t->format, (uint64_t)t->cols);
}

/* The file's row that holds logical row `row`. */
static int64_t file_row(const b1i_tensor *t, int64_t row)
{
    if (t->permuted_heads <= 0) return row;
    int64_t d = t->rows / t->permuted_heads, head = row / d, j = row % d;
    return head * d + (j < d / 2 ? 2 * j : 2 * (j - d / 2) + 1);
}

static void make_row(const b1i_tensor *t, int64_t row, uint8_t *out)
{
    if (t->scale != 0 || t->format != b1i_f32) {
        b1i_formats[t->format].random(t->seed + (uint64_t)row, t->cols, t->scale, out);
        return;
    }
    const float one = 1;
    for (int64_t i = 0; i < t->cols; i++) memcpy(out + 4 * i, &one, sizeof one);
}

void b1i_tensor_rows(const b1i_tensor *t, int64_t row, int64_t count, uint8_t *out)
{
    size_t bytes = (size_t)b1i_format_bytes(t->format, (uint64_t)t->cols);
    if (t->data && t->permuted_heads <= 0) {
        memcpy(out, t->data + (size_t)row * bytes, (size_t)count * bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        if (t->data)
            memcpy(out + (size_t)i * bytes, t->data + (size_t)file_row(t, row + i) * bytes, bytes);
        else
            make_row(t, row + i, out + (size_t)i * bytes);
    }
}

void b1i_tensor_rows_f32(const b1i_tensor *t, int64_t row, int64_t count, uint8_t *scratch, float *out)
{
    for (int64_t i = 0; i < count; i++) {
        b1i_tensor_rows(t, row + i, 1, scratch);
        b1i_formats[t->format].dequantise(scratch, t->cols, out + i * t->cols);
    }
}

void b1i_model_release(const b1i_model *m, const b1i_tensor *t)
{
    if (!t->data || t->map < 0 || t->map >= m->map_count) return;
    const b1i_map *map = &m->maps[t->map];
    b1i_map_release(map, (size_t)(t->data - map->data), (size_t)b1i_tensor_bytes(t));
}
