/* SPDX-License-Identifier: MIT
 *
 * The kernels of this build: the fatbin of every kernels/ *.cu.
 */
#include "cuda/cuda.h"

#if B1_CUDA

#include "gpu/fatbin.h"

#include "fatbin_list.h" /* made by cmake/cuda.cmake in the build folder */

B1I_FATBIN_MAP(B1I_FATBIN_EMBED)

b1_status b1i_cuda_load_kernels(b1i_gpu *gpu, b1_error *err)
{
    b1_status st = B1_OK;
    B1I_FATBIN_MAP(B1I_FATBIN_LOAD)
fail:
    return st;
}

#else

b1_status b1i_cuda_load_kernels(b1i_gpu *gpu, b1_error *err)
{
    (void)gpu;
    return b1i_fail(err, B1_UNSUPPORTED, "this build has no CUDA: nvcc was not found when it was made");
}

#endif
