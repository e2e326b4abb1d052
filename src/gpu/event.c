/* SPDX-License-Identifier: MIT
 *
 * Events on the gpu's stream: for waiting, and for times of the device.
 */
#include "gpu/gpu.h"

#if B1_CUDA

#include "gpu/driver.h"

struct b1i_gpu_event {
    CUevent event;
};

b1_status b1i_gpu_event_create(b1i_gpu *gpu, bool timing, b1i_gpu_event **out, b1_error *err)
{
    *out = NULL;
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    b1i_gpu_event *event = b1i_calloc(1, sizeof *event);
    if (!event) {
        st = b1i_fail_memory(err, sizeof *event);
        goto fail;
    }
    B1I_CU(gpu, cuEventCreate(&event->event, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING), "making an event");
    *out = event;
    event = NULL;
fail:
    b1i_free(event);
    b1i_gpu_end(gpu);
    return st;
}

void b1i_gpu_event_destroy(b1i_gpu *gpu, b1i_gpu_event *event)
{
    if (!gpu || !event) return;
    if (gpu->cu->cuCtxPushCurrent(gpu->context) == CUDA_SUCCESS) {
        gpu->cu->cuEventDestroy(event->event);
        b1i_gpu_end(gpu);
    }
    b1i_free(event);
}

b1_status b1i_gpu_event_record(b1i_gpu *gpu, b1i_gpu_event *event, b1_error *err)
{
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    st = b1i_gpu_check(gpu, gpu->cu->cuEventRecord(event->event, gpu->stream), "recording an event", err);
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_event_sync(b1i_gpu *gpu, b1i_gpu_event *event, b1_error *err)
{
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    st = b1i_gpu_check(gpu, gpu->cu->cuEventSynchronize(event->event), "waiting for an event", err);
    b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_event_ns(b1i_gpu *gpu, b1i_gpu_event *from, b1i_gpu_event *to, uint64_t *ns, b1_error *err)
{
    *ns = 0;
    b1_status st = b1i_gpu_begin(gpu, err);
    if (st) return st;
    float ms = 0;
    st = b1i_gpu_check(gpu, gpu->cu->cuEventElapsedTime(&ms, from->event, to->event), "reading a time", err);
    b1i_gpu_end(gpu);
    *ns = ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
    return st;
}

#endif
