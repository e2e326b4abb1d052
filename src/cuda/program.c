/* SPDX-License-Identifier: MIT
 *
 * Owns the programs: the plan as a list of launches, op by op or group by group, for one row or for up to eight.
 *
 * Invariants: a program is a chain, each launch reads what those before it wrote; nothing in it depends on the
 * position, the tokens or the session, which all lie in the step's parameters. The launch after the step's beginning
 * has a full edge, so that every later kernel may read the parameters before it waits for its inputs.
 */
#include "cuda/cuda.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Shared memory that a linear kernel has besides (ptxas says 384 to 512 bytes). */
enum { LINEAR_STATIC = 640 };

static const char *const format_names[b1i_tile_count] = {"bf16", "f16", "f32", "i8", "i4"};

typedef struct builder {
    b1i_cuda_machine *m;
    const b1i_config *c;
    const b1i_plan *plan;
    int rows; /* most rows of a step */
    bool small, early, beside;
    int item;
    b1i_gpu_launch *launches;
    int count, room;
    b1_error *err;
} builder;

/* ---- one launch ---- */

static b1_status add(builder *b, const char *name, const unsigned grid[3], int threads, size_t shared, const void *args,
                     size_t bytes)
{
    b1i_gpu_kernel *kernel;
    _Static_assert(sizeof(b1i_linear_args) <= B1I_GPU_ARGS_MAX, "arguments fit a launch");
    b1_status st = b1i_gpu_kernel_get(b->m->gpu, name, shared, &kernel, b->err);
    if (st != B1_OK) return st;
    b1i_gpu_launch *l = &b->launches[b->count];
    *l = (b1i_gpu_launch){.kernel = kernel,
                          .grid = {grid[0], grid[1], grid[2]},
                          .threads = (unsigned)threads,
                          .shared_bytes = (unsigned)shared,
                          .full_edge = b->count == 1,
                          .item = b->item,
                          .arg_bytes = (unsigned)bytes};
    memcpy(l->args, args, bytes);
    b->count++;
    return B1_OK;
}

static b1_status add_begin(builder *b, const b1i_op *op)
{
    const b1i_cuda_machine *m = b->m;
    b1i_begin_args a = {
        .staged = m->staged_device,
        .step = m->step,
        .embedding = m->w->matrix[op->weight],
        .x = m->value[b1i_v_x],
        .x_stride = m->stride[b1i_v_x],
        .inverse = m->inverse,
        .cos = m->cos,
        .sin = m->sin,
        .half = b->c->head_dim / 2,
        .rope_factor = m->rope_factor,
    };
    const unsigned grid[3] = {(unsigned)b->rows, 1, 1};
    return add(b, "k_begin", grid, 1024, 0, &a, sizeof a);
}

/* ---- linear ---- */

/* Shared memory that a linear launch can ask for. */
static size_t shared_limit(const builder *b)
{
    return (size_t)b1i_gpu_get_info(b->m->gpu)->shared_bytes_block - LINEAR_STATIC;
}

/* Shared memory of a linear launch: a ring and one row's input, and each warp's sums of the block's panels. */
static size_t ring_and_input(const b1i_linear_args *a, int slots, bool few)
{
    return (size_t)slots * B1I_LINEAR_SLOT_BYTES + (few ? 0 : (size_t)a->blocks * 64);
}
static size_t panel_sums(int warps, bool few)
{
    return (size_t)warps * B1I_TILE_ROWS * sizeof(float) * (few ? B1I_CUDA_ROWS : 1);
}
static size_t linear_shared(const b1i_linear_args *a, int warps, bool few)
{
    size_t panels = (size_t)(a->units + (a->units_more > 0)) * (size_t)a->unit;
    return ring_and_input(a, a->slots, few) + panels * panel_sums(warps, few);
}

/* Units that a block may have: their sums fit beside the shortest ring, and do not shorten a long one by much. */
static int most_units(const builder *b, int warps, bool few, const b1i_linear_args *a)
{
    const size_t limit = shared_limit(b), other = ring_and_input(a, B1I_LINEAR_SLOTS_LEAST, few);
    const size_t fit = other < limit ? (limit - other) / panel_sums(warps, few) : 0;
    const int most = few ? B1I_PANELS_FEW : B1I_PANELS_ONE;
    const int units = (fit < (size_t)most ? (int)fit : most) / a->unit;
    return units > 0 ? units : 1;
}

