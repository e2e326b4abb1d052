/* SPDX-License-Identifier: MIT
 *
 * An outside stack, driven by its protocol. See stack.h. Whatever it does wrong becomes a status with a sentence; only
 * our own want of memory, and being cancelled, are failures.
 */
#include "lab/study/stack.h"

#include "base/threads.h"
#include "lab/files.h"
#include "lab/study/child.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_MOST = 900, QUOTE_MOST = 120, NAME_MOST = 64 };
static const double disagree = 0.05;        /* of the sums of what it says and what was seen */
static const uint64_t end_ns = 30000000000; /* for it to end after its last line, and no more than its patience */
uint64_t b1i_stack_patience_ns = 900000000000, b1i_stack_step_patience_ns = 120000000000;

typedef struct talk {
    const b1i_setting *setting;
    bool (*cancelled)(void);
    b1i_child child;
    b1i_stack_result *out;
    b1_error why;       /* its sentence, of status out->status */
    bool own_words;     /* the stack gave the sentence */
    uint64_t oom_kills; /* the system's, before */
} talk;

/* ---- a status with a sentence ---- */

/* The first one counts. */
#define REFUSE(t, what, ...)                                   \
    do {                                                       \
        if (!(t)->out->status) {                               \
            (t)->out->status = (what);                         \
            (void)b1i_fail(&(t)->why, B1_SYSTEM, __VA_ARGS__); \
        }                                                      \
    } while (0)

/* What the system has killed for want of memory since it started; 0: not known. */
static uint64_t oom_kills(void)
{
    uint64_t kills = 0;
    char line[128];
    FILE *f = fopen("/proc/vmstat", "re");
    if (!f) return 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "oom_kill ", 9) == 0) kills = strtoull(line + 9, NULL, 10);
    fclose(f);
    return kills;
}

/* ---- who listens ---- */

typedef struct listener {
    int policy;
    struct sched_param param;
    bool raised;
} listener;

/* The stamp of a line is taken by this thread, as soon as it has read it. Where the system lets it, it goes before all
 * others meanwhile: the last line of a stack that ends at once, or a busy machine, would else have it wait for a
 * processor for milliseconds, and they would count as the stack's. It sleeps but for a line. */
static void listen_first(listener *l)
{
    const struct sched_param first = {.sched_priority = 1};
    l->raised = pthread_getschedparam(pthread_self(), &l->policy, &l->param) == 0 && l->policy == SCHED_OTHER &&
                pthread_setschedparam(pthread_self(), SCHED_FIFO, &first) == 0;
}

static void listen_no_more(const listener *l)
{
    if (l->raised) (void)pthread_setschedparam(pthread_self(), l->policy, &l->param);
}

/* ---- what it is asked ---- */

static json_t *shape_json(const b1_model_info *info)
{
    return json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "layers", info->layers, "hidden", info->hidden, "ffn", info->ffn,
                     "heads", info->heads, "kv_heads", info->kv_heads, "head_dim", info->head_dim, "vocab",
                     info->vocab);
}

/* The request with its line end, freed with b1i_free(); NULL: no memory. */
static char *request(const b1i_setting *s, const b1_model_info *info, uint64_t kv_bytes)
{
    json_t *json =
        json_pack("{s:s,s:s,s:b,s:s,s:s,s:i,s:i,s:i,s:i,s:I,s:I,s:I,s:s,s:i,s:b,s:o}", "schema", "batchone.stack/1",
                  "model", s->model, "synthetic", s->synthetic, "architecture", info->architecture, "weights",
                  s->weights ? s->weights : info->weights, "context", s->context, "batch", s->batch, "warmup",
                  s->warmup, "steps", s->steps, "weight_bytes", (json_int_t)info->weight_bytes, "kv_bytes",
                  (json_int_t)kv_bytes, "parameters", (json_int_t)info->parameters, "device", s->device, "threads",
                  s->threads > 0 ? s->threads : b1i_cpu_count(), "profile", s->profile, "shape", shape_json(info));
    size_t room = json ? json_dumpb(json, NULL, 0, JSON_COMPACT) : 0;
    char *text = room ? b1i_malloc(room + 2) : NULL;
    if (text && json_dumpb(json, text, room, JSON_COMPACT) == room) {
        text[room] = '\n';
        text[room + 1] = 0;
    } else {
        b1i_free(text);
        text = NULL;
    }
    json_decref(json);
    return text;
}

