/* SPDX-License-Identifier: MIT
 *
 * The report of studies and A/B runs, from directories that are made by hand: groups and causes follow from the
 * analysis, plots from both, words stay words, and the published figures stand beside ours with the bytes that each
 * counts.
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

#define HOSTILE "<b onclick=x>&'$(id)`id`%s%n"

/* ---- a study by hand ---- */

typedef struct made {
    const char *folder;
    json_t *cells, *groups;
    int count;
} made;

static void put_json(const char *folder, const char *name, json_t *json)
{
    char *text = json_dumps(json, JSON_INDENT(1));
    assert_non_null(text);
    put_text(folder, name, text);
    free(text);
    json_decref(json);
}

static void put_folder(const char *folder, const char *name)
{
    char *path = b1i_lab_join(folder, name);
    if (mkdir(path, 0700) != 0) abort();
    b1i_free(path);
}

typedef struct spec {
    const char *model, *executor, *weights;
    int context, batch, sessions;
    double ms, weight_gb, kv_gb; /* of one sequence */
    const char *verdict;
} spec;

static json_t *profile_of(const spec *s)
{
    return json_pack("{ss ss sb so si s[{ss sf sf sf sb} {ss sf sf sf sb}] s{si si} si sf sf sf sf sf sf sf sf sf}",
                     "schema", "batchone.step-profile/1", "by", "cupti", "found", 1, "message", json_null(), "steps", 5,
                     "kernels", "name", "k_linear_" HOSTILE, "count", 224.0, "ns", 9e3, "total_ns", s->ms * 8e5,
                     "layer", 1, "name", "k_argmax", "count", 1.0, "ns", 5e3, "total_ns", 5e3, "layer", 0,
                     "kernels_per_layer", "min", 7, "max", 8, "outside", 3, "kernels_per_step", 227.0, "kernel_ms",
                     s->ms * 0.85, "gap_ms", s->ms * 0.1, "overlap_ms", 0.0, "launch_ms", s->ms * 0.5, "sync_ms", 0.01,
                     "host_over_kernel", 0.6, "profiled_ms", s->ms * 1.4, "unprofiled_ms", s->ms, "distortion", 1.4);
}

static json_t *jitter_of(const spec *s)
{
    return json_pack(
        "{si sf si si sf sf so sf s[{sf sf si} {sf sf si}] s{sf si si s[{si sf sb s{s[ii] s[ii]} s{si s[s] "
        "so}}]}}",
        "steps", 1000, "deadline_ms", s->ms * 1.2, "missed", 3, "missed_in_a_row", 1, "p50_ms", s->ms, "p99_ms",
        s->ms * 1.1, "p999_ms", json_null(), "max_ms", s->ms * 2, "histogram", "from_ms", s->ms, "to_ms", s->ms * 1.01,
        "steps", 990, "from_ms", s->ms * 1.5, "to_ms", s->ms * 1.515, "steps", 10, "outliers", "above_ms", s->ms * 1.25,
        "steps", 10, "switched", 2, "worst", "step", 17, "ms", s->ms * 2, "late", 1, "switches", "thread", 1, 0,
        "process", 4, 2, "machine", "sm_mhz", 1980, "throttle", HOSTILE, "power_w", json_null());
}

static void add_cell(made *m, const spec *s, int session, double ceiling, double peak)
{
    char id[24], name[64];
    snprintf(id, sizeof id, "cell%04x", m->count++);
    double bytes = (s->weight_gb + s->batch * s->kv_gb) * 1e9, ms = s->ms * (1 + 0.01 * session);
    bool drifts = strcmp(s->verdict, "drifting") == 0;
    json_t *modes = drifts ? json_pack("{sf sf si s[ii]}", "low_ms", ms * 0.9, "high_ms", ms * 1.1, "step", 16,
                                       "sm_mhz", 1200, 1980)
                           : json_null();
    json_array_append_new(m->cells,
                          json_pack("{ss ss ss ss ss si si si si ss ss so sf sf sf sf sf sf}", "id", id, "model",
                                    s->model, "architecture", "qwen2", "executor", s->executor, "weights", s->weights,
                                    "context", s->context, "threads", 16, "batch", s->batch, "session", session,
                                    "status", "ok", "verdict", s->verdict, "modes", modes, "t_obs_ms", ms, "cv", 0.002,
                                    "ceiling_gbps", ceiling, "bytes", bytes, "r_floor",
                                    peak > 0 ? bytes / peak / 1e6 / ms : 0.5, "r_ceiling", bytes / ceiling / 1e6 / ms));
    snprintf(name, sizeof name, "cells/%s", id);
    put_folder(m->folder, name);
    snprintf(name, sizeof name, "cells/%s/cell.json", id);
    put_json(m->folder, name,
             json_pack("{ss sf sf sf so so s{sf si ss} so}", "schema", "batchone.cell/1", "weight_bytes",
                       s->weight_gb * 1e9, "kv_bytes", s->batch * s->kv_gb * 1e9, "ceiling_gbps", ceiling, "peak_gbps",
                       peak > 0 ? json_real(peak) : json_null(), "t_floor_ms",
                       peak > 0 ? json_real(bytes / peak / 1e6) : json_null(), "energy", "joules_per_token", 1.25,
                       "tokens", 800, "source", HOSTILE, "jitter", session == 1 ? jitter_of(s) : json_null()));
    snprintf(name, sizeof name, "cells/%s/profile.json", id);
    put_json(m->folder, name, profile_of(s));
}

