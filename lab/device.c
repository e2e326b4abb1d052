/* SPDX-License-Identifier: MIT
 *
 * Devices by name. See device.h.
 */
#include "lab/device.h"

#include "gpu/gpu.h"

#include <stdio.h>
#include <string.h>

/* NVML's reasons that slow a busy GPU down. */
static const struct {
    uint64_t bit;
    const char *name;
} REASONS[] = {
    {0x04, "power_cap"}, {0x08, "hardware"}, {0x20, "thermal"}, {0x40, "hardware_thermal"}, {0x80, "power_brake"},
};
enum { REASON_COUNT = sizeof REASONS / sizeof *REASONS };

static b1i_device gpu_device(int ordinal, bool open)
{
    b1i_device d = {.ordinal = ordinal, .open = open};
    snprintf(d.name, sizeof d.name, "cuda:%d", ordinal);
    return d;
}

b1i_device b1i_device_cpu(void) { return (b1i_device){.ordinal = B1I_DEVICE_CPU, .name = "cpu"}; }

b1i_device b1i_device_at(int ordinal)
{
    return ordinal == B1I_DEVICE_CPU ? b1i_device_cpu() : gpu_device(ordinal, false);
}

const char *b1i_device_word(int index)
{
    static const char *const words[] = {"auto", "cpu", "cuda", NULL};
    return words[index];
}

bool b1i_device_is_word(const char *text)
{
    return strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0 || b1i_gpu_ordinal(text) >= 0;
}

/* Whether the library lists an executor `name` of the device. */
static bool listed(const char *name, const char *device)
{
    for (int i = 0; b1_executor_name(i); i++)
        if (strcmp(b1_executor_name(i), name) == 0 && strcmp(b1_executor_device(i), device) == 0) return true;
    return false;
}

bool b1i_executor_is_gpu(const char *name) { return listed(name, "cuda") && !listed(name, "cpu"); }
bool b1i_executor_is_cpu(const char *name) { return strcmp(name, "reference") == 0 || strcmp(name, "persistent") == 0; }

const char *b1i_executor_on(const char *name, bool gpu)
{
    if (gpu && strcmp(name, "separate") == 0) name = "separate_graph";
    if (gpu && strcmp(name, "fused") == 0) name = "fused_graph";
    for (int i = 0; b1_executor_name(i); i++)
        if (strcmp(b1_executor_name(i), name) == 0 && strcmp(b1_executor_device(i), gpu ? "cuda" : "cpu") == 0)
            return b1_executor_name(i);
    return NULL;
}

int b1i_device_gpus(b1_error *err) { return b1i_gpu_count(err); }

/* The GPU `ordinal`, or why there is none; `word` is what asked for it. */
static b1_status find_gpu(const char *word, int ordinal, b1i_device *out, b1_error *err)
{
    b1_error why = {0};
    int count = b1i_gpu_count(&why);
    if (count < 1)
        return b1i_fail(err, B1_UNSUPPORTED, "%s cannot be used: %s", word,
                        why.message[0] ? why.message : "there is no GPU");
    if (ordinal >= count)
        return b1i_fail(err, B1_UNSUPPORTED, "%s cannot be used: this machine has %d GPU%s, the last is cuda:%d", word,
                        count, count == 1 ? "" : "s", count - 1);
    *out = gpu_device(ordinal, false);
    return B1_OK;
}

b1_status b1i_device_choose(const char *word, const char *const *executors, size_t count, b1i_device *out,
                            b1_error *err)
{
    const char *of_gpu = NULL, *of_cpu = NULL;
    bool any = !word || strcmp(word, "auto") == 0;
    *out = b1i_device_cpu();
    if (!any && !b1i_device_is_word(word))
        return b1i_fail(err, B1_ARGUMENT, "no device is named '%s'; there are cpu, cuda, cuda:N and auto", word);
    for (size_t i = 0; i < count; i++) {
        if (!of_gpu && b1i_executor_is_gpu(executors[i])) of_gpu = executors[i];
        if (!of_cpu && b1i_executor_is_cpu(executors[i])) of_cpu = executors[i];
    }
    if (any && of_gpu && of_cpu)
        return b1i_fail(err, B1_ARGUMENT, "the executor %s runs on a GPU and %s on the CPU: name those of one device",
                        of_gpu, of_cpu);
    if (any && of_gpu) return find_gpu(of_gpu, 0, out, err);
    if (any) {
        if (!of_cpu && b1i_gpu_count(NULL) > 0) *out = gpu_device(0, true);
        return B1_OK;
    }
    if (strcmp(word, "cpu") == 0) {
        if (of_gpu) return b1i_fail(err, B1_ARGUMENT, "the executor %s runs on a GPU, but the device is cpu", of_gpu);
        return B1_OK;
    }
    if (of_cpu)
        return b1i_fail(err, B1_ARGUMENT, "the executor %s runs on the CPU, but the device is %s", of_cpu, word);
    return find_gpu(word, b1i_gpu_ordinal(word), out, err);
}

