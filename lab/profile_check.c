/* SPDX-License-Identifier: MIT
 *
 * Whether profile/activities.json says of its records what they are. See profile.h.
 */
#include "lab/profile.h"

#include <stdio.h>
#include <string.h>

static const char *const dids[][2] = {
    {"kernel", "kernels"}, {"memset", "memsets"}, {"copy", "copies"}, {"graph", "graphs"}};
enum { DIDS = sizeof dids / sizeof *dids };

static json_int_t count_of(const json_t *row, const char *what, int did)
{
    const json_t *count = json_object_get(json_object_get(row, what), dids[did][1]);
    return json_is_integer(count) ? json_integer_value(count) : -1;
}

static json_int_t records_of(const json_t *row, int did)
{
    json_int_t count = 0;
    const json_t *records = json_object_get(row, "records");
    for (size_t i = 0; i < json_array_size(records); i++) {
        const char *is = json_string_value(json_object_get(json_array_get(records, i), "did"));
        count += is && strcmp(is, dids[did][0]) == 0;
    }
    return count;
}

/* NULL where the row holds; else which of its keys does not. */
static const char *wrong_key(const json_t *row)
{
    const bool said = json_is_true(json_object_get(row, "reconciled"));
    bool same = json_integer_value(json_object_get(row, "dropped")) == 0;
    for (int i = 0; i < DIDS; i++) {
        if (count_of(row, "seen", i) != records_of(row, i)) return "seen";
        same = same && count_of(row, "seen", i) == count_of(row, "expected", i);
    }
    if (said != json_is_null(json_object_get(row, "message"))) return "message";
    return said && !same ? "reconciled" : NULL;
}

void b1i_profile_check(const json_t *activities, void (*say)(void *user, const char *line), void *user)
{
    const json_t *passes = json_object_get(activities, "passes");
    char line[400];
    for (size_t p = 0; p < json_array_size(passes); p++) {
        const json_t *cells = json_object_get(json_array_get(passes, p), "cells");
        for (size_t i = 0; i < json_array_size(cells); i++) {
            const json_t *row = json_array_get(cells, i);
            const char *cell = json_string_value(json_object_get(row, "cell")), *key = wrong_key(row);
            if (!key) continue;
            snprintf(line, sizeof line, "profile/activities.json: \"%s\" of %.200s does not follow from its records",
                     key, cell ? cell : "a cell");
            say(user, line);
        }
    }
}
