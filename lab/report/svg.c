/* SPDX-License-Identifier: MIT
 *
 * gnuplot's SVG as a part of the page: the elements that draw are taken over with the attributes that a list names,
 * everything else is left out; so nothing but shapes and words can come through, whatever a label held.
 *
 * Boxes of one colour in a row become one path, for a trace has thousands of them.
 */
#include "lab/report/gnuplot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const b1i_series_colors[B1I_SERIES_COLORS] = {
    "#0b62c4", "#b54708", "#1a7f37", "#7c3fd0", "#b3246f", "#7a6200", "#0b6f78", "#57606a",
};
const char *const b1i_ink_color = "#1c2024", *const b1i_muted_color = "#5d646d", *const b1i_grid_color = "#d8dce1";

enum { DEPTH_MOST = 64, ATTRIBUTES_MOST = 24, VALUE_MOST = 96 };

typedef struct attribute {
    const char *name, *value;
    size_t name_length, value_length;
} attribute;

typedef struct tag {
    const char *name;
    size_t length;
    bool closes, empty; /* </x>; <x/> */
    attribute attributes[ATTRIBUTES_MOST];
    int count;
    const char *end; /* past its '>' */
} tag;

typedef struct writer {
    b1i_text *out;
    bool written[DEPTH_MOST]; /* by depth of groups: whether the group's own tag was written */
    size_t begin[DEPTH_MOST]; /* and where; a group without content is cut off again */
    size_t content[DEPTH_MOST];
    int depth;
    char boxes[VALUE_MOST]; /* fill of the path of boxes that is open; "": none */
} writer;

/* ---- reading ---- */

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ':' ||
           c == '_';
}

/* The tag at `at`, which is '<'; false where it does not end. */
static bool read_tag(const char *at, tag *t)
{
    *t = (tag){0};
    at++;
    if ((t->closes = *at == '/')) at++;
    t->name = at;
    while (is_name(*at)) at++;
    t->length = (size_t)(at - t->name);
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (*at == '/' && at[1] == '>') t->empty = true, at++;
        if (*at == '>') break;
        attribute a = {.name = at};
        while (is_name(*at)) at++;
        a.name_length = (size_t)(at - a.name);
        at += strspn(at, " \t\r\n");
        if (!a.name_length || *at != '=') return false;
        at++;
        at += strspn(at, " \t\r\n");
        char quote = *at;
        if (quote != '"' && quote != '\'') return false;
        a.value = ++at;
        while (*at && *at != quote) at++;
        if (!*at) return false;
        a.value_length = (size_t)(at++ - a.value);
        if (t->count < ATTRIBUTES_MOST) t->attributes[t->count++] = a;
    }
    t->end = at + 1;
    return true;
}