static void add_group(made *m, const spec *s, double ceiling, double peak)
{
    double bytes = (s->weight_gb + s->batch * s->kv_gb) * 1e9;
    for (int i = 1; i <= s->sessions; i++) add_cell(m, s, i, ceiling, peak);
    json_array_append_new(
        m->groups, json_pack("{ss ss ss ss si si si si si sf sf so sf sf sf sf sf so sb sf}", "model", s->model,
                             "architecture", "qwen2", "executor", s->executor, "weights", s->weights, "context",
                             s->context, "threads", 16, "batch", s->batch, "sessions", s->sessions, "ok", s->sessions,
                             "t_obs_ms", s->ms, "r_ceiling", bytes / ceiling / 1e6 / s->ms, "r_floor",
                             peak > 0 ? json_real(bytes / peak / 1e6 / s->ms) : json_null(), "mean_ms", s->ms, "min_ms",
                             s->ms * 0.99, "max_ms", s->ms * 1.02, "cv_within", 0.002, "tokens_per_s",
                             1e3 * s->batch / s->ms, "cv_across", s->sessions > 1 ? json_real(0.01) : json_null(),
                             "headline", strcmp(s->verdict, "drifting") != 0, "unused", 0.0));
}

static void put_rest(const char *folder, json_t *analysis, const char *device_name)
{
    static const char *const files[] = {"commands.json", "device-before.json", "device-after.json"};
    put_json(folder, "analysis.json", analysis);
    put_json(
        folder, "environment.json",
        json_pack("{ss ss s{ss}}", "date", "2026-11-30T04:00:00Z", "version", "0.1.0", "gpu", "name", device_name));
    put_json(folder, "plan.json", json_pack("{ss ss s{si}}", "run", "hand", "binary_sha256", "00", "a", "batch", 1));
    for (int i = 0; i < 3; i++) put_json(folder, files[i], json_object());
    put_json(folder, "manifest.json",
             json_pack("{s[{ss si ss}]}", "files", "path", "plan.json", "size", 1, "sha256", ""));
}

static json_t *device_head(const char *schema, const char *device)
{
    return json_pack("{ss ss ss ss}", "schema", schema, "run", "hand", "device", "cuda:0", "device_name", device);
}

/* A study of Qwen2.5-7B's shape on a GPU: contexts the wrong way round, streams, graphs, a stack, a batch, a format,
 * one that drifts and one that does not fit. */
static const char *gpu_study(void)
{
    static const spec specs[] = {
        {"qwen2.5-7b", "separate_stream", "bf16", 16384, 1, 1, 6.0, 14.14, 0.94, "ok"},
        {"qwen2.5-7b", "separate_graph", "bf16", 16384, 1, 1, 5.0, 14.14, 0.94, "drifting"},
        {"qwen2.5-7b", "separate_stream", "bf16", 2048, 1, 3, 5.0, 14.14, 0.117, "ok"},
        {"qwen2.5-7b", "separate_graph", "bf16", 2048, 1, 3, 4.0, 14.14, 0.117, "ok"},
        {"qwen2.5-7b", "stack:transformers eager", "bf16", 2048, 1, 1, 24.7, 14.14, 0.117, "ok"},
        {"qwen2.5-7b", "separate_graph", "bf16", 2048, 4, 1, 4.5, 14.14, 0.117, "ok"},
        {"qwen2.5-7b", "separate_graph", "q4_0", 2048, 1, 1, 2.0, 3.98, 0.117, "ok"},
        {HOSTILE, HOSTILE, HOSTILE, 2048, 1, 1, 0.2, 1.0, 0.1, "noisy"}, /* faster than its bytes */
    };
    static char path[256];
    if (path[0]) return path;
    snprintf(path, sizeof path, "%s/gpu study", home);
    put_folder(home, "gpu study");
    put_folder(path, "cells");
    made m = {path, json_array(), json_array(), 0};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) add_group(&m, &specs[i], 4600, 4800);
    put_folder(path, "cells/cellgone");
    put_text(path, "cells/cellgone/cell.json", "{}");
    json_array_append_new(m.cells, json_pack("{ss ss ss ss ss si si si si ss so ss so}", "id", "cellgone", "model",
                                             "llama-3.1-8b", "architecture", "llama", "executor", "fused_pdl",
                                             "weights", "f32", "context", 16384, "threads", 16, "batch", 1, "session",
                                             1, "status", "out_of_memory", "verdict", json_null(), "message",
                                             "</td><script>alert('x')</script>", "t_obs_ms", json_null()));
    json_t *analysis = device_head("batchone.study-analysis/1", "NVIDIA H200");
    json_object_set_new(analysis, "cells", m.cells);
    json_object_set_new(analysis, "groups", m.groups);
    json_object_set_new(analysis, "weights",
                        json_pack("[{ss ss si si si ss ss sf sf sf}]", "model", "qwen2.5-7b", "executor",
                                  "separate_graph", "context", 2048, "threads", 16, "batch", 1, "weights", "q4_0",
                                  "against", "bf16", "bytes_ratio", 3.484, "paper_ratio", 3.906, "speedup", 2.0));
    json_object_set_new(analysis, "batch",
                        json_pack("[{ss ss ss si si sf sf}]", "model", "qwen2.5-7b", "executor", "separate_graph",
                                  "weights", "bf16", "context", 2048, "batch", 4, "step_ratio", 1.125, "throughput",
                                  3.56));
    put_rest(path, analysis, "NVIDIA H200");
    return path;
}

