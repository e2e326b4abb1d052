/* SPDX-License-Identifier: MIT
 *
 * What the step would take on other GPUs, as an interval, and what a million tokens cost there.
 *
 * Two things are not known of a GPU that is not here. How much of its datasheet's bandwidth a plain read gets: between
 * FRACTION_LOW and FRACTION_HIGH, which where a GPU was measured are widened to its own. And how what this step takes
 * beyond memory behaves: it may stay as it is (waits, launches), or grow and shrink with the memory's time (streams
 * that do not run at full speed); the interval reaches from the better to the worse, with the spread of the steps here.
 * Slow memory hides launches that a faster one uncovers: of a stream of launches there is KERNEL_MS more for each.
 * From a CPU nothing is known of a GPU's launches: then the interval begins at the datasheet's floor, and ends at
 * FRACTION_LOW of its bandwidth with KERNEL_MS for each kernel.
 */
#include "lab/explain_parts.h"
#include "lab/files.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FRACTION_LOW  0.80
#define FRACTION_HIGH 0.97
/* Between kernels of a graph an H200 was seen to lose 2 to 4 µs, as a stream of launches 5. */
#define KERNEL_MS 0.008
enum { KERNELS_A_LAYER = 5, KERNELS_OUTSIDE = 3 };

static double number(const json_t *from, const char *key) { return json_number_value(json_object_get(from, key)); }
static const char *name_of(const json_t *gpu) { return json_string_value(json_object_get(gpu, "name")); }

typedef struct span {
    double low, high;
} span;

static span from_gpu(const b1i_source *s, double bytes, double gbps)
{
    const double own = s->peak_gbps > 0 ? s->seen.ceiling_gbps / s->peak_gbps : FRACTION_HIGH;
    const double memory = b1i_seen_memory_ms(&s->seen);
    const double fast = bytes / (gbps * fmax(own, FRACTION_HIGH)) / 1e6,
                 slow = bytes / (gbps * fmin(own, FRACTION_LOW)) / 1e6;
    const double least = fmax(0, s->seen.p10_ms - memory), most = fmax(least, s->seen.p90_ms - memory);
    const double hidden = fast < memory ? s->launches * KERNEL_MS : 0;
    return (span){fast + least * fmin(1, fast / memory), slow + most * fmax(1, slow / memory) + hidden};
}

static span from_cpu(const b1i_source *s, double bytes, double gbps)
{
    const int kernels = KERNELS_A_LAYER * s->layers + KERNELS_OUTSIDE;
    return (span){bytes / gbps / 1e6, bytes / (gbps * FRACTION_LOW) / 1e6 + kernels * KERNEL_MS};
}

static json_t *how(const b1i_source *s)
{
    if (s->gpu)
        return json_sprintf(
            "from %.3g to %.2g of the datasheet's bandwidth; what the step takes beyond memory here stays as "
            "it is, or goes with the memory's time; a host like this one",
            FRACTION_HIGH, FRACTION_LOW);
    return json_sprintf(
        "no GPU was measured: from the datasheet's floor to %.2g of its bandwidth and %g µs for each of %d "
        "kernels",
        FRACTION_LOW, KERNEL_MS * 1e3, KERNELS_A_LAYER * s->layers + KERNELS_OUTSIDE);
}

static json_t *prediction(const b1i_source *s, const json_t *gpu)
{
    const double gbps = number(gpu, "gbps"), bytes = s->seen.weight_bytes + s->seen.kv_bytes;
    const double tflops = number(gpu, "bf16_tflops");
    const bool fits = s->need_bytes < number(gpu, "memory_gb") * 1e9;
    span t = s->gpu ? from_gpu(s, bytes, gbps) : from_cpu(s, bytes, gbps);
    if (tflops > 0) { /* an arithmetic floor stands beside that of bytes */
        t.low = fmax(t.low, s->flops / tflops / 1e9);
        t.high = fmax(t.high, t.low);
    }
    return json_pack("{s:s,s:f,s:b,s:o,s:o}", "gpu", name_of(gpu), "gbps", gbps, "fits", fits, "t_ms",
                     fits ? json_pack("[f,f]", t.low, t.high) : json_null(), "how",
                     fits ? how(s)
                          : json_sprintf("its memory of %g GB is less than the %.3g GB that are needed",
                                         number(gpu, "memory_gb"), s->need_bytes / 1e9));
}

