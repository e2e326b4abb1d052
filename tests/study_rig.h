/* SPDX-License-Identifier: MIT
 *
 * What tests of studies and of A/Bs share: a tiny model in the scratch folder, this program as the command that they
 * start, and manifests mended after a forgery.
 */
#ifndef TESTS_STUDY_RIG_H
#define TESTS_STUDY_RIG_H

#include "lab/evidence.h"
#include "lab/files.h"
#include "tests/cli_model.h"
#include "tests/lab_fake.h"

#define OK(call)                                          \
    do {                                                  \
        if ((call) != B1_OK) fail_msg("%s", err.message); \
    } while (0)
#define HAS(part)  assert_non_null(strstr(err.message, part))
#define SAID(part) assert_non_null(strstr(said, part))

static char model[64], self[4096]; /* the tiny model; this program */

/* Under an emulator nobody starts this program's file but the emulator. */
static inline bool emulated(void) { return getenv("B1_EMULATED") != NULL; }

static inline void find_self(void)
{
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 1) abort();
}

static inline int setup(void **state)
{
    if (make_home(state) != 0) return 1;
    snprintf(model, sizeof model, "%s/model", home);
    if (mkdir(model, 0700) != 0) return 1;
    tiny_model(model);
    return 0;
}

/* Writes the manifest's entry of `name` anew. */
static inline void mend(const char *folder, const char *name)
{
    json_t *manifest, *entry;
    size_t i;
    char hex[65], *path = b1i_lab_join(folder, name);
    uint64_t bytes;
    OK(b1i_lab_read_json(folder, "manifest.json", &manifest, &err));
    OK(b1i_sha256_file(path, hex, &bytes, &err));
    json_array_foreach(json_object_get(manifest, "files"), i, entry)
    {
        if (strcmp(json_string_value(json_object_get(entry, "path")), name) != 0) continue;
        json_object_set_new(entry, "size", json_integer((json_int_t)bytes));
        json_object_set_new(entry, "sha256", json_string(hex));
    }
    b1i_free(path);
    path = b1i_lab_join(folder, "manifest.json");
    assert_int_equal(json_dump_file(manifest, path, 0), 0);
    b1i_free(path);
    json_decref(manifest);
}

#endif
