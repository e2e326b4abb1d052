/* SPDX-License-Identifier: MIT
 *
 * Owns the resident weights on the device: where each matrix lies in the arena, and the pipeline that packs them.
 *
 * The arena holds matrices in the order in which a step reads them. A stream is panels that lie one after the other:
 * those of one matrix, or of gate and up in turn; streams begin at multiples of ALIGN, but k and v directly follow q
 * where the three have one block shape. Sizes come from the same walk over the model that loading makes.
 *
 * Loading packs runs of panels with all workers into pinned buffers; each run is uploaded while the next is packed, and
 * a buffer is used again when the event after its last upload is done. A synthetic matrix whose values another one has
 * is copied on the device. The mapped file's pages are let go tensor by tensor. After a failure nothing is left
 * allocated, and no upload reads a buffer that is gone.
 */
#include "base/threads.h"
#include "cuda/cuda.h"

#include <stdatomic.h>
#include <string.h>

enum {
    ALIGN = 256,
    STAGES = 3,             /* one is packed while two are uploaded */
    STAGE_BYTES = 64 << 20, /* pinning takes 0.3 s a gigabyte: no more than hides the upload */
    RUN_BYTES = 128 << 10   /* panels that a worker takes at once */
};

static uint64_t up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/* ---- which matrices one launch can stream ---- */

static bool same_blocks(const b1i_tensor *a, const b1i_tensor *b)
{
    b1i_tile_matrix x, y;
    if (a->rows < 2 || b->rows < 2) return false;
    b1i_tile_shape(a, &x);
    b1i_tile_shape(b, &y);
    return x.format == y.format && x.blocks == y.blocks && x.scales == y.scales && x.offsets == y.offsets;
}

bool b1i_cuda_joined_qkv(const b1i_model *m, int layer)
{
    const b1i_tensor *q = b1i_model_layer(m, layer, b1i_w_q);
    return same_blocks(q, b1i_model_layer(m, layer, b1i_w_k)) && same_blocks(q, b1i_model_layer(m, layer, b1i_w_v));
}

bool b1i_cuda_joined_gate_up(const b1i_model *m, int layer)
{
    const b1i_tensor *gate = b1i_model_layer(m, layer, b1i_w_gate), *up_ = b1i_model_layer(m, layer, b1i_w_up);
    return gate->rows == up_->rows && same_blocks(gate, up_);
}

/* ---- the arena's order ---- */

typedef struct stream {
    int slot[2], count; /* 2: gate and up, whose panels alternate */
    b1i_tile_matrix shape;
    int64_t panels; /* of both */
    uint64_t offset, bytes;
} stream;

typedef struct walk {
    const b1i_model *model;
    int at;
    uint64_t end; /* of the arena so far */
} walk;

/* Layers, then the embedding and the head: a tied embedding is last, where the head is read. */
static int arena_slot(const b1i_model *m, int i)
{
    int layers = b1i_slot_count(m) - b1i_slot_layers;
    return i < layers ? b1i_slot_layers + i : i - layers;
}

static bool next_stream(walk *w, stream *s)
{
    const b1i_model *m = w->model;
    while (w->at < b1i_slot_count(m)) {
        const int slot = arena_slot(m, w->at++);
        if (!b1i_slot_is_matrix(m, slot) || b1i_slot_is_alias(m, slot)) continue;
        const int inside = slot - b1i_slot_layers, layer = inside / b1i_layer_weights;
        const int id = inside < 0 ? -1 : inside % b1i_layer_weights;
        const bool pair = (id == b1i_w_gate || id == b1i_w_up) && b1i_cuda_joined_gate_up(m, layer);
        if (pair && id == b1i_w_up) continue; /* came with gate */
        const bool follows = (id == b1i_w_k || id == b1i_w_v) && b1i_cuda_joined_qkv(m, layer);
        *s = (stream){.slot = {slot, pair ? b1i_slot(layer, b1i_w_up) : b1i_slot_none}, .count = pair ? 2 : 1};
        b1i_tile_shape(b1i_slot_tensor(m, slot), &s->shape);
        s->panels = (int64_t)s->shape.panels * s->count;
        s->offset = follows ? w->end : up(w->end, ALIGN);
        s->bytes = (uint64_t)s->panels * s->shape.panel_stride;
        w->end = s->offset + s->bytes;
        return true;
    }
    return false;
}

