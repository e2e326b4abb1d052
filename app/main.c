/* SPDX-License-Identifier: MIT
 *
 * batchone: the command. Finds the subcommand and lets it run; owns the process's manners: open standard files, no
 * death by a closed pipe or a file's limit, a failed write of the output is a failure.
 */
#include "app/app.h"
#include "app/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const b1i_command *const b1i_commands[] = {
    &b1i_command_run,     &b1i_command_tokenize, &b1i_command_inspect, &b1i_command_bench,      &b1i_command_ceiling,
    &b1i_command_devices, &b1i_command_lab,      &b1i_command_study,   &b1i_command_ab,         &b1i_command_compare,
    &b1i_command_explain, &b1i_command_verify,   &b1i_command_report,  &b1i_command_completion, NULL,
};

uint64_t b1i_command_start_ns;

static void print_help(void)
{
    puts("usage: batchone COMMAND [arguments]\n\n"
         "Batch-1 LLM decode near the memory floor, and how near that is.\n\n"
         "commands:");
    for (int i = 0; b1i_commands[i]; i++) printf("  %-12s %s\n", b1i_commands[i]->name, b1i_commands[i]->summary);
    puts("\n\"batchone COMMAND --help\" says more. \"batchone --version\" prints the version.\n"
         "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 bad model or file, 4 not enough memory, 130 cancelled.");
}

/* A standard file that is closed would be the next file opened; each is held by /dev/null instead, stdout in a way
 * that makes writing fail. */
static void hold_standard_files(void)
{
    static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[fd]) < 0) _exit(B1I_EXIT_FAILED);
}

static int run_command(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : NULL;
    if (!name) {
        b1i_print_error("a command is missing");
        b1i_print_hint("\"batchone --help\" lists them");
        return B1I_EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help();
        return B1I_EXIT_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("batchone %s\n", b1_version());
        return B1I_EXIT_OK;
    }
    for (int i = 0; b1i_commands[i]; i++)
        if (strcmp(name, b1i_commands[i]->name) == 0) return b1i_commands[i]->run(b1i_commands[i], arguments + 2);
    b1i_print_error("no such command: %s", name);
    b1i_print_hint("\"batchone --help\" lists them");
    return B1I_EXIT_USAGE;
}

int main(int count, char **arguments)
{
    b1i_command_start_ns = b1i_now_ns();
    hold_standard_files();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a failed write */
    b1i_cancel_install();
    int code = run_command(count, arguments);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == B1I_EXIT_OK) {
        b1i_print_error("standard output cannot be written: %s", strerror(errno));
        code = B1I_EXIT_FAILED;
    }
    return code;
}
