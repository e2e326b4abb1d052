/* SPDX-License-Identifier: MIT
 *
 * The kernels of this build: the fatbin of every kernels/ *.cu.
 */
#include "cuda/cuda.h"
#include "gpu/fatbin.h"

#if B1_CUDA
#include "fatbin_list.h" /* made by cmake/cuda.cmake in the build folder */
#endif

B1I_FATBIN_LOADER(b1i_cuda_load_kernels, B1I_FATBIN_MAP)
