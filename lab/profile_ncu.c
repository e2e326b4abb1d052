/* SPDX-License-Identifier: MIT
 *
 * Nsight Compute, where it is installed: bytes of DRAM and L2 by kernel. See profile.h.
 *
 * It starts this command anew for each cell, and counts what runs between cuProfilerStart and cuProfilerStop; with its
 * caches emptied before each replay of a kernel, and as the kernel finds them. Its report, which has names of the
 * machine in it, stays outside the run's directory.
 */
#include "lab/profile.h"

#include "lab/evidence.h"
#include "lab/files.h"
#include "lab/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const metrics[] = {"dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum"};
/* How often a kernel was replayed for its counters; it counts no bytes. */
#define REPLAYS "profiler__replayer_passes"
static const char metrics_list[] = "dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum," REPLAYS;
enum { METRICS = sizeof metrics / sizeof *metrics, COLUMNS = 64 };

/* ---- the report ---- */

/* Cuts a line of CSV into its fields, in place; how many they are, `most` at most. */
static size_t split(char *line, char **field, size_t most)
{
    size_t count = 0;
    for (char *at = line; count < most; at++) {
        char *to = at;
        field[count++] = at;
        if (*at == '"') {
            for (at++; *at && (*at != '"' || at[1] == '"'); at++) {
                if (*at == '"') at++; /* two are one */
                *to++ = *at;
            }
            if (*at) at++;
        } else {
            while (*at && *at != ',') *to++ = *at++;
        }
        const bool last = *at != ',';
        *to = 0;
        if (last) break;
    }
    return count;
}

/* Columns of the report, by their names. */
typedef struct columns {
    size_t id, kernel, metric, unit, value, count;
} columns;

static bool read_columns(char **field, size_t count, columns *out)
{
    const struct {
        const char *name;
        size_t *to;
    } wanted[] = {{"ID", &out->id},
                  {"Kernel Name", &out->kernel},
                  {"Metric Name", &out->metric},
                  {"Metric Unit", &out->unit},
                  {"Metric Value", &out->value}};
    out->count = count;
    for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
        size_t i = 0;
        while (i < count && strcmp(field[i], wanted[w].name) != 0) i++;
        if (i == count) return false;
        *wanted[w].to = i;
    }
    return true;
}

/* The number, whose thousands may have commas; NaN where it is none. */
static double read_value(const char *text)
{
    char plain[64], *end;
    size_t n = 0;
    for (; *text && n + 1 < sizeof plain; text++)
        if (*text != ',') plain[n++] = *text;
    plain[n] = 0;
    const double value = strtod(plain, &end);
    return n && !*end && isfinite(value) && value >= 0 ? value : NAN;
}

/* Bytes of a unit, which counts in thousands; NaN: it is no unit of bytes. */
static double unit_bytes(const char *unit)
{
    static const char *const units[] = {"byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte"};
    double bytes = 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++, bytes *= 1e3)
        if (strcmp(unit, units[i]) == 0) return bytes;
    return NAN;
}

static json_t *row_json(char **field, const columns *c)
{
    char *end;
    const long id = strtol(field[c->id], &end, 10);
    const double value = read_value(field[c->value]);
    if (*end || end == field[c->id]) return NULL;
    return json_pack("{s:I,s:s,s:n,s:s,s:o,s:s,s:o}", "kernel_id", (json_int_t)id, "kernel", field[c->kernel],
                     "replays", "metric", field[c->metric], "value", b1i_lab_number(value), "unit", field[c->unit],
                     "bytes", b1i_lab_number(value * unit_bytes(field[c->unit])));
}

static const char *metric_of(const json_t *row) { return json_string_value(json_object_get(row, "metric")); }

/* Puts the counts of replays, which the report has in rows of their own, into the rows of the same kernels. */
static void take_replays(json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows);) {
        const json_t *of = json_array_get(rows, i), *replays = json_object_get(of, "value");
        if (strcmp(metric_of(of), REPLAYS) != 0) {
            i++;
            continue;
        }
        for (size_t k = 0; k < json_array_size(rows); k++) {
            json_t *row = json_array_get(rows, k);
            if (json_equal(json_object_get(row, "kernel_id"), json_object_get(of, "kernel_id")) &&
                strcmp(metric_of(row), REPLAYS) != 0 && json_is_number(replays))
                json_object_set_new(row, "replays", json_integer((json_int_t)json_number_value(replays)));
        }
        json_array_remove(rows, i);
    }
}

/* A message of the profiler's: "==ERROR== …". The first stays. */
static void take_message(const char *line, char *message, size_t bytes)
{
    const char *at = strstr(line, "==ERROR== ");
    if (at && !*message) snprintf(message, bytes, "%s", at + strlen("==ERROR== "));
}

