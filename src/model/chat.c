/* SPDX-License-Identifier: MIT
 *
 * A conversation as ids, in the model's own format. What the format itself writes becomes special tokens by their ids;
 * roles and contents are text, so a message that spells a special token stays a message.
 *
 * Text between two special tokens is encoded as one, whichever of the two it came from, as rendering the template and
 * encoding the result would.
 */
#include <string.h>

#include "model/tokenizer_impl.h"

typedef struct writer {
    b1i_scratch s;
    b1i_buffer run; /* text since the last special token */
    b1_error *err;
} writer;

static const char *const family_names[] = {NULL, "chatml", "llama3", "mistral"};

const char *b1_tokenizer_chat_family(const b1_tokenizer *t) { return t ? family_names[t->chat.family] : NULL; }

static b1_status write_text(writer *w, const char *text, size_t bytes)
{
    return b1i_buffer_put(&w->run, text, bytes) ? B1_OK : b1i_fail_memory(w->err, w->run.bytes + bytes);
}

static b1_status write_string(writer *w, const char *text) { return write_text(w, text, strlen(text)); }

static b1_status flush(writer *w)
{
    b1_status st = B1_OK;
    if (w->run.bytes) st = b1i_encode_text(&w->s, w->run.text, w->run.bytes, false, !w->s.count, w->err);
    w->run.bytes = 0;
    return st;
}

/* A special token; one that the vocabulary lacks is its text. */
static b1_status write_token(writer *w, int32_t id, const char *text)
{
    b1_status st;
    if (id < 0) return write_string(w, text);
    B1I_TRY(flush(w));
    B1I_TRY(b1i_scratch_push(&w->s, id, w->err));
    return B1_OK;
fail:
    return st;
}

/* A message's text: valid, and without white space at its ends where the template has it so. */
static b1_status write_content(writer *w, const char *text, bool trim)
{
    size_t bytes = strlen(text), start = 0, end = 0;
    bool cut, inside = false;
    for (size_t i = 0; i < bytes && trim;) {
        uint32_t code = 0xfffd;
        int n = b1i_utf8_step(text + i, bytes - i, &code, &cut);
        i += (size_t)(n > 0 ? n : -n);
        bool space = b1i_is_space(code) || (code >= 0x1c && code <= 0x1f); /* as Python's strip() */
        if (space && !inside) start = i;
        if (!space) end = i;
        inside = inside || !space;
    }
    if (!trim) end = bytes;
    if (end <= start) return B1_OK;
    size_t room = b1i_utf8_replace(text + start, end - start, NULL);
    if (!b1i_grow(&w->run.text, &w->run.capacity, w->run.bytes + room + 1, 1)) return b1i_fail_memory(w->err, room);
    w->run.bytes += b1i_utf8_replace(text + start, end - start, w->run.text + w->run.bytes);
    return B1_OK;
}

/* Text with [INST] and [/INST] in it. */
static b1_status write_marked(writer *w, const char *text)
{
    b1_status st;
    const b1i_chat *c = &w->s.t->chat;
    const char *open = strstr(text, "[INST]"), *close = strstr(text, "[/INST]"), *mark = open ? open : close;
    const char *name = open ? "[INST]" : "[/INST]";
    B1I_TRY(write_text(w, text, (size_t)(mark - text)));
    B1I_TRY(write_token(w, open ? c->open : c->close, name));
    B1I_TRY(write_string(w, mark + strlen(name)));
    return B1_OK;
fail:
    return st;
}

static bool is_role(const b1_chat_message *m, const char *role) { return !strcmp(m->role, role); }

/* ---- ChatML and Llama-3: a header with the role, the text, an end ---- */

static b1_status write_turn(writer *w, const char *role, const char *prefix, const char *content)
{
    b1_status st;
    const b1i_chat *c = &w->s.t->chat;
    bool llama = c->family == b1i_chat_llama3;
    B1I_TRY(write_token(w, c->open, ""));
    B1I_TRY(write_string(w, role));
    if (llama) B1I_TRY(write_token(w, c->header, ""));
    B1I_TRY(write_string(w, llama ? "\n\n" : "\n"));
    B1I_TRY(write_string(w, prefix));
    B1I_TRY(write_content(w, content, c->trim));
    B1I_TRY(write_token(w, c->close, ""));
    if (!llama) B1I_TRY(write_string(w, "\n"));
    return B1_OK;
fail:
    return st;
}

/* An answer that a question follows, without its reasoning. */
static const char *without_thinking(const char *text)
{
    static const char end[] = "</think>";
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, end)); at += strlen(end)) last = at;
    if (!last) return text;
    last += strlen(end);
    return last + strspn(last, "\n");
}

