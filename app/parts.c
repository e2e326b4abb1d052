/* SPDX-License-Identifier: MIT
 *
 * What `study` and `ab` share. See parts.h.
 */
#include "app/parts.h"

#include "lab/evidence.h"

#include <stdio.h>

void b1i_parts_begin(b1i_parts *p, const char *command, const char *out, bool resume)
{
    *p = (b1i_parts){.command = command};
    b1i_own_path(p->executable, sizeof p->executable);
    p->run = (b1i_study_options){.out = out,
                                 .executable = p->executable,
                                 .resume = resume,
                                 .cancelled = b1i_cancel_asked,
                                 .progress = b1i_progress_show,
                                 .progress_user = &p->bar};
}

int b1i_parts_usage(const b1i_parts *p, const char *what, const char *hint)
{
    b1i_print_error("%s: %s", p->command, what);
    if (hint) b1i_print_hint("%s", hint);
    return B1I_EXIT_USAGE;
}

void b1i_parts_planned(const b1i_parts *p, const char *what, int count)
{
    printf(
        "%s: %d %s%s planned; batchone %s plan --list names them, %s run --%s measures one, study emit prints a script "
        "for all\n",
        p->run.out, count, what, count == 1 ? " is" : "s are", p->command, p->command, what);
}

void b1i_parts_measured(const b1i_parts *p, const char *id)
{
    printf("%s/cells/%s is there; when all are, batchone %s collect checks and seals them\n", p->run.out, id,
           p->command);
}

bool b1i_parts_turn_to(b1i_parts *p, const char *directory)
{
    p->run.out = directory;
    if (b1i_evidence_look(directory) != b1i_evidence_none) return true;
    b1i_print_error("%s: there is no %s", p->command, directory);
    return false;
}

void b1i_parts_line(void *user, const char *line)
{
    b1i_parts *p = user;
    b1i_progress_end(&p->bar);
    fprintf(stderr, "%s\n", line);
}

int b1i_parts_end(b1i_parts *p, b1_status st, const b1_error *err)
{
    b1i_progress_end(&p->bar);
    return st == B1_OK ? B1I_EXIT_OK : b1i_report(err);
}

bool b1i_parts_stray(const b1i_parts *p, const b1i_use *uses, size_t count, unsigned here, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        if (!uses[i].given || uses[i].parts & here) continue;
        b1i_print_error("%s: --%s has no meaning for \"%s%s%s\"", p->command, uses[i].name, p->command,
                        *what ? " " : "", what);
        b1i_print_hint("\"batchone %s --help\" lists what there is", p->command);
        return true;
    }
    return false;
}
