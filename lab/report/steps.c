/* SPDX-License-Identifier: MIT
 *
 * What cells of a study hold beside their median: the profile of a step, with its kernels; jitter, with outliers and
 * what the machine did at them; energy.
 */
#include "lab/report/page.h"

#include <math.h>
#include <string.h>

enum { KERNELS_MOST = 40 };

static void group_name(const b1i_report_group *g, char *name, size_t bytes)
{
    snprintf(name, bytes, "%.60s, %.20s, %.40s, context %d, batch %d", g->model, g->weights, g->executor, g->context,
             g->batch);
}

static void file_of(const b1i_report_group *g, const char *file, char *name, size_t bytes)
{
    snprintf(name, bytes, "%s%s", g->folder, file);
}

/* ---- profile ---- */

static void profile_row(b1i_page *page, const b1i_report_run *run, const b1i_report_group *g)
{
    static const struct {
        const char *key;
        int decimals;
    } columns[] = {{"kernels_per_step", 0},
                   {"kernels_per_layer.min", 1},
                   {"kernels_per_layer.max", 1},
                   {"outside", 0},
                   {"kernel_ms", 3},
                   {"gap_ms", 3},
                   {"overlap_ms", 3},
                   {"launch_ms", 3},
                   {"sync_ms", 3},
                   {"host_over_kernel", 2},
                   {"unprofiled_ms", 3},
                   {"profiled_ms", 3},
                   {"distortion", 2},
                   {"utilisation", 3}};
    char name[260], file[160];
    group_name(g, name, sizeof name);
    file_of(g, "profile.json", file, sizeof file);
    b1i_page_row(page, run, file, name);
    b1i_html(&page->html, "<td>%s</td>", b1i_report_word(g->profile, "by"));
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        b1i_page_number(page, run, file, b1i_report_number(g->profile, columns[i].key), columns[i].decimals);
    b1i_page_words(page, b1i_report_word(g->profile, "message"));
    b1i_text_put(&page->html, "</tr>\n");
}

static void kernels(b1i_page *page, const b1i_report_run *run, const b1i_report_group *g)
{
    static const char *const heads[] = {"kernel", "times a step", "median, µs", "a step, µs", "of the layers", NULL};
    static const bool numbers[] = {false, true, true, true, false};
    const json_t *list = json_object_get(g->profile, "kernels"), *kernel;
    char name[260], file[160];
    size_t i;
    if (json_array_size(list) == 0) return;
    group_name(g, name, sizeof name);
    file_of(g, "profile.json", file, sizeof file);
    b1i_html(&page->html, "<details><summary>Kernels of %s</summary>\n", name);
    b1i_page_table(page, "Kernels:", "as the profiler names them.");
    b1i_page_columns(page, heads, numbers);
    json_array_foreach(list, i, kernel)
    {
        if (i == KERNELS_MOST) break;
        b1i_text_put(&page->html, "<tr><th scope=\"row\" class=\"words\">");
        b1i_page_link(page, run, file, b1i_report_word(kernel, "name"));
        b1i_text_put(&page->html, "</th>");
        b1i_page_number(page, run, file, b1i_report_number(kernel, "count"), 0);
        b1i_page_number(page, run, file, b1i_report_number(kernel, "ns") / 1e3, 3);
        b1i_page_number(page, run, file, b1i_report_number(kernel, "total_ns") / 1e3, 2);
        b1i_html(&page->html, "<td>%s</td></tr>\n",
                 json_is_true(json_object_get(kernel, "layer"))    ? "yes"
                 : json_is_false(json_object_get(kernel, "layer")) ? "no"
                                                                   : "–");
    }
    b1i_page_body_end(page);
    b1i_text_put(&page->html, "</details>\n");
}

