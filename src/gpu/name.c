/* SPDX-License-Identifier: MIT
 *
 * Names of devices, with and without CUDA.
 */
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

enum { ORDINAL_DIGITS = 3 };

int b1i_gpu_ordinal(const char *name)
{
    if (strcmp(name, "cuda") == 0) return 0;
    if (strncmp(name, "cuda:", 5) != 0) return -1;
    const char *digits = name + 5;
    const size_t count = strspn(digits, "0123456789");
    if (count < 1 || count > ORDINAL_DIGITS || digits[count] || (count > 1 && digits[0] == '0')) return -1;
    return (int)strtol(digits, NULL, 10);
}