/* ---- what it says ---- */

static const char *text_of(const json_t *line, const char *key)
{
    return json_string_value(json_object_get(line, key));
}

/* Its next line within `patience_ns`; *line NULL: it has refused, or there is none more and `may_end`. */
static b1_status hear(talk *t, const char *expected, uint64_t patience_ns, bool may_end, json_t **line, b1_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    b1_error why;
    *line = NULL;
    switch (b1i_child_line(&t->child, b1i_now_ns() + patience_ns, t->cancelled, &text, &bytes)) {
    case b1i_heard_line:
        break;
    case b1i_heard_end:
        if (!may_end) REFUSE(t, "failed", "the stack ended where %s was expected", expected);
        return B1_OK;
    case b1i_heard_nothing:
        REFUSE(t, "failed", "the stack was silent for %.3g s where %s was expected", (double)patience_ns / 1e9,
               expected);
        return B1_OK;
    case b1i_heard_too_much:
        REFUSE(t, "failed", "the stack said a line of over %zu bytes where %s was expected", B1I_CHILD_LINE_MOST,
               expected);
        return B1_OK;
    case b1i_heard_no_memory:
        return b1i_fail_memory(err, B1I_CHILD_LINE_MOST);
    case b1i_heard_cancel:
        return b1i_fail(err, B1_CANCELLED, "cancelled");
    }
    b1_status st = b1i_lab_parse(text, bytes, "the line", line, &why);
    if (st == B1_MEMORY) return b1i_fail_memory(err, bytes);
    if (st != B1_OK)
        REFUSE(t, "failed", "the stack said \"%.*s%s\" where %s was expected, a JSON object on a line",
               b1i_lab_whole(text, QUOTE_MOST), text, bytes > QUOTE_MOST ? "…" : "", expected);
    return B1_OK;
}

/* Whether the line says that the cell cannot run; the status is the stack's own word. */
static bool says_status(talk *t, const json_t *line)
{
    static const char *const statuses[] = {"unsupported", "out_of_memory", "failed"};
    const json_t *value = json_object_get(line, "status");
    const char *status = json_string_value(value), *message = text_of(line, "message");
    if (!value) return false;
    for (size_t i = 0; status && i < sizeof statuses / sizeof *statuses; i++) {
        if (strcmp(status, statuses[i]) != 0) continue;
        REFUSE(t, statuses[i], "%s", message && *message ? message : "the stack gave no reason");
        t->own_words = true;
        return true;
    }
    if (!status) status = "(no text)";
    REFUSE(t, "failed", "the stack gave the status \"%.*s\", which is none of unsupported, out_of_memory and failed",
           b1i_lab_whole(status, QUOTE_MOST), status);
    return true;
}

/* A name that may stand in a cell and on a line of a table. */
static bool is_name(const char *text) { return text && *text && strlen(text) <= NAME_MOST && b1i_lab_is_plain(text); }

/* Takes its name and version where the line has them. */
static b1_status take_names(talk *t, const json_t *line, b1_error *err)
{
    const char *name = text_of(line, "stack"), *version = text_of(line, "version");
    if (is_name(name) && !t->out->name && !(t->out->name = b1i_strdup(name))) return b1i_fail_memory(err, NAME_MOST);
    if (is_name(version) && !t->out->version && !(t->out->version = b1i_strdup(version)))
        return b1i_fail_memory(err, NAME_MOST);
    return B1_OK;
}

static b1_status introduction(talk *t, b1_error *err)
{
    json_t *line;
    b1_status st = hear(t, "its name and version", b1i_stack_patience_ns, false, &line, err);
    if (st != B1_OK || !line) return st;
    st = take_names(t, line, err);
    if (st == B1_OK && !says_status(t, line) && (!t->out->name || !t->out->version))
        REFUSE(t, "failed", "the stack's first line has no \"%s\" of 1 to %d plain characters",
               t->out->name ? "version" : "stack", NAME_MOST);
    t->out->facts = line;
    return st;
}

