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
