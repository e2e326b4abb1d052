/* SPDX-License-Identifier: MIT
 *
 * The report: words from files stay words, whatever they hold; what gnuplot draws brings shapes alone; each number
 * leads to its file; runs that do not verify are refused, and none is written to. Where a browser is installed it opens
 * a page that is full of hostile words.
 */
#include "lab/report.h"

#include "lab/report/gnuplot.h"
#include "lab/report/page.h"
#include "tests/lab_fake.h"

#include <math.h>
#include <sys/wait.h>

#define OK(call) assert_int_equal_or(call, #call)
static void assert_int_equal_or(b1_status st, const char *call)
{
    if (st != B1_OK) fail_msg("%s: %s", call, err.message);
}

static bool has_gnuplot(void) { return b1i_gnuplot_find(NULL) == B1_OK; }

/* ---- a run full of hostile words ---- */

#define HOSTILE "<b onclick=x>&'$(id)`id`%s%n%d"
static const char *const hostile_names[] = {
    "n=256/separate_stream",       "n=256/fused_graph",       "n=1024/separate_stream", "n=1024/fused_graph",
    HOSTILE "/n=256/fused_stream", HOSTILE "/n=256/" HOSTILE, HOSTILE "/refused_pdl"};
enum { HOSTILE_COUNT = 7 };

static b1_status hostile_prepare(void *user, b1_error *e)
{
    if (*(int *)user != 6) return B1_OK;
    return b1i_fail(e, B1_UNSUPPORTED, "</td></table><script>alert('x')</script>\"&amp; \xc3\xa4\xe2\x82\xac");
}
static b1_status hostile_time(void *user, int depth, double *ns, b1_error *e)
{
    static uint64_t calls;
    (void)depth;
    (void)e;
    *ns = 5000 * (1 + 0.1 * *(int *)user) + (double)(b1i_mix64(++calls) % 100);
    return B1_OK;
}
static const b1i_lab_driver hostile_driver = {hostile_prepare, {hostile_time, hostile_time, hostile_time}, NULL};

static b1_status hostile_open(b1i_lab *lab, void **state, b1_error *e)
{
    static int index[HOSTILE_COUNT];
    b1_status st = B1_OK;
    *state = index;
    for (int i = 0; i < HOSTILE_COUNT; i++) {
        index[i] = i;
        b1i_lab_cell_spec spec = {hostile_names[i], &hostile_driver, &index[i], 0,
                                  json_pack("{s:i,s:i,s:s,s:s}", "n", i < 2 ? 256 : 1024, "bytes", i % 2 ? 8192 : 24576,
                                            "from", "<i>first", "to", "</th>last")};
        B1I_TRY(b1i_lab_add(lab, &spec, e));
    }
    B1I_TRY(b1i_lab_add_twin(lab, hostile_names[0], e));
fail:
    return st;
}

static b1_status hostile_after(b1i_lab *lab, void *state, b1_error *e)
{
    static const b1i_trace_span spans[] = {
        {0, 3, 'A', 100, 200}, {1, 4, 'A', 110, 320}, {0, 3, 'B', 210, 300}, {1, 4, 'B', 330, 400}};
    (void)state;
    return b1i_trace_write(b1i_lab_get_evidence(lab), "n-256-fused_graph", spans, 4, e);
}

static void hostile_close(b1i_lab *lab, void *state)
{
    (void)lab;
    (void)state;
}

static const b1i_experiment hostile = {"pointwise", "Has hostile words.", hostile_open, hostile_after, hostile_close};

static const char *hostile_run(void)
{
    static char path[300];
    int failed;
    if (path[0]) return path;
    snprintf(path, sizeof path, "%s/run <'&\"%%#?\xc3\xbc", home);
    b1i_lab_options o = fake_options(path);
    OK(b1i_lab_run(&hostile, &o, &failed, &err));
    b1i_pool_end();
    if (!holds(path)) fail_msg("%s", said);
    return path;
}

