/* SPDX-License-Identifier: MIT
 *
 * batchone report: runs of the lab, studies and A/B runs as one HTML page.
 */
#include "lab/report.h"
#include "app/app.h"
#include "app/output.h"
#include "lab/evidence.h"

enum { RUNS_MOST = 64 };

typedef struct report_options {
    const char *out;
} report_options;

#define AT(field) offsetof(report_options, field)
static const b1i_option options[] = {
    {"out", 'o', b1i_option_text, AT(out), "FILE", "the page: FILE.html, with FILE_files/ beside it", 0, 0, NULL},
    {0},
};

static int run(const b1i_command *self, char **arguments)
{
    report_options o = {0};
    const char *directories[RUNS_MOST];
    b1_error err = {0};
    int count, code = b1i_options_parse(self, arguments, &o, directories, 1, RUNS_MOST, &count);
    if (code != B1I_PARSED) return code;
    if (!o.out) {
        b1i_print_error("report: --out is missing");
        b1i_print_hint("\"batchone report DIR… --out FILE.html\"");
        return B1I_EXIT_USAGE;
    }
    for (int i = 0; i < count; i++)
        if (b1i_evidence_look(directories[i]) == b1i_evidence_none) {
            b1i_print_error("report: there is no %s", directories[i]);
            return B1I_EXIT_USAGE;
        }
    if (b1i_report_write(directories, (size_t)count, o.out, &err) != B1_OK) return b1i_report(&err);
    return B1I_EXIT_OK;
}

const b1i_command b1i_command_report = {
    .name = "report",
    .operands = "DIR…",
    .summary = "Writes runs, studies and A/B runs as one page of HTML.",
    .notes =
        "Each DIR is what \"batchone lab\", \"study\" or \"ab\" left; one that does not verify is refused. Studies\n"
        "and A/B runs are shown together too, and beside a published study. The page needs no network and no\n"
        "other file; what its plots were drawn from lies beside it in FILE_files/. Plots are made by gnuplot.",
    .options = options,
    .run = run,
};
