/* SPDX-License-Identifier: MIT
 *
 * The directory that a run leaves, and how it grows: so that whoever finds it, at any moment, can tell a whole run from
 * a broken one.
 *
 *   plan.json            what is to be measured; written before the first round, never changed
 *   samples.jsonl        every sample, in the order measured; grows by whole rounds
 *   device-before.json, device-after.json
 *   commands.json        external commands: argv, exit code, files of their stdout and stderr
 *   environment.json     run id, versions, machine, binary's hash, elapsed time and what it leaves out
 *   traces/, graphs/, plots/, profile/
 *   analysis.json        what follows from the samples and traces; recomputed by verify
 *   manifest.json        {"schema", "files": [{"path", "size", "sha256"}]}, the last file: with it the run is sealed
 *   failed.json          instead of the analysis and the manifest, where the run failed
 *
 * Files are written under a temporary name ("….part") and renamed; samples.jsonl alone is appended to, one write a
 * round. Nothing is written into a sealed directory.
 */
#ifndef LAB_EVIDENCE_H
#define LAB_EVIDENCE_H

#include "base/base.h"

#include <jansson.h>

typedef struct b1i_evidence b1i_evidence;

typedef enum b1i_evidence_state {
    b1i_evidence_none,       /* no such directory */
    b1i_evidence_incomplete, /* neither sealed nor failed */
    b1i_evidence_failed,
    b1i_evidence_sealed,
    b1i_evidence_foreign /* a directory that no run left */
} b1i_evidence_state;
b1i_evidence_state b1i_evidence_look(const char *directory);

/* Makes the directory, which must not exist. */
b1_status b1i_evidence_create(const char *directory, b1i_evidence **out, b1_error *err);
/* Opens an incomplete one: leftover temporary files go. B1_ARGUMENT: it is none, or another process holds its lock. */
b1_status b1i_evidence_resume(const char *directory, b1i_evidence **out, b1_error *err);
void b1i_evidence_close(b1i_evidence *evidence); /* NULL is fine; seals nothing */
const char *b1i_evidence_directory(const b1i_evidence *evidence);

/* The JSON value (taken over) as DIRECTORY/name, which may have one folder in it ("traces/x.json"). */
b1_status b1i_evidence_json(b1i_evidence *evidence, const char *name, json_t *value, b1_error *err);
b1_status b1i_evidence_text(b1i_evidence *evidence, const char *name, const char *text, size_t bytes, b1_error *err);
/* Makes the folder of `name` and gives its path, for who writes a file alone (a driver's DOT). The caller frees it. */
b1_status b1i_evidence_path(b1i_evidence *evidence, const char *name, char **path, b1_error *err);
/* Appends to samples.jsonl by one write. */
b1_status b1i_evidence_append(b1i_evidence *evidence, const char *lines, size_t bytes, b1_error *err);
/* Cuts samples.jsonl to its first `bytes`. */
b1_status b1i_evidence_cut(b1i_evidence *evidence, uint64_t bytes, b1_error *err);

/* Runs a program without a shell, its output into profile/NAME.stdout and .stderr (or left out where `private`: then
 * their hashes are kept), and keeps a record for commands.json, in which paths are file names alone or begin with
 * "DIR", the run's directory. A program that is missing or fails is recorded and no failure: *exit_code is then 127 or
 * its own. */
b1_status b1i_evidence_command(b1i_evidence *evidence, const char *name, const char *const *argv, bool private_output,
                               int *exit_code, b1_error *err);

/* A record for commands.json (taken over) of a command that was started otherwise: {"name", "argv", "started",
 * "exit_code", "seconds", "stdout", "stderr", …}. commands.json is written with it at once, and a run that is resumed
 * goes on with its records. */
b1_status b1i_evidence_record(b1i_evidence *evidence, json_t *record, b1_error *err);
/* Words as commands.json keeps them: see above. A new reference; NULL: no memory. */
json_t *b1i_evidence_words(const b1i_evidence *evidence, const char *const *argv);

/* SHA-256 of a file as 64 hex digits, and its size. */
b1_status b1i_sha256_file(const char *path, char hex[65], uint64_t *bytes, b1_error *err);

/* Writes commands.json, then manifest.json of all that is there. */
b1_status b1i_evidence_seal(b1i_evidence *evidence, b1_error *err);
/* Writes failed.json with the reason. */
void b1i_evidence_fail(b1i_evidence *evidence, b1_status status, const char *reason);

/* Checks a directory: every file of the manifest, none beside, and the analysis against one that is made anew. `say`
 * gets a line for each difference, once. *holds only where there is none. B1_ARGUMENT: there is no such directory. */
b1_status b1i_evidence_verify(const char *directory, void (*say)(void *user, const char *line), void *user, bool *holds,
                              b1_error *err);

#endif
