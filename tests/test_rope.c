/* SPDX-License-Identifier: MIT
 *
 * Rotary frequencies against values computed elsewhere in double precision.
 */
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/rope_cases.h"

enum { CASES = sizeof rope_cases / sizeof *rope_cases };

static void cases(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const struct rope_case *c = &rope_cases[i];
        b1i_config config = {.head_dim = c->head_dim, .rope = c->rope};
        float inverse[64], factor = -1;
        b1i_rope_frequencies(&config, inverse, &factor);
        assert_true(fabs((double)factor / c->factor - 1) < 1e-7);
        for (int j = 0; j < c->head_dim / 2; j++) {
            if (!(fabs((double)inverse[j] / c->inverse[j] - 1) < 1e-7))
                fail_msg("%s: pair %d is %.9g, expected %.9g", c->name, j, (double)inverse[j], c->inverse[j]);
        }
    }
}

/* The factors of a GGUF file divide the frequencies. */
static void file_factors(void **state)
{
    (void)state;
    float factors[32], inverse[32], factor;
    for (int j = 0; j < 32; j++) factors[j] = 1 + (float)j / 4;
    b1i_config config = {.head_dim = 64, .rope = rope_cases[0].rope};
    config.rope.freq_factors = factors;
    b1i_rope_frequencies(&config, inverse, &factor);
    assert_true(factor == 1);
    for (int j = 0; j < 32; j++)
        assert_true(fabs((double)inverse[j] * (double)factors[j] / rope_cases[0].inverse[j] - 1) < 2e-7);
}

/* A factor of at most 1 does not change the size of cos and sin. */
static void small_yarn_factor(void **state)
{
    (void)state;
    float inverse[32], factor;
    b1i_config config = {.head_dim = 64,
                         .rope = {.kind = b1i_rope_yarn,
                                  .theta = 10000,
                                  .factor = 0.5,
                                  .original_context = 128,
                                  .beta_fast = 32,
                                  .beta_slow = 1}};
    b1i_rope_frequencies(&config, inverse, &factor);
    assert_true(factor == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases),
        cmocka_unit_test(file_factors),
        cmocka_unit_test(small_yarn_factor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
