/* SPDX-License-Identifier: MIT
 *
 * Rotary frequencies. Everything is computed in double and rounded once. See b1i_rope_frequencies() for the formulas'
 * sources; factors of a GGUF file divide whatever the kind gives.
 */
#include "model/model.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925286766559;

/* Wavelengths up to original / high stay, those past original / low are stretched by the factor, and between them the
 * frequency goes over smoothly. */
static double llama3(const b1i_rope *r, double f)
{
    double rotations = r->original_context * f / two_pi; /* in the original context */
    if (rotations > r->high_freq_factor) return f;
    if (rotations < r->low_freq_factor) return f / r->factor;
    double smooth = (rotations - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - smooth) * f / r->factor + smooth * f;
}

/* The (fractional) index of the pair that makes `rotations` turns over the original context. */
static double yarn_index(const b1i_rope *r, int head_dim, double rotations)
{
    return head_dim * log(r->original_context / (rotations * two_pi)) / (2 * log(r->theta));
}

/* How much of pair j is interpolated: 0 below the range, 1 above it. */
static double yarn_ramp(const b1i_rope *r, int head_dim, int j)
{
    double low = yarn_index(r, head_dim, r->beta_fast), high = yarn_index(r, head_dim, r->beta_slow);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, head_dim - 1);
    if (low == high) high += 0.001;
    return fmin(fmax((j - low) / (high - low), 0), 1);
}

void b1i_rope_frequencies(const b1i_config *config, float *inverse, float *cos_sin_factor)
{
    const b1i_rope *r = &config->rope;
    for (int j = 0; j < config->head_dim / 2; j++) {
        double f = pow(r->theta, -2.0 * j / config->head_dim), ramp;
        switch (r->kind) {
        case b1i_rope_plain:
            break;
        case b1i_rope_linear:
            f /= r->factor;
            break;
        case b1i_rope_llama3:
            f = llama3(r, f);
            break;
        case b1i_rope_yarn:
            ramp = yarn_ramp(r, config->head_dim, j);
            f = f / r->factor * ramp + f * (1 - ramp);
            break;
        }
        inverse[j] = (float)(r->freq_factors ? f / (double)r->freq_factors[j] : f);
    }
    *cos_sin_factor = 1;
    if (r->kind != b1i_rope_yarn) return;
    double factor = r->attention_factor;
    if (factor == 0) factor = r->factor > 1 ? 0.1 * log(r->factor) + 1 : 1;
    *cos_sin_factor = (float)factor;
}
