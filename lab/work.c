/* SPDX-License-Identifier: MIT
 *
 * Devices and works of the lab: what both kinds of device share. See work.h.
 */
#include "lab/work_parts.h"

#include <string.h>

const char *const b1i_lab_mode_names[b1i_lab_modes] = {"stream", "graph", "pdl"};

/* ---- the device ---- */

b1_status b1i_lab_device_open(const b1i_device *which, int threads, b1i_lab_device **out, b1_error *err)
{
    *out = NULL;
    b1i_lab_device *device = b1i_calloc(1, sizeof *device);
    if (!device) return b1i_fail_memory(err, sizeof *device);
    b1_status st = which->ordinal == B1I_DEVICE_CPU ? b1i_lab_cpu_open(threads, &device->cpu, err)
                                                    : b1i_lab_gpu_open(device, which->ordinal, err);
    if (st == B1_OK)
        *out = device;
    else
        b1i_lab_device_close(device);
    return st;
}

void b1i_lab_device_close(b1i_lab_device *device)
{
    if (!device) return;
    b1i_lab_cpu_close(device->cpu);
    b1i_lab_gpu_close(device);
    b1i_free(device);
}

b1i_gpu *b1i_lab_device_gpu(b1i_lab_device *device) { return device->gpu; }

int b1i_lab_device_units(const b1i_lab_device *device)
{
    return device->cpu ? b1i_lab_cpu_workers(device->cpu) : b1i_gpu_get_info(device->gpu)->sms;
}

b1_status b1i_lab_device_wait(b1i_lab_device *device, b1_error *err)
{
    if (!device->cpu) return b1i_gpu_sync(device->gpu, err);
    b1i_lab_cpu_wait(device->cpu);
    return B1_OK;
}

/* ---- memory ---- */

b1_status b1i_lab_alloc(b1i_lab_device *device, size_t bytes, const char *what, uint64_t *out, b1_error *err)
{
    if (device->cpu) return b1i_lab_cpu_alloc(device->cpu, bytes, what, out, err);
    return b1i_gpu_alloc(device->gpu, bytes, what, out, err);
}

void b1i_lab_free(b1i_lab_device *device, uint64_t memory)
{
    if (!device || !memory) return;
    b1i_lab_device_wait(device, NULL);
    if (device->cpu)
        b1i_lab_cpu_free(device->cpu, memory);
    else
        b1i_gpu_free(device->gpu, memory);
}

b1_status b1i_lab_put(b1i_lab_device *device, uint64_t to, const void *from, size_t bytes, b1_error *err)
{
    if (!device->cpu) return b1i_gpu_upload(device->gpu, to, from, bytes, err);
    b1i_lab_cpu_wait(device->cpu);
    if (bytes) memcpy((void *)(uintptr_t)to, from, bytes);
    return B1_OK;
}

b1_status b1i_lab_get(b1i_lab_device *device, void *to, uint64_t from, size_t bytes, b1_error *err)
{
    if (!device->cpu) return b1i_gpu_download(device->gpu, to, from, bytes, err);
    b1i_lab_cpu_wait(device->cpu);
    if (bytes) memcpy(to, (const void *)(uintptr_t)from, bytes);
    return B1_OK;
}

b1_status b1i_lab_fill(b1i_lab_device *device, uint64_t to, uint8_t byte, size_t bytes, b1_error *err)
{
    if (!device->cpu) return b1i_gpu_fill(device->gpu, to, byte, bytes, err);
    b1i_lab_cpu_wait(device->cpu);
    if (bytes) memset((void *)(uintptr_t)to, byte, bytes);
    return B1_OK;
}

/* ---- works ---- */

/* The plan that the CPU's workers follow. */
static b1_status make_plan(b1i_lab_work *work, const b1i_lab_op *ops, b1_error *err)
{
    const size_t count = (size_t)work->count * (size_t)work->sets;
    if (work->mode == b1i_lab_pdl) {
        return b1i_fail(err, B1_UNSUPPORTED,
                        "the CPU has no programmatic dependent launch: its workers meet between operations");
    }
    for (size_t i = 0; i < count; i++) {
        if (ops[i].kernel && !ops[i].body)
            return b1i_fail(err, B1_UNSUPPORTED, "%s has no meaning on the CPU", ops[i].kernel);
    }
    const uint64_t start = b1i_now_ns();
    work->ops = b1i_calloc(count, sizeof *work->ops);
    if (!work->ops) return b1i_fail_memory(err, count * sizeof *work->ops);
    memcpy(work->ops, ops, count * sizeof *work->ops);
    if (work->mode == b1i_lab_graph) work->setup.capture_ns = b1i_now_ns() - start;
    return B1_OK;
}

