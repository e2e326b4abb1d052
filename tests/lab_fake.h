/* SPDX-License-Identifier: MIT
 *
 * For tests of the lab's protocol and evidence: folders of their own, an experiment that needs no device and does as it
 * is told, and verification with its lines kept.
 */
#ifndef TESTS_LAB_FAKE_H
#define TESTS_LAB_FAKE_H

#include "base/threads.h"
#include "lab/evidence.h"
#include "lab/files.h"
#include "lab/lab.h"
#include "lab/trace.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static b1_error err;

/* ---- folders ---- */
static char home[] = "/tmp/b1-lab-XXXXXX";

static inline int make_home(void **state)
{
    (void)state;
    return mkdtemp(home) ? 0 : 1;
}

static int remove_one(const char *path, const struct stat *is, int type, struct FTW *walk)
{
    (void)is;
    (void)type;
    (void)walk;
    return remove(path);
}

static inline void remove_all(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static inline int remove_home(void **state)
{
    (void)state;
    remove_all(home);
    return 0;
}

/* home/name, in one of a few buffers that are used in turn. */
static inline const char *at(const char *name)
{
    static char paths[8][256];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", home, name);
    return path;
}

/* A file of a folder as text; NULL: there is none. Freed with b1i_free(). */
static inline char *text_of(const char *folder, const char *name)
{
    char *text;
    size_t bytes;
    return b1i_lab_read(folder, name, &text, &bytes, NULL) == B1_OK ? text : NULL;
}

static inline void put_bytes(const char *folder, const char *name, const char *text, size_t bytes)
{
    char *path = b1i_lab_join(folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text, 1, bytes, f) != bytes || fclose(f) != 0) abort();
    b1i_free(path);
}

static inline void put_text(const char *folder, const char *name, const char *text)
{
    put_bytes(folder, name, text, strlen(text));
}

static inline bool is_there(const char *folder, const char *name)
{
    char *path = b1i_lab_join(folder, name);
    bool there = access(path, F_OK) == 0;
    b1i_free(path);
    return there;
}

static inline void copy_run(const char *from, const char *to)
{
    b1i_names names;
    assert_int_equal(b1i_lab_list(from, &names, &err), B1_OK);
    remove_all(to);
    if (mkdir(to, 0700) != 0) abort();
    for (size_t i = 0; i < names.count; i++) {
        char *text, *path = b1i_lab_join(to, names.items[i]);
        size_t bytes;
        if (strchr(names.items[i], '/') && names.items[i][strlen(names.items[i]) - 1] == '/') {
            if (mkdir(path, 0700) != 0) abort();
        } else {
            assert_int_equal(b1i_lab_read(from, names.items[i], &text, &bytes, &err), B1_OK);
            put_bytes(to, names.items[i], text, bytes);
            b1i_free(text);
        }
        b1i_free(path);
    }
    b1i_names_free(&names);
}

/* ---- verification ---- */
static char said[20000];

static inline void keep_line(void *user, const char *line)
{
    (void)user;
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s\n", line);
}

static inline bool holds(const char *folder)
{
    bool all = false;
    said[0] = 0;
    assert_int_equal(b1i_evidence_verify(folder, keep_line, NULL, &all, &err), B1_OK);
    assert_int_equal(all, said[0] == 0);
    return all;
}

/* ---- an experiment that needs no device ---- */
enum { FAKE_CELLS = 5 };
static struct fake {
    int cells; /* of FAKE_CELLS */
    bool twin; /* of the first */
    b1_status prepare[FAKE_CELLS];
    b1_status measure, check, after, open; /* what these return */
    int measure_fails_at;                  /* the call of a measure that fails; 0: none */
    int measured;                          /* calls so far */
    double ns;                             /* of a single, of cell 0; others are a little longer */
    bool trace;                            /* after writes a trace of cell 0 */
    int depth[FAKE_CELLS];                 /* of the last batch */
    int prepared, closed;
    int index[FAKE_CELLS];
} fake;

