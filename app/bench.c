/* SPDX-License-Identifier: MIT
 *
 * batchone bench: cells of weights × executor × context on one device, each measured by the lab's protocol, as a table
 * or a document. A cell that cannot run is kept with its status and the sentence that says why.
 */
#include "app/app.h"
#include "app/executors.h"
#include "app/output.h"
#include "base/threads.h"
#include "lab/bench_cell.h"
#include "lab/cell.h"
#include "lab/gpus.h"
#include "lab/jitter.h"
#include "lab/machine.h"

#include <string.h>
#include <unistd.h>

/* Of the buffer that the ceiling is read from; the weights that are streamed between two readings help to keep it out
 * of the caches, so it may be smaller than the one of `batchone ceiling`. */
enum { CEILING_MOST_BYTES = 1 << 30, BATCH_MOST = 8 };
/* The same on a GPU, whose passes are short. Never more than a quarter of what the engine left free. */
#define GPU_CEILING_MOST_BYTES (2ull << 30)
enum { GPU_CEILING_PART = 4 };

typedef struct bench_options {
    bool synthetic;
    b1i_integers contexts, batches;
    b1i_texts executors, weights;
    int64_t threads, warmup, steps, prefill;
    double deadline_ms;
    const char *device, *json, *graph_dot;
} bench_options;

static const char *executor_or_all(int index)
{
    const char *name = b1_executor_name(index);
    return name ? name : index == 0 || b1_executor_name(index - 1) ? "all" : NULL;
}

#define AT(field) offsetof(bench_options, field)
static const b1i_option options[] = {
    {"synthetic", 0, b1i_option_flag, AT(synthetic), NULL, "a built-in shape with random weights", 0, 0, NULL},
    {"context", 'c', b1i_option_integers, AT(contexts), "N,…", "positions a step reads (128,2048)", 1, 1e7, NULL},
    {"device", 0, b1i_option_device, AT(device), "NAME", "cpu, cuda, cuda:N or auto (auto)", 0, 0, b1i_device_word},
    {"executor", 0, b1i_option_words, AT(executors), "NAME,…",
     "or all (fused,persistent; on a GPU fused_graph,fused_pdl)", 0, 0, executor_or_all},
    {"weights", 0, b1i_option_words, AT(weights), "F,…", "formats of a shape's matrices (bf16)", 0, 0, NULL},
    {"batch", 0, b1i_option_integers, AT(batches), "N,…", "sequences of a step, up to 8 (1)", 1, BATCH_MOST, NULL},
    {"threads", 't', b1i_option_integer, AT(threads), "N", "threads (as many as cores may be used)", 1, 4096, NULL},
    {"warmup", 0, b1i_option_integer, AT(warmup), "N", "least steps before the clock starts (5)", 0, 1e6, NULL},
    {"steps", 0, b1i_option_integer, AT(steps), "N", "least samples of a cell (30)", 1, 1e6, NULL},
    {"deadline-ms", 0, b1i_option_number, AT(deadline_ms), "X", "as many steps without a pause: which take longer?",
     1e-3, 1e9, NULL},
    {"prefill", 0, b1i_option_integer, AT(prefill), "N", "measure a prompt of N tokens too", 1, 1e7, NULL},
    {"graph-dot", 0, b1i_option_text, AT(graph_dot), "FILE", "write the executor's graph there, as DOT", 0, 0, NULL},
    {"json", 0, b1i_option_text, AT(json), "FILE|-",
     "write one JSON document there; - prints it, as others' --json does", 0, 0, NULL},
    {0},
};

typedef struct bench {
    const bench_options *options;
    const char *model;
    bool synthetic;
    b1i_device chosen; /* by the options */
    json_t *cells;
    json_t *gpu_before; /* the chosen GPU's state when the bench began; NULL: no GPU was chosen */
    json_t *gpu_after;  /* and after the last cell on it; NULL: there was none */
    bool graph_tried;
    b1_error graph_error; /* its status is B1_OK where the file was written */
    b1i_progress progress;
    int done, total;
    /* Of the engine that is open. */
    b1i_device device;
    b1i_executors executors;
    double peak_gbps; /* 0: unknown */
    b1_engine *engine;
    b1i_ceiling *ceiling;
    b1_model_info info; /* its names are copied below: a cell may outlive its engine */
    char name[160], weights[64];
    int threads;
} bench;

