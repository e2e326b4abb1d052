/* SPDX-License-Identifier: MIT
 *
 * Options as data: one table gives the parser, its error messages, the help and the completion scripts.
 */
#ifndef APP_OPTIONS_H
#define APP_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum b1i_option_kind {
    b1i_option_flag,     /* bool */
    b1i_option_integer,  /* int64_t, within [least, most] */
    b1i_option_number,   /* double, within [least, most] */
    b1i_option_text,     /* const char *, not copied */
    b1i_option_texts,    /* b1i_texts: the option may be given many times */
    b1i_option_words,    /* b1i_texts: words with commas between them */
    b1i_option_integers, /* b1i_integers: the same of whole numbers */
    b1i_option_device    /* const char *, not copied: a device's word; `choices` are those without a number */
} b1i_option_kind;

typedef struct b1i_texts {
    const char **items; /* [count] */
    size_t count, room;
    char *storage; /* of words: what the items point into */
} b1i_texts;

typedef struct b1i_integers {
    int64_t *items; /* [count] */
    size_t count, room;
} b1i_integers;

typedef struct b1i_option {
    const char *name; /* without dashes; NULL ends a table */
    char letter;      /* 0: none */
    b1i_option_kind kind;
    size_t at;            /* offset of its value in the command's options */
    const char *argument; /* what the help calls its value; NULL for a flag */
    const char *help;
    double least, most;                /* of numbers */
    const char *(*choices)(int index); /* of text and words: what is allowed, NULL past the last; NULL: anything */
} b1i_option;

struct b1i_command;

enum { B1I_PARSED = -1 }; /* what b1i_options_parse() returns where the command shall go on */

/* Parses `arguments` (NULL-terminated) into `values`, which holds the defaults, and the operands into `operands`
 * [least .. most]; *count of them is set. Options may stand anywhere; all after "--" are operands. Returns B1I_PARSED,
 * or the exit code: of --help, or of a usage error, which has been printed. */
int b1i_options_parse(const struct b1i_command *command, char **arguments, void *values, const char **operands,
                      int least, int most, int *count);
/* Frees the lists in `values`. */
void b1i_options_free(const struct b1i_command *command, void *values);
/* The help of one command. */
void b1i_options_help(const struct b1i_command *command, FILE *out);

#endif