static void profiles(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"cell",
                                        "by",
                                        "kernels a step",
                                        "a layer, least",
                                        "a layer, most",
                                        "of no layer",
                                        "kernels, ms",
                                        "gaps, ms",
                                        "at once, ms",
                                        "launch calls, ms",
                                        "waiting calls, ms",
                                        "host over kernels",
                                        "step without, ms",
                                        "step with, ms",
                                        "distortion",
                                        "utilisation",
                                        "message",
                                        NULL};
    static const bool numbers[] = {false, false, true, true, true, true, true, true, true,
                                   true,  true,  true, true, true, true, true, false};
    bool any = false;
    for (size_t i = 0; i < run->group_count; i++) {
        if (!run->groups[i].profile) continue;
        if (!any) {
            b1i_html(&page->html, "<h3 id=\"run-%d-profile\">Profile of a step</h3>\n", run->number);
            b1i_page_table(page, "Profiles:", "a pass of its own after the timing, in the first session of each.");
            b1i_page_columns(page, heads, numbers);
        }
        any = true;
        profile_row(page, run, &run->groups[i]);
    }
    if (!any) return;
    b1i_page_body_end(page);
    b1i_text_put(&page->html,
                 "<p class=\"note\">A profiler changes what it shows: “distortion” is the step with it over the step "
                 "without, in one process. Host calls are timed under the profiler, so their ratio to kernels is too. "
                 "Utilisation is bytes over the unprofiled step over the datasheet’s bandwidth, and says an order of "
                 "devices or executors, no absolute share.</p>\n");
    for (size_t i = 0; i < run->group_count; i++) kernels(page, run, &run->groups[i]);
}

/* ---- jitter ---- */

static const json_t *jitter_of(const b1i_report_group *g)
{
    const json_t *jitter = json_object_get(g->cell, "jitter");
    return json_is_object(jitter) ? jitter : NULL;
}

static void jitter_row(b1i_page *page, const b1i_report_run *run, const b1i_report_group *g)
{
    static const struct {
        const char *key;
        int decimals;
    } columns[] = {{"steps", 0},          {"p50_ms", 3},           {"p99_ms", 3}, {"p999_ms", 3},
                   {"max_ms", 3},         {"deadline_ms", 3},      {"missed", 0}, {"missed_in_a_row", 0},
                   {"outliers.steps", 0}, {"outliers.switched", 0}};
    char name[260];
    group_name(g, name, sizeof name);
    b1i_page_row(page, run, g->file, name);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        b1i_page_number(page, run, g->file, b1i_report_number(jitter_of(g), columns[i].key), columns[i].decimals);
    b1i_text_put(&page->html, "</tr>\n");
}

/* A document of the machine's moment on one line. */
static void moment(b1i_page *page, const json_t *machine)
{
    const char *key;
    json_t *value;
    bool any = false;
    b1i_text_put(&page->html, "<td class=\"words\">");
    json_object_foreach((json_t *)(uintptr_t)machine, key, value)
    {
        if (json_is_null(value) || json_is_object(value)) continue;
        const char *name = strcmp(key, "cpu") == 0         ? "on CPU"
                           : strcmp(key, "throttled") == 0 ? "times throttled:"
                                                           : key;
        b1i_html(&page->html, "%s%s ", any ? ", " : "", name);
        any = true;
        for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
            b1i_text_put(&page->html, i ? " " : "");
            b1i_page_value(&page->html, json_array_get(value, i));
        }
        if (json_is_array(value) && json_array_size(value) == 0) b1i_text_put(&page->html, "none");
        if (!json_is_array(value)) b1i_page_value(&page->html, value);
    }
    b1i_text_put(&page->html, any ? "</td>" : "not read</td>");
}

