/* SPDX-License-Identifier: MIT
 *
 * batchone run: text from a prompt, streamed, or one JSON document; with --chat a conversation.
 */
#include "app/app.h"
#include "app/chat.h"
#include "app/generate.h"
#include "app/output.h"
#include "lab/device.h"

#include <string.h>

enum { TOKENS_DEFAULT = 256, PROMPT_MOST_BYTES = 64 << 20 };

typedef struct run_options {
    const char *prompt, *file, *system, *device, *executor;
    bool chat, ignore_eos, special, json;
    int64_t tokens, context, threads, top_k, seed;
    double temperature, top_p, min_p, repetition_penalty;
    b1i_texts stop;
} run_options;

#define AT(field) offsetof(run_options, field)
static const b1i_option options[] = {
    {"prompt", 'p', b1i_option_text, AT(prompt), "TEXT", "the prompt, taken as it is", 0, 0, NULL},
    {"file", 'f', b1i_option_text, AT(file), "FILE", "the prompt from a file, - is stdin", 0, 0, NULL},
    {"chat", 0, b1i_option_flag, AT(chat), NULL, "converse; with -p or -f answer one turn", 0, 0, NULL},
    {"system", 0, b1i_option_text, AT(system), "TEXT", "system message of the conversation", 0, 0, NULL},
    {"tokens", 'n', b1i_option_integer, AT(tokens), "N", "most tokens (256; in a conversation the context)", 0, 1e8,
     NULL},
    {"context", 'c', b1i_option_integer, AT(context), "N", "most tokens of prompt and text (4096, or the model's)", 1,
     1e7, NULL},
    {"temperature", 0, b1i_option_number, AT(temperature), "X", "0 is greedy (0)", 0, 100, NULL},
    {"top-k", 0, b1i_option_integer, AT(top_k), "N", "only the N likeliest tokens; 0 is off (0)", 0, 1e9, NULL},
    {"top-p", 0, b1i_option_number, AT(top_p), "X", "only the likeliest that make up X; 1 is off (1)", 0, 1, NULL},
    {"min-p", 0, b1i_option_number, AT(min_p), "X", "only those at least X times the likeliest (0)", 0, 1, NULL},
    {"repetition-penalty", 0, b1i_option_number, AT(repetition_penalty), "X", "1 is off (1)", 0.01, 100, NULL},
    {"seed", 0, b1i_option_integer, AT(seed), "N", "of the sampler (0)", 0, 9007199254740992.0, NULL},
    {"stop", 0, b1i_option_texts, AT(stop), "TEXT", "end before this text; may be given again", 0, 0, NULL},
    {"ignore-eos", 0, b1i_option_flag, AT(ignore_eos), NULL, "never end by the model's own choice", 0, 0, NULL},
    {"special", 0, b1i_option_flag, AT(special), NULL, "special tokens, in prompt and text, as text", 0, 0, NULL},
    {"threads", 't', b1i_option_integer, AT(threads), "N", "threads (as many as cores may be used)", 1, 4096, NULL},
    {"device", 0, b1i_option_device, AT(device), "NAME", "cpu, cuda, cuda:N or auto (auto)", 0, 0, b1i_device_word},
    {"executor", 0, b1i_option_text, AT(executor), "NAME", "how steps are run (the fastest)", 0, 0, b1_executor_name},
    {"json", 0, b1i_option_flag, AT(json), NULL, "print one JSON document instead", 0, 0, NULL},
    {0},
};

static int usage(const char *sentence)
{
    b1i_print_error("run: %s", sentence);
    b1i_print_hint("\"batchone run --help\" says more");
    return B1I_EXIT_USAGE;
}

