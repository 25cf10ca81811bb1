/* isa.c - detects the vector unit of the processor; see isa.h. */
#include "kernels/isa.h"
#include "kernels/amx.h"
#include "kernels/pairs.h"

#include <stdio.h>
#include <stdlib.h>

mgk_level mgk_isa_best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("x86-64-v4"))
        return mgk_amx_there() ? MGK_AMX : mgk_pairs_there() ? MGK_PAIRS : MGK_V4;
    if (__builtin_cpu_supports("x86-64-v3"))
        return MGK_V3;
#endif
    return MGK_BASE;
}

__attribute__((weak)) mgk_level mgk_isa(void)
{
    return mgk_isa_best();
}

const char *mg_products_name(void)
{
    static const char *const names[] = {
        "own, 16-byte vectors", "own, 32-byte vectors", "own, 64-byte vectors",
        "own, 64-byte vectors, bf16 by pairs", "own, AMX tiles, a float as three bf16"};
    return names[mgk_isa()];
}

_Noreturn void mgk_fatal(const char *kernel, const char *why)
{
    fprintf(stderr, "%s: %s\n", kernel, why);
    exit(1);
}

int mgk_float(mg_dtype t, const char *kernel)
{
    if (t < MG_F32 || t > MG_F16)
        mgk_fatal(kernel, "is built for floating-point types only");
    return (int)t - MG_F32;
}

int mgk_real(mg_dtype t, const char *kernel)
{
    if (t != MG_F32 && t != MG_F64)
        mgk_fatal(kernel, "on the cpu only f32 and f64 are built");
    return t == MG_F64;
}
