/* SPDX-License-Identifier: MIT
 *
 * What a run is: its heading with device, date and version, the device before and after, the commands that it ran, and
 * every file of its manifest.
 */
#include "lab/report/page.h"

#include <math.h>
#include <string.h>

/* ---- heading ---- */

/* The first of `paths` (NULL ends them) that the document has as a string. */
static const char *first_of(const json_t *document, const char *const *paths)
{
    const char *found = NULL;
    for (int i = 0; paths[i] && !found; i++) found = b1i_report_string(document, paths[i]);
    return found;
}

const char *b1i_page_date(const b1i_report_run *run)
{
    static const char *const paths[] = {"date", "started", "began", "machine.date", NULL};
    const char *date = first_of(run->environment, paths);
    return date ? date : "unknown";
}

static void fact(b1i_page *page, const b1i_report_run *run, const char *name, const char *file, const char *words)
{
    b1i_html(&page->html, "<div><dt>%s</dt><dd>", name);
    b1i_page_link(page, run, file, words);
    b1i_text_put(&page->html, "</dd></div>\n");
}

static void count_cells(const b1i_report_run *run, char *words, size_t bytes)
{
    static const char *const verdicts[] = {"ok",          "noisy",         "drifting", "throttled",
                                           "unsupported", "out_of_memory", "failed",   NULL};
    words[0] = 0;
    for (int v = 0; verdicts[v]; v++) {
        int count = 0;
        size_t used = strlen(words);
        for (size_t i = 0; i < run->count; i++) count += strcmp(run->cells[i].verdict, verdicts[v]) == 0;
        if (count) snprintf(words + used, bytes - used, "%s%d %s", used ? ", " : "", count, verdicts[v]);
    }
}

static long long samples_of(const b1i_report_run *run)
{
    long long n = 0;
    for (size_t i = 0; i < run->count; i++) n += run->cells[i].n;
    return n;
}

/* What an experiment has; what a study and an A/B have. */
static void lab_facts(b1i_page *page, const b1i_report_run *run)
{
    char words[200];
    snprintf(words, sizeof words, "%lld in %lld rounds", samples_of(run),
             (long long)json_integer_value(json_object_get(run->analysis, "rounds")));
    fact(page, run, "samples", "samples.jsonl", words);
    count_cells(run, words, sizeof words);
    fact(page, run, "rows by verdict", "analysis.json", words);
}

static void study_facts(b1i_page *page, const b1i_report_run *run)
{
    const json_t *list = json_object_get(run->analysis, "cells"), *cell;
    char words[200];
    size_t i;
    int ok = 0;
    if (run->sort == b1i_report_ab) {
        snprintf(words, sizeof words, "%.0f", b1i_report_number(run->analysis, "sessions"));
        fact(page, run, "sessions", "analysis.json", words);
        fact(page, run, "verdict", "analysis.json", b1i_report_string(run->analysis, "verdict"));
        return;
    }
    json_array_foreach(list, i, cell)
    {
        const char *status = b1i_report_string(cell, "status");
        ok += status && strcmp(status, "ok") == 0;
    }
    snprintf(words, sizeof words, "%zu, %d with figures", json_array_size(list), ok);
    fact(page, run, "cells", "analysis.json", words);
}

void b1i_page_title(const b1i_report_run *run, char *words, size_t bytes)
{
    const bool same = strcmp(run->experiment, run->name) == 0;
    snprintf(words, bytes, "%s%s%s", run->experiment, same ? "" : " ", same ? "" : run->name);
}

void b1i_page_heading(b1i_page *page, const b1i_report_run *run)
{
    static const char *const versions[] = {"version", "machine.version", NULL};
    static const char *const commits[] = {"commit", "binary_sha256", "binary.sha256", "executable_sha256", NULL};
    char words[200];
    const char *version = first_of(run->environment, versions), *commit = first_of(run->environment, commits);
    const char *id = b1i_report_string(run->analysis, "run");
    if (!commit) commit = b1i_report_string(run->plan, "binary_sha256");
    b1i_page_title(run, words, sizeof words);
    b1i_html(&page->html, "<h2 id=\"run-%d\">%s <span>on %s</span></h2>\n<dl class=\"facts\">\n", run->number, words,
             b1i_report_run_device(run));
    fact(page, run, "device", "environment.json", b1i_report_run_device(run));
    fact(page, run, "date", "environment.json", b1i_page_date(run));
    snprintf(words, sizeof words, "batchone %s", version ? version : "of unknown version");
    fact(page, run, "version", "environment.json", words);
    if (commit) {
        snprintf(words, sizeof words, "%.12s", commit);
        fact(page, run, strlen(commit) == 64 ? "binary, SHA-256" : "commit", "environment.json", words);
    }
    if (id) fact(page, run, "run", "plan.json", id);
    (run->sort == b1i_report_lab ? lab_facts : study_facts)(page, run);
    if (json_is_true(json_object_get(run->plan, "quick"))) fact(page, run, "sizes", "plan.json", "small (--quick)");
    fact(page, run, "evidence", "manifest.json", run->name);
    b1i_text_put(&page->html, "</dl>\n");
}

/* ---- the device before and after ---- */

