/* SPDX-License-Identifier: MIT
 *
 * The plan of a study: made from a matrix or a file, written, and read again. See study.h.
 */
#include "lab/study/plan.h"

#include "lab/environment.h"
#include "lab/evidence.h"
#include "lab/files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { CELLS_MOST = 20000 };

/* ---- reading ---- */

void b1i_study_plan_free(b1i_study_planned *plan)
{
    for (size_t i = 0; i < plan->count; i++) b1i_setting_free(&plan->cells[i].setting);
    b1i_free(plan->cells);
    json_decref(plan->json);
    *plan = (b1i_study_planned){0};
}

static b1_status add(b1i_study_planned *plan, const char *id, const b1i_setting *setting, b1_error *err)
{
    if (!b1i_grow(&plan->cells, &plan->room, plan->count + 1, sizeof *plan->cells))
        return b1i_fail_memory(err, plan->count * sizeof *plan->cells);
    b1i_planned *cell = &plan->cells[plan->count];
    snprintf(cell->id, sizeof cell->id, "%s", id);
    b1_status st = b1i_setting_copy(setting, &cell->setting, err);
    if (st == B1_OK) plan->count++;
    return st;
}

static b1_status read_cell(b1i_study_planned *plan, const json_t *entry, size_t number, b1_error *err)
{
    const char *id;
    json_t *json;
    b1i_setting setting = {0};
    char made[B1I_SETTING_ID];
    b1_error why = {0};
    b1_status st;
    if (json_unpack((json_t *)(uintptr_t)entry, "{s:s,s:o!}", "id", &id, "setting", &json) != 0)
        return b1i_fail(err, B1_IO, "plan.json: cell %zu has not exactly id and setting", number);
    st = b1i_setting_read(json, &setting, &why);
    if (st != B1_OK) return b1i_fail(err, st, "plan.json: cell %zu: %s", number, why.message);
    B1I_TRY(b1i_setting_id(&setting, plan->binary, made, err));
    if (strcmp(made, id) != 0) {
        st = b1i_fail(err, B1_IO, "plan.json: cell %zu is called %.20s, and its setting and binary give %s", number, id,
                      made);
        goto fail;
    }
    if (b1i_study_plan_find(plan, id) >= 0) {
        st = b1i_fail(err, B1_IO, "plan.json: cell %s stands there twice", id);
        goto fail;
    }
    B1I_TRY(add(plan, id, &setting, err));
fail:
    b1i_setting_free(&setting);
    return st;
}

b1i_device b1i_study_device(const char *name)
{
    int ordinal = 0;
    return b1i_device_at(sscanf(name, "cuda:%d", &ordinal) == 1 ? ordinal : B1I_DEVICE_CPU);
}

static b1_status read_plan(const char *directory, b1i_study_planned *out, b1_error *err)
{
    b1_status st;
    const char *schema, *version;
    json_t *cells, *options, *name, *uuid;
    B1I_TRY(b1i_lab_read_json(directory, "plan.json", &out->json, err));
    if (strcmp(b1i_lab_text_at(out->json, "schema"), B1I_STUDY_PLAN) != 0)
        return b1i_fail(err, B1_IO, "plan.json: the schema is \"%.60s\", not " B1I_STUDY_PLAN,
                        b1i_lab_text_at(out->json, "schema"));
    if (json_unpack(out->json, "{s:s,s:s,s:s,s:o,s:o,s:s,s:s,s:o,s:o!}", "schema", &schema, "run", &out->run, "device",
                    &out->device, "device_name", &name, "gpu_uuid", &uuid, "version", &version, "binary_sha256",
                    &out->binary, "options", &options, "cells", &cells) != 0)
        return b1i_fail(err, B1_IO, "plan.json: a key is missing, of another type, or unknown");
    out->where = b1i_study_device(out->device);
    out->device_name = json_string_value(name);
    out->uuid = json_string_value(uuid);
    if (!json_is_array(cells) || !json_is_object(options))
        return b1i_fail(err, B1_IO, "plan.json: it has no cells or no options");
    for (size_t i = 0; i < json_array_size(cells); i++) B1I_TRY(read_cell(out, json_array_get(cells, i), i, err));
fail:
    return st;
}

b1_status b1i_study_plan_read(const char *directory, b1i_study_planned *out, b1_error *err)
{
    b1_error why = {0};
    *out = (b1i_study_planned){0};
    b1_status st = read_plan(directory, out, &why);
    if (st == B1_OK) return st;
    b1i_study_plan_free(out);
    if (st == B1_IO) return b1i_fail(err, B1_ARGUMENT, "%s has no plan of a study: %s", directory, why.message);
    return b1i_fail(err, st, "%s", why.message);
}

