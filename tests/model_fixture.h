/* SPDX-License-Identifier: MIT
 *
 * The tiny models of tests/fixtures/models/ and the logits that transformers computed for them. The files and their
 * format are those of tools/make_model_fixtures.py. Include cmocka before.
 */
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

#include "batchone/batchone.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Code under a sanitizer or an emulator is some ten times slower: tests that repeat much repeat less there. */
static inline bool slow_here(void) { return SANITIZED || getenv("B1_EMULATED"); }

/* X(identifier, folder, architecture, file within the folder, or "") */
#define MODEL_FIXTURES(X)                                     \
    X(llama2, "llama2", "llama", "")                          \
    X(llama3, "llama3", "llama", "")                          \
    X(llama3_tied, "llama3-tied", "llama", "")                \
    X(llama_own_head, "llama-own-head", "llama", "")          \
    X(llama_linear, "llama-linear", "llama", "")              \
    X(llama_groups, "llama-groups", "llama", "")              \
    X(llama_odd, "llama-odd", "llama", "")                    \
    X(mistral_window, "mistral-window", "mistral", "")        \
    X(mistral_nemo, "mistral-nemo", "mistral", "")            \
    X(qwen2, "qwen2", "qwen2", "")                            \
    X(qwen2_yarn, "qwen2-yarn", "qwen2", "")                  \
    X(qwen3, "qwen3", "qwen3", "")                            \
    X(qwen3_yarn, "qwen3-yarn", "qwen3", "")                  \
    X(gguf_llama3, "gguf-llama3", "llama", "/model.gguf")     \
    X(gguf_mixed, "gguf-llama-mixed", "llama", "/model.gguf") \
    X(gguf_qwen2, "gguf-qwen2-yarn", "qwen2", "/model.gguf")  \
    X(gguf_qwen3, "gguf-qwen3", "qwen3", "/model.gguf")

typedef struct fixture_name {
    const char *folder, *architecture, *file;
} fixture_name;

typedef struct fixture {
    int count, vocab, first;
    int32_t *tokens; /* [count] */
    float *logits;   /* [count − first][vocab] of positions first … count − 1 */
    float most;      /* max|logit| */
} fixture;

static inline const char *fixture_path(const fixture_name *n)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/tests/fixtures/models/%s%s", B1I_SOURCE_DIR, n->folder, n->file);
    return path;
}

static inline fixture fixture_read(const fixture_name *n)
{
    char path[1024], magic[8];
    uint32_t head[3];
    fixture f = {0};
    snprintf(path, sizeof path, "%s/tests/fixtures/models/%s/expected.bin", B1I_SOURCE_DIR, n->folder);
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("%s is missing", path);
    assert_int_equal(fread(magic, 1, 8, in), 8);
    assert_memory_equal(magic, "B1LOGITS", 8);
    assert_int_equal(fread(head, 4, 3, in), 3);
    f.count = (int)head[0];
    f.vocab = (int)head[1];
    f.first = (int)head[2];
    size_t values = (size_t)(f.count - f.first) * (size_t)f.vocab;
    f.tokens = malloc((size_t)f.count * sizeof *f.tokens);
    f.logits = malloc(values * sizeof *f.logits);
    assert_true(f.tokens && f.logits);
    assert_int_equal(fread(f.tokens, 4, (size_t)f.count, in), f.count);
    assert_int_equal(fread(f.logits, 4, values, in), values);
    assert_int_equal(fgetc(in), EOF);
    fclose(in);
    for (size_t i = 0; i < values; i++) f.most = fmaxf(f.most, fabsf(f.logits[i]));
    return f;
}

static inline void fixture_free(fixture *f)
{
    free(f->tokens);
    free(f->logits);
    *f = (fixture){0};
}

static inline const float *fixture_logits(const fixture *f, int position)
{
    return f->logits + (size_t)(position - f->first) * (size_t)f->vocab;
}

/* Fails with the library's own sentence. */
#define must(call)                                                                          \
    do {                                                                                    \
        b1_error err_ = {0};                                                                \
        b1_error *err = &err_;                                                              \
        b1_status st_ = (call);                                                             \
        if (st_ != B1_OK) fail_msg("%s: %s: %s", #call, b1_status_name(st_), err_.message); \
    } while (0)

/* Executor `index` of the CPU, NULL past the last: the first of all names. */
static inline const char *cpu_executor(int index)
{
    const char *device = b1_executor_device(index);
    return device && strcmp(device, "cpu") == 0 ? b1_executor_name(index) : NULL;
}

static inline b1_engine *fixture_open(const fixture_name *n, const char *executor, int threads)
{
    const b1_engine_options options = {.device = "cpu", .executor = executor, .threads = threads, .context = 512};
    b1_engine *engine = NULL;
    must(b1_engine_open(fixture_path(n), &options, &engine, err));
    return engine;
}

/* Largest |a − b| over [count]; infinity where one of them is no number. */
static inline float distance(const float *a, const float *b, int count)
{
    float most = 0;
    for (int i = 0; i < count; i++) {
        float d = fabsf(a[i] - b[i]);
        if (!(d < INFINITY)) return INFINITY;
        most = fmaxf(most, d);
    }
    return most;
}

/* The call fails with the status `want`, and its sentence has `word`. `err` in it is its error. */
#define assert_refused(want, word, call)                                                                \
    do {                                                                                                \
        b1_error err_ = {0};                                                                            \
        b1_error *err = &err_;                                                                          \
        b1_status st_ = (call);                                                                         \
        if (st_ != (want) || err_.status != (want) || !strstr(err_.message, (word)))                    \
            fail_msg("%s: %s, \"%s\"; expected %s with '%s'", #call, b1_status_name(st_), err_.message, \
                     b1_status_name(want), (word));                                                     \
    } while (0)

#endif
