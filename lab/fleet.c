/* SPDX-License-Identifier: MIT
 *
 * The scripts of a fleet: for Slurm, for GNU parallel, for hosts that ssh reaches. Each is bash, needs nothing of the
 * directory but its plan, and leaves beside it, never in it, what is not evidence: logs and what is being fetched.
 * What is put into a script is quoted; what has no place in one (control characters, host names that ssh would take
 * for options) is refused.
 */
#include "lab/fleet.h"
#include "lab/files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More tasks than most clusters allow in one array; a task takes several cells then. */
enum { ARRAY_MOST = 1000 };

typedef struct fleet {
    FILE *file;
    json_t *plan;
    const char *device, *run;
    bool gpu, ab;                          /* the cells are an A/B's sessions */
    char *directory, *executable, *folder; /* absolute; folder is where relative names of models begin */
    const char *const *hosts;
    size_t host_count;
} fleet;

/* ---- what a script is made of ---- */

static bool plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 32 || *text == 127) return false;
    return true;
}

/* Whether `text` consists of letters, digits and `more`, and begins with no '-' and no '.'. */
static bool word(const char *text, const char *more)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    if (!text || !*text || *text == '-' || *text == '.') return false;
    for (; *text; text++)
        if (!strchr(letters, *text) && !strchr(more, *text)) return false;
    return true;
}

/* name='text' */
static void assign(const fleet *f, const char *name, const char *text)
{
    fprintf(f->file, "%s='", name);
    for (; *text; text++) fputs(*text == '\'' ? "'\\''" : (char[]){*text, 0}, f->file);
    fputs("'\n", f->file);
}

static size_t cell_count(const fleet *f) { return json_array_size(json_object_get(f->plan, "cells")); }

static const char *cell_id(const fleet *f, size_t i)
{
    return json_string_value(json_object_get(json_array_get(json_object_get(f->plan, "cells"), i), "id"));
}

static void put_head(const fleet *f, const char *use)
{
    const char *name = json_string_value(json_object_get(f->plan, "device_name"));
    fprintf(f->file, "# Written by batchone %s: %zu %s of %s%s%s%s.\n%s", b1_version(), cell_count(f),
            f->ab ? "sessions of an A/B, both arms in one process," : "cells, each a process of its own,", f->device,
            name ? " (" : "", name && plain(name) ? name : "", name ? ")" : "", use);
    fprintf(f->file,
            "# What is there already is left alone, so that this may be run again until nothing is missing.\n"
            "# Afterwards: batchone %s collect DIRECTORY\n",
            f->ab ? "ab" : "study");
}

/* The variables; from there on the script is in the folder where it was written, for relative names of models. */
static void put_variables(const fleet *f)
{
    assign(f, "directory", f->directory);
    assign(f, "batchone", f->executable);
    assign(f, "folder", f->folder);
}

static void put_cells(const fleet *f)
{
    fputs("cells=(\n", f->file);
    for (size_t i = 0; i < cell_count(f); i++) fprintf(f->file, "    %s\n", cell_id(f, i));
    fputs(")\n", f->file);
}

/* The words that run cell $cell, between those of the command and of the directory. */
static const char *verb(const fleet *f) { return f->ab ? "ab run --session" : "study run --cell"; }

/* ---- the kinds ---- */

