/* SPDX-License-Identifier: MIT
 *
 * Verification of a run's directory: the manifest against what lies there, and what can be made again against what was
 * kept. Nothing is written. See evidence.h.
 */
#include "lab/analysis.h"
#include "lab/evidence.h"
#include "lab/files.h"
#include "lab/plan.h"
#include "lab/profile.h"
#include "lab/report/plots.h"
#include "lab/trace_room.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* What every run has. */
static const char *const REQUIRED[] = {"plan.json",          "samples.jsonl",     "analysis.json",   "commands.json",
                                       "device-before.json", "device-after.json", "environment.json"};
enum { REQUIRED_COUNT = sizeof REQUIRED / sizeof *REQUIRED };

typedef struct verification {
    const char *directory;
    void (*say)(void *user, const char *line);
    void *user;
    bool holds;
    json_t *files;   /* of the manifest: an array of entries that are as they must be */
    json_t *by_path; /* the same by their paths, and true for each folder "x/" that one is in */
} verification;

/* What is no printable text of the line becomes '?'. */
static void make_printable(char *line)
{
    for (utf8proc_uint8_t *at = (utf8proc_uint8_t *)line; *at;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t bytes = utf8proc_iterate(at, -1, &code);
        bool printable = bytes > 0 && code >= ' ' && (code < 0x7f || code > 0x9f);
        if (bytes < 1) bytes = 1;
        for (utf8proc_ssize_t i = 0; i < bytes && !printable; i++) at[i] = '?';
        at += bytes;
    }
}

/* A line for the user. */
__attribute__((format(printf, 2, 3))) static void differs(verification *v, const char *format, ...)
{
    char line[1200];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    make_printable(line);
    v->holds = false;
    if (v->say) v->say(v->user, line);
}

static void say_line(void *user, const char *line) { differs(user, "%s", line); }

/* A failure to read what the run left is a difference; one of memory is not. */
static b1_status as_difference(verification *v, b1_status st, const b1_error *why, b1_error *err)
{
    if (st == B1_MEMORY) return b1i_fail(err, st, "%s", why->message);
    if (st != B1_OK) differs(v, "%s", why->message);
    return B1_OK;
}

/* ---- the manifest ---- */

static bool is_sha256(const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)text[i]) && !(text[i] >= 'a' && text[i] <= 'f')) return false;
    return n == 64;
}

static const char *path_of(const json_t *entry) { return json_string_value(json_object_get(entry, "path")); }

static const json_t *find(const verification *v, const char *path)
{
    const json_t *found = json_object_get(v->by_path, path);
    return json_is_object(found) ? found : NULL;
}

/* An entry that is as it must be, with the folders that its file is in. */
static b1_status keep(verification *v, const char *path, json_t *entry, b1_error *err)
{
    bool good = json_array_append(v->files, entry) == 0 && json_object_set(v->by_path, path, entry) == 0;
    for (const char *slash = strchr(path, '/'); good && slash; slash = strchr(slash + 1, '/')) {
        char *folder = b1i_strndup(path, (size_t)(slash - path) + 1);
        good = folder && json_object_set_new(v->by_path, folder, json_true()) == 0;
        b1i_free(folder);
    }
    return good ? B1_OK : b1i_fail(err, B1_MEMORY, "not enough memory for the manifest");
}

static b1_status take_entry(verification *v, json_t *entry, size_t number, b1_error *err)
{
    const char *path, *hash;
    json_int_t size;
    if (json_unpack(entry, "{s:s,s:I,s:s!}", "path", &path, "size", &size, "sha256", &hash) != 0)
        differs(v, "manifest.json: entry %zu has not exactly path, size and sha256", number);
    else if (!b1i_lab_name_ok(path) || strcmp(path, "manifest.json") == 0)
        differs(v, "manifest.json: \"%s\" is no path of a run's file", path);
    else if (size < 0 || !is_sha256(hash))
        differs(v, "manifest.json: size or sha256 of %s is none", path);
    else if (find(v, path))
        differs(v, "manifest.json: %s stands there twice", path);
    else
        return keep(v, path, entry, err);
    return B1_OK;
}