static double number(const json_t *json, const char *key) { return json_number_value(json_object_get(json, key)); }

/* " p99.9 12.3", or nothing where it is null. */
static void print_part(const char *name, const json_t *json, const char *key)
{
    if (json_is_number(json_object_get(json, key))) printf(" %s %.3f", name, number(json, key));
}

/* The lines below a cell's row. */
static void print_more(const b1i_cell *c)
{
    if (json_is_object(c->jitter)) {
        printf("    %.0f steps in a row, ms: p50 %.3f", number(c->jitter, "steps"), number(c->jitter, "p50_ms"));
        print_part("p99", c->jitter, "p99_ms");
        print_part("p99.9", c->jitter, "p999_ms");
        printf(" max %.3f; %.0f past the deadline of %g, at most %.0f in a row\n", number(c->jitter, "max_ms"),
               number(c->jitter, "missed"), number(c->jitter, "deadline_ms"), number(c->jitter, "missed_in_a_row"));
    }
    if (json_is_object(c->energy))
        printf("    %.4g J a token by %s, of %.0f tokens in %.1f s\n", number(c->energy, "joules_per_token"),
               json_string_value(json_object_get(c->energy, "source")), number(c->energy, "tokens"),
               number(c->energy, "seconds"));
}

/* A row on stdout; `first` puts the headings before it, `batches` has the batch after the context. */
static void print_cell(const b1i_cell *c, bool first, bool batches)
{
    const b1i_bench_result *r = &c->result;
    int width = strcmp(c->device, "cpu") == 0 ? 12 : 15; /* separate_stream */
    if (first)
        printf("%-36s %-8s %-*s %7s %s%9s %9s %9s %8s %9s %10s %s\n", "model", "weights", width, "executor", "context",
               batches ? "batch " : "", "ms/step", "p90", "p99", "ceiling", "R_ceiling", "prefill/s", "verdict");
    printf("%-36s %-8s %-*s %7d ", c->model, c->weights, width, c->executor, c->context);
    if (batches) printf("%5d ", c->batch);
    if (c->message) {
        printf("%s: %s\n", c->status, c->message);
    } else {
        char prefill[32] = "-";
        if (c->prefill > 0) snprintf(prefill, sizeof prefill, "%.1f", c->prefill);
        printf("%9.3f %9.3f %9.3f %8.1f %9.3f %10s %s\n", r->t_obs_ms, r->p90_ms, r->p99_ms, r->ceiling_gbps,
               r->r_ceiling, prefill, b1i_verdict_names[r->verdict]);
        print_more(c);
    }
    fflush(stdout);
}

/* Puts the cell into the document or the table. */
static b1_status emit(bench *b, b1i_cell *c, b1_error *err)
{
    c->model = b->name;
    c->weights = b->weights;
    c->threads = b->threads;
    c->device = b->device.name;
    c->peak_gbps = b->peak_gbps;
    c->stored_bytes = b->info.stored_bytes;
    c->device_bytes = b->info.device_bytes;
    b1i_progress_end(&b->progress);
    if (!b->options->json)
        print_cell(c, b->done == 0, b->options->batches.count > 0);
    else if (json_array_append_new(b->cells, b1i_cell_json(c)) != 0)
        return b1i_fail(err, B1_MEMORY, "not enough memory for the JSON document");
    b->done++;
    return B1_OK;
}

static const char *status_word(b1_status st)
{
    switch (st) {
    case B1_MEMORY:
        return "out_of_memory";
    case B1_UNSUPPORTED:
    case B1_ARGUMENT:
    case B1_CONTEXT:
        return "unsupported";
    default:
        return "failed";
    }
}

/* ---- measuring ---- */

