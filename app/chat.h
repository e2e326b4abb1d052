/* SPDX-License-Identifier: MIT
 *
 * The terminal conversation of `run --chat`.
 */
#ifndef APP_CHAT_H
#define APP_CHAT_H

#include "app/generate.h"

/* Reads turns until the input ends; `system` may be NULL. Its result is the exit code; errors are printed. */
int b1i_chat(b1i_generator *generator, const char *system);

#endif