/* A block an SM, more where a block's sums would not fit; returns the number of blocks. */
static unsigned share_out(const builder *b, int panels, int warps, bool few, b1i_linear_args *a)
{
    const int most = most_units(b, warps, few, a), units = panels / a->unit;
    const int sms = b1i_gpu_get_info(b->m->gpu)->sms, each = (units + most * sms - 1) / (most * sms);
    int grid = sms * each; /* whole rounds over the SMs: none is left with a block more */
    if (grid > B1I_CUDA_BLOCKS_MAX) grid = B1I_CUDA_BLOCKS_MAX;
    if (grid > units) grid = units;
    a->units = units / grid;
    a->units_more = units % grid;
    return (unsigned)grid;
}

/* Chunks fill slots. Where a slot takes more than a block for each warp they are whole rounds of the warps: in none but
 * the last has a warp more than another. */
static void cut_chunks(b1i_linear_args *a, int warps)
{
    int most = B1I_LINEAR_SLOT_BYTES / a->block_bytes, round = most > warps ? warps : 1;
    most -= most % round;
    a->chunks = (a->blocks + most - 1) / most;
    a->chunk = (a->blocks + a->chunks * round - 1) / (a->chunks * round) * round;
    a->chunks = (a->blocks + a->chunk - 1) / a->chunk;
}

/* The launch streams `panels` panels from `first` on, which all have its block shape. */
static b1_status add_linear(builder *b, const b1i_tile_matrix *first, int panels, b1i_linear_args *a)
{
    /* The launches before and after attention leave room for its blocks on their SMs, so that both stream at once; of
     * the others a block takes an SM for itself and the next one starts when it ends. */
    const bool beside = b->beside;
    const size_t limit = shared_limit(b);
    const int warps = B1I_LINEAR_WARPS(first->format);
    char name[48];
    a->weights = first->data;
    a->blocks = first->blocks;
    a->block_bytes = first->block_bytes;
    a->scales = first->scales;
    a->offsets = first->offsets;
    a->cols = first->cols;
    cut_chunks(a, warps);
    a->early = b->early;
    a->step = b->m->step;
    a->slots = beside ? B1I_LINEAR_SLOTS_BESIDE : B1I_LINEAR_SLOTS;
    bool few = b->rows > 1;
    unsigned grid[3] = {share_out(b, panels, warps, few, a), 1, 1};
    while (linear_shared(a, warps, few) > limit && a->slots > B1I_LINEAR_SLOTS_LEAST) a->slots--;
    if (!few && linear_shared(a, warps, few) > limit) { /* a row longer than shared memory: read as it is needed */
        few = true;
        grid[0] = share_out(b, panels, warps, few, a);
    }
    (void)snprintf(name, sizeof name, "k_linear_%s_%s", format_names[first->format], few ? "few" : "one");
    return add(b, name, grid, (warps + 1) * 32, linear_shared(a, warps, few), a, sizeof *a);
}

static b1i_linear_out linear_out(const builder *b, const b1i_op *op, b1i_value value, int first_panel)
{
    const b1i_cuda_machine *m = b->m;
    return (b1i_linear_out){
        .y = value == b1i_v_logits ? 0 : m->value[value],
        .bias = op->bias == b1i_slot_none ? 0 : m->w->vector[op->bias],
        .y_stride = value == b1i_v_logits ? 0 : m->stride[value],
        .rows = m->w->matrix[op->weight].rows,
        .first_panel = first_panel,
    };
}

/* The input: x normed by `norm`, or the op's own, which is bf16. */
static void linear_in(const builder *b, const b1i_op *norm, const b1i_op *op, b1i_linear_args *a)
{
    const b1i_value in = norm ? norm->in[0] : op->in[0];
    a->input = norm ? b1i_in_norm : b1i_in_bf16;
    a->x = b->m->value[in];
    a->x_stride = b->m->stride[in];
    a->norm = norm ? b->m->w->vector[norm->weight] : 0;
    a->eps = b->c->norm_eps;
}

/* One matrix. `norm`: done before it, or NULL; `out`: where it goes. */
static b1_status add_matrix(builder *b, const b1i_op *norm, const b1i_op *op, int epilogue, b1i_value out)
{
    const b1i_tile_matrix *w = &b->m->w->matrix[op->weight];
    b1i_linear_args a = {.panel_stride = w->panel_stride, .unit = 1, .epilogue = epilogue, .outs = 1};
    linear_in(b, norm, op, &a);
    a.out[0] = linear_out(b, op, out, 0);
    if (out == b1i_v_logits) {
        a.epilogue = b1i_out_logits;
        a.best = b->m->best;
        a.arrived = b->m->head_arrived;
        a.result = b->m->result_device;
    }
    return add_linear(b, w, w->panels, &a);
}