/* One of a device whose datasheet nobody knows. */
static const char *cpu_study(void)
{
    static const spec s = {"smollm2-135m", "fused", "q4_1", 512, 1, 1, 2.0, 0.098, 0.01, "ok"};
    static char path[256];
    if (path[0]) return path;
    snprintf(path, sizeof path, "%s/cpu-study", home);
    put_folder(home, "cpu-study");
    put_folder(path, "cells");
    made m = {path, json_array(), json_array(), 0};
    add_group(&m, &s, 60, 0);
    json_t *analysis = device_head("batchone.study-analysis/1", "A CPU");
    json_object_set_new(analysis, "cells", m.cells);
    json_object_set_new(analysis, "groups", m.groups);
    put_rest(path, analysis, "A CPU");
    return path;
}

static json_t *ab_analysis(const char *verdict, double speedup, int sessions)
{
    json_t *a = device_head("batchone.ab/1", "NVIDIA H200"), *pairs = json_array(), *orders = json_array(),
           *numbers = json_array();
    for (int i = 0; i < sessions; i++) {
        json_array_append_new(pairs, json_pack("[ff]", 5.0 * speedup + 0.001 * i, 5.0));
        json_array_append_new(orders, i % 2 ? json_pack("[ss]", "b", "a") : json_pack("[ss]", "a", "b"));
        json_array_append_new(numbers, json_integer(i + 1));
    }
    json_object_update_new(
        a, json_pack("{ss si ss ss so so so si sI sf s[ff] s[ff] sf s[ff] sb ss so si}", "model", "qwen2.5-7b",
                     "context", 2048, "a", "executor=separate_stream", "b", "executor=separate_graph", "pairs", pairs,
                     "orders", orders, "numbers", numbers, "resamples", 10000, "seed", (json_int_t)1 << 60, "speedup",
                     speedup, "interval", speedup - 0.01, speedup + 0.01, "percentile_interval", speedup - 0.008,
                     speedup + 0.008, "difference_ms", 5 * (speedup - 1), "difference_interval", 0.9, 1.1,
                     "upper_bound", 1, "verdict", verdict, "message", json_null(), "sessions", sessions));
    json_object_update_new(a,
                           json_pack("{sf sf sf sf s{sf sf sf sf sf sf} s{sf}}", "median", speedup, "mean", speedup,
                                     "min", speedup, "max", speedup, "a_ms", "mean", 5 * speedup, "median", 5.0, "min",
                                     4.9, "max", 5.1, "cv_within", 0.002, "cv_across", 0.01, "b_ms", "mean", 5.0));
    return a;
}

static const char *ab_run(const char *name, const char *verdict, double speedup, int sessions)
{
    const char *path = at(name);
    if (is_there(home, name)) return path;
    put_folder(home, name);
    json_t *analysis = ab_analysis(verdict, speedup, sessions);
    if (strcmp(verdict, "rigs differ") == 0) {
        json_object_set_new(analysis, "speedup", json_null());
        json_object_set_new(analysis, "rigs",
                            json_pack("[{ss ss ss sf s[ff]} {ss ss ss sf s[ff]}]", "device_name", "one", "version",
                                      "0.1.0", "binary_sha256", "11", "speedup", 1.2, "interval", 1.1, 1.3,
                                      "device_name", HOSTILE, "version", "0.1.0", "binary_sha256", "22", "speedup", 1.1,
                                      "interval", 1.0, 1.2));
    }
    put_rest(path, analysis, "NVIDIA H200");
    return path;
}

/* ---- groups ---- */

static const b1i_report_group *group_of(const b1i_report_run *run, const char *executor, int context, int batch)
{
    for (size_t i = 0; i < run->group_count; i++) {
        const b1i_report_group *g = &run->groups[i];
        if (strcmp(g->executor, executor) == 0 && g->context == context && g->batch == batch &&
            strcmp(g->weights, "bf16") == 0)
            return g;
    }
    fail_msg("no group of %s", executor);
    return NULL;
}

