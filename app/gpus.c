/* SPDX-License-Identifier: MIT
 *
 * data/gpus.json, put into the binary by the assembler, so that the command needs no file beside it.
 */
#include "app/gpus.h"

extern const char b1i_gpus_begin[], b1i_gpus_end[];

__asm__(".pushsection .rodata\n"
        ".global b1i_gpus_begin\n"
        ".global b1i_gpus_end\n"
        "b1i_gpus_begin:\n"
        ".incbin \"" B1I_GPUS_JSON "\"\n"
        "b1i_gpus_end:\n"
        ".byte 0\n"
        ".popsection\n");

json_t *b1i_gpus(void)
{
    json_t *document = json_loadb(b1i_gpus_begin, (size_t)(b1i_gpus_end - b1i_gpus_begin), 0, NULL);
    json_t *list = json_incref(json_object_get(document, "gpus"));
    json_decref(document);
    return list;
}
