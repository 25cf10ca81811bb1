/* xent_body.h - cross-entropy of rows on one type and vector unit (each_isa.h). A row is read once
 * for its maximum and once for its exponentials; it stays in the second-level cache between
 * them. */

#define row_top    NAME(row_top)
#define row_sum    NAME(row_sum)
#define row_grad   NAME(row_grad)
#define row_scale  NAME(row_scale)
#define row_target NAME(row_target)
#define row_dloss  NAME(row_dloss)

static T row_top(const E *z, int64_t n)
{
    V top[4] = {vall(-(T)INFINITY), vall(-(T)INFINITY), vall(-(T)INFINITY), vall(-(T)INFINITY)};
    int64_t c = 0;
    for (; c + 4 * VL <= n; c += 4 * VL)
        for (int i = 0; i < 4; i++)
            top[i] = vmax(eload(z + c + i * VL), top[i]);
    for (; c + VL <= n; c += VL)
        top[0] = vmax(eload(z + c), top[0]);
    if (c < n)
        top[0] = vmax(eload_n(z + c, n - c, -(T)INFINITY), top[0]);
    return vtop(vmax(vmax(top[0], top[1]), vmax(top[2], top[3])));
}

/* Sum of e[c] = exp(z[c] - top); e is written unless it is NULL, and may be z. */
MGK_INLINE double row_sum(const E *z, int64_t n, T top, E *e)
{
    V sum[4] = {vall(0), vall(0), vall(0), vall(0)};
    int64_t c = 0;
    for (; c + 4 * VL <= n; c += 4 * VL)
        for (int i = 0; i < 4; i++) {
            V p = vexp(eload(z + c + i * VL) - top);
            sum[i] += p;
            if (e)
                estore(e + c + i * VL, p);
        }
    for (; c < n; c += VL) {
        const int64_t left = n - c < VL ? n - c : VL;
        V p = vexp(eload_n(z + c, left, -(T)INFINITY) - top);
        sum[0] += p;
        if (e)
            estore_n(e + c, p, left);
    }
    return (double)vsum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* to[c] = (exp(z[c] - lse) - [c == target]) * factor for c < n; to may be z. */
static void row_grad(const E *z, int64_t n, T lse, T factor, int64_t target, E *to)
{
    const T hit = vexp(vall(eget(z + target) - lse))[0] * factor - factor;
    int64_t c = 0;
    for (; c + VL <= n; c += VL)
        estore(to + c, vexp(eload(z + c) - lse) * factor);
    if (c < n)
        estore_n(to + c, vexp(eload_n(z + c, n - c, 0) - lse) * factor, n - c);
    eput(to + target, hit);
}

#if !MGK_HALF
static void row_scale(T *to, int64_t n, T factor)
{
    int64_t c = 0;
    for (; c + VL <= n; c += VL)
        vstore(to + c, vload(to + c) * factor);
    for (; c < n; c++)
        to[c] *= factor;
}
#endif

static int64_t row_target(const mgk_xent *x, int64_t row)
{
    const mg_xent_desc *d = x->d;
    row += x->row0;
    return x->target[row / d->target_inner * d->target_outer + row % d->target_inner];
}

static T row_dloss(const mgk_xent *x, int64_t row)
{
    return ((const T *)x->dloss)[(x->row0 + row) * x->d->dloss_stride];
}

static void NAME(xent_loss)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const mgk_xent *x = ctx;
    for (int64_t row = begin; row < end; row++) {
        const E *z = (const E *)x->z + row * x->d->vocab;
        T top = row_top(z, x->d->valid);
        double lse = (double)top + log(row_sum(z, x->d->valid, top, NULL));
        ((T *)x->loss)[row] = (T)(lse - (double)eget(z + row_target(x, row)));
        if (x->lse)
            ((T *)x->lse)[row] = (T)lse;
    }
}

static void NAME(xent_grad)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const mgk_xent *x = ctx;
    const int64_t valid = x->d->valid, vocab = x->d->vocab;
    for (int64_t row = begin; row < end; row++) {
        E *dz = (E *)x->dz + row * vocab;
        row_grad((const E *)x->z + row * vocab, valid, ((const T *)x->lse)[row], row_dloss(x, row),
                 row_target(x, row), dz);
        memset(dz + valid, 0, (size_t)(vocab - valid) * sizeof(E));
    }
}

/* Keeps the exponentials of the sum and scales them: one exp for each element instead of two. For
 * halves they are computed again, because kept ones would be rounded before scaling. */
static void NAME(xent_both)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const mgk_xent *x = ctx;
    const int64_t valid = x->d->valid, vocab = x->d->vocab;
    for (int64_t row = begin; row < end; row++) {
        const E *z = (const E *)x->z + row * vocab;
        E *dz = (E *)x->dz + row * vocab;
        const T top = row_top(z, valid), dloss = row_dloss(x, row);
        const int64_t target = row_target(x, row);
        const T hit = eget(z + target); /* before z is overwritten */
        const double sum = row_sum(z, valid, top, MGK_HALF ? NULL : dz);
        const double lse = (double)top + log(sum);
        ((T *)x->loss)[row] = (T)(lse - (double)hit);
#if MGK_HALF
        row_grad(z, valid, (T)lse, dloss, target, dz);
#else
        row_scale(dz, valid, (T)((double)dloss / sum));
        dz[target] -= dloss;
#endif
        memset(dz + valid, 0, (size_t)(vocab - valid) * sizeof(E));
    }
}