/* The page of it, as text; made once. */
static const char *hostile_page(void)
{
    static char *page;
    size_t bytes;
    const char *run = hostile_run();
    if (page) return page;
    OK(b1i_report_write(&run, 1, at("page.html"), &err));
    OK(b1i_read_file(at("page.html"), 64 << 20, &page, &bytes, &err));
    return page;
}

static int end(void **state)
{
    if (has_gnuplot()) b1i_free((void *)(uintptr_t)hostile_page());
    return remove_home(state);
}

/* ---- words ---- */

static void same_text(b1i_text *text, const char *must)
{
    assert_string_equal(b1i_text_get(text), must);
    b1i_text_free(text);
}

static void words_are_escaped(void **state)
{
    (void)state;
    b1i_text t = {0};
    b1i_html_escape(&t, "<a href='x'>\"&amp;\x01\n\x7f");
    same_text(&t, "&#60;a href=&#39;x&#39;&#62;&#34;&#38;amp;   ");
    b1i_html_escape(&t, "\xc3\xa4\xff\xc3(\xed\xa0\x80");
    assert_null(strchr(b1i_text_get(&t), '\xff'));
    assert_non_null(strstr(b1i_text_get(&t), "\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd("));
    b1i_text_free(&t);
    b1i_html(&t, "%s%d%zu%%<b>", "<", -3, (size_t)7);
    same_text(&t, "&#60;-37%<b>");
    b1i_html_href(&t, "../a b/\"<#?%\xc3\xbc.json");
    same_text(&t, "../a%20b/%22%3C%23%3F%25%C3%BC.json");
    b1i_html_href(&t, "javascript:alert(1)");
    same_text(&t, "javascript%3Aalert%281%29");
    b1i_html_href(&t, "//host/x");
    same_text(&t, ".//host/x");
    b1i_csv_field(&t, "plain");
    b1i_csv_field(&t, "a,\"b\"\n");
    same_text(&t, "plain\"a,\"\"b\"\"\n\"");
    b1i_plot_quote(&t, "it's\n$(id) `id` \\");
    same_text(&t, "'it''s $(id) `id` \\'");
}

static void a_text_without_memory_says_so_once(void **state)
{
    (void)state;
    b1i_text t = {0};
    b1i_text_put(&t, "a");
    b1i_alloc_fail_at(0);
    for (int i = 0; i < 400; i++) b1i_text_put(&t, "more");
    b1i_alloc_fail_at(-1);
    assert_true(t.broken);
    assert_int_equal(b1i_text_status(&t, &err), B1_MEMORY);
    b1i_text_free(&t);
}

static void pictures_bring_shapes_and_words_alone(void **state)
{
    (void)state;
    static const char svg[] =
        "<?xml version=\"1.0\"?><svg viewBox=\"0 0 100 50\" onload=\"x()\"><title>no</title><desc>no</desc>"
        "<script>alert(1)</script><style>*{}</style><defs><circle id='gpDot'/></defs><g id=\"c\" fill=\"none\" "
        "onclick='x'>"
        "<foreignObject><b>x</b></foreignObject><image xlink:href='http://x/'/><a "
        "xlink:href='http://x/'><text>linked</text></a>"
        "<rect x=\"0\" y=\"0\" fill=\"none\"/><path stroke='rgb( 11,  98, 196)' d='M1,2 L3,4\"' onclick='x' style='x'/>"
        "<use xlink:href='#gpPt6' transform='translate(1,2)' color='rgb(181, 71, 8)'/><use xlink:href='http://x/#y'/>"
        "<g stroke='black'></g><text>a &lt;b&gt;</text>"
        "<polygon fill = 'rgb(11,98,196)' points = '0,9 5,9 5,3 0,3 '/><polygon fill='rgb(11,98,196)' points='6,9 8,9 "
        "8,3 6,3'/>"
        "</g></svg>";
    static const char *const gone[] = {"script", "style", "onload", "onclick", "foreign", "image",
                                       "http",   "gpDot", "alert",  "<rect",   NULL};
    b1i_text t = {0};
    OK(b1i_svg_embed(&t, svg, "f", "T<", "D&", &err));
    for (int i = 0; gone[i]; i++)
        if (strstr(b1i_text_get(&t), gone[i])) fail_msg("%s is in %s", gone[i], b1i_text_get(&t));
    assert_non_null(strstr(t.data, "<title id=\"f-t\">T&#60;</title><desc id=\"f-d\">D&#38;</desc>"));
    assert_non_null(strstr(t.data, "role=\"img\" aria-labelledby=\"f-t f-d\""));
    assert_non_null(strstr(t.data, "<path stroke=\"var(--s0)\" d=\"M1,2 L3,4\"/>"));
    assert_non_null(strstr(t.data, "<use href=\"#mark6\" transform=\"translate(1,2)\" color=\"var(--s1)\"/>"));
    assert_non_null(strstr(t.data, "<text>a &lt;b&gt;</text>"));
    assert_non_null(strstr(t.data, "<path stroke=\"none\" fill=\"var(--s0)\" d=\"M0,9H5V3H0zM6,9H8V3H6z\"/>"));
    b1i_text_free(&t);
    assert_int_equal(b1i_svg_embed(&t, "no picture", "f", "T", "D", &err), B1_IO);
    assert_int_equal(b1i_svg_embed(&t, "<svg viewBox=\"0 0 1 1\"><path d=x", "f", "T", "D", &err), B1_IO);
    b1i_text_free(&t);
}

