/* SPDX-License-Identifier: MIT
 *
 * The parser of option tables. "--name VALUE", "--name=VALUE", "-n VALUE", "-nVALUE"; the last of two wins, except
 * for lists of texts; no list has an entry twice. A lone "-" is an operand or a value, never an option.
 */
#include "app/options.h"

#include "app/app.h"
#include "app/output.h"
#include "lab/device.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const b1i_option *by_name(const b1i_option *options, const char *name, size_t length)
{
    for (; options->name; options++)
        if (strlen(options->name) == length && memcmp(options->name, name, length) == 0) return options;
    return NULL;
}

static const b1i_option *by_letter(const b1i_option *options, char letter)
{
    for (; options->name; options++)
        if (options->letter == letter) return options;
    return NULL;
}

static int no_memory(void)
{
    b1i_print_error("out of memory while reading the command line");
    return B1I_EXIT_MEMORY;
}

/* The whole of text [length] as a number within the option's range, or false. */
static bool number_in(const b1i_option *o, const char *text, size_t length, bool whole, double *out)
{
    char copy[64], *end;
    if (length == 0 || length >= sizeof copy || strchr(" \t\n+", text[0])) return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    if (whole && copy[strspn(copy, "-0123456789")]) return false;
    *out = strtod(copy, &end);
    return *end == 0 && isfinite(*out) && *out >= o->least && *out <= o->most;
}

static bool integer_in(const b1i_option *o, const char *text, size_t length, int64_t *out)
{
    double rough;
    if (!number_in(o, text, length, true, &rough)) return false;
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return errno == 0;
}

static int bad_number(const b1i_command *command, const b1i_option *o, const char *text, size_t length, bool whole)
{
    b1i_print_error("%s: --%s: \"%.*s\" is not a %snumber from %.16g to %.16g", command->name, o->name, (int)length,
                    text, whole ? "whole " : "", o->least, o->most);
    return B1I_EXIT_USAGE;
}

static int add_text(b1i_texts *texts, const char *text)
{
    if (!b1i_grow(&texts->items, &texts->room, texts->count + 1, sizeof *texts->items)) return no_memory();
    texts->items[texts->count++] = text;
    return B1I_PARSED;
}

/* Whether the option allows `word`; else prints what it does allow. */
static bool allowed(const b1i_command *command, const b1i_option *o, const char *word)
{
    char list[512] = "";
    if (!o->choices) return true;
    for (int i = 0; o->choices(i); i++) {
        size_t used = strlen(list);
        if (strcmp(o->choices(i), word) == 0) return true;
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", o->choices(i));
    }
    b1i_print_error("%s: --%s: \"%s\" is none of %s", command->name, o->name, word, list);
    return false;
}

/* Whether the last entry of the list stands there before; else prints so. */
static bool repeats(const b1i_command *command, const b1i_option *o, const void *value)
{
    const b1i_texts *texts = value;
    const b1i_integers *integers = value;
    const bool whole = o->kind == b1i_option_integers;
    const size_t last = (whole ? integers->count : texts->count) - 1;
    for (size_t i = 0; i < last; i++) {
        if (whole ? integers->items[i] != integers->items[last] : strcmp(texts->items[i], texts->items[last]) != 0)
            continue;
        if (whole)
            b1i_print_error("%s: --%s: %lld is given twice", command->name, o->name, (long long)integers->items[i]);
        else
            b1i_print_error("%s: --%s: %s is given twice", command->name, o->name, texts->items[i]);
        return true;
    }
    return false;
}

/* "a,b,c" into a list; an empty word is an error, and so is one that is there already. */
static int set_list(const b1i_command *command, const b1i_option *o, void *value, const char *text)
{
    b1i_texts *texts = value;
    b1i_integers *integers = value;
    bool whole = o->kind == b1i_option_integers;
    if (whole) {
        integers->count = 0;
    } else {
        b1i_free(texts->storage);
        texts->count = 0;
        if (!(texts->storage = b1i_strdup(text))) return no_memory();
    }
    for (size_t at = 0;; at++) {
        size_t length = strcspn(text + at, ",");
        int64_t number = 0;
        int code = B1I_PARSED;
        if (whole && !integer_in(o, text + at, length, &number)) return bad_number(command, o, text + at, length, true);
        if (!length) {
            b1i_print_error("%s: --%s: \"%s\" has an empty entry", command->name, o->name, text);
            return B1I_EXIT_USAGE;
        }
        if (whole) {
            if (!b1i_grow(&integers->items, &integers->room, integers->count + 1, sizeof *integers->items))
                return no_memory();
            integers->items[integers->count++] = number;
        } else {
            texts->storage[at + length] = 0;
            if (!allowed(command, o, texts->storage + at)) return B1I_EXIT_USAGE;
            code = add_text(texts, texts->storage + at);
        }
        if (code != B1I_PARSED) return code;
        if (repeats(command, o, value)) return B1I_EXIT_USAGE;
        at += length;
        if (!text[at]) return B1I_PARSED;
    }
}

/* Whether the value is the name of something, which is never empty. */
static bool is_name(const b1i_option *o)
{
    static const char *const names[] = {"DIR", "FILE", "FILE|-", "ID", "MODEL"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(o->argument, names[i]) == 0) return true;
    return false;
}

