/* SPDX-License-Identifier: MIT
 *
 * What a document of explain says, in sentences: what the step takes, what the floor is, where the rest goes, what each
 * intervention showed, what to do, and what other devices would do. A function of the document alone.
 */
#include "lab/explain_parts.h"
#include "lab/files.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define APART 1.03 /* times that differ by less are called the same */

typedef struct words {
    const json_t *d;
    json_t *list;
    bool gpu, lost; /* lost: no memory */
} words;

typedef struct text {
    char is[48];
} text;

static double number(const json_t *from, const char *key) { return json_number_value(json_object_get(from, key)); }
/* Three figures: "0.0123", "1.23", "12.3", "1234". */
static text figure(double value)
{
    text t;
    const int decimals = value >= 100 || value <= 0 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : value >= 0.1 ? 3 : 4;
    snprintf(t.is, 32, "%.*f", decimals, value);
    return t;
}

static text bytes_of(double bytes)
{
    const bool giga = bytes >= 1e9;
    text t = figure(bytes / (giga ? 1e9 : 1e6));
    strcat(t.is, giga ? " GB" : " MB");
    return t;
}

static void say(words *w, const char *format, ...) B1I_PRINTF(2, 3);
static void say(words *w, const char *format, ...)
{
    char sentence[1200];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    w->lost |= json_array_append_new(w->list, json_string(sentence)) != 0;
}

#define F(value) figure(value).is

/* The intervention of this kind and executor that gave figures; NULL. */
static const json_t *trial(const words *w, const char *what, const char *executor)
{
    const json_t *all = json_object_get(w->d, "interventions");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *t = json_array_get(all, i);
        if (strcmp(b1i_lab_text_at(t, "what"), what) == 0 && strcmp(b1i_lab_text_at(t, "status"), "ok") == 0 &&
            (!executor || strcmp(b1i_lab_text_at(json_object_get(t, "setting"), "executor"), executor) == 0))
            return t;
    }
    return NULL;
}

static double time_of(const json_t *t) { return number(t, "t_obs_ms"); }

/* ---- the step and its floor ---- */

static void say_step(words *w)
{
    const json_t *d = w->d;
    const double t = time_of(d), floor_ms = number(d, "t_floor_ms"), peak = number(d, "peak_gbps");
    char threads[32] = "";
    if (!w->gpu) snprintf(threads, sizeof threads, " and %d threads", (int)number(d, "threads"));
    say(w, "%s with %s weights on %s (%s), executor %s%s, %d positions: a step takes %s ms, %s tokens a second.",
        b1i_lab_text_at(d, "model"), b1i_lab_text_at(d, "weights"), b1i_lab_text_at(d, "device"),
        b1i_lab_text_at(d, "device_name"), b1i_lab_text_at(d, "executor"), threads, (int)number(d, "context"), F(t),
        F(1e3 / t));
    say(w,
        "Its floor is %s ms: %s of weights and %s of keys and values, at the %s GB/s at which this memory was seen to "
        "be read in the same seconds. The step takes %s times that.",
        F(floor_ms), bytes_of(number(d, "weight_bytes")).is, bytes_of(number(d, "kv_bytes")).is,
        F(number(d, "ceiling_gbps")), F(t / floor_ms));
    if (peak > 0)
        say(w, "At the datasheet's %s GB/s the floor would be %s ms.", F(peak),
            F((number(d, "weight_bytes") + number(d, "kv_bytes")) / peak / 1e6));
    if (t <= floor_ms * 1.02)
        say(w, "The step is at its floor as far as the ceiling is known; only fewer bytes or faster memory make it "
               "shorter.");
    const double arithmetic = number(d, "t_arithmetic_ms");
    if (arithmetic > 0)
        say(w, "Its arithmetic alone would take %s ms at the datasheet's bf16 rate%s.", F(arithmetic),
            arithmetic < floor_ms / 4 ? ", so that it is no limit" : "");
}

/* ---- the parts ---- */

static void say_launch(words *w, double ms)
{
    const json_t *c = json_object_get(w->d, "dispatch");
    if (w->gpu)
        say(w,
            "Launching is %s ms: so much longer the same kernels take one by one than as a graph, an upper bound of "
            "the "
            "launch tax.",
            F(ms));
    else
        say(w,
            "Launching is %s ms: %d dispatch%s of work to the threads, each %s µs when there is nothing to do, but for "
            "the meeting at its end.",
            F(ms), (int)number(c, "dispatches"), number(c, "dispatches") == 1 ? "" : "es", F(number(c, "dispatch_us")));
}

