/* SPDX-License-Identifier: MIT
 *
 * The plan of an A/B as it stands in its directory. See ab.h.
 */
#include "lab/files.h"
#include "lab/study/ab_room.h"

#include <sha2.h>
#include <stdio.h>
#include <string.h>

static const char *const ARMS[] = {"a", "b"};

b1_status b1i_ab_arm(const b1i_ab_planned *plan, int arm, int session, b1i_setting *out, b1_error *err)
{
    b1_status st = b1i_setting_copy(&plan->arms[arm], out, err);
    out->session = session;
    return st;
}

b1_status b1i_ab_id(const b1i_ab_planned *plan, int session, bool b_first, char id[B1I_SETTING_ID], b1_error *err)
{
    char arms[2][B1I_SETTING_ID], text[2 * B1I_SETTING_ID + 8];
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX hash;
    for (int i = 0; i < 2; i++) {
        b1i_setting setting = plan->arms[i];
        setting.session = session; /* its texts are only read */
        b1_status st = b1i_setting_id(&setting, plan->binary, arms[i], err);
        if (st != B1_OK) return st;
    }
    snprintf(text, sizeof text, "%s %s %s", arms[0], arms[1], b_first ? "b a" : "a b");
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)text, strlen(text));
    SHA256Final(digest, &hash);
    for (int i = 0; i < (B1I_SETTING_ID - 1) / 2; i++) snprintf(id + 2 * (size_t)i, 3, "%02x", digest[i]);
    return B1_OK;
}

void b1i_ab_free(b1i_ab_planned *plan)
{
    for (int i = 0; i < 2; i++) b1i_setting_free(&plan->arms[i]);
    b1i_free(plan->sessions);
    json_decref(plan->json);
    *plan = (b1i_ab_planned){0};
}

const char *b1i_ab_device_name(const b1i_ab_planned *plan)
{
    return strcmp(plan->device_name, "unknown") != 0 ? plan->device_name : NULL;
}

/* ---- reading ---- */

static b1_status no_plan(const char *why, b1_error *err) { return b1i_fail(err, B1_IO, "plan.json: %s", why); }

static b1_status read_session(b1i_ab_planned *plan, size_t at, const json_t *cell, b1_error *err)
{
    b1i_ab_session *s = &plan->sessions[at];
    const char *order[2];
    char id[B1I_SETTING_ID];
    b1_status st;
    if (json_unpack((json_t *)(uintptr_t)cell, "{s:s,s:i,s:[s,s]!}", "id", &s->id, "session", &s->number, "order",
                    &order[0], &order[1]) != 0 ||
        s->number != (int)at + 1)
        return no_plan("a session has not exactly id, session and order, or is not the next one", err);
    s->b_first = strcmp(order[0], ARMS[1]) == 0;
    if (strcmp(order[0], ARMS[s->b_first]) != 0 || strcmp(order[1], ARMS[!s->b_first]) != 0)
        return no_plan("the order of a session is neither a, b nor b, a", err);
    if ((st = b1i_ab_id(plan, s->number, s->b_first, id, err)) != B1_OK) return st;
    return strcmp(id, s->id) == 0 ? B1_OK : no_plan("the id of a session does not follow from its settings", err);
}

static b1_status read_plan(b1i_ab_planned *plan, b1_error *err)
{
    json_t *arms[2], *cells;
    const char *schema;
    json_int_t seed;
    int launch_only, sessions;
    b1_status st;
    if (strcmp(b1i_lab_text_at(plan->json, "schema"), "batchone.ab-plan/1") != 0)
        return no_plan("its schema is not batchone.ab-plan/1", err);
    if (json_unpack(plan->json, "{s:s,s:s,s:s,s:s,s:s,s:{s:i,s:i,s:I!},s:o,s:o,s:b,s:o}", "schema", &schema, "run",
                    &plan->run, "device", &plan->device, "device_name", &plan->device_name, "binary_sha256",
                    &plan->binary, "options", "sessions", &sessions, "resamples", &plan->resamples, "seed", &seed, "a",
                    &arms[0], "b", &arms[1], "launch_only", &launch_only, "cells", &cells) != 0)
        return no_plan("a key is missing, or of another type", err);
    plan->launch_only = launch_only;
    plan->seed = (uint64_t)seed;
    for (int i = 0; i < 2; i++) {
        b1_error why = {0};
        st = b1i_setting_read(arms[i], &plan->arms[i], &why);
        if (st != B1_OK) return b1i_fail(err, st, "plan.json: \"%s\": %s", ARMS[i], why.message);
    }
    if (plan->resamples < 1 || sessions < 1 || (size_t)sessions != json_array_size(cells) ||
        strcmp(plan->device, plan->arms[0].device) != 0 || strcmp(plan->device, plan->arms[1].device) != 0)
        return no_plan("its sessions are not as many as it says, or a device is another", err);
    plan->count = (size_t)sessions;
    if (!(plan->sessions = b1i_calloc(plan->count, sizeof *plan->sessions)))
        return b1i_fail_memory(err, plan->count * sizeof *plan->sessions);
    for (size_t i = 0; i < plan->count; i++) B1I_TRY(read_session(plan, i, json_array_get(cells, i), err));
fail:
    return st;
}

b1_status b1i_ab_read(const char *directory, b1i_ab_planned *out, b1_error *err)
{
    b1_error why = {0};
    *out = (b1i_ab_planned){0};
    b1_status st = b1i_lab_read_json(directory, "plan.json", &out->json, &why);
    if (st == B1_OK) st = read_plan(out, &why);
    if (st == B1_OK) return st;
    b1i_ab_free(out);
    if (st == B1_IO) return b1i_fail(err, B1_ARGUMENT, "%s has no plan of an A/B: %s", directory, why.message);
    return b1i_fail(err, st, "%s", why.message);
}
