/* SPDX-License-Identifier: MIT
 *
 * batchone completion: completion scripts for shells, written from the same tables as the parser and the help.
 */
#include "app/app.h"
#include "app/output.h"
#include "lab/lab.h"

#include <stdio.h>
#include <string.h>

typedef struct completion_options {
    char nothing;
} completion_options;

static const b1i_option options[] = {{0}};

/* The values that an option allows, with spaces between; "all" of a list is among them. */
static void print_choices(const b1i_option *o, const char *before, const char *after)
{
    if (!o->choices) return;
    fputs(before, stdout);
    for (int i = 0; o->choices(i); i++) printf("%s%s", i ? " " : "", o->choices(i));
    fputs(after, stdout);
}

static bool takes_shape(const b1i_command *c) { return strstr(c->operands, "SHAPE") != NULL; }

static bool takes_experiment(const b1i_command *c) { return strcmp(c->operands, "EXPERIMENT") == 0; }
static bool takes_directory(const b1i_command *c) { return strncmp(c->operands, "DIR", 3) == 0; }

static void print_shapes(void)
{
    for (int i = 0; b1_shape_name(i); i++) printf(" %s", b1_shape_name(i));
}

static void print_experiments(void)
{
    for (int i = 0; b1i_experiments[i]; i++) printf(" %s", b1i_experiments[i]->name);
}

/* ---- bash ---- */

static void bash_command(const b1i_command *c)
{
    printf("    %s)\n        options=\"--help", c->name);
    for (const b1i_option *o = c->options; o->name; o++) printf(" --%s", o->name);
    fputs("\"\n", stdout);
    if (takes_shape(c) || takes_experiment(c)) {
        fputs("        words=\"", stdout);
        takes_shape(c) ? print_shapes() : print_experiments();
        fputs("\"\n", stdout);
    }
    fputs("        case $previous in\n", stdout);
    for (const b1i_option *o = c->options; o->name; o++) {
        if (!o->argument) continue;
        if (o->letter)
            printf("        -%c | --%s) ", o->letter, o->name);
        else
            printf("        --%s) ", o->name);
        if (o->choices)
            print_choices(o, "options= words=\"", "\" ;;\n");
        else
            fputs("options= words= ;;\n", stdout);
    }
    fputs("        esac\n        ;;\n", stdout);
}

static void print_bash(void)
{
    fputs("# bash completion for batchone\n"
          "_batchone() {\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} options= words=\n"
          "    COMPREPLY=()\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        COMPREPLY=($(compgen -W \"--help --version",
          stdout);
    for (int i = 0; b1i_commands[i]; i++) printf(" %s", b1i_commands[i]->name);
    fputs("\" -- \"$current\"))\n"
          "        return\n"
          "    fi\n"
          "    case ${COMP_WORDS[1]} in\n",
          stdout);
    for (int i = 0; b1i_commands[i]; i++) bash_command(b1i_commands[i]);
    fputs("    esac\n"
          "    if [[ $current == -* ]]; then words=$options; fi\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
          "}\n"
          "complete -o default -F _batchone batchone\n",
          stdout);
}

/* ---- zsh ---- */

/* Help text inside single quotes and brackets. */
static void zsh_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text))
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void zsh_option(const b1i_option *o, const char *prefix, const char *name, size_t length)
{
    bool many = o->kind == b1i_option_texts;
    printf(" \\\n            '%s%s%.*s[", many ? "*" : "", prefix, (int)length, name);
    zsh_text(o->help);
    putchar(']');
    if (o->argument) {
        putchar(':');
        zsh_text(o->argument);
        putchar(':');
        if (o->choices)
            print_choices(o, o->kind == b1i_option_words ? "_sequence compadd - " : "(",
                          o->kind == b1i_option_words ? "" : ")");
        else if (strstr(o->argument, "FILE"))
            fputs("_files", stdout);
        else if (strcmp(o->argument, "DIR") == 0)
            fputs("_files -/", stdout);
    }
    putchar('\'');
}

static void zsh_command(const b1i_command *c)
{
    printf("    %s)\n        _arguments '(- *)'{-h,--help}'[show this help]'", c->name);
    for (const b1i_option *o = c->options; o->name; o++) {
        zsh_option(o, "--", o->name, strlen(o->name));
        if (o->letter) zsh_option(o, "-", &o->letter, 1);
    }
    if (takes_shape(c)) {
        fputs(" \\\n            '1:model or shape:{_alternative \"files:file:_files\" \"shapes:shape:(", stdout);
        print_shapes();
        fputs(")\"}'", stdout);
    } else if (takes_experiment(c)) {
        fputs(" \\\n            '1:experiment:(", stdout);
        print_experiments();
        fputs(")'", stdout);
    } else if (takes_directory(c)) {
        fputs(" \\\n            '*:run of the lab:_files -/'", stdout);
    } else if (c->operands[0]) {
        fputs(" \\\n            '1:model:_files'", stdout);
    }
    fputs("\n        ;;\n", stdout);
}

static void print_zsh(void)
{
    fputs("#compdef batchone\n"
          "# zsh completion for batchone\n"
          "local -a commands\n"
          "commands=(\n",
          stdout);
    for (int i = 0; b1i_commands[i]; i++) {
        printf("    '%s:", b1i_commands[i]->name);
        zsh_text(b1i_commands[i]->summary);
        fputs("'\n", stdout);
    }
    fputs(")\n"
          "if ((CURRENT == 2)); then\n"
          "    _describe command commands\n"
          "    _arguments '--help[show help]' '--version[show the version]'\n"
          "    return\n"
          "fi\n"
          "shift words\n"
          "((CURRENT--))\n"
          "case ${words[1]} in\n",
          stdout);
    for (int i = 0; b1i_commands[i]; i++) zsh_command(b1i_commands[i]);
    fputs("esac\n", stdout);
}

/* ---- the command ---- */

static int run(const b1i_command *self, char **arguments)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}};
    completion_options o = {0};
    const char *shell;
    int count, code = b1i_options_parse(self, arguments, &o, &shell, 1, 1, &count);
    if (code != B1I_PARSED) return code;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print();
            return B1I_EXIT_OK;
        }
    b1i_print_error("completion: there is a script for bash and for zsh, not for \"%s\"", shell);
    return B1I_EXIT_USAGE;
}

const b1i_command b1i_command_completion = {
    .name = "completion",
    .operands = "bash|zsh",
    .summary = "Prints a completion script for a shell.",
    .notes = "An installed batchone has both in place; else: source <(batchone completion bash)",
    .options = options,
    .run = run,
};
