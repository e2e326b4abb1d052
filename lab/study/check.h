/* SPDX-License-Identifier: MIT
 *
 * What is checked of a study's cells and of an A/B's sessions alike: their folders, and that a cell is of its setting
 * and of its plan and says what its steps say.
 */
#ifndef LAB_STUDY_CHECK_H
#define LAB_STUDY_CHECK_H

#include "lab/setting.h"

typedef struct b1i_check {
    const char *directory;
    const char *binary, *device_name; /* of the plan; device_name NULL: not known where it was planned */
    void (*say)(void *user, const char *line);
    void *user;
    const char *id, *file; /* what is looked at: cells/ID/FILE */
    bool holds;            /* nothing differs so far */
} b1i_check;

/* Says what differs in the file that is looked at. */
__attribute__((format(printf, 2, 3))) void b1i_check_differs(b1i_check *check, const char *format, ...);
/* Looks at the folder of `id`, by its own manifest. false in *there: it is not there, which differs. */
b1_status b1i_check_folder(b1i_check *check, const char *id, bool *there, b1_error *err);
/* Looks at a file of the folder, *out a new reference; NULL: there is none or it is no JSON object, which differs where
 * it is needed. */
b1_status b1i_check_read(b1i_check *check, const char *file, bool needed, json_t **out, b1_error *err);
/* Looks at the file as the cell of this setting. */
b1_status b1i_check_cell(b1i_check *check, const char *file, const b1i_setting *setting, b1_error *err);
/* Looks for folders whose id is not `planned`; ID.PID.part is what a process left that was killed. */
b1_status b1i_check_others(b1i_check *check, bool (*planned)(const void *plan, const char *id), const void *plan,
                           b1_error *err);

#endif
