/* SPDX-License-Identifier: MIT
 *
 * The scripts of a fleet, run for real by bash and GNU parallel with a command that stands in for batchone, and by a
 * stand-in for ssh whose hosts are folders. tests/fleet runs them with the command itself, and in a real Slurm.
 */
#include "lab/files.h"
#include "lab/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64]; /* of this process, absolute; removed at the end */
static b1_error err;

#define HAS(part) \
    if (!strstr(err.message, part)) fail_msg("no \"%s\" in: %s", part, err.message)

static void sh(const char *format, ...) B1I_PRINTF(1, 2);
static int sh_code(const char *format, ...) B1I_PRINTF(1, 2);

static int run_shell(const char *format, va_list list)
{
    char command[4096];
    assert_true((size_t)vsnprintf(command, sizeof command, format, list) < sizeof command);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int sh_code(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int code = run_shell(format, list);
    va_end(list);
    return code;
}

static void sh(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int code = run_shell(format, list);
    va_end(list);
    if (code != 0) fail_msg("exit %d: %s", code, format);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, mode) == 0);
}

/* It makes the cell that it is told to make, if the plan is there, and writes down what it was told. */
static const char batchone[] = "#!/bin/bash\n"
                               "set -eu\n"
                               "[ $# = 6 ] && [ \"$5\" = --out ] && [ -e \"$6/plan.json\" ]\n"
                               "[ -e \"$6/cells/$4\" ] && exit\n"
                               "mkdir -p \"$6/cells/$4\"\n"
                               "echo \"$1 $2 $3 ${CUDA_VISIBLE_DEVICES:-all}\" >\"$6/cells/$4/cell.json\"\n";
/* ssh -o … -- HOST COMMAND; the host "gone" does not answer, "far" has no folder of ours. */
static const char ssh[] = "#!/bin/bash\n"
                          "set -eu\n"
                          "[ $# = 11 ] && [ \"${*:1:9}\" = '-o BatchMode=yes -o ConnectTimeout=20 "
                          "-o ServerAliveInterval=15 -o ServerAliveCountMax=8 --' ]\n"
                          "shift 6\n"
                          "[ \"$4\" != gone ] || exit 255\n"
                          "HOME=${0%/*}/home-$4\n"
                          "mkdir -p \"$HOME\"\n"
                          "export HOME\n"
                          "cd\n"
                          "exec sh -c \"$5\"\n";

/* A directory with a plan of `count` cells of 3 + their number in hexadecimal. */
static char *planned(const char *name, const char *schema, const char *device, int count)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    json_t *cells = json_array();
    for (int i = 0; i < count; i++) {
        char id[24];
        snprintf(id, sizeof id, "3%015x", (unsigned)i);
        json_array_append_new(cells, json_pack("{s:s}", "id", id));
    }
    json_t *plan = json_pack("{s:s,s:s,s:s,s:s,s:o}", "schema", schema, "run", "0123abcd", "device", device,
                             "device_name", "a GPU", "cells", cells);
    assert_int_equal(mkdir(path, 0777), 0);
    char *file = b1i_lab_join(path, "plan.json");
    assert_int_equal(json_dump_file(plan, file, 0), 0);
    b1i_free(file);
    json_decref(plan);
    return path;
}

static b1_status emit(const char *kind, const char *directory, const char *const *hosts, size_t count)
{
    char script[96], program[96];
    snprintf(script, sizeof script, "%s/script", folder);
    snprintf(program, sizeof program, "%s/batch one's", folder);
    FILE *f = fopen(script, "w");
    assert_non_null(f);
    b1_status st = b1i_fleet_emit(kind, directory, program, hosts, count, f, &err);
    assert_int_equal(fclose(f), 0);
    return st;
}

static void emit_well(const char *kind, const char *directory, const char *const *hosts, size_t count)
{
    if (emit(kind, directory, hosts, count) != B1_OK) fail_msg("%s", err.message);
    sh("bash -n %s/script", folder);
}

/* Every cell is there, once, made by these words. */
static void all_cells(const char *directory, int count, const char *words)
{
    sh("[ $(ls \"%s/cells\" | wc -l) = %d ]", directory, count);
    sh("[ \"$(cat \"%s\"/cells/*/cell.json | sort -u)\" = '%s' ]", directory, words);
}