static void put_slurm(const fleet *f)
{
    size_t count = cell_count(f), tasks = count < ARRAY_MOST ? count : ARRAY_MOST;
    fprintf(f->file, "#!/bin/bash\n#SBATCH --job-name=batchone\n#SBATCH --output=/dev/null\n#SBATCH --array=0-%zu\n%s",
            tasks - 1, f->gpu ? "#SBATCH --gres=gpu:1\n" : "#SBATCH --exclusive\n#SBATCH --mem=0\n");
    put_head(f, "# sbatch THIS; options of sbatch go before it (--partition, --cpus-per-task, --nodelist, --time).\n"
                "# What a task says goes to DIRECTORY.slurm/, beside the directory.\n");
    fputs("set -u\n", f->file);
    put_variables(f);
    put_cells(f);
    fprintf(f->file,
            "mkdir -p \"$directory.slurm\" && exec >\"$directory.slurm/${SLURM_ARRAY_JOB_ID:-0}_$SLURM_ARRAY_TASK_ID\" "
            "2>&1\n"
            "cd -- \"$folder\" || exit\n"
            "status=0\n"
            "for ((i = SLURM_ARRAY_TASK_ID; i < ${#cells[@]}; i += %zu)); do\n"
            "    cell=${cells[i]}\n"
            "    echo \"$(date -u +%%FT%%TZ) $(hostname) $cell\"\n"
            "    \"$batchone\" %s \"$cell\" --out \"$directory\" || status=$?\n"
            "done\n"
            "exit $status\n",
            tasks, verb(f));
}

static void put_parallel(const fleet *f)
{
    fputs("#!/bin/bash\n", f->file);
    put_head(f,
             "# bash THIS. JOBS=N runs N cells at once, each with a GPU of its own; cells that share a device spoil\n"
             "# each other's times. GNU parallel's log is DIRECTORY.joblog, beside the directory.\n");
    fputs("set -u\n", f->file);
    put_variables(f);
    fputs("parallel --version 2>/dev/null | grep -q '^GNU parallel' || {\n"
          "    echo 'this script needs GNU parallel' >&2\n"
          "    exit 1\n"
          "}\n"
          "cd -- \"$folder\" || exit\n"
          "jobs=${JOBS:-1}\n",
          f->file);
    if (!f->gpu)
        fputs("[ \"$jobs\" = 1 ] || {\n"
              "    echo 'cells of a CPU run one after the other' >&2\n"
              "    exit 2\n"
              "}\n",
              f->file);
    fputs("run() { # CELL SLOT\n", f->file);
    if (f->gpu) fputs("    [ \"$jobs\" = 1 ] || export CUDA_VISIBLE_DEVICES=$(($2 - 1))\n", f->file);
    fprintf(f->file,
            "    \"$batchone\" %s \"$1\" --out \"$directory\"\n"
            "}\n"
            "export -f run\n"
            "export directory batchone jobs PARALLEL_SHELL=/bin/bash\n"
            "parallel --jobs \"$jobs\" --joblog \"$directory.joblog\" run '{}' '{%%}' <<'CELLS'\n",
            verb(f));
    for (size_t i = 0; i < cell_count(f); i++) fprintf(f->file, "%s\n", cell_id(f, i));
    fputs("CELLS\n", f->file);
}

/* The part of the ssh script that does not depend on the plan but for `verb`. A host that asks, does not answer, or
 * falls silent under a cell (for two minutes) is gone; the others take its cells. */
