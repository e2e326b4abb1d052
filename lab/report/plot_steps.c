/* SPDX-License-Identifier: MIT
 *
 * Plots of what single cells of a study hold beside their times: the profile of a step, and the histogram of many.
 */
#include "lab/report/chart.h"

#include <math.h>

b1_status b1i_plot_steps(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    (void)run;
    (void)plots;
    (void)err;
    return B1_OK;
}
