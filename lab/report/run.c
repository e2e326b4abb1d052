/* SPDX-License-Identifier: MIT
 *
 * A run's documents and an experiment's cells, for the report.
 */
#include "lab/report/run.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DOCUMENT_MOST_BYTES = 256 << 20, AXES_MOST = 8, SEGMENTS_MOST = 12 };

const char *const b1i_report_kind_titles[b1i_lab_kinds] = {"Host single", "Host enqueue", "Device interval"};
const char *const b1i_report_kind_notes[b1i_lab_kinds] = {
    "from the submission of one invocation to its completion, by the host’s clock.",
    "a batch's submission alone, without its completion, over its invocations, by the host’s clock.",
    "the device’s timeline from the first invocation’s beginning to the last one’s end, over their number; what the "
    "device waits for the host is part of it, so it is no isolated kernel time.",
};

/* ---- reading documents ---- */

static b1_status read_json(const char *directory, const char *name, bool needed, json_t **out, b1_error *err)
{
    b1_status st = B1_OK;
    size_t room = strlen(directory) + strlen(name) + 2, bytes = 0;
    char *path = b1i_malloc(room), *text = NULL;
    json_error_t why;
    b1_error reading = {0};
    *out = NULL;
    if (!path) return b1i_fail_memory(err, room);
    snprintf(path, room, "%s/%s", directory, name);
    st = b1i_read_file(path, DOCUMENT_MOST_BYTES, &text, &bytes, &reading);
    if (st == B1_OK && !(*out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why)))
        st = b1i_fail(&reading, B1_IO, "%s: is no JSON document: line %d: %s", path, why.line, why.text);
    if (st != B1_OK && st != B1_MEMORY) st = needed ? b1i_fail(err, B1_IO, "%s", reading.message) : B1_OK;
    if (st == B1_MEMORY && err) *err = reading;
    b1i_free(text);
    b1i_free(path);
    return st;
}

b1_status b1i_report_run_read(const b1i_report_run *run, const char *name, json_t **out, b1_error *err)
{
    return read_json(run->directory, name, false, out, err);
}

json_t *b1i_report_run_json(const b1i_report_run *run, const char *name)
{
    json_t *document = NULL;
    b1_error ignored = {0};
    read_json(run->directory, name, false, &document, &ignored);
    return document;
}

const json_t *b1i_report_at(const json_t *document, const char *path)
{
    while (document && *path) {
        char key[64];
        size_t length = strcspn(path, ".");
        if (length >= sizeof key) return NULL;
        memcpy(key, path, length);
        key[length] = 0;
        document = json_object_get(document, key);
        path += length + (path[length] == '.');
    }
    return document;
}

const char *b1i_report_string(const json_t *document, const char *path)
{
    return json_string_value(b1i_report_at(document, path));
}

const char *b1i_report_word(const json_t *document, const char *path)
{
    const char *text = b1i_report_string(document, path);
    return text ? text : "";
}

bool b1i_report_is(const json_t *document, const char *path, const char *word)
{
    return strcmp(b1i_report_word(document, path), word) == 0;
}