/* Step number `i` of all; its times go to the results unless it warms up. */
static b1_status hear_step(talk *t, int i, b1_error *err)
{
    char expected[32];
    json_t *line;
    uint64_t before = t->child.stamp_ns;
    (void)snprintf(expected, sizeof expected, "step %d of %d", i, t->setting->warmup + t->setting->steps);
    /* What compiles does so while it warms up. */
    const uint64_t patience = i <= t->setting->warmup || b1i_stack_patience_ns < b1i_stack_step_patience_ns
                                  ? b1i_stack_patience_ns
                                  : b1i_stack_step_patience_ns;
    b1_status st = hear(t, expected, patience, false, &line, err);
    if (st != B1_OK || !line) return st;
    const json_t *step = json_object_get(line, "step"), *ns = json_object_get(line, "ns");
    double took = json_number_value(ns);
    if (says_status(t, line)) {
        /* and no step */
    } else if (!json_is_integer(step) || json_integer_value(step) != i) {
        REFUSE(t, "failed", "the stack said something else where %s was expected", expected);
    } else if (!(took > 0) || !isfinite(took)) {
        REFUSE(t, "failed", "the stack gave no time of %s", expected);
    } else if (i >= t->setting->warmup) {
        t->out->step_ns[t->out->count] = took;
        t->out->harness_ns[t->out->count++] = (double)(t->child.stamp_ns - before);
    }
    json_decref(line);
    return B1_OK;
}

/* After its last step: a profile, a status, or nothing; and then nothing. */
static b1_status farewell(talk *t, b1_error *err)
{
    json_t *line;
    b1_status st = hear(t, "a profile or the end", b1i_stack_patience_ns, true, &line, err);
    if (st != B1_OK || !line) return st;
    json_t *profile = json_object_get(line, "profile");
    if (json_is_object(profile))
        t->out->profile = json_incref(profile);
    else if (!json_is_null(profile) && !says_status(t, line))
        REFUSE(t, "failed", "the stack said something else where a profile or the end was expected");
    json_decref(line);
    if (t->out->status) return B1_OK;
    st = hear(t, "the end", b1i_stack_patience_ns, true, &line, err);
    if (line) REFUSE(t, "failed", "the stack went on after its profile");
    json_decref(line);
    return st;
}

static b1_status conversation(talk *t, b1_error *err)
{
    int steps = t->setting->warmup + t->setting->steps;
    b1_status st = introduction(t, err);
    for (int i = 0; st == B1_OK && !t->out->status && i < steps; i++) st = hear_step(t, i, err);
    if (st == B1_OK && !t->out->status) st = farewell(t, err);
    return st;
}

/* ---- what to think of it ---- */

static void judge_end(talk *t, const b1i_child_end *end)
{
    if (t->own_words) return;
    const int signal = end->signal ? end->signal : end->code > 128 && end->code < 160 ? end->code - 128 : 0;
    char how[96];
    if (end->ended_here)
        (void)snprintf(how, sizeof how, "did not end by itself");
    else if (signal)
        (void)snprintf(how, sizeof how, "died of signal %d, %s", signal, strsignal(signal));
    else
        (void)snprintf(how, sizeof how, "ended with exit code %d", end->code);
    if (!end->ended_here && signal == SIGKILL && oom_kills() > t->oom_kills) {
        t->out->status = "out_of_memory";
        (void)b1i_fail(&t->why, B1_SYSTEM, "the stack was killed by the system, whose memory had run out");
    } else if (!t->out->status && (end->ended_here || end->code != 0)) {
        REFUSE(t, "failed", "the stack said all its steps and %s", how);
    } else if (t->out->status && !end->ended_here && end->code != 0) {
        b1_error before = t->why;
        (void)b1i_fail(&t->why, B1_SYSTEM, "%.*s; it %s", b1i_lab_whole(before.message, MESSAGE_MOST), before.message,
                       how);
    }
}

