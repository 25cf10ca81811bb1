/* simd.h - vectors of VL numbers of type T: the few operations that the kernels need; each_type.h
 * includes it once for each type and level, so no include guard.
 *
 * eload reads memory of the program's type E and estore writes it; halves are widened, and rounded
 * to nearest, ties to even. vload and vstore are for scratch.
 *
 * Arithmetic uses the compiler's vector types. Only maximum, rounding, scaling by a power of two
 * and conversions of f16 use intrinsics, for instructions that C cannot express. */

#define VL ((int)(VBYTES / sizeof(T)))

#define T        NAME(T)
#define E        NAME(E)
#define VE       NAME(VE)
#define V        NAME(V)
#define VLoose   NAME(VLoose)
#define Int      NAME(Int)
#define VI       NAME(VI)
#define VU       NAME(VU)
#define vload    NAME(vload)
#define vstore   NAME(vstore)
#define vall     NAME(vall)
#define vload_n  NAME(vload_n)
#define vstore_n NAME(vstore_n)
#define vwhere   NAME(vwhere)
#define vmax     NAME(vmax)
#define vsum     NAME(vsum)
#define vtop     NAME(vtop)
#define vround   NAME(vround)
#define vpower   NAME(vpower)
#define vexp2    NAME(vexp2)
#define vexp     NAME(vexp)
#define vtanh2   NAME(vtanh2)
#define vpoly    NAME(vpoly)
#define vslope   NAME(vslope)
#define vflip    NAME(vflip)
#define ewiden   NAME(ewiden)
#define eround   NAME(eround)
#define eload    NAME(eload)
#define eload_n  NAME(eload_n)
#define estore   NAME(estore)
#define estore_n NAME(estore_n)
#define eget     NAME(eget)
#define eput     NAME(eput)
#define ecopy    NAME(ecopy)

#if MGK_F64
typedef double T;
typedef int64_t Int __attribute__((may_alias));
typedef int64_t VI __attribute__((vector_size(VBYTES)));
typedef uint64_t VU __attribute__((vector_size(VBYTES)));
#else
typedef float T;
typedef int32_t Int __attribute__((may_alias));
typedef int32_t VI __attribute__((vector_size(VBYTES)));
typedef uint32_t VU __attribute__((vector_size(VBYTES)));
#endif
typedef T V __attribute__((vector_size(VBYTES)));
typedef T VLoose __attribute__((vector_size(VBYTES), aligned(sizeof(T)), may_alias));

#if MGK_HALF
typedef uint16_t E __attribute__((may_alias));
typedef uint16_t VE __attribute__((vector_size(VBYTES / 2), aligned(2), may_alias));
#else
typedef T E;
#endif

MGK_INLINE V vload(const T *p)
{
    return *(const VLoose *)p;
}

MGK_INLINE void vstore(T *p, V v)
{
    *(VLoose *)p = v;
}

MGK_INLINE V vall(T s)
{
    return s - (V){0};
}

/* Loads the first n < VL numbers of a vector; the others are `fill`. */
MGK_INLINE V vload_n(const T *p, int64_t n, T fill)
{
#if VBYTES == 64 && MGK_F64
    return (V)_mm512_mask_loadu_pd((__m512d)vall(fill), (__mmask8)((1u << n) - 1), p);
#elif VBYTES == 64
    return (V)_mm512_mask_loadu_ps((__m512)vall(fill), (__mmask16)((1u << n) - 1), p);
#else
    V v = vall(fill);
    memcpy(&v, p, (size_t)n * sizeof(T));
    return v;
#endif
}

MGK_INLINE void vstore_n(T *p, V v, int64_t n)
{
#if VBYTES == 64 && MGK_F64
    _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
#elif VBYTES == 64
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    memcpy(p, &v, (size_t)n * sizeof(T));
#endif
}

/* a where the mask's lane is -1, b where it is 0. */
MGK_INLINE V vwhere(VI mask, V a, V b)
{
    return (V)(((VI)a & mask) | ((VI)b & ~mask));
}

/* The larger; b if either is a NaN. */
MGK_INLINE V vmax(V a, V b)
{
#if !defined(__x86_64__)
    return vwhere(a > b, a, b);
#elif VBYTES == 64 && MGK_F64
    return (V)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif VBYTES == 64
    return (V)_mm512_max_ps((__m512)a, (__m512)b);
#elif VBYTES == 32 && MGK_F64
    return (V)_mm256_max_pd((__m256d)a, (__m256d)b);
#elif VBYTES == 32
    return (V)_mm256_max_ps((__m256)a, (__m256)b);
#elif MGK_F64
    return (V)_mm_max_pd((__m128d)a, (__m128d)b);
#else
    return (V)_mm_max_ps((__m128)a, (__m128)b);
#endif
}