double b1i_report_number(const json_t *document, const char *path)
{
    const json_t *value = b1i_report_at(document, path);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *b1i_report_run_device(const b1i_report_run *run)
{
    static const char *const paths[] = {"gpu.name", "machine.gpu.name", "cpu", "machine.cpu", "device_name", NULL};
    const char *name = NULL;
    bool cpu = strcmp(run->device, "cpu") == 0;
    for (int i = 0; paths[i] && !name; i++)
        if (!cpu || !strstr(paths[i], "gpu")) name = b1i_report_string(run->environment, paths[i]);
    if (run->sort != b1i_report_lab && b1i_report_string(run->analysis, "device_name"))
        name = b1i_report_string(run->analysis, "device_name");
    return name ? name : run->device;
}

/* ---- names of cells ---- */

/* "32768", "32K", "32KiB", "1.5M"; NaN: no number. */
static double parameter_value(const char *text, size_t length)
{
    char copy[40], *end;
    if (length == 0 || length >= sizeof copy || !isdigit((unsigned char)text[0])) return NAN;
    memcpy(copy, text, length);
    copy[length] = 0;
    double value = strtod(copy, &end), thousand = strchr(end, 'i') || !strchr(end, 'B') ? 1024 : 1000;
    const char *unit = *end ? strchr("kKMGT", *end) : NULL;
    int powers = unit ? *unit == 'k' ? 1 : (int)(unit - "kKMGT") : 0;
    if (*end && !unit && *end != 'B') return NAN;
    for (int i = 0; i < powers; i++) value *= thousand;
    return isfinite(value) ? value : NAN;
}

typedef struct segment {
    const char *text, *key, *value; /* key NULL: no parameter */
    size_t length, key_length, value_length;
} segment;

/* "48x1000": rows and width of a matrix. */
static int split_matrix(const char *text, size_t length, segment *parts)
{
    size_t rows = strspn(text, "0123456789");
    if (rows == 0 || rows + 1 >= length || text[rows] != 'x') return 0;
    if (strspn(text + rows + 1, "0123456789") < length - rows - 1) return 0;
    parts[0] = (segment){text, "rows", text, length, 4, rows};
    parts[1] = (segment){text, "width", text + rows + 1, length, 5, length - rows - 1};
    return 2;
}

static int split(const char *name, segment *parts)
{
    int count = 0;
    for (const char *at = name; count + 1 < SEGMENTS_MOST; at++) {
        size_t length = strcspn(at, "/,");
        const char *equals = memchr(at, '=', length);
        int matrix = length ? split_matrix(at, length, parts + count) : 0;
        count += matrix;
        if (equals) {
            size_t key = (size_t)(equals - at);
            parts[count++] = (segment){at, at, equals + 1, length, key, length - key - 1};
        } else if (length && !matrix) {
            parts[count++] = (segment){at, NULL, NULL, length, 0, 0};
        }
        at += length;
        if (!*at) break;
    }
    return count;
}

static double segment_value(const segment *s) { return s->key ? parameter_value(s->value, s->value_length) : NAN; }

static const char *plain_name(const b1i_report_cell *cell) { return cell->twin ? cell->name + 4 : cell->name; }

typedef struct axis {
    char key[B1I_REPORT_WORDS];
    double values[64];
    int count;
} axis;

static void note_axis(axis *axes, int *count, const segment *s)
{
    double value = segment_value(s);
    int i = 0, v = 0;
    if (!isfinite(value) || s->key_length >= sizeof axes->key) return;
    while (i < *count && (strlen(axes[i].key) != s->key_length || memcmp(axes[i].key, s->key, s->key_length) != 0)) i++;
    if (i == AXES_MOST) return;
    if (i == *count) {
        axes[i] = (axis){.count = 0};
        memcpy(axes[i].key, s->key, s->key_length);
        ++*count;
    }
    while (v < axes[i].count && axes[i].values[v] != value) v++;
    if (v == axes[i].count && v < 64) axes[i].values[axes[i].count++] = value;
}

/* The parameter with the most values, of two the first. */
static b1_status choose_axis(b1i_report_run *run, b1_error *err)
{
    axis *axes = b1i_calloc(AXES_MOST, sizeof *axes);
    int count = 0, best = 0;
    if (!axes) return b1i_fail_memory(err, AXES_MOST * sizeof *axes);
    for (size_t i = 0; i < run->count; i++) {
        segment parts[SEGMENTS_MOST];
        int n = split(plain_name(&run->cells[i]), parts);
        for (int k = 0; k < n; k++) note_axis(axes, &count, &parts[k]);
    }
    for (int i = 1; i < count; i++)
        if (axes[i].count > axes[best].count) best = i;
    if (count && axes[best].count > 1) memcpy(run->axis, axes[best].key, sizeof run->axis);
    b1i_free(axes);
    return B1_OK;
}

static void append(char *words, const char *text, size_t length)
{
    size_t used = strlen(words);
    snprintf(words + used, B1I_REPORT_WORDS - used, "%s%.*s", used ? ", " : "", (int)(length < 90 ? length : 90), text);
}

static void append_part(char *words, const segment *s)
{
    char part[B1I_REPORT_WORDS];
    int key = (int)(s->key_length < 40 ? s->key_length : 40),
        value = (int)(s->value_length < 40 ? s->value_length : 40);
    if (!s->key) {
        append(words, s->text, s->length);
        return;
    }
    snprintf(part, sizeof part, "%.*s=%.*s", key, s->key, value, s->value);
    append(words, part, strlen(part));
}

static void split_variant(b1i_report_cell *c)
{
    static const char *const modes[] = {"stream", "graph", "pdl"};
    const char *tail = strrchr(c->variant, '_');
    c->mode = B1I_REPORT_NO_MODE;
    memcpy(c->family, c->variant, sizeof c->family);
    for (int i = 0; i < 3; i++) {
        if (strcmp(c->variant, modes[i]) == 0) c->mode = i;
        if (!tail || strcmp(tail + 1, modes[i]) != 0) continue;
        c->mode = i;
        c->family[tail - c->variant] = 0;
    }
}

static void take_apart(b1i_report_cell *c, const char *axis_key)
{
    segment parts[SEGMENTS_MOST];
    int n = split(plain_name(c), parts), variant = -1;
    size_t key = strlen(axis_key);
    c->x = NAN;
    for (int i = 0; i < n; i++)
        if (!parts[i].key) variant = i;
    for (int i = 0; i < n; i++) {
        const segment *s = &parts[i];
        if (i == variant)
            append(c->variant, s->text, s->length);
        else if (s->key && key && s->key_length == key && memcmp(s->key, axis_key, key) == 0)
            c->x = segment_value(s);
        else
            append_part(c->panel, s);
    }
    if (variant < 0) append(c->variant, "all", 3);
    split_variant(c);
}

static void color_cells(b1i_report_run *run)
{
    int next = 0;
    for (size_t i = 0; i < run->count; i++) {
        size_t k = 0;
        while (k < i && strcmp(run->cells[k].family, run->cells[i].family) != 0) k++;
        run->cells[i].color = k < i ? run->cells[k].color : next++;
    }
}

/* ---- cells ---- */

static double bound(const json_t *cell, size_t index)
{
    const json_t *value = json_array_get(json_object_get(cell, "p90_interval_ns"), index);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool read_cell(const json_t *json, b1i_report_cell *c)
{
    int kind = 0;
    const char *name = b1i_report_word(json, "kind");
    while (kind < b1i_lab_kinds && strcmp(b1i_lab_kind_names[kind], name) != 0) kind++;
    if (kind == b1i_lab_kinds) return false;
    *c = (b1i_report_cell){
        .json = json,
        .name = b1i_report_word(json, "cell"),
        .verdict = b1i_report_word(json, "verdict"),
        .message = b1i_report_word(json, "message"),
        .kind = (b1i_lab_kind)kind,
        .n = (int)json_integer_value(json_object_get(json, "n")),
        .depth = (int)json_integer_value(json_object_get(json, "depth")),
        .throttled = (int)json_integer_value(json_object_get(json, "throttled")),
        .host_bound = json_is_true(json_object_get(json, "host_bound")),
        .median = b1i_report_number(json, "median_ns"),
        .p10 = b1i_report_number(json, "p10_ns"),
        .p90 = b1i_report_number(json, "p90_ns"),
        .low = bound(json, 0),
        .high = bound(json, 1),
        .gbps = b1i_report_number(json, "gbps"),
        .bytes = b1i_report_number(json, "facts.bytes"),
        .sm_mhz = b1i_report_number(json, "sm_mhz"),
    };
    c->twin = strncmp(c->name, "a/a ", 4) == 0;
    return true;
}

static b1_status read_cells(b1i_report_run *run, b1_error *err)
{
    const json_t *list = json_object_get(run->analysis, "cells"), *json;
    size_t i;
    if (!json_is_array(list)) return b1i_fail(err, B1_IO, "%s/analysis.json: has no array \"cells\"", run->directory);
    if (!(run->cells = b1i_calloc(json_array_size(list) + 1, sizeof *run->cells)))
        return b1i_fail_memory(err, json_array_size(list) * sizeof *run->cells);
    json_array_foreach(list, i, json) if (read_cell(json, &run->cells[run->count])) run->count++;
    b1_status st = choose_axis(run, err);
    if (st != B1_OK) return st;
    for (i = 0; i < run->count; i++) take_apart(&run->cells[i], run->axis);
    color_cells(run);
    return B1_OK;
}

bool b1i_report_run_has(const b1i_report_run *run, b1i_lab_kind kind)
{
    for (size_t i = 0; i < run->count; i++)
        if (run->cells[i].kind == kind && run->cells[i].n > 0) return true;
    return false;
}

static b1i_report_sort sort_of(const json_t *analysis)
{
    const char *schema = b1i_report_word(analysis, "schema");
    if (strcmp(schema, "batchone.study-analysis/1") == 0) return b1i_report_study;
    return strcmp(schema, "batchone.ab/1") == 0 ? b1i_report_ab : b1i_report_lab;
}

b1_status b1i_report_run_load(const char *directory, b1i_report_run *out, b1_error *err)
{
    b1_status st;
    size_t length = strlen(directory);
    *out = (b1i_report_run){.number = 1};
    while (length > 1 && directory[length - 1] == '/') length--;
    if (!(out->directory = b1i_strndup(directory, length)) || !(out->href = b1i_strdup(""))) goto memory;
    const char *slash = strrchr(out->directory, '/');
    if (!(out->name = b1i_strdup(slash && slash[1] ? slash + 1 : out->directory))) goto memory;
    B1I_TRY(read_json(out->directory, "analysis.json", true, &out->analysis, err));
    B1I_TRY(read_json(out->directory, "environment.json", false, &out->environment, err));
    B1I_TRY(read_json(out->directory, "plan.json", false, &out->plan, err));
    B1I_TRY(read_json(out->directory, "device-before.json", false, &out->before, err));
    B1I_TRY(read_json(out->directory, "device-after.json", false, &out->after, err));
    B1I_TRY(read_json(out->directory, "commands.json", false, &out->commands, err));
    B1I_TRY(read_json(out->directory, "manifest.json", false, &out->manifest, err));
    static const char *const names[] = {[b1i_report_study] = "study", [b1i_report_ab] = "A/B"};
    out->sort = sort_of(out->analysis);
    out->experiment = out->sort == b1i_report_lab ? b1i_report_word(out->analysis, "experiment") : names[out->sort];
    out->device = b1i_report_word(out->analysis, "device");
    if (out->sort == b1i_report_lab) B1I_TRY(read_cells(out, err));
    if (out->sort == b1i_report_study) B1I_TRY(b1i_report_groups_load(out, err));
    return B1_OK;
memory:
    st = b1i_fail_memory(err, length + 1);
fail:
    b1i_report_run_free(out);
    return st;
}

void b1i_report_run_free(b1i_report_run *run)
{
    json_decref(run->analysis);
    json_decref(run->environment);
    json_decref(run->plan);
    json_decref(run->before);
    json_decref(run->after);
    json_decref(run->commands);
    json_decref(run->manifest);
    b1i_free(run->directory);
    b1i_free(run->name);
    b1i_free(run->href);
    b1i_free(run->cells);
    b1i_report_groups_free(run);
    *run = (b1i_report_run){0};
}
