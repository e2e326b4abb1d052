/* SPDX-License-Identifier: MIT
 *
 * The executor `separate`: every op of the plan its own dispatch to the pool, as an eager framework launches kernels.
 */
#include "exec/cpu.h"

const b1i_executor_class b1i_executor_separate = {
    .name = "separate",
    .device = "cpu",
    .kv = b1i_type_bf16,
    .layout = b1i_layout_row16,
    .by_group = false,
    .supports = b1i_cpu_supports,
    .create = b1i_cpu_create,
    .bind = b1i_cpu_bind,
    .submit = b1i_cpu_fork_join,
    .wait = b1i_cpu_wait,
    .cancel = b1i_cpu_cancel,
    .logits = b1i_cpu_logits,
    .times = b1i_cpu_times,
    .destroy = b1i_cpu_destroy,
};
