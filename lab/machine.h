/* SPDX-License-Identifier: MIT
 *
 * The machine's record: what a reader of a result must know about the computer that gave it. Read from /proc and
 * /sys; what the system does not say is null in the record and 0 here. No host name, no user, no serial number; a
 * GPU's UUID tells one card of a machine from another.
 */
#ifndef LAB_MACHINE_H
#define LAB_MACHINE_H

#include "base/base.h"

#include <jansson.h>

/* {"cpu", "gpu": null, "architecture", "simd": [...], "cores", "threads", "caches": [{level, kind, bytes, cpus}],
 *  "memory_bytes", "huge_pages", "governor", "kernel", "hypervisor", "date", "version"}; a new reference, NULL: no
 * memory. "gpu" is filled in by who used one: b1i_device_record(). */
json_t *b1i_machine_record(void);
/* The CPU's model as the record has it, into `name`; "unknown" where the system is silent. */
void b1i_machine_cpu(char *name, size_t bytes);
/* Bytes of all caches past the first level of the CPUs that this process may use; 0: unknown. */
uint64_t b1i_machine_cache_bytes(void);
/* How often the CPU has throttled for heat since boot, summed over CPUs; 0 where it is not counted. */
uint64_t b1i_machine_throttle_count(void);
/* The first line of a small file (of /proc, /sys) without its line end; false where there is none. */
bool b1i_machine_first_line(const char *path, char *line, size_t bytes);
/* UTC, ISO 8601, into `text` [≥ 21 bytes]. */
void b1i_machine_date(char *text, size_t bytes);

#endif
