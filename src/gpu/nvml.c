/* SPDX-License-Identifier: MIT
 *
 * NVML, opened at run time: clocks, power, temperature, throttle reasons, free memory, ECC, who else computes, energy.
 * It is optional: what it does not say is -1 (0 for throttle reasons and free memory), and that is no error.
 *
 * Its few entry points are declared here, for not every toolkit brings its header. Devices are found by UUID, as NVML
 * counts also those that CUDA_VISIBLE_DEVICES hides.
 */
#include "gpu/gpu.h"

#if B1_CUDA

#include "gpu/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;

typedef struct nvml_process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
} nvml_process;

enum {
    PROCESSES = 256, /* looked at */
    KNOWN = 32,      /* devices whose handles are kept */
    ECC_CORRECTED = 0,
    ECC_UNCORRECTED = 1,
    ECC_SINCE_LOADED = 0,
    CLOCK_SM = 1,
    CLOCK_MEMORY = 2,
    SENSOR_GPU = 0,
    REASON_IDLE = 1,              /* nothing runs */
    REASON_APPLICATION_CLOCKS = 2 /* what was set, not what was taken away */
};

static struct {
    pthread_once_t once;
    bool there;
    int (*init)(void);
    int (*by_uuid)(const char *uuid, void **device);
    int (*memory)(void *device, nvml_memory *out);
    int (*clock)(void *device, int which, unsigned *mhz);
    int (*power)(void *device, unsigned *milliwatts);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*throttle)(void *device, unsigned long long *reasons);
    /* These may be missing. */
    int (*ecc)(void *device, int *now, int *pending);
    int (*ecc_errors)(void *device, int kind, int counter, unsigned long long *count);
    int (*processes)(void *device, unsigned *count, nvml_process *out);
    int (*energy)(void *device, unsigned long long *millijoules);
} nvml = {.once = PTHREAD_ONCE_INIT};

static bool find(void *library, const char *name, void *entry)
{
    void *at = dlsym(library, name);
    if (at) memcpy(entry, &at, sizeof at);
    return at != NULL;
}

static void open_once(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    bool all = find(library, "nvmlInit_v2", &nvml.init) && find(library, "nvmlDeviceGetHandleByUUID", &nvml.by_uuid) &&
               find(library, "nvmlDeviceGetMemoryInfo", &nvml.memory) &&
               find(library, "nvmlDeviceGetClockInfo", &nvml.clock) &&
               find(library, "nvmlDeviceGetPowerUsage", &nvml.power) &&
               find(library, "nvmlDeviceGetTemperature", &nvml.temperature) &&
               (find(library, "nvmlDeviceGetCurrentClocksEventReasons", &nvml.throttle) ||
                find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &nvml.throttle));
    find(library, "nvmlDeviceGetEccMode", &nvml.ecc);
    find(library, "nvmlDeviceGetTotalEccErrors", &nvml.ecc_errors);
    find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &nvml.processes);
    find(library, "nvmlDeviceGetTotalEnergyConsumption", &nvml.energy);
    nvml.there = all && nvml.init() == 0;
}

/* NVML's own search, which takes it milliseconds. */
static void *search(const char *uuid)
{
    void *device = NULL;
    if (nvml.by_uuid(uuid, &device) == 0) return device;
    char slice[64]; /* a part of a device is named otherwise */
    snprintf(slice, sizeof slice, "MIG-%s", strlen(uuid) > 4 ? uuid + 4 : "");
    return nvml.by_uuid(slice, &device) == 0 ? device : NULL;
}

/* NVML's device; NULL where there is none. Those that were found are kept, for a handle stays. */
static void *device_of(const char *uuid)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        char uuid[48];
        void *device;
    } known[KNOWN];
    static int count;
    pthread_once(&nvml.once, open_once);
    if (!nvml.there) return NULL;
    void *device = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; !device && i < count; i++)
        if (strcmp(known[i].uuid, uuid) == 0) device = known[i].device;
    if (!device && (device = search(uuid)) && count < KNOWN && strlen(uuid) < sizeof known[0].uuid) {
        strcpy(known[count].uuid, uuid);
        known[count++].device = device;
    }
    pthread_mutex_unlock(&lock);
    return device;
}

uint64_t b1i_nvml_free_bytes(const char *uuid)
{
    void *device = device_of(uuid);
    nvml_memory memory = {0};
    return device && nvml.memory(device, &memory) == 0 ? memory.free : 0;
}

/* NVML's device of the driver's number. */
static void *device_at(int ordinal)
{
    const b1i_driver *cu = b1i_driver_get(NULL);
    CUdevice which;
    CUuuid id;
    char uuid[48];
    if (!cu || b1i_driver_device(cu, ordinal, &which, NULL) || cu->cuDeviceGetUuid(&id, which)) return NULL;
    b1i_driver_write_uuid(uuid, sizeof uuid, &id);
    return device_of(uuid);
}

void b1i_gpu_clocks_read(int ordinal, b1i_gpu_clocks *out)
{
    *out = (b1i_gpu_clocks){.sm_mhz = -1, .memory_mhz = -1, .power_mw = -1, .temperature_c = -1};
    void *device = device_at(ordinal);
    if (!device) return;
    unsigned value = 0;
    unsigned long long reasons = 0;
    if (nvml.clock(device, CLOCK_SM, &value) == 0) out->sm_mhz = (int)value;
    if (nvml.clock(device, CLOCK_MEMORY, &value) == 0) out->memory_mhz = (int)value;
    if (nvml.power(device, &value) == 0) out->power_mw = (int)value;
    if (nvml.temperature(device, SENSOR_GPU, &value) == 0) out->temperature_c = (int)value;
    if (nvml.throttle(device, &reasons) == 0)
        out->throttle = reasons & ~(unsigned long long)(REASON_IDLE | REASON_APPLICATION_CLOCKS);
}

/* ECC errors of a kind; -1: unknown. */
static int64_t ecc_errors(void *device, int kind)
{
    unsigned long long count = 0;
    if (!nvml.ecc_errors || nvml.ecc_errors(device, kind, ECC_SINCE_LOADED, &count) != 0) return -1;
    return count < INT64_MAX ? (int64_t)count : INT64_MAX;
}

void b1i_gpu_health_read(int ordinal, b1i_gpu_health *out)
{
    *out = (b1i_gpu_health){-1, -1, -1, -1, -1};
    void *device = device_at(ordinal);
    if (!device) return;
    int now = 0, pending = 0;
    nvml_process process[PROCESSES];
    unsigned count = PROCESSES;
    if (nvml.ecc && nvml.ecc(device, &now, &pending) == 0) out->ecc = now;
    out->ecc_corrected = ecc_errors(device, ECC_CORRECTED);
    out->ecc_uncorrected = ecc_errors(device, ECC_UNCORRECTED);
    if (!nvml.processes || nvml.processes(device, &count, process) != 0) return;
    out->processes = (int)count;
    out->listed = 0;
    for (unsigned i = 0; i < count; i++) out->listed |= process[i].pid == (unsigned)getpid();
}

bool b1i_gpu_energy_read(int ordinal, uint64_t *millijoules)
{
    void *device = device_at(ordinal);
    unsigned long long value = 0;
    if (!device || !nvml.energy || nvml.energy(device, &value) != 0) return false;
    *millijoules = value;
    return true;
}

#endif
