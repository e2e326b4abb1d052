/* SPDX-License-Identifier: MIT
 *
 * The linear kernels of weights that are integers with scales.
 */
#include "cuda/args.h"

namespace {
constexpr int WARPS = B1I_LINEAR_WARPS(b1i_tile_i8);
}
#include "linear.cuh"

B1I_LINEAR(k_linear_i8_one, b1i_tile_i8, false)
B1I_LINEAR(k_linear_i8_few, b1i_tile_i8, true)
B1I_LINEAR(k_linear_i4_one, b1i_tile_i4, false)
B1I_LINEAR(k_linear_i4_few, b1i_tile_i4, true)
