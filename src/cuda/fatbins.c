/* SPDX-License-Identifier: MIT
 *
 * The kernels of this build: the fatbin of every kernels/ *.cu, put into the binary by the assembler, so that the
 * command needs no file beside it. The build writes their list, B1I_FATBIN_MAP(X) with X(name), and says where they
 * lie.
 */
#include "cuda/cuda.h"

#if B1_CUDA

#include "fatbin_list.h" /* made by cmake/cuda.cmake in the build folder */

/* The driver reads a fatbin in words of 8 bytes. */
#define EMBED(name)                                                \
    __asm__(".pushsection .rodata\n"                               \
            ".balign 16\n"                                         \
            ".global b1i_fatbin_" #name "\n"                       \
            ".hidden b1i_fatbin_" #name "\n"                       \
            "b1i_fatbin_" #name ":\n"                              \
            ".incbin \"" B1I_FATBIN_FOLDER "/" #name ".fatbin\"\n" \
            ".popsection\n");                                      \
    extern const char b1i_fatbin_##name[] __attribute__((visibility("hidden")));
B1I_FATBIN_MAP(EMBED)

b1_status b1i_cuda_load_kernels(b1i_gpu *gpu, b1_error *err)
{
    b1_status st = B1_OK;
#define LOAD(name) B1I_TRY(b1i_gpu_load(gpu, #name, b1i_fatbin_##name, err));
    B1I_FATBIN_MAP(LOAD)
#undef LOAD
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
