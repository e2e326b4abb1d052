/* SPDX-License-Identifier: MIT
 *
 * cuBLASLt, opened at run time: one product, Y = X Wᵀ or Y += X Wᵀ, of bf16 matrices with f32 sums and results.
 * Nothing of NVIDIA's headers is needed to build this.
 */
#ifndef B1I_CUDA_CUBLASLT_H
#define B1I_CUDA_CUBLASLT_H

#include "gpu/gpu.h"

typedef struct b1i_cublaslt b1i_cublaslt;

enum { B1I_CUBLASLT_WORKSPACE = 32 << 20 };

/* Y [n][y_stride] (+)= X [n][x_stride] · W [rows][k]ᵀ; strides in elements. W and X 256-byte aligned, X's rows a
 * multiple of 64 bytes apart, Y 4-byte aligned. */
typedef struct b1i_product {
    b1i_gpu_ptr w, x, y;
    int rows, n, k;
    int64_t x_stride, y_stride;
    bool add;
} b1i_product;

/* Looked for, in this order: where BATCHONE_CUBLASLT says (a file or a folder; "none": nowhere at all), by the loader's
 * path, in /usr/local/cuda/lib64. B1_UNSUPPORTED with these places where none is there that works with the driver. */
b1_status b1i_cublaslt_open(b1i_gpu *gpu, b1i_cublaslt **out, b1_error *err);
void b1i_cublaslt_close(b1i_cublaslt *lt); /* NULL is fine; the gpu must be idle */
/* On the gpu's stream; does not wait. `workspace` is [B1I_CUBLASLT_WORKSPACE]; `what` is named where it fails. */
b1_status b1i_cublaslt_run(b1i_cublaslt *lt, const b1i_product *p, b1i_gpu_ptr workspace, const char *what,
                           b1_error *err);

#endif