static void groups_stand_by_context_with_their_cells_documents(void **state)
{
    (void)state;
    b1i_report_run run;
    OK(b1i_report_run_load(gpu_study(), &run, &err));
    assert_int_equal(run.sort, b1i_report_study);
    assert_string_equal(run.experiment, "study");
    assert_string_equal(b1i_report_run_device(&run), "NVIDIA H200");
    assert_int_equal(run.group_count, 8);
    for (size_t i = 1; i < run.group_count; i++) assert_true(run.groups[i - 1].context <= run.groups[i].context);
    const b1i_report_group *g = group_of(&run, "separate_graph", 2048, 4);
    assert_true(g->peak_gbps == 4800 && g->ceiling_gbps == 4600);
    assert_true(fabs(g->kv_bytes - 4 * 0.117e9) < 1e3 && fabs(g->weight_bytes - 14.14e9) < 1e3);
    assert_non_null(g->profile);
    assert_non_null(strstr(g->file, "/cell.json"));
    assert_null(b1i_report_group_find(&run, g, "separate_stream")); /* not of that batch */
    assert_non_null(b1i_report_group_find(&run, group_of(&run, "separate_stream", 2048, 1), "separate_graph"));
    b1i_report_run_free(&run);
}

static void causes_add_up_to_the_step(void **state)
{
    (void)state;
    b1i_report_run run;
    char graph[32];
    OK(b1i_report_run_load(gpu_study(), &run, &err));
    for (size_t i = 0; i < run.group_count; i++) {
        double ms[b1i_causes], sum = 0;
        assert_true(b1i_report_causes(&run, &run.groups[i], ms));
        for (int k = 0; k < b1i_causes; k++) {
            assert_true(ms[k] >= 0);
            sum += ms[k];
        }
        assert_true(fabs(sum - run.groups[i].t_obs_ms) < 1e-9);
    }
    double ms[b1i_causes];
    b1i_report_causes(&run, group_of(&run, "separate_stream", 2048, 1), ms);
    assert_true(fabs(ms[b1i_cause_weights] - 14.14e3 / 4600) < 1e-9);
    assert_true(fabs(ms[b1i_cause_kernels] - (5 * 0.85 - 14.257e3 / 4600)) < 1e-9);
    assert_true(fabs(ms[b1i_cause_launch] - 0.75) < 1e-9); /* the graph saved 1, and so much was left */
    assert_true(ms[b1i_cause_rest] < 1e-9);
    b1i_report_causes(&run, group_of(&run, "separate_graph", 2048, 1), ms);
    assert_true(ms[b1i_cause_launch] == 0 && ms[b1i_cause_rest] > 0);
    assert_true(b1i_report_graph_of("fused_stream", graph, sizeof graph));
    assert_string_equal(graph, "fused_graph");
    assert_false(b1i_report_graph_of("_stream", graph, sizeof graph));
    assert_false(b1i_report_graph_of("stack:x_stream", graph, sizeof graph));
    b1i_report_run_free(&run);
}

static void documents_of_other_types_are_as_if_not_there(void **state)
{
    (void)state;
    static const char *const bad[] = {"{\"schema\": \"batchone.study-analysis/1\", \"cells\": 3, \"groups\": [7, "
                                      "{\"model\": {}, \"t_obs_ms\": \"5\"}]}",
                                      "{\"schema\": \"batchone.study-analysis/1\", \"cells\": [{\"id\": \"../../etc\", "
                                      "\"t_obs_ms\": 5, \"bytes\": []}, 3], "
                                      "\"groups\": [{\"t_obs_ms\": 5}], \"weights\": [{}, 3], \"batch\": [[]]}",
                                      "{\"schema\": \"batchone.ab/1\", \"pairs\": [3, [1], [\"a\", {}]], \"interval\": "
                                      "7, \"rigs\": [1, 2], \"speedup\": \"x\"}",
                                      "{\"schema\": \"batchone.ab/1\", \"pairs\": [[5, 4]], \"orders\": [[3]], "
                                      "\"numbers\": [\"x\"], \"interval\": [1]}"};
    put_folder(home, "odd");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        b1i_report_run run;
        b1i_plots plots;
        b1i_page page = {.files = "x_files"};
        put_text(at("odd"), "analysis.json", bad[i]);
        OK(b1i_report_run_load(at("odd"), &run, &err));
        OK(b1i_plots_make(&run, &plots, &err));
        b1i_plots_free(&plots);
        OK(b1i_plots_together(&run, 1, &plots, &err));
        b1i_plots_free(&plots);
        b1i_page_heading(&page, &run);
        b1i_page_study(&page, &run);
        b1i_page_steps(&page, &run);
        b1i_page_ab(&page, &run);
        b1i_page_claims_of(&page, &run);
        OK(b1i_page_decode(&page, &run, 1, &err));
        OK(b1i_text_status(&page.html, &err));
        assert_null(strstr(page.html.data, "etc/"));
        b1i_text_free(&page.html);
        b1i_text_free(&page.claims);
        b1i_report_run_free(&run);
    }
    put_text(at("odd"), "analysis.json", "{\"schema\": \"batchone.study-analysis/1\", \"cells\": []}");
    b1i_report_run run;
    assert_int_equal(b1i_report_run_load(at("odd"), &run, &err), B1_IO);
    assert_non_null(strstr(err.message, "groups"));
}

