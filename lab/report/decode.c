/* SPDX-License-Identifier: MIT
 *
 * The published decode study, data/published/decode.json, beside ours: rows that are of the same model, weights,
 * context, batch and way of launching, with the sum of bytes that each counts; then every row, with statistic, rig and
 * place.
 */
#include "lab/report/page.h"
#include "lab/work.h"

#include <math.h>
#include <string.h>

extern const char b1i_published_decode_begin[], b1i_published_decode_end[];
__asm__(".pushsection .rodata\n"
        ".global b1i_published_decode_begin\n.global b1i_published_decode_end\n"
        "b1i_published_decode_begin:\n.incbin \"" B1I_PUBLISHED "/decode.json\"\n"
        "b1i_published_decode_end:\n.byte 0\n.popsection\n");

b1_status b1i_published_decode(json_t **out, b1_error *err)
{
    const char *begin = b1i_published_decode_begin;
    if ((*out = json_loadb(begin, (size_t)(b1i_published_decode_end - begin), 0, NULL))) return B1_OK;
    return b1i_fail(err, B1_MEMORY, "not enough memory for the published study");
}

/* The entry of a list of the document that has the name; NULL: none. */
static const json_t *named(const json_t *document, const char *list, const char *name)
{
    const json_t *entries = json_object_get(document, list), *entry;
    size_t i;
    json_array_foreach(entries, i, entry) if (b1i_report_is(entry, "name", name)) return entry;
    return NULL;
}

/* ---- which of ours correspond ---- */

bool b1i_decode_launch(const char *executor, const char *launch)
{
    const bool stack = strncmp(executor, "stack:", 6) == 0, eager = strcmp(launch, "eager") == 0;
    if (!launch[0]) return true;
    if (stack) return strstr(executor, eager ? "eager" : "graph") != NULL;
    if (eager) return strstr(executor, "_stream") != NULL;
    return strstr(executor, "_graph") != NULL || strstr(executor, "_pdl") != NULL;
}

static bool corresponds(const b1i_report_group *g, const json_t *row)
{
    return g->t_obs_ms > 0 && b1i_report_is(row, "model", g->model) &&
           b1i_report_number(row, "context") == g->context && b1i_report_number(row, "batch") == g->batch &&
           b1i_report_is(row, "weights", g->weights) && b1i_decode_launch(g->executor, b1i_report_word(row, "launch"));
}

static bool has_model(const json_t *document, const char *model)
{
    const json_t *rows = json_object_get(document, "rows"), *row;
    size_t i;
    json_array_foreach(rows, i, row) if (model[0] && b1i_report_is(row, "model", model)) return true;
    return false;
}

bool b1i_decode_any(const json_t *document, const b1i_report_run *runs, size_t count)
{
    for (size_t r = 0; r < count; r++) {
        if (runs[r].sort == b1i_report_ab && has_model(document, b1i_report_word(runs[r].analysis, "model")))
            return true;
        for (size_t i = 0; i < runs[r].group_count; i++)
            if (has_model(document, runs[r].groups[i].model)) return true;
    }
    return false;
}

/* What the group has of the row's quantity; NaN: nothing. */
static double ours(const b1i_report_group *g, const json_t *row)
{
    static const struct {
        const char *quantity, *key;
    } profiles[] = {{"profiled step", "profiled_ms"},
                    {"distortion", "distortion"},
                    {"utilisation", "utilisation"},
                    {"host over kernels", "host_over_kernel"}};
    if (b1i_report_is(row, "quantity", "step")) return g->t_obs_ms;
    if (b1i_report_is(row, "quantity", "R_floor")) return g->r_floor;
    if (b1i_report_is(row, "quantity", "floor")) return (g->weight_bytes + g->kv_bytes) / g->peak_gbps / 1e6;
    if (b1i_report_is(row, "quantity", "bytes of a step")) return (g->weight_bytes + g->kv_bytes) / 1e9;
    if (b1i_report_is(row, "quantity", "CV within")) return g->cv_within;
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        if (b1i_report_is(row, "quantity", profiles[i].quantity)) return b1i_report_number(g->profile, profiles[i].key);
    return NAN;
}

/* One group stands for what has no launch: its first. */
static bool told(const b1i_report_run *run, size_t i, const json_t *row)
{
    if (b1i_report_word(row, "launch")[0]) return false;
    for (size_t k = 0; k < i; k++)
        if (corresponds(&run->groups[k], row)) return true;
    return false;
}