/* The sum over the lanes, by halves. */
MGK_INLINE T vsum(V v)
{
    T a[VL];
    vstore(a, v);
#pragma GCC unroll 4
    for (int half = VL / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a[i] += a[i + half];
    return a[0];
}

/* The largest lane; unspecified if a lane is a NaN. */
MGK_INLINE T vtop(V v)
{
    T a[VL];
    vstore(a, v);
#pragma GCC unroll 4
    for (int half = VL / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            a[i] = a[i] > a[i + half] ? a[i] : a[i + half];
    return a[0];
}

/* q(f), which interpolates (2^f - 1) / f at Chebyshev points of |f| <= 1/2. */
MGK_INLINE V vslope(V f)
{
#if MGK_F64
    static const T c[] = {4.45496059818651856e-10, 7.07258594926922339e-09, 1.01780624458457737e-07,
                          1.32154425879216893e-06, 1.52527338298361192e-05, 1.54035304417360499e-04,
                          1.33335581464169356e-03, 9.61812910760688825e-03, 5.55041086648215970e-02,
                          2.40226506959100972e-01, 6.93147180559945286e-01};
#else
    static const T c[] = {1.545316336e-04f, 1.339086331e-03f, 9.618083015e-03f,
                          5.550356954e-02f, 2.402265072e-01f, 6.931471825e-01f};
#endif
    V p = vall(c[0]);
#pragma GCC unroll 16
    for (int i = 1; i < (int)(sizeof c / sizeof *c); i++)
        p = p * f + c[i];
    return p;
}

/* 2^f for |f| <= 1/2 as 1 + f q(f). Relative error as evaluated: 1.13 2^-24 (f32), 1.03 2^-53
 * (f64). */
MGK_INLINE V vpoly(V f)
{
    return vslope(f) * f + 1;
}

/* p 2^n for a whole n, or 0 if x < least (n may then be anything). A subnormal result would cost a
 * hundred times a normal one, and masked scores, -inf, are common. */
MGK_INLINE V vpower(V p, V n, V x, T least)
{
#if VBYTES == 64 && MGK_F64
    __mmask8 live = _mm512_cmp_pd_mask((__m512d)x, (__m512d)vall(least), _CMP_NLT_UQ);
    return (V)_mm512_maskz_scalef_pd(live, (__m512d)p, (__m512d)n);
#elif VBYTES == 64
    __mmask16 live = _mm512_cmp_ps_mask((__m512)x, (__m512)vall(least), _CMP_NLT_UQ);
    return (V)_mm512_maskz_scalef_ps(live, (__m512)p, (__m512)n);
#else
    /* Adding 1.5 2^(mantissa bits) leaves the integer in the low bits. */
    const T shifter = MGK_F64 ? 0x1.8p52 : 0x1.8p23;
    VU power = ((VU)(n + shifter) + (MGK_F64 ? 1023 : 127)) << (MGK_F64 ? 52 : 23);
    VI dead = x < least;
    return (V)((VI)(p * (V)power) & ~dead);
#endif
}

/* The nearest whole number, for |x| < 2^22 (2^51). */
MGK_INLINE V vround(V x)
{
#if VBYTES == 64 && MGK_F64
    return (V)_mm512_roundscale_pd((__m512d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif VBYTES == 64
    return (V)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    const T shifter = MGK_F64 ? 0x1.8p52 : 0x1.8p23;
    return (x + shifter) - shifter;
#endif
}

/* 2^x for x up to 127 (f32) or 1023 (f64), within 1.2 ulp; zero below -126 (-1022), where results
 * would be subnormal. A NaN stays a NaN. */
MGK_INLINE V vexp2(V x)
{
    const V n = vround(x);
    return vpower(vpoly(x - n), n, x, MGK_F64 ? -1022 : -126);
}

/* e^x for x up to 88 (709), within 1.5 ulp; zero below -87 (-708). The reduction by a split ln 2
 * (Cody and Waite) keeps this error over the whole range. */
MGK_INLINE V vexp(V x)
{
    const T log2e = (T)0x1.71547652b82fep+0;
    const T ln2_high = MGK_F64 ? (T)0x1.62e42fee00000p-1 : (T)0x1.62e400p-1;
    const T ln2_low = MGK_F64 ? (T)0x1.a39ef35793c76p-33 : (T)0x1.7f7d1cp-20;
    const V n = vround(x * log2e);
    const V f = ((x - n * ln2_high) - n * ln2_low) * log2e;
    return vpower(vpoly(f), n, x, MGK_F64 ? -708 : -87);
}

/* tanh(x) of y = 2 log2(e) x, as m / (m + 2) with m = 2^y - 1, which 2^n (f q(f)) + (2^n - 1) gives
 * without cancellation. Within 4 ulp; a NaN stays a NaN. */
MGK_INLINE V vtanh2(V y)
{
    y = vmax(vall(-60), -vmax(vall(-60), -y));
    const V n = vround(y), f = y - n;
    const V power = vpower(vall(1), n, y, -100);
    const V m = vslope(f) * f * power + (power - 1);
    return m / (m + 2);
}

/* Transposes VL rows of VL. Each of log2 VL steps interleaves row i with row i + VL / 2: it rotates
 * the bits of (row, column) by one place. */
#if defined(MGK_ZIP_LOW)
#undef MGK_ZIP_LOW
#undef MGK_ZIP_HIGH
#endif
#if VBYTES == 64 && !MGK_F64
#define MGK_ZIP_LOW  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define MGK_ZIP_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif VBYTES == 64 || (VBYTES == 32 && !MGK_F64)
#define MGK_ZIP_LOW  0, 8, 1, 9, 2, 10, 3, 11
#define MGK_ZIP_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#elif VBYTES == 32 || !MGK_F64
#define MGK_ZIP_LOW  0, 4, 1, 5
#define MGK_ZIP_HIGH 2, 6, 3, 7
#else
#define MGK_ZIP_LOW  0, 2
#define MGK_ZIP_HIGH 1, 3
#endif
MGK_INLINE void vflip(V a[])
{
#pragma GCC unroll 4
    for (int round = 1; round < VL; round *= 2) {
        V b[VL];
#pragma GCC unroll 8
        for (int i = 0; i < VL / 2; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + VL / 2], MGK_ZIP_LOW);
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + VL / 2], MGK_ZIP_HIGH);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
            a[i] = b[i];
    }
}

/* ---- elements of memory --------------------------------------------------------------------- */

#if MGK_HALF == MGK_BF16

/* A bf16 is the upper half of a float. */
MGK_INLINE V ewiden(VE h)
{
    return (V)(__builtin_convertvector(h, VU) << 16);
}

/* A NaN keeps its upper bits and becomes quiet. */
MGK_INLINE VE eround(V x)
{
    const VU bits = (VU)x, even = (bits >> 16) & 1;
    const VU nearest = (bits + (0x7fff + even)) >> 16, quiet = (bits >> 16) | 0x40;
    const VU nan = (VU)(x != x);
    return __builtin_convertvector((nearest & ~nan) | (quiet & nan), VE);
}

#elif MGK_HALF == MGK_F16

MGK_INLINE V ewiden(VE h)
{
#if VBYTES == 64
    return (V)_mm512_cvtph_ps((__m256i)h);
#elif VBYTES == 32
    return (V)_mm256_cvtph_ps((__m128i)h);
#elif defined(__aarch64__)
    return (V)vcvt_f32_f16((float16x4_t)h);
#else
    V x;
    for (int i = 0; i < VL; i++)
        x[i] = mg_from_f16(h[i]);
    return x;
#endif
}

MGK_INLINE VE eround(V x)
{
#if VBYTES == 64
    return (VE)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif VBYTES == 32
    return (VE)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__aarch64__)
    return (VE)vcvt_f16_f32((float32x4_t)x);
#else
    VE h;
    for (int i = 0; i < VL; i++)
        h[i] = mg_to_f16(x[i]);
    return h;
#endif
}

