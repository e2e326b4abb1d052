/* SPDX-License-Identifier: MIT
 *
 * batchone devices: what can run a model here: the CPU and each GPU, with what memory each has and how fast it is by
 * its datasheet and by the last measurement. Where there is no GPU it says why; that is no failure.
 */
#include "app/app.h"
#include "app/ceiling_file.h"
#include "app/output.h"
#include "base/threads.h"
#include "lab/gpus.h"
#include "lab/machine.h"

#include <unistd.h>

typedef struct devices_options {
    bool json, measure;
} devices_options;

#define AT(field) offsetof(devices_options, field)
static const b1i_option options[] = {
    {"measure", 0, b1i_option_flag, AT(measure), NULL, "measure each device's bandwidth first", 0, 0, NULL},
    {"json", 0, b1i_option_flag, AT(json), NULL, "print one JSON document", 0, 0, NULL},
    {0},
};

/* What is not known is 0 or empty. */
typedef struct entry {
    b1i_device device;
    b1i_gpu_facts facts; /* of the CPU its name and memory */
    char cpu[256], date[64], why[1000];
    double peak_gbps, measured_gbps;
} entry;

static b1_status measure(entry *e, b1_error *err)
{
    json_t *document = NULL;
    b1_error why = {0};
    b1_status st = b1i_ceiling_measure(&e->device, &document, &why);
    json_decref(document);
    if (st == B1_CANCELLED) {
        *err = why;
        return st;
    }
    if (st != B1_OK) snprintf(e->why, sizeof e->why, "%s", why.message);
    return B1_OK;
}

/* Fills in what is known of e->device. */
static b1_status gather(entry *e, bool measured, b1_error *err)
{
    b1_error why = {0};
    b1_status st = B1_OK;
    if (measured) st = measure(e, err);
    if (st != B1_OK) return st;
    if (e->device.ordinal == B1I_DEVICE_CPU) {
        b1i_machine_cpu(e->cpu, sizeof e->cpu);
        e->facts.memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        e->facts.free_bytes = b1i_memory_available();
    } else if (b1i_device_facts(e->device.ordinal, &e->facts, &why) != B1_OK) {
        snprintf(e->why, sizeof e->why, "%s", why.message);
    } else {
        e->peak_gbps = b1i_gpu_peak(e->facts.name);
    }
    e->measured_gbps = b1i_ceiling_recall(&e->device, e->date, sizeof e->date);
    return B1_OK;
}

static const char *name_of(const entry *e)
{
    return e->device.ordinal == B1I_DEVICE_CPU ? e->cpu : e->facts.name[0] ? e->facts.name : "unknown";
}

/* ---- JSON ---- */

static const char *text_or_null(const char *text) { return text[0] ? text : NULL; }
static json_t *whole(uint64_t value) { return value ? json_integer((json_int_t)value) : json_null(); }
static json_t *figure(double value) { return value > 0 ? b1i_json_number(value) : json_null(); }

static json_t *entry_json(const entry *e)
{
    bool cpu = e->device.ordinal == B1I_DEVICE_CPU;
    return json_pack("{s:s,s:s,s:s?,s:s?,s:s?,s:o,s:o,s:o,s:o,s:o,s:s?,s:o,s:o,s:s?,s:s?}", "device", e->device.name,
                     "name", name_of(e), "uuid", text_or_null(e->facts.uuid), "driver", text_or_null(e->facts.driver),
                     "compute_capability", text_or_null(e->facts.compute_capability), "sms",
                     whole((uint64_t)e->facts.sms), "l2_bytes", whole(e->facts.l2_bytes), "memory_bytes",
                     whole(e->facts.memory_bytes), "free_bytes", whole(e->facts.free_bytes), "cores",
                     cpu ? json_integer(b1i_cpu_count()) : json_null(), "kernels", cpu ? b1_kernels_name() : NULL,
                     "peak_gbps", figure(e->peak_gbps), "measured_gbps", figure(e->measured_gbps), "measured_date",
                     text_or_null(e->date), "message", text_or_null(e->why));
}

/* ---- text ---- */

static const char *bytes_text(uint64_t bytes, char *text) { return bytes ? b1i_human_bytes(bytes, text) : "-"; }

static void gbps_text(double gbps, const char *none, char *text, size_t bytes)
{
    if (gbps > 0)
        snprintf(text, bytes, "%.1f", gbps);
    else
        snprintf(text, bytes, "%s", none);
}

static void print_entry(const entry *e)
{
    char peak[24], measured[24], memory[24], available[24], l2[24], sms[16] = "-";
    gbps_text(e->peak_gbps, "unknown", peak, sizeof peak);
    gbps_text(e->measured_gbps, "unknown", measured, sizeof measured);
    if (e->facts.sms) snprintf(sms, sizeof sms, "%d", e->facts.sms);
    printf("%-8s %10s %10s %10s %10s %4s %9s %5s %-10s %s\n", e->device.name, peak, measured,
           bytes_text(e->facts.memory_bytes, memory), bytes_text(e->facts.free_bytes, available), sms,
           bytes_text(e->facts.l2_bytes, l2), e->facts.compute_capability[0] ? e->facts.compute_capability : "-",
           e->facts.driver[0] ? e->facts.driver : "-", name_of(e));
    if (e->why[0]) printf("         %s\n", e->why);
}

static void print_head(void)
{
    printf("%-8s %10s %10s %10s %10s %4s %9s %5s %-10s %s\n", "device", "datasheet", "measured", "memory", "free",
           "SMs", "L2", "cc", "driver", "name");
}

/* ---- the command ---- */

static int run(const b1i_command *self, char **arguments)
{
    devices_options o = {0};
    b1_error err = {0}, none = {0};
    int count, code = b1i_options_parse(self, arguments, &o, NULL, 0, 0, &count);
    if (code != B1I_PARSED) return code;
    int gpus = b1i_device_gpus(&none);
    json_t *list = json_array();
    b1_status st = B1_OK;
    for (int ordinal = B1I_DEVICE_CPU; ordinal < gpus; ordinal++) {
        entry e = {.device = b1i_device_at(ordinal)};
        B1I_TRY(gather(&e, o.measure, &err));
        if (!o.json && ordinal == B1I_DEVICE_CPU) print_head();
        if (!o.json)
            print_entry(&e);
        else if (json_array_append_new(list, entry_json(&e)) != 0)
            B1I_TRY(b1i_fail(&err, B1_MEMORY, "not enough memory for the JSON document"));
    }
    if (o.json)
        B1I_TRY(b1i_json_write(json_pack("{s:s,s:O,s:s?}", "schema", "batchone.devices/1", "devices", list, "message",
                                         gpus > 0 ? NULL : none.message),
                               stdout, &err));
    else if (gpus <= 0)
        printf("no GPU: %s\n", none.message);
    else
        printf("GB/s; \"batchone ceiling --device cuda:0\" or --measure measures one\n");
fail:
    json_decref(list);
    return st == B1_OK ? B1I_EXIT_OK : b1i_report(&err);
}

const b1i_command b1i_command_devices = {
    .name = "devices",
    .operands = "",
    .summary = "Lists what can run a model here: the CPU and each GPU.",
    .notes = "Bandwidths are in GB/s: by the datasheet, and by the last \"batchone ceiling\" for that device. Where\n"
             "there is no GPU the last line says why; that is no failure.",
    .options = options,
    .run = run,
};