/* ---- names of cells ---- */

static const char analysis_head[] =
    "{\"experiment\": \"pointwise\", \"device\": \"cuda:0\", \"rounds\": 21, \"cells\": [";

/* home/NAME with an analysis of these rows; what is not given is as a measured cell has it. */
static void put_analysis(const char *name, const char *rows, const char *rest)
{
    char text[8000];
    if (mkdir(at(name), 0700) != 0) abort();
    snprintf(text, sizeof text, "%s%s]%s}", analysis_head, rows, rest);
    put_text(at(name), "analysis.json", text);
}

#define ROW(name, kind, median, facts)                                                                           \
    "{\"cell\": \"" name "\", \"kind\": \"" kind "\", \"n\": 21, \"median_ns\": " #median ", \"p10_ns\": 1000, " \
    "\"p90_ns\": 20000, \"verdict\": \"ok\", \"facts\": {" facts "}}"

static void names_are_taken_apart(void **state)
{
    (void)state;
    b1i_report_run run;
    put_analysis("names",
                 ROW("n=256/separate_stream", "host_single", 5000, "\"n\": 256") "," ROW(
                     "n=32K/fused_pdl", "host_single", 4000,
                     "\"n\": 32768") "," ROW("rotating/n=256/fused_graph", "host_single", 4000,
                                             "") "," ROW("a/a n=256/separate_stream", "host_single", 4000,
                                                         "") "," ROW("48x1000/stream", "host_single", 4000,
                                                                     "") "," ROW("barrier/idle", "no_such", 1, ""),
                 "");
    OK(b1i_report_run_load(at("names"), &run, &err));
    assert_int_equal(run.count, 5);
    assert_string_equal(run.axis, "n");
    assert_true(run.cells[0].x == 256 && run.cells[1].x == 32768);
    assert_string_equal(run.cells[0].family, "separate");
    assert_string_equal(run.cells[0].panel, "");
    assert_int_equal(run.cells[0].mode, 0);
    assert_int_equal(run.cells[1].mode, 2);
    assert_string_equal(run.cells[2].panel, "rotating");
    assert_int_equal(run.cells[2].color, run.cells[1].color);
    assert_int_not_equal(run.cells[0].color, run.cells[1].color);
    assert_true(run.cells[3].twin && !run.cells[0].twin);
    assert_string_equal(run.cells[4].panel, "rows=48, width=1000");
    assert_string_equal(run.cells[4].family, "stream");
    assert_int_equal(run.cells[4].mode, 0);
    assert_true(isnan(run.cells[4].x));
    b1i_report_run_free(&run);
}