static b1_status read_manifest(verification *v, b1_error *err)
{
    json_t *manifest, *files;
    const char *schema;
    b1_error why = {0};
    b1_status st = b1i_lab_read_json(v->directory, "manifest.json", &manifest, &why);
    if (st != B1_OK) return as_difference(v, st, &why, err);
    if (json_unpack(manifest, "{s:s,s:o!}", "schema", &schema, "files", &files) != 0 || !json_is_array(files))
        differs(v, "manifest.json: has not exactly schema and files");
    else if (strcmp(schema, "batchone.manifest/1") != 0)
        differs(v, "manifest.json: the schema is \"%s\", not batchone.manifest/1", schema);
    else
        for (size_t i = 0; i < json_array_size(files) && st == B1_OK; i++)
            st = take_entry(v, json_array_get(files, i), i, err);
    json_decref(manifest);
    return st;
}

/* ---- the files ---- */

static b1_status check_file(verification *v, const json_t *entry, b1_error *err)
{
    const char *name = path_of(entry), *hash = json_string_value(json_object_get(entry, "sha256"));
    json_int_t size = json_integer_value(json_object_get(entry, "size"));
    char hex[65];
    uint64_t bytes;
    b1_error why = {0};
    char *path = b1i_lab_join(v->directory, name);
    if (!path) return b1i_fail_memory(err, strlen(name));
    b1_status st = b1i_sha256_file(path, hex, &bytes, &why);
    b1i_free(path);
    if (st != B1_OK) return as_difference(v, st, &why, err);
    if (bytes != (uint64_t)size)
        differs(v, "%s: has %llu bytes, the manifest says %lld", name, (unsigned long long)bytes, (long long)size);
    else if (strcmp(hex, hash) != 0)
        differs(v, "%s: its SHA-256 is %s, the manifest says %s", name, hex, hash);
    return B1_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* What lies there but is not of the run, and the files of it that are there. */
static b1_status check_files(verification *v, b1_error *err)
{
    b1i_names names;
    b1_error why = {0};
    b1_status st = b1i_lab_list(v->directory, &names, &why);
    if (st != B1_OK) return as_difference(v, st, &why, err);
    for (size_t i = 0; i < names.count && st == B1_OK; i++) {
        const char *name = names.items[i];
        size_t length = strlen(name);
        const json_t *entry = find(v, name);
        if (name[length - 1] == '@')
            differs(v, "%.*s: is neither a file nor a folder", (int)(length - 1), name);
        else if (name[length - 1] == '/' && !json_object_get(v->by_path, name))
            differs(v, "%s: is a folder that the manifest does not have", name);
        else if (name[length - 1] != '/' && !entry && strcmp(name, "manifest.json") != 0)
            differs(v, "%s: is not in the manifest", name);
        else if (entry)
            st = check_file(v, entry, err);
    }
    for (size_t i = 0; i < json_array_size(v->files) && st == B1_OK; i++) {
        const char *name = path_of(json_array_get(v->files, i));
        if (!bsearch(&name, names.items, names.count, sizeof *names.items, by_name)) differs(v, "%s: is missing", name);
    }
    b1i_names_free(&names);
    for (int i = 0; i < REQUIRED_COUNT; i++)
        if (!find(v, REQUIRED[i])) differs(v, "manifest.json: has no %s, which every run has", REQUIRED[i]);
    return st;
}

/* The states of the device are documents of the run's device. */
static b1_status check_states(verification *v, b1_error *err)
{
    static const char *const names[] = {"device-before.json", "device-after.json"};
    b1_error why = {0};
    json_t *plan = NULL, *state = NULL;
    b1_status st = b1i_lab_read_json(v->directory, "plan.json", &plan, &why);
    for (int i = 0; i < 2 && st == B1_OK; i++) {
        if (!find(v, names[i])) continue;
        st = b1i_lab_read_json(v->directory, names[i], &state, &why);
        const char *schema = json_string_value(json_object_get(state, "schema"));
        if (st == B1_OK && (!schema || strcmp(schema, "batchone.device/1") != 0 ||
                            !json_equal(json_object_get(state, "device"), json_object_get(plan, "device"))))
            differs(v, "%s: is no batchone.device/1 of the device of plan.json", names[i]);
        json_decref(state);
    }
    json_decref(plan);
    return as_difference(v, st, &why, err);
}

/* ---- what can be made again ---- */

static b1_status check_analysis(verification *v, b1_error *err)
{
    b1_error why = {0};
    json_t *stored = NULL, *made = NULL;
    b1_status st = b1i_lab_read_json(v->directory, "analysis.json", &stored, &why);
    if (st == B1_OK) st = b1i_analysis_make(v->directory, &made, &why);
    if (st == B1_OK) b1i_analysis_equal(stored, made, say_line, v);
    json_decref(stored);
    json_decref(made);
    return as_difference(v, st, &why, err);
}

static b1_status check_traces(verification *v, b1_error *err)
{
    b1_error why = {0};
    return as_difference(v, b1i_traces_check(v->directory, v->files, say_line, v, &why), &why, err);
}

static b1_status check_plots(verification *v, b1_error *err)
{
    b1_error why = {0};
    return as_difference(v, b1i_plots_check(v->directory, say_line, v, &why), &why, err);
}

static b1_status check_profile(verification *v, b1_error *err)
{
    b1_error why = {0};
    json_t *activities = NULL;
    if (!find(v, "profile/activities.json")) return B1_OK;
    b1_status st = b1i_lab_read_json(v->directory, "profile/activities.json", &activities, &why);
    if (st == B1_OK) b1i_profile_check(activities, say_line, v);
    json_decref(activities);
    return as_difference(v, st, &why, err);
}

/* What plan and environment both say. */
static void compare_settings(verification *v, const json_t *plan, const json_t *environment)
{
    static const struct {
        const char *plan, *within, *environment;
    } both[] = {
        {"binary_sha256", NULL, "binary_sha256"}, {"quick", "options", "quick"},  {"threads", "options", "threads"},
        {"rounds", "options", "rounds"},          {"device_name", "gpu", "name"}, {"device_name", "machine", "cpu"},
    };
    const char *device = json_string_value(json_object_get(plan, "device"));
    const bool gpu = device && strcmp(device, "cpu") != 0;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        const char *within = both[i].within;
        if (within && strcmp(within, gpu ? "machine" : "gpu") == 0) continue;       /* the device is the other one */
        if (within && json_is_null(json_object_get(environment, within))) continue; /* a GPU that told nothing */
        const json_t *place = within ? json_object_get(environment, within) : environment;
        if (!json_equal(json_object_get(plan, both[i].plan), json_object_get(place, both[i].environment)))
            differs(v, "environment.json: %s%s%s is not %s of plan.json", within ? within : "", within ? "." : "",
                    both[i].environment, both[i].plan);
    }
}