int b1i_study_plan_find(const b1i_study_planned *plan, const char *id)
{
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan->cells[i].id, id) == 0) return (int)i;
    return -1;
}

bool b1i_study_has(const char *directory, const char *id)
{
    char path[4096];
    struct stat is;
    if ((size_t)snprintf(path, sizeof path, "%s/cells/%s", directory, id) >= sizeof path) return false;
    return lstat(path, &is) == 0;
}

b1_status b1i_study_each(const char *directory,
                         b1_status (*say)(void *user, const char *id, const b1i_setting *setting, bool done,
                                          b1_error *err),
                         void *user, b1_error *err)
{
    b1i_study_planned plan;
    b1_status st = b1i_study_plan_read(directory, &plan, err);
    for (size_t i = 0; i < plan.count && st == B1_OK; i++)
        st = say(user, plan.cells[i].id, &plan.cells[i].setting, b1i_study_has(directory, plan.cells[i].id), err);
    b1i_study_plan_free(&plan);
    return st;
}

/* ---- whether it is for this build and machine ---- */

static b1_status hash_of(const char *executable, char hex[65], b1_error *err)
{
    uint64_t bytes;
    return b1i_sha256_file(executable ? executable : "/proc/self/exe", hex, &bytes, err);
}

b1_status b1i_study_plan_here(const b1i_study_planned *plan, const char *executable, b1_error *err)
{
    char hex[65], name[256];
    const b1i_device device = b1i_study_device(plan->device);
    b1_status st = hash_of(executable, hex, err);
    if (st != B1_OK) return st;
    if (strcmp(hex, plan->binary) != 0)
        return b1i_fail(err, B1_ARGUMENT,
                        "it was planned with another build of batchone, whose SHA-256 is %.16s…, not %.16s…",
                        plan->binary, hex);
    b1i_environment_device_name(&device, name, sizeof name);
    if (plan->device_name && strcmp(name, plan->device_name) != 0)
        return b1i_fail(err, B1_ARGUMENT, "it was planned for %s, and %s is %s here", plan->device_name, plan->device,
                        name);
    return B1_OK;
}

/* ---- making ---- */

/* What is planned: settings in order, and a note of the options they are from. */
typedef struct maker {
    const b1i_study_options *options;
    char binary[65];
    b1i_study_planned plan;
    json_t *note;
} maker;

static b1_status take(maker *m, b1i_setting *setting, b1_error *err)
{
    char id[B1I_SETTING_ID];
    if (m->plan.count >= CELLS_MOST) return b1i_fail(err, B1_ARGUMENT, "over %d cells are planned", CELLS_MOST);
    b1_status st = b1i_setting_id(setting, m->binary, id, err);
    if (st != B1_OK) return st;
    if (b1i_study_plan_find(&m->plan, id) >= 0)
        return b1i_fail(
            err, B1_ARGUMENT, "it is planned twice: %s %s %s at context %d, batch %d, session %d", setting->model,
            setting->executor ? setting->executor
            : setting->stack  ? setting->stack
                              : "without executor",
            setting->weights ? setting->weights : "as-is", setting->context, setting->batch, setting->session);
    return add(&m->plan, id, setting, err);
}

static b1_status take_runners(maker *m, const b1i_study_matrix *x, b1i_setting *s, b1_error *err)
{
    b1_status st;
    for (size_t e = 0; e < x->executor_count; e++) {
        s->executor = (char *)(uintptr_t)x->executors[e];
        s->stack = NULL;
        B1I_TRY(take(m, s, err));
    }
    for (size_t k = 0; k < x->stack_count; k++) {
        s->executor = NULL;
        s->stack = (char *)(uintptr_t)x->stacks[k];
        B1I_TRY(take(m, s, err));
    }
    return B1_OK;
fail:
    return st;
}

/* Every combination of one session and model. */
static b1_status take_model(maker *m, const b1i_study_matrix *x, b1i_setting *s, b1_error *err)
{
    b1_status st;
    const size_t weights = x->weight_count ? x->weight_count : 1;
    for (size_t w = 0; w < weights; w++)
        for (size_t c = 0; c < x->context_count; c++)
            for (size_t b = 0; b < x->batch_count; b++) {
                s->weights = x->weight_count ? (char *)(uintptr_t)x->weights[w] : NULL;
                s->context = (int)x->contexts[c];
                s->batch = (int)x->batches[b];
                B1I_TRY(take_runners(m, x, s, err));
            }
    return B1_OK;
fail:
    return st;
}

