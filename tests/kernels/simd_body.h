/* simd_body.h - the vector functions over arrays, for test_simd.c. */

static void NAME(exp2_all)(const void *from, void *to, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL)
        vstore((T *)to + i, vexp2(vload((const T *)from + i)));
}

static void NAME(exp_all)(const void *from, void *to, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL)
        vstore((T *)to + i, vexp(vload((const T *)from + i)));
}

/* VL x VL numbers. Returns VL. */
static int64_t NAME(flip)(const void *from, void *to)
{
    V a[VL];
    for (int i = 0; i < VL; i++)
        a[i] = vload((const T *)from + i * VL);
    vflip(a);
    for (int i = 0; i < VL; i++)
        vstore((T *)to + i * VL, a[i]);
    return VL;
}

/* Elements to numbers (unless from is NULL) and back, n of each. */
static void NAME(move)(const void *from, float *wide, void *to, int64_t n)
{
    if (from)
        ecopy((T *)wide, from, n);
    for (int64_t i = 0; i < n; i += VL)
        estore_n((E *)to + i, vload_n((T *)wide + i, n - i < VL ? n - i : VL, 0),
                 n - i < VL ? n - i : VL);
}
