/* SPDX-License-Identifier: MIT
 *
 * The executor `fused`: one dispatch to the pool for each group of ops, about five a layer.
 */
#include "exec/cpu.h"

B1I_CPU_EXECUTOR(fused, b1i_type_bf16, b1i_layout_row16, true, b1i_cpu_create, b1i_cpu_fork_join);