static void bad_documents_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "{", "[]", "{\"cells\": 3}", "{\"cells\": [], \"cells\": []}"};
    b1i_report_run run;
    if (mkdir(at("bad"), 0700) != 0) abort();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_text(at("bad"), "analysis.json", bad[i]);
        assert_int_equal(b1i_report_run_load(at("bad"), &run, &err), B1_IO);
        assert_non_null(strstr(err.message, "analysis.json"));
    }
    /* Values of the wrong type are as if they were not there. */
    put_text(
        at("bad"), "analysis.json",
        "{\"experiment\": 3, \"device\": [], \"cells\": [7, {\"cell\": {}, \"kind\": \"host_single\", \"n\": \"x\", "
        "\"median_ns\": \"5\", \"facts\": [1], \"p90_interval_ns\": {}}], \"a_a\": {}, \"traces\": 3, \"figures\": "
        "[1]}");
    OK(b1i_report_run_load(at("bad"), &run, &err));
    assert_int_equal(run.count, 1);
    assert_true(isnan(run.cells[0].median));
    b1i_page page = {.files = "x_files"};
    b1i_page_heading(&page, &run);
    b1i_page_believe(&page, &run);
    for (int kind = 0; kind < b1i_lab_kinds; kind++) b1i_page_cells(&page, &run, (b1i_lab_kind)kind);
    b1i_page_unmeasured(&page, &run);
    b1i_page_traces(&page, &run);
    b1i_page_extras(&page, &run);
    b1i_page_record(&page, &run);
    b1i_page_claims_of(&page, &run);
    b1i_page_scope(&page, &run, 1);
    OK(b1i_text_status(&page.html, &err));
    b1i_text_free(&page.html);
    b1i_text_free(&page.claims);
    b1i_report_run_free(&run);
}

/* ---- the published rows ---- */

static void the_published_rows_stand_beside_ours(void **state)
{
    (void)state;
    b1i_report_run run;
    b1i_page page = {.files = "x_files"};
    put_analysis("ours",
                 ROW("n=256/separate_stream", "host_single", 6889, "\"n\": 256") "," ROW(
                     "n=256/separate_stream", "device_interval", 7734,
                     "\"n\": 256") "," ROW("rotating/n=256/fused_stream", "host_single", 1,
                                           "\"n\": 256") "," ROW("n=257/fused_stream", "host_single", 1,
                                                                 "\"n\": 257") "," ROW("n=256/fused_pdl", "host_single",
                                                                                       1, "\"n\": 256"),
                 "");
    OK(b1i_report_run_load(at("ours"), &run, &err));
    OK(b1i_page_published(&page, &run, &err));
    const char *html = b1i_text_get(&page.html);
    assert_non_null(strstr(html, "H100"));
    assert_non_null(strstr(html, ">13.778</a>"));
    assert_non_null(strstr(html, ">0.500</a>"));
    assert_non_null(strstr(html, ">1.000</a>"));
    assert_non_null(strstr(html, "What differs"));
    int rows = 0;
    for (const char *p = html; (p = strstr(p, "<th scope=\"row\">")); p++) rows++;
    assert_int_equal(rows, 2); /* no other cell is one of theirs */
    b1i_text_free(&page.html);
    b1i_report_run_free(&run);
}

