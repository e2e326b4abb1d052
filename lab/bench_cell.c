/* SPDX-License-Identifier: MIT
 *
 * A cell as JSON. See bench_cell.h.
 */
#include "lab/bench_cell.h"

#include "lab/files.h"

static json_t *slice_list(const b1i_bench_result *r)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < r->slice_count; i++) {
        const b1i_slice *s = &r->slices[i];
        json_t *steps = json_array();
        for (size_t k = 0; k < s->steps; k++)
            json_array_append_new(steps, json_integer((json_int_t)r->step_ns[s->first + k]));
        json_array_append_new(list, json_pack("{s:f,s:o}", "ceiling_gbps", s->ceiling_gbps, "step_ns", steps));
    }
    return list;
}

static json_t *bytes_or_null(bool ok, uint64_t bytes) { return ok ? json_integer((json_int_t)bytes) : json_null(); }
static json_t *number_or_null(bool ok, double x) { return ok ? b1i_lab_number(x) : json_null(); }

/* The figures are all there, null where the cell has none. A CPU's peak is unknown, and so are t_floor and r_floor. */
json_t *b1i_cell_json(const b1i_cell *c)
{
    const b1i_bench_result *r = &c->result;
    bool ok = !c->message, peak = ok && c->peak_gbps > 0;
    double floor_ms = peak ? (double)(c->weight_bytes + c->kv_bytes) / c->peak_gbps / 1e6 : 0;
    json_t *j = json_pack("{s:s,s:s,s:s,s:s,s:i,s:i,s:i}", "model", c->model, "device", c->device, "executor",
                          c->executor, "weights", c->weights, "context", c->context, "threads", c->threads, "batch",
                          c->batch > 0 ? c->batch : 1);
    json_t *figures = json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "t_obs_ms",
        number_or_null(ok, r->t_obs_ms), "p10_ms", number_or_null(ok, r->p10_ms), "p90_ms",
        number_or_null(ok, r->p90_ms), "p99_ms", number_or_null(ok, r->p99_ms), "slices",
        ok ? slice_list(r) : json_array(), "weight_bytes", bytes_or_null(ok, c->weight_bytes), "stored_bytes",
        bytes_or_null(ok, c->stored_bytes), "kv_bytes", bytes_or_null(ok, c->kv_bytes), "device_bytes",
        bytes_or_null(ok && c->device_bytes > 0, c->device_bytes), "peak_gbps", number_or_null(peak, c->peak_gbps),
        "ceiling_gbps", number_or_null(ok, r->ceiling_gbps), "t_floor_ms", number_or_null(peak, floor_ms), "r_floor",
        number_or_null(peak, floor_ms / r->t_obs_ms), "r_ceiling", number_or_null(ok, r->r_ceiling),
        "prefill_tokens_per_s", number_or_null(ok && c->prefill > 0, c->prefill), "warmup",
        ok ? json_integer(r->warmup) : json_null());
    if (!j || !figures) {
        json_decref(j);
        json_decref(figures);
        return NULL;
    }
    json_object_update(j, figures);
    json_decref(figures);
    json_object_set_new(j, "status", json_string(c->status));
    json_object_set_new(j, "verdict", ok ? json_string(b1i_verdict_names[r->verdict]) : json_null());
    json_object_set_new(j, "message", c->message ? json_string(c->message) : json_null());
    json_object_set_new(j, "jitter", ok && c->jitter ? json_incref(c->jitter) : json_null());
    json_object_set_new(j, "energy", ok && c->energy ? json_incref(c->energy) : json_null());
    return j;
}
