/* SPDX-License-Identifier: MIT
 *
 * data/gpus.json, put into the binary by the assembler, so that the command needs no file beside it.
 */
#include "lab/gpus.h"

#include <string.h>

extern const char b1i_gpus_begin[], b1i_gpus_end[];

__asm__(".pushsection .rodata\n"
        ".global b1i_gpus_begin\n"
        ".global b1i_gpus_end\n"
        "b1i_gpus_begin:\n"
        ".incbin \"" B1I_GPUS_JSON "\"\n"
        "b1i_gpus_end:\n"
        ".byte 0\n"
        ".popsection\n");

/* The list as the file has it: with "driver_names", what drivers call each. */
static json_t *load(void)
{
    json_t *document = json_loadb(b1i_gpus_begin, (size_t)(b1i_gpus_end - b1i_gpus_begin), 0, NULL);
    json_t *list = json_incref(json_object_get(document, "gpus"));
    json_decref(document);
    return list;
}

json_t *b1i_gpus(void)
{
    json_t *list = load(), *gpu;
    size_t i;
    json_array_foreach(list, i, gpu) json_object_del(gpu, "driver_names");
    return list;
}

/* The name without the maker, which older drivers leave out. */
static const char *plain_name(const char *name)
{
    static const char maker[] = "NVIDIA ";
    return strncmp(name, maker, sizeof maker - 1) == 0 ? name + sizeof maker - 1 : name;
}

/* Only the whole name counts: a part of a GPU (MIG) and its relatives (Ti, Laptop, PCIe) have other bandwidths. */
json_t *b1i_gpu_find(const char *name)
{
    json_t *list = load(), *gpu, *known, *found = NULL;
    size_t i, k;
    json_array_foreach(list, i, gpu)
    {
        json_array_foreach(json_object_get(gpu, "driver_names"), k, known)
        {
            if (!found && strcmp(plain_name(json_string_value(known)), plain_name(name)) == 0) found = json_incref(gpu);
        }
    }
    json_decref(list);
    if (found) json_object_del(found, "driver_names");
    return found;
}

static double value_of(const char *name, const char *key)
{
    json_t *gpu = b1i_gpu_find(name);
    double value = json_number_value(json_object_get(gpu, key));
    json_decref(gpu);
    return value;
}

double b1i_gpu_peak(const char *name) { return value_of(name, "gbps"); }
double b1i_gpu_tflops(const char *name) { return value_of(name, "bf16_tflops"); }