#endif

#if MGK_HALF

MGK_INLINE V eload(const E *p)
{
    return ewiden(*(const VE *)p);
}

MGK_INLINE void estore(E *p, V v)
{
    *(VE *)p = eround(v);
}

MGK_INLINE V eload_n(const E *p, int64_t n, T fill)
{
    VE h = {0};
    memcpy(&h, p, (size_t)n * sizeof(E));
    V v = ewiden(h);
    for (int64_t i = n; i < VL; i++)
        v[i] = fill;
    return v;
}

MGK_INLINE void estore_n(E *p, V v, int64_t n)
{
    const VE h = eround(v);
    memcpy(p, &h, (size_t)n * sizeof(E));
}

#else

MGK_INLINE V eload(const E *p)
{
    return vload(p);
}

MGK_INLINE void estore(E *p, V v)
{
    vstore(p, v);
}

MGK_INLINE V eload_n(const E *p, int64_t n, T fill)
{
    return vload_n(p, n, fill);
}

MGK_INLINE void estore_n(E *p, V v, int64_t n)
{
    vstore_n(p, v, n);
}

#endif

MGK_INLINE T eget(const E *p)
{
    return eload_n(p, 1, 0)[0];
}

MGK_INLINE void eput(E *p, T x)
{
    estore_n(p, vall(x), 1);
}

/* Copies n elements, converted to T. */
MGK_INLINE void ecopy(T *to, const E *from, int64_t n)
{
#if MGK_HALF
    int64_t c = 0;
    for (; c + VL <= n; c += VL)
        vstore(to + c, eload(from + c));
    if (c < n)
        vstore_n(to + c, eload_n(from + c, n - c, 0), n - c);
#else
    memcpy(to, from, (size_t)n * sizeof(T));
#endif
}
