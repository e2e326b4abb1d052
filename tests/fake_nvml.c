/* SPDX-License-Identifier: MIT
 *
 * An NVML for the driver of fake_cuda.c, as libnvidia-ml.so.1: one device, whatever its UUID, that is calm and takes
 * FAKE_NVML_MW milliwatts by the host's clock, of which its energy counter tells every 20 ms. Without that variable in
 * the environment it cannot be started, as if there were none.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

enum { TICK_NS = 20000000 };

static unsigned long long milliwatts(void)
{
    const char *text = getenv("FAKE_NVML_MW");
    return text ? strtoull(text, NULL, 10) : 0;
}

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long out[3]);
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz);
int nvmlDeviceGetPowerUsage(void *device, unsigned *out);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules);

int nvmlInit_v2(void) { return milliwatts() ? 0 : 1; }

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    static int one;
    (void)uuid;
    *device = &one;
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long out[3])
{
    (void)device;
    out[0] = out[1] = 1ull << 40;
    out[2] = 0;
    return 0;
}

int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz)
{
    (void)device;
    *mhz = which == 1 ? 1500 : 2500;
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *out)
{
    (void)device;
    *out = (unsigned)milliwatts();
    return 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    (void)device;
    (void)sensor;
    *celsius = 40;
    return 0;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons)
{
    (void)device;
    *reasons = 0x24; /* power cap, heat */
    return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
    struct timespec now;
    (void)device;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const unsigned long long ns = (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
    *millijoules = ns / TICK_NS * TICK_NS / 1000 * milliwatts() / 1000000;
    return 0;
}
