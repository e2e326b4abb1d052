/* SPDX-License-Identifier: MIT
 *
 * The manifest of a run against what lies in its directory, and how differences are said. See verify_room.h.
 */
#include "lab/evidence.h"
#include "lab/files.h"
#include "lab/verify_room.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* What is no printable text of the line becomes '?'. */
static void make_printable(char *line)
{
    for (utf8proc_uint8_t *at = (utf8proc_uint8_t *)line; *at;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t bytes = utf8proc_iterate(at, -1, &code);
        bool printable = bytes > 0 && code >= ' ' && (code < 0x7f || code > 0x9f);
        if (bytes < 1) bytes = 1;
        for (utf8proc_ssize_t i = 0; i < bytes && !printable; i++) at[i] = '?';
        at += bytes;
    }
}

void b1i_verify_differs(b1i_verification *v, const char *format, ...)
{
    char line[1200];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    make_printable(line);
    v->holds = false;
    if (json_object_get(v->said, line)) return;
    if (v->said) json_object_set_new(v->said, line, json_true()); /* without memory it is said again */
    if (v->say) v->say(v->user, line);
}

void b1i_verify_say(void *user, const char *line) { b1i_verify_differs(user, "%s", line); }

b1_status b1i_verify_difference(b1i_verification *v, b1_status st, const b1_error *why, b1_error *err)
{
    if (st == B1_MEMORY) return b1i_fail(err, st, "%s", why->message);
    if (st != B1_OK) b1i_verify_differs(v, "%s", why->message);
    return B1_OK;
}

/* ---- the manifest ---- */

static bool is_sha256(const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)text[i]) && !(text[i] >= 'a' && text[i] <= 'f')) return false;
    return n == 64;
}

static const char *path_of(const json_t *entry) { return json_string_value(json_object_get(entry, "path")); }

const json_t *b1i_verify_find(const b1i_verification *v, const char *path)
{
    const json_t *found = json_object_get(v->by_path, path);
    return json_is_object(found) ? found : NULL;
}

/* An entry that is as it must be, with the folders that its file is in. */
static b1_status keep(b1i_verification *v, const char *path, json_t *entry, b1_error *err)
{
    bool good = json_array_append(v->files, entry) == 0 && json_object_set(v->by_path, path, entry) == 0;
    for (const char *slash = strchr(path, '/'); good && slash; slash = strchr(slash + 1, '/')) {
        char *folder = b1i_strndup(path, (size_t)(slash - path) + 1);
        good = folder && json_object_set_new(v->by_path, folder, json_true()) == 0;
        b1i_free(folder);
    }
    return good ? B1_OK : b1i_fail(err, B1_MEMORY, "not enough memory for the manifest");
}

static b1_status take_entry(b1i_verification *v, json_t *entry, size_t number, b1_error *err)
{
    const char *path, *hash;
    json_int_t size;
    if (json_unpack(entry, "{s:s,s:I,s:s!}", "path", &path, "size", &size, "sha256", &hash) != 0)
        b1i_verify_differs(v, "manifest.json: entry %zu has not exactly path, size and sha256", number);
    else if (!b1i_lab_name_ok(path) || strcmp(path, "manifest.json") == 0)
        b1i_verify_differs(v, "manifest.json: \"%s\" is no path of a run's file", path);
    else if (size < 0 || !is_sha256(hash))
        b1i_verify_differs(v, "manifest.json: size or sha256 of %s is none", path);
    else if (b1i_verify_find(v, path))
        b1i_verify_differs(v, "manifest.json: %s stands there twice", path);
    else
        return keep(v, path, entry, err);
    return B1_OK;
}

static b1_status read_manifest(b1i_verification *v, b1_error *err)
{
    json_t *manifest, *files;
    const char *schema;
    b1_error why = {0};
    b1_status st = b1i_lab_read_json(v->directory, "manifest.json", &manifest, &why);
    if (st != B1_OK) return b1i_verify_difference(v, st, &why, err);
    if (json_unpack(manifest, "{s:s,s:o!}", "schema", &schema, "files", &files) != 0 || !json_is_array(files))
        b1i_verify_differs(v, "manifest.json: has not exactly schema and files");
    else if (strcmp(schema, "batchone.manifest/1") != 0)
        b1i_verify_differs(v, "manifest.json: the schema is \"%s\", not batchone.manifest/1", schema);
    else
        for (size_t i = 0; i < json_array_size(files) && st == B1_OK; i++)
            st = take_entry(v, json_array_get(files, i), i, err);
    json_decref(manifest);
    return st;
}

/* ---- the files ---- */

static b1_status check_file(b1i_verification *v, const json_t *entry, b1_error *err)
{
    const char *name = path_of(entry), *hash = json_string_value(json_object_get(entry, "sha256"));
    json_int_t size = json_integer_value(json_object_get(entry, "size"));
    char hex[65];
    uint64_t bytes;
    b1_error why = {0};
    char *path = b1i_lab_join(v->directory, name);
    if (!path) return b1i_fail_memory(err, strlen(name));
    b1_status st = b1i_sha256_file(path, hex, &bytes, &why);
    b1i_free(path);
    if (st != B1_OK) return b1i_verify_difference(v, st, &why, err);
    if (bytes != (uint64_t)size)
        b1i_verify_differs(v, "%s: has %llu bytes, the manifest says %lld", name, (unsigned long long)bytes,
                           (long long)size);
    else if (strcmp(hex, hash) != 0)
        b1i_verify_differs(v, "%s: its SHA-256 is %s, the manifest says %s", name, hex, hash);
    return B1_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* What lies there but is not of the run, and the files of it that are there. */
static b1_status check_files(b1i_verification *v, b1_error *err)
{
    b1i_names names;
    b1_error why = {0};
    b1_status st = b1i_lab_list(v->directory, &names, &why);
    if (st != B1_OK) return b1i_verify_difference(v, st, &why, err);
    for (size_t i = 0; i < names.count && st == B1_OK; i++) {
        const char *name = names.items[i];
        size_t length = strlen(name);
        const json_t *entry = b1i_verify_find(v, name);
        if (name[length - 1] == '@')
            b1i_verify_differs(v, "%.*s: is neither a file nor a folder", (int)(length - 1), name);
        else if (name[length - 1] == '/' && !json_object_get(v->by_path, name))
            b1i_verify_differs(v, "%s: is a folder that the manifest does not have", name);
        else if (name[length - 1] != '/' && !entry && strcmp(name, "manifest.json") != 0)
            b1i_verify_differs(v, "%s: is not in the manifest", name);
        else if (entry)
            st = check_file(v, entry, err);
    }
    for (size_t i = 0; i < json_array_size(v->files) && st == B1_OK; i++) {
        const char *name = path_of(json_array_get(v->files, i));
        if (!bsearch(&name, names.items, names.count, sizeof *names.items, by_name))
            b1i_verify_differs(v, "%s: is missing", name);
    }
    b1i_names_free(&names);
    return st;
}

b1_status b1i_verify_files(b1i_verification *v, b1_error *err)
{
    b1_status st;
    if (!(v->files = json_array()) || !(v->by_path = json_object()) || !(v->said = json_object()))
        return b1i_fail_memory(err, sizeof *v);
    B1I_TRY(read_manifest(v, err));
    B1I_TRY(check_files(v, err));
fail:
    return st;
}

void b1i_verify_end(b1i_verification *v)
{
    json_decref(v->files);
    json_decref(v->by_path);
    json_decref(v->said);
    v->files = v->by_path = v->said = NULL;
}
