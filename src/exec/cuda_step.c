/* SPDX-License-Identifier: MIT
 *
 * A step of the CUDA executors, and what it leaves: logits and the chosen token. Up to 8 rows run a program of the
 * engine's machine; longer passes are prefill's.
 *
 * A step's parameters go to pinned memory, from where its first kernel takes them, and its end is seen in pinned
 * memory: a step copies nothing and makes no call of the driver but its launches. With op_times, or where a test stops
 * it early, it is launched kernel by kernel and waited for as a whole.
 */
#include "exec/cuda.h"

#include "base/threads.h"

#include <string.h>

/* What wait() waits for. */
enum { for_nothing, for_result, for_all };

/* ---- a step; all of it with the machine's lock held ---- */

/* The launches of items up to stop_after (items grow along a program); all of them where it is negative. */
static int prefix(const b1i_cuda_program *p, int stop_after)
{
    int count = p->count;
    while (stop_after >= 0 && count > 0 && p->launches[count - 1].item > stop_after) count--;
    return count;
}

/* One by one, with an event after each item where times are kept. */
static b1_status launch_stream(b1i_cuda_executor *e, const b1i_gpu_launch *launches, int count, b1_error *err)
{
    b1_status st;
    b1i_gpu *gpu = e->device->gpu;
    e->marks = 0;
    if (e->events) B1I_TRY(b1i_gpu_event_record(gpu, e->events[0], err));
    for (int i = 0; i < count; i++) {
        B1I_TRY(b1i_gpu_run(gpu, &launches[i], err));
        if (!e->events || (i + 1 < count && launches[i + 1].item == launches[i].item) || e->marks == e->items) continue;
        B1I_TRY(b1i_gpu_event_record(gpu, e->events[++e->marks], err));
        e->marked[e->marks] = launches[i].item;
    }
    return B1_OK;
fail:
    return st;
}

/* A graph of the first launches alone, for a test. Waits. */
static b1_status launch_prefix(b1i_cuda_executor *e, const b1i_gpu_launch *launches, int count, b1_error *err)
{
    b1_status st = B1_OK;
    b1i_gpu *gpu = e->device->gpu;
    b1i_gpu_graph *graph = NULL;
    if (count == 0) return B1_OK;
    B1I_TRY(b1i_gpu_graph_create(gpu, launches, count, b1i_cuda_programmatic(e->class->form), &graph, err));
    B1I_TRY(b1i_gpu_graph_run(gpu, graph, err));
    B1I_TRY(b1i_gpu_sync(gpu, err));
fail:
    if (graph) b1i_gpu_graph_destroy(gpu, graph);
    return st;
}

/* Submits the step that is staged, of e->n rows. */
static b1_status launch(b1i_cuda_executor *e, int stop_after, b1_error *err)
{
    b1_status st;
    b1i_cuda_device *d = e->device;
    const b1i_cuda_program *p = NULL;
    b1i_gpu_graph *graph = NULL;
    const int form = e->class->form, mode = e->class->mode, width = e->n == 1 ? b1i_cuda_one : b1i_cuda_few;
    B1I_TRY(b1i_cuda_program_get(&d->machine, (b1i_cuda_form)form, width, &p, err));
    const int count = prefix(p, stop_after);
    e->awaits = e->events || count < p->count ? for_all : for_result;
    if (mode == b1i_cuda_stream || e->events) return launch_stream(e, p->launches, count, err);
    if (count < p->count) return launch_prefix(e, p->launches, count, err);
    B1I_TRY(b1i_cuda_device_graph(d, form, width, &graph, err));
    return b1i_gpu_graph_run(d->gpu, graph, err);
fail:
    return st;
}

/* A row of this instance, whose logits become `row` of its own; negative: they are not wanted. */
static b1i_step_row row_of(const b1i_cuda_executor *e, int32_t token, int position, int row)
{
    return (b1i_step_row){.token = token,
                          .position = position,
                          .kv = e->kv.data,
                          .head_bytes = e->kv.head_bytes,
                          .logits = row < 0 ? 0 : e->logits + (size_t)row * (size_t)e->mask.vocab * sizeof(float),
                          .mask = e->mask.count > 0 ? e->mask_bits : 0};
}

/* The step's parameters. */
static void stage(b1i_cuda_executor *e, const b1i_step *step)
{
    b1i_cuda_machine *m = &e->device->machine;
    b1i_step_params *p = m->staged;
    e->serial = ++m->serial;
    *p = (b1i_step_params){.n = step->n, .logits_from = step->logits_from, .serial = e->serial};
    for (int r = 0; r < step->n; r++)
        p->row[r] = step->of ? row_of(b1i_cuda_of(step->of[r]), step->tokens[r], step->positions[r], 0)
                             : row_of(e, step->tokens[r], step->position + r, r - step->logits_from);
}

/* What the last step left is no more. `rows` of logits are to come. */
static void forget(b1i_cuda_executor *e, int rows)
{
    e->chosen = false;
    e->last_row = rows - 1;
    memset(e->fetched, 0, (size_t)e->logit_rows);
}