static void a_variant_against_itself_bounds_what_is_believed(void **state)
{
    (void)state;
    b1i_report_run run;
    b1i_page page = {.files = "x_files"};
    put_analysis(
        "a-a",
        ROW("n=1/separate_stream", "host_single", 10000,
            "") "," ROW("n=1/fused_stream", "host_single", 9900,
                        "") "," ROW("n=2/separate_stream", "host_single", 10000, "") "," ROW("n=2/fused_stream",
                                                                                             "host_single", 5000, ""),
        ", \"a_a\": [{\"cell\": \"x\", \"kind\": \"host_single\", \"ratio\": 1.01, \"interval\": [0.97, 1.02]}]");
    OK(b1i_report_run_load(at("a-a"), &run, &err));
    assert_true(fabs(b1i_page_doubt(&run, b1i_host_single) - 0.03) < 1e-9);
    assert_true(isnan(b1i_page_doubt(&run, b1i_host_enqueue)));
    b1i_page_believe(&page, &run);
    b1i_page_cells(&page, &run, b1i_host_single);
    b1i_page_claims_of(&page, &run);
    assert_non_null(strstr(page.html.data, "3.00&nbsp;%"));
    assert_non_null(strstr(page.html.data, "≈ 0.990"));
    assert_non_null(strstr(page.html.data, ">0.500</a>"));
    assert_non_null(strstr(page.claims.data, "1.01 to 2.00 times as fast in 2 pairs, of which 1 differ"));
    b1i_text_free(&page.html);
    b1i_text_free(&page.claims);
    b1i_report_run_free(&run);
}

/* ---- the whole page ---- */

static void the_page_is_whole_and_words_stay_words(void **state)
{
    (void)state;
    if (!has_gnuplot()) skip();
    static const char *const there[] = {"<!DOCTYPE html>",
                                        "<svg class=\"plot\"",
                                        "name=\"viewport\"",
                                        "prefers-color-scheme: dark",
                                        "@media print",
                                        "id=\"scope\"",
                                        "id=\"claims\"",
                                        "universal launch constants",
                                        "verdict on persistent kernels",
                                        "not utilisation",
                                        "cold replay",
                                        "dirty lines",
                                        "Host single, µs:",
                                        "Host enqueue, µs:",
                                        "Device interval, µs:",
                                        "1 / 2</a>",
                                        "&#60;script&#62;alert(&#39;x&#39;)",
                                        "</html>\n",
                                        NULL};
    static const char *const gone[] = {"<script", "<b onclick", "onclick=x>", "</th>last", "<i>first",
                                       "http:",   "https:",     "@import",    "url(",      NULL};
    const char *page = hostile_page();
    for (int i = 0; there[i]; i++)
        if (!strstr(page, there[i])) fail_msg("the page lacks %s", there[i]);
    for (int i = 0; gone[i]; i++)
        if (strstr(page, gone[i])) fail_msg("the page has %.200s", strstr(page, gone[i]));
    if (!holds(hostile_run())) fail_msg("%s", said);
    assert_false(is_there(home, "page.html.part"));
}

/* Of each cell its median stands in the page as a link to the analysis. */
static void numbers_lead_to_their_file(void **state)
{
    (void)state;
    if (!has_gnuplot()) skip();
    const char *page = hostile_page();
    char href[] = "href=\"run%20%3C%27%26%22%25%23%3F%C3%BC/analysis.json\"", number[120];
    json_error_t why;
    json_t *cell, *analysis;
    size_t i;
    int found = 0;
    char *text = text_of(hostile_run(), "analysis.json");
    assert_non_null(analysis = json_loads(text, 0, &why));
    b1i_free(text);
    json_array_foreach(json_object_get(analysis, "cells"), i, cell)
    {
        double us = json_number_value(json_object_get(cell, "median_ns")) / 1e3;
        if (!json_is_number(json_object_get(cell, "median_ns")) ||
            strncmp(b1i_report_string(cell, "cell"), "a/a", 3) == 0)
            continue;
        snprintf(number, sizeof number, "<a %s tabindex=\"-1\">%.3f</a>", href, us);
        if (!strstr(page, number)) fail_msg("the page lacks %s", number);
        found++;
    }
    assert_int_equal(found, 3 * (HOSTILE_COUNT - 1));
    json_decref(analysis);
}

