/* SPDX-License-Identifier: MIT
 *
 * The page's end: what these runs are about, what they do not show, and each claim with its evidence.
 */
#include "lab/report/page.h"

#include <math.h>
#include <string.h>

typedef struct workload {
    const char *experiment, *words;
} workload;

static const workload workloads[] = {
    {"pointwise", "a chain of three elementwise operations, and the same arithmetic as one"},
    {"rms-softmax", "an RMS-scaled softmax over rows, as separate operations, fused, and by workers that stay"},
    {"tiles", "597 two-stage jobs with a global intermediate, one block at most on an SM, in several schedules"},
    {"launch", "what it costs to start work, to pass from one piece to the next, and to meet"},
    {"attention", "attention of one decode step, in every way there is, by head shape and context"},
    {"study", "decode steps at exact contexts, by model, weights, executor, context and batch"},
    {"A/B", "two settings of one model, in pairs, each pair in a fresh process"},
    {"ceiling", "reads, writes and copies of working sets from the nearest cache to memory"},
};

static const char *workload_of(const b1i_report_run *run)
{
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (strcmp(workloads[i].experiment, run->experiment) == 0) return workloads[i].words;
    return "a workload of its own";
}

/* ---- claims ---- */

static bool usable(const b1i_report_cell *c) { return c->n > 0 && !c->twin && isfinite(c->median) && c->median > 0; }

/* Same case, size, mode and latency, another family. */
static bool comparable(const b1i_report_cell *a, const b1i_report_cell *b)
{
    return usable(b) && a->kind == b->kind && a->mode == b->mode && strcmp(a->panel, b->panel) == 0 &&
           (a->x == b->x || (isnan(a->x) && isnan(b->x))) && strcmp(a->family, b->family) != 0;
}

/* The ratio of a separate variant to `c`; NaN where there is none. */
static double speedup(const b1i_report_run *run, const b1i_report_cell *c)
{
    for (size_t i = 0; i < run->count; i++)
        if (strcmp(run->cells[i].family, "separate") == 0 && comparable(c, &run->cells[i]))
            return run->cells[i].median / c->median;
    return NAN;
}

/* One claim a family: how it stands to the separate operations in host single, over all sizes, cases and modes. */
static void family_claim(b1i_page *page, const b1i_report_run *run, size_t first)
{
    const char *family = run->cells[first].family;
    double least = INFINITY, most = 0, doubt = b1i_page_doubt(run, b1i_host_single);
    int count = 0, believed = 0;
    for (size_t i = first; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        double ratio =
            usable(c) && c->kind == b1i_host_single && strcmp(c->family, family) == 0 ? speedup(run, c) : NAN;
        if (!isfinite(ratio)) continue;
        least = fmin(least, ratio);
        most = fmax(most, ratio);
        count++;
        believed += isfinite(doubt) && fabs(1 / ratio - 1) > doubt;
    }
    if (count)
        b1i_page_claim(
            page, run, "analysis.json samples.jsonl",
            "Host single of “%s” against “separate” in the same mode and size: %.2f to %.2f times as fast in %d "
            "pairs, of which %d differ by more than A/A did.",
            family, least, most, count, believed);
}

static void family_claims(b1i_page *page, const b1i_report_run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        bool first = usable(&run->cells[i]) && strcmp(run->cells[i].family, "separate") != 0;
        for (size_t k = 0; k < i && first; k++)
            first = !usable(&run->cells[k]) || strcmp(run->cells[k].family, run->cells[i].family) != 0;
        if (first) family_claim(page, run, i);
    }
}

static void bandwidth_claim(b1i_page *page, const b1i_report_run *run)
{
    const b1i_report_cell *best = NULL, *far = NULL;
    if (strcmp(run->experiment, "ceiling") != 0) return;
    for (size_t i = 0; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        if (!usable(c) || !(c->gbps > 0)) continue;
        if (!best || c->gbps > best->gbps) best = c;
        if (!far || c->x > far->x || (c->x == far->x && c->gbps > far->gbps)) far = c;
    }
    if (best)
        b1i_page_claim(
            page, run, "analysis.json samples.jsonl",
            "The fastest cell, %s, moves %.1f GB/s; of the largest working set the fastest, %s, moves %.1f GB/s.",
            best->name, best->gbps, far->name, far->gbps);
}