static void judge_times(talk *t)
{
    double said = 0, seen = 0;
    if (t->out->status) return;
    for (size_t i = 0; i < t->out->count; i++) {
        said += t->out->step_ns[i];
        seen += t->out->harness_ns[i];
    }
    if (fabs(said - seen) > disagree * seen)
        REFUSE(t, "failed",
               "the stack says that its %zu steps took %.3f ms, and %.3f ms passed here: over %.0f %% apart",
               t->out->count, said / 1e6, seen / 1e6, 100 * disagree);
}

/* The sentence, and what the stack said on its stderr where it gave none itself. */
static b1_status write_message(talk *t, b1_error *err)
{
    b1i_stack_result *out = t->out;
    static const char between[] = "; its stderr ends: ";
    if (!out->status) {
        out->status = "ok";
        return B1_OK;
    }
    char *words = b1i_child_last_words(&t->child);
    bool both = words && *words && !t->own_words;
    size_t room = sizeof t->why.message + sizeof between + (both ? strlen(words) : 0);
    out->message = words ? b1i_malloc(room) : NULL;
    if (out->message)
        (void)snprintf(out->message, room, "%s%s%s", t->why.message, both ? between : "", both ? words : "");
    b1i_free(words);
    return out->message ? B1_OK : b1i_fail_memory(err, room);
}

/* A stack that never said who it is has a name too, by which cells can be told apart. */
static b1_status write_names(b1i_stack_result *out, b1_error *err)
{
    if (!out->name) out->name = b1i_strdup("unknown");
    if (!out->version) out->version = b1i_strdup("unknown");
    return out->name && out->version ? B1_OK : b1i_fail_memory(err, NAME_MOST);
}

b1_status b1i_stack_run(const b1i_setting *setting, const b1_model_info *info, uint64_t kv_bytes,
                        bool (*cancelled)(void), b1i_stack_result *out, b1_error *err)
{
    b1_status st = B1_OK;
    *out = (b1i_stack_result){0};
    talk t = {.setting = setting, .cancelled = cancelled, .child = {.out = -1, .bad = -1}, .out = out};
    listener ear = {.raised = false};
    size_t room = setting->steps > 0 ? (size_t)setting->steps : 1;
    char *ask = request(setting, info, kv_bytes);
    out->step_ns = b1i_calloc(room, sizeof *out->step_ns);
    out->harness_ns = b1i_calloc(room, sizeof *out->harness_ns);
    if (!ask || !out->step_ns || !out->harness_ns) {
        st = b1i_fail_memory(err, 2 * room * sizeof *out->step_ns);
        goto fail;
    }
    t.oom_kills = oom_kills();
    st = b1i_child_start(&t.child, setting->stack, ask, &t.why);
    if (st == B1_OK) {
        listen_first(&ear);
        st = conversation(&t, err);
        listen_no_more(&ear);
        bool well = st == B1_OK && (!out->status || t.own_words || t.child.silent);
        b1i_child_end end = b1i_child_close(
            &t.child, well ? b1i_now_ns() + (end_ns < b1i_stack_patience_ns ? end_ns : b1i_stack_patience_ns) : 0,
            cancelled);
        if (st == B1_OK && end.ended_here && cancelled && cancelled()) st = b1i_fail(err, B1_CANCELLED, "cancelled");
        if (st == B1_OK) judge_end(&t, &end);
    } else if (st == B1_SYSTEM) {
        out->status = "failed";
        st = B1_OK;
    } else if (err) {
        *err = t.why;
    }
    B1I_TRY(st);
    judge_times(&t);
    B1I_TRY(write_names(out, err));
    B1I_TRY(write_message(&t, err));
fail:
    b1i_free(ask);
    if (st != B1_OK) b1i_stack_result_free(out);
    return st;
}

void b1i_stack_result_free(b1i_stack_result *result)
{
    b1i_free(result->name);
    b1i_free(result->version);
    b1i_free(result->message);
    b1i_free(result->step_ns);
    b1i_free(result->harness_ns);
    json_decref(result->facts);
    json_decref(result->profile);
    *result = (b1i_stack_result){0};
}
