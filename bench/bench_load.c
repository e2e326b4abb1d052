/* SPDX-License-Identifier: MIT
 *
 * Loading a model onto a device: seconds from b1_engine_open() to its return, the file in the page cache. The first
 * opening brings it there and is not counted; of those after it the median is. Bytes are those of the model's files.
 * Use: bench_load [-d DEVICE] [-n TIMES] [-o FILE] MODEL
 */
#include "base/base.h"
#include "lab/device.h"
#include "lab/machine.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TIMES_MAX = 100 };

static uint64_t file_bytes(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) ? (uint64_t)s.st_size : 0;
}

/* Of a file, or of the safetensors in a folder. */
static uint64_t model_bytes(const char *path)
{
    uint64_t bytes = file_bytes(path);
    DIR *folder = bytes ? NULL : opendir(path);
    const struct dirent *entry;
    char name[4096];
    while (folder && (entry = readdir(folder)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".safetensors") != 0) continue;
        (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        bytes += file_bytes(name);
    }
    if (folder) closedir(folder);
    return bytes;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double load(const char *model, const char *device, char *name, size_t room)
{
    const b1_engine_options options = {.device = device};
    b1_error err = {0};
    b1_engine *engine = NULL;
    b1_model_info info;
    const uint64_t start = b1i_now_ns();
    if (b1_engine_open(model, &options, &engine, &err) != B1_OK) {
        fprintf(stderr, "bench_load: %s\n", err.message);
        exit(1);
    }
    const double seconds = (double)(b1i_now_ns() - start) / 1e9;
    b1_engine_info(engine, &info);
    (void)snprintf(name, room, "%s", info.device);
    b1_engine_close(engine);
    return seconds;
}

int main(int argc, char **argv)
{
    const char *device = "cuda", *out = NULL;
    char name[64];
    double seconds[TIMES_MAX];
    int times = 5, option;
    while ((option = getopt(argc, argv, "d:n:o:")) != -1) {
        if (option == 'd')
            device = optarg;
        else if (option == 'n')
            times = atoi(optarg);
        else if (option == 'o')
            out = optarg;
        else
            return 2;
    }
    if (optind + 1 != argc || times < 1 || times > TIMES_MAX) {
        fprintf(stderr, "usage: bench_load [-d DEVICE] [-n TIMES] [-o FILE] MODEL\n");
        return 2;
    }
    const char *model = argv[optind];
    const uint64_t bytes = model_bytes(model);
    json_t *samples = json_array();
    printf("first: %.2f s\n", load(model, device, name, sizeof name));
    const int ordinal = strncmp(name, "cuda:", 5) == 0 ? atoi(name + 5) : B1I_DEVICE_CPU;
    json_t *before = ordinal >= 0 ? b1i_device_state(ordinal) : NULL;
    for (int i = 0; i < times; i++) {
        seconds[i] = load(model, device, name, sizeof name);
        json_array_append_new(samples, json_real(seconds[i]));
        printf("%2d: %.3f s, %.2f GB/s\n", i + 1, seconds[i], (double)bytes / seconds[i] / 1e9);
    }
    qsort(seconds, (size_t)times, sizeof *seconds, ascending);
    json_t *machine = b1i_machine_record();
    if (ordinal >= 0)
        json_object_set_new(machine, "gpu", b1i_device_record(ordinal, before, b1i_device_state(ordinal)));
    json_t *document = json_pack("{s:s,s:o,s:s,s:I,s:f,s:o}", "schema", "batchone.load/1", "machine", machine, "device",
                                 name, "bytes", (json_int_t)bytes, "seconds", seconds[times / 2], "samples_s", samples);
    if (!document) abort();
    if (out && json_dump_file(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0) {
        fprintf(stderr, "bench_load: %s cannot be written\n", out);
        return 1;
    }
    json_decref(document);
    return 0;
}
