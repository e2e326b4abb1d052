/* SPDX-License-Identifier: MIT
 *
 * batchone ceiling: this machine's read bandwidth by number of threads. The result is kept in the user's cache folder,
 * where `inspect` finds it.
 */
#include "lab/ceiling.h"

#include "app/app.h"
#include "app/ceiling_file.h"
#include "app/output.h"
#include "base/threads.h"
#include "lab/machine.h"

#include <string.h>

enum { PASSES = 8, BUDGET_NS = 300000000, EACH_UP_TO = 8, FILE_MOST_BYTES = 1 << 20 };

typedef struct ceiling_options {
    bool json;
} ceiling_options;

static const b1i_option options[] = {
    {"json", 0, b1i_option_flag, offsetof(ceiling_options, json), NULL, "print one JSON document", 0, 0, NULL},
    {0},
};

/* 1, 2, …, 8, 16, 32, …, all. */
static int next_threads(int threads, int all)
{
    int next = threads < EACH_UP_TO ? threads + 1 : threads * 2;
    return next < all || threads >= all ? next : all;
}

static b1_status measure(json_t *by_threads, double *best, uint64_t *buffer_bytes, b1_error *err)
{
    b1_status st;
    b1i_ceiling *ceiling = NULL;
    b1i_progress progress = {0};
    int all = b1i_cpu_count();
    *best = 0;
    B1I_TRY(b1i_ceiling_open(0, &ceiling, err));
    *buffer_bytes = b1i_ceiling_bytes(ceiling);
    for (int threads = 1; threads <= all; threads = next_threads(threads, all)) {
        double gbps;
        b1i_progress_bar(&progress, "reading", (uint64_t)threads, (uint64_t)all);
        B1I_TRY(b1i_ceiling_read(ceiling, threads, PASSES, BUDGET_NS, b1i_cancel_asked, &gbps, err));
        if (gbps > *best) *best = gbps;
        json_array_append_new(by_threads, json_pack("{s:i,s:f}", "threads", threads, "gbps", gbps));
    }
fail:
    b1i_progress_end(&progress);
    b1i_ceiling_close(ceiling);
    return st;
}

/* Keeps the document for `inspect`; where that cannot be done the result is not less true, so nothing is said. */
static void keep(json_t *document)
{
    char path[4096];
    b1i_outfile file = {0};
    b1_error ignored;
    if (!b1i_cache_path("ceiling.json", true, path, sizeof path)) return;
    if (b1i_outfile_open(path, &file, &ignored) != B1_OK) return;
    if (b1i_json_write(json_incref(document), file.file, &ignored) == B1_OK) b1i_outfile_commit(&file, &ignored);
    b1i_outfile_discard(&file);
}

double b1i_ceiling_recall(char *date, size_t bytes)
{
    char path[4096], cpu[256], *text = NULL;
    size_t length;
    const char *then_cpu, *then_date;
    int cores;
    double gbps = 0;
    b1_error ignored;
    date[0] = 0;
    if (!b1i_cache_path("ceiling.json", false, path, sizeof path)) return 0;
    if (b1i_read_file(path, FILE_MOST_BYTES, &text, &length, &ignored) != B1_OK) return 0;
    json_t *document = json_loadb(text, length, 0, NULL);
    b1i_machine_cpu(cpu, sizeof cpu);
    if (document &&
        json_unpack(document, "{s:F,s:{s:s,s:i,s:s}}", "ceiling_gbps", &gbps, "machine", "cpu", &then_cpu, "cores",
                    &cores, "date", &then_date) == 0 &&
        gbps > 0 && cores == b1i_cpu_count() && strcmp(cpu, then_cpu) == 0)
        snprintf(date, bytes, "%s", then_date);
    else
        gbps = 0;
    json_decref(document);
    b1i_free(text);
    return gbps;
}

static void print_table(const json_t *by_threads, double best, uint64_t buffer_bytes)
{
    char size[24];
    printf("threads   GB/s\n");
    for (size_t i = 0; i < json_array_size(by_threads); i++) {
        const json_t *row = json_array_get(by_threads, i);
        printf("%7d %6.1f\n", (int)json_integer_value(json_object_get(row, "threads")),
               json_real_value(json_object_get(row, "gbps")));
    }
    printf("ceiling %6.1f   best whole pass over %s\n", best, b1i_human_bytes(buffer_bytes, size));
}

static int run(const b1i_command *self, char **arguments)
{
    ceiling_options o = {0};
    b1_error err = {0};
    double best = 0;
    uint64_t buffer_bytes = 0;
    int count, code = b1i_options_parse(self, arguments, &o, NULL, 0, 0, &count);
    if (code != B1I_PARSED) return code;
    json_t *by_threads = json_array(), *document = NULL;
    b1_status st = by_threads ? measure(by_threads, &best, &buffer_bytes, &err) : b1i_fail_memory(&err, 64);
    if (st != B1_OK) goto fail;
    document = json_pack("{s:s,s:f,s:O,s:I,s:o}", "schema", "batchone.ceiling/1", "ceiling_gbps", best, "by_threads",
                         by_threads, "buffer_bytes", (json_int_t)buffer_bytes, "machine", b1i_machine_record());
    if (document) keep(document);
    if (o.json)
        B1I_TRY(b1i_json_write(document ? json_incref(document) : NULL, stdout, &err));
    else
        print_table(by_threads, best, buffer_bytes);
fail:
    code = st == B1_OK ? B1I_EXIT_OK : b1i_report(&err);
    json_decref(document);
    json_decref(by_threads);
    return code;
}

const b1i_command b1i_command_ceiling = {
    .name = "ceiling",
    .operands = "",
    .summary = "Measures this machine's read bandwidth.",
    .notes = "Each figure is the best of several passes over a buffer that no cache holds, in huge pages where the\n"
             "system allows them. The result is kept in the cache folder; inspect shows t_floor by it.",
    .options = options,
    .run = run,
};
