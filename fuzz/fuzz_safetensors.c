/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a safetensors file; the last byte of every tensor that comes out is read.
 */
#include "memory_file.h"
#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile uint8_t sink __attribute__((unused));
    b1_error err;
    b1i_safetensors *s = NULL;
    long live = b1i_alloc_live();
    if (b1i_safetensors_open(memory_file(data, size), &s, &err) == B1_OK) {
        uint64_t total = 0;
        for (size_t i = 0; i < s->tensor_count; i++) {
            const b1i_safetensor *t = &s->tensors[i];
            if (t->bytes > 0) sink = s->map.data[t->offset + t->bytes - 1];
            total += t->bytes;
        }
        if (total > size) abort();
        b1i_safetensors_close(s);
    } else if (err.status != B1_MODEL || !err.message[0])
        abort();
    if (b1i_alloc_live() != live) abort();
    return 0;
}
