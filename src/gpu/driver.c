/* SPDX-License-Identifier: MIT
 *
 * The CUDA driver, opened at run time: its entry points, its version, its devices. It is found by the loader under its
 * one name and nowhere else; which devices it shows is CUDA_VISIBLE_DEVICES' business. Once opened it stays open.
 *
 * A driver that is older than the toolkit that compiled the kernels is refused: it may know neither the entry points
 * nor the code.
 */
#include "gpu/gpu.h"

#if B1_CUDA

#include "gpu/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define STRING(text)    STRING_OF(text)
#define STRING_OF(text) #text

static struct {
    pthread_once_t once;
    b1i_driver driver;
    b1_status status;
    b1_error error;
} the = {.once = PTHREAD_ONCE_INIT};

/* Stores the address of `name` at *entry, of any function pointer type. */
static bool find(void *library, const char *name, void *entry)
{
    void *at = dlsym(library, name);
    if (at) memcpy(entry, &at, sizeof at);
    return at != NULL;
}

static b1_status find_all(void *library, b1_error *err)
{
    b1i_driver *cu = &the.driver;
#define FIND(name)                                                                                               \
    if (!find(library, STRING(name), &cu->name)) {                                                               \
        return b1i_fail(err, B1_UNSUPPORTED,                                                                     \
                        "the NVIDIA driver has no %s: a driver for CUDA %d.%d or newer is needed", STRING(name), \
                        CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);                                          \
    }
    B1I_DRIVER_MAP(FIND)
#undef FIND
    return B1_OK;
}

static b1_status open_driver(b1_error *err)
{
    b1i_driver *cu = &the.driver;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return b1i_fail(err, B1_UNSUPPORTED, "there is no NVIDIA driver here: %s", dlerror());
    /* The version first: an old driver is named as such, not by the first entry point that it lacks. */
    if (!find(library, STRING(cuDriverGetVersion), &cu->cuDriverGetVersion) ||
        cu->cuDriverGetVersion(&cu->version) != CUDA_SUCCESS)
        return b1i_fail(err, B1_UNSUPPORTED,
                        "the libcuda.so.1 on the loader's path is no NVIDIA driver (a toolkit's stub?): it tells no "
                        "version");
    if (cu->version < CUDA_VERSION / 10 * 10) {
        return b1i_fail(err, B1_UNSUPPORTED,
                        "the NVIDIA driver here is for CUDA %d.%d, but this build needs %d.%d: update the driver",
                        cu->version / 1000, cu->version % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
    }
    b1_status st = find_all(library, err);
    if (st) return st;
    CUresult result = cu->cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE) {
        return b1i_fail(err, B1_UNSUPPORTED,
                        "the NVIDIA driver shows no GPU (CUDA_VISIBLE_DEVICES chooses among those that are there)");
    }
    if (result)
        return b1i_fail(err, B1_UNSUPPORTED, "the NVIDIA driver does not start: %s", b1i_driver_text(cu, result));
    return B1_OK;
}

static void open_once(void) { the.status = open_driver(&the.error); }

const b1i_driver *b1i_driver_get(b1_error *err)
{
    pthread_once(&the.once, open_once);
    if (the.status == B1_OK) return &the.driver;
    b1i_fail(err, the.status, "%s", the.error.message);
    return NULL;
}

const char *b1i_driver_text(const b1i_driver *cu, CUresult result)
{
    static _Thread_local char text[256];
    const char *name = NULL, *meaning = NULL;
    if (cu->cuGetErrorName(result, &name) || !name) name = "an unknown CUDA error";
    if (cu->cuGetErrorString(result, &meaning) || !meaning) meaning = "no description";
    snprintf(text, sizeof text, "%s, %d (%s)", name, (int)result, meaning);
    return text;
}

b1_status b1i_driver_device(const b1i_driver *cu, int ordinal, CUdevice *out, b1_error *err)
{
    int count = 0;
    CUresult result = cu->cuDeviceGetCount(&count);
    if (!result && (ordinal < 0 || ordinal >= count)) {
        if (count == 1) return b1i_fail(err, B1_UNSUPPORTED, "there is no GPU %d: the only one is 0", ordinal);
        return b1i_fail(err, B1_UNSUPPORTED, "there is no GPU %d: those here are 0 to %d", ordinal, count - 1);
    }
    if (!result) result = cu->cuDeviceGet(out, ordinal);
    if (result) return b1i_fail(err, B1_DEVICE, "GPU %d cannot be had: %s", ordinal, b1i_driver_text(cu, result));
    return B1_OK;
}

int b1i_gpu_toolkit(void) { return CUDA_VERSION; }

int b1i_gpu_count(b1_error *err)
{
    const b1i_driver *cu = b1i_driver_get(err);
    if (!cu) return 0;
    int count = 0;
    CUresult result = cu->cuDeviceGetCount(&count);
    if (result) {
        b1i_fail(err, B1_DEVICE, "the GPUs cannot be counted: %s", b1i_driver_text(cu, result));
        return 0;
    }
    if (count == 0) b1i_fail(err, B1_UNSUPPORTED, "the NVIDIA driver shows no GPU");
    return count;
}

void b1i_driver_write_uuid(char *out, size_t size, const CUuuid *uuid)
{
    int at = snprintf(out, size, "GPU-");
    for (int i = 0; i < 16; i++) {
        const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
        at += snprintf(out + at, size - (size_t)at, "%s%02x", dash, (unsigned char)uuid->bytes[i]);
    }
}

b1_status b1i_gpu_describe(int ordinal, b1i_gpu_info *out, b1_error *err)
{
    *out = (b1i_gpu_info){.ordinal = ordinal};
    const b1i_driver *cu = b1i_driver_get(err);
    if (!cu) return B1_UNSUPPORTED;
    CUdevice device;
    b1_status st = b1i_driver_device(cu, ordinal, &device, err);
    if (st) return st;
    CUuuid uuid;
    size_t bytes = 0;
    int l2 = 0;
    const struct {
        CUdevice_attribute which;
        int *to;
    } wanted[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &out->major},
                  {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &out->minor},
                  {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->sms},
                  {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2},
                  {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &out->shared_bytes_block},
                  {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &out->shared_bytes_sm}};
    CUresult result = cu->cuDeviceGetName(out->name, sizeof out->name, device);
    if (!result) result = cu->cuDeviceGetUuid(&uuid, device);
    if (!result) result = cu->cuDeviceTotalMem(&bytes, device);
    for (size_t i = 0; !result && i < sizeof wanted / sizeof *wanted; i++)
        result = cu->cuDeviceGetAttribute(wanted[i].to, wanted[i].which, device);
    if (result)
        return b1i_fail(err, B1_DEVICE, "GPU %d does not describe itself: %s", ordinal, b1i_driver_text(cu, result));
    b1i_driver_write_uuid(out->uuid, sizeof out->uuid, &uuid);
    out->driver = cu->version;
    out->memory_bytes = bytes;
    out->l2_bytes = (uint64_t)l2;
    out->free_bytes = b1i_nvml_free_bytes(out->uuid);
    return B1_OK;
}

#endif