/* Whole blocks of columns, so that a kernel reads a norm as it reads the input. */
static uint64_t vector_bytes(const b1i_tensor *t) { return up((uint64_t)t->cols, B1I_TILE_COLS) * sizeof(float); }

/* The sums of a model. */
typedef struct sums {
    uint64_t arena, streams, vectors;
    size_t panel, row16; /* the largest panel; file bytes of the 16 rows that it may come from, at most */
} sums;

static sums sum_up(const b1i_model *m)
{
    sums s = {0};
    walk w = {.model = m};
    for (stream next; next_stream(&w, &next);) {
        s.streams += next.bytes;
        if (next.shape.panel_stride > s.panel) s.panel = (size_t)next.shape.panel_stride;
    }
    s.arena = up(w.end, ALIGN);
    for (int slot = 0; slot < b1i_slot_count(m); slot++) {
        const b1i_tensor *t = b1i_slot_tensor(m, slot);
        size_t row = (size_t)b1i_format_bytes(t->format, (uint64_t)t->cols);
        if (t->rows == 1) s.vectors += vector_bytes(t);
        if (t->rows > 0 && row * B1I_TILE_ROWS > s.row16) s.row16 = row * B1I_TILE_ROWS;
    }
    return s;
}

uint64_t b1i_cuda_weight_bytes(const b1i_model *m)
{
    const sums s = sum_up(m);
    return s.arena + s.vectors;
}

uint64_t b1i_cuda_stored_bytes(const b1i_model *m)
{
    const sums s = sum_up(m);
    uint64_t bytes = s.streams + s.vectors;
    if (!m->config.tied) {
        b1i_tile_matrix e;
        b1i_tile_shape(&m->embedding, &e);
        bytes -= (uint64_t)e.panels * e.panel_stride - e.panel_stride / B1I_TILE_ROWS;
    }
    return bytes;
}

/* ---- loading ---- */

typedef struct loading {
    b1i_gpu *gpu;
    const b1i_model *model;
    int workers;
    uint8_t *scratch; /* [workers][scratch_bytes]: rows that do not lie as they are needed */
    size_t scratch_bytes;

    uint8_t *stage[STAGES]; /* pinned */
    b1i_gpu_event *uploaded[STAGES];
    bool pending[STAGES]; /* its event was recorded and not waited for */
    size_t stage_bytes, used;
    int current;

    /* the run at hand: panels [begin, end) of `stream`, to `out` */
    const stream *stream;
    int64_t begin, end, take;
    uint8_t *out;
    atomic_int_fast64_t next;

    b1_progress_fn progress;
    void *user;
    uint64_t done, total;
} loading;

static void pack_panel(const loading *l, int64_t panel, uint8_t *scratch)
{
    const stream *s = l->stream;
    const b1i_tensor *t = b1i_slot_tensor(l->model, s->slot[panel % s->count]);
    const int64_t row = panel / s->count * B1I_TILE_ROWS, left = t->rows - row;
    const int count = left < B1I_TILE_ROWS ? (int)left : B1I_TILE_ROWS;
    const uint8_t *rows = scratch;
    if (t->data && t->permuted_heads <= 0)
        rows = t->data + (size_t)row * (size_t)b1i_format_bytes(t->format, (uint64_t)t->cols);
    else
        b1i_tensor_rows(t, row, count, scratch);
    b1i_tile_pack(t->format, &s->shape, rows, count, l->out + (size_t)(panel - l->begin) * s->shape.panel_stride);
}

static void pack_share(void *arg, int worker, int workers)
{
    (void)workers;
    loading *l = arg;
    for (;;) {
        int64_t at = atomic_fetch_add_explicit(&l->next, l->take, memory_order_relaxed);
        if (at >= l->end) return;
        int64_t end = at + l->take < l->end ? at + l->take : l->end;
        for (; at < end; at++) pack_panel(l, at, l->scratch + l->scratch_bytes * (size_t)worker);
    }
}