json_t *b1i_profile_ncu_rows(const char *text, char *message, size_t message_bytes)
{
    char *field[COLUMNS], *copy = b1i_strdup(text), *next;
    columns c = {0};
    bool header = false;
    json_t *rows = json_array();
    *message = 0;
    if (!copy || !rows) {
        b1i_free(copy);
        json_decref(rows);
        return NULL;
    }
    for (char *line = copy; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        line[strcspn(line, "\r")] = 0;
        take_message(line, message, message_bytes);
        if (*line != '"') continue;
        const size_t count = split(line, field, COLUMNS);
        if (!header) {
            header = read_columns(field, count, &c);
            continue;
        }
        json_t *row = count == c.count ? row_json(field, &c) : NULL;
        if (row) json_array_append_new(rows, row);
    }
    take_replays(rows);
    if (!*message && json_array_size(rows) == 0)
        snprintf(message, message_bytes, "%s", header ? "the report has no rows" : "there is no report");
    b1i_free(copy);
    return rows;
}

/* ---- a cell's counts ---- */

/* {metric: bytes of one invocation}; null where a row of it is not finite, or not each of `kernels` has one. */
static json_t *per_invocation(const json_t *rows, size_t kernels, bool *finite)
{
    json_t *all = json_object();
    *finite = false;
    for (int m = 0; m < METRICS; m++) {
        double sum = json_array_size(rows) ? 0 : NAN;
        size_t count = 0;
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i), *bytes = json_object_get(row, "bytes");
            if (strcmp(metric_of(row), metrics[m]) != 0) continue;
            sum += json_is_number(bytes) ? json_number_value(bytes) : NAN;
            count++;
        }
        const double each = count ? sum / B1I_PROFILE_RUNS : NAN;
        *finite = *finite || isfinite(each);
        json_object_set_new(all, metrics[m], b1i_lab_number(count == kernels ? each : NAN));
    }
    return all;
}

/* Kernels that were counted: rows of a report that have another id than the row before. */
static size_t kernels_of(const json_t *rows)
{
    size_t kernels = 0;
    json_int_t last = -1;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_int_t id = json_integer_value(json_object_get(json_array_get(rows, i), "kernel_id"));
        kernels += id != last;
        last = id;
    }
    return kernels;
}

/* "DIR.raw", made; freed by the caller. */
static b1_status raw_folder(const b1i_lab *lab, char **out, b1_error *err)
{
    const char *directory = lab->options->out;
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/') length--;
    *out = b1i_malloc(length + 5);
    if (!*out) return b1i_fail_memory(err, length + 5);
    memcpy(*out, directory, length);
    memcpy(*out + length, ".raw", 5);
    if (mkdir(*out, 0777) == 0 || errno == EEXIST) return B1_OK;
    b1_status st = b1i_fail(err, B1_IO, "the directory %s cannot be made: %s", *out, strerror(errno));
    b1i_free(*out);
    *out = NULL;
    return st;
}

/* Reads the report at `path` and gives it its hash as name; "" and null where there is none. */
static b1_status take_report(const char *folder, const char *path, char **text, json_t **raw, b1_error *err)
{
    b1_status st = B1_OK;
    char hex[65], name[80], *named = NULL;
    uint64_t bytes = 0;
    size_t length = 0;
    *raw = json_null();
    *text = NULL;
    if (access(path, R_OK) != 0) {
        *text = b1i_strdup("");
        return *text ? B1_OK : b1i_fail_memory(err, 1);
    }
    B1I_TRY(b1i_sha256_file(path, hex, &bytes, err));
    B1I_TRY(b1i_read_file(path, (size_t)1 << 28, text, &length, err));
    snprintf(name, sizeof name, "%s.csv", hex);
    if (!(named = b1i_lab_join(folder, name))) {
        st = b1i_fail_memory(err, sizeof name);
        goto fail;
    }
    if (rename(path, named) != 0) {
        st = b1i_fail(err, B1_IO, "%s cannot be written: %s", named, strerror(errno));
        goto fail;
    }
    *raw = json_pack("{s:s,s:I}", "sha256", hex, "bytes", (json_int_t)bytes);
fail:
    b1i_free(named);
    return st;
}

