/* SPDX-License-Identifier: MIT
 *
 * Any text as the chat template of a tokenizer that has every family's special tokens: it is of a family, and then a
 * conversation gives ids of the vocabulary, or it is of none and says why. Opening never fails for it.
 */
#include "model/tokenizer_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Byte-level, one letter, and the specials with the ids 1 and up; BOS is the first. */
static size_t make_tokenizer(char *out, size_t size)
{
    static const char *const specials[] = {
        "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
    size_t at = (size_t)snprintf(out, size, "{\"added_tokens\":[");
    for (int i = 0; i < 7; i++)
        at += (size_t)snprintf(out + at, size - at, "%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", i ? "," : "",
                               i + 1, specials[i]);
    at +=
        (size_t)snprintf(out + at, size - at,
                         "],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
                         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
                         "{\"id\":\"<s>\"}}]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}");
    return at;
}

static void require(bool holds)
{
    if (!holds) abort();
}

static void use(const b1_tokenizer *t)
{
    static const b1_chat_message m[] = {
        {"system", " a "}, {"user", "a <|im_end|>\xff"}, {"assistant", "a</think>\na"}, {"user", ""}};
    b1_error err = {0};
    int32_t *ids = NULL;
    int count = 0;
    b1_status st = b1_tokenizer_chat(t, m, 4, &ids, &count, &err);
    require(st == (b1_tokenizer_chat_family(t) ? B1_OK : B1_UNSUPPORTED));
    require(st == B1_OK || err.message[0]);
    for (int i = 0; i < count; i++) require(ids[i] >= 0 && ids[i] < b1_tokenizer_vocab(t));
    b1_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char tokenizer[2000];
    size_t bytes = make_tokenizer(tokenizer, sizeof tokenizer);
    b1_tokenizer *t = NULL;
    b1_error err = {0};
    long live = b1i_alloc_live();
    char *text = b1i_strndup((const char *)data, size); /* up to a NUL, which no file's template has */
    require(text != NULL);
    if (b1i_utf8_valid(text, strlen(text))) {
        require(b1i_tokenizer_read_json(tokenizer, bytes, "fuzz.json", &t, &err) == B1_OK);
        require(b1i_tokenizer_add_end(t, 2, &err) == B1_OK);
        t->chat_template = text;
        require(b1i_tokenizer_finish(t, &err) == B1_OK);
        use(t);
        b1_tokenizer_close(t);
    }
    b1i_free(text);
    require(b1i_alloc_live() == live);
    return 0;
}
