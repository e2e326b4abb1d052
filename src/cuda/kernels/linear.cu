/* SPDX-License-Identifier: MIT
 *
 * The linear kernels of weights that are floats.
 */
#include "cuda/args.h"

namespace {
constexpr int WARPS = B1I_LINEAR_WARPS(b1i_tile_bf16);
}
#include "linear.cuh"

B1I_LINEAR(k_linear_bf16_one, b1i_tile_bf16, false)
B1I_LINEAR(k_linear_bf16_few, b1i_tile_bf16, true)
B1I_LINEAR(k_linear_f16_one, b1i_tile_f16, false)
B1I_LINEAR(k_linear_f16_few, b1i_tile_f16, true)
B1I_LINEAR(k_linear_f32_one, b1i_tile_f32, false)
B1I_LINEAR(k_linear_f32_few, b1i_tile_f32, true)