static b1_status take_matrix(maker *m, const b1i_study_matrix *x, b1_error *err)
{
    b1_status st;
    for (int session = 1; session <= x->sessions; session++)
        for (size_t i = 0; i < x->model_count; i++) {
            b1i_setting s = {.model = (char *)(uintptr_t)x->models[i],
                             .synthetic = x->synthetic[i],
                             .device = (char *)(uintptr_t)m->options->device.name,
                             .threads = x->threads,
                             .session = session,
                             .warmup = x->warmup,
                             .steps = x->steps,
                             .profile = x->profile,
                             .deadline_ms = x->deadline_ms};
            B1I_TRY(take_model(m, x, &s, err));
        }
    return B1_OK;
fail:
    return st;
}

static json_t *plan_json(const maker *m, const char *run)
{
    const b1i_device *device = &m->options->device;
    b1i_gpu_facts facts = {.uuid = ""};
    char name[256];
    json_t *cells = json_array();
    b1i_environment_device_name(device, name, sizeof name);
    if (device->ordinal != B1I_DEVICE_CPU) b1i_device_facts(device->ordinal, &facts, NULL);
    for (size_t i = 0; cells && i < m->plan.count; i++)
        if (json_array_append_new(cells, json_pack("{s:s,s:o}", "id", m->plan.cells[i].id, "setting",
                                                   b1i_setting_json(&m->plan.cells[i].setting))) != 0) {
            json_decref(cells);
            return NULL;
        }
    return json_pack("{s:s,s:s,s:s,s:o,s:o,s:s,s:s,s:O,s:o}", "schema", B1I_STUDY_PLAN, "run", run, "device",
                     device->name, "device_name", b1i_lab_text(strcmp(name, "unknown") == 0 ? NULL : name), "gpu_uuid",
                     b1i_lab_text(facts.uuid), "version", b1_version(), "binary_sha256", m->binary, "options", m->note,
                     "cells", cells);
}

/* A directory that is begun: whether its plan is this one. */
static b1_status same_plan(const maker *m, b1_error *err)
{
    const char *out = m->options->out;
    b1i_study_planned found;
    b1_status st = b1i_study_plan_read(out, &found, err);
    if (st != B1_OK) return st;
    bool same = found.count == m->plan.count && strcmp(found.device, m->options->device.name) == 0;
    if (strcmp(found.binary, m->binary) != 0)
        st = b1i_fail(err, B1_ARGUMENT,
                      "%s was begun with another build of batchone and cannot be resumed with this one", out);
    for (size_t i = 0; same && i < found.count; i++) same = strcmp(found.cells[i].id, m->plan.cells[i].id) == 0;
    if (st == B1_OK && !same)
        st = b1i_fail(err, B1_ARGUMENT,
                      "%s was begun with another device or other cells and cannot be resumed with these", out);
    b1i_study_plan_free(&found);
    return st;
}

static bool has_plan(const char *directory)
{
    char path[4096];
    struct stat is;
    if ((size_t)snprintf(path, sizeof path, "%s/plan.json", directory) >= sizeof path) return false;
    return lstat(path, &is) == 0;
}

b1_status b1i_study_directory(const b1i_study_options *options, b1i_evidence **evidence, bool *begun, b1_error *err)
{
    const b1i_evidence_state is = b1i_evidence_look(options->out);
    *evidence = NULL;
    *begun = is == b1i_evidence_incomplete && options->resume && has_plan(options->out);
    if (*begun) return B1_OK;
    if (is == b1i_evidence_incomplete && options->resume) return b1i_evidence_resume(options->out, evidence, err);
    if (is == b1i_evidence_none) return b1i_evidence_create(options->out, evidence, err);
    return b1i_fail(err, B1_ARGUMENT, "%s is there already and is never written over: it is %s", options->out,
                    is == b1i_evidence_sealed       ? "a whole run"
                    : is == b1i_evidence_failed     ? "a run that failed"
                    : is == b1i_evidence_incomplete ? "an incomplete run, which --resume continues"
                                                    : "no run of the lab, no study and no A/B");
}

static b1_status write_plan(const maker *m, b1_error *err)
{
    b1_status st;
    b1i_evidence *evidence;
    bool begun;
    char run[40];
    B1I_TRY(b1i_study_directory(m->options, &evidence, &begun, err));
    if (begun) return same_plan(m, err);
    B1I_TRY(b1i_environment_name(run, sizeof run, err));
    B1I_TRY(b1i_evidence_json(evidence, "plan.json", plan_json(m, run), err));
fail:
    b1i_evidence_close(evidence);
    return st;
}

static json_t *texts_json(const char *const *texts, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++)
        json_array_append_new(list, texts[i] ? json_string(texts[i]) : json_null());
    return list;
}