/* Values inside one another as words: "sm_mhz 1980, throttle none"; what was not read is left out. */
static void put_state(b1i_text *html, const json_t *value)
{
    const char *key;
    json_t *item;
    size_t i;
    bool any = false;
    if (!json_is_object(value) && !json_is_array(value)) {
        b1i_page_value(html, value);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
    {
        if (json_is_null(item)) continue;
        b1i_html(html, "%s%s ", any ? ", " : "", key);
        any = true;
        put_state(html, item);
    }
    json_array_foreach(value, i, item)
    {
        b1i_text_put(html, i ? " " : "");
        any = true;
        put_state(html, item);
    }
    if (!any) b1i_text_put(html, json_is_array(value) ? "none" : "not read");
}

static void state_cell(b1i_page *page, const b1i_report_run *run, const char *file, const json_t *value)
{
    b1i_text_put(&page->html, "<td class=\"words\">");
    b1i_page_anchor(page, run, file, false);
    put_state(&page->html, value);
    b1i_text_put(&page->html, "</a></td>");
}

static void states(b1i_page *page, const b1i_report_run *run)
{
    const char *key;
    json_t *value;
    if (!json_is_object(run->before)) return;
    b1i_text_put(&page->html, "<details><summary>The device before and after</summary>\n");
    b1i_page_table(page, "Device state:", "read before the first round and after the last, never between.");
    b1i_text_put(&page->html,
                 "<thead><tr><th scope=\"col\">key</th><th scope=\"col\">before</th><th scope=\"col\">after</th>"
                 "</tr></thead><tbody>\n");
    json_object_foreach(run->before, key, value)
    {
        b1i_html(&page->html, "<tr><th scope=\"row\">%s</th>", key);
        state_cell(page, run, "device-before.json", value);
        state_cell(page, run, "device-after.json", json_object_get(run->after, key));
        b1i_text_put(&page->html, "</tr>\n");
    }
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
    b1i_text_put(&page->html, "</details>\n");
}

/* ---- commands ---- */

static void stream_cell(b1i_page *page, const b1i_report_run *run, const json_t *stream)
{
    const char *file = b1i_report_string(stream, "file"), *hash = b1i_report_string(stream, "sha256");
    b1i_text_put(&page->html, "<td>");
    if (file)
        b1i_page_link(page, run, file, file);
    else if (hash)
        b1i_html(&page->html, "kept apart, SHA-256 %s", hash);
    else
        b1i_text_put(&page->html, "–");
    b1i_text_put(&page->html, "</td>");
}

static void command_row(b1i_page *page, const b1i_report_run *run, const json_t *command)
{
    const json_t *argv = json_object_get(command, "argv"), *word;
    size_t i;
    b1i_text_put(&page->html, "<tr><th scope=\"row\"><code>");
    json_array_foreach(argv, i, word) b1i_html(&page->html, "%s%s", i ? " " : "", json_string_value(word));
    b1i_text_put(&page->html, "</code></th>");
    b1i_page_number(page, run, "commands.json", b1i_report_number(command, "exit_code"), 0);
    stream_cell(page, run, json_object_get(command, "stdout"));
    stream_cell(page, run, json_object_get(command, "stderr"));
    b1i_text_put(&page->html, "</tr>\n");
}

static void commands(b1i_page *page, const b1i_report_run *run)
{
    const json_t *list = json_object_get(run->commands, "commands"), *command;
    size_t i;
    if (json_array_size(list) == 0) return;
    b1i_text_put(&page->html, "<details><summary>Commands that the run started</summary>\n");
    b1i_page_table(page, "Commands:", "with what they left; one that failed is recorded and gave no number.");
    b1i_text_put(&page->html, "<thead><tr><th scope=\"col\">command</th><th scope=\"col\" class=\"n\">exit</th><th "
                              "scope=\"col\">stdout</th><th scope=\"col\">stderr</th></tr></thead><tbody>\n");
    json_array_foreach(list, i, command) command_row(page, run, command);
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
    b1i_text_put(&page->html, "</details>\n");
}

/* ---- files ---- */

static void files(b1i_page *page, const b1i_report_run *run)
{
    const json_t *list = json_object_get(run->manifest, "files"), *file;
    size_t i;
    b1i_html(&page->html, "<details><summary>All %zu files, with their hashes</summary>\n", json_array_size(list));
    b1i_page_table(page, "manifest.json:", "verified when this page was made.");
    b1i_text_put(&page->html, "<thead><tr><th scope=\"col\">file</th><th scope=\"col\" class=\"n\">bytes</th><th "
                              "scope=\"col\">SHA-256</th></tr></thead><tbody>\n");
    json_array_foreach(list, i, file)
    {
        const char *path = b1i_report_string(file, "path"), *hash = b1i_report_string(file, "sha256");
        b1i_text_put(&page->html, "<tr><th scope=\"row\">");
        b1i_page_link(page, run, path ? path : "", path ? path : "");
        b1i_text_put(&page->html, "</th>");
        b1i_page_number(page, run, "manifest.json", b1i_report_number(file, "size"), 0);
        b1i_html(&page->html, "<td class=\"hash\">%s</td></tr>\n", hash);
    }
    b1i_text_put(&page->html, "</tbody>");
    b1i_page_table_end(page);
    b1i_text_put(&page->html, "</details>\n");
}

void b1i_page_record(b1i_page *page, const b1i_report_run *run)
{
    b1i_text_put(&page->html, "<h3>Record</h3>\n");
    states(page, run);
    b1i_page_document(page, run, "environment.json", run->environment, "Environment");
    commands(page, run);
    files(page, run);
}