static void an_array_of_slurm(void **state)
{
    (void)state;
    char *directory = planned("slurm of 5", "batchone.study-plan/1", "cuda:0", 5);
    emit_well("slurm", directory, NULL, 0);
    sh("grep -q '^#SBATCH --array=0-4$' %s/script && grep -q '^#SBATCH --gres=gpu:1$' %s/script", folder, folder);
    for (int i = 0; i < 5; i++) sh("SLURM_ARRAY_TASK_ID=%d bash %s/script", i, folder);
    all_cells(directory, 5, "study run --cell all");
    sh("grep -q 3000000000000004 \"%s.slurm/0_4\"", directory);
}

/* Clusters have a limit for the size of an array: a task takes several cells then. */
static void a_long_array_of_slurm(void **state)
{
    (void)state;
    char *directory = planned("long", "batchone.study-plan/1", "cpu", 1003);
    emit_well("slurm", directory, NULL, 0);
    sh("grep -q '^#SBATCH --array=0-999$' %s/script && ! grep -q gres %s/script && grep -q exclusive %s/script", folder,
       folder, folder);
    sh("SLURM_ARRAY_TASK_ID=2 bash %s/script && SLURM_ARRAY_TASK_ID=3 bash %s/script", folder, folder);
    sh("cd '%s/cells' && [ \"$(echo *)\" = '3000000000000002 3000000000000003 30000000000003ea' ]", directory);
}

static void the_sessions_of_an_ab(void **state)
{
    (void)state;
    char *directory = planned("it's $HOME; \"ab\"", "batchone.ab-plan/1", "cpu", 2);
    emit_well("slurm", directory, NULL, 0);
    sh("SLURM_ARRAY_TASK_ID=0 bash %s/script && SLURM_ARRAY_TASK_ID=1 bash %s/script", folder, folder);
    sh("[ \"$(cat %s/it*/cells/*/cell.json | sort -u)\" = 'ab run --session all' ]", folder);
}

/* What a cell exits with is what its task exits with. */
static void a_task_that_fails(void **state)
{
    (void)state;
    char *directory = planned("fails", "batchone.study-plan/1", "cpu", 2);
    emit_well("slurm", directory, NULL, 0);
    sh("rm '%s/plan.json'; ! SLURM_ARRAY_TASK_ID=1 bash %s/script", directory, folder);
}

static void gnu_parallel(void **state)
{
    (void)state;
    if (sh_code("parallel --version 2>/dev/null | grep -q '^GNU parallel'") != 0) skip();
    char *directory = planned("par a'llel", "batchone.study-plan/1", "cuda:0", 6);
    emit_well("parallel", directory, NULL, 0);
    sh("bash %s/script 2>/dev/null", folder);
    sh("cd %s/par*l && [ \"$(sort -u cells/*/cell.json)\" = 'study run --cell all' ] && [ $(ls cells | wc -l) = 6 ]",
       folder);
    sh("cd %s && [ $(awk 'NR > 1 && $7 == 0' par*l.joblog | wc -l) = 6 ]", folder);
    sh("rm -r %s/par*l/cells; JOBS=2 bash %s/script 2>/dev/null", folder, folder);
    sh("cd %s/par*l && [ $(ls cells | wc -l) = 6 ] && ! grep -qv 'study run --cell [01]$' cells/*/cell.json", folder);
    sh("cd %s && rm -r par*l/cells par*l/plan.json && ! bash script 2>/dev/null", folder);

    emit_well("parallel", planned("cpu", "batchone.study-plan/1", "cpu", 1), NULL, 0);
    assert_int_equal(sh_code("JOBS=2 bash %s/script 2>/dev/null", folder), 2); /* two would share the memory */
}

