/* product_sums.h - sums of columns, rounding and epilogues of a product; a part of product_body.h,
 * on the types of simd.h, so no include guard. */

#define panel_sums NAME(panel_sums)
#define round_in   NAME(round_in)
#define gelu_of    NAME(gelu_of)
#define gelu_out   NAME(gelu_out)
#define round_out  NAME(round_out)

/* sum[j] (+)= the sum of a panel's column j. */
static void panel_sums(const T *b, int64_t k, int64_t n, bool add, T *sum)
{
    V s[TILE_VECS] = {vall(0), vall(0)};
    for (int64_t p = 0; p < k; p++, b += PANEL_N)
        for (int j = 0; j < TILE_VECS; j++)
            s[j] += vload(b + j * VL);
    for (int64_t j = 0; j < n; j++)
        sum[j] = (add ? sum[j] : 0) + s[j / VL][j % VL];
}

/* round_in converts rows from the type of C to the compute type, round_out back. */
static void round_in(const E *from, int64_t ld, int64_t rows, int64_t cols, T *to, int64_t step)
{
    for (int64_t i = 0; i < rows; i++)
        ecopy(to + i * step, from + i * ld, cols);
}

static void round_out(const T *from, int64_t step, int64_t rows, int64_t cols, E *to, int64_t ld)
{
    for (int64_t i = 0; i < rows; i++, from += step, to += ld) {
        int64_t c = 0;
        for (; c + VL <= cols; c += VL)
            estore(to + c, vload(from + c));
        if (c < cols)
            estore_n(to + c, vload_n(from + c, cols - c, 0), cols - c);
    }
}

/* gelu_tanh at x is x s, s = 1 / (1 + e), e = exp(-2 u), u = c (x + k x^3); its slope is s + 2 x s
 * e s du/dx. The error is at most 4 units in the last place of max(1, |x|). */
MGK_INLINE V gelu_of(bool slope, V x)
{
    const T c = (T)0.7978845608028654, k = (T)0.044715, max = MGK_F64 ? 700 : 80; /* of vexp */
    const V xx = x * x, uu = 2 * c * x * (1 + k * xx);
    const V e = vexp(-vmax(uu, vall(-max))), s = 1 / (1 + e);
    return slope ? s + 2 * c * x * (e * s * s) * (1 + 3 * k * xx) : x * s;
}

/* Computes C from finished sums, which may be stored in C. */
static void gelu_out(const mg_gemm_desc *d, const T *from, int64_t step, int64_t rows, int64_t cols,
                     E *to, E *aux)
{
    for (int64_t i = 0; i < rows; i++, from += step, to += d->ldc, aux += d->ldx)
        for (int64_t c = 0; c < cols; c += VL) {
            const int64_t n = cols - c < VL ? cols - c : VL;
            const V z = vload_n(from + c, n, 0);
            if (d->epilogue & MG_AUX)
                estore_n(aux + c, z, n);
            estore_n(to + c,
                     d->epilogue & MG_GELU ? gelu_of(false, z)
                                           : z * gelu_of(true, eload_n(aux + c, n, 0)),
                     n);
        }
}