/* ---- plots ---- */

static const b1i_plot *plot_of(const b1i_plots *plots, b1i_plot_sort sort, int count)
{
    const b1i_plot *found = NULL;
    for (size_t i = 0; i < plots->count; i++)
        if (plots->items[i].sort == sort) {
            found = &plots->items[i];
            count--;
        }
    if (count != 0) fail_msg("%d plots of sort %d too few", count, (int)sort);
    return found;
}

static void plots_follow_from_the_study(void **state)
{
    (void)state;
    b1i_report_run run;
    b1i_plots plots;
    OK(b1i_report_run_load(gpu_study(), &run, &err));
    OK(b1i_plots_make(&run, &plots, &err));
    const b1i_plot *causes = plot_of(&plots, b1i_plot_causes, 4); /* bf16, batch 4, q4_0, the hostile one */
    plot_of(&plots, b1i_plot_ratio, 1);                           /* the others have one context */
    const b1i_plot *graphs = plot_of(&plots, b1i_plot_graphs, 1);
    const b1i_plot *formats = plot_of(&plots, b1i_plot_formats, 1);
    const b1i_plot *batch = plot_of(&plots, b1i_plot_batch, 1);
    plot_of(&plots, b1i_plot_profile, 1);
    plot_of(&plots, b1i_plot_jitter, 1);
    assert_non_null(causes->data.data);
    assert_non_null(strstr(graphs->data.data, "2048\t1.250000\t1.250000\t1.250000\n16384\t1.200000"));
    assert_non_null(strstr(formats->data.data, "\t3.484000\t"));
    assert_non_null(strstr(formats->data.data, "\t3.906000\t"));
    assert_non_null(strstr(batch->data.data, "1\t1.000000\t1.000000\t1.000000\n4\t3.560000"));
    b1i_plots_free(&plots);
    b1i_report_run_free(&run);
}

static void kept_rows_are_compared(void **state)
{
    (void)state;
    b1i_report_run run;
    b1i_plots plots;
    const char *copy = at("kept");
    char name[96];
    copy_run(ab_run("ab", "ok", 1.25, 10), copy);
    put_folder(copy, "plots");
    OK(b1i_report_run_load(copy, &run, &err));
    OK(b1i_plots_make(&run, &plots, &err));
    plot_of(&plots, b1i_plot_pairs, 1);
    snprintf(name, sizeof name, "plots/%s.dat", plots.items[0].name);
    put_text(copy, name, plots.items[0].data.data);
    said[0] = 0;
    OK(b1i_plots_check(copy, keep_line, NULL, &err));
    assert_string_equal(said, "");
    char *digit = strstr(plots.items[0].data.data, "1.25");
    assert_non_null(digit);
    digit[3] = '6';
    put_text(copy, name, plots.items[0].data.data);
    OK(b1i_plots_check(copy, keep_line, NULL, &err));
    assert_non_null(strstr(said, "has a row that"));
    b1i_plots_free(&plots);
    b1i_report_run_free(&run);
}

/* ---- the published study ---- */

static void every_published_row_says_what_it_is(void **state)
{
    (void)state;
    static const char *const lists[][2] = {{"rigs", "rig"}, {"sums", "bytes"}, {"devices", "device"}};
    json_t *document, *row, *entry;
    size_t i, k;
    OK(b1i_published_decode(&document, &err));
    json_array_foreach(json_object_get(document, "rows"), i, row)
    {
        assert_true(json_is_string(json_object_get(row, "statistic")) && json_is_string(json_object_get(row, "where")));
        assert_true(json_object_get(row, "sessions") != NULL && json_object_get(row, "value") != NULL);
        for (int l = 0; l < 3; l++) {
            const char *name = json_string_value(json_object_get(row, lists[l][1]));
            bool found = !name;
            json_array_foreach(json_object_get(document, lists[l][0]), k, entry) found |=
                name && strcmp(name, json_string_value(json_object_get(entry, "name"))) == 0;
            assert_true(found);
        }
        const char *quantity = json_string_value(json_object_get(row, "quantity"));
        if (strcmp(quantity, "R_floor") == 0 || strcmp(quantity, "floor") == 0)
            assert_true(json_is_string(json_object_get(row, "bytes")));
    }
    assert_true(json_array_size(json_object_get(document, "rows")) > 50);
    json_decref(document);
}