static void say_synchronisation(words *w, double ms)
{
    const json_t *c = json_object_get(w->d, "dispatch");
    const int kernels = (int)number(json_object_get(w->d, "kernels"), "step");
    if (!w->gpu)
        say(w, "Synchronisation is %s ms: all threads meet %d times in a step, for %s µs when nobody is late.", F(ms),
            (int)number(c, "meetings"), F(number(c, "meeting_us")));
    else if (kernels > 1)
        say(w,
            "Synchronisation is %s ms: between one kernel's end and the next one's begin nothing is read, %d times in "
            "a "
            "step, %s µs each.",
            F(ms), kernels, F(ms * 1e3 / kernels));
    else
        say(w, "Synchronisation is %s ms: what neither memory nor anything else that was measured accounts for.",
            F(ms));
}

static void say_kernels(words *w, double ms)
{
    const double held = number(w->d, "stored_bytes") - number(w->d, "weight_bytes");
    const double fatter = held / number(w->d, "ceiling_gbps") / 1e6;
    say(w,
        "Kernels are %s ms: what all but attention take beyond reading the weights at the ceiling: arithmetic, "
        "unpacking, threads or blocks that end late.",
        F(ms));
    if (fatter > 0.1 * ms && fatter > 0.01 * time_of(w->d))
        say(w, "About %s ms of that is memory after all: the weights are held in %s, not the %s of their format.",
            F(fatter), bytes_of(number(w->d, "stored_bytes")).is, bytes_of(number(w->d, "weight_bytes")).is);
}

static void say_attention(words *w, double ms)
{
    say(w, "Attention is %s ms beyond reading its keys and values.", F(ms));
}

static void say_host(words *w, double ms)
{
    say(w,
        "The host is %s ms: before the first kernel and after the last, the call, its parameters, the token's choice, "
        "the wait's end.",
        F(ms));
}

static const struct {
    const char *name;
    void (*say)(words *w, double ms);
} parts[] = {{"memory", NULL},         {"launch", say_launch},       {"synchronisation", say_synchronisation},
             {"kernels", say_kernels}, {"attention", say_attention}, {"host", say_host}};
enum { PARTS = sizeof parts / sizeof *parts };

/* The largest part but memory; -1: memory is larger than all of them together. */
static int largest(const words *w)
{
    const json_t *p = json_object_get(w->d, "parts_ms");
    int found = 1;
    for (int i = 2; i < PARTS; i++)
        if (number(p, parts[i].name) > number(p, parts[found].name)) found = i;
    return number(p, "memory") > 0.85 * time_of(w->d) ? -1 : found;
}

static void say_parts(words *w)
{
    const json_t *p = json_object_get(w->d, "parts_ms");
    const double t = time_of(w->d);
    char line[400] = "";
    for (int i = 0; i < PARTS; i++) {
        const size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, "%s%s %s ms (%.0f %%)", i ? ", " : "", parts[i].name,
                 F(number(p, parts[i].name)), 100 * number(p, parts[i].name) / t);
    }
    say(w, "Of the %s ms: %s.", F(t), line);
    for (int i = 1; i < PARTS; i++)
        if (number(p, parts[i].name) >= 0.02 * t) parts[i].say(w, number(p, parts[i].name));
}

/* ---- the interventions ---- */

static bool steady(const json_t *a, const json_t *b)
{
    return strcmp(b1i_lab_text_at(a, "verdict"), "ok") == 0 && strcmp(b1i_lab_text_at(b, "verdict"), "ok") == 0;
}
/* What is said of a comparison where one of its cells was not steady; no cause is given then. */
static const char *unsteady(const json_t *a, const json_t *b)
{
    return steady(a, b) ? "" : " (but not both were steady)";
}

/* What the second of two executors does, where both were measured. */
static void say_pair(words *w, const char *one, const char *other, const char *what)
{
    const json_t *a = trial(w, "executor", one), *b = trial(w, "executor", other);
    if (!a || !b) return;
    const double x = time_of(a), y = time_of(b);
    if (fmax(x, y) < APART * fmin(x, y))
        say(w, "%s makes no difference here: %s takes %s ms, %s %s ms%s.", what, one, F(x), other, F(y),
            unsteady(a, b));
    else
        say(w, "%s %s %s ms: %s takes %s ms, %s %s ms%s.", what, x > y ? "saves" : "costs", F(fabs(x - y)), one, F(x),
            other, F(y), unsteady(a, b));
}