/* What one option's value cannot say: options that need or exclude one another. */
static int check_options(const run_options *o)
{
    bool prompt = o->prompt || o->file;
    if (o->prompt && o->file) return usage("-p and -f are two prompts: give one");
    if (!prompt && !o->chat) return usage("there is no prompt: give -p TEXT, -f FILE or --chat");
    if (!prompt && o->json) return usage("--json prints one answer: give --chat a prompt with -p or -f");
    if (o->system && !o->chat) return usage("--system needs --chat");
    for (size_t i = 0; i < o->stop.count; i++)
        if (!o->stop.items[i][0]) return usage("--stop: an empty text would end everything");
    return B1I_PARSED;
}

/* The prompt's text, freed with b1i_free(). */
static b1_status read_prompt(const run_options *o, char **text, size_t *bytes, b1_error *err)
{
    *text = NULL;
    if (o->file && strcmp(o->file, "-") == 0) return b1i_read_all(stdin, "standard input", text, bytes, err);
    if (o->file) return b1i_read_file(o->file, PROMPT_MOST_BYTES, text, bytes, err);
    *bytes = strlen(o->prompt);
    return (*text = b1i_strdup(o->prompt)) ? B1_OK : b1i_fail_memory(err, *bytes);
}

/* The prompt's tokens, freed with b1_free(). */
static b1_status encode_prompt(const run_options *o, const b1_tokenizer *tokenizer, const char *text, size_t bytes,
                               int32_t **ids, int *count, b1_error *err)
{
    if (!o->chat) {
        unsigned flags = B1_ENCODE_DEFAULT_BOS | (o->special ? B1_ENCODE_SPECIAL : 0);
        return b1_tokenizer_encode(tokenizer, text, bytes, flags, ids, count, err);
    }
    b1_chat_message messages[2];
    int n = 0;
    if (o->system) messages[n++] = (b1_chat_message){"system", o->system};
    messages[n++] = (b1_chat_message){"user", text};
    return b1_tokenizer_chat(tokenizer, messages, n, ids, count, err);
}