static void tell(bench *b, const char *executor, int context)
{
    char what[96];
    snprintf(what, sizeof what, "%s %s %d", b->weights, executor, context);
    b->progress.drawn_ns = 0;
    b1i_progress_bar(&b->progress, what, (uint64_t)b->done, (uint64_t)b->total);
}

/* Opens `batch` sessions; what is opened is there also where one fails. */
static b1_status with_sessions(bench *b, const char *executor, int context, b1_session **out, int batch, b1_error *err)
{
    b1_session_options o = {.executor = executor, .context = context};
    b1_status st = B1_OK;
    for (int i = 0; i < batch && st == B1_OK; i++) st = b1_session_create(b->engine, &o, &out[i], err);
    b1_engine_info(b->engine, &b->info); /* a session may have packed weights its own way */
    b1i_cancel_watch(out[0]);
    return st;
}

static void end_sessions(b1_session **sessions, int batch)
{
    b1i_cancel_watch(NULL);
    for (int i = 0; i < batch; i++) b1_session_close(sessions[i]);
}

/* Says the session's note, if it has one that was not said yet. */
static void say_note(bench *b, const b1_session *session)
{
    if (b1_session_note(session)) b1i_progress_end(&b->progress);
    b1i_note_print(session);
}

static b1_status measure_prefill(bench *b, const char *executor, double *tokens_per_s, b1_error *err)
{
    b1_session *session = NULL;
    int count = (int)b->options->prefill;
    tell(b, executor, count);
    b1_status st = with_sessions(b, executor, count, &session, 1, err);
    if (st == B1_OK) {
        say_note(b, session);
        st = b1i_cell_prefill(session, b->info.vocab, count, b1i_cancel_asked, tokens_per_s, err);
    }
    end_sessions(&session, 1);
    return st;
}

/* The file that --graph-dot asks for, once. A failure is told after the cells. */
static void write_graph(bench *b, b1_session *session)
{
    if (!b->options->graph_dot || b->graph_tried) return;
    b->graph_tried = true;
    b1_session_graph_dot(session, b->options->graph_dot, &b->graph_error);
}

static b1_status graph_status(const bench *b, b1_error *err)
{
    if (b->options->graph_dot && !b->graph_tried)
        return b1i_fail(err, B1_UNSUPPORTED, "no cell could run, so there is no graph for %s", b->options->graph_dot);
    if (b->graph_error.status != B1_OK) *err = b->graph_error;
    return b->graph_error.status;
}

/* Steps with nothing between them: jitter, where a deadline asks for it, and energy. */
static b1_status endure(bench *b, b1i_cell *c, b1_session *const *sessions, b1_error *err)
{
    b1i_steps steps = {sessions, c->batch, b->info.vocab, c->context, 0};
    const b1i_endurance how = {.ordinal = b->device.ordinal,
                               .steps = b->options->deadline_ms > 0 ? (int)b->options->steps : 0,
                               .deadline_ms = b->options->deadline_ms,
                               .cancelled = b1i_cancel_asked};
    return b1i_endure(&steps, &how, &c->jitter, &c->energy, err);
}

static b1_status measure_cell(bench *b, b1i_cell *c, b1_error *err)
{
    b1_session *sessions[BATCH_MOST] = {NULL};
    b1i_bench_plan plan = {
        .warmup = (int)b->options->warmup, .steps = (int)b->options->steps, .cancelled = b1i_cancel_asked};
    tell(b, c->executor, c->context);
    b1_status st = with_sessions(b, c->executor, c->context, sessions, c->batch, err);
    if (st == B1_OK) {
        const uint64_t kv = b1_session_kv_bytes(sessions[0], c->context);
        c->kv_bytes = kv * (uint64_t)c->batch;
        c->weight_bytes = b1_session_traffic_bytes(sessions[0], c->context) - kv;
        write_graph(b, sessions[0]);
        say_note(b, sessions[0]);
        st = b1i_cell_measure(sessions, c->batch, b->ceiling, b->info.vocab, c->context, &plan, &c->result, err);
        if (st == B1_OK) st = endure(b, c, sessions, err);
    }
    end_sessions(sessions, c->batch);
    return st;
}