static b1_status start(b1i_cuda_executor *e, const b1i_step *step, b1_error *err)
{
    b1i_cuda_device *d = e->device;
    e->awaits = for_nothing;
    e->marks = 0;
    e->n = step->n;
    e->of = step->of;
    forget(e, step->of ? 1 : step->n - step->logits_from);
    for (int i = 1; step->of && i < step->n; i++) forget(b1i_cuda_of(step->of[i]), 1);
    if (e->last_row < 0 || e->last_row >= e->logit_rows)
        return b1i_fail(err, B1_ARGUMENT, "logits of %d rows: this session keeps %d", e->last_row + 1, e->logit_rows);
    if (step->n <= B1I_CUDA_ROWS) {
        stage(e, step);
        return launch(e, step->stop_after, err);
    }
    if (!d->prefill || step->stop_after >= 0)
        return b1i_fail(err, B1_UNSUPPORTED, "a pass of %d tokens%s; the executor %s takes up to %d", step->n,
                        d->prefill ? " that stops early" : "", e->class->name, B1I_CUDA_ROWS);
    return b1i_cuda_prefill_run(d->prefill, &e->kv, step->tokens, step->n, step->position, step->logits_from, e->logits,
                                err);
}

static bool cancelled(const b1i_cuda_executor *e, const b1i_step *step)
{
    for (int i = 0; step->of && i < step->n; i++)
        if (atomic_load_explicit(&b1i_cuda_of(step->of[i])->cancelled, memory_order_relaxed)) return true;
    return atomic_load_explicit(&e->cancelled, memory_order_relaxed);
}

b1_status b1i_cuda_submit(b1i_executor *base, const b1i_step *step, b1_error *err)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    if (cancelled(e, step)) return b1i_fail(err, B1_CANCELLED, "cancelled");
    b1i_cuda_lock(e);
    b1_status st = start(e, step, err);
    if (st == B1_OK) return st;
    (void)b1i_gpu_sync(e->device->gpu, NULL); /* what was launched reads the staged parameters */
    b1i_cuda_unlock(e);
    return st;
}

/* How often the result is looked at between two questions to the driver, whose answer ends a wait for a step that
 * failed: some tens of microseconds. */
enum { LOOKS = 2000 };

/* Returns when the step has written its result. */
static b1_status await_result(b1i_cuda_executor *e, b1_error *err)
{
    volatile b1i_step_result *result = e->device->machine.result;
    bool done = false;
    /* acquired: the serial before what it vouches for */
    for (unsigned looks = 1; __atomic_load_n(&result->serial, __ATOMIC_ACQUIRE) != e->serial; looks++) {
        if (done) return b1i_fail(err, B1_DEVICE, "%s: a step ended without its result", e->device->name);
        b1i_cpu_relax();
        if (looks % LOOKS) continue;
        b1_status st = b1i_gpu_query(e->device->gpu, &done, err);
        if (st != B1_OK) return st;
    }
    b1i_gpu_seen_done(e->device->gpu);
    return B1_OK;
}

static b1_status read_times(b1i_cuda_executor *e, b1_error *err)
{
    memset(e->times, 0, (size_t)e->items * sizeof *e->times);
    for (int i = 1; i <= e->marks; i++) {
        uint64_t ns = 0;
        b1_status st = b1i_gpu_event_ns(e->device->gpu, e->events[i - 1], e->events[i], &ns, err);
        if (st != B1_OK) return st;
        e->times[e->marked[i]] += ns;
    }
    return B1_OK;
}

/* The GPU's choice for the last row. */
static void choose(b1i_cuda_executor *e, int32_t token)
{
    e->token = token;
    e->chosen = token >= 0; /* else it is for the CPU to say what is wrong with the logits */
}

static b1_status finish(b1i_cuda_executor *e, b1_error *err)
{
    b1_status st;
    const volatile b1i_step_result *result = e->device->machine.result;
    if (e->awaits == for_result)
        B1I_TRY(await_result(e, err));
    else if (e->awaits == for_all)
        B1I_TRY(b1i_gpu_sync(e->device->gpu, err));
    if (e->times) B1I_TRY(read_times(e, err));
    if (e->awaits == for_nothing || result->serial != e->serial) return B1_OK; /* one that stopped early chooses none */
    if (!e->of) choose(e, result->token[e->n - 1]);
    for (int i = 0; e->of && i < e->n; i++) choose(b1i_cuda_of(e->of[i]), result->token[i]);
    return B1_OK;
fail:
    return st;
}

b1_status b1i_cuda_wait(b1i_executor *base, b1_error *err)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    b1_status st = finish(e, err);
    b1i_cuda_unlock(e);
    return st;
}

void b1i_cuda_cancel(b1i_executor *base, bool on)
{
    atomic_store_explicit(&b1i_cuda_of(base)->cancelled, on, memory_order_relaxed);
}

/* ---- what a step leaves ---- */

b1_status b1i_cuda_logits(b1i_executor *base, int row, const float **out, b1_error *err)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    const size_t vocab = (size_t)e->mask.vocab, at = (size_t)row * vocab;
    if (!e->fetched[row]) {
        b1i_cuda_lock(e);
        b1_status st =
            b1i_gpu_download(e->device->gpu, e->host + at, e->logits + at * sizeof(float), vocab * sizeof(float), err);
        b1i_cuda_unlock(e);
        if (st != B1_OK) return st;
        e->fetched[row] = 1;
    }
    *out = e->host + at;
    return B1_OK;
}

b1_status b1i_cuda_argmax(b1i_executor *base, int row, int32_t *token, b1_error *err)
{
    b1i_cuda_executor *e = b1i_cuda_of(base);
    const float *x = NULL;
    if (e->chosen && row == e->last_row) {
        *token = e->token;
        return B1_OK;
    }
    b1_status st = b1i_cuda_logits(base, row, &x, err);
    return st == B1_OK ? b1i_argmax(x, &e->mask, token, err) : st;
}