static void outliers(b1i_page *page, const b1i_report_run *run, const b1i_report_group *g)
{
    static const char *const heads[] = {
        "step", "ms", "past the deadline", "thread left its CPU, by itself", "was taken off it", "the machine", NULL};
    static const bool numbers[] = {true, true, false, true, true, false};
    const json_t *list = b1i_report_at(jitter_of(g), "outliers.worst"), *step;
    const bool due = isfinite(b1i_report_number(jitter_of(g), "deadline_ms"));
    char name[260], words[24];
    size_t i;
    if (json_array_size(list) == 0) return;
    group_name(g, name, sizeof name);
    b1i_html(&page->html, "<details><summary>The worst steps of %s</summary>\n", name);
    b1i_page_table(page, "Worst steps:", "with what the system says of that moment.");
    b1i_page_columns(page, heads, numbers);
    json_array_foreach(list, i, step)
    {
        const json_t *switches = b1i_report_at(step, "switches.thread");
        snprintf(words, sizeof words, "%.0f", b1i_report_number(step, "step"));
        b1i_page_row(page, run, g->file, words);
        b1i_page_number(page, run, g->file, b1i_report_number(step, "ms"), 3);
        b1i_html(&page->html, "<td>%s</td>", !due ? "–" : json_is_true(json_object_get(step, "late")) ? "yes" : "no");
        for (size_t k = 0; k < 2; k++) {
            const json_t *n = json_array_get(switches, k);
            b1i_page_number(page, run, g->file, json_is_number(n) ? json_number_value(n) : NAN, 0);
        }
        moment(page, json_object_get(step, "machine"));
        b1i_text_put(&page->html, "</tr>\n");
    }
    b1i_page_body_end(page);
    b1i_text_put(&page->html, "</details>\n");
}

static void jitters(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"cell",
                                        "steps",
                                        "p50, ms",
                                        "p99, ms",
                                        "p99.9, ms",
                                        "worst, ms",
                                        "deadline, ms",
                                        "missed",
                                        "missed in a row",
                                        "outliers",
                                        "of them with a switch",
                                        NULL};
    static const bool numbers[] = {false, true, true, true, true, true, true, true, true, true, true};
    bool any = false;
    for (size_t i = 0; i < run->group_count; i++) {
        if (!jitter_of(&run->groups[i])) continue;
        if (!any) {
            b1i_html(&page->html, "<h3 id=\"run-%d-jitter\">Jitter</h3>\n", run->number);
            b1i_page_table(page, "Jitter:",
                           "of steps that follow one another with nothing between them, in the first session of each.");
            b1i_page_columns(page, heads, numbers);
        }
        any = true;
        jitter_row(page, run, &run->groups[i]);
    }
    if (!any) return;
    b1i_page_body_end(page);
    for (size_t i = 0; i < run->group_count; i++) outliers(page, run, &run->groups[i]);
}

/* ---- energy ---- */

static void energies(b1i_page *page, const b1i_report_run *run)
{
    static const char *const heads[] = {"cell", "J a token", "tokens", "counter", NULL};
    static const bool numbers[] = {false, true, true, false};
    bool any = false;
    for (size_t i = 0; i < run->group_count; i++) {
        const b1i_report_group *g = &run->groups[i];
        const json_t *energy = json_object_get(g->cell, "energy");
        char name[260];
        if (!isfinite(b1i_report_number(energy, "joules_per_token"))) continue;
        if (!any) {
            b1i_page_table(page, "Energy:",
                           "by the device's own counters, over a run that is long enough for them; nothing is "
                           "estimated.");
            b1i_page_columns(page, heads, numbers);
        }
        any = true;
        group_name(g, name, sizeof name);
        b1i_page_row(page, run, g->file, name);
        b1i_page_number(page, run, g->file, b1i_report_number(energy, "joules_per_token"), 4);
        b1i_page_number(page, run, g->file, b1i_report_number(energy, "tokens"), 0);
        b1i_page_words(page, b1i_report_word(energy, "source"));
        b1i_text_put(&page->html, "</tr>\n");
    }
    if (any) b1i_page_body_end(page);
}

void b1i_page_steps(b1i_page *page, const b1i_report_run *run)
{
    profiles(page, run);
    jitters(page, run);
    energies(page, run);
}