static bool is(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool value_of(const tag *t, const char *name, char *value)
{
    for (int i = 0; i < t->count; i++) {
        const attribute *a = &t->attributes[i];
        if (!is(a->name, a->name_length, name) || a->value_length >= VALUE_MOST) continue;
        memcpy(value, a->value, a->value_length);
        value[a->value_length] = 0;
        return true;
    }
    return false;
}

/* ---- colours ---- */

static bool same_color(int r, int g, int b, const char *hex)
{
    return r >= 0 && r < 256 && g >= 0 && g < 256 && b >= 0 && b < 256 &&
           (unsigned long)(r << 16 | g << 8 | b) == strtoul(hex + 1, NULL, 16);
}

/* What the page calls it; what nobody knows is ink. */
static void map_color(const char *value, char *out)
{
    int r, g, b;
    snprintf(out, VALUE_MOST, "currentColor");
    if (strcmp(value, "none") == 0) snprintf(out, VALUE_MOST, "none");
    if (strcmp(value, "white") == 0) snprintf(out, VALUE_MOST, "var(--paper)");
    if (sscanf(value, "rgb(%d,%d,%d)", &r, &g, &b) != 3) return;
    if (same_color(r, g, b, b1i_muted_color)) snprintf(out, VALUE_MOST, "var(--muted)");
    if (same_color(r, g, b, b1i_grid_color)) snprintf(out, VALUE_MOST, "var(--grid)");
    for (int i = 0; i < B1I_SERIES_COLORS; i++)
        if (same_color(r, g, b, b1i_series_colors[i])) snprintf(out, VALUE_MOST, "var(--s%d)", i);
}

/* ---- writing ---- */

static void end_boxes(writer *w)
{
    if (w->boxes[0]) b1i_text_put(w->out, "\"/>");
    w->boxes[0] = 0;
}

/* Numbers, commas, spaces, letters of paths and transforms: nothing that could end an attribute. */
static void put_plain(b1i_text *out, const attribute *a)
{
    bool space = false;
    for (size_t i = 0; i < a->value_length; i++) {
        char c = a->value[i];
        bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
        if (blank) {
            space = true;
            continue;
        }
        if (c == '<' || c == '>' || c == '"' || c == '&') continue;
        if (space) b1i_text_put(out, " ");
        space = false;
        b1i_text_bytes(out, &c, 1);
    }
}

static bool put_attribute(writer *w, const attribute *a)
{
    static const char *const plain[] = {"d",
                                        "transform",
                                        "points",
                                        "x",
                                        "y",
                                        "width",
                                        "height",
                                        "text-anchor",
                                        "font-size",
                                        "dy",
                                        "stroke-dasharray",
                                        "stroke-width",
                                        "fill-opacity",
                                        "stroke-opacity",
                                        "opacity",
                                        "font-weight",
                                        NULL};
    char value[VALUE_MOST], color[VALUE_MOST];
    size_t n = a->value_length < VALUE_MOST ? a->value_length : VALUE_MOST - 1;
    memcpy(value, a->value, n);
    value[n] = 0;
    bool paint = is(a->name, a->name_length, "fill") || is(a->name, a->name_length, "stroke");
    if (paint || is(a->name, a->name_length, "color")) {
        map_color(value, color);
        b1i_text_printf(w->out, " %.*s=\"%s\"", (int)a->name_length, a->name, color);
        return true;
    }
    if (is(a->name, a->name_length, "xlink:href") && strncmp(value, "#gpPt", 5) == 0) {
        b1i_text_printf(w->out, " href=\"#mark%d\"", atoi(value + 5));
        return true;
    }
    for (int i = 0; plain[i]; i++)
        if (is(a->name, a->name_length, plain[i])) {
            b1i_text_printf(w->out, " %s=\"", plain[i]);
            put_plain(w->out, a);
            b1i_text_put(w->out, "\"");
            return true;
        }
    return false;
}

/* What every group of gnuplot says, and the picture's own element says once. */
static bool is_default(const attribute *a)
{
    static const char *const defaults[][2] = {{"fill", "none"},
                                              {"color", "black"},
                                              {"stroke", "currentColor"},
                                              {"stroke", "black"},
                                              {"stroke-width", "1.00"}};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (is(a->name, a->name_length, defaults[i][0]) && is(a->value, a->value_length, defaults[i][1])) return true;
    return false;
}

static void open_group(writer *w, const tag *t)
{
    end_boxes(w);
    if (t->empty || w->depth == DEPTH_MOST) return;
    w->begin[w->depth] = w->out->count;
    b1i_text_put(w->out, "<g");
    bool any = false;
    for (int i = 0; i < t->count; i++)
        if (!is_default(&t->attributes[i])) any |= put_attribute(w, &t->attributes[i]);
    if (any)
        b1i_text_put(w->out, ">");
    else if (!w->out->broken)
        w->out->count = w->begin[w->depth];
    w->written[w->depth] = any;
    w->content[w->depth++] = w->out->count;
}

static void close_group(writer *w)
{
    end_boxes(w);
    if (w->depth == 0) return;
    w->depth--;
    if (w->out->count == w->content[w->depth])
        w->out->count = w->begin[w->depth];
    else if (w->written[w->depth])
        b1i_text_put(w->out, "</g>");
}

/* A polygon that is an upright box, into the path of its colour; false: it is none. */
static bool put_box(writer *w, const tag *t)
{
    char fill[VALUE_MOST], color[VALUE_MOST], points[VALUE_MOST];
    double x[5], y[5];
    if (!value_of(t, "fill", fill) || !value_of(t, "points", points)) return false;
    if (sscanf(points, "%lf,%lf %lf,%lf %lf,%lf %lf,%lf", &x[0], &y[0], &x[1], &y[1], &x[2], &y[2], &x[3], &y[3]) != 8)
        return false;
    if (y[0] != y[1] || x[1] != x[2] || y[2] != y[3] || x[3] != x[0]) return false;
    map_color(fill, color);
    if (strcmp(color, w->boxes) != 0) {
        end_boxes(w);
        memcpy(w->boxes, color, sizeof color);
        b1i_text_printf(w->out, "<path stroke=\"none\" fill=\"%s\" d=\"", color);
    }
    b1i_text_printf(w->out, "M%.5g,%.5gH%.5gV%.5gH%.5gz", x[0], y[0], x[1], y[2], x[0]);
    return true;
}

static void put_element(writer *w, const tag *t)
{
    if (is(t->name, t->length, "polygon") && put_box(w, t)) return;
    end_boxes(w);
    b1i_text_printf(w->out, "<%.*s", (int)t->length, t->name);
    for (int i = 0; i < t->count; i++) put_attribute(w, &t->attributes[i]);
    b1i_text_put(w->out, t->empty ? "/>" : ">");
}

/* Words between tags: gnuplot writes < and & as references. */
static void put_words(b1i_text *out, const char *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (words[i] == '>')
            b1i_text_put(out, "&gt;");
        else
            b1i_text_bytes(out, (unsigned char)words[i] < ' ' ? " " : &words[i], 1);
}

/* Past the end of the element that `t` opened. */
static const char *skip(const tag *t)
{
    char end[VALUE_MOST];
    if (t->empty || t->closes) return t->end;
    snprintf(end, sizeof end, "</%.*s>", (int)t->length, t->name);
    const char *at = strstr(t->end, end);
    return at ? at + strlen(end) : t->end + strlen(t->end);
}

static b1_status rewrite(writer *w, const char *at, b1_error *err)
{
    static const char *const drawn[] = {"path", "use", "polygon", "circle", "line", "polyline", "text", "tspan", NULL};
    int words = 0;
    while ((at = strchr(at, '<'))) {
        tag t;
        if (at[1] == '?' || at[1] == '!') {
            at++;
            continue;
        }
        if (!read_tag(at, &t)) return b1i_fail(err, B1_IO, "gnuplot wrote an SVG that cannot be read: %.40s", at);
        bool known = false;
        for (int i = 0; drawn[i]; i++) known |= is(t.name, t.length, drawn[i]);
        at = t.end;
        if (is(t.name, t.length, "g")) {
            if (t.closes)
                close_group(w);
            else
                open_group(w, &t);
        } else if (known && t.closes) {
            b1i_text_printf(w->out, "</%.*s>", (int)t.length, t.name);
        } else if (known) {
            put_element(w, &t);
        } else if (!is(t.name, t.length, "svg")) {
            at = skip(&t);
        }
        if (is(t.name, t.length, "text") && !t.empty) words += t.closes ? -1 : 1;
        if (words > 0) put_words(w->out, at, strcspn(at, "<"));
    }
    end_boxes(w);
    return B1_OK;
}

b1_status b1i_svg_embed(b1i_text *html, const char *svg, const char *id, const char *title, const char *description,
                        b1_error *err)
{
    writer w = {.out = html};
    const char *view = strstr(svg, "viewBox=\"");
    int width, height;
    if (!view || sscanf(view, "viewBox=\"0 0 %d %d\"", &width, &height) != 2)
        return b1i_fail(err, B1_IO, "gnuplot wrote no SVG for \"%s\"", title);
    b1i_html(html,
             "<svg class=\"plot\" id=\"%s\" role=\"img\" aria-labelledby=\"%s-t %s-d\" viewBox=\"0 0 %d %d\" "
             "width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"currentColor\">"
             "<title id=\"%s-t\">%s</title><desc id=\"%s-d\">%s</desc>",
             id, id, id, width, height, width, height, id, title, id, description);
    b1_status st = rewrite(&w, strchr(view, '>') ? strchr(view, '>') : view, err);
    while (w.depth > 0) close_group(&w);
    b1i_text_put(html, "</svg>\n");
    return st;
}

#define OPEN "fill=\"var(--paper)\" stroke=\"currentColor\" stroke-width=\".4\"/>"

void b1i_svg_marks(b1i_text *html)
{
    b1i_text_put(
        html,
        "<svg class=\"marks\" aria-hidden=\"true\" width=\"0\" height=\"0\"><defs>"
        "<rect id=\"mark4\" x=\"-.9\" y=\"-.9\" width=\"1.8\" height=\"1.8\" fill=\"currentColor\" stroke=\"none\"/>"
        "<circle id=\"mark6\" r=\"1\" fill=\"currentColor\" stroke=\"none\"/>"
        "<path id=\"mark8\" d=\"M0,-1.3L-1.2,.8H1.2z\" fill=\"currentColor\" stroke=\"none\"/>"
        "<path id=\"mark12\" d=\"M0,-1.3L1.3,0L0,1.3L-1.3,0z\" fill=\"currentColor\" stroke=\"none\"/>"
        "<rect id=\"mark3\" x=\"-.9\" y=\"-.9\" width=\"1.8\" height=\"1.8\" " OPEN "<circle id=\"mark5\" r=\"1\" " OPEN
        "<path id=\"mark7\" d=\"M0,-1.3L-1.2,.8H1.2z\" " OPEN
        "<path id=\"mark11\" d=\"M0,-1.3L1.3,0L0,1.3L-1.3,0z\" " OPEN "</defs></svg>\n");
}
