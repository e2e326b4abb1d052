/* SPDX-License-Identifier: MIT
 *
 * batchone tokenize: text on stdin to a JSON array of ids, or back.
 */
#include "app/app.h"
#include "app/output.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct tokenize_options {
    bool special, bos, decode;
} tokenize_options;

#define AT(field) offsetof(tokenize_options, field)
static const b1i_option options[] = {
    {"special", 0, b1i_option_flag, AT(special), NULL,
     "text that spells a special token is that token; back: show them", 0, 0, NULL},
    {"bos", 0, b1i_option_flag, AT(bos), NULL, "put the beginning-of-sequence token first", 0, 0, NULL},
    {"decode", 0, b1i_option_flag, AT(decode), NULL, "a JSON array of ids on stdin to text", 0, 0, NULL},
    {0},
};

static b1_status encode(const tokenize_options *o, const b1_tokenizer *tokenizer, const char *text, size_t bytes,
                        b1_error *err)
{
    int32_t *ids = NULL;
    int count;
    unsigned flags = (o->special ? B1_ENCODE_SPECIAL : 0) | (o->bos ? B1_ENCODE_BOS : 0);
    b1_status st = b1_tokenizer_encode(tokenizer, text, bytes, flags, &ids, &count, err);
    if (st != B1_OK) return st;
    putchar('[');
    for (int i = 0; i < count; i++) printf(i ? ",%d" : "%d", (int)ids[i]);
    puts("]");
    b1_free(ids);
    return B1_OK;
}

/* The ids of a JSON array, freed with b1i_free(). */
static b1_status parse_ids(const char *text, size_t bytes, int32_t **out, int *count, b1_error *err)
{
    json_error_t wrong;
    json_t *list = json_loadb(text, bytes, 0, &wrong), *item;
    size_t i;
    b1_status st = B1_OK;
    *out = NULL;
    if (!json_is_array(list)) {
        st = b1i_fail(err, B1_ARGUMENT, "standard input is no JSON array of ids: %s",
                      list ? "it holds something else" : wrong.text);
        goto fail;
    }
    if (!(*out = b1i_malloc((json_array_size(list) + 1) * sizeof **out))) {
        st = b1i_fail_memory(err, json_array_size(list) * sizeof **out);
        goto fail;
    }
    json_array_foreach(list, i, item)
    {
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > INT32_MAX) {
            st = b1i_fail(err, B1_ARGUMENT, "standard input: entry %zu of the array is no token id", i);
            goto fail;
        }
        (*out)[i] = (int32_t)id;
    }
    *count = (int)json_array_size(list);
fail:
    json_decref(list);
    return st;
}

static b1_status decode(const tokenize_options *o, const b1_tokenizer *tokenizer, const char *text, size_t bytes,
                        b1_error *err)
{
    int32_t *ids = NULL;
    int count = 0;
    char *plain = NULL;
    size_t length = 0;
    b1_status st;
    B1I_TRY(parse_ids(text, bytes, &ids, &count, err));
    B1I_TRY(b1_tokenizer_decode(tokenizer, ids, count, o->special, &plain, &length, err));
    fwrite(plain, 1, length, stdout); /* main() sees what fails */
    if (isatty(STDOUT_FILENO)) putchar('\n');
fail:
    b1_free(plain);
    b1i_free(ids);
    return st;
}

static int run(const b1i_command *self, char **arguments)
{
    tokenize_options o = {0};
    const char *model;
    b1_tokenizer *tokenizer = NULL;
    b1_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    int count, code = b1i_options_parse(self, arguments, &o, &model, 1, 1, &count);
    if (code != B1I_PARSED) return code;
    b1_status st;
    B1I_TRY(b1_tokenizer_open(model, &tokenizer, &err));
    B1I_TRY(b1i_read_all(stdin, "standard input", &text, &bytes, &err));
    B1I_TRY((o.decode ? decode : encode)(&o, tokenizer, text, bytes, &err));
fail:
    code = st == B1_OK ? B1I_EXIT_OK : b1i_report(&err);
    b1i_free(text);
    b1_tokenizer_close(tokenizer);
    return code;
}

const b1i_command b1i_command_tokenize = {
    .name = "tokenize",
    .operands = "MODEL",
    .summary = "Turns text on stdin into a JSON array of token ids, or back.",
    .notes =
        "MODEL is a .gguf file, a Hugging Face directory or a tokenizer.json. Without --special, text that spells a\n"
        "special token is plain text, and --decode leaves special tokens out.",
    .options = options,
    .run = run,
};
