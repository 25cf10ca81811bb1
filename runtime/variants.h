/* variants.h - programs for several numbers of ranks in one executable, as codegen/link writes them
 * and the runtime finds them.
 *
 * The executable is the program of the largest number. Behind it come the executables of the
 * others, each whole, then a list of all, and an mg_variants_end, the last bytes of the file. */
#ifndef MG_VARIANTS_H
#define MG_VARIANTS_H

#include <stddef.h>
#include <stdint.h>

enum { MG_VARIANTS_MAX = 256 };
#define MG_VARIANTS_MAGIC "mgcranks"

typedef struct mg_variant {
    int64_t ranks;
    int64_t offset, bytes; /* of the executable; that of the first begins the file */
    uint64_t sum;          /* mg_variant_sum of these bytes */
} mg_variant;

typedef struct mg_variants_end {
    int64_t n;    /* variants, the first of the largest number of ranks */
    uint64_t sum; /* mg_variant_sum of the list before */
    char magic[8];
} mg_variants_end;

/* FNV-1a of 64 bits, which goes on from `sum`; the first is MG_VARIANT_SUM. It finds damage, and
 * proves nothing. */
#define MG_VARIANT_SUM 0xcbf29ce484222325U
static inline uint64_t mg_variant_sum(uint64_t sum, const void *p, size_t n)
{
    const unsigned char *s = p;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ s[i]) * 0x100000001b3U;
    return sum;
}

#endif