/* The environment is of the run that the plan is of. */
static b1_status check_run(verification *v, b1_error *err)
{
    b1_error why = {0};
    b1i_lab_plan plan = {0};
    json_t *environment = NULL, *settings = NULL;
    const char *run, *experiment, *device;
    b1_status st = b1i_lab_plan_read(v->directory, &plan, &why);
    if (st == B1_OK) st = b1i_lab_read_json(v->directory, "plan.json", &settings, &why);
    if (st == B1_OK) st = b1i_lab_read_json(v->directory, "environment.json", &environment, &why);
    if (st == B1_OK) {
        compare_settings(v, settings, environment);
        if (json_unpack(environment, "{s:s,s:s,s:s}", "run", &run, "experiment", &experiment, "device", &device) != 0)
            differs(v, "environment.json: has no run, experiment or device");
        else if (strcmp(run, plan.run) != 0 || strcmp(experiment, plan.experiment) != 0 ||
                 strcmp(device, plan.device) != 0)
            differs(v, "environment.json: is of the run %s (%s on %s), plan.json of %s (%s on %s)", run, experiment,
                    device, plan.run, plan.experiment, plan.device);
    }
    json_decref(environment);
    json_decref(settings);
    b1i_lab_plan_free(&plan);
    return as_difference(v, st, &why, err);
}