static int set_value(const b1i_command *command, const b1i_option *o, void *values, const char *text)
{
    void *value = (char *)values + o->at;
    switch (o->kind) {
    case b1i_option_flag:
        *(bool *)value = true;
        return B1I_PARSED;
    case b1i_option_integer:
        if (integer_in(o, text, strlen(text), value)) return B1I_PARSED;
        return bad_number(command, o, text, strlen(text), true);
    case b1i_option_number:
        if (number_in(o, text, strlen(text), false, value)) return B1I_PARSED;
        return bad_number(command, o, text, strlen(text), false);
    case b1i_option_text:
        if (!*text && is_name(o)) {
            b1i_print_error("%s: --%s is empty: expected %s", command->name, o->name, o->argument);
            return B1I_EXIT_USAGE;
        }
        if (!allowed(command, o, text)) return B1I_EXIT_USAGE;
        *(const char **)value = text;
        return B1I_PARSED;
    case b1i_option_device:
        if (!b1i_device_is_word(text)) {
            b1i_print_error("%s: --%s: \"%s\" is none of auto, cpu, cuda, cuda:N", command->name, o->name, text);
            return B1I_EXIT_USAGE;
        }
        *(const char **)value = text;
        return B1I_PARSED;
    case b1i_option_texts:
        return add_text(value, text);
    case b1i_option_words:
    case b1i_option_integers:
        return set_list(command, o, value, text);
    }
    return B1I_PARSED;
}

static int usage_error(const b1i_command *command, const char *what, const char *argument)
{
    b1i_print_error("%s: %s%s", command->name, what, argument);
    b1i_print_hint("\"batchone %s --help\" lists what there is", command->name);
    return B1I_EXIT_USAGE;
}

/* One argument that begins with a dash; *used says how many of `arguments` it took. */
static int parse_option(const b1i_command *command, char **arguments, void *values, int *used)
{
    const char *argument = arguments[0], *value = NULL;
    const b1i_option *o;
    *used = 1;
    if (argument[1] == '-') {
        size_t length = strcspn(argument + 2, "=");
        o = by_name(command->options, argument + 2, length);
        if (argument[2 + length] == '=') value = argument + 3 + length;
    } else {
        o = by_letter(command->options, argument[1]);
        if (argument[2]) value = argument + 2;
    }
    if (!o) return usage_error(command, "no such option: ", argument);
    if (o->kind == b1i_option_flag && value) return usage_error(command, "this option takes no value: ", argument);
    if (o->kind != b1i_option_flag && !value) {
        if (!(value = arguments[1])) {
            char what[80];
            (void)snprintf(what, sizeof what, "a value must follow, %s: ", o->argument);
            return usage_error(command, what, argument);
        }
        *used = 2;
    }
    return set_value(command, o, values, value);
}

int b1i_options_parse(const b1i_command *command, char **arguments, void *values, const char **operands, int least,
                      int most, int *count)
{
    bool only_operands = false;
    *count = 0;
    for (int i = 0; arguments[i] && strcmp(arguments[i], "--") != 0; i++)
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            b1i_options_help(command, stdout);
            return B1I_EXIT_OK;
        }
    while (*arguments) {
        const char *argument = *arguments;
        int used = 1, code = B1I_PARSED;
        if (!only_operands && strcmp(argument, "--") == 0)
            only_operands = true;
        else if (!only_operands && argument[0] == '-' && argument[1])
            code = parse_option(command, arguments, values, &used);
        else if (*count == most)
            code = usage_error(command, "one argument too many: ", argument);
        else
            operands[(*count)++] = argument;
        if (code != B1I_PARSED) return code;
        arguments += used;
    }
    if (*count >= least) return B1I_PARSED;
    b1i_print_error("%s: %s is missing", command->name, command->operands);
    b1i_print_hint("usage: batchone %s %s [options]", command->name, command->operands);
    return B1I_EXIT_USAGE;
}

void b1i_options_free(const b1i_command *command, void *values)
{
    for (const b1i_option *o = command->options; o->name; o++) {
        void *value = (char *)values + o->at;
        if (o->kind == b1i_option_integers) b1i_free(((b1i_integers *)value)->items);
        if (o->kind != b1i_option_texts && o->kind != b1i_option_words) continue;
        b1i_free(((b1i_texts *)value)->items);
        b1i_free(((b1i_texts *)value)->storage);
    }
}

void b1i_options_help(const b1i_command *command, FILE *out)
{
    fprintf(out, "usage: batchone %s%s%s [options]\n\n%s\n\noptions:\n", command->name, *command->operands ? " " : "",
            command->operands, command->summary);
    for (const b1i_option *o = command->options; o->name; o++) {
        char left[80], letter[8] = "    ";
        if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
                 o->argument ? o->argument : "");
        int continuation = 0; /* printf counts bytes */
        for (const char *c = left; *c; c++) continuation += (*c & 0xc0) == 0x80;
        fprintf(out, "  %-*s %s\n", 30 + continuation, left, o->help);
    }
    fprintf(out, "  %-30s %s\n", "-h, --help", "show this help");
    if (*command->notes) fprintf(out, "\n%s\n", command->notes);
}