static void the_published_study_stands_beside_ours(void **state)
{
    (void)state;
    b1i_report_run runs[2];
    b1i_page page = {.files = "x_files"};
    char words[80];
    OK(b1i_report_run_load(gpu_study(), &runs[0], &err));
    OK(b1i_report_run_load(ab_run("ab", "ok", 1.25, 10), &runs[1], &err));
    OK(b1i_page_decode(&page, runs, 2, &err));
    const char *html = b1i_text_get(&page.html);
    assert_non_null(strstr(html, "14.83 ms</a>"));
    assert_non_null(strstr(html, "1.259 [1.253, 1.267] times</a>"));
    assert_non_null(strstr(html, "13.17 GB: weights without embedding and LM head, and K"));
    assert_non_null(strstr(html, "15.35 GB: all weights"));
    /* R_floor of the eager H100 by its own sum: ours of the stream by that sum. */
    snprintf(words, sizeof words, ">%.3f</a>", 13168684032.0 / 4800 / 1e6 / 5);
    assert_non_null(strstr(html, words));
    assert_non_null(strstr(html, ">1.250</a>"));
    assert_non_null(strstr(html, ">3.56</a>"));
    assert_non_null(strstr(html, "stack:transformers eager"));
    assert_true(b1i_decode_launch("fused_pdl", "graph") && !b1i_decode_launch("fused_pdl", "eager"));
    assert_true(b1i_decode_launch("fused", "") && !b1i_decode_launch("fused", "eager"));
    b1i_text_free(&page.html);
    b1i_report_run_free(&runs[0]);
    b1i_report_run_free(&runs[1]);
}

static void several_runs_share_their_figures(void **state)
{
    (void)state;
    b1i_report_run runs[4];
    b1i_plots plots;
    OK(b1i_report_run_load(gpu_study(), &runs[0], &err));
    OK(b1i_report_run_load(cpu_study(), &runs[1], &err));
    OK(b1i_report_run_load(ab_run("ab", "ok", 1.25, 10), &runs[2], &err));
    OK(b1i_report_run_load(ab_run("ab-one", "one session", 1.43, 1), &runs[3], &err));
    OK(b1i_plots_together(runs, 4, &plots, &err));
    const b1i_plot *floors = plot_of(&plots, b1i_plot_floors, 1);
    assert_non_null(strstr(floors->data.data, "3350\t0.268000"));
    assert_non_null(strstr(floors->data.data, "300\t0.820000"));
    assert_non_null(strstr(floors->data.data, "fused, R_ceiling"));
    const char *intervals = plot_of(&plots, b1i_plot_intervals, 1)->script.data;
    assert_non_null(strstr(intervals, "here, no headline"));
    assert_non_null(strstr(intervals, "executor: separate_stream → separate_graph"));
    assert_non_null(strstr(plot_of(&plots, b1i_plot_ladder, 1)->data.data, "14.83\t1.259000\t1.253000\t1.267000"));
    assert_non_null(strstr(plot_of(&plots, b1i_plot_beside, 1)->data.data, "\t24.700000\t"));
    b1i_plots_free(&plots);
    OK(b1i_plots_together(&runs[1], 1, &plots, &err)); /* nothing like theirs */
    assert_int_equal(plots.count, 1);
    b1i_plots_free(&plots);
    for (int i = 0; i < 4; i++) b1i_report_run_free(&runs[i]);
}

/* Of an even number the middle is between two, of share and bandwidth alike. */
static void the_middle_of_two_is_between_them(void **state)
{
    (void)state;
    b1i_report_run run;
    b1i_plots plots;
    char words[40];
    OK(b1i_report_run_load(gpu_study(), &run, &err));
    OK(b1i_plots_together(&run, 1, &plots, &err));
    double sum = group_of(&run, "separate_stream", 2048, 1)->r_floor;
    sum += group_of(&run, "separate_stream", 16384, 1)->r_floor;
    snprintf(words, sizeof words, "\t%.6f\t", sum / 2);
    assert_non_null(strstr(plot_of(&plots, b1i_plot_floors, 1)->data.data, words));
    b1i_plots_free(&plots);
    /* Without a datasheet each group has a bandwidth of its own: the one whose share is in the middle. */
    for (size_t i = 0; i < run.group_count; i++) {
        b1i_report_group *g = &run.groups[i];
        const bool stream = strcmp(g->executor, "separate_stream") == 0;
        g->peak_gbps = NAN;
        g->executor = stream || i % 3 ? "one" : "other";
        g->batch = stream ? 1 : 2;
        g->r_ceiling = stream && g->context == 2048 ? 0.5 : 0.7;
        g->ceiling_gbps = stream && g->context == 2048 ? 100 : 300;
    }
    OK(b1i_plots_together(&run, 1, &plots, &err));
    snprintf(words, sizeof words, "\n%.10g\t0.600000\t0.5", 200 * pow(1.03, -3));
    assert_non_null(strstr(plot_of(&plots, b1i_plot_floors, 1)->data.data, words));
    b1i_plots_free(&plots);
    b1i_report_run_free(&run);
}

/* ---- claims ---- */

