/* SPDX-License-Identifier: MIT
 *
 * Pictures: drawn by gnuplot in a folder beside the page, embedded as figures with what must be said of their kind.
 */
#include "lab/report/gnuplot.h"
#include "lab/report/page.h"

#include <stdio.h>
#include <unistd.h>

enum { SVG_MOST_BYTES = 256 << 20 };

static const char *const captions[] = {
    [b1i_plot_latency] = "Points are medians, bars go from p10 to p90 of the samples.",
    [b1i_plot_bandwidth] = "Logical bytes over time: at the median, with bars to what p90 and p10 give.",
    [b1i_plot_traffic] =
        "Logical bytes of an invocation against its device interval, p10 to p90 as bars; dotted lines have one "
        "bandwidth. These are not the bytes that memory moved: counters of stores can miss dirty lines that "
        "are written back later, and cold replay proves no DRAM ratio for a warm loop.",
    [b1i_plot_timeline] =
        "Each panel is a launch of its own with instruments, aligned to its own first A; all have one scale. A "
        "row is an SM or worker that was seen, a bar one stage of one job, and every job is drawn. Bars are "
        "recorded intervals, not utilisation; gaps are no measured causes.",
    [b1i_plot_attention] =
        "Of a layer: medians, with bars from p10 to p90. From the host an invocation is one layer, "
        "from submission to completion; a graph has several, of which this is the device interval of "
        "one.",
    [b1i_plot_causes] =
        "Weights, keys and values at the bandwidth that was measured between the steps; kernels beyond that where a "
        "profile has their times, from a pass of its own; launch is what the graph of the same kernels saved, so at "
        "most that; the rest has no cause by measurement. The ceiling is the median of the sessions’ ceilings, and "
        "so need not give R_ceiling, the median of their ratios.",
    [b1i_plot_ratio] =
        "The share of a step that memory at its measured speed accounts for, the median of the sessions’ own "
        "ratios; on the dotted line "
        "nothing is left to gain but fewer bytes.",
    [b1i_plot_graphs] = "Ratios of medians from separate processes, without intervals: a claim needs an A/B.",
    [b1i_plot_formats] = "Expected by the bytes of a step, scales and K included; by the published rule, a quarter "
                         "of the bf16 weights and the whole K; and what was measured.",
    [b1i_plot_batch] = "Tokens a second over those of batch 1; on the dotted line a batch costs no time.",
    [b1i_plot_profile] = "Kernels of a step by the profiler and the gaps between them; the mark is the step without "
                         "the profiler.",
    [b1i_plot_jitter] = "Both axes are logarithmic where they span much.",
    [b1i_plot_pairs] = "A session is a fresh process with both settings, in an order that alternates; steps are never "
                       "resampled.",
    [b1i_plot_floors] =
        "Medians of contexts and models with bars from least to most, batch 1; share and bandwidth of a point belong "
        "together, and of an even number the middle two are averaged. R_floor is bytes over the datasheet’s "
        "bandwidth over the step; where there is no datasheet, as of a CPU, R_ceiling at the measured bandwidth, open. "
        "Published figures do not count the same bytes: the H100’s leave out embedding and LM head, the L4’s have "
        "both.",
    [b1i_plot_intervals] =
        "A’s step over B’s with the 95 % interval over sessions; open where that includes 1 or the verdict is not ok. "
        "The published interval is "
        "the plain percentile one, and eager ran first in each of its sessions.",
    [b1i_plot_ladder] = "The same speed-ups; open where the interval includes 1 or the verdict is not ok.",
    [b1i_plot_beside] = "Steps of one shape at one context on different devices, stacks and rigs: what stands beside "
                        "each other here was not measured together.",
};

static void caption(b1i_page *page, const b1i_report_run *run, const b1i_plot *f)
{
    b1i_text_put(&page->html, "<figcaption>");
    if (f->sort == b1i_plot_timeline)
        b1i_text_put(&page->html, "<span class=\"keys\"><span><i style=\"background:var(--s0)\"></i>A</span><span><i "
                                  "style=\"background:var(--s1)\"></i>B</span></span>");
    b1i_html(&page->html, "<b>%s.</b> %s ", b1i_text_get(&f->title), captions[f->sort]);
    if (run->number > 0) {
        b1i_text_put(&page->html, "From ");
        b1i_page_link(page, run, "analysis.json",
                      f->sort == b1i_plot_timeline ? "the traces of analysis.json" : "analysis.json");
        b1i_text_put(&page->html, "; drawn");
    } else {
        b1i_text_put(&page->html, "Drawn");
    }
    b1i_text_put(&page->html, " of ");
    b1i_page_beside(page, run, f->name, ".dat", "dat");
    b1i_text_put(&page->html, " by ");
    b1i_page_beside(page, run, f->name, ".gp", "gp");
    b1i_text_put(&page->html, ", alone as ");
    b1i_page_beside(page, run, f->name, ".svg", "svg");
    b1i_text_put(&page->html, ".</figcaption></figure>\n");
}

static b1_status draw(b1i_page *page, const b1i_report_run *run, const b1i_plot *f, const char *folder, b1_error *err)
{
    b1_status st;
    char path[4200], id[24], *svg = NULL, script[96];
    size_t bytes;
    b1_error reading = {0};
    B1I_TRY(b1i_page_file(folder, f->name, ".dat", &f->data, err));
    B1I_TRY(b1i_page_file(folder, f->name, ".gp", &f->script, err));
    snprintf(script, sizeof script, "%s.gp", f->name);
    snprintf(path, sizeof path, "%s/%s.svg", folder, f->name);
    unlink(path); /* an older report's */
    B1I_TRY(b1i_gnuplot_run(folder, script, err));
    st = b1i_read_file(path, SVG_MOST_BYTES, &svg, &bytes, &reading);
    if (st != B1_OK) B1I_TRY(b1i_fail(err, B1_IO, "gnuplot left no picture: %s", reading.message));
    snprintf(id, sizeof id, "fig-%d", ++page->figure);
    b1i_html(&page->html, "<figure class=\"%s%s\"><div class=\"box\">", f->wide ? "wide" : "",
             f->sort == b1i_plot_timeline ? " timeline" : "");
    B1I_TRY(b1i_svg_embed(&page->html, svg, id, b1i_text_get(&f->title), b1i_text_get(&f->description), err));
    b1i_text_put(&page->html, "</div>");
    caption(page, run, f);
fail:
    b1i_free(svg);
    return st;
}

b1_status b1i_page_draw(b1i_page *page, const b1i_report_run *run, const b1i_plots *figures, bool timelines,
                        const char *folder, b1_error *err)
{
    b1_status st = B1_OK;
    bool any = false;
    for (size_t i = 0; i < figures->count; i++) {
        if ((figures->items[i].sort == b1i_plot_timeline) != timelines) continue;
        if (!any) b1i_text_put(&page->html, "<div class=\"figures\">\n");
        any = true;
        B1I_TRY(draw(page, run, &figures->items[i], folder, err));
    }
    if (any) b1i_text_put(&page->html, "</div>\n");
fail:
    return st;
}