static size_t cells_of_executor(const bench_options *o)
{
    return o->contexts.count * (o->batches.count ? o->batches.count : 1);
}

/* The cell `at` of an executor: its context and batch. */
static b1i_cell cell_at(const bench *b, const char *executor, size_t at)
{
    const bench_options *o = b->options;
    const size_t batches = o->batches.count ? o->batches.count : 1;
    return (b1i_cell){.executor = executor,
                      .context = (int)o->contexts.items[at / batches],
                      .batch = o->batches.count ? (int)o->batches.items[at % batches] : 1};
}

/* All contexts and batches of one executor. Only a cancel and a full memory of our own end the bench. */
static b1_status measure_executor(bench *b, const char *executor, b1_error *err)
{
    double prefill = 0;
    b1_error why = {0};
    b1_status prefilled = b->options->prefill ? measure_prefill(b, executor, &prefill, &why) : B1_OK, st = prefilled;
    for (size_t i = 0; st != B1_CANCELLED && i < cells_of_executor(b->options); i++) {
        b1i_cell c = cell_at(b, executor, i);
        c.prefill = prefill;
        st = prefilled == B1_OK ? measure_cell(b, &c, &why) : prefilled;
        c.status = st == B1_OK ? "ok" : status_word(st);
        c.message = st == B1_OK ? NULL : why.message;
        b1_status written = st == B1_CANCELLED ? B1_OK : emit(b, &c, err);
        b1i_bench_result_free(&c.result);
        json_decref(c.jitter);
        json_decref(c.energy);
        if (written != B1_OK) return written;
    }
    if (st != B1_CANCELLED) return B1_OK;
    if (err) *err = why;
    return st;
}

/* Marks all cells of an engine that could not be opened. */
static b1_status emit_all_failed(bench *b, const b1_error *why, b1_error *err)
{
    for (size_t e = 0; e < b->executors.count; e++)
        for (size_t i = 0; i < cells_of_executor(b->options); i++) {
            b1i_cell c = cell_at(b, b->executors.names[e], i);
            c.status = status_word(why->status);
            c.message = why->message;
            b1_status st = emit(b, &c, err);
            if (st != B1_OK) return st;
        }
    return B1_OK;
}

/* Opens the engine on b->device for the first executor that supports the model. */
static b1_status open_on_device(bench *b, const char *weights, b1_error *err)
{
    b1_status st = B1_UNSUPPORTED;
    int64_t least = INT32_MAX;
    for (size_t i = 0; i < b->options->contexts.count; i++)
        if (b->options->contexts.items[i] < least) least = b->options->contexts.items[i];
    for (size_t e = 0; st == B1_UNSUPPORTED && e < b->executors.count; e++) {
        b1_engine_options o = {.device = b->device.name,
                               .executor = b->executors.names[e],
                               .weights = weights,
                               .threads = (int)b->options->threads,
                               .context = (int)least,
                               .progress = b1i_progress_bar,
                               .progress_user = &b->progress};
        st = b->synthetic ? b1_engine_open_synthetic(b->model, &o, &b->engine, err)
                          : b1_engine_open(b->model, &o, &b->engine, err);
    }
    b1i_progress_end(&b->progress);
    return st;
}

/* Which device the next engine shall be on, its executors and its datasheet. */
static b1_status take_device(bench *b, const b1i_device *device, b1_error *err)
{
    b1i_gpu_facts facts;
    b->device = *device;
    b->peak_gbps = 0;
    if (device->ordinal != B1I_DEVICE_CPU && b1i_device_facts(device->ordinal, &facts, NULL) == B1_OK)
        b->peak_gbps = b1i_gpu_peak(facts.name);
    return b1i_executors_of(device, b->options->executors.items, b->options->executors.count, &b->executors, err);
}

/* Opens the engine, on the CPU where "auto" chose a GPU that cannot run the model, and what the ceiling is read from.
 */