static json_t *id_list(const int32_t *ids, int count)
{
    json_t *list = json_array();
    for (int i = 0; list && i < count; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

/* 0 is a figure that does not exist. */
static json_t *figure(double value) { return value > 0 ? b1i_json_number(value) : json_null(); }

static json_t *document(const b1i_generator *g, const b1i_gap *gap, int64_t seed)
{
    b1_model_info info;
    b1_engine_info(g->engine, &info);
    json_t *step = gap->measured
                       ? json_pack("{s:f,s:f,s:f}", "median", gap->median_ms, "p99", gap->p99_ms, "max", gap->max_ms)
                       : json_null();
    json_t *first = g->first_token_ns ? json_real((double)g->first_token_ns / 1e6) : json_null();
    bool cpu = strcmp(info.device, "cpu") == 0;
    return json_pack("{s:s,s:o,s:o,s:s%,s:s,s:f,s:o,s:f,s:o,s:I,s:o,s:o,s:s,s:i,s:I,s:s?,s:s,s:I}", "schema",
                     "batchone.run/1", "prompt_tokens", id_list(g->tokens, g->prompt_count), "tokens",
                     id_list(g->tokens + g->prompt_count, g->token_count), "text", g->text ? g->text : "",
                     g->text_bytes, "stop", b1i_stop_names[g->stop], "load_ms", info.load_ms, "first_token_ms", first,
                     "prefill_ms", (double)g->prefill_ns / 1e6, "step_ms", step, "traffic_bytes",
                     (json_int_t)gap->traffic_bytes, "ceiling_gbps", figure(gap->ceiling_gbps), "r_ceiling",
                     figure(gap->r_ceiling), "executor", b1_session_executor(g->session), "threads",
                     b1_engine_threads(g->engine), "seed", (json_int_t)seed, "kernels", cpu ? b1_kernels_name() : NULL,
                     "device", info.device, "device_bytes", (json_int_t)info.device_bytes);
}

/* One prompt, one answer. */
static b1_status answer(const run_options *o, b1i_generator *g, const char *text, size_t bytes, b1_error *err)
{
    b1_status st;
    int32_t *ids = NULL;
    int count;
    b1i_gap gap;
    B1I_TRY(encode_prompt(o, g->tokenizer, text, bytes, &ids, &count, err));
    B1I_TRY(b1i_generate(g, ids, count, !o->json, err));
    if (!o->json && g->written == g->text_bytes && (g->text_bytes == 0 || g->text[g->text_bytes - 1] != '\n'))
        B1I_TRY(b1i_write_text("\n", 1, err));
    B1I_TRY(b1i_generator_gap(g, &gap, err));
    if (o->json)
        B1I_TRY(b1i_json_write(document(g, &gap, o->seed), stdout, err));
    else
        b1i_gap_print(&gap);
fail:
    b1_free(ids);
    return st;
}

static int run_model(const run_options *o, const char *model)
{
    b1_engine *engine = NULL;
    b1_session *session = NULL;
    b1i_generator generator = {0};
    b1i_progress progress = {0};
    b1_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    bool converse = !o->prompt && !o->file;
    int code = B1I_EXIT_OK;
    int64_t limit = o->tokens >= 0 ? o->tokens : converse ? INT32_MAX : TOKENS_DEFAULT;
    b1i_device device;
    b1_engine_options engine_options = {.executor = o->executor,
                                        .threads = (int)o->threads,
                                        .context = (int)o->context,
                                        .progress = b1i_progress_bar,
                                        .progress_user = &progress};
    b1_session_options session_options = {.context = (int)o->context};
    b1i_generate_options generate_options = {
        .sampling = b1_sampler_defaults(),
        .stop = &o->stop,
        .limit = (int)limit,
        .ignore_eos = o->ignore_eos,
        .special = o->special,
    };
    generate_options.sampling.temperature = o->temperature;
    generate_options.sampling.top_k = (int)o->top_k;
    generate_options.sampling.top_p = o->top_p;
    generate_options.sampling.min_p = o->min_p;
    generate_options.sampling.repetition_penalty = o->repetition_penalty;
    generate_options.sampling.seed = (uint64_t)o->seed;

    b1_status st = b1i_device_choose(o->device, &o->executor, o->executor ? 1 : 0, &device, &err);
    if (st != B1_OK) goto fail;
    engine_options.device = device.open ? "auto" : device.name;
    if (!converse) B1I_TRY(read_prompt(o, &text, &bytes, &err));
    st = b1_engine_open(model, &engine_options, &engine, &err);
    b1i_progress_end(&progress);
    if (st != B1_OK) goto fail;
    B1I_TRY(b1_session_create(engine, &session_options, &session, &err));
    b1i_note_print(session);
    B1I_TRY(b1i_generator_open(engine, session, &generate_options, &generator, &err));
    if (converse)
        code = b1i_chat(&generator, o->system);
    else
        B1I_TRY(answer(o, &generator, text, bytes, &err));
    if (!converse && generator.stop == b1i_stop_cancelled) code = B1I_EXIT_CANCELLED;
fail:
    if (st != B1_OK) code = b1i_report(&err);
    b1i_generator_close(&generator);
    b1_session_close(session);
    b1_engine_close(engine);
    b1i_free(text);
    return code;
}

static int run(const b1i_command *self, char **arguments)
{
    run_options o = {.tokens = -1, .top_p = 1, .repetition_penalty = 1};
    const char *model;
    int count, code = b1i_options_parse(self, arguments, &o, &model, 1, 1, &count);
    if (code == B1I_PARSED) code = check_options(&o);
    if (code == B1I_PARSED) code = run_model(&o, model);
    b1i_options_free(self, &o);
    return code;
}

const b1i_command b1i_command_run = {
    .name = "run",
    .operands = "MODEL",
    .summary = "Generates text from a prompt, or converses.",
    .notes =
        "MODEL is a .gguf file (the first of a split one) or a Hugging Face directory. The text goes to stdout as\n"
        "it comes; the last line on stderr says how near the steps came to the speed of memory. Ctrl-C ends the\n"
        "text and exits with 130; a second one ends the process at once.",
    .options = options,
    .run = run,
};