/* q, k and v in one launch, where they lie so. */
static b1_status add_qkv(builder *b, const b1i_op *norm, const b1i_op *op)
{
    b1_status st;
    const b1i_tile_matrix *w = b->m->w->matrix;
    if (!b1i_cuda_joined_qkv(b->m->w->model, norm->layer)) {
        for (int i = 0; i < 3; i++) B1I_TRY(add_matrix(b, norm, &op[i], b1i_out_store, op[i].out));
        return B1_OK;
    }
    b1i_linear_args a = {.panel_stride = w[op->weight].panel_stride, .unit = 1, .epilogue = b1i_out_store, .outs = 3};
    int panels = 0;
    linear_in(b, norm, op, &a);
    for (int i = 0; i < 3; i++) {
        a.out[i] = linear_out(b, &op[i], op[i].out, panels);
        panels += w[op[i].weight].panels;
    }
    return add_linear(b, &w[op->weight], panels, &a);
fail:
    return st;
}

/* ---- the other ops ---- */

static b1i_small_args small_args(const builder *b, const b1i_op *op)
{
    const b1i_cuda_machine *m = b->m;
    const b1i_value in = op->in[0], other = op->in[1] == b1i_v_none ? in : op->in[1];
    const b1i_value out = op->out == b1i_v_none ? in : op->out;
    return (b1i_small_args){
        .step = m->step,
        .a = m->value[in],
        .b = m->value[other],
        .out = m->value[out],
        .weight = op->weight == b1i_slot_none ? 0 : m->w->vector[op->weight],
        .a_stride = m->stride[in],
        .b_stride = m->stride[other],
        .out_stride = m->stride[out],
        .cols = b1i_value_cols(b->c, out),
        .head_dim = b->c->head_dim,
        .heads = b1i_value_cols(b->c, in) / b->c->head_dim,
        .half = b->c->head_dim / 2,
        .eps = b->c->norm_eps,
        .dim_padded = b1i_cuda_dim(b->c->head_dim),
        .cos = m->cos,
        .sin = m->sin,
        .layer = op->layer,
    };
}

/* A thread for each of `items` elements of a row. */
static b1_status add_small(builder *b, const char *name, const b1i_op *op, int items, int threads)
{
    b1i_small_args a = small_args(b, op);
    const unsigned grid[3] = {(unsigned)((items + threads - 1) / threads), (unsigned)b->rows, 1};
    return add(b, name, grid, threads, 0, &a, sizeof a);
}

/* The prologue is all of the plan's group before attention itself; its norms' slots may be none. */
static b1_status add_attention(builder *b, int q_norm, int k_norm, const b1i_op *op, bool prologue)
{
    const b1i_cuda_machine *m = b->m;
    const b1i_config *c = b->c;
    char name[32];
    const int dim = b1i_cuda_dim(c->head_dim), group = c->heads / c->kv_heads;
    b1i_attention_args a = {
        .step = m->step,
        .q = m->value[b1i_v_q],
        .k = m->value[b1i_v_k],
        .v = m->value[b1i_v_v],
        .q_stride = m->stride[b1i_v_q],
        .k_stride = m->stride[b1i_v_k],
        .v_stride = m->stride[b1i_v_v],
        .prologue = prologue,
        .head_dim = c->head_dim,
        .group = group,
        .kv_heads = c->kv_heads,
        .splits = m->splits,
        .window = c->sliding_window,
        .scale = 1 / sqrtf((float)c->head_dim),
        .eps = c->norm_eps,
        .q_norm = q_norm == b1i_slot_none ? 0 : m->w->vector[q_norm],
        .k_norm = k_norm == b1i_slot_none ? 0 : m->w->vector[k_norm],
        .cos = m->cos,
        .sin = m->sin,
        .layer = op->layer,
        .early = b->early,
        .out = m->value[b1i_v_att],
        .out_stride = m->stride[b1i_v_att],
        .part = m->part,
        .begun = m->begun,
    };
    const unsigned passes = (unsigned)(group + B1I_HEADS_PASS - 1) / B1I_HEADS_PASS;
    const unsigned grid[3] = {(unsigned)m->splits, (unsigned)c->kv_heads, (unsigned)b->rows * passes};
    size_t slots = (size_t)(b->small ? B1I_ATTENTION_SLOTS(dim, true) : B1I_ATTENTION_SLOTS(dim, false));
    size_t shared = B1I_ATTENTION_WARPS * slots * B1I_KV_TILE * (size_t)dim * 2;
    (void)snprintf(name, sizeof name, "k_attention_%d", dim);
    return add(b, name, grid, B1I_ATTENTION_WARPS * 32, shared, &a, sizeof a);
}

/* ---- op by op ---- */

