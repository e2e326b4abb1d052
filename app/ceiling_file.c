/* SPDX-License-Identifier: MIT
 *
 * The kept ceilings: ceiling.json is the CPU's, ceiling-UUID.json a GPU's, whatever its number is today.
 */
#include "app/ceiling_file.h"

#include "app/output.h"
#include "base/threads.h"
#include "lab/machine.h"

#include <ctype.h>
#include <string.h>

enum { FILE_MOST_BYTES = 1 << 20 };

static bool path_of(const b1i_device *device, const char *uuid, bool make, char *path, size_t bytes)
{
    char name[96];
    if (device->ordinal == B1I_DEVICE_CPU) return b1i_cache_path("ceiling.json", make, path, bytes);
    snprintf(name, sizeof name, "ceiling-%s.json", uuid[0] ? uuid : device->name);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '.') *c = '-';
    return b1i_cache_path(name, make, path, bytes);
}

/* What must be the same for a result to be this device's. */
static void identify(const b1i_device *device, b1i_gpu_facts *facts)
{
    *facts = (b1i_gpu_facts){0};
    if (device->ordinal != B1I_DEVICE_CPU) b1i_device_facts(device->ordinal, facts, NULL);
}

void b1i_ceiling_keep(const b1i_device *device, json_t *document)
{
    char path[4096];
    b1i_outfile file = {0};
    b1i_gpu_facts facts;
    b1_error ignored;
    identify(device, &facts);
    if (!path_of(device, facts.uuid, true, path, sizeof path)) return;
    if (b1i_outfile_open(path, &file, &ignored) != B1_OK) return;
    if (b1i_json_write(json_incref(document), file.file, &ignored) == B1_OK) b1i_outfile_commit(&file, &ignored);
    b1i_outfile_discard(&file);
}

static bool same_cpu(const json_t *document)
{
    char cpu[256];
    const char *then;
    int cores;
    b1i_machine_cpu(cpu, sizeof cpu);
    return json_unpack((json_t *)(uintptr_t)document, "{s:{s:s,s:i}}", "machine", "cpu", &then, "cores", &cores) == 0 &&
           cores == b1i_cpu_count() && strcmp(cpu, then) == 0;
}

static bool same_gpu(const json_t *document, const b1i_gpu_facts *facts)
{
    const char *name, *uuid;
    return json_unpack((json_t *)(uintptr_t)document, "{s:{s:{s:s,s:s}}}", "machine", "gpu", "name", &name, "uuid",
                       &uuid) == 0 &&
           strcmp(name, facts->name) == 0 && strcmp(uuid, facts->uuid) == 0;
}

double b1i_ceiling_recall(const b1i_device *device, char *date, size_t bytes)
{
    char path[4096], *text = NULL;
    size_t length;
    const char *then;
    double gbps = 0;
    b1i_gpu_facts facts;
    b1_error ignored;
    date[0] = 0;
    identify(device, &facts);
    if (!path_of(device, facts.uuid, false, path, sizeof path)) return 0;
    if (b1i_read_file(path, FILE_MOST_BYTES, &text, &length, &ignored) != B1_OK) return 0;
    json_t *document = json_loadb(text, length, 0, NULL);
    if (document && json_unpack(document, "{s:F,s:{s:s}}", "ceiling_gbps", &gbps, "machine", "date", &then) == 0 &&
        gbps > 0 && (device->ordinal == B1I_DEVICE_CPU ? same_cpu(document) : same_gpu(document, &facts)))
        snprintf(date, bytes, "%s", then);
    else
        gbps = 0;
    json_decref(document);
    b1i_free(text);
    return gbps;
}
