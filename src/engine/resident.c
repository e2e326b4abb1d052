/* SPDX-License-Identifier: MIT
 *
 * Owns the resident weights: vectors as f32, matrices packed into one arena in the order in which a step reads them, so
 * that a worker's share of neighbouring matrices is one stream. Packing is shared out panel by panel; the mapped file's
 * pages are let go tensor by tensor, so that the file and the arena are never both resident as a whole. A synthetic
 * matrix whose values another one has is copied from there.
 */
#include "base/threads.h"
#include "engine/engine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Slots in the order of the arena: embedding, layers, head; the tied embedding last, where the head is read. */
static int arena_slot(const b1i_model *m, int i)
{
    int layers = b1i_slot_count(m) - b1i_slot_layers;
    if (i < layers) return b1i_slot_layers + i;
    return i == layers ? b1i_slot_embedding : i == layers + 1 ? b1i_slot_final_norm : b1i_slot_head;
}

uint64_t b1i_resident_row16_bytes(const b1i_model *m)
{
    uint64_t bytes = 0;
    for (int slot = 0; slot < b1i_slot_count(m); slot++) {
        if (!b1i_slot_is_matrix(m, slot) || b1i_slot_is_alias(m, slot)) continue;
        b1i_packed p;
        b1i_packed_shape(b1i_slot_tensor(m, slot), b1i_layout_row16, &p);
        bytes += b1i_packed_bytes(&p);
    }
    return bytes;
}

uint64_t b1i_resident_stored_bytes(const b1i_model *m)
{
    uint64_t bytes = b1i_resident_row16_bytes(m);
    for (int slot = 0; slot < b1i_slot_count(m); slot++)
        if (b1i_slot_tensor(m, slot)->rows == 1) bytes += (uint64_t)b1i_slot_tensor(m, slot)->cols * sizeof(float);
    if (!m->config.tied) {
        b1i_packed p;
        b1i_packed_shape(&m->embedding, b1i_layout_row16, &p);
        bytes -= b1i_packed_bytes(&p) - p.panel_bytes / B1I_PANEL;
    }
    return bytes;
}

void b1i_model_weights_name(const b1i_model *m, char out[16], uint64_t *parameters)
{
    uint64_t bytes[b1i_format_count] = {0};
    int most = 0, kinds = 0;
    *parameters = 0;
    for (int slot = 0; slot < b1i_slot_count(m); slot++) {
        const b1i_tensor *t = b1i_slot_tensor(m, slot);
        if (t->rows == 0 || b1i_slot_is_alias(m, slot)) continue;
        *parameters += (uint64_t)t->rows * (uint64_t)t->cols;
        if (t->rows > 1) bytes[t->format] += b1i_tensor_bytes(t);
    }
    for (int f = 0; f < b1i_format_count; f++) {
        kinds += bytes[f] > 0;
        if (bytes[f] > bytes[most]) most = f;
    }
    (void)snprintf(out, 16, "%s%s", b1i_formats[most].name, kinds > 1 ? "+" : "");
}

/* Bytes of a vector as f32, in whole vectors of the kernels. */
static size_t vector_bytes(const b1i_tensor *t) { return ((size_t)t->cols * sizeof(float) + 63) / 64 * 64; }

static b1_status make_vectors(b1i_resident *r, b1_error *err)
{
    const b1i_model *m = r->model;
    size_t at = 0, longest = 0;
    for (int slot = 0; slot < b1i_slot_count(m); slot++) {
        const b1i_tensor *t = b1i_slot_tensor(m, slot);
        if (t->rows != 1) continue;
        r->vector_bytes += vector_bytes(t);
        if (b1i_tensor_bytes(t) > longest) longest = (size_t)b1i_tensor_bytes(t);
    }
    uint8_t *file_row = b1i_malloc(longest);
    r->vector_block = b1i_pages_alloc(r->vector_bytes);
    if (!file_row || !r->vector_block) {
        b1i_free(file_row);
        return b1i_fail_memory(err, r->vector_bytes);
    }
    for (int slot = 0; slot < b1i_slot_count(m); slot++) {
        const b1i_tensor *t = b1i_slot_tensor(m, slot);
        if (t->rows != 1) continue;
        r->vector[slot] = (float *)(r->vector_block + at);
        at += vector_bytes(t);
        b1i_tensor_rows_f32(t, 0, 1, file_row, r->vector[slot]);
        b1i_model_release(m, t);
    }
    b1i_free(file_row);
    return B1_OK;
}

b1_status b1i_resident_create(const b1i_model *m, const b1i_plan *plan, b1i_resident *r, b1_error *err)
{
    b1_status st;
    size_t slots = (size_t)b1i_slot_count(m);
    *r = (b1i_resident){.model = m, .plan = plan};
    r->row16 = b1i_calloc(slots, sizeof *r->row16);
    r->vector = b1i_calloc(slots, sizeof *r->vector);
    if (!r->row16 || !r->vector) B1I_TRY(b1i_fail_memory(err, slots * sizeof *r->row16));
    for (int slot = 0; slot < (int)slots; slot++)
        if (b1i_slot_is_matrix(m, slot)) b1i_packed_shape(b1i_slot_tensor(m, slot), b1i_layout_row16, &r->row16[slot]);
    B1I_TRY(make_vectors(r, err));
    return B1_OK;
fail:
    b1i_resident_free(r);
    return st;
}

void b1i_resident_free(b1i_resident *r)
{
    b1i_free(r->vector);
    b1i_free(r->row16);
    if (r->vector_block) b1i_pages_free(r->vector_block, r->vector_bytes);
    if (r->arena) b1i_pages_free(r->arena, r->arena_bytes);
    *r = (b1i_resident){0};
}

