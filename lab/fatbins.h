/* SPDX-License-Identifier: MIT
 *
 * The lab's kernels in the binary.
 */
#ifndef LAB_FATBINS_H
#define LAB_FATBINS_H

#include "gpu/gpu.h"

/* Loads them all, once a gpu; b1i_gpu_kernel_get() finds them then. */
b1_status b1i_lab_load_kernels(b1i_gpu *gpu, b1_error *err);

/* Loads what the engine's attention was compiled to, the same bytes that its executors load, for the experiment that
 * launches its kernels: docs/decisions/0007. */
b1_status b1i_lab_load_attention(b1i_gpu *gpu, b1_error *err);

#endif
