/* SPDX-License-Identifier: MIT
 *
 * Weak definitions of what is not there yet, so that the library links.
 */
#include "lab/evidence.h"
#include "lab/report.h"
#include "lab/work.h"

#define WEAK __attribute__((weak))

WEAK b1_status b1i_report_plots(struct b1i_evidence *evidence, b1_error *err)
{
    (void)evidence;
    (void)err;
    return B1_OK;
}