typedef struct reporting {
    b1_progress_fn progress;
    void *user;
    uint64_t done, total;
} reporting;

static b1_status tell(reporting *r, size_t bytes, b1_error *err)
{
    r->done += bytes;
    if (!r->progress || r->progress(r->user, "packing weights", r->done, r->total)) return B1_OK;
    return b1i_fail(err, B1_CANCELLED, "cancelled while loading");
}

/* Panels [begin, end) of one matrix, taken by workers in runs. */
typedef struct packing {
    const b1i_tensor *tensor;
    b1i_packed *packed;
    uint8_t *scratch; /* [workers][scratch_bytes] */
    size_t scratch_bytes;
    int64_t end, run;
    atomic_int_fast64_t next;
} packing;

static void pack_share(void *arg, int worker, int workers)
{
    (void)workers;
    packing *p = arg;
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&p->next, p->run, memory_order_relaxed);
        if (begin >= p->end) return;
        int64_t end = begin + p->run < p->end ? begin + p->run : p->end;
        b1i_pack_panels(p->tensor, p->packed, begin, end, p->scratch + p->scratch_bytes * (size_t)worker);
    }
}

/* What is packed between two reports of progress, and in one run of a worker. */
enum { REPORT_BYTES = 64 << 20, RUN_BYTES = 256 << 10 };

static b1_status pack_matrix(packing *p, int workers, reporting *report, b1_error *err)
{
    const size_t panel = p->packed->panel_bytes;
    const int64_t step = (int64_t)(REPORT_BYTES / panel) + 1;
    p->run = (int64_t)(RUN_BYTES / panel) + 1;
    for (int64_t at = 0; at < p->packed->panels; at += step) {
        p->end = at + step < p->packed->panels ? at + step : p->packed->panels;
        atomic_store(&p->next, at);
        b1i_pool_run(workers, pack_share, p);
        b1_status st = tell(report, (size_t)(p->end - at) * panel, err);
        if (st != B1_OK) return st;
    }
    return B1_OK;
}

/* Bytes [at, end) of a matrix that is packed already. */
typedef struct copying {
    uint8_t *to;
    const uint8_t *from;
    size_t at, end;
} copying;

static void copy_share(void *arg, int worker, int workers)
{
    const copying *c = arg;
    int64_t begin, end;
    b1i_share((int64_t)(c->end - c->at), 4096, worker, workers, &begin, &end);
    memcpy(c->to + c->at + begin, c->from + c->at + begin, (size_t)(end - begin));
}

static b1_status copy_matrix(const b1i_packed *from, const b1i_packed *to, int workers, reporting *report,
                             b1_error *err)
{
    const size_t bytes = b1i_packed_bytes(to);
    for (size_t at = 0; at < bytes; at += REPORT_BYTES) {
        copying c = {to->data, from->data, at, bytes - at < REPORT_BYTES ? bytes : at + REPORT_BYTES};
        b1i_pool_run(workers, copy_share, &c);
        b1_status st = tell(report, c.end - at, err);
        if (st != B1_OK) return st;
    }
    return B1_OK;
}

b1_status b1i_resident_pack(b1i_resident *r, int workers, b1_progress_fn progress, void *user, b1_error *err)
{
    b1_status st;
    const b1i_model *m = r->model;
    packing p = {0};
    size_t at = 0, widest = 0, bytes = (size_t)b1i_resident_row16_bytes(m);
    reporting report = {progress, user, 0, bytes};
    if (r->arena) return B1_OK;
    uint8_t *arena = b1i_pages_alloc(bytes);
    if (!arena)
        return b1i_fail(err, B1_MEMORY, "%s: the packed weights need %.1f MB, which cannot be had", m->config.name,
                        (double)bytes / 1e6);
    for (int slot = 0; slot < b1i_slot_count(m); slot++) {
        const b1i_tensor *t = b1i_slot_tensor(m, slot);
        size_t row = (size_t)b1i_format_bytes(t->format, (uint64_t)t->cols);
        if (t->rows > 1 && row > widest) widest = row;
    }
    p.scratch_bytes = (widest * B1I_PANEL + 127) / 64 * 64;
    p.scratch = b1i_malloc(p.scratch_bytes * (size_t)workers);
    if (!p.scratch) B1I_TRY(b1i_fail_memory(err, p.scratch_bytes * (size_t)workers));
    for (int i = 0; i < b1i_slot_count(m); i++) {
        const int slot = arena_slot(m, i), same = b1i_slot_same(m, slot);
        if (!b1i_slot_is_matrix(m, slot) || b1i_slot_is_alias(m, slot)) continue;
        p.tensor = b1i_slot_tensor(m, slot);
        p.packed = &r->row16[slot];
        p.packed->data = arena + at;
        at += b1i_packed_bytes(p.packed);
        if (same == b1i_slot_none)
            B1I_TRY(pack_matrix(&p, workers, &report, err));
        else
            B1I_TRY(copy_matrix(&r->row16[same], p.packed, workers, &report, err));
        b1i_model_release(m, p.tensor);
    }
    if (m->config.tied) r->row16[b1i_slot_head] = r->row16[b1i_slot_embedding];
    r->arena = arena;
    r->arena_bytes = bytes;
    b1i_free(p.scratch);
    return B1_OK;
fail:
    for (int slot = 0; slot < b1i_slot_count(m); slot++) r->row16[slot].data = NULL;
    b1i_free(p.scratch);
    b1i_pages_free(arena, bytes);
    return st;
}