static void claims_are_of_what_stands(void **state)
{
    (void)state;
    b1i_report_run run;
    b1i_page page = {.files = "x_files"};
    OK(b1i_report_run_load(gpu_study(), &run, &err));
    for (size_t i = 0; i < run.group_count; i++) {
        const b1i_report_group *g = &run.groups[i];
        if (strcmp(g->model, "qwen2.5-7b") != 0)
            assert_true(g->headline && !b1i_page_group_stands(&run, g)); /* noisy */
        if (g->batch != 4) continue;
        assert_true(b1i_page_group_stands(&run, g));
        run.groups[i].r_ceiling = 1.031;
        assert_false(b1i_page_group_stands(&run, g));
    }
    json_object_set_new(json_array_get(json_object_get(run.analysis, "weights"), 0), "headline", json_false());
    b1i_page_claims_of(&page, &run);
    assert_non_null(strstr(page.claims.data, "fastest that holds still is separate_graph, 4.0"));
    assert_null(strstr(page.claims.data, "0.200 ms a step"));
    assert_null(strstr(page.claims.data, "batch 4 at"));
    assert_non_null(strstr(page.claims.data, "1 of 1 comparisons of formats are no headline"));
    b1i_page_study(&page, &run);
    assert_non_null(strstr(page.html.data, "<td>no headline</td>"));
    b1i_report_run_free(&run);
    OK(b1i_report_run_load(ab_run("ab-same", "ok", 1.005, 10), &run, &err)); /* 0.995 to 1.015 */
    b1i_text_free(&page.claims);
    assert_false(b1i_ab_stands(&run));
    b1i_page_claims_of(&page, &run);
    assert_null(strstr(page.claims.data, "times as fast"));
    assert_non_null(strstr(page.claims.data, "includes 1"));
    b1i_text_free(&page.html);
    b1i_text_free(&page.claims);
    b1i_report_run_free(&run);
}

/* A column that no row has a number for is not there; what is read first is. */
static void the_first_table_has_no_empty_columns(void **state)
{
    (void)state;
    b1i_report_run run;
    b1i_page page = {.files = "x_files"};
    OK(b1i_report_run_load(cpu_study(), &run, &err));
    b1i_page_groups(&page, &run);
    const char *head = strstr(page.html.data, "<thead>"), *verdict = strstr(head, "verdict");
    assert_true(verdict && verdict < strstr(head, "tokens a second") && strstr(head, "J a token"));
    assert_null(strstr(head, "least session"));
    assert_null(strstr(head, "byte floor, ms"));
    assert_null(strstr(head, "n none"));
    b1i_text_free(&page.html);
    /* Nor do figures that have nothing to do with it stand beside it. */
    OK(b1i_page_decode(&page, &run, 1, &err));
    assert_non_null(strstr(page.html.data, "Nothing here is of a model"));
    assert_null(strstr(page.html.data, "<table"));
    b1i_text_free(&page.html);
    b1i_report_run_free(&run);
}

/* What the machine says is put in words, and what was not asked for is no "no". */
static void documents_are_told_in_words(void **state)
{
    (void)state;
    b1i_report_run run;
    b1i_page page = {.files = "x_files"};
    OK(b1i_report_run_load(cpu_study(), &run, &err));
    json_object_set_new(run.environment, "threads", json_integer(0));
    json_object_set_new(run.before, "cpu", json_pack("{sn si s[]}", "cpu0_mhz", "throttles", 3, "throttle"));
    b1i_page_record(&page, &run);
    assert_non_null(strstr(page.html.data, ">all</a>"));
    assert_non_null(strstr(page.html.data, ">throttles 3, throttle none</a>"));
    assert_null(strstr(page.html.data, "cpu0_mhz"));
    b1i_text_free(&page.html);
    json_t *jitter = json_object_get(run.groups[0].cell, "jitter");
    json_t *worst = json_array_get(json_object_get(json_object_get(jitter, "outliers"), "worst"), 0);
    json_object_set_new(worst, "late", json_false());
    json_object_set_new(worst, "machine", json_pack("{si si}", "cpu", 0, "throttled", 0));
    b1i_page_steps(&page, &run);
    assert_non_null(strstr(page.html.data, "<td>no</td><td class=\"n\">"));
    assert_non_null(strstr(page.html.data, "on CPU 0, times throttled: 0"));
    b1i_text_free(&page.html);
    json_object_set_new(jitter, "deadline_ms", json_null());
    b1i_page_steps(&page, &run);
    assert_null(strstr(page.html.data, "<td>no</td><td class=\"n\">"));
    b1i_text_free(&page.html);
    b1i_text_free(&page.claims);
    b1i_report_run_free(&run);
}

/* ---- the page ---- */

static bool has_gnuplot(void) { return b1i_gnuplot_find(NULL) == B1_OK; }

enum { RUNS = 5 };

/* All of them in one page, which stands beside their folders. */
static void make_page(b1i_text *html)
{
    const char *const paths[RUNS] = {gpu_study(), cpu_study(), ab_run("ab", "ok", 1.25, 10),
                                     ab_run("ab-one", "one session", 1.43, 1),
                                     ab_run("ab-rigs", "rigs differ", 1.2, 4)};
    b1i_report_run runs[RUNS];
    char folder[300];
    snprintf(folder, sizeof folder, "%s/study_files", home);
    put_folder(home, "study_files");
    b1i_page page = {.files = "study_files", .folder = folder};
    for (int i = 0; i < RUNS; i++) {
        b1i_text href = {0};
        OK(b1i_report_run_load(paths[i], &runs[i], &err));
        b1i_html_href(&href, runs[i].name);
        b1i_text_put(&href, "/");
        b1i_free(runs[i].href);
        runs[i].href = href.data;
        runs[i].number = i + 1;
    }
    OK(b1i_page_body(&page, runs, RUNS, &err));
    put_text(home, "study.html", page.html.data);
    *html = page.html;
    b1i_text_free(&page.claims);
    for (int i = 0; i < RUNS; i++) b1i_report_run_free(&runs[i]);
}