static void what_was_drawn_lies_beside_the_page_and_in_the_run(void **state)
{
    (void)state;
    if (!has_gnuplot()) skip();
    b1i_names names;
    int scripts = 0, own = 0, csv = 0;
    hostile_page();
    OK(b1i_lab_list(at("page_files/run-1"), &names, &err));
    for (size_t i = 0; i < names.count; i++) {
        char inside[300];
        const char *dot = strrchr(names.items[i], '.');
        csv += strcmp(dot, ".csv") == 0;
        if (strcmp(dot, ".gp") != 0 && strcmp(dot, ".dat") != 0) continue;
        scripts += strcmp(dot, ".gp") == 0;
        snprintf(inside, sizeof inside, "plots/%s", names.items[i]);
        char *beside = text_of(at("page_files/run-1"), names.items[i]), *of_run = text_of(hostile_run(), inside);
        assert_non_null(of_run);
        assert_string_equal(beside, of_run);
        own++;
        b1i_free(beside);
        b1i_free(of_run);
    }
    b1i_names_free(&names);
    assert_int_equal(csv, 3);
    assert_true(scripts >= 5);
    assert_int_equal(own, 2 * scripts);
}

/* ---- what is refused ---- */

static void refused(const char *directory, const char *out, b1_status must, const char *part)
{
    err = (b1_error){0};
    b1_status st = b1i_report_write(&directory, 1, out, &err);
    if (st != must || !strstr(err.message, part)) fail_msg("%s: %s", b1_status_name(st), err.message);
    assert_false(is_there(home, "no.html") || is_there(home, "no_files"));
}

static void runs_that_do_not_hold_are_refused(void **state)
{
    (void)state;
    if (!has_gnuplot()) skip();
    const char *run = hostile_run();
    char copy[300];
    snprintf(copy, sizeof copy, "%s/copy", home);
    refused(at("nowhere"), at("no.html"), B1_IO, "no such directory");
    if (mkdir(at("other"), 0700) != 0) abort();
    put_text(at("other"), "x", "y");
    refused(at("other"), at("no.html"), B1_IO, "no run");
    copy_run(run, copy);
    put_text(copy, "samples.jsonl", "{}\n");
    refused(copy, at("no.html"), B1_IO, "does not verify");
    copy_run(run, copy);
    char *manifest = b1i_lab_join(copy, "manifest.json");
    assert_int_equal(unlink(manifest), 0);
    b1i_free(manifest);
    refused(copy, at("no.html"), B1_IO, "incomplete");
    b1i_lab_options o = fake_options(at("failing"));
    fake_reset();
    fake.after = B1_DEVICE;
    assert_int_equal(fake_run(&o), B1_DEVICE);
    refused(o.out, at("no.html"), B1_IO, "failed");
}

static void a_page_has_a_place_of_its_own(void **state)
{
    (void)state;
    if (!has_gnuplot()) skip();
    char inside[400];
    const char *run = hostile_run();
    snprintf(inside, sizeof inside, "%s/page.html", run);
    refused(run, inside, B1_ARGUMENT, "stays as it is");
    snprintf(inside, sizeof inside, "%s/plots/page.html", run);
    refused(run, inside, B1_ARGUMENT, "stays as it is");
    copy_run(run, at("another"));
    refused(run, at("another/page.html"), B1_ARGUMENT, "stays as it is"); /* nor in one that it does not show */
    refused(run, "", B1_ARGUMENT, "no name");
    refused(run, "-", B1_ARGUMENT, "no name");
    refused(run, at("none/no.html"), B1_IO, "no such folder");
    if (!holds(run)) fail_msg("%s", said);
    /* FILE_files, or the folder of a run in it, is a run; and what is no file is not replaced. */
    copy_run(run, at("taken_files"));
    refused(run, at("taken.html"), B1_ARGUMENT, "stays as it is");
    if (mkdir(at("within_files"), 0700) != 0) abort();
    copy_run(run, at("within_files/run-1"));
    refused(run, at("within.html"), B1_ARGUMENT, "stays as it is");
    if (mkfifo(at("pipe.html"), 0600) != 0) abort();
    refused(run, at("pipe.html"), B1_ARGUMENT, "no file that a report may replace");
    assert_false(is_there(home, "taken.html") || is_there(home, "within.html") || is_there(home, "pipe_files"));
}