b1_status b1i_device_facts(int ordinal, b1i_gpu_facts *out, b1_error *err)
{
    b1i_gpu_info info;
    *out = (b1i_gpu_facts){0};
    b1_status st = b1i_gpu_describe(ordinal, &info, err);
    if (st != B1_OK) return st;
    snprintf(out->name, sizeof out->name, "%s", info.name);
    snprintf(out->uuid, sizeof out->uuid, "%s", info.uuid);
    snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", info.driver / 1000, info.driver % 1000 / 10);
    snprintf(out->compute_capability, sizeof out->compute_capability, "%d.%d", info.major, info.minor);
    out->sms = info.sms;
    out->l2_bytes = info.l2_bytes;
    out->memory_bytes = info.memory_bytes;
    out->free_bytes = info.free_bytes;
    return B1_OK;
}

json_t *b1i_device_record(int ordinal, json_t *before, json_t *after)
{
    b1i_gpu_facts f;
    json_t *record = json_null();
    if (b1i_device_facts(ordinal, &f, NULL) == B1_OK)
        record = json_pack("{s:s,s:s,s:s,s:s,s:i,s:I,s:I}", "name", f.name, "uuid", f.uuid, "driver", f.driver,
                           "compute_capability", f.compute_capability, "sms", f.sms, "l2_bytes", (json_int_t)f.l2_bytes,
                           "memory_bytes", (json_int_t)f.memory_bytes);
    if (!json_is_object(record)) {
        json_decref(before);
        json_decref(after);
        return record;
    }
    json_object_set_new(record, "before", before ? before : json_null());
    json_object_set_new(record, "after", after ? after : json_null());
    return record;
}

static json_t *known(int value) { return value < 0 ? json_null() : json_integer(value); }

/* Other processes that compute there: unknown where this one is not among those that NVML shows, as in a container that
 * numbers its processes anew. */
static json_t *others(const b1i_gpu_health *h)
{
    if (h->processes < 0 || (h->processes > 0 && !h->listed)) return json_null();
    return json_integer(h->processes - (h->processes > 0));
}

static json_t *ecc(const b1i_gpu_health *h)
{
    if (h->ecc < 0) return json_null();
    return json_pack("{s:b,s:o,s:o}", "on", h->ecc, "corrected",
                     h->ecc_corrected < 0 ? json_null() : json_integer(h->ecc_corrected), "uncorrected",
                     h->ecc_uncorrected < 0 ? json_null() : json_integer(h->ecc_uncorrected));
}

json_t *b1i_device_moment(int ordinal)
{
    b1i_gpu_clocks c;
    json_t *reasons = json_array();
    b1i_gpu_clocks_read(ordinal, &c);
    for (int i = 0; reasons && i < REASON_COUNT; i++)
        if (c.throttle & REASONS[i].bit) json_array_append_new(reasons, json_string(REASONS[i].name));
    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "sm_mhz", known(c.sm_mhz), "memory_mhz", known(c.memory_mhz), "power_w",
                     c.power_mw < 0 ? json_null() : json_real(c.power_mw / 1e3), "temperature_c",
                     known(c.temperature_c), "throttle", reasons);
}

json_t *b1i_device_state(int ordinal)
{
    b1i_gpu_health h;
    json_t *state = b1i_device_moment(ordinal);
    b1i_gpu_health_read(ordinal, &h);
    json_t *health = json_pack("{s:o,s:o,s:o}", "ecc", ecc(&h), "compute_processes", known(h.processes),
                               "other_processes", others(&h));
    if (state && health && json_object_update(state, health) == 0) {
        json_decref(health);
        return state;
    }
    json_decref(state);
    json_decref(health);
    return NULL;
}

uint64_t b1i_device_throttle(int ordinal)
{
    b1i_gpu_clocks c;
    uint64_t real = 0;
    b1i_gpu_clocks_read(ordinal, &c);
    for (int i = 0; i < REASON_COUNT; i++) real |= c.throttle & REASONS[i].bit;
    return real;
}