/* Starts Nsight Compute around this command. */
static b1_status start(b1i_lab *lab, const char *cell, const char *control, const char *log, int *exit_code,
                       b1_error *err)
{
    const b1i_lab_options *o = lab->options;
    char file[192], name[200];
    const char *const argv[] = {"ncu",
                                "--csv",
                                "--log-file",
                                log,
                                "--force-overwrite",
                                "--profile-from-start",
                                "off",
                                "--cache-control",
                                control,
                                "--metrics",
                                metrics_list,
                                o->executable,
                                "lab",
                                lab->experiment->name,
                                "--device",
                                o->device.name,
                                "--profile-cell",
                                cell,
                                o->quick ? "--quick" : NULL,
                                NULL};
    b1i_lab_file_name(cell, file, sizeof file);
    snprintf(name, sizeof name, "ncu-%.180s-%.8s", file, control);
    return b1i_evidence_command(lab->evidence, name, argv, false, exit_code, err);
}

static b1_status run_cell(b1i_lab *lab, const char *folder, const char *name, const b1i_lab_work_cell *cell,
                          const char *control, json_t *cells, b1_error *err)
{
    b1_status st;
    char message[512] = "", part[48], *log = NULL, *text = NULL;
    json_t *raw = NULL, *rows = NULL;
    int exit_code = 0;
    bool finite = false;
    snprintf(part, sizeof part, "%ld.part", (long)getpid());
    if (!(log = b1i_lab_join(folder, part))) return b1i_fail_memory(err, strlen(folder));
    unlink(log);
    B1I_TRY(start(lab, name, control, log, &exit_code, err));
    B1I_TRY(take_report(folder, log, &text, &raw, err));
    rows = b1i_profile_ncu_rows(text, message, sizeof message);
    const size_t kernels = kernels_of(rows), want = b1i_profile_kernels(cell);
    json_t *each = per_invocation(rows, want, &finite);
    if (!*message && exit_code) snprintf(message, sizeof message, "ncu ended with exit code %d", exit_code);
    if (!*message && !finite) snprintf(message, sizeof message, "none of the counters is finite");
    if (!*message && kernels != want)
        snprintf(message, sizeof message, "%zu of %zu kernels were counted", kernels, want);
    json_t *row = json_pack("{s:s,s:s,s:i,s:o,s:O,s:I,s:I,s:b,s:O,s:o}", "cell", name, "cache_control", control,
                            "exit_code", exit_code, "message", *message ? json_string(message) : json_null(), "raw",
                            raw, "expected_kernels", (json_int_t)want, "seen_kernels", (json_int_t)kernels,
                            "reconciled", want == kernels, "rows", rows, "per_invocation", each);
    if (json_array_append_new(cells, row) != 0)
        st = b1i_fail(err, B1_MEMORY, "not enough memory for what Nsight Compute counted");
fail:
    if (log) unlink(log);
    json_decref(raw);
    json_decref(rows);
    b1i_free(log);
    b1i_free(text);
    return st;
}

static b1_status run_cells(b1i_lab *lab, json_t *cells, b1_error *err)
{
    static const char *const controls[] = {"all", "none"};
    b1_status st;
    char *folder = NULL;
    const size_t count = lab->plan.count;
    B1I_TRY(raw_folder(lab, &folder, err));
    for (size_t i = 0; i < 2 * count; i++) {
        const b1i_lab_work_cell *cell = b1i_profile_work(lab, i / 2);
        b1i_lab_say(lab, "counting", i, 2 * count);
        B1I_TRY(b1i_lab_may_go_on(lab, err));
        if (cell) B1I_TRY(run_cell(lab, folder, lab->plan.cells[i / 2].name, cell, controls[i % 2], cells, err));
    }
fail:
    if (folder) rmdir(folder); /* where nothing came */
    b1i_free(folder);
    return st;
}

b1_status b1i_profile_ncu(b1i_lab *lab, b1_error *err)
{
    static const char *const version[] = {"ncu", "--version", NULL};
    b1_status st;
    const char *message = NULL;
    int exit_code = 0;
    json_t *cells = json_array();
    B1I_TRY(b1i_evidence_command(lab->evidence, "ncu-version", version, false, &exit_code, err));
    if (exit_code)
        message = "Nsight Compute (ncu) could not be started: see profile/ncu-version.stderr";
    else if (!lab->options->executable)
        message = "this command's own file is not known, so that Nsight Compute cannot start it";
    else
        B1I_TRY(run_cells(lab, cells, err));
    B1I_TRY(b1i_evidence_json(lab->evidence, "profile/ncu.json",
                              json_pack("{s:s,s:b,s:o,s:i,s:O}", "schema", "batchone.ncu/1", "found", exit_code == 0,
                                        "message", message ? json_string(message) : json_null(), "invocations",
                                        B1I_PROFILE_RUNS, "cells", cells),
                              err));
fail:
    json_decref(cells);
    return st;
}