static json_t *numbers_json(const int64_t *numbers, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

b1_status b1i_study_plan(const b1i_study_matrix *x, const b1i_study_options *options, b1_error *err)
{
    b1_status st;
    maker m = {.options = options};
    if (!x->executor_count && !x->stack_count)
        return b1i_fail(err, B1_ARGUMENT, "a study needs an executor or a stack");
    m.note = json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:i,s:i,s:i,s:i,s:b,s:o}", "models", texts_json(x->models, x->model_count), "weights",
        texts_json(x->weights, x->weight_count), "contexts", numbers_json(x->contexts, x->context_count), "batches",
        numbers_json(x->batches, x->batch_count), "executors", texts_json(x->executors, x->executor_count), "stacks",
        texts_json(x->stacks, x->stack_count), "threads", x->threads, "sessions", x->sessions, "warmup", x->warmup,
        "steps", x->steps, "profile", x->profile, "deadline_ms",
        x->deadline_ms > 0 ? json_real(x->deadline_ms) : json_null());
    if (!m.note) B1I_TRY(b1i_fail(err, B1_MEMORY, "not enough memory for the plan, or a name in it is no UTF-8"));
    B1I_TRY(hash_of(options->executable, m.binary, err));
    B1I_TRY(take_matrix(&m, x, err));
    B1I_TRY(write_plan(&m, err));
fail:
    json_decref(m.note);
    b1i_study_plan_free(&m.plan);
    return st;
}

/* What a plan that is made by hand may have wrong, though a plan that is there keeps it. */
static b1_status check_names(const b1i_setting *s, b1_error *err)
{
    const bool gpu = strcmp(s->device, "cpu") != 0;
    char list[400] = "";
    b1_error why = {0};
    if (s->stack) return B1_OK; /* it may have other formats, and no executor */
    b1_status st = b1i_setting_format(s->weights, &why);
    if (st != B1_OK) return b1i_fail(err, st, "\"weights\": %s", why.message);
    if (!s->executor || b1i_executor_on(s->executor, gpu)) return B1_OK;
    for (int i = 0; b1_executor_name(i); i++) {
        size_t used = strlen(list);
        if ((strcmp(b1_executor_device(i), "cuda") == 0) == gpu)
            (void)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", b1_executor_name(i));
    }
    return b1i_fail(err, B1_ARGUMENT, "\"executor\" is \"%s\": on %s there are %s", s->executor, s->device, list);
}

static b1_status take_entry(maker *m, const json_t *entry, b1_error *err)
{
    const json_t *within = json_object_get(entry, "setting");
    b1i_setting setting;
    b1_status st;
    B1I_TRY(b1i_setting_read(within ? within : entry, &setting, err));
    if (strcmp(setting.device, m->options->device.name) != 0)
        st = b1i_fail(err, B1_ARGUMENT, "\"device\" is \"%s\", and --device is %s", setting.device,
                      m->options->device.name);
    if (st == B1_OK) st = check_names(&setting, err);
    if (st == B1_OK) st = take(m, &setting, err);
fail:
    b1i_setting_free(&setting);
    return st;
}

/* The cells of a file: settings, or entries of a plan.json that have one. */
static b1_status take_file(maker *m, const char *file, const json_t *cells, b1_error *err)
{
    if (!json_array_size(cells))
        return b1i_fail(err, B1_ARGUMENT, "%s has no cells: expected {\"cells\": [a setting, …]}", file);
    for (size_t i = 0; i < json_array_size(cells); i++) {
        b1_error why = {0};
        b1_status st = take_entry(m, json_array_get(cells, i), &why);
        if (st != B1_OK)
            return b1i_fail(err, st == B1_IO ? B1_ARGUMENT : st, "%s: cell %zu of %zu: %s", file, i + 1,
                            json_array_size(cells), why.message);
    }
    return B1_OK;
}

/* A file that is named is a part of the command: one that is missing or no plan is no other mistake than an option. */
static b1_status read_document(const char *file, json_t **document, b1_error *err)
{
    char *text = NULL;
    size_t bytes;
    b1_error why = {0};
    b1_status st;
    B1I_TRY(b1i_read_file(file, (size_t)1 << 30, &text, &bytes, &why));
    B1I_TRY(b1i_lab_parse(text, bytes, file, document, &why));
fail:
    b1i_free(text);
    if (st == B1_OK) return st;
    return b1i_fail(err, st == B1_MODEL || st == B1_IO ? B1_ARGUMENT : st, "%s", why.message);
}

b1_status b1i_study_plan_file(const char *file, const b1i_study_options *options, b1_error *err)
{
    b1_status st;
    maker m = {.options = options};
    json_t *document = NULL;
    B1I_TRY(read_document(file, &document, err));
    if (!(m.note = json_object())) B1I_TRY(b1i_fail_memory(err, 64));
    B1I_TRY(hash_of(options->executable, m.binary, err));
    B1I_TRY(take_file(&m, file, json_object_get(document, "cells"), err));
    B1I_TRY(write_plan(&m, err));
fail:
    json_decref(document);
    json_decref(m.note);
    b1i_study_plan_free(&m.plan);
    return st;
}