static b1_status open_engine(bench *b, const char *weights, b1_error *err)
{
    const b1i_device cpu = b1i_device_cpu();
    b1_status st = take_device(b, &b->chosen, err);
    if (st == B1_OK) st = open_on_device(b, weights, err);
    if (b->chosen.open && (st == B1_UNSUPPORTED || st == B1_MEMORY) && (st = take_device(b, &cpu, err)) == B1_OK)
        st = open_on_device(b, weights, err);
    if (st != B1_OK) return st;
    b1_engine_info(b->engine, &b->info);
    snprintf(b->name, sizeof b->name, "%s", b->info.name);
    snprintf(b->weights, sizeof b->weights, "%s", b->info.weights);
    b->threads = b1_engine_threads(b->engine);
    if (b->device.ordinal != B1I_DEVICE_CPU)
        return b1i_ceiling_open_gpu(b->device.ordinal, GPU_CEILING_MOST_BYTES, GPU_CEILING_PART, &b->ceiling, err);
    uint64_t quarter = b1i_memory_available() / 4;
    return b1i_ceiling_open(quarter < CEILING_MOST_BYTES ? quarter : CEILING_MOST_BYTES, &b->ceiling, err);
}

/* What the cells of a model that cannot be opened are called. */
static void name_by_inspection(bench *b, const char *weights)
{
    b1_inspection *inspection = NULL;
    b1_model_info info = {.name = b->model, .weights = weights ? weights : "unknown"};
    if ((b->synthetic ? b1_inspect_synthetic(b->model, weights, &inspection, NULL)
                      : b1_inspect(b->model, &inspection, NULL)) == B1_OK)
        b1_inspection_info(inspection, &info);
    snprintf(b->name, sizeof b->name, "%s", info.name);
    snprintf(b->weights, sizeof b->weights, "%s", info.weights);
    b->threads = b->options->threads ? (int)b->options->threads : b1i_cpu_count();
    b1_inspection_free(inspection);
}

/* While its clocks are still those of the cells. */
static void keep_gpu_state(bench *b)
{
    if (b->device.ordinal == B1I_DEVICE_CPU) return;
    json_decref(b->gpu_after);
    b->gpu_after = b1i_device_state(b->device.ordinal);
}

/* All cells of one weight format (NULL: the model's own). */
static b1_status measure_weights(bench *b, const char *weights, b1_error *err)
{
    b1_error why = {0};
    b1_status st = open_engine(b, weights, &why);
    if (st == B1_OK) {
        for (size_t e = 0; st == B1_OK && e < b->executors.count; e++)
            st = measure_executor(b, b->executors.names[e], err);
        keep_gpu_state(b);
    } else if (st == B1_MEMORY || st == B1_UNSUPPORTED || st == B1_DEVICE || st == B1_SYSTEM) {
        name_by_inspection(b, weights);
        st = emit_all_failed(b, &why, err);
    } else {
        *err = why;
    }
    b1i_ceiling_close(b->ceiling);
    b1_engine_close(b->engine);
    b->ceiling = NULL;
    b->engine = NULL;
    return st;
}

/* ---- the command ---- */

static void print_shapes(void)
{
    char list[512] = "";
    for (int i = 0; b1_shape_name(i); i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", b1_shape_name(i));
    }
    b1i_print_hint("built-in shapes: %s", list);
}

static bool default_contexts(b1i_integers *contexts)
{
    static const int64_t usual[] = {128, 2048};
    for (size_t i = 0; contexts->count == i && i < 2; i++) {
        if (!b1i_grow(&contexts->items, &contexts->room, i + 1, sizeof *contexts->items)) return false;
        contexts->items[contexts->count++] = usual[i];
    }
    return true;
}

/* The device that the options mean. */
static b1_status choose_device(bench *b, b1_error *err)
{
    const bench_options *o = b->options;
    b1_status st;
    B1I_TRY(b1i_device_choose(o->device, o->executors.items, o->executors.count, &b->chosen, err));
    B1I_TRY(take_device(b, &b->chosen, err));
    if (b->chosen.ordinal != B1I_DEVICE_CPU) b->gpu_before = b1i_device_state(b->chosen.ordinal);
fail:
    return st;
}