static b1_status write_turns(writer *w, const b1_chat_message *m, int count)
{
    b1_status st;
    const b1i_chat *c = &w->s.t->chat;
    bool llama = c->family == b1i_chat_llama3, begins = is_role(&m[0], "system");
    int question = count - 1;
    while (question > 0 && !is_role(&m[question], "user")) question--;
    if (c->system && (llama || !begins)) {
        B1I_TRY(write_turn(w, "system", c->system, begins ? m[0].content : ""));
    } else if (begins) {
        B1I_TRY(write_turn(w, "system", "", m[0].content));
    }
    for (int i = begins; i < count; i++) {
        bool drop = c->drop_thinking && i < question && is_role(&m[i], "assistant");
        B1I_TRY(write_turn(w, m[i].role, "", drop ? without_thinking(m[i].content) : m[i].content));
    }
    B1I_TRY(write_token(w, c->open, ""));
    B1I_TRY(write_string(w, llama ? "assistant" : c->generation));
    if (llama) B1I_TRY(write_token(w, c->header, ""));
    if (llama) B1I_TRY(write_string(w, "\n\n"));
    return B1_OK;
fail:
    return st;
}

/* ---- Mistral: the system text stands before a question ---- */

static b1_status write_mistral(writer *w, const b1_chat_message *m, int count)
{
    b1_status st;
    const b1i_chat *c = &w->s.t->chat;
    int begins = is_role(&m[0], "system"), carrier = begins;
    if ((count - begins) % 2 == 0)
        return b1i_fail(w->err, B1_ARGUMENT, "a conversation of this model ends with a question (user), not with %s",
                        m[count - 1].role);
    if (c->system_last) carrier = count - 1;
    for (int i = begins; i < count; i++) {
        bool question = (i - begins) % 2 == 0;
        if (!is_role(&m[i], question ? "user" : "assistant"))
            return b1i_fail(w->err, B1_ARGUMENT, "message %d is of %s, but user and assistant take turns in this model",
                            i, m[i].role);
        if (question) {
            B1I_TRY(write_marked(w, c->before));
            if (begins && i == carrier) {
                B1I_TRY(write_content(w, m[0].content, false));
                B1I_TRY(write_string(w, "\n\n"));
            }
            B1I_TRY(write_content(w, m[i].content, c->trim));
            B1I_TRY(write_marked(w, c->after));
        } else {
            B1I_TRY(write_string(w, c->answer_before));
            B1I_TRY(write_content(w, m[i].content, c->answer_trim));
            B1I_TRY(write_token(w, c->eos, ""));
            B1I_TRY(write_string(w, c->answer_after));
        }
    }
    return B1_OK;
fail:
    return st;
}

static b1_status check_messages(const b1_chat_message *m, int count, b1_error *err)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    if (!m || count < 1) return b1i_fail(err, B1_ARGUMENT, "a conversation has no message, expected at least one");
    for (int i = 0; i < count; i++) {
        int r = 0;
        if (!m[i].role || !m[i].content) return b1i_fail(err, B1_ARGUMENT, "message %d has no role or no content", i);
        while (r < 3 && strcmp(m[i].role, roles[r])) r++;
        if (r == 3)
            return b1i_fail(err, B1_ARGUMENT, "message %d has the role %.40s, expected system, user or assistant", i,
                            m[i].role);
    }
    return B1_OK;
}

b1_status b1_tokenizer_chat(const b1_tokenizer *t, const b1_chat_message *messages, int count, int32_t **ids,
                            int *id_count, b1_error *err)
{
    b1_status st;
    writer w = {.err = err};
    if (ids) *ids = NULL;
    if (id_count) *id_count = 0;
    if (!t || !ids || !id_count)
        return b1i_fail(err, B1_ARGUMENT, "b1_tokenizer_chat: tokenizer, ids or id_count is NULL");
    if (t->chat.family == b1i_chat_none)
        return b1i_fail(
            err, B1_UNSUPPORTED,
            "%s: the model's chat template cannot be used: %s; ChatML, Llama-3 and Mistral are known. A raw "
            "prompt, without the chat format, works",
            t->path, t->chat.why);
    B1I_TRY(check_messages(messages, count, err));
    B1I_TRY(b1i_scratch_open(&w.s, t, err));
    if (t->chat.bos) B1I_TRY(b1i_scratch_push(&w.s, t->bos, err));
    if (t->chat.family == b1i_chat_mistral) {
        B1I_TRY(write_mistral(&w, messages, count));
    } else {
        B1I_TRY(write_turns(&w, messages, count));
    }
    B1I_TRY(flush(&w));
    *ids = w.s.ids;
    *id_count = (int)w.s.count;
    w.s.ids = NULL;
    st = B1_OK;
fail:
    b1i_free(w.run.text);
    b1i_scratch_close(&w.s);
    return st;
}
