/* SPDX-License-Identifier: MIT
 *
 * Kernels in the binary: a fatbin is put there by the assembler, so that the command needs no file beside it. The build
 * writes lists of them (cmake/cuda.cmake): maps of X(name) and the folder where NAME.fatbin lies.
 */
#ifndef B1I_GPU_FATBIN_H
#define B1I_GPU_FATBIN_H

#include "gpu/gpu.h"

/* Declares b1i_fatbin_NAME[]. The driver reads a fatbin in words of 8 bytes. */
#define B1I_FATBIN_EMBED(name)                                     \
    __asm__(".pushsection .rodata\n"                               \
            ".balign 16\n"                                         \
            ".global b1i_fatbin_" #name "\n"                       \
            ".hidden b1i_fatbin_" #name "\n"                       \
            "b1i_fatbin_" #name ":\n"                              \
            ".incbin \"" B1I_FATBIN_FOLDER "/" #name ".fatbin\"\n" \
            ".popsection\n");                                      \
    extern const char b1i_fatbin_##name[] __attribute__((visibility("hidden")));
#define B1I_FATBIN_LOAD(name) B1I_TRY(b1i_gpu_load(gpu, #name, b1i_fatbin_##name, err));

/* Defines `function` (b1i_gpu *gpu, b1_error *err), which loads the kernels of `MAP`; in a build without CUDA, where
 * there is no such map, it says so. */
#if B1_CUDA
#define B1I_FATBIN_LOADER(function, MAP)            \
    MAP(B1I_FATBIN_EMBED)                           \
    b1_status function(b1i_gpu *gpu, b1_error *err) \
    {                                               \
        b1_status st = B1_OK;                       \
        MAP(B1I_FATBIN_LOAD)                        \
    fail:                                           \
        return st;                                  \
    }
#else
#define B1I_FATBIN_LOADER(function, MAP)                                                                     \
    b1_status function(b1i_gpu *gpu, b1_error *err)                                                          \
    {                                                                                                        \
        (void)gpu;                                                                                           \
        return b1i_fail(err, B1_UNSUPPORTED, "this build has no CUDA: nvcc was not found when it was made"); \
    }
#endif

#endif