static void clock_claim(b1i_page *page, const b1i_report_run *run)
{
    double least = INFINITY, most = 0;
    int throttled = 0;
    for (size_t i = 0; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        throttled += c->throttled;
        if (!(c->sm_mhz > 0)) continue;
        least = fmin(least, c->sm_mhz);
        most = fmax(most, c->sm_mhz);
    }
    if (most > 0)
        b1i_page_claim(
            page, run, "samples.jsonl analysis.json device-before.json device-after.json",
            "The SM clock, by a probe during the rounds, was %.0f to %.0f MHz (medians of cells); %d samples are "
            "marked throttled.",
            least, most, throttled);
}

/* Blocks of the tiles on an SM, as the driver's occupancy calculation has it. */
static void residency_claim(b1i_page *page, const b1i_report_run *run)
{
    double most = 0;
    for (size_t i = 0; i < run->count; i++)
        if (run->cells[i].n > 0) most = fmax(most, b1i_report_number(run->cells[i].json, "facts.blocks_per_sm"));
    if (most > 0)
        b1i_page_claim(
            page, run, "plan.json analysis.json",
            "At most %.0f block was resident on an SM, by the driver’s occupancy calculation for the shared memory "
            "that each reserves; in the traces no SM is in two stages at once.",
            most);
}

/* Rounds of processes that ended before they could compare what their invocations left. */
static long long unchecked_rounds(const b1i_report_run *run)
{
    const json_t *list = json_object_get(run->environment, "processes");
    long long rounds = 0;
    for (size_t i = 0; i + 1 < json_array_size(list); i++) {
        const json_t *process = json_array_get(list, i), *next = json_array_get(list, i + 1);
        if (json_is_true(json_object_get(process, "outputs_checked"))) continue;
        rounds += json_integer_value(json_object_get(next, "first_round")) -
                  json_integer_value(json_object_get(process, "first_round"));
    }
    return rounds;
}

static void outcome_claim(b1i_page *page, const b1i_report_run *run)
{
    long long samples = 0;
    int failed = 0, measured = 0;
    for (size_t i = 0; i < run->count; i++) {
        samples += run->cells[i].n;
        measured += run->cells[i].n > 0;
        failed += strcmp(run->cells[i].verdict, "failed") == 0;
    }
    b1i_page_claim(
        page, run, "manifest.json samples.jsonl analysis.json",
        "%lld samples, each counted in one of %d rows; every file has the hash of its manifest, and the analysis "
        "follows from the samples, as verified when this page was made.",
        samples, measured);
    b1i_page_claim(
        page, run, "plan.json analysis.json environment.json",
        "Outputs before and after the rounds were compared with an oracle on the CPU that shares no code with "
        "what was measured; %d rows failed that. Rounds whose process ended before it could compare them after: %lld.",
        failed, unchecked_rounds(run));
}

void b1i_page_claims_of(b1i_page *page, const b1i_report_run *run)
{
    if (run->sort == b1i_report_study) b1i_page_study_claims(page, run);
    if (run->sort == b1i_report_ab) b1i_page_ab_claims(page, run);
    if (run->sort != b1i_report_lab) return;
    outcome_claim(page, run);
    residency_claim(page, run);
    clock_claim(page, run);
    family_claims(page, run);
    bandwidth_claim(page, run);
}

/* ---- scope ---- */

/* What must be said of what is there. */
typedef struct scope {
    bool cpu, gpu; /* devices of the lab's runs */
    bool lab, study;
} scope;