static void a_browser_finds_no_fault(void)
{
    char command[800];
    if (getenv("B1_EMULATED")) return;
    snprintf(command, sizeof command, "python3 '%s/tools/check_report' '%s' >'%s' 2>&1", B1I_SOURCE_DIR,
             at("study.html"), at("look.txt"));
    int rc = system(command); /* the paths are ours */
    if (WIFEXITED(rc) && WEXITSTATUS(rc) == 77) return;
    char *text = text_of(home, "look.txt");
    if (rc != 0) fail_msg("%s", text);
    b1i_free(text);
}

static void the_page_is_whole_and_words_stay_words(void **state)
{
    (void)state;
    static const char *const there[] = {"Step time by cause, ms:",
                                        "Graphs over streams:",
                                        "Weight formats:",
                                        "Batches:",
                                        "Profiles:",
                                        "Jitter:",
                                        "Energy:",
                                        "Cells without figures:",
                                        "Cells to be read with care:",
                                        "drifting</strong>, no headline",
                                        "noisy</strong>, <strong class=\"warn\">faster than memory allows</strong>",
                                        "id=\"together\"",
                                        "id=\"published-study\"",
                                        "upper bound of what launching them costs",
                                        "Verdict: one session</strong>",
                                        "never pooled",
                                        "1152921504606846976",
                                        "no claim; the verdict is",
                                        "&#60;script&#62;alert(&#39;x&#39;)",
                                        "</html>\n",
                                        ">study gpu study <span>",
                                        "\">A/B ab-one</a> on",
                                        NULL};
    static const char *const gone[] = {
        "Speed-ups of A over B", "<script", "<b onclick", "onclick=x>", "http:", "https:", "url(", NULL};
    b1i_text html;
    if (!has_gnuplot()) skip();
    make_page(&html);
    for (int i = 0; there[i]; i++)
        if (!strstr(html.data, there[i])) fail_msg("the page lacks %s", there[i]);
    for (int i = 0; gone[i]; i++)
        if (strstr(html.data, gone[i])) fail_msg("the page has %.200s", strstr(html.data, gone[i]));
    assert_true(is_there(home, "study_files/run-1/groups.csv"));
    assert_true(is_there(home, "study_files/run-1/weights.csv"));
    a_browser_finds_no_fault();
    b1i_text_free(&html);
}

/* ---- memory ---- */

static void each_allocation_may_fail(void **state)
{
    (void)state;
    const char *paths[] = {cpu_study(), ab_run("ab", "ok", 1.25, 10)};
    for (int r = 0; r < 2; r++) {
        long live = b1i_alloc_live();
        for (long n = 0;; n += 1 + n / 40) {
            b1i_report_run run = {0};
            b1i_plots plots = {0}, together = {0};
            b1i_page page = {.files = "x_files"};
            b1i_alloc_fail_at(n);
            b1_status st = b1i_report_run_load(paths[r], &run, &err);
            if (st == B1_OK) st = b1i_plots_make(&run, &plots, &err);
            if (st == B1_OK) st = b1i_plots_together(&run, 1, &together, &err);
            if (st == B1_OK) {
                (r ? b1i_page_ab : b1i_page_study)(&page, &run);
                st = b1i_text_status(&page.html, &err);
            }
            b1i_alloc_fail_at(-1);
            b1i_text_free(&page.html);
            b1i_text_free(&page.claims);
            b1i_plots_free(&together);
            b1i_plots_free(&plots);
            b1i_report_run_free(&run);
            assert_int_equal(b1i_alloc_live(), live);
            if (st == B1_OK && n > 20) break;
            assert_true(st == B1_MEMORY || st == B1_OK);
            assert_true(n < 100000);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_stand_by_context_with_their_cells_documents),
        cmocka_unit_test(causes_add_up_to_the_step),
        cmocka_unit_test(documents_of_other_types_are_as_if_not_there),
        cmocka_unit_test(plots_follow_from_the_study),
        cmocka_unit_test(kept_rows_are_compared),
        cmocka_unit_test(every_published_row_says_what_it_is),
        cmocka_unit_test(the_published_study_stands_beside_ours),
        cmocka_unit_test(several_runs_share_their_figures),
        cmocka_unit_test(the_middle_of_two_is_between_them),
        cmocka_unit_test(claims_are_of_what_stands),
        cmocka_unit_test(the_first_table_has_no_empty_columns),
        cmocka_unit_test(documents_are_told_in_words),
        cmocka_unit_test(the_page_is_whole_and_words_stay_words),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