static b1_status check_ops(const b1i_lab_op *ops, int count, int sets, b1_error *err)
{
    if (count < 1 || sets < 1) return b1i_fail(err, B1_ARGUMENT, "a work of %d operations in %d sets", count, sets);
    for (size_t i = 0; i < (size_t)count * (size_t)sets; i++) {
        const b1i_lab_op *op = &ops[i];
        if (op->arg_bytes > B1I_LAB_ARGS_MAX) {
            return b1i_fail(err, B1_ARGUMENT, "operation %zu has %u bytes of arguments, at most %d may be", i,
                            op->arg_bytes, B1I_LAB_ARGS_MAX);
        }
        if (!op->kernel && !op->body && (!op->fill || !op->fill_bytes))
            return b1i_fail(err, B1_ARGUMENT, "operation %zu has neither a kernel or body nor memory to fill", i);
    }
    return B1_OK;
}

b1_status b1i_lab_work_create(b1i_lab_device *device, b1i_lab_mode mode, const b1i_lab_op *ops, int count, int sets,
                              b1i_lab_work **out, b1_error *err)
{
    *out = NULL;
    b1_status st = check_ops(ops, count, sets, err);
    if (st != B1_OK) return st;
    b1i_lab_work *work = b1i_calloc(1, sizeof *work);
    if (!work) return b1i_fail_memory(err, sizeof *work);
    work->device = device;
    work->mode = mode;
    work->count = count;
    work->sets = sets;
    st = device->cpu ? make_plan(work, ops, err) : b1i_lab_gpu_create(work, ops, err);
    if (st == B1_OK)
        *out = work;
    else
        b1i_lab_work_destroy(work);
    return st;
}

void b1i_lab_work_destroy(b1i_lab_work *work)
{
    if (!work) return;
    b1i_lab_device_wait(work->device, NULL);
    b1i_lab_gpu_destroy(work);
    b1i_free(work->ops);
    b1i_free(work);
}

b1_status b1i_lab_work_submit(b1i_lab_work *work, int invocations, b1_error *err)
{
    if (!work->device->cpu) return b1i_lab_gpu_submit(work, invocations, err);
    b1i_lab_cpu_submit(work->device->cpu, work, invocations, false);
    return B1_OK;
}

static b1_status check_depth(int invocations, b1_error *err)
{
    if (invocations > 0) return B1_OK;
    return b1i_fail(err, B1_ARGUMENT, "a batch of %d invocations cannot be timed", invocations);
}

b1_status b1i_lab_work_single(b1i_lab_work *work, double *ns, b1_error *err)
{
    b1_status st;
    *ns = 0;
    B1I_TRY(b1i_lab_device_wait(work->device, err));
    const uint64_t start = b1i_now_ns();
    B1I_TRY(b1i_lab_work_submit(work, 1, err));
    B1I_TRY(b1i_lab_device_wait(work->device, err));
    *ns = (double)(b1i_now_ns() - start);
fail:
    return st;
}

b1_status b1i_lab_work_enqueue(b1i_lab_work *work, int invocations, double *ns_each, b1_error *err)
{
    b1_status st;
    *ns_each = 0;
    B1I_TRY(check_depth(invocations, err));
    B1I_TRY(b1i_lab_device_wait(work->device, err));
    const uint64_t start = b1i_now_ns();
    B1I_TRY(b1i_lab_work_submit(work, invocations, err));
    const uint64_t end = b1i_now_ns();
    B1I_TRY(b1i_lab_device_wait(work->device, err));
    *ns_each = (double)(end - start) / invocations;
fail:
    return st;
}

b1_status b1i_lab_work_interval(b1i_lab_work *work, int invocations, double *ns_each, b1_error *err)
{
    b1_status st;
    *ns_each = 0;
    B1I_TRY(check_depth(invocations, err));
    B1I_TRY(b1i_lab_device_wait(work->device, err));
    if (work->device->cpu) {
        b1i_lab_cpu_submit(work->device->cpu, work, invocations, true);
        b1i_lab_cpu_wait(work->device->cpu);
        *ns_each = (double)b1i_lab_cpu_interval(work->device->cpu);
    } else {
        B1I_TRY(b1i_lab_gpu_interval(work, invocations, ns_each, err));
    }
    *ns_each /= invocations;
fail:
    return st;
}

const b1i_lab_setup *b1i_lab_work_setup(const b1i_lab_work *work) { return &work->setup; }