/* R_floor by the bytes that the row counts. */
static double by_their_bytes(const json_t *document, const b1i_report_group *g, const json_t *row)
{
    const json_t *sum = named(document, "sums", b1i_report_word(row, "bytes"));
    if (!b1i_report_is(row, "quantity", "R_floor") && !b1i_report_is(row, "quantity", "utilisation")) return NAN;
    return b1i_report_number(sum, "bytes") / g->peak_gbps / 1e6 / g->t_obs_ms;
}

/* ---- the rows beside ours ---- */

static const char *const heads[] = {"figure",         "published", "there",       "its bytes",
                                    "here",           "executor",  "device here", "here by their bytes",
                                    "bytes here, GB", NULL};
static const bool numbers[] = {false, true, false, false, true, false, false, true, true};

static void figure_name(const json_t *row, char *name, size_t bytes)
{
    int used = snprintf(name, bytes, "%s", b1i_report_word(row, "quantity"));
    const char *const keys[] = {"launch", "backend", "weights"};
    for (int i = 0; i < 3 && used > 0 && (size_t)used < bytes; i++)
        if (b1i_report_word(row, keys[i])[0])
            used += snprintf(name + used, bytes - (size_t)used, ", %s", b1i_report_word(row, keys[i]));
    double context = b1i_report_number(row, "context"), batch = b1i_report_number(row, "batch");
    if (context > 0 && used > 0 && (size_t)used < bytes)
        used += snprintf(name + used, bytes - (size_t)used, ", context %.0f", context);
    if (batch > 1 && used > 0 && (size_t)used < bytes)
        snprintf(name + used, bytes - (size_t)used, ", batch %.0f", batch);
}

static void theirs(b1i_page *page, const json_t *row, size_t index)
{
    const json_t *value = json_object_get(row, "value"), *interval = json_object_get(row, "interval");
    b1i_text_printf(&page->html, "<td class=\"n\"><a href=\"#decode-%zu\" tabindex=\"-1\">", index);
    for (size_t i = 0; i < json_array_size(value); i++) {
        b1i_text_put(&page->html, i ? " – " : "");
        b1i_page_value(&page->html, json_array_get(value, i));
    }
    if (!json_is_array(value)) b1i_page_value(&page->html, value);
    if (json_array_size(interval) == 2) {
        b1i_text_put(&page->html, " [");
        b1i_page_value(&page->html, json_array_get(interval, 0));
        b1i_text_put(&page->html, ", ");
        b1i_page_value(&page->html, json_array_get(interval, 1));
        b1i_text_put(&page->html, "]");
    }
    b1i_html(&page->html, " %s</a></td>", b1i_report_word(row, "unit"));
}

typedef struct beside {
    b1i_page *page;
    const json_t *document;
    int rows;
} beside;

static void row_begins(beside *b, const b1i_report_run *run, const char *file, const json_t *row, size_t index)
{
    char name[160];
    const json_t *sum = named(b->document, "sums", b1i_report_word(row, "bytes"));
    if (!b->rows++) {
        b1i_page_table(b->page, "Beside the published study:",
                       "same model, weights, context, batch and way of launching; other devices, stacks and rigs. "
                       "Ratios of bytes to time differ by what they count, so ours stand by their bytes too.");
        b1i_page_columns(b->page, heads, numbers);
    }
    figure_name(row, name, sizeof name);
    b1i_page_row(b->page, run, file, name);
    theirs(b->page, row, index);
    b1i_html(&b->page->html, "<td>%s</td><td class=\"words\">%s</td>", b1i_report_word(row, "device"),
             sum ? b1i_report_word(sum, "words") : "–");
}

static void put_group(beside *b, const b1i_report_run *run, const b1i_report_group *g, const json_t *row, size_t index)
{
    const char *file = "analysis.json";
    double value = ours(g, row), bytes = (g->weight_bytes + g->kv_bytes) / 1e9;
    row_begins(b, run, file, row, index);
    b1i_page_number(b->page, run, file, value, 3);
    b1i_html(&b->page->html, "<td>%s</td><td>%s</td>", g->executor, b1i_report_run_device(run));
    b1i_page_number(b->page, run, g->file, by_their_bytes(b->document, g, row), 3);
    b1i_page_number(b->page, run, g->file, bytes, 2);
    b1i_text_put(&b->page->html, "</tr>\n");
}

