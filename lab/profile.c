/* SPDX-License-Identifier: MIT
 *
 * What CUPTI records of a run's works. See profile.h.
 */
#include "lab/profile.h"

#include "lab/run.h"

b1_status b1i_profile_run(b1i_lab *lab, b1_error *err)
{
    (void)lab;
    (void)err;
    return B1_OK;
}

b1_status b1i_profile_child(const b1i_experiment *experiment, const b1i_lab_options *options, const char *cell,
                            b1_error *err)
{
    (void)experiment;
    (void)options;
    return b1i_fail(err, B1_UNSUPPORTED, "%s cannot be profiled", cell);
}
