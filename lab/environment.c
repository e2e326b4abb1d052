/* SPDX-License-Identifier: MIT
 *
 * Where a run was made. See environment.h. No host name, no user, no path.
 */
#include "lab/environment.h"

#include "gpu/gpu.h"
#include "lab/files.h"
#include "lab/machine.h"

#include <dirent.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* ---- small readings ---- */

static json_t *number_of(const char *path, double scale)
{
    char line[64];
    return b1i_machine_first_line(path, line, sizeof line) ? json_real(strtod(line, NULL) * scale) : json_null();
}

/* Which container this is, as far as one says so. */
static json_t *container(void)
{
    static const struct {
        const char *file, *name;
    } marks[] = {{"/.dockerenv", "docker"}, {"/run/.containerenv", "podman"}};
    char line[128];
    const char *said = getenv("container");
    if (b1i_machine_first_line("/run/systemd/container", line, sizeof line)) return json_string(line);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (access(marks[i].file, F_OK) == 0) return json_string(marks[i].name);
    if (said && *said) return json_string(said);
    if (getenv("KUBERNETES_SERVICE_HOST")) return json_string("kubernetes");
    return json_null();
}

static int add_library(struct dl_phdr_info *info, size_t size, void *list)
{
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    if (!name) return 0;
    char *real = realpath(info->dlpi_name, NULL);
    const char *file = real ? strrchr(real, '/') : name;
    int bad = json_array_append_new(list, json_pack("{s:s,s:s}", "name", name + 1, "file", file ? file + 1 : name + 1));
    free(real);
    return bad;
}

/* The shared libraries of this process by their file's own name, which has the version. */
static json_t *libraries(void)
{
    json_t *list = json_array();
    if (list && dl_iterate_phdr(add_library, list) != 0) {
        json_decref(list);
        list = NULL;
    }
    if (list &&
        json_array_append_new(list, json_pack("{s:s,s:s}", "name", "glibc", "file", gnu_get_libc_version())) != 0) {
        json_decref(list);
        list = NULL;
    }
    return list;
}

static json_t *cuda_version(int version)
{
    char text[24];
    snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    return version ? json_string(text) : json_null();
}

static json_t *cuda(const b1i_device *device)
{
    b1i_gpu_info info = {0};
    if (device->ordinal != B1I_DEVICE_CPU) b1i_gpu_describe(device->ordinal, &info, NULL);
    return json_pack("{s:o,s:o,s:s}", "driver_api", cuda_version(info.driver), "toolkit",
                     cuda_version(b1i_gpu_toolkit()), "runtime", "none: the driver API alone is used");
}

/* ---- the record ---- */

static json_t *entry(const b1i_process *p)
{
    double elapsed = (double)(b1i_now_ns() - p->began_ns) / 1e9;
    json_t *e = json_pack("{s:s,s:i}", "date", p->date, "first_round", p->first_round);
    json_t *last = p->ended ? json_integer(p->last_round) : json_null();
    json_t *checked = p->ended ? json_boolean(p->checked) : json_null();
    json_t *seconds = p->ended ? json_real(elapsed) : json_null();
    if (e && !json_object_set_new(e, "last_round", last) && !json_object_set_new(e, "outputs_checked", checked) &&
        !json_object_set_new(e, "elapsed_s", seconds))
        return e;
    json_decref(e);
    return NULL;
}

/* Those before and this one; *elapsed is the sum of what is known. */
static json_t *all_entries(const json_t *before, const b1i_process *now, double *elapsed)
{
    json_t *all = before ? json_copy((json_t *)(uintptr_t)before) : json_array();
    *elapsed = 0;
    if (all && json_array_append_new(all, entry(now)) != 0) {
        json_decref(all);
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(all); i++)
        *elapsed += json_number_value(json_object_get(json_array_get(all, i), "elapsed_s"));
    return all;
}

static json_t *gpu(const b1i_device *device)
{
    b1i_gpu_facts f;
    if (device->ordinal == B1I_DEVICE_CPU || b1i_device_facts(device->ordinal, &f, NULL) != B1_OK) return json_null();
    return json_pack("{s:s,s:s,s:s,s:s,s:i,s:I,s:I}", "name", f.name, "uuid", f.uuid, "driver", f.driver,
                     "compute_capability", f.compute_capability, "sms", f.sms, "l2_bytes", (json_int_t)f.l2_bytes,
                     "memory_bytes", (json_int_t)f.memory_bytes);
}

static json_t *options_json(const b1i_lab *lab)
{
    const b1i_lab_options *o = lab->options;
    return json_pack("{s:b,s:i,s:i,s:b}", "quick", o->quick, "threads", o->threads, "rounds", lab->plan.rounds, "ncu",
                     o->ncu);
}

