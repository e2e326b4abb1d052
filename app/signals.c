/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C, and a model file that goes away. The handler does only what is allowed in one: it sets a flag, cancels the
 * watched session, and on the second signal gives the signal its default action back, so that nothing can hold the
 * process.
 */
#include "app/app.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static volatile sig_atomic_t asked;
static _Atomic(b1_session *) watched;

static void on_signal(int number)
{
    if (asked) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    asked = 1;
    b1_session *session = atomic_load(&watched);
    if (session) b1_session_cancel(session);
}

/* A mapped model file that is cut short under us gives this signal where its bytes are missing; nothing of the process
 * can go on without them. */
static void on_missing_bytes(int number)
{
    static const char text[] = "batchone: the model's file was cut short or could not be read while it was in use\n";
    static atomic_flag said = ATOMIC_FLAG_INIT;
    (void)number;
    while (atomic_flag_test_and_set(&said)) pause(); /* several workers meet it at once: one speaks */
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(B1I_EXIT_MODEL);
    _exit(B1I_EXIT_MODEL);
}

void b1i_cancel_install(void)
{
    struct sigaction missing = {.sa_handler = on_missing_bytes};
    sigemptyset(&missing.sa_mask);
    sigaction(SIGBUS, &missing, NULL);
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: a waiting read ends */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool b1i_cancel_asked(void) { return asked != 0; }

void b1i_cancel_clear(void) { asked = 0; }

void b1i_cancel_watch(b1_session *session)
{
    atomic_store(&watched, session);
    /* A signal between its arrival and this store saw no session. */
    if (session && asked) b1_session_cancel(session);
}