/* The next stage, empty. */
static b1_status next_stage(loading *l, b1_error *err)
{
    b1_status st;
    B1I_TRY(b1i_gpu_event_record(l->gpu, l->uploaded[l->current], err));
    l->pending[l->current] = true;
    l->current = (l->current + 1) % STAGES;
    l->used = 0;
    if (l->pending[l->current]) B1I_TRY(b1i_gpu_event_sync(l->gpu, l->uploaded[l->current], err));
    l->pending[l->current] = false;
fail:
    return st;
}

static b1_status tell(loading *l, size_t bytes, b1_error *err)
{
    l->done += bytes;
    if (!l->progress || l->progress(l->user, "packing weights", l->done, l->total)) return B1_OK;
    return b1i_fail(err, B1_CANCELLED, "cancelled while loading");
}

static b1_status load_stream(loading *l, const stream *s, b1i_gpu_ptr to, b1_error *err)
{
    b1_status st = B1_OK;
    const size_t panel = (size_t)s->shape.panel_stride;
    l->stream = s;
    l->take = (int64_t)(RUN_BYTES / panel) + 1;
    for (int64_t at = 0; at < s->panels; at = l->end) {
        if (l->stage_bytes - l->used < panel) B1I_TRY(next_stage(l, err));
        int64_t room = (int64_t)((l->stage_bytes - l->used) / panel);
        l->begin = at;
        l->end = at + room < s->panels ? at + room : s->panels;
        l->out = l->stage[l->current] + l->used;
        atomic_store(&l->next, at);
        b1i_pool_run(l->workers, pack_share, l);
        size_t bytes = (size_t)(l->end - at) * panel;
        B1I_TRY(b1i_gpu_upload_async(l->gpu, to + (uint64_t)at * panel, l->out, bytes, err));
        l->used += bytes;
        B1I_TRY(tell(l, bytes, err));
    }
    for (int i = 0; i < s->count; i++) b1i_model_release(l->model, b1i_slot_tensor(l->model, s->slot[i]));
fail:
    return st;
}

static b1_status copy_stream(loading *l, const stream *s, b1i_gpu_ptr to, b1i_gpu_ptr from, b1_error *err)
{
    b1_status st = b1i_gpu_copy_async(l->gpu, to, from, (size_t)s->bytes, err);
    return st == B1_OK ? tell(l, (size_t)s->bytes, err) : st;
}

static b1_status make_stages(loading *l, const sums *s, b1_error *err)
{
    b1_status st;
    l->total = s->streams;
    l->stage_bytes = s->streams < STAGE_BYTES ? (size_t)s->streams : STAGE_BYTES;
    if (l->stage_bytes < s->panel) l->stage_bytes = s->panel;
    l->scratch_bytes = (size_t)up(s->row16, 64) + 64;
    l->scratch = b1i_malloc(l->scratch_bytes * (size_t)l->workers);
    if (!l->scratch) return b1i_fail_memory(err, l->scratch_bytes * (size_t)l->workers);
    for (int i = 0; i < STAGES; i++) {
        void *stage = NULL;
        B1I_TRY(b1i_gpu_host_alloc(l->gpu, l->stage_bytes, "a pinned buffer of the loader", &stage, NULL, err));
        l->stage[i] = stage;
        B1I_TRY(b1i_gpu_event_create(l->gpu, false, &l->uploaded[i], err));
    }
    return B1_OK;
fail:
    return st;
}

/* Where the stream's panels are loaded already: those of another one with the same values; 0: nowhere. */
static b1i_gpu_ptr same_panels(const b1i_cuda_weights *w, const stream *s)
{
    for (int i = 0; i < s->count; i++)
        if (b1i_slot_same(w->model, s->slot[i]) == b1i_slot_none) return 0;
    return w->matrix[b1i_slot_same(w->model, s->slot[0])].data;
}

static void free_stages(loading *l)
{
    for (int i = 0; i < STAGES; i++) {
        if (l->uploaded[i]) b1i_gpu_event_destroy(l->gpu, l->uploaded[i]);
        if (l->stage[i]) b1i_gpu_host_free(l->gpu, l->stage[i]);
    }
    b1i_free(l->scratch);
}

