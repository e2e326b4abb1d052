/* SPDX-License-Identifier: MIT
 *
 * What the subcommands share: their table, exit codes, and the signal that cancels. A subcommand is one file that
 * defines one b1i_command; main.c lists them.
 */
#ifndef APP_APP_H
#define APP_APP_H

#include "app/options.h"
#include "base/base.h"

/* Exit codes of the command. */
enum { B1I_EXIT_OK, B1I_EXIT_FAILED, B1I_EXIT_USAGE, B1I_EXIT_MODEL, B1I_EXIT_MEMORY, B1I_EXIT_CANCELLED = 130 };

typedef struct b1i_command {
    const char *name;
    const char *operands;      /* as the help shows them: "MODEL" */
    const char *summary;       /* one line, for the list of commands and for its own help */
    const char *notes;         /* after the options in its help; "" where there is nothing to add */
    const b1i_option *options; /* ends with a zeroed one */
    int (*run)(const struct b1i_command *self, char **arguments); /* arguments after the name, NULL-terminated; its
                                                                   * result is the exit code */
} b1i_command;

extern const b1i_command b1i_command_run, b1i_command_tokenize, b1i_command_inspect, b1i_command_bench,
    b1i_command_ceiling, b1i_command_devices, b1i_command_lab, b1i_command_study, b1i_command_ab, b1i_command_compare,
    b1i_command_explain, b1i_command_verify, b1i_command_report, b1i_command_completion;
/* All of them, in the order the help lists them; ends with NULL. */
extern const b1i_command *const b1i_commands[];

/* When the command started (b1i_now_ns), the zero of first_token_ms. */
extern uint64_t b1i_command_start_ns;

/* ---- Ctrl-C (signals.c) ---- */
/* From now on the first SIGINT or SIGTERM cancels and the next ends the process at once. */
void b1i_cancel_install(void);
bool b1i_cancel_asked(void);
/* Forgets the request; the next signal is a first one again (a conversation goes on). */
void b1i_cancel_clear(void);
/* The session that a signal cancels; NULL: none. */
void b1i_cancel_watch(b1_session *session);

#endif