static void without_gnuplot_nothing_is_made(void **state)
{
    (void)state;
    const char *run = hostile_run();
    char *path = b1i_strdup(getenv("PATH"));
    setenv("PATH", home, 1);
    refused(run, at("no.html"), B1_UNSUPPORTED, "gnuplot-nox");
    setenv("PATH", path, 1);
    b1i_free(path);
}

/* ---- memory ---- */

static void each_allocation_may_fail(void **state)
{
    (void)state;
    const char *run = hostile_run();
    long live = b1i_alloc_live();
    for (long n = 0; n < 100000; n++) {
        b1i_report_run loaded = {0};
        b1i_plots plots = {0};
        b1i_page page = {.files = "x_files"};
        b1i_alloc_fail_at(n);
        b1_status st = b1i_report_run_load(run, &loaded, &err);
        if (st == B1_OK) st = b1i_plots_make(&loaded, &plots, &err);
        if (st == B1_OK) {
            b1i_page_heading(&page, &loaded);
            b1i_page_claims_of(&page, &loaded);
            st = b1i_text_status(&page.html, &err);
            if (st == B1_OK) st = b1i_text_status(&page.claims, &err);
        }
        b1i_alloc_fail_at(-1);
        b1i_text_free(&page.html);
        b1i_text_free(&page.claims);
        b1i_plots_free(&plots);
        b1i_report_run_free(&loaded);
        assert_int_equal(b1i_alloc_live(), live);
        if (st == B1_OK && n > 20) return;
        assert_true(st == B1_MEMORY || st == B1_IO || st == B1_OK);
    }
    fail_msg("it never ended");
}

static void a_page_without_memory_is_not_made(void **state)
{
    (void)state;
    if (!has_gnuplot()) skip();
    char out[300];
    const char *run = hostile_run();
    snprintf(out, sizeof out, "%s/no.html", home);
    for (long n = 1; n < 1200; n += n / 2 + 1) {
        long live = b1i_alloc_live();
        b1i_alloc_fail_at(n);
        b1_status st = b1i_report_write(&run, 1, out, &err);
        b1i_alloc_fail_at(-1);
        assert_int_equal(b1i_alloc_live(), live);
        assert_true((st == B1_OK) == is_there(home, "no.html"));
        remove_all(out);
        remove_all(at("no_files"));
    }
}

/* ---- a browser ---- */

static void a_browser_finds_no_fault(void **state)
{
    (void)state;
    char command[800];
    if (!has_gnuplot() || getenv("B1_EMULATED")) skip();
    hostile_page();
    snprintf(command, sizeof command, "python3 '%s/tools/check_report' '%s' >'%s' 2>&1", B1I_SOURCE_DIR,
             at("page.html"), at("look.txt"));
    int rc = system(command); /* the paths are ours */
    if (WIFEXITED(rc) && WEXITSTATUS(rc) == 77) skip();
    char *text = text_of(home, "look.txt");
    if (rc != 0) fail_msg("%s", text);
    b1i_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_escaped),
        cmocka_unit_test(a_text_without_memory_says_so_once),
        cmocka_unit_test(pictures_bring_shapes_and_words_alone),
        cmocka_unit_test(names_are_taken_apart),
        cmocka_unit_test(bad_documents_are_refused),
        cmocka_unit_test(the_published_rows_stand_beside_ours),
        cmocka_unit_test(a_variant_against_itself_bounds_what_is_believed),
        cmocka_unit_test(the_page_is_whole_and_words_stay_words),
        cmocka_unit_test(numbers_lead_to_their_file),
        cmocka_unit_test(what_was_drawn_lies_beside_the_page_and_in_the_run),
        cmocka_unit_test(runs_that_do_not_hold_are_refused),
        cmocka_unit_test(a_page_has_a_place_of_its_own),
        cmocka_unit_test(without_gnuplot_nothing_is_made),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(a_page_without_memory_is_not_made),
        cmocka_unit_test(a_browser_finds_no_fault),
    };
    return cmocka_run_group_tests(tests, make_home, end);
}
