/* SPDX-License-Identifier: MIT
 *
 * Lines from a person. See editor.h.
 */
#include "app/editor.h"

#include "app/app.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef B1I_EDIT
#include <histedit.h>
#include <sys/stat.h>
#include <wchar.h>
#endif

enum { HISTORY_LINES = 1000 };

struct b1i_editor {
    const char *prompt;
    char *history_path;
    char *line; /* malloc'd by getline, or a copy of libedit's */
    size_t room;
    bool terminal;
#ifdef B1I_EDIT
    EditLine *edit;
    History *history;
#endif
};

#ifdef B1I_EDIT

static char *show_prompt(EditLine *edit)
{
    b1i_editor *e = NULL;
    el_get(edit, EL_CLIENTDATA, &e);
    return (char *)(uintptr_t)e->prompt;
}

/* One character from the terminal. libedit's own reader would go on after a signal; this one ends the line. */
static int read_character(EditLine *edit, wchar_t *out)
{
    mbstate_t state = {0};
    (void)edit;
    for (int i = 0; i < 6; i++) {
        char byte;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got <= 0) return got == 0 ? 0 : -1;
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-2) continue; /* more bytes belong to it */
        if (used == (size_t)-1) *out = (wchar_t)0xfffd;
        return 1;
    }
    return -1;
}

static void open_terminal(b1i_editor *e)
{
    HistEvent event;
    /* Text is UTF-8 also where the locale is the bare C one. */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
    e->edit = el_init("batchone", stdin, stdout, stderr);
    e->history = history_init();
    if (!e->edit || !e->history) return;
    el_set(e->edit, EL_CLIENTDATA, e);
    el_set(e->edit, EL_PROMPT, show_prompt);
    el_set(e->edit, EL_EDITOR, "emacs");
    el_set(e->edit, EL_GETCFN, read_character);
    history(e->history, &event, H_SETSIZE, HISTORY_LINES);
    history(e->history, &event, H_SETUNIQUE, 1);
    el_set(e->edit, EL_HIST, history, e->history);
    if (e->history_path) history(e->history, &event, H_LOAD, e->history_path);
    el_source(e->edit, NULL);
}

static const char *edited_line(b1i_editor *e)
{
    HistEvent event;
    int count = 0;
    const char *line = el_gets(e->edit, &count);
    if (!line || count <= 0 || b1i_cancel_asked()) return NULL;
    b1i_free(e->line);
    if (!(e->line = b1i_strndup(line, (size_t)count))) return NULL;
    e->line[strcspn(e->line, "\n")] = 0;
    if (e->line[0]) history(e->history, &event, H_ENTER, line);
    return e->line;
}

static void close_terminal(b1i_editor *e)
{
    HistEvent event;
    if (e->history && e->history_path) {
        mode_t mask = umask(077); /* what a person said is theirs alone */
        history(e->history, &event, H_SAVE, e->history_path);
        umask(mask);
    }
    if (e->edit) el_end(e->edit);
    if (e->history) history_end(e->history);
    b1i_free(e->line);
}

#endif

b1i_editor *b1i_editor_open(const char *prompt, const char *history_path)
{
    b1i_editor *e = b1i_calloc(1, sizeof *e);
    if (!e) return NULL;
    e->prompt = prompt;
    e->history_path = history_path ? b1i_strdup(history_path) : NULL;
    e->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
#ifdef B1I_EDIT
    if (e->terminal) open_terminal(e);
#endif
    return e;
}

const char *b1i_editor_line(b1i_editor *e)
{
#ifdef B1I_EDIT
    if (e->edit && e->history) return edited_line(e);
#endif
    if (e->terminal) {
        fputs(e->prompt, stdout);
        fflush(stdout);
    }
    if (getline(&e->line, &e->room, stdin) < 0 || b1i_cancel_asked()) return NULL;
    e->line[strcspn(e->line, "\n")] = 0;
    return e->line;
}

bool b1i_editor_on_terminal(const b1i_editor *e) { return e->terminal; }

void b1i_editor_close(b1i_editor *e)
{
    if (!e) return;
#ifdef B1I_EDIT
    if (e->edit || e->history)
        close_terminal(e);
    else
#endif
        free(e->line);
    b1i_free(e->history_path);
    b1i_free(e);
}
