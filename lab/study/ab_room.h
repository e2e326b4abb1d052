/* SPDX-License-Identifier: MIT
 *
 * What the parts of an A/B share. See ab.h.
 */
#ifndef LAB_STUDY_AB_ROOM_H
#define LAB_STUDY_AB_ROOM_H

#include "lab/ab.h"

typedef struct b1i_ab_session {
    const char *id;
    int number;
    bool b_first;
} b1i_ab_session;

/* plan.json; texts are its own. */
typedef struct b1i_ab_planned {
    json_t *json;
    const char *run, *device, *device_name, *binary;
    b1i_setting arms[2]; /* a, b; of session 0 */
    bool launch_only;
    int resamples;
    uint64_t seed;
    b1i_ab_session *sessions; /* [count] */
    size_t count;
} b1i_ab_planned;

/* B1_ARGUMENT: there is none, it is no such plan, or one whose ids do not follow from it. */
b1_status b1i_ab_read(const char *directory, b1i_ab_planned *out, b1_error *err);
void b1i_ab_free(b1i_ab_planned *plan);
/* device_name; NULL: it was not known where the plan was made. */
const char *b1i_ab_device_name(const b1i_ab_planned *plan);
/* The setting of arm 0 or 1 of a session. */
b1_status b1i_ab_arm(const b1i_ab_planned *plan, int arm, int session, b1i_setting *out, b1_error *err);
/* The session's id: of both arms' ids and the order. */
b1_status b1i_ab_id(const b1i_ab_planned *plan, int session, bool b_first, char id[B1I_SETTING_ID], b1_error *err);

/* Says of each planned session what does not hold, and of folders that no session has; *holds where there is none. */
b1_status b1i_ab_check(const char *directory, const b1i_ab_planned *plan, void (*say)(void *user, const char *line),
                       void *user, bool *holds, b1_error *err);

/* Measures the session in this process and writes its folder. */
b1_status b1i_ab_measure(const b1i_ab_planned *plan, const b1i_ab_session *planned, const b1i_study_options *options,
                         b1_error *err);
/* session.json; `kernels` is taken over. NULL: no memory. */
json_t *b1i_ab_document(const b1i_ab_session *planned, const char *status, const char *message, double elapsed_s,
                        bool shared, json_t *kernels);
/* {"a", "b", "same"} of two profiles, as session.json has it; NULL: no memory. */
json_t *b1i_ab_kernels(const json_t *a, const json_t *b);

#endif