static void put_ssh_functions(const fleet *f)
{
    fputs(
        "on() { # HOST COMMAND: run it there by its shell\n"
        "    ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 -o ServerAliveCountMax=8 -- \"$1\" "
        "\"$2\"\n"
        "}\n"
        "send() { # HOST: the plan and the binary; a cell refuses to be run by another one\n"
        "    on \"$1\" \"mkdir -p $remote/study/cells && cat >$remote/plan.part.\\$\\$ && mv $remote/plan.part.\\$\\$ "
        "$remote/study/plan.json\" <\"$directory/plan.json\" &&\n"
        "        on \"$1\" \"cat >$remote/batchone.part.\\$\\$ && chmod +x $remote/batchone.part.\\$\\$ && mv "
        "$remote/batchone.part.\\$\\$ $remote/batchone\" <\"$batchone\"\n"
        "}\n"
        "fetch() { # HOST CELL: it appears whole or not at all\n"
        "    rm -rf \"$directory.fetch/$2\"\n"
        "    mkdir -p \"$directory.fetch\" \"$directory/cells\" &&\n"
        "        on \"$1\" \"tar -C $remote/study/cells -cf - $2\" </dev/null | tar -C \"$directory.fetch\" -xf - &&\n"
        "        mv -T \"$directory.fetch/$2\" \"$directory/cells/$2\"\n"
        "}\n",
        f->file);
    fprintf(f->file,
            "work() { # HOST: one cell after the other, each that no other host has taken\n"
            "    local cell status\n"
            "    send \"$1\" || {\n"
            "        echo \"$1: the plan and the binary could not be sent\" >&2\n"
            "        return 1\n"
            "    }\n"
            "    for cell in \"${cells[@]}\"; do\n"
            "        [ ! -e \"$directory/cells/$cell\" ] || continue\n"
            "        mkdir \"$claims/$cell\" 2>/dev/null || continue\n"
            "        on \"$1\" \"$inside r=\\$HOME/$remote; exec \\\"\\$r/batchone\\\" %s $cell --out "
            "\\\"\\$r/study\\\"\" </dev/null &&\n"
            "            fetch \"$1\" \"$cell\"\n"
            "        status=$?\n"
            "        if [ $status = 0 ]; then\n"
            "            echo \"$1: $cell\"\n"
            "            continue\n"
            "        fi\n"
            "        echo \"$1: $cell failed with $status\" >&2\n"
            "        rmdir \"$claims/$cell\"\n"
            "        [ $status != 255 ] || return 1 # the host is gone\n"
            "    done\n"
            "}\n",
            verb(f));
}

static void put_ssh(const fleet *f)
{
    fputs("#!/bin/bash\n", f->file);
    put_head(f,
             "# bash THIS. Each host gets the plan and this binary (into ~/.cache/batchone/RUN, which may be removed\n"
             "# afterwards), takes one cell after the other, and its cells are fetched. Models must lie there under\n"
             "# the same names, and the host must let this user in without a question.\n");
    fputs("set -uo pipefail\n", f->file);
    put_variables(f);
    fprintf(f->file, "remote=.cache/batchone/%s # from the home folder there\nhosts=(\n", f->run);
    for (size_t i = 0; i < f->host_count; i++) fprintf(f->file, "    '%s'\n", f->hosts[i]);
    fputs(")\n", f->file);
    put_cells(f);
    fputs("inside=$(printf 'cd -- %q 2>/dev/null;' \"$folder\") # for relative names of models, where it is there\n"
          "claims=$(mktemp -d) || exit\n"
          "trap 'rm -rf \"$claims\" \"$directory.fetch\"' EXIT\n",
          f->file);
    put_ssh_functions(f);
    fputs("for host in \"${hosts[@]}\"; do work \"$host\" & done\n"
          "wait\n"
          "missing=0\n"
          "for cell in \"${cells[@]}\"; do [ -e \"$directory/cells/$cell\" ] || missing=$((missing + 1)); done\n"
          "[ $missing = 0 ] || {\n"
          "    echo \"$missing of ${#cells[@]} cells are missing\" >&2\n"
          "    exit 1\n"
          "}\n",
          f->file);
}

static const struct kind {
    const char *name;
    void (*put)(const fleet *f);
    bool gpu_zero; /* it gives a process a GPU, which is the process's first */
} kinds[] = {{"slurm", put_slurm, true}, {"parallel", put_parallel, false}, {"ssh", put_ssh, false}};

enum { KINDS = sizeof kinds / sizeof *kinds };

const char *b1i_fleet_kind(int index) { return index >= 0 && index < KINDS ? kinds[index].name : NULL; }

/* ---- checks ---- */