/* An A/B of a stream against a graph, or of a stack's two ways, is of a row of speed-ups. */
static bool ab_corresponds(const b1i_report_run *run, const json_t *row)
{
    const char *a = b1i_report_word(run->analysis, "a"), *b = b1i_report_word(run->analysis, "b");
    double batch = b1i_report_number(run->plan, "a.batch");
    return run->sort == b1i_report_ab && b1i_report_is(row, "model", b1i_report_word(run->analysis, "model")) &&
           b1i_report_number(row, "context") == b1i_report_number(run->analysis, "context") &&
           b1i_report_number(row, "batch") == (isfinite(batch) ? batch : 1) &&
           (strstr(a, "stream") || strstr(a, "eager")) && (strstr(b, "graph") || strstr(b, "pdl"));
}

static void put_ab(beside *b, const b1i_report_run *run, const json_t *row, size_t index)
{
    const bool speedup = b1i_report_is(row, "quantity", "speedup");
    double value = b1i_report_number(run->analysis, speedup ? "speedup" : "difference_ms");
    char words[300];
    row_begins(b, run, "analysis.json", row, index);
    b1i_page_number(b->page, run, "analysis.json", value, 3);
    b1i_ab_difference(run, words, sizeof words);
    b1i_page_words(b->page, words);
    b1i_html(&b->page->html, "<td>%s</td><td></td><td></td></tr>\n", b1i_report_run_device(run));
}

/* Throughput of a batch. */
static void put_batches(beside *b, const b1i_report_run *run, const json_t *row, size_t index)
{
    static const char *const keys[] = {"model", "weights", "context", "batch"};
    const json_t *list = json_object_get(run->analysis, "batch"), *ours_row;
    size_t i;
    json_array_foreach(list, i, ours_row)
    {
        bool same = b1i_decode_launch(b1i_report_word(ours_row, "executor"), b1i_report_word(row, "launch"));
        for (int k = 0; k < 4; k++)
            same &= json_equal(json_object_get(row, keys[k]), json_object_get(ours_row, keys[k]));
        if (!same) continue;
        row_begins(b, run, "analysis.json", row, index);
        b1i_page_number(b->page, run, "analysis.json", b1i_report_number(ours_row, "throughput"), 2);
        b1i_html(&b->page->html, "<td>%s</td><td>%s</td><td></td><td></td></tr>\n",
                 b1i_report_word(ours_row, "executor"), b1i_report_run_device(run));
    }
}

static void put_row(beside *b, const b1i_report_run *runs, size_t count, const json_t *row, size_t index)
{
    const bool ab = b1i_report_is(row, "quantity", "speedup") || b1i_report_is(row, "quantity", "difference");
    for (size_t r = 0; r < count; r++) {
        const b1i_report_run *run = &runs[r];
        if (ab && ab_corresponds(run, row)) put_ab(b, run, row, index);
        if (b1i_report_is(row, "quantity", "throughput")) put_batches(b, run, row, index);
        for (size_t i = 0; i < run->group_count; i++)
            if (corresponds(&run->groups[i], row) && !told(run, i, row) && isfinite(ours(&run->groups[i], row)))
                put_group(b, run, &run->groups[i], row, index);
    }
}

/* ---- every row ---- */

static void all_rows(b1i_page *page, const json_t *document)
{
    static const char *const columns[] = {"figure",   "value", "device",    "model",   "statistic", "rig",
                                          "sessions", "stack", "its bytes", "section", "note",      NULL};
    static const bool right[] = {false, true, false, false, false, false, true, false, false, false, false};
    const json_t *rows = json_object_get(document, "rows"), *row;
    size_t i;
    b1i_text_put(&page->html, "<details><summary>Every figure that it published</summary>\n");
    b1i_page_table(page, "Published:", "with statistic, rig, sessions, stack, bytes and section of the paper.");
    b1i_page_columns(page, columns, right);
    json_array_foreach(rows, i, row)
    {
        const json_t *rig = named(document, "rigs", b1i_report_word(row, "rig")),
                     *sum = named(document, "sums", b1i_report_word(row, "bytes"));
        char name[160];
        figure_name(row, name, sizeof name);
        b1i_text_printf(&page->html, "<tr id=\"decode-%zu\">", i);
        b1i_html(&page->html, "<th scope=\"row\">%s</th>", name);
        theirs(page, row, i);
        b1i_html(&page->html, "<td>%s</td><td>%s</td>", b1i_report_word(row, "device"), b1i_report_word(row, "model"));
        b1i_page_words(page, b1i_report_word(row, "statistic"));
        b1i_page_words(page, b1i_report_word(rig, "words"));
        b1i_text_put(&page->html, "<td class=\"n\">");
        b1i_page_value(&page->html, json_object_get(row, "sessions"));
        b1i_text_put(&page->html, "</td>");
        b1i_page_words(page, b1i_report_word(rig, "stack"));
        b1i_page_words(page, b1i_report_word(sum, "words"));
        b1i_html(&page->html, "<td>%s</td>", b1i_report_word(row, "where"));
        b1i_page_words(page, b1i_report_word(row, "note"));
        b1i_text_put(&page->html, "</tr>\n");
    }
    b1i_page_body_end(page);
    b1i_text_put(&page->html, "</details>\n");
}

