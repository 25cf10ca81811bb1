/* peak_body.h - the processor's limit for bench/kernels.c: multiply-adds that wait for nothing. */

/* Returns the floating-point operations done; *sink keeps the compiler from dropping them. */
static double NAME(peak)(int64_t rounds, double *sink)
{
    enum { CHAINS = 12 };
    V acc[CHAINS];
    const V a = vall((T)0.999), b = vall((T)1e-3);
    volatile T first = 2; /* unknown to the compiler, which does not compute a chain that stays 1 */
    for (int i = 0; i < CHAINS; i++)
        acc[i] = vall(first + (T)i);
    for (int64_t r = 0; r < rounds; r++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            acc[i] = acc[i] * a + b;
    for (int i = 0; i < CHAINS; i++)
        *sink += vsum(acc[i]);
    return 2.0 * (double)rounds * CHAINS * VL;
}