static b1_status read_plan(fleet *f, const char *directory, b1_error *err)
{
    b1_error why = {0};
    if (b1i_lab_read_json(directory, "plan.json", &f->plan, &why) != B1_OK)
        return b1i_fail(err, B1_ARGUMENT, "%s has no plan to run: %s", directory, why.message);
    const char *schema = json_string_value(json_object_get(f->plan, "schema"));
    f->ab = schema && strcmp(schema, "batchone.ab-plan/1") == 0;
    if (!schema || (!f->ab && strcmp(schema, "batchone.study-plan/1") != 0))
        return b1i_fail(err, B1_ARGUMENT, "%s/plan.json is a plan of %s, neither of a study nor of an A/B", directory,
                        schema ? schema : "nothing that is named");
    f->device = json_string_value(json_object_get(f->plan, "device"));
    f->run = json_string_value(json_object_get(f->plan, "run"));
    if (!word(f->device, ":") || !word(f->run, "-_."))
        return b1i_fail(err, B1_ARGUMENT, "%s/plan.json: \"device\" or \"run\" is missing or no word", directory);
    f->gpu = strcmp(f->device, "cpu") != 0;
    if (cell_count(f) == 0) return b1i_fail(err, B1_ARGUMENT, "%s/plan.json plans no cell", directory);
    for (size_t i = 0; i < cell_count(f); i++)
        if (!word(cell_id(f, i), "-_."))
            return b1i_fail(err, B1_ARGUMENT, "%s/plan.json: the id of cell %zu is missing or no word", directory, i);
    return B1_OK;
}

static b1_status check_hosts(const fleet *f, const struct kind *kind, b1_error *err)
{
    if (kind->put != put_ssh)
        return f->host_count == 0 ? B1_OK
                                  : b1i_fail(err, B1_ARGUMENT, "hosts are for ssh; %s knows its own", kind->name);
    if (f->host_count == 0) return b1i_fail(err, B1_ARGUMENT, "ssh needs a file of hosts, one a line: --hosts FILE");
    for (size_t i = 0; i < f->host_count; i++)
        if (!word(f->hosts[i], "@.-_:/[]%"))
            return b1i_fail(err, B1_ARGUMENT, "\"%s\" is no host that ssh could be given", f->hosts[i]);
    return B1_OK;
}

/* The absolute name of `path`, which is there, freed with b1i_free(). */
static b1_status absolute(const char *path, char **out, b1_error *err)
{
    char *found = realpath(path, NULL);
    if (!found) return b1i_fail(err, B1_ARGUMENT, "%s is not there", path);
    *out = b1i_strdup(found);
    free(found);
    if (!*out) return b1i_fail_memory(err, 4096);
    if (!plain(*out)) return b1i_fail(err, B1_ARGUMENT, "a name has a control character, which no script can hold");
    return B1_OK;
}

static b1_status check(fleet *f, const struct kind *kind, const char *directory, const char *executable, b1_error *err)
{
    b1_status st;
    B1I_TRY(read_plan(f, directory, err));
    B1I_TRY(check_hosts(f, kind, err));
    if (kind->gpu_zero && f->gpu && strcmp(f->device, "cuda:0") != 0)
        B1I_TRY(b1i_fail(err, B1_ARGUMENT,
                         "the plan is of %s, but a job of one GPU sees it as cuda:0; plan it with --device cuda:0",
                         f->device));
    B1I_TRY(absolute(directory, &f->directory, err));
    B1I_TRY(absolute(executable, &f->executable, err));
    return absolute(".", &f->folder, err);
fail:
    return st;
}

b1_status b1i_fleet_emit(const char *kind, const char *directory, const char *executable, const char *const *hosts,
                         size_t count, FILE *file, b1_error *err)
{
    fleet f = {.file = file, .hosts = hosts, .host_count = count};
    const struct kind *k = NULL;
    b1_status st;
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].name, kind) == 0) k = &kinds[i];
    if (!k) B1I_TRY(b1i_fail(err, B1_ARGUMENT, "there is no script for \"%s\": slurm, parallel or ssh", kind));
    B1I_TRY(check(&f, k, directory, executable, err));
    k->put(&f);
    st = ferror(file) ? b1i_fail(err, B1_IO, "the script could not be written") : B1_OK;
fail:
    b1i_free(f.directory);
    b1i_free(f.executable);
    b1i_free(f.folder);
    json_decref(f.plan);
    return st;
}
