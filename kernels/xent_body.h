/* xent_body.h - rows of cross-entropy on one type and vector unit (each_isa.h). A row is read once
 * for its maximum and once for its exponentials; a row of the vocabulary lies in the second-level
 * cache meanwhile. */

#define row_top    NAME(row_top)
#define row_sum    NAME(row_sum)
#define row_grad   NAME(row_grad)
#define row_scale  NAME(row_scale)
#define row_target NAME(row_target)
#define row_dloss  NAME(row_dloss)

static T row_top(const T *z, int64_t n)
{
    V top[4] = {vall(-(T)INFINITY), vall(-(T)INFINITY), vall(-(T)INFINITY), vall(-(T)INFINITY)};
    int64_t c = 0;
    for (; c + 4 * VL <= n; c += 4 * VL)
        for (int i = 0; i < 4; i++)
            top[i] = vmax(vload(z + c + i * VL), top[i]);
    for (; c + VL <= n; c += VL)
        top[0] = vmax(vload(z + c), top[0]);
    if (c < n)
        top[0] = vmax(vload_n(z + c, n - c, -(T)INFINITY), top[0]);
    return vtop(vmax(vmax(top[0], top[1]), vmax(top[2], top[3])));
}

/* Sum of e[c] = exp(z[c] - top); e is written unless it is NULL, and may be z. */
MGK_INLINE double row_sum(const T *z, int64_t n, T top, T *e)
{
    V sum[4] = {vall(0), vall(0), vall(0), vall(0)};
    int64_t c = 0;
    for (; c + 4 * VL <= n; c += 4 * VL)
        for (int i = 0; i < 4; i++) {
            V p = vexp(vload(z + c + i * VL) - top);
            sum[i] += p;
            if (e)
                vstore(e + c + i * VL, p);
        }
    for (; c < n; c += VL) {
        const int64_t left = n - c < VL ? n - c : VL;
        V p = vexp(vload_n(z + c, left, -(T)INFINITY) - top);
        sum[0] += p;
        if (e)
            vstore_n(e + c, p, left);
    }
    return (double)vsum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* to[c] = exp(z[c] - lse) * factor. */
static void row_grad(const T *z, int64_t n, T lse, T factor, T *to)
{
    int64_t c = 0;
    for (; c + VL <= n; c += VL)
        vstore(to + c, vexp(vload(z + c) - lse) * factor);
    if (c < n)
        vstore_n(to + c, vexp(vload_n(z + c, n - c, 0) - lse) * factor, n - c);
}

static void row_scale(T *to, int64_t n, T factor)
{
    int64_t c = 0;
    for (; c + VL <= n; c += VL)
        vstore(to + c, vload(to + c) * factor);
    for (; c < n; c++)
        to[c] *= factor;
}

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
        const T *z = (const T *)x->z + row * x->d->vocab;
        T top = row_top(z, x->d->valid);
        double lse = (double)top + log(row_sum(z, x->d->valid, top, NULL));
        ((T *)x->loss)[row] = (T)(lse - (double)z[row_target(x, row)]);
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
        const T dloss = row_dloss(x, row);
        T *dz = (T *)x->dz + row * vocab;
        row_grad((const T *)x->z + row * vocab, valid, ((const T *)x->lse)[row], dloss, dz);
        dz[row_target(x, row)] -= dloss;
        memset(dz + valid, 0, (size_t)(vocab - valid) * sizeof(T));
    }
}

/* The exponentials of the sum are kept and scaled: one exp an element instead of two. */
static void NAME(xent_both)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const mgk_xent *x = ctx;
    const int64_t valid = x->d->valid, vocab = x->d->vocab;
    for (int64_t row = begin; row < end; row++) {
        const T *z = (const T *)x->z + row * vocab;
        T *dz = (T *)x->dz + row * vocab;
        const T top = row_top(z, valid), dloss = row_dloss(x, row);
        const int64_t target = row_target(x, row);
        const T hit = z[target]; /* before z is overwritten */
        const double sum = row_sum(z, valid, top, dz);
        ((T *)x->loss)[row] = (T)((double)top + log(sum) - (double)hit);
        row_scale(dz, valid, (T)((double)dloss / sum));
        dz[target] -= dloss;
        memset(dz + valid, 0, (size_t)(vocab - valid) * sizeof(T));
    }
}