static void say_executors(words *w)
{
    if (w->gpu) {
        say_pair(w, "separate_stream", "separate_graph", "A graph in place of separate launches");
        say_pair(w, "separate_graph", "fused_graph", "Fusing the kernels");
        say_pair(w, "fused_graph", "fused_pdl", "Beginning a kernel before the one before it has ended");
        say_pair(w, "fused_pdl", "persistent", "One kernel for the whole step");
    } else {
        say_pair(w, "separate", "fused", "Fusing the ops");
        say_pair(w, "fused", "persistent", "One dispatch for the whole step");
    }
}

static void say_context(words *w)
{
    const json_t *fewer = trial(w, "context", NULL);
    if (!fewer) return;
    const double bytes = number(w->d, "kv_bytes") - number(fewer, "kv_bytes");
    say(w, "From %d to %d positions the step goes from %s to %s ms%s; the bytes explain %s ms.",
        (int)number(json_object_get(fewer, "setting"), "context"), (int)number(w->d, "context"), F(time_of(fewer)),
        F(time_of(w->d)), unsteady(fewer, w->d), F(bytes / number(w->d, "ceiling_gbps") / 1e6));
}

static void say_threads(words *w)
{
    const json_t *one = trial(w, "threads", NULL);
    if (!one) return;
    const int few = (int)number(json_object_get(one, "setting"), "threads"), all = (int)number(w->d, "threads");
    const double by = time_of(one) / time_of(w->d);
    const char *why = by > 0.8 * all / few ? ": the threads' arithmetic is what it waits for, and more cores would help"
                      : by > 1.15          ? ": it waits partly for arithmetic, partly for memory"
                                           : ": more threads do not help, for memory or meetings are what it waits for";
    say(w, "With %d thread%s in place of %d the step takes %s ms, %s times as long%s.", few, few == 1 ? "" : "s", all,
        F(time_of(one)), F(by), steady(one, w->d) ? why : unsteady(one, w->d));
}

static void say_weights(words *w)
{
    const json_t *all = json_object_get(w->d, "interventions");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *t = json_array_get(all, i);
        if (strcmp(b1i_lab_text_at(t, "what"), "weights") != 0) continue;
        if (strcmp(b1i_lab_text_at(t, "status"), "ok") != 0) {
            say(w, "With %s weights it could not be measured: %s",
                b1i_lab_text_at(json_object_get(t, "setting"), "weights"), b1i_lab_text_at(t, "message"));
            continue;
        }
        const double bytes = number(t, "weight_bytes") + number(t, "kv_bytes");
        const double own = number(w->d, "weight_bytes") + number(w->d, "kv_bytes");
        say(w,
            "With %s weights (random, of the same shape) a step reads %s times the bytes and takes %s times as long, "
            "%s ms%s.",
            b1i_lab_text_at(t, "weights"), F(bytes / own), F(time_of(t) / time_of(w->d)), F(time_of(t)),
            unsteady(t, w->d));
    }
}

/* ---- what to do ---- */

static void say_best(words *w)
{
    const json_t *best = json_object_get(w->d, "best"), *setting = json_object_get(best, "setting");
    const int threads = (int)number(setting, "threads");
    const double t = time_of(best), gain = time_of(w->d) / t;
    char with[40] = "";
    if (threads) snprintf(with, sizeof with, " with %d thread%s", threads, threads == 1 ? "" : "s");
    if (gain > APART)
        say(w,
            "Of the executors and threads here %s%s is the fastest with these weights: %s ms, %s times as fast as what "
            "is explained.",
            b1i_lab_text_at(setting, "executor"), with, F(t), F(gain));
    else
        say(w, "Of the executors and threads here %s%s is the fastest with these weights: %s ms.",
            b1i_lab_text_at(setting, "executor"), with, F(t));
}

static void say_advice(words *w)
{
    static const char *const advice[PARTS] = {
        [1] = "launching: an executor that launches less (a graph; on the CPU persistent) is the first thing to try",
        [2] = "synchronisation: fewer, larger kernels, or an executor whose kernels overlap, are what is left",
        [3] = "kernels: a format whose kernels do less for a byte would help, or faster cores, or more of them",
        [4] = "attention: a shorter context helps more than smaller weights do",
        [5] = "the host: a faster core for the calling thread would help, with nothing else on it",
    };
    const int most = largest(w);
    if (most < 0)
        say(w, "What it waits for is memory: fewer bytes (a smaller format, a shorter context) or faster memory.");
    else
        say(w, "The largest part beyond memory is %s.", advice[most]);
}