static b1_status load_matrices(b1i_cuda_weights *w, const sums *s, int workers, b1_progress_fn progress, void *user,
                               b1_error *err)
{
    b1_status st;
    const b1i_model *m = w->model;
    loading l = {.gpu = w->gpu, .model = m, .workers = workers, .progress = progress, .user = user};
    walk at = {.model = m};
    B1I_TRY(make_stages(&l, s, err));
    for (stream next; next_stream(&at, &next);) {
        for (int i = 0; i < next.count; i++) {
            b1i_tile_matrix *matrix = &w->matrix[next.slot[i]];
            b1i_tile_shape(b1i_slot_tensor(m, next.slot[i]), matrix);
            matrix->data = w->arena + next.offset + (uint64_t)i * matrix->panel_stride;
            matrix->panel_stride *= (uint64_t)next.count;
        }
        const b1i_gpu_ptr same = same_panels(w, &next);
        if (same)
            B1I_TRY(copy_stream(&l, &next, w->arena + next.offset, same, err));
        else
            B1I_TRY(load_stream(&l, &next, w->arena + next.offset, err));
    }
    if (m->config.tied) w->matrix[b1i_slot_head] = w->matrix[b1i_slot_embedding];
    B1I_TRY(b1i_gpu_sync(w->gpu, err));
    free_stages(&l);
    return B1_OK;
fail:
    if (l.stage[0]) (void)b1i_gpu_sync(w->gpu, NULL); /* uploads that are still read */
    free_stages(&l);
    return st;
}

static b1_status load_vectors(b1i_cuda_weights *w, const sums *s, b1_error *err)
{
    b1_status st;
    const b1i_model *m = w->model;
    uint8_t *all = b1i_calloc(1, w->vector_bytes), *row = b1i_malloc(s->row16);
    size_t at = 0;
    if (!all || !row) B1I_TRY(b1i_fail_memory(err, w->vector_bytes));
    for (int slot = 0; slot < b1i_slot_count(m); slot++) {
        const b1i_tensor *t = b1i_slot_tensor(m, slot);
        if (t->rows != 1) continue;
        b1i_tensor_rows_f32(t, 0, 1, row, (float *)(void *)(all + at));
        w->vector[slot] = w->vectors + at;
        at += (size_t)vector_bytes(t);
        b1i_model_release(m, t);
    }
    B1I_TRY(b1i_gpu_upload(w->gpu, w->vectors, all, w->vector_bytes, err));
fail:
    b1i_free(all);
    b1i_free(row);
    return st;
}

b1_status b1i_cuda_weights_load(b1i_gpu *gpu, const b1i_model *m, const b1i_plan *plan, int workers,
                                b1_progress_fn progress, void *user, b1i_cuda_weights *w, b1_error *err)
{
    b1_status st;
    const size_t slots = (size_t)b1i_slot_count(m);
    const sums s = sum_up(m);
    *w = (b1i_cuda_weights){
        .gpu = gpu, .model = m, .plan = plan, .arena_bytes = (size_t)s.arena, .vector_bytes = (size_t)s.vectors};
    w->matrix = b1i_calloc(slots, sizeof *w->matrix);
    w->vector = b1i_calloc(slots, sizeof *w->vector);
    if (!w->matrix || !w->vector) B1I_TRY(b1i_fail_memory(err, slots * sizeof *w->matrix));
    B1I_TRY(b1i_gpu_alloc(gpu, w->arena_bytes, "the weights", &w->arena, err));
    B1I_TRY(b1i_gpu_alloc(gpu, w->vector_bytes, "the norms and biases", &w->vectors, err));
    B1I_TRY(b1i_gpu_fill(gpu, w->arena, 0, w->arena_bytes, err)); /* padding between streams */
    B1I_TRY(load_vectors(w, &s, err));
    B1I_TRY(load_matrices(w, &s, workers, progress, user, err));
    return B1_OK;
fail:
    b1i_cuda_weights_free(w);
    return st;
}

void b1i_cuda_weights_free(b1i_cuda_weights *w)
{
    if (w->arena) b1i_gpu_free(w->gpu, w->arena);
    if (w->vectors) b1i_gpu_free(w->gpu, w->vectors);
    b1i_free(w->matrix);
    b1i_free(w->vector);
    *w = (b1i_cuda_weights){0};
}