b1_status b1i_page_decode(b1i_page *page, const b1i_report_run *runs, size_t count, b1_error *err)
{
    json_t *document, *rows, *row;
    size_t i;
    b1_status st = b1i_published_decode(&document, err);
    if (st != B1_OK) return st;
    rows = json_object_get(document, "rows");
    beside b = {page, document, 0};
    if (!b1i_decode_any(document, runs, count)) {
        b1i_text_put(&page->html,
                     "<p id=\"published-study\">Nothing here is of a model that the published study "
                     "measured, so its figures do not stand beside ours; data/published/decode.json of the "
                     "source has them.</p>\n");
        json_decref(document);
        return B1_OK;
    }
    b1i_html(&page->html,
             "<h3 id=\"published-study\">Beside the published study</h3>\n<div class=\"source\"><p>%s. %s</p></div>\n",
             b1i_report_word(document, "source"), b1i_report_word(document, "note"));
    json_array_foreach(rows, i, row) put_row(&b, runs, count, row, i);
    if (b.rows)
        b1i_page_body_end(page);
    else
        b1i_text_put(&page->html, "<p>Nothing here is of a model, format and context that it measured, so none of ours "
                                  "stands beside its figures.</p>\n");
    all_rows(page, document);
    json_decref(document);
    return B1_OK;
}

/* ---- attention ---- */

void b1i_page_decode_attention(b1i_page *page, const b1i_report_run *run, const json_t *document)
{
    static const char *const columns[] = {"backend or variant", "where", "µs a layer", "what is timed", NULL};
    static const bool right[] = {false, false, true, false};
    const json_t *rows = json_object_get(document, "rows"), *row;
    size_t i;
    b1i_page_table(page, "Attention of a layer, beside the published:",
                   "Llama-3-8B’s shape at context 2048, bf16; theirs on an H100 by PyTorch 2.8, whether by the host’s "
                   "clock is not said.");
    b1i_page_columns(page, columns, right);
    json_array_foreach(rows, i, row)
    {
        if (!b1i_report_is(row, "quantity", "attention")) continue;
        b1i_html(&page->html, "<tr><th scope=\"row\">%s</th><td>published, %s</td>", b1i_report_word(row, "backend"),
                 b1i_report_word(row, "device"));
        if (json_is_number(json_object_get(row, "value")))
            b1i_text_printf(&page->html, "<td class=\"n\">%.2f</td>", b1i_report_number(row, "value"));
        else
            b1i_text_put(&page->html, "<td class=\"n none\">–</td>");
        b1i_page_words(page, b1i_report_word(row, "statistic"));
        b1i_text_put(&page->html, "</tr>\n");
    }
    for (i = 0; i < run->count; i++) {
        const b1i_report_cell *c = &run->cells[i];
        double layers = b1i_report_number(c->json, "facts.layers");
        const bool host = c->mode == b1i_lab_stream;
        const char *shape = b1i_report_string(c->json, "facts.shape");
        if (c->n == 0 || c->twin || c->x != 2048 || !shape || strcmp(shape, "llama-3-8b") != 0 || !(layers > 0))
            continue;
        if (c->kind != (host ? b1i_host_single : b1i_device_interval)) continue;
        b1i_page_row(page, run, "analysis.json", c->variant);
        b1i_html(&page->html, "<td>%s</td>", b1i_report_run_device(run));
        b1i_page_number(page, run, "analysis.json", c->median / 1e3 / layers, 2);
        b1i_page_words(page,
                       host ? "one layer, submission to completion" : "a layer of a graph of several, on the device");
        b1i_text_put(&page->html, "</tr>\n");
    }
    b1i_page_body_end(page);
}
