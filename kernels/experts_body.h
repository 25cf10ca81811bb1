/* experts_body.h - moves rows to experts and back, on one type and vector unit (each_isa.h). Memory
 * limits all of it. */

#define weight_of   NAME(weight_of)
#define send_row    NAME(send_row)
#define fetch_strip NAME(fetch_strip)

MGK_INLINE T weight_of(const mgk_experts *x, int64_t c)
{
    return x->weight ? ((const T *)x->weight)[c] : 1;
}

static void send_row(const E *from, T weight, E *to, int64_t n)
{
    int64_t j = 0;
    for (; j + VL <= n; j += VL)
        estore(to + j, eload(from + j) * weight);
    if (j < n)
        estore_n(to + j, eload_n(from + j, n - j, 0) * weight, n - j);
}

/* Units are positions of all groups. */
static void NAME(experts_send)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const mgk_experts *x = ctx;
    const mg_experts_desc *d = x->d;
    for (int64_t p = begin; p < end; p++)
        for (int64_t c = p * d->choices; c < (p + 1) * d->choices; c++) {
            int64_t row = mgk_row_of(x, c);
            const E *from = (const E *)x->rows + p * d->inner;
            E *to = (E *)x->z + row * d->inner;
            if (row >= 0 && x->weight)
                send_row(from, weight_of(x, c), to, d->inner);
            else if (row >= 0)
                memcpy(to, from, (size_t)d->inner * sizeof(E));
        }
}

/* Elements [j, j + n) of position p; n is at most VL. */
MGK_INLINE void fetch_strip(const mgk_experts *x, int64_t p, int64_t j, int64_t n)
{
    const mg_experts_desc *d = x->d;
    V sum = vall(0);
    for (int64_t c = p * d->choices; c < (p + 1) * d->choices; c++) {
        int64_t row = mgk_row_of(x, c);
        const E *from = (const E *)x->z + row * d->inner + j;
        if (row >= 0)
            sum += (n == VL ? eload(from) : eload_n(from, n, 0)) * weight_of(x, c);
    }
    E *to = (E *)x->rows + p * d->inner + j;
    if (n == VL)
        estore(to, sum);
    else
        estore_n(to, sum, n);
}

static void NAME(experts_fetch)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const mgk_experts *x = ctx;
    const int64_t n = x->d->inner;
    for (int64_t p = begin; p < end; p++) {
        int64_t j = 0;
        for (; j + VL <= n; j += VL)
            fetch_strip(x, p, j, VL);
        if (j < n)
            fetch_strip(x, p, j, n - j);
    }
}

/* Units are choices of all groups. */
static void NAME(experts_product)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const mgk_experts *x = ctx;
    const mg_experts_desc *d = x->d;
    for (int64_t c = begin; c < end; c++) {
        int64_t row = mgk_row_of(x, c), j = 0, n = d->inner;
        const E *a = (const E *)x->z + row * n, *b = (const E *)x->rows + c / d->choices * n;
        V sum[2] = {vall(0), vall(0)};
        for (; row >= 0 && j + 2 * VL <= n; j += 2 * VL)
            for (int i = 0; i < 2; i++)
                sum[i] += eload(a + j + i * VL) * eload(b + j + i * VL);
        for (; row >= 0 && j < n; j += VL) {
            const int64_t left = n - j < VL ? n - j : VL;
            sum[0] += eload_n(a + j, left, 0) * eload_n(b + j, left, 0);
        }
        ((T *)x->weight)[c] = vsum(sum[0] + sum[1]);
    }
}
