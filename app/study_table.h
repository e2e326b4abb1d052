/* SPDX-License-Identifier: MIT
 *
 * The table of a study.
 */
#ifndef APP_STUDY_TABLE_H
#define APP_STUDY_TABLE_H

#include <jansson.h>

/* Prints a row for each setting over its sessions, with its verdict; below it the steps that were late, and the cells
 * without figures, those of one reason on one line. `directory` has the cells. How many cells have figures. */
int b1i_study_table(const json_t *analysis, const char *directory);

#endif
