/* SPDX-License-Identifier: MIT
 *
 * The default model's first 64 greedy tokens on five prompts, as transformers in fp32 chose them: tests/fixtures/
 * greedy.json, made by tools/make_greedy_fixture.py. Include tests/model_fixture.h before.
 */
#ifndef GREEDY_FIXTURE_H
#define GREEDY_FIXTURE_H

#include <jansson.h>
#include <unistd.h>

enum { TOKENS = 64, PROMPTS = 5, PROMPT_MAX = 32, STRIDE_MAX = 1000 };

typedef struct prompt {
    int32_t ids[PROMPT_MAX + TOKENS]; /* the prompt and after it the tokens */
    int prompt_count;
    const int32_t *tokens; /* [TOKENS], the last of ids */
    float gap[TOKENS];
    float final[STRIDE_MAX]; /* logits before the last token, at every stride-th id */
    int final_count;
} prompt;

static inline void read_floats(const json_t *list, float *out, int max, int *count)
{
    *count = (int)json_array_size(list);
    assert_in_range(*count, 1, max);
    for (int i = 0; i < *count; i++) out[i] = (float)json_number_value(json_array_get(list, (size_t)i));
}

static inline void read_prompt(const json_t *json, prompt *p)
{
    const json_t *ids = json_object_get(json, "prompt"), *tokens = json_object_get(json, "tokens");
    int count;
    p->prompt_count = (int)json_array_size(ids);
    assert_in_range(p->prompt_count, 1, PROMPT_MAX);
    assert_int_equal(json_array_size(tokens), TOKENS);
    for (int i = 0; i < p->prompt_count + TOKENS; i++) {
        const json_t *item = i < p->prompt_count ? json_array_get(ids, (size_t)i)
                                                 : json_array_get(tokens, (size_t)(i - p->prompt_count));
        p->ids[i] = (int32_t)json_integer_value(item);
    }
    p->tokens = p->ids + p->prompt_count;
    read_floats(json_object_get(json, "gap"), p->gap, TOKENS, &count);
    assert_int_equal(count, TOKENS);
    read_floats(json_object_get(json, "final"), p->final, STRIDE_MAX, &p->final_count);
}

/* All five; *stride is that of `final`. */
static inline void read_prompts(prompt prompts[PROMPTS], int *stride)
{
    json_error_t where;
    json_t *json = json_load_file(B1I_SOURCE_DIR "/tests/fixtures/greedy.json", 0, &where);
    if (!json) fail_msg("greedy.json: %s", where.text);
    *stride = (int)json_integer_value(json_object_get(json, "stride"));
    const json_t *list = json_object_get(json, "prompts");
    assert_int_equal(json_array_size(list), PROMPTS);
    for (size_t i = 0; i < PROMPTS; i++) read_prompt(json_array_get(list, i), &prompts[i]);
    json_decref(json);
}

static inline const char *model_path(void)
{
    const char *given = getenv("B1_TEST_MODEL");
    return given ? given : B1I_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

static inline int argmax(const float *x, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* Standard deviation over the vocabulary of a − b, or of a where b is NULL. A shift of all logits is no difference. */
static inline double spread(const float *a, const float *b, int count)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++) {
        double x = (double)a[i] - (b ? (double)b[i] : 0);
        sum += x;
        squares += x * x;
    }
    return sqrt(squares / count - sum / count * (sum / count));
}

#endif
