/* SPDX-License-Identifier: MIT
 *
 * batchone verify: whether a directory that the lab left is whole and says what its samples say.
 */
#include "lab/evidence.h"

#include "app/app.h"
#include "app/output.h"

#include <stdio.h>

typedef struct verify_options {
    bool json;
} verify_options;

#define AT(field) offsetof(verify_options, field)
static const b1i_option options[] = {
    {"json", 0, b1i_option_flag, AT(json), NULL, "print one JSON document", 0, 0, NULL},
    {0},
};

static void print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

static void keep_line(void *lines, const char *line) { json_array_append_new(lines, json_string(line)); }

static int run(const b1i_command *self, char **arguments)
{
    verify_options o = {0};
    b1_error err = {0};
    const char *directory;
    bool holds = false;
    json_t *lines = NULL, *where = NULL;
    int count, code = b1i_options_parse(self, arguments, &o, &directory, 1, 1, &count);
    if (code != B1I_PARSED) return code;
    b1_status st;
    if (o.json && !(lines = json_array())) B1I_TRY(b1i_fail_memory(&err, 64));
    B1I_TRY(b1i_evidence_verify(directory, o.json ? keep_line : print_line, lines, &holds, &err));
    if (o.json && !(where = json_string(directory))) where = json_null(); /* no UTF-8 */
    if (o.json)
        B1I_TRY(b1i_json_write(json_pack("{s:s,s:o,s:b,s:O}", "schema", "batchone.verify/1", "directory", where,
                                         "holds", holds, "differences", lines),
                               stdout, &err));
    else if (holds)
        printf("%s holds: every file is as sealed, and the analysis follows from the samples\n", directory);
fail:
    json_decref(lines);
    return st != B1_OK ? b1i_report(&err) : holds ? B1I_EXIT_OK : B1I_EXIT_FAILED;
}

const b1i_command b1i_command_verify = {
    .name = "verify",
    .operands = "DIR",
    .summary = "Checks a directory that the lab left, and makes its analysis again.",
    .notes =
        "Prints a line for each difference. Exit code 0 only where there is none; 2 where there is no such directory.",
    .options = options,
    .run = run,
};