static void hosts_by_ssh(void **state)
{
    (void)state;
    static const char *const hosts[] = {"gone", "user@near", "far"};
    char *directory = planned("ssh of 8", "batchone.study-plan/1", "cuda:1", 8);
    emit_well("ssh", directory, hosts, 3);
    sh("PATH=%s:$PATH bash %s/script >%s/out 2>%s/said", folder, folder, folder, folder);
    all_cells(directory, 8, "study run --cell all");
    sh("grep -q '^gone: ' %s/said && [ ! -e '%s.fetch' ] && [ $(wc -l <%s/out) = 8 ]", folder, directory, folder);
    sh("cmp \"%s/batch one's\" '%s/home-far/.cache/batchone/0123abcd/batchone'", folder, folder);

    /* A second time there is nothing left to do; where a cell is missing, it alone is made. */
    sh("rm -r '%s/cells/3000000000000005'; PATH=%s:$PATH bash %s/script >%s/out 2>&1", directory, folder, folder,
       folder);
    all_cells(directory, 8, "study run --cell all");

    static const char *const gone[] = {"gone"};
    emit_well("ssh", planned("nobody", "batchone.ab-plan/1", "cpu", 2), gone, 1);
    assert_int_equal(sh_code("PATH=%s:$PATH bash %s/script >%s/out 2>&1", folder, folder, folder), 1);
    sh("grep -q '2 of 2 cells are missing' %s/out", folder);
}

static void what_is_refused(void **state)
{
    (void)state;
    static const char *const bad_hosts[] = {"-oProxyCommand=x"}, *const hosts[] = {"a"};
    char *directory = planned("refused", "batchone.study-plan/1", "cuda:1", 1);
    assert_int_equal(emit("pbs", directory, NULL, 0), B1_ARGUMENT);
    HAS("\"pbs\"");
    assert_int_equal(emit("slurm", directory, NULL, 0), B1_ARGUMENT);
    HAS("--device cuda:0");
    assert_int_equal(emit("ssh", directory, NULL, 0), B1_ARGUMENT);
    HAS("--hosts FILE");
    assert_int_equal(emit("ssh", directory, bad_hosts, 1), B1_ARGUMENT);
    HAS("-oProxyCommand=x");
    assert_int_equal(emit("parallel", directory, hosts, 1), B1_ARGUMENT);
    HAS("parallel knows its own");
    assert_int_equal(emit("parallel", folder, NULL, 0), B1_ARGUMENT);
    HAS("has no plan");
    assert_int_equal(emit("parallel", planned("other", "batchone.plan/1", "cpu", 1), NULL, 0), B1_ARGUMENT);
    HAS("batchone.plan/1");
    assert_int_equal(emit("parallel", planned("none", "batchone.study-plan/1", "cpu", 0), NULL, 0), B1_ARGUMENT);
    HAS("plans no cell");
    assert_int_equal(emit("parallel", planned("two\nlines", "batchone.study-plan/1", "cpu", 1), NULL, 0), B1_ARGUMENT);
    HAS("control character");
    char file[96];
    snprintf(file, sizeof file, "%s/none/plan.json", folder);
    write_file(
        file,
        "{\"schema\": \"batchone.study-plan/1\", \"run\": \"r\", \"device\": \"cpu\", \"cells\": [{\"id\": \"$(x)\"}]}",
        0666);
    snprintf(file, sizeof file, "%s/none", folder);
    assert_int_equal(emit("parallel", file, NULL, 0), B1_ARGUMENT);
    HAS("cell 0");
    for (int i = 0; b1i_fleet_kind(i); i++) assert_true(i < 3);
    assert_string_equal(b1i_fleet_kind(0), "slurm");
    assert_null(b1i_fleet_kind(-1));
}

static int start(void **state)
{
    (void)state;
    char path[96];
    strcpy(folder, "/tmp/b1-fleet-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/batch one's", folder);
    write_file(path, batchone, 0755);
    snprintf(path, sizeof path, "%s/ssh", folder);
    write_file(path, ssh, 0755);
    return 0;
}

static int end(void **state)
{
    (void)state;
    sh("rm -rf %s", folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_array_of_slurm),     cmocka_unit_test(a_long_array_of_slurm),
        cmocka_unit_test(the_sessions_of_an_ab), cmocka_unit_test(a_task_that_fails),
        cmocka_unit_test(gnu_parallel),          cmocka_unit_test(hosts_by_ssh),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, start, end);
}