json_t *b1i_predictions(const b1i_source *source, const json_t *gpus)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(gpus); i++) {
        const json_t *gpu = json_array_get(gpus, i);
        if (source->name && strcmp(source->name, name_of(gpu)) == 0) continue;
        if (json_array_append_new(list, prediction(source, gpu)) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

/* ---- prices ---- */

/* The entry that `name` [length] is, or that alone begins so. */
static const char *entry(const json_t *gpus, const char *name, size_t length)
{
    const char *found = NULL;
    int begins = 0;
    for (size_t i = 0; i < json_array_size(gpus); i++) {
        const char *known = name_of(json_array_get(gpus, i));
        if (strncasecmp(known, name, length) != 0) continue;
        if (!known[length]) return known;
        found = known;
        begins++;
    }
    return begins == 1 ? found : NULL;
}

static b1_status no_entry(const json_t *gpus, const char *text, b1_error *err)
{
    char list[700] = "this";
    for (size_t i = 0; i < json_array_size(gpus); i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, ", %s", name_of(json_array_get(gpus, i)));
    }
    return b1i_fail(err, B1_ARGUMENT, "the price %s is of no GPU that is known, or of several: %s", text, list);
}

b1_status b1i_price_read(const char *text, const json_t *gpus, b1i_price *out, b1_error *err)
{
    const char *equals = strchr(text, '='), *name;
    char *end;
    *out = (b1i_price){0};
    if (!equals || equals == text || !isdigit((unsigned char)equals[1]))
        return b1i_fail(err, B1_ARGUMENT, "the price \"%s\" is not NAME=NUMBER, an hour's", text);
    const size_t length = (size_t)(equals - text);
    if (length == 4 && strncasecmp(text, "this", 4) == 0)
        name = "this";
    else if (!(name = entry(gpus, text, length)))
        return no_entry(gpus, text, err);
    out->per_hour = strtod(equals + 1, &end);
    const size_t letters = strlen(end);
    bool word = letters == 0 || letters == 3;
    for (size_t i = 0; i < letters; i++) word = word && isupper((unsigned char)end[i]);
    if (!isfinite(out->per_hour) || out->per_hour <= 0 || out->per_hour > 1e9 || !word)
        return b1i_fail(err, B1_ARGUMENT,
                        "the price \"%s\" is not above 0, or what follows the number is no currency of three capitals",
                        text);
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->currency, sizeof out->currency, "%s", end);
    return B1_OK;
}

/* The step's times on the device that the price is of; false: it does not fit there. */
static bool times_of(const b1i_price *price, const b1i_source *source, const json_t *predictions, span *t)
{
    if (strcmp(price->name, "this") == 0 || (source->name && strcmp(price->name, source->name) == 0)) {
        *t = (span){source->seen.t_ms, source->seen.t_ms};
        return true;
    }
    for (size_t i = 0; i < json_array_size(predictions); i++) {
        const json_t *p = json_array_get(predictions, i), *ms = json_object_get(p, "t_ms");
        if (strcmp(json_string_value(json_object_get(p, "gpu")), price->name) != 0 || json_is_null(ms)) continue;
        *t = (span){json_number_value(json_array_get(ms, 0)), json_number_value(json_array_get(ms, 1))};
        return true;
    }
    return false;
}

static json_t *price_json(const b1i_price *price, const b1i_source *source, const json_t *predictions, const char *date)
{
    span t;
    json_t *tokens = json_null();
    if (times_of(price, source, predictions, &t)) /* a million steps of t ms are t / 3.6 hours */
        tokens = json_pack("[f,f]", price->per_hour * t.low / 3.6, price->per_hour * t.high / 3.6);
    return json_pack("{s:s,s:f,s:o,s:o,s:s,s:s}", "device", price->name, "per_hour", price->per_hour, "currency",
                     b1i_lab_text(price->currency), "per_million_tokens", tokens, "date", date, "excludes",
                     "idle time, the prompt, network, storage and set-up; one sequence alone, every second used");
}

json_t *b1i_prices_json(const b1i_price *prices, size_t count, const b1i_source *source, const json_t *predictions,
                        const char *date)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(list, price_json(&prices[i], source, predictions, date)) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}
