/* SPDX-License-Identifier: MIT
 *
 * Plots of the experiment `attention`: µs a layer by context, a figure a head shape; from the host, where an invocation
 * is a layer, and inside a graph, of several layers after each other. The two are never in one figure.
 */
#include "lab/report/chart.h"
#include "lab/work.h"

#include <math.h>
#include <string.h>

static double layers_of(const b1i_report_cell *c) { return b1i_report_number(c->json, "facts.layers"); }

static bool belongs(const b1i_report_cell *c, bool host, const char *panel)
{
    return c->n > 0 && !c->twin && isfinite(c->x) && layers_of(c) > 0 && (c->mode == b1i_lab_stream) == host &&
           c->kind == (host ? b1i_host_single : b1i_device_interval) && strcmp(c->panel, panel) == 0;
}

static bool is_first(const b1i_report_run *run, size_t i, bool host, const char *panel)
{
    if (!belongs(&run->cells[i], host, panel)) return false;
    for (size_t k = 0; k < i; k++)
        if (belongs(&run->cells[k], host, panel) && strcmp(run->cells[k].variant, run->cells[i].variant) == 0)
            return false;
    return true;
}

/* The cells of a variant by their context. */
static void put_series(b1i_chart *c, const b1i_report_run *run, size_t first, bool host, const char *panel)
{
    const b1i_report_cell *of = &run->cells[first];
    double after = -INFINITY;
    b1i_chart_series(c, (b1i_look){of->variant, of->color, of->mode, false}, true);
    for (;;) {
        const b1i_report_cell *next = NULL;
        for (size_t i = first; i < run->count; i++) {
            const b1i_report_cell *o = &run->cells[i];
            if (belongs(o, host, panel) && strcmp(o->variant, of->variant) == 0 && o->x > after &&
                (!next || o->x < next->x))
                next = o;
        }
        if (!next) return;
        double us = 1e3 * layers_of(next);
        b1i_chart_point(c, next->x, next->median / us, next->p10 / us, next->p90 / us);
        after = next->x;
    }
}

static b1_status draw(const b1i_report_run *run, bool host, const char *panel, b1i_plots *plots, b1_error *err)
{
    b1i_chart c = {0};
    char title[2 * B1I_REPORT_WORDS];
    bool any = false;
    for (size_t i = 0; i < run->count; i++) {
        if (!is_first(run, i, host, panel)) continue;
        snprintf(title, sizeof title, "Attention of a layer by context, %s: %s",
                 host ? "from the host" : "inside a graph", panel);
        if (!any) b1i_chart_begin(&c, plots, b1i_plot_attention, host ? "attention-host" : "attention-graph", title);
        any = true;
        put_series(&c, run, i, host, panel);
    }
    if (!any) return B1_OK;
    if (c.figure)
        b1i_text_printf(&c.figure->description,
                        "Microseconds of a layer's attention over the context, a line for each variant, %s, with bars "
                        "from p10 to p90.",
                        host ? "one layer from its submission to its completion"
                             : "the device interval of a graph over its layers");
    const b1i_axes axes = {.x = "context", .y = "µs a layer", .log_x = true, .log_y = true, .ticks_at_points = true};
    return b1i_chart_points_end(&c, &axes, err);
}

b1_status b1i_plot_attention_layers(const b1i_report_run *run, b1i_plots *plots, b1_error *err)
{
    b1_status st = B1_OK;
    for (int host = 1; host >= 0; host--)
        for (size_t i = 0; i < run->count; i++) {
            size_t k = 0;
            while (k < i && strcmp(run->cells[k].panel, run->cells[i].panel) != 0) k++;
            if (k == i) B1I_TRY(draw(run, host, run->cells[i].panel, plots, err));
        }
fail:
    return st;
}
