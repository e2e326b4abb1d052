/* SPDX-License-Identifier: MIT
 *
 * The executor `separate`: every op of the plan its own dispatch to the pool, as an eager framework launches kernels.
 */
#include "exec/cpu.h"

B1I_CPU_EXECUTOR(separate, b1i_type_bf16, b1i_layout_row16, false, b1i_cpu_create, b1i_cpu_fork_join);
