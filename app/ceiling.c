/* SPDX-License-Identifier: MIT
 *
 * batchone ceiling: the read bandwidth of a device: this machine's memory by number of threads, or a GPU's. The result
 * is kept in the user's cache folder, where `inspect` and `devices` find it.
 */
#include "lab/ceiling.h"

#include "app/app.h"
#include "app/ceiling_file.h"
#include "app/output.h"
#include "base/threads.h"
#include "lab/gpus.h"
#include "lab/machine.h"

#include <string.h>

enum { PASSES = 8, BUDGET_NS = 300000000, EACH_UP_TO = 8 };

/* Of a GPU's buffer; half of its free memory where that is less. */
#define GPU_BUFFER_BYTES (8ull << 30)
enum { GPU_READINGS = 5 };

typedef struct ceiling_options {
    bool json;
    const char *device;
} ceiling_options;

#define AT(field) offsetof(ceiling_options, field)
static const b1i_option options[] = {
    {"device", 0, b1i_option_device, AT(device), "NAME", "cpu, cuda, cuda:N or auto (auto)", 0, 0, b1i_device_word},
    {"json", 0, b1i_option_flag, AT(json), NULL, "print one JSON document", 0, 0, NULL},
    {0},
};

/* 1, 2, …, 8, 16, 32, …, all. */
static int next_threads(int threads, int all)
{
    int next = threads < EACH_UP_TO ? threads + 1 : threads * 2;
    return next < all || threads >= all ? next : all;
}

static b1_status measure_cpu(json_t *by_threads, double *best, uint64_t *buffer_bytes, b1_error *err)
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

static b1_status cpu_document(json_t **out, b1_error *err)
{
    double best = 0;
    uint64_t buffer_bytes = 0;
    json_t *by_threads = json_array();
    b1_status st = by_threads ? measure_cpu(by_threads, &best, &buffer_bytes, err) : b1i_fail_memory(err, 64);
    if (st == B1_OK)
        *out = json_pack("{s:s,s:f,s:O,s:I,s:o,s:s}", "schema", "batchone.ceiling/1", "ceiling_gbps", best,
                         "by_threads", by_threads, "buffer_bytes", (json_int_t)buffer_bytes, "machine",
                         b1i_machine_record(), "device", "cpu");
    json_decref(by_threads);
    return st;
}

static b1_status gpu_document(const b1i_device *device, json_t **out, b1_error *err)
{
    b1_status st;
    double gbps = 0;
    b1i_gpu_facts facts;
    b1i_ceiling *ceiling = NULL;
    json_t *machine = NULL, *before = b1i_device_state(device->ordinal);
    B1I_TRY(b1i_device_facts(device->ordinal, &facts, err));
    B1I_TRY(b1i_ceiling_open_gpu(device->ordinal, GPU_BUFFER_BYTES, 2, &ceiling, err));
    B1I_TRY(b1i_ceiling_read(ceiling, 0, GPU_READINGS, BUDGET_NS, b1i_cancel_asked, &gbps, err));
    if ((machine = b1i_machine_record()))
        json_object_set_new(machine, "gpu",
                            b1i_device_record(device->ordinal, before, b1i_device_state(device->ordinal)));
    else
        json_decref(before);
    before = NULL;
    double peak = b1i_gpu_peak(facts.name);
    *out = json_pack("{s:s,s:f,s:[],s:I,s:o,s:s,s:s?,s:o}", "schema", "batchone.ceiling/1", "ceiling_gbps", gbps,
                     "by_threads", "buffer_bytes", (json_int_t)b1i_ceiling_bytes(ceiling), "machine", machine, "device",
                     device->name, "method", b1i_ceiling_method(ceiling), "peak_gbps",
                     peak > 0 ? json_real(peak) : json_null());
fail:
    json_decref(before);
    b1i_ceiling_close(ceiling);
    return st;
}

b1_status b1i_ceiling_measure(const b1i_device *device, json_t **document, b1_error *err)
{
    *document = NULL;
    b1_status st =
        device->ordinal == B1I_DEVICE_CPU ? cpu_document(document, err) : gpu_document(device, document, err);
    if (st == B1_OK && !*document) st = b1i_fail(err, B1_MEMORY, "not enough memory for the JSON document");
    if (st == B1_OK) b1i_ceiling_keep(device, *document);
    return st;
}

static double real_of(const json_t *j, const char *key) { return json_number_value(json_object_get(j, key)); }

static void print_cpu(const json_t *document)
{
    char size[24];
    const json_t *by_threads = json_object_get(document, "by_threads");
    printf("threads   GB/s\n");
    for (size_t i = 0; i < json_array_size(by_threads); i++) {
        const json_t *row = json_array_get(by_threads, i);
        printf("%7d %6.1f\n", (int)json_integer_value(json_object_get(row, "threads")), real_of(row, "gbps"));
    }
    printf("ceiling %6.1f   best whole pass over %s\n", real_of(document, "ceiling_gbps"),
           b1i_human_bytes((uint64_t)json_integer_value(json_object_get(document, "buffer_bytes")), size));
}

static void print_gpu(const b1i_device *device, const json_t *document)
{
    char size[24];
    const char *method = json_string_value(json_object_get(document, "method"));
    const json_t *gpu = json_object_get(json_object_get(document, "machine"), "gpu");
    const char *name = json_string_value(json_object_get(gpu, "name"));
    double ceiling = real_of(document, "ceiling_gbps"), peak = real_of(document, "peak_gbps");
    printf("%s  %s\n", device->name, name ? name : "unknown");
    printf("ceiling   %7.1f GB/s, %s over %s\n", ceiling,
           method && strcmp(method, "bulk") == 0 ? "bulk copies" : "plain loads",
           b1i_human_bytes((uint64_t)json_integer_value(json_object_get(document, "buffer_bytes")), size));
    if (peak > 0)
        printf("datasheet %7.1f GB/s, of which the ceiling is %.1f %%\n", peak, 100 * ceiling / peak);
    else
        printf("datasheet unknown\n");
}

static int run(const b1i_command *self, char **arguments)
{
    ceiling_options o = {0};
    b1_error err = {0};
    b1i_device device;
    json_t *document = NULL;
    int count, code = b1i_options_parse(self, arguments, &o, NULL, 0, 0, &count);
    if (code != B1I_PARSED) return code;
    b1_status st;
    B1I_TRY(b1i_device_choose(o.device, NULL, 0, &device, &err));
    st = b1i_ceiling_measure(&device, &document, &err);
    if (st == B1_UNSUPPORTED && device.open) { /* a GPU that this build cannot use */
        device = b1i_device_cpu();
        st = b1i_ceiling_measure(&device, &document, &err);
    }
    if (st != B1_OK) goto fail;
    if (o.json)
        B1I_TRY(b1i_json_write(json_incref(document), stdout, &err));
    else if (device.ordinal == B1I_DEVICE_CPU)
        print_cpu(document);
    else
        print_gpu(&device, document);
fail:
    code = st == B1_OK ? B1I_EXIT_OK : b1i_report(&err);
    json_decref(document);
    return code;
}

const b1i_command b1i_command_ceiling = {
    .name = "ceiling",
    .operands = "",
    .summary = "Measures the read bandwidth of this machine, or of a GPU.",
    .notes = "Each figure is the best of several passes over a buffer that no cache holds, in huge pages where the\n"
             "system allows them; of a GPU, of plain loads and bulk copies. The result is kept in the cache folder;\n"
             "inspect shows t_floor by it, devices lists it.",
    .options = options,
    .run = run,
};