json_t *b1i_environment_json(const b1i_environment_facts *f)
{
    return json_pack(
        "{s:s,s:s,s:s,s:s,s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:f,s:s,s:o}", "schema", "batchone.environment/1", "run",
        f->run, "experiment", f->experiment, "device", f->device->name, "options", f->options, "version", b1_version(),
        "binary_sha256", b1i_lab_text(f->binary), "machine", b1i_machine_record(), "container", container(), "gpu",
        gpu(f->device), "cuda", cuda(f->device), "libraries", libraries(), "globaltimer_tick_ns",
        f->tick_ns > 0 ? json_real(f->tick_ns) : json_null(), "elapsed_s", f->elapsed_s, "elapsed_excludes",
        "start of the process, analysis, hashing and writing of the manifest, verification, reports, and "
        "processes of this run that were killed",
        "processes", f->processes);
}

b1_status b1i_environment_write(const b1i_lab *lab, const json_t *processes, const b1i_process *now, b1_error *err)
{
    b1i_environment_facts facts = {.run = lab->plan.run,
                                   .experiment = lab->plan.experiment,
                                   .binary = lab->plan.binary,
                                   .device = &lab->options->device,
                                   .tick_ns = lab->tick_ns};
    facts.processes = all_entries(processes, now, &facts.elapsed_s);
    facts.options = options_json(lab);
    return b1i_evidence_json(lab->evidence, "environment.json", b1i_environment_json(&facts), err);
}

/* ---- the device before and after ---- */

/* Processes that are running or wait to run now, this one among them. */
static json_t *running(void)
{
    char line[128];
    int count;
    if (!b1i_machine_first_line("/proc/loadavg", line, sizeof line) || sscanf(line, "%*s %*s %*s %d/", &count) != 1)
        return json_null();
    return json_integer(count);
}

static json_t *cpu_state(void)
{
    double load[3];
    int got = getloadavg(load, 3);
    return json_pack("{s:o,s:o,s:I,s:o,s:o}", "cpu0_mhz",
                     number_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", 1e-3), "temperature_c",
                     number_of("/sys/class/thermal/thermal_zone0/temp", 1e-3), "throttles",
                     (json_int_t)b1i_machine_throttle_count(), "load_average",
                     got == 3 ? json_pack("[f,f,f]", load[0], load[1], load[2]) : json_null(), "running", running());
}

json_t *b1i_environment_state(const b1i_device *device)
{
    char date[32];
    b1i_machine_date(date, sizeof date);
    return json_pack("{s:s,s:s,s:s,s:o,s:o}", "schema", "batchone.device/1", "date", date, "device", device->name,
                     "gpu", device->ordinal == B1I_DEVICE_CPU ? json_null() : b1i_device_state(device->ordinal), "cpu",
                     cpu_state());
}

b1_status b1i_environment_device(const b1i_lab *lab, const char *name, b1_error *err)
{
    return b1i_evidence_json(lab->evidence, name, b1i_environment_state(&lab->options->device), err);
}

/* ---- who this is ---- */

b1_status b1i_environment_name(char *run, size_t bytes, b1_error *err)
{
    uint8_t random[6];
    char date[24];
    time_t now = time(NULL);
    struct tm utc;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random || !gmtime_r(&now, &utc) ||
        !strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", &utc))
        return b1i_fail(err, B1_SYSTEM, "the system gives no random number or no date");
    snprintf(run, bytes, "%s-%02x%02x%02x%02x%02x%02x", date, random[0], random[1], random[2], random[3], random[4],
             random[5]);
    return B1_OK;
}

void b1i_environment_device_name(const b1i_device *device, char *name, size_t bytes)
{
    b1i_gpu_facts facts;
    if (device->ordinal == B1I_DEVICE_CPU)
        b1i_machine_cpu(name, bytes);
    else if (b1i_device_facts(device->ordinal, &facts, NULL) == B1_OK)
        snprintf(name, bytes, "%s", facts.name);
    else
        snprintf(name, bytes, "unknown");
}

b1_status b1i_environment_identify(b1i_lab *lab, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_lab_plan *p = &lab->plan;
    uint64_t bytes;
    char name[256];
    B1I_TRY(b1i_environment_name(p->run, sizeof p->run, err));
    if (lab->options->executable) B1I_TRY(b1i_sha256_file(lab->options->executable, p->binary, &bytes, err));
    snprintf(p->device, sizeof p->device, "%s", lab->options->device.name);
    b1i_environment_device_name(&lab->options->device, name, sizeof name);
    if (!(p->device_name = b1i_strdup(name)) || !(p->experiment = b1i_strdup(lab->experiment->name)))
        return b1i_fail_memory(err, sizeof name);
fail:
    return st;
}
