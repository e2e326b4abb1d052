/* SPDX-License-Identifier: MIT
 *
 * Lines from a person: libedit with history on a terminal, plain lines where input is no terminal or the build has no
 * libedit.
 */
#ifndef APP_EDITOR_H
#define APP_EDITOR_H

#include "base/base.h"

typedef struct b1i_editor b1i_editor;

/* `prompt` is shown before each line on a terminal; it must outlive the editor. NULL: no memory. The history is kept
 * in `history_path` between calls; NULL: it is not. */
b1i_editor *b1i_editor_open(const char *prompt, const char *history_path);
/* The next line without its line end, valid until the next call; NULL at the end of the input or after Ctrl-C. */
const char *b1i_editor_line(b1i_editor *editor);
bool b1i_editor_on_terminal(const b1i_editor *editor);
void b1i_editor_close(b1i_editor *editor);

#endif
