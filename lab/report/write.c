/* SPDX-License-Identifier: MIT
 *
 * The report as a whole: which directories it takes, the folder beside the page, its order. Nothing is written into a
 * run's directory; the page appears when it is complete.
 */
#include "lab/report.h"

#include "lab/evidence.h"
#include "lab/files.h"
#include "lab/report/gnuplot.h"
#include "lab/report/page.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a run's own plots ---- */

static b1_status keep_text(b1i_evidence *evidence, const b1i_plot *f, const char *suffix, const b1i_text *text,
                           b1_error *err)
{
    char name[96];
    snprintf(name, sizeof name, "plots/%s.%s", f->name, suffix);
    return b1i_evidence_text(evidence, name, b1i_text_get(text), text->count, err);
}

b1_status b1i_report_plots(struct b1i_evidence *evidence, b1_error *err)
{
    b1_status st;
    b1i_report_run run = {0};
    b1i_plots figures = {0};
    B1I_TRY(b1i_report_run_load(b1i_evidence_directory(evidence), &run, err));
    B1I_TRY(b1i_plots_make(&run, &figures, err));
    for (size_t i = 0; i < figures.count; i++) {
        B1I_TRY(keep_text(evidence, &figures.items[i], "dat", &figures.items[i].data, err));
        B1I_TRY(keep_text(evidence, &figures.items[i], "gp", &figures.items[i].script, err));
    }
fail:
    b1i_plots_free(&figures);
    b1i_report_run_free(&run);
    return st;
}

/* ---- files beside the page ---- */

/* Whether a folder is a run's, whatever became of the run. */
static bool is_run(const char *folder)
{
    static const char *const more[] = {"plan.json", "manifest.json", "failed.json"};
    char path[4200];
    snprintf(path, sizeof path, "%s/environment.json", folder);
    bool any = false, environment = access(path, F_OK) == 0;
    for (size_t i = 0; environment && i < sizeof more / sizeof *more; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, more[i]);
        any |= access(path, F_OK) == 0;
    }
    return any;
}

/* B1_ARGUMENT: the folder is a run or lies in one, of those that the page shows or another. */
static b1_status in_no_run(const char *folder, b1_error *err)
{
    char above[4096];
    if (!realpath(folder, above))
        return b1i_fail(err, B1_IO, "%s: no such folder for the report: %s", folder, strerror(errno));
    while (above[0]) {
        if (is_run(above))
            return b1i_fail(err, B1_ARGUMENT, "the report may not lie in %s: a run stays as it is", above);
        char *slash = strrchr(above, '/');
        *(slash ? slash : above) = 0;
    }
    return B1_OK;
}

b1_status b1i_page_folder(const char *path, b1_error *err)
{
    struct stat there;
    if (mkdir(path, 0777) == 0) return B1_OK;
    if (errno == EEXIST && stat(path, &there) == 0 && S_ISDIR(there.st_mode)) return in_no_run(path, err);
    return b1i_fail(err, B1_IO, "the folder %s cannot be made: %s", path, strerror(errno));
}

/* The page: under another name first. */
static b1_status write_page(const char *out, const b1i_text *html, b1_error *err)
{
    char part[4200];
    snprintf(part, sizeof part, "%s.XXXXXX", out); /* fits: see find_places */
    int fd = mkstemp(part);
    mode_t mask = umask(0);
    umask(mask);
    FILE *f = fd >= 0 && fchmod(fd, 0666 & ~mask) == 0 ? fdopen(fd, "w") : NULL;
    bool good = f && fwrite(b1i_text_get(html), 1, html->count, f) == html->count;
    if (f) good = fclose(f) == 0 && good;
    if (good) good = rename(part, out) == 0;
    if (good) return B1_OK;
    b1_status st = b1i_fail(err, B1_IO, "%s cannot be written: %s", out, strerror(errno));
    if (fd >= 0 && !f) close(fd);
    if (fd >= 0) unlink(part);
    return st;
}

/* ---- where things are ---- */

typedef struct places {
    char folder[4096]; /* that the page is in, resolved */
    char files[4096];  /* FILE_files */
    const char *name;  /* of FILE_files alone: points into files */
} places;

static b1_status find_places(const char *out, places *p, b1_error *err)
{
    char copy[4096];
    size_t length = strlen(out);
    struct stat there;
    const char *slash = strrchr(out, '/');
    if (length == 0 || length + 32 >= sizeof copy || out[length - 1] == '/' || strcmp(out, "-") == 0)
        return b1i_fail(err, B1_ARGUMENT, "\"%s\" is no name of a file that the report could have", out);
    snprintf(copy, sizeof copy, "%.*s", slash ? (int)(slash - out + 1) : 1, slash ? out : ".");
    if (!realpath(copy, p->folder))
        return b1i_fail(err, B1_IO, "%s: no such folder for the report: %s", copy, strerror(errno));
    if (stat(out, &there) == 0 && !S_ISREG(there.st_mode))
        return b1i_fail(err, B1_ARGUMENT, "%s is no file that a report may replace", out);
    bool html = length > 5 && strcmp(out + length - 5, ".html") == 0;
    snprintf(p->files, sizeof p->files, "%.*s_files", (int)(html ? length - 5 : length), out);
    slash = strrchr(p->files, '/');
    p->name = slash ? slash + 1 : p->files;
    return B1_OK;
}

