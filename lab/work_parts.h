/* SPDX-License-Identifier: MIT
 *
 * What the files of the lab's works share. Only for lab/work*.c.
 */
#ifndef LAB_WORK_PARTS_H
#define LAB_WORK_PARTS_H

#include "lab/work.h"

typedef struct b1i_lab_cpu b1i_lab_cpu;

struct b1i_lab_device {
    b1i_lab_cpu *cpu; /* or the rest */
    b1i_gpu *gpu;
    b1i_gpu_event *from, *to;
    b1i_gpu_ptr clock; /* what k_clock writes */
};

struct b1i_lab_work {
    b1i_lab_device *device;
    b1i_lab_mode mode;
    int count, sets;
    int next;                 /* the set of the next invocation */
    b1i_lab_op *ops;          /* [sets][count]; of the CPU */
    b1i_gpu_launch *launches; /* [sets][count]; of the GPU's stream */
    b1i_gpu_graph **graphs;   /* [sets]; of the GPU's other modes */
    b1i_lab_setup setup;
};

/* ---- the CPU's queue: see work_cpu.c ---- */
b1_status b1i_lab_cpu_open(int threads, b1i_lab_cpu **out, b1_error *err);
void b1i_lab_cpu_close(b1i_lab_cpu *cpu); /* NULL is fine; what was submitted is done first */
int b1i_lab_cpu_workers(const b1i_lab_cpu *cpu);
b1_status b1i_lab_cpu_alloc(b1i_lab_cpu *cpu, size_t bytes, const char *what, uint64_t *out, b1_error *err);
void b1i_lab_cpu_free(b1i_lab_cpu *cpu, uint64_t memory);
/* `invocations` of the work from its next set on. Where `timed`, the first worker's start and the last one's end are
 * kept for b1i_lab_cpu_interval(). Waits for places in the queue where there are none. */
void b1i_lab_cpu_submit(b1i_lab_cpu *cpu, b1i_lab_work *work, int invocations, bool timed);
void b1i_lab_cpu_wait(b1i_lab_cpu *cpu);
/* Of the last timed submission, which is done. */
uint64_t b1i_lab_cpu_interval(const b1i_lab_cpu *cpu);

/* ---- the GPU's side: see work_gpu.c ---- */
b1_status b1i_lab_gpu_open(b1i_lab_device *device, int ordinal, b1_error *err);
void b1i_lab_gpu_close(b1i_lab_device *device);
b1_status b1i_lab_gpu_create(b1i_lab_work *work, const b1i_lab_op *ops, b1_error *err);
void b1i_lab_gpu_destroy(b1i_lab_work *work);
b1_status b1i_lab_gpu_submit(b1i_lab_work *work, int invocations, b1_error *err);
b1_status b1i_lab_gpu_interval(b1i_lab_work *work, int invocations, double *ns, b1_error *err);

#endif