/* The machine, with the GPU where one was measured. */
static json_t *machine(bench *b)
{
    json_t *record = b1i_machine_record();
    if (record && b->gpu_after) {
        json_object_set_new(record, "gpu", b1i_device_record(b->chosen.ordinal, b->gpu_before, b->gpu_after));
        b->gpu_before = b->gpu_after = NULL;
    }
    return record;
}

static b1_status bench_model(bench *b, b1_error *err)
{
    const bench_options *o = b->options;
    size_t formats = o->weights.count ? o->weights.count : 1;
    b1i_outfile file = {0};
    b1_status st = B1_OK;
    b->total = (int)(formats * b->executors.count * cells_of_executor(o));
    if (o->json) B1I_TRY(b1i_outfile_open(o->json, &file, err)); /* before hours of measuring */
    for (size_t w = 0; w < formats; w++) {
        B1I_TRY(measure_weights(b, o->weights.count ? o->weights.items[w] : NULL, err));
    }
    if (o->json) {
        B1I_TRY(b1i_json_write(
            json_pack("{s:s,s:o,s:O}", "schema", "batchone.bench/1", "machine", machine(b), "cells", b->cells),
            file.file, err));
        B1I_TRY(b1i_outfile_commit(&file, err));
    }
    B1I_TRY(graph_status(b, err));
fail:
    b1i_outfile_discard(&file);
    return st;
}

static int run_bench(bench_options *o, const char *model)
{
    b1_error err = {0};
    bench b = {.options = o, .model = model, .synthetic = o->synthetic};
    if (!o->synthetic) b.synthetic = b1i_means_shape(model);
    if (b.synthetic && !b1i_is_shape(model)) {
        b1i_print_error("bench: there is no built-in shape \"%s\"", model);
        print_shapes();
        return B1I_EXIT_USAGE;
    }
    if (o->weights.count && !b.synthetic) {
        b1i_print_error("bench: --weights is for a built-in shape; a model's file says its own format");
        return B1I_EXIT_USAGE;
    }
    b1_status st = choose_device(&b, &err);
    if (st == B1_OK && o->graph_dot && b.executors.count != 1)
        st = b1i_fail(&err, B1_ARGUMENT, "--graph-dot writes the graph of one executor: name it with --executor");
    if (st == B1_OK && (!default_contexts(&o->contexts) || !(b.cells = json_array()))) st = b1i_fail_memory(&err, 64);
    if (st == B1_OK) st = bench_model(&b, &err);
    b1i_progress_end(&b.progress);
    json_decref(b.gpu_before);
    json_decref(b.gpu_after);
    json_decref(b.cells);
    return st == B1_OK ? B1I_EXIT_OK : b1i_report(&err);
}

static int run(const b1i_command *self, char **arguments)
{
    bench_options o = {.warmup = 5, .steps = 30};
    const char *model;
    int count, code = b1i_options_parse(self, arguments, &o, &model, 1, 1, &count);
    if (code == B1I_PARSED) code = run_bench(&o, model);
    b1i_options_free(self, &o);
    return code;
}

const b1i_command b1i_command_bench = {
    .name = "bench",
    .operands = "MODEL|SHAPE",
    .summary = "Measures decode steps at stated contexts, and how near memory they come.",
    .notes =
        "Every sample is a step at exactly the context. Steps are taken in short slices between two readings of the\n"
        "memory's speed; R_ceiling is the time that speed needs for the step's bytes over the time it took. The\n"
        "verdict is ok, noisy (the memory's speed would not hold still), drifting or throttled. With --device auto a\n"
        "model that the GPU cannot run is measured on the CPU.\n"
        "With --deadline-ms a cell has as many steps again that follow one another: p50, p99, p99.9 and the longest "
        "of\n"
        "them, how many were late, and what the machine did then. Joules a token are told where they are counted.",
    .options = options,
    .run = run,
};
