/* SPDX-License-Identifier: MIT
 *
 * The conversation: each turn's whole history is put through the model's chat template; the session keeps what it has
 * evaluated, so that only what is new costs time. Ctrl-C during an answer ends the answer, at the prompt the
 * conversation.
 */
#include "app/chat.h"

#include "app/app.h"
#include "app/editor.h"
#include "app/output.h"

#include <string.h>

typedef struct conversation {
    b1_chat_message *messages; /* [count]; contents are owned, roles are not */
    size_t count, room;
} conversation;

static b1_status add(conversation *c, const char *role, const char *content, size_t bytes, b1_error *err)
{
    char *copy = b1i_strndup(content, bytes);
    if (!copy || !b1i_grow(&c->messages, &c->room, c->count + 1, sizeof *c->messages)) {
        b1i_free(copy);
        return b1i_fail_memory(err, bytes);
    }
    c->messages[c->count++] = (b1_chat_message){role, copy};
    return B1_OK;
}

static void drop_to(conversation *c, size_t count)
{
    while (c->count > count) b1i_free((void *)(uintptr_t)c->messages[--c->count].content);
}

/* One turn: the user's `line`, the answer streamed. A turn that fails is taken back. */
static b1_status turn(b1i_generator *g, conversation *c, const char *line, b1_error *err)
{
    b1_status st;
    int32_t *ids = NULL;
    int count;
    size_t before = c->count;
    b1i_gap gap;
    B1I_TRY(add(c, "user", line, strlen(line), err));
    B1I_TRY(b1_tokenizer_chat(g->tokenizer, c->messages, (int)c->count, &ids, &count, err));
    B1I_TRY(b1i_generate(g, ids, count, true, err));
    b1_free(ids);
    ids = NULL;
    B1I_TRY(b1i_write_text("\n", 1, err));
    B1I_TRY(add(c, "assistant", g->text, g->text_bytes, err));
    B1I_TRY(b1i_generator_gap(g, &gap, err));
    b1i_gap_print(&gap);
    return B1_OK;
fail:
    b1_free(ids);
    drop_to(c, before);
    return st;
}

int b1i_chat(b1i_generator *g, const char *system)
{
    conversation c = {0};
    b1_error err = {0};
    char path[4096];
    int code = B1I_EXIT_OK;
    size_t first = 0;
    const char *line;
    bool kept = b1i_cache_path("chat_history", true, path, sizeof path);
    b1i_editor *editor = b1i_editor_open("> ", kept ? path : NULL);
    if (!editor || (system && add(&c, "system", system, strlen(system), &err) != B1_OK)) {
        b1i_print_error("out of memory");
        code = B1I_EXIT_MEMORY;
        goto end;
    }
    first = c.count;
    if (b1i_editor_on_terminal(editor)) fputs("Ctrl-C stops an answer, Ctrl-D ends; /clear begins anew.\n", stderr);
    while ((line = b1i_editor_line(editor))) {
        if (!line[0]) continue;
        if (strcmp(line, "/clear") == 0) {
            drop_to(&c, first);
            continue;
        }
        if (turn(g, &c, line, &err) != B1_OK) {
            code = b1i_report(&err);
            if (err.status != B1_ARGUMENT || !b1i_editor_on_terminal(editor)) goto end;
            b1i_print_hint("/clear begins a new conversation");
            code = B1I_EXIT_OK;
        }
        /* Ctrl-C ended the answer; a conversation on a terminal goes on. */
        if (b1i_cancel_asked() && !b1i_editor_on_terminal(editor)) break;
        b1i_cancel_clear();
    }
    if (b1i_editor_on_terminal(editor)) fputc('\n', stdout);
    if (b1i_cancel_asked()) code = B1I_EXIT_CANCELLED;
end:
    drop_to(&c, 0);
    b1i_free(c.messages);
    b1i_editor_close(editor);
    return code;
}