static void scope_list(b1i_page *page, scope s)
{
    static const char *const of_lab[] = {
        "They establish what these workloads did on these devices, with these versions, once. They are no universal "
        "launch "
        "constants: another driver, device or host has others.",
        "They are no general verdict on persistent kernels: the queue has a simple scheduler and a limit of its own on "
        "what is "
        "resident.",
        "They say nothing of a language model’s speed; “batchone bench” measures that.",
        "The three latencies are different things; none is an isolated kernel’s duration.",
        "In timelines bars are recorded intervals, not utilisation, and gaps are no measured causes.",
        "Logical bytes are what arithmetic needs, not what memory moved. Counters of stores can miss dirty lines that "
        "are "
        "written back later, and cold replay proves no DRAM ratio for a warm loop.",
        "Fixtures with different totals of work (balanced and ragged) cannot show the cost of imbalance; only those "
        "with equal "
        "totals can be compared for it.",
    };
    static const char *const of_study[] = {
        "A step is a step at exactly its context, with keys and values that are filler: no text is generated, and what "
        "sampling, tokenizing and a server add is not in it.",
        "They hold for these models, formats, devices and versions; another driver or host launches at another speed.",
        "A cell says how long a step takes, not why. Only a pair of settings that differ in one thing, in fresh "
        "processes, says what that thing costs, and one session makes no headline.",
        "A difference between a stream and a graph of the same kernels bounds the launch tax from above: a graph "
        "leaves "
        "out more than launches.",
        "R_floor divides by the datasheet’s bandwidth, which no kernel reaches; R_ceiling by what was measured at that "
        "moment. Sums of bytes differ between studies, and ratios by different sums do not compare.",
        "Profiled times are no latencies, and utilisation is an order, no share.",
        "Published figures are of other devices, stacks and rigs; what stands beside each other was not measured "
        "together.",
    };
    b1i_text_put(&page->html, "<p>What these measurements do not show:</p>\n<ul>\n");
    for (size_t i = 0; s.lab && i < sizeof of_lab / sizeof *of_lab; i++)
        b1i_html(&page->html, "<li>%s</li>\n", of_lab[i]);
    for (size_t i = 0; s.study && i < sizeof of_study / sizeof *of_study; i++)
        b1i_html(&page->html, "<li>%s</li>\n", of_study[i]);
    if (s.cpu)
        b1i_text_put(&page->html,
                     "<li>On the CPU a dispatch of a thread pool stands for a launch and a prebuilt plan for a graph: "
                     "such a run says how the lab works, and nothing about a GPU.</li>\n");
    if (s.gpu) b1i_text_put(&page->html, "<li>One GPU was used at a time; nothing here is about several.</li>\n");
    b1i_text_put(&page->html, "</ul>\n");
}

void b1i_page_scope(b1i_page *page, const b1i_report_run *runs, size_t count)
{
    scope s = {false, false, false, false};
    char title[200];
    b1i_text_put(&page->html, "<section>\n<h2 id=\"scope\">Scope</h2>\n<ul>\n");
    for (size_t i = 0; i < count; i++) {
        const bool is_cpu = strcmp(runs[i].device, "cpu") == 0, lab = runs[i].sort == b1i_report_lab;
        s.lab |= lab;
        s.study |= !lab;
        s.cpu |= lab && is_cpu;
        s.gpu |= !is_cpu;
        b1i_page_title(&runs[i], title, sizeof title);
        b1i_html(&page->html, "<li><a href=\"#run-%d\">%s</a> on %s: %s.</li>\n", runs[i].number, title,
                 b1i_report_run_device(&runs[i]), workload_of(&runs[i]));
    }
    b1i_text_put(&page->html, "</ul>\n");
    scope_list(page, s);
    b1i_text_put(&page->html, "<h3 id=\"claims\">Claims and their evidence</h3>\n");
    b1i_page_table(page, "Claims:", "each with the files that it follows from.");
    b1i_text_put(&page->html,
                 "<thead><tr><th scope=\"col\">run</th><th scope=\"col\">claim</th><th scope=\"col\">evidence</th>"
                 "</tr></thead><tbody class=\"claims\">\n");
    b1i_text_bytes(&page->html, b1i_text_get(&page->claims), page->claims.count);
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
    b1i_text_put(&page->html, "</section>\n");
}
