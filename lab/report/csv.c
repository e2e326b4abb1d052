/* SPDX-License-Identifier: MIT
 *
 * Tables as CSV beside the page: of one latency every row, twins and cells without a number too; and lists of a
 * document, whose first row names the columns.
 */
#include "lab/report/page.h"

#include <math.h>

static void number(b1i_text *csv, double value)
{
    if (isfinite(value))
        b1i_text_printf(csv, ",%.10g", value);
    else
        b1i_text_put(csv, ",");
}

static void row(b1i_text *csv, const b1i_report_cell *c)
{
    b1i_csv_field(csv, c->name);
    b1i_text_printf(csv, ",%d", c->n);
    number(csv, c->median / 1e3);
    number(csv, c->p10 / 1e3);
    number(csv, c->p90 / 1e3);
    number(csv, c->low / 1e3);
    number(csv, c->high / 1e3);
    number(csv, c->gbps);
    number(csv, c->depth > 0 ? c->depth : NAN);
    number(csv, c->sm_mhz);
    b1i_text_printf(csv, ",%d,%s,", c->throttled, c->host_bound ? "yes" : "no");
    b1i_csv_field(csv, c->verdict);
    b1i_text_put(csv, ",");
    b1i_csv_field(csv, c->message);
    b1i_text_put(csv, "\n");
}

b1_status b1i_page_csv(b1i_page *page, const b1i_report_run *run, b1i_lab_kind kind, const char *folder, b1_error *err)
{
    b1i_text csv = {0};
    const char *name = b1i_lab_kind_names[kind];
    if (!b1i_report_run_has(run, kind)) return B1_OK;
    b1i_text_put(&csv,
                 "cell,n,median_us,p10_us,p90_us,p90_low_us,p90_high_us,gbps,depth,sm_mhz,throttled,host_bound,verdict,"
                 "message\n");
    for (size_t i = 0; i < run->count; i++)
        if (run->cells[i].kind == kind) row(&csv, &run->cells[i]);
    b1_status st = b1i_page_file(folder, name, ".csv", &csv, err);
    b1i_text_free(&csv);
    if (st != B1_OK) return st;
    b1i_text_put(&page->html, "<p class=\"note\">The table as ");
    b1i_page_beside(page, run, name, ".csv", "CSV");
    b1i_text_put(&page->html, ", with the twins of A/A.</p>\n");
    return B1_OK;
}

/* ---- a list of a document ---- */

/* What is no plain value is empty. */
static void plain(b1i_text *csv, const json_t *value)
{
    if (json_is_string(value))
        b1i_csv_field(csv, json_string_value(value));
    else if (json_is_real(value))
        b1i_text_printf(csv, "%.10g", json_real_value(value));
    else if (json_is_integer(value))
        b1i_text_printf(csv, "%lld", (long long)json_integer_value(value));
    else if (json_is_boolean(value))
        b1i_text_put(csv, json_is_true(value) ? "yes" : "no");
}

b1_status b1i_page_list_csv(b1i_page *page, const b1i_report_run *run, const char *list, const char *folder,
                            b1_error *err)
{
    json_t *rows = json_object_get(run->analysis, list), *first = json_array_get(rows, 0), *item, *value;
    b1i_text csv = {0};
    const char *key;
    size_t i;
    if (!first) return B1_OK;
    json_object_foreach(first, key, value)
    {
        b1i_text_put(&csv, csv.count ? "," : "");
        b1i_csv_field(&csv, key);
    }
    b1i_text_put(&csv, "\n");
    json_array_foreach(rows, i, item)
    {
        bool any = false;
        json_object_foreach(first, key, value)
        {
            b1i_text_put(&csv, any ? "," : "");
            any = true;
            plain(&csv, json_object_get(item, key));
        }
        b1i_text_put(&csv, "\n");
    }
    b1_status st = b1i_page_file(folder, list, ".csv", &csv, err);
    b1i_text_free(&csv);
    if (st != B1_OK) return st;
    b1i_text_put(&page->html, " ");
    b1i_page_beside(page, run, list, ".csv", list);
    return B1_OK;
}
