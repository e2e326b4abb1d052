/* SPDX-License-Identifier: MIT
 *
 * tokenizer.json: any bytes are refused by a sentence or give a tokenizer that encodes, decodes, streams and renders a
 * conversation. What it decodes is UTF-8, what it encodes are ids of its vocabulary, streaming equals decoding, and
 * nothing leaks.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer.h"
#include "model/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

static void check_decoding(const b1_tokenizer *t, const int32_t *ids, int count, bool special)
{
    b1_decode_stream stream = {0};
    char *text = NULL, *buffer = malloc(b1_tokenizer_piece_max(t) + 8);
    size_t bytes = 0, at = 0, n = 0;
    require(buffer != NULL);
    require(b1_tokenizer_decode(t, ids, count, special, &text, &bytes, NULL) == B1_OK);
    require(b1i_utf8_valid(text, bytes));
    for (int i = 0; i <= count; i++) {
        if (i < count) {
            require(b1_tokenizer_stream(t, &stream, ids[i], special, buffer, &n, NULL) == B1_OK);
        } else {
            n = b1_tokenizer_stream_flush(&stream, buffer);
        }
        require(n <= bytes - at && !memcmp(buffer, text + at, n));
        at += n;
    }
    require(at == bytes);
    free(buffer);
    b1_free(text);
}

static void use(const b1_tokenizer *t, const uint8_t *data, size_t size)
{
    static const char fixed[] =
        "It's  a\tb\r\n\r\n12345 caf\xc3\xa9 cafe\xcc\x81 \xe4\xbd\xa0\xff\xf0\x9f <s>[INST]<|im_end|> x";
    char content[] = "Hi <|im_end|>\xff";
    const b1_chat_message chat[] = {{"system", "s"}, {"user", content}};
    const char *texts[] = {fixed, (const char *)data + size / 2};
    size_t sizes[] = {sizeof fixed - 1, size - size / 2 < 300 ? size - size / 2 : 300};
    int vocab = b1_tokenizer_vocab(t);
    for (int i = 0; i < 4; i++) {
        int32_t *ids = NULL;
        int count = 0;
        unsigned flags = i & 1 ? B1_ENCODE_SPECIAL | B1_ENCODE_DEFAULT_BOS : 0;
        if (b1_tokenizer_encode(t, texts[i / 2], sizes[i / 2], flags, &ids, &count, NULL) != B1_OK) continue;
        for (int k = 0; k < count; k++) require(ids[k] >= 0 && ids[k] < vocab);
        check_decoding(t, ids, count, i & 1);
        b1_free(ids);
    }
    int32_t some[16], *ids = NULL;
    int count = 0;
    for (int i = 0; i < 16; i++) some[i] = (int32_t)(b1i_mix64(size + (uint64_t)i) % (uint64_t)vocab);
    check_decoding(t, some, 16, true);
    if (b1_tokenizer_chat(t, chat, 2, &ids, &count, NULL) == B1_OK) b1_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    b1_tokenizer *t = NULL;
    b1_error err = {0};
    long live = b1i_alloc_live();
    b1_status st = b1i_tokenizer_from_json((const char *)data, size, "fuzz.json", &t, &err);
    require((st == B1_OK) == (t != NULL));
    require(st == B1_OK || err.message[0]);
    if (t) use(t, data, size);
    b1_tokenizer_close(t);
    require(b1i_alloc_live() == live);
    return 0;
}