/* Each command's output that is said to be a file is one of the manifest's. */
static b1_status check_commands(verification *v, b1_error *err)
{
    static const char *const streams[] = {"stdout", "stderr"};
    b1_error why = {0};
    json_t *document = NULL;
    b1_status st = b1i_lab_read_json(v->directory, "commands.json", &document, &why);
    const json_t *commands = json_object_get(document, "commands");
    if (st == B1_OK && !json_is_array(commands)) differs(v, "commands.json: has no commands");
    for (size_t i = 0; i < json_array_size(commands); i++)
        for (int k = 0; k < 2; k++) {
            const json_t *stream = json_object_get(json_array_get(commands, i), streams[k]);
            const char *file = json_string_value(json_object_get(stream, "file"));
            if (!json_is_object(stream) && !json_is_null(stream))
                differs(v, "commands.json: command %zu has no %s", i, streams[k]);
            else if (file && !find(v, file))
                differs(v, "commands.json: %s of command %zu is in %s, which is not there", streams[k], i, file);
        }
    json_decref(document);
    return as_difference(v, st, &why, err);
}

/* ---- all ---- */

/* A directory that is not sealed: why. */
static void say_state(verification *v, b1i_evidence_state is)
{
    json_t *failed;
    if (is == b1i_evidence_incomplete) {
        differs(v, "%s: is incomplete: no manifest.json seals it", v->directory);
    } else if (is == b1i_evidence_failed) {
        const char *reason = NULL;
        if (b1i_lab_read_json(v->directory, "failed.json", &failed, NULL) != B1_OK) failed = NULL;
        reason = json_string_value(json_object_get(failed, "reason"));
        differs(v, "%s: is a run that failed: %s", v->directory, reason ? reason : "for a reason that cannot be read");
        json_decref(failed);
    } else {
        differs(v, "%s: is no run of the lab", v->directory);
    }
}

b1_status b1i_evidence_verify(const char *directory, void (*say)(void *user, const char *line), void *user, bool *holds,
                              b1_error *err)
{
    b1_status st = B1_OK;
    verification v = {directory, say, user, true, NULL, NULL};
    b1i_evidence_state is = b1i_evidence_look(directory);
    *holds = false;
    if (is == b1i_evidence_none) return b1i_fail(err, B1_IO, "there is no %s", directory);
    if (is != b1i_evidence_sealed) {
        say_state(&v, is);
        return B1_OK;
    }
    if (!(v.files = json_array()) || !(v.by_path = json_object())) {
        st = b1i_fail_memory(err, sizeof v);
        goto fail;
    }
    B1I_TRY(read_manifest(&v, err));
    B1I_TRY(check_files(&v, err));
    B1I_TRY(check_run(&v, err));
    B1I_TRY(check_states(&v, err));
    B1I_TRY(check_commands(&v, err));
    B1I_TRY(check_traces(&v, err));
    B1I_TRY(check_profile(&v, err));
    B1I_TRY(check_analysis(&v, err));
    if (v.holds) B1I_TRY(check_plots(&v, err)); /* else they follow from what does not hold */
    *holds = v.holds;
fail:
    json_decref(v.files);
    json_decref(v.by_path);
    return st;
}
