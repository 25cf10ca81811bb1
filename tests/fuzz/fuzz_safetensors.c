/* fuzz_safetensors.c - libFuzzer target: any bytes as a safetensors file. What the reader accepts
 * tiles the file's data: no tensor begins or ends outside it, and its size is that of its shape. */
#include "runtime/checkpoint/safetensors.h"

#include <stdlib.h>

static void check(const rt_st *st, uint64_t file_size)
{
    for (size_t i = 0; i < st->n; i++) {
        const rt_st_tensor *t = &st->tensor[i];
        uint64_t bits = (uint64_t)rt_st_bits(t->dtype);
        for (int d = 0; d < t->rank; d++)
            bits *= (uint64_t)t->shape[d];
        if (t->begin > t->end || st->data + t->end > file_size || bits != 8 * (t->end - t->begin))
            abort();
        if (rt_st_find(st, t->name) != t)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[ST_ERROR];
    rt_st st = {0};
    if (size < 8)
        return 0;
    uint64_t n = rt_st_header_size(data, size, error);
    if (n && n <= size - 8 && rt_st_parse(&st, data + 8, n, size, error)) {
        check(&st, size);
        rt_st_free(&st);
    }
    return 0;
}
