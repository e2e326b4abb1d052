/* SPDX-License-Identifier: MIT
 *
 * The page's order: its head, each run by its sort, what they show together, the end.
 */
#include "lab/report/gnuplot.h"
#include "lab/report/page.h"

#include <stdio.h>

extern const char b1i_report_style_begin[], b1i_report_style_end[];
__asm__(".pushsection .rodata\n"
        ".global b1i_report_style_begin\n"
        ".global b1i_report_style_end\n"
        "b1i_report_style_begin:\n"
        ".incbin \"" B1I_REPORT_CSS "\"\n"
        "b1i_report_style_end:\n"
        ".byte 0\n"
        ".popsection\n");

/* Whether anything but the lab's experiments is here. */
static bool any_study(const b1i_report_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (runs[i].sort != b1i_report_lab) return true;
    return false;
}

static void page_head(b1i_page *page, const b1i_report_run *runs, size_t count)
{
    b1i_text *html = &page->html;
    char title[200];
    b1i_text_put(html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                       "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n");
    const char *words = any_study(runs, count) ? "Report" : "Lab report";
    b1i_html(html, "<meta name=\"generator\" content=\"batchone %s\">\n<title>%s", b1_version(), words);
    for (size_t i = 0; i < count && i < 6; i++) {
        b1i_page_title(&runs[i], title, sizeof title);
        b1i_html(html, "%s%s", i ? ", " : ": ", title);
    }
    b1i_text_put(html, "</title>\n<style>\n");
    b1i_text_bytes(html, b1i_report_style_begin, (size_t)(b1i_report_style_end - b1i_report_style_begin));
    b1i_text_put(html, "</style>\n</head>\n<body>\n");
    b1i_svg_marks(html);
    b1i_html(html, "<header>\n<h1>%s</h1>\n", words);
    b1i_text_put(html, "<p class=\"lead\">Every number leads to the file that it is from; every "
                       "directory was verified when this page was made.</p>\n<nav aria-label=\"Runs\"><ol>\n");
    for (size_t i = 0; i < count; i++) {
        b1i_page_title(&runs[i], title, sizeof title);
        b1i_html(html, "<li><a href=\"#run-%d\">%s</a></li>\n", runs[i].number, title);
    }
    if (any_study(runs, count)) b1i_text_put(html, "<li><a href=\"#together\">Together</a></li>\n");
    b1i_text_put(html, "<li><a href=\"#scope\">Scope</a></li>\n<li><a "
                       "href=\"#claims\">Claims</a></li>\n</ol></nav>\n</header>\n<main>\n");
}

/* An experiment of the lab. */
static b1_status put_lab(b1i_page *page, const b1i_report_run *run, const b1i_plots *figures, const char *folder,
                         b1_error *err)
{
    b1_status st;
    if (json_array_size(json_object_get(run->analysis, "traces"))) b1i_text_put(&page->html, "<h3>Timelines</h3>\n");
    B1I_TRY(b1i_page_draw(page, run, figures, true, folder, err));
    b1i_page_traces(page, run);
    b1i_html(&page->html, "<h3 id=\"run-%d-measured\">Measured</h3>\n", run->number);
    B1I_TRY(b1i_page_draw(page, run, figures, false, folder, err));
    b1i_page_believe(page, run);
    b1i_text_put(&page->html, "<h3>Tables</h3>\n");
    for (int kind = 0; kind < b1i_lab_kinds; kind++) {
        b1i_page_cells(page, run, (b1i_lab_kind)kind);
        B1I_TRY(b1i_page_csv(page, run, (b1i_lab_kind)kind, folder, err));
    }
    b1i_page_unmeasured(page, run);
    B1I_TRY(b1i_page_published(page, run, err));
    b1i_page_extras(page, run);
fail:
    return st;
}

static b1_status put_study(b1i_page *page, const b1i_report_run *run, const b1i_plots *figures, const char *folder,
                           b1_error *err)
{
    static const char *const lists[] = {"groups", "cells", "weights", "batch"};
    b1_status st;
    b1i_html(&page->html, "<h3 id=\"run-%d-measured\">Measured</h3>\n", run->number);
    B1I_TRY(b1i_page_draw(page, run, figures, false, folder, err));
    b1i_text_put(&page->html, "<h3>Tables</h3>\n");
    b1i_page_study(page, run);
    b1i_text_put(&page->html, "<p class=\"note\">As CSV:");
    for (int i = 0; i < 4; i++) B1I_TRY(b1i_page_list_csv(page, run, lists[i], folder, err));
    b1i_text_put(&page->html, ".</p>\n");
    b1i_page_steps(page, run);
fail:
    return st;
}

static b1_status put_ab(b1i_page *page, const b1i_report_run *run, const b1i_plots *figures, const char *folder,
                        b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_page_draw(page, run, figures, false, folder, err));
    b1i_page_ab(page, run);
fail:
    return st;
}

static b1_status put_run(b1i_page *page, const b1i_report_run *run, b1_error *err)
{
    static b1_status (*const put[])(b1i_page *, const b1i_report_run *, const b1i_plots *, const char *, b1_error *) = {
        [b1i_report_lab] = put_lab, [b1i_report_study] = put_study, [b1i_report_ab] = put_ab};
    b1_status st;
    b1i_plots figures = {0};
    char folder[4200];
    snprintf(folder, sizeof folder, "%s/run-%d", page->folder, run->number);
    B1I_TRY(b1i_page_folder(folder, err));
    B1I_TRY(b1i_plots_make(run, &figures, err));
    b1i_text_put(&page->html, "<section>\n");
    b1i_page_heading(page, run);
    B1I_TRY(put[run->sort](page, run, &figures, folder, err));
    b1i_page_record(page, run);
    b1i_page_claims_of(page, run);
    b1i_text_put(&page->html, "</section>\n");
fail:
    b1i_plots_free(&figures);
    return st;
}

/* What the studies and A/B runs show together, and the published study beside them. */
static b1_status put_together(b1i_page *page, const b1i_report_run *runs, size_t count, b1_error *err)
{
    b1_status st;
    b1i_plots figures = {0};
    const b1i_report_run all = {.number = 0};
    char folder[4200];
    if (!any_study(runs, count)) return B1_OK;
    snprintf(folder, sizeof folder, "%s/together", page->folder);
    B1I_TRY(b1i_page_folder(folder, err));
    B1I_TRY(b1i_plots_together(runs, count, &figures, err));
    b1i_text_put(&page->html, "<section>\n<h2 id=\"together\">Together</h2>\n");
    B1I_TRY(b1i_page_draw(page, &all, &figures, false, folder, err));
    B1I_TRY(b1i_page_decode(page, runs, count, err));
    b1i_text_put(&page->html, "</section>\n");
fail:
    b1i_plots_free(&figures);
    return st;
}

b1_status b1i_page_body(b1i_page *page, const b1i_report_run *runs, size_t count, b1_error *err)
{
    b1_status st;
    page_head(page, runs, count);
    for (size_t i = 0; i < count; i++) B1I_TRY(put_run(page, &runs[i], err));
    B1I_TRY(put_together(page, runs, count, err));
    b1i_page_scope(page, runs, count);
    b1i_html(&page->html,
             "</main>\n<footer>Made by batchone %s from what the directories hold.</footer>\n</body>\n</html>\n",
             b1_version());
    B1I_TRY(b1i_text_status(&page->claims, err));
    st = b1i_text_status(&page->html, err);
fail:
    return st;
}