static b1_status add_op(builder *b, const b1i_op *op)
{
    const b1i_config *c = b->c;
    const int cols = op->in[0] == b1i_v_none ? 0 : b1i_value_cols(c, op->in[0]);
    switch (op->id) {
    case b1i_op_embed:
        return add_begin(b, op);
    case b1i_op_rmsnorm:
        return add_small(b, "k_rmsnorm", op, 1, 1024);
    case b1i_op_linear:
        return add_matrix(b, NULL, op, b1i_out_store, op->out);
    case b1i_op_headnorm:
        return add_small(b, "k_headnorm", op, cols / c->head_dim * 32, 128);
    case b1i_op_rope:
        return add_small(b, "k_rope", op, cols / 2, 128);
    case b1i_op_kv_append:
        return add_small(b, "k_kv_append", op, c->kv_heads * b1i_cuda_dim(c->head_dim), 128);
    case b1i_op_attention:
        return add_attention(b, b1i_slot_none, b1i_slot_none, op, false);
    case b1i_op_add:
        return add_small(b, "k_add", op, cols, 256);
    case b1i_op_silu_mul:
        return add_small(b, "k_silu_mul", op, cols, 256);
    case b1i_op_count:
        break;
    }
    return b1i_fail(b->err, B1_UNSUPPORTED, "the CUDA executors have no kernel for an op of this plan");
}

static b1_status build_separate(builder *b)
{
    b1_status st = B1_OK;
    for (b->item = 0; st == B1_OK && b->item < b->plan->op_count; b->item++) st = add_op(b, &b->plan->ops[b->item]);
    return st;
}

/* ---- group by group ---- */

static b1_status add_gate_up(builder *b, const b1i_op *norm, const b1i_op *op)
{
    b1_status st;
    const b1i_tile_matrix *gate = &b->m->w->matrix[op[0].weight];
    if (!b1i_cuda_joined_gate_up(b->m->w->model, norm->layer)) {
        for (int i = 0; i < 2; i++) B1I_TRY(add_matrix(b, norm, &op[i], b1i_out_store, op[i].out));
        return add_op(b, &op[2]);
    }
    b1i_linear_args a = {.panel_stride = gate->panel_stride / 2, .unit = 2, .epilogue = b1i_out_silu, .outs = 1};
    linear_in(b, norm, op, &a);
    a.out[0] = linear_out(b, &op[0], op[2].out, 0);
    return add_linear(b, gate, 2 * gate->panels, &a);
fail:
    return st;
}

static b1_status add_group(builder *b, const b1i_group *g)
{
    const b1i_op *op = &b->plan->ops[g->first];
    b->beside = g->id == b1i_group_qkv || g->id == b1i_group_out;
    switch (g->id) {
    case b1i_group_embed:
        return add_begin(b, op);
    case b1i_group_qkv:
        return add_qkv(b, op, op + 1);
    case b1i_group_attention:
        return add_attention(b, b->c->qk_norm ? op[0].weight : b1i_slot_none,
                             b->c->qk_norm ? op[1].weight : b1i_slot_none, op + g->count - 1, true);
    case b1i_group_out:
    case b1i_group_down:
        return add_matrix(b, NULL, op, b1i_out_add, b1i_v_x);
    case b1i_group_gate_up:
        return add_gate_up(b, op, op + 1);
    case b1i_group_head:
        return add_matrix(b, op, op + 1, b1i_out_logits, b1i_v_logits);
    case b1i_group_count:
        break;
    }
    return b1i_fail(b->err, B1_UNSUPPORTED, "the CUDA executors have no kernel for a group of this plan");
}

static b1_status build_fused(builder *b)
{
    b1_status st = B1_OK;
    for (b->item = 0; st == B1_OK && b->item < b->plan->group_count; b->item++)
        st = add_group(b, &b->plan->groups[b->item]);
    return st;
}

b1_status b1i_cuda_program_get(b1i_cuda_machine *m, b1i_cuda_form form, int width, const b1i_cuda_program **out,
                               b1_error *err)
{
    b1i_cuda_program *p = &m->program[form][width];
    builder b = {.m = m,
                 .c = &m->w->model->config,
                 .plan = m->w->plan,
                 .rows = width == b1i_cuda_one ? 1 : B1I_CUDA_ROWS,
                 .small = b1i_gpu_get_info(m->gpu)->shared_bytes_block < B1I_SHARED_SMALL,
                 .early = form == b1i_cuda_early,
                 .room = m->w->plan->op_count,
                 .err = err};
    *out = NULL;
    if (!p->launches) {
        b.launches = b1i_calloc((size_t)b.room, sizeof *b.launches);
        if (!b.launches) return b1i_fail_memory(err, (size_t)b.room * sizeof *b.launches);
        b1_status st = form == b1i_cuda_separate ? build_separate(&b) : build_fused(&b);
        if (st != B1_OK) {
            b1i_free(b.launches);
            return st;
        }
        *p = (b1i_cuda_program){b.launches, b.count};
    }
    *out = p;
    return B1_OK;
}