/* The way from one resolved folder to another, with a slash at its end: "../runs/one/". */
static void way(b1i_text *text, const char *from, const char *to)
{
    size_t same = 0;
    b1i_text path = {0};
    for (size_t i = 0;; i++) {
        bool ends_from = from[i] == '/' || !from[i], ends_to = to[i] == '/' || !to[i];
        if (ends_from && ends_to) same = i;
        if (from[i] != to[i] || !from[i]) break;
    }
    for (const char *at = from + same; *at; at++)
        if (*at == '/' && at[1]) b1i_text_put(&path, "../");
    const char *rest = to + same + (to[same] == '/');
    b1i_text_printf(&path, "%s%s", rest, rest[0] ? "/" : "");
    if (path.count) b1i_html_href(text, b1i_text_get(&path));
    text->broken |= path.broken;
    b1i_text_free(&path);
}

/* ---- which runs ---- */

static void first_line(void *user, const char *line)
{
    char *first = user;
    if (!first[0]) snprintf(first, 512, "%s", line);
}

/* What goes on with a run that is not complete. */
static const char *how_to_resume(const char *directory)
{
    static const char *const commands[][2] = {{"batchone.study-plan/1", "batchone study --resume --out DIR"},
                                              {"batchone.ab-plan/1", "batchone ab --resume --out DIR"}};
    const char *how = "batchone lab … --resume --out DIR";
    json_t *plan = NULL;
    if (b1i_lab_read_json(directory, "plan.json", &plan, NULL) != B1_OK) return how;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(b1i_lab_text_at(plan, "schema"), commands[i][0]) == 0) how = commands[i][1];
    json_decref(plan);
    return how;
}

static b1_status check_run(const char *directory, b1_error *err)
{
    char line[512] = "";
    bool holds = false;
    switch (b1i_evidence_look(directory)) {
    case b1i_evidence_sealed:
        break;
    case b1i_evidence_none:
        return b1i_fail(err, B1_IO, "%s: there is no such directory", directory);
    case b1i_evidence_incomplete:
        return b1i_fail(err, B1_IO, "%s: is an incomplete run; \"%s\" completes it", directory,
                        how_to_resume(directory));
    case b1i_evidence_failed:
        return b1i_fail(err, B1_IO, "%s: is a run that failed, and has no numbers; its failed.json says why",
                        directory);
    default:
        return b1i_fail(err, B1_IO, "%s: is no run of \"batchone lab\", \"study\" or \"ab\"", directory);
    }
    b1_status st = b1i_evidence_verify(directory, first_line, line, &holds, err);
    if (st != B1_OK || holds) return st;
    return b1i_fail(err, B1_IO, "%s: does not verify, so it is not reported: %s", directory,
                    line[0] ? line : "no reason given");
}

static b1_status load_run(const char *directory, const places *p, int number, b1i_report_run *run, b1_error *err)
{
    char real[4096];
    b1i_text href = {0};
    b1_status st;
    B1I_TRY(check_run(directory, err));
    B1I_TRY(b1i_report_run_load(directory, run, err));
    if (!realpath(directory, real))
        B1I_TRY(b1i_fail(err, B1_IO, "%s: cannot be resolved: %s", directory, strerror(errno)));
    const char *slash = strrchr(real, '/');
    char *name = b1i_strdup(slash[1] ? slash + 1 : real);
    if (!name) B1I_TRY(b1i_fail_memory(err, strlen(real)));
    b1i_free(run->name);
    run->name = name;
    way(&href, p->folder, real);
    B1I_TRY(b1i_text_status(&href, err));
    b1i_free(run->href);
    run->href = href.data ? href.data : b1i_strdup("./");
    href.data = NULL;
    if (!run->href) B1I_TRY(b1i_fail_memory(err, 3));
    run->number = number;
    return B1_OK;
fail:
    b1i_text_free(&href);
    return st;
}

/* ---- the page ---- */

static b1_status put_page(const b1i_report_run *runs, size_t count, const places *p, const char *out, b1_error *err)
{
    b1_status st;
    b1i_page page = {.files = p->name, .folder = p->files};
    B1I_TRY(b1i_page_folder(p->files, err));
    B1I_TRY(b1i_page_body(&page, runs, count, err));
    st = write_page(out, &page.html, err);
fail:
    b1i_text_free(&page.html);
    b1i_text_free(&page.claims);
    return st;
}

b1_status b1i_report_write(const char *const *directories, size_t count, const char *out, b1_error *err)
{
    b1_status st;
    places *p = b1i_calloc(1, sizeof *p);
    b1i_report_run *runs = b1i_calloc(count, sizeof *runs);
    if (!p || !runs) {
        st = b1i_fail_memory(err, count * sizeof *runs);
        goto fail;
    }
    B1I_TRY(b1i_gnuplot_find(err));
    B1I_TRY(find_places(out, p, err));
    B1I_TRY(in_no_run(p->folder, err));
    for (size_t i = 0; i < count; i++) B1I_TRY(load_run(directories[i], p, (int)i + 1, &runs[i], err));
    st = put_page(runs, count, p, out, err);
fail:
    for (size_t i = 0; runs && i < count; i++) b1i_report_run_free(&runs[i]);
    b1i_free(runs);
    b1i_free(p);
    return st;
}