static void say_caveats(words *w)
{
    const json_t *profile = json_object_get(w->d, "profile");
    const double distortion = number(profile, "distortion");
    const char *verdict = b1i_lab_text_at(w->d, "verdict");
    if (*verdict && strcmp(verdict, "ok") != 0)
        say(w, "The measurement was %s: its figures are to be taken with care, and repeated when the machine is quiet.",
            verdict);
    if (!json_is_true(json_object_get(profile, "found")))
        say(w,
            "There was no profile%s%s, so that kernels, host and what lies between kernels are told apart less well.",
            *b1i_lab_text_at(profile, "message") ? ": " : "", b1i_lab_text_at(profile, "message"));
    else if (distortion > 1.1)
        say(w, "The profiled step took %s times as long as the unprofiled one; its shares were scaled to the latter.",
            F(distortion));
}

/* ---- other devices ---- */

/* The prediction for a GPU where it fits; NULL. */
static const json_t *prediction(const words *w, const char *gpu)
{
    const json_t *all = json_object_get(w->d, "predictions");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *p = json_array_get(all, i);
        if (strcmp(b1i_lab_text_at(p, "gpu"), gpu) == 0 && json_is_array(json_object_get(p, "t_ms"))) return p;
    }
    return NULL;
}

/* Of those on which it fits, the slowest and the fastest memory. */
static void say_predictions(words *w)
{
    const json_t *all = json_object_get(w->d, "predictions"), *slow = NULL, *fast = NULL;
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *p = json_array_get(all, i);
        if (!prediction(w, b1i_lab_text_at(p, "gpu"))) continue;
        if (!slow || number(p, "gbps") < number(slow, "gbps")) slow = p;
        if (!fast || number(p, "gbps") > number(fast, "gbps")) fast = p;
    }
    const json_t *ends[2] = {slow, fast};
    for (int i = 0; i < 2; i++) {
        if (!ends[i] || (i && fast == slow)) continue;
        const json_t *t = json_object_get(ends[i], "t_ms");
        say(w, "On %s (%s GB/s) the fastest setting's step would take %s to %s ms, by extrapolation: %s.",
            b1i_lab_text_at(ends[i], "gpu"), F(number(ends[i], "gbps")), F(json_number_value(json_array_get(t, 0))),
            F(json_number_value(json_array_get(t, 1))), b1i_lab_text_at(ends[i], "how"));
    }
}

static void say_prices(words *w)
{
    const json_t *all = json_object_get(w->d, "prices");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *p = json_array_get(all, i), *tokens = json_object_get(p, "per_million_tokens");
        const char *currency = b1i_lab_text_at(p, "currency"), *space = *currency ? " " : "";
        const double low = json_number_value(json_array_get(tokens, 0)),
                     high = json_number_value(json_array_get(tokens, 1));
        char range[80];
        if (json_is_null(tokens)) {
            say(w, "%s does not hold the model, so that it has no price a token.", b1i_lab_text_at(p, "device"));
            continue;
        }
        snprintf(range, sizeof range, low < high ? "%s to %s" : "%s", F(low), F(high));
        say(w, "At %s%s%s an hour (%s) a million tokens cost %s%s%s on %s, without %s.", F(number(p, "per_hour")),
            space, currency, b1i_lab_text_at(p, "date"), range, space, currency,
            strcmp(b1i_lab_text_at(p, "device"), "this") == 0 ? "this device" : b1i_lab_text_at(p, "device"),
            b1i_lab_text_at(p, "excludes"));
    }
}

json_t *b1i_explain_sentences(const json_t *document)
{
    words w = {.d = document, .list = json_array(), .gpu = strcmp(b1i_lab_text_at(document, "device"), "cpu") != 0};
    if (!w.list) return NULL;
    say_step(&w);
    say_parts(&w);
    say_executors(&w);
    say_context(&w);
    say_threads(&w);
    say_weights(&w);
    say_best(&w);
    say_advice(&w);
    say_predictions(&w);
    say_prices(&w);
    say_caveats(&w);
    if (!w.lost) return w.list;
    json_decref(w.list);
    return NULL;
}
