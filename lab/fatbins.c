/* SPDX-License-Identifier: MIT
 *
 * The lab's own kernels: the fatbin of every kernels/ *.cu.
 */
#include "lab/fatbins.h"
#include "gpu/fatbin.h"

#if B1_CUDA
#include "lab_fatbin_list.h" /* made by cmake/cuda.cmake in the build folder */
#endif

B1I_FATBIN_LOADER(b1i_lab_load_kernels, B1I_LAB_FATBIN_MAP)

/* src/cuda/fatbins.c has put it into the binary. */
#if B1_CUDA
extern const char b1i_fatbin_attention[] __attribute__((visibility("hidden")));
#endif

b1_status b1i_lab_load_attention(b1i_gpu *gpu, b1_error *err)
{
#if B1_CUDA
    return b1i_gpu_load(gpu, "attention", b1i_fatbin_attention, err);
#else
    (void)gpu;
    return b1i_fail(err, B1_UNSUPPORTED, "this build has no CUDA: nvcc was not found when it was made");
#endif
}