static inline b1_status fake_result(b1_status st, const char *what, b1_error *e)
{
    return st == B1_OK ? B1_OK : b1i_fail(e, st, "%s as it was told to", what);
}

static b1_status fake_prepare(void *user, b1_error *e)
{
    fake.prepared++;
    return fake_result(fake.prepare[*(int *)user], "prepare fails", e);
}

static b1_status fake_time(void *user, double scale, double *ns, b1_error *e)
{
    int cell = *(int *)user;
    if (++fake.measured == fake.measure_fails_at) return b1i_fail(e, B1_DEVICE, "measure fails as it was told to");
    *ns = fake.ns * scale * (1 + 0.1 * cell) * (1 + (double)(b1i_mix64((uint64_t)fake.measured) % 1000) * 1e-5);
    return fake_result(fake.measure, "measure fails", e);
}
static b1_status fake_single(void *user, int depth, double *ns, b1_error *e)
{
    assert_int_equal(depth, 1);
    return fake_time(user, 1, ns, e);
}
static b1_status fake_enqueue(void *user, int depth, double *ns, b1_error *e)
{
    fake.depth[*(int *)user] = depth;
    return fake_time(user, 0.1, ns, e);
}
static b1_status fake_interval(void *user, int depth, double *ns, b1_error *e)
{
    (void)depth;
    return fake_time(user, 0.8, ns, e);
}
static b1_status fake_check(void *user, b1_error *e)
{
    (void)user;
    return fake_result(fake.check, "check fails", e);
}
static const b1i_lab_driver fake_driver = {fake_prepare, {fake_single, fake_enqueue, fake_interval}, fake_check};

static b1_status fake_open(b1i_lab *lab, void **state, b1_error *e)
{
    b1_status st;
    *state = NULL;
    B1I_TRY(fake_result(fake.open, "open fails", e));
    for (int i = 0; i < fake.cells; i++) {
        char name[32];
        snprintf(name, sizeof name, "size=%d/plain", i);
        fake.index[i] = i;
        b1i_lab_cell_spec spec = {name, &fake_driver, &fake.index[i], 0,
                                  json_pack("{s:i,s:i}", "n", i, "bytes", 4096 * (i + 1))};
        if (fake.trace && i == 0) json_object_set_new(spec.facts, "traced", json_true());
        B1I_TRY(b1i_lab_add(lab, &spec, e));
    }
    if (fake.twin) B1I_TRY(b1i_lab_add_twin(lab, "size=0/plain", e));
    *state = &fake;
fail:
    return st;
}

static b1_status fake_after(b1i_lab *lab, void *state, b1_error *e)
{
    static const b1i_trace_span spans[] = {
        {0, 3, 'A', 100, 200}, {1, 4, 'A', 110, 320}, {0, 3, 'B', 210, 300}, {1, 4, 'B', 330, 400}};
    b1_status st = B1_OK;
    assert_ptr_equal(state, &fake);
    if (fake.trace && b1i_lab_cell_ok(lab, "size=0/plain"))
        B1I_TRY(b1i_trace_write(b1i_lab_get_evidence(lab), "size-0-plain", spans, 4, e));
    B1I_TRY(fake_result(fake.after, "after fails", e));
fail:
    return st;
}

static void fake_close(b1i_lab *lab, void *state)
{
    (void)lab;
    (void)state;
    fake.closed++;
}

static const b1i_experiment fake_experiment = {"fake", "Does as it is told.", fake_open, fake_after, fake_close};

/* Two cells of 5 µs that work. */
static inline void fake_reset(void) { fake = (struct fake){.cells = 2, .ns = 5000}; }

static inline b1i_lab_options fake_options(const char *out)
{
    return (b1i_lab_options){.out = out, .device = b1i_device_cpu(), .threads = 1, .quick = true, .seed = 42};
}

static inline b1_status fake_run(const b1i_lab_options *options)
{
    int failed;
    err = (b1_error){0};
    b1_status st = b1i_lab_run(&fake_experiment, options, &failed, &err);
    b1i_pool_end(); /* so that a test may fork */
    return st;
}

#endif
