/* check_kernels.c - the calls of abi.h on a GPU (or the shim) against straightforward loops in
 * double, on fresh random inputs. Prints a line for each and 'N passed, N failed'; exits 77 where
 * there is no GPU.
 *
 *   check_kernels [SEED]
 *
 * Built from this file, check*.c, the runtime of CUDA programs and an image of
 * kernels/cuda/library.h. */
#include "runtime/sizes.h"
#include "tests/cuda/check.h"
#include "tests/sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the calls ------------------------------------------------------------------------------ */

static double tanh_of_gelu(double x)
{
    return tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh_of_gelu(x));
}

static double gelu_slope(double x)
{
    const double t = tanh_of_gelu(x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

/* Operands may begin anywhere in their buffers; the algorithm has to be one for such places. */
static int64_t some_way_in(Bench *b)
{
    return draw_int(b, 0, 1) ? 0 : draw_int(b, 1, 80);
}

/* Sizes and strides: of halves sometimes a long sum, in parts, and rows of whole words. */
static void draw_product(Bench *b, mg_gemm_desc *d)
{
    const bool deep = is_half(b->t) && draw_int(b, 0, 2) == 0;
    const int64_t whole = draw_int(b, 0, 1) ? 8 : 1, room = whole > 1 ? 0 : 5;
    d->m = draw_int(b, 1, deep ? 4 : 70);
    d->n = (draw_int(b, 1, deep ? 600 : 70) + whole - 1) / whole * whole;
    d->k = (draw_int(b, 1, deep ? 5000 : 90) + whole - 1) / whole * whole;
    d->lda = (d->ta ? d->m : d->k) + draw_int(b, 0, 5);
    d->ldb = (d->tb ? d->k : d->n) + draw_int(b, 0, room);
    d->ldc = d->n + draw_int(b, 0, room);
    d->sa = d->lda * (d->ta ? d->k : d->m);
    d->sb = d->ldb * (d->tb ? d->n : d->k);
    d->sc = d->ldc * d->m;
}

static void check_gemm(Bench *b)
{
    mg_gemm_desc d = {.dtype = b->t,
                      .out = draw_int(b, 0, 1) ? b->t : statistic(b->t),
                      .ta = draw_int(b, 0, 1),
                      .tb = draw_int(b, 0, 1),
                      .alpha = 0.5,
                      .beta = (double)draw_int(b, 0, 1),
                      .batch = draw_int(b, 1, 3)};
    const int64_t way[] = {some_way_in(b), some_way_in(b), some_way_in(b)};
    draw_product(b, &d);
    Array x = numbers(b, way[0] + d.sa * d.batch), y = numbers(b, way[1] + d.sb * d.batch),
          z = numbers_of(b, way[2] + d.sc * d.batch, d.out);
    const double *xs = x.x + way[0], *ys = y.x + way[1];
    if (is_half(b->t) && draw_int(b, 0, 3)) {
        static const int ends[] = {MG_BIAS,          MG_GELU,
                                   MG_GELU | MG_AUX, MG_GELU | MG_BIAS | MG_AUX,
                                   MG_GELU_GRAD,     MG_GELU | MG_BIAS};
        d.epilogue = (uint8_t)(d.out == MG_F32 ? MG_SUM : ends[draw_int(b, 0, 5)]);
        d.batch = 1;
        d.beta = d.epilogue == MG_SUM ? d.beta : 0;
        if (d.epilogue & (MG_AUX | MG_GELU_GRAD))
            d.ldx = draw_int(b, 0, 3) ? (d.n + 7) / 8 * 8 : d.n + draw_int(b, 0, 5);
    }
    Array extra = numbers_of(b, d.n, d.out), aux = numbers_of(b, d.m * d.ldx + 1, d.out);
    mg_gemm(&b->run, 0, &d, (char *)at(b, &x) + way[0] * mg_dtype_bytes(b->t),
            (char *)at(b, &y) + way[1] * mg_dtype_bytes(b->t),
            (char *)at(b, &z) + way[2] * mg_dtype_bytes(d.out), at(b, &extra), at(b, &aux));
    for (int64_t i = 0; i < d.batch; i++)
        for (int64_t m = 0; m < d.m; m++)
            for (int64_t n = 0; n < d.n; n++) {
                double sum = 0, *to = &z.x[way[2] + i * d.sc + m * d.ldc + n];
                for (int64_t k = 0; k < d.k; k++)
                    sum += xs[i * d.sa + (d.ta ? k * d.lda + m : m * d.lda + k)] *
                           ys[i * d.sb + (d.tb ? n * d.ldb + k : k * d.ldb + n)];
                *to = d.alpha * sum + (d.beta != 0 ? *to : 0);
                *to += d.epilogue & MG_BIAS ? extra.x[n] : 0;
                double *with = d.ldx ? &aux.x[m * d.ldx + n] : NULL;
                if (d.epilogue & MG_AUX)
                    *with = *to;
                *to = d.epilogue & MG_GELU        ? gelu(*to)
                      : d.epilogue & MG_GELU_GRAD ? *to * gelu_slope(*with)
                                                  : *to;
            }
    for (int64_t n = 0; n < d.n && d.epilogue == MG_SUM; n++) {
        extra.x[n] = 0;
        for (int64_t k = 0; k < d.k; k++)
            extra.x[n] += ys[d.tb ? n * d.ldb + k : k * d.ldb + n];
    }
    compare(b,
            d.epilogue & MG_GELU        ? "gemm + gelu"
            : d.epilogue & MG_GELU_GRAD ? "gemm, slope of gelu"
            : d.epilogue & MG_BIAS      ? "gemm + bias"
                                        : "gemm",
            &z, z.x, (double)d.k, d.epilogue & (MG_BIAS | MG_GELU | MG_GELU_GRAD) ? 1 : 0);
    if (d.epilogue & MG_AUX)
        compare(b, "gemm before gelu", &aux, aux.x, (double)d.k, d.epilogue & MG_BIAS ? 1 : 0);
    if (d.epilogue == MG_SUM)
        compare(b, "gemm's sums", &extra, extra.x, (double)d.k, 0);
    done(b, 5, (Array *[]){&x, &y, &z, &extra, &aux});
}

/* Few rows with many indices each, or so many rows that the sort takes three passes. */
static mg_gather_desc draw_table(Bench *b)
{
    const bool many = draw_int(b, 0, 3) == 0;
    mg_gather_desc d = {.dtype = b->t,
                        .indices = draw_int(b, 1, draw_int(b, 0, 3) ? 300 : 3000),
                        .tables = draw_int(b, 0, 1) ? 1 : draw_int(b, 2, 4),
                        .outer = many ? 1 : draw_int(b, 1, 3),
                        .n = many ? draw_int(b, 250, 70000) : draw_int(b, 1, 40),
                        .inner = draw_int(b, 1, many ? 8 : 150),
                        .accumulate = draw_int(b, 0, 1)};
    d.indices = (d.indices + d.tables - 1) / d.tables * d.tables;
    if (draw_int(b, 0, 1))
        d.inner = (d.inner + 7) / 8 * 8; /* rows that are read sixteen bytes at a time */
    d.index_inner = draw_int(b, 0, 1) ? d.indices : draw_int(b, 1, d.indices);
    d.index_outer = d.index_inner + (d.index_inner < d.indices ? draw_int(b, 0, 3) : 0);
    return d;
}

/* The sum of the rows to the bit: in the order of the indices, each rounded. */
static void check_tables(Bench *b)
{
    const mg_gather_desc d = draw_table(b);
    Array table = numbers(b, d.tables * d.outer * d.n * d.inner),
          y = numbers(b, d.indices * d.outer * d.inner);
    Array ix = indices(b, (d.indices / d.index_inner + 1) * d.index_outer, d.n),
          sum = numbers(b, table.n);
    const bool adds = !is_half(b->t); /* sums of halves are f32 */
    double *want = malloc((size_t)y.n * sizeof *want);
    Array work = numbers_of(b, mg_scatter_work(&d) / 4 + 1, MG_F32);
    if (!d.accumulate)
        memset(sum.x, 0, (size_t)sum.n * sizeof *sum.x);
    if (adds)
        mg_scatter_add(&b->run, 0, &d, at(b, &y), at(b, &ix), at(b, &sum), at(b, &work));
    mg_gather(&b->run, 0, &d, at(b, &table), at(b, &ix), at(b, &y));
    for (int64_t i = 0; i < d.indices; i++)
        for (int64_t o = 0; o < d.outer; o++)
            for (int64_t j = 0; j < d.inner; j++) {
                const int64_t n =
                    (int64_t)ix.x[i / d.index_inner * d.index_outer + i % d.index_inner];
                const int64_t t = i / (d.indices / d.tables);
                int64_t row = ((t * d.outer + o) * d.n + n) * d.inner + j,
                        e = (i * d.outer + o) * d.inner + j;
                want[e] = table.x[row];
                sum.x[row] += y.x[e];
                if (b->t == MG_F32)
                    sum.x[row] = (float)sum.x[row];
            }
    compare(b, "gather", &y, want, -16, -is_half(b->t));
    if (adds)
        compare(b, "scatter_add", &sum, sum.x, -16, 0);
    free(want);
    done(b, 5, (Array *[]){&table, &y, &ix, &sum, &work});
}

/* Rows in the places of others, to the bit, and of some nowhere. */
static void check_put(Bench *b)
{
    mg_gather_desc d = draw_table(b);
    d.index_inner = d.index_outer = d.indices;
    Array table = numbers(b, d.tables * d.outer * d.n * d.inner),
          x = numbers(b, d.indices * d.outer * d.inner), ix = indices(b, d.indices, d.n);
    int32_t *index = malloc((size_t)d.indices * sizeof *index);
    for (int64_t i = 0; i < d.indices; i++) { /* no index of a table twice */
        const int64_t nth = i % (d.indices / d.tables);
        ix.x[i] = index[i] = nth < d.n && draw_int(b, 0, 3) ? (int32_t)(d.n - 1 - nth) : -1;
    }
    rt_put(&b->run, ix.offset, index, d.indices * 4);
    mg_put(&b->run, 0, &d, at(b, &x), at(b, &ix), at(b, &table));
    for (int64_t i = 0; i < d.indices; i++)
        for (int64_t e = 0; ix.x[i] >= 0 && e < d.outer * d.inner; e++) {
            const int64_t t = i / (d.indices / d.tables), o = e / d.inner;
            table.x[((t * d.outer + o) * d.n + (int64_t)ix.x[i]) * d.inner + e % d.inner] =
                x.x[i * d.outer * d.inner + e];
        }
    compare(b, "put", &table, table.x, -16, 0);
    free(index);
    done(b, 3, (Array *[]){&table, &x, &ix});
}

/* The index of choice c in z, or -1 if its expert has no slot left. *slot: its slot or -1. */
static int64_t sent_to(const mg_experts_desc *d, const Array *choice, int64_t c, double *slot)
{
    int64_t each = d->positions * d->choices, e = (int64_t)choice->x[c], before = 0;
    const int64_t of_home = d->experts / d->homes, home = e / of_home;
    for (int64_t k = c / each * each; k < c; k++)
        before += (int64_t)choice->x[k] == e;
    for (int64_t k = c / each * each; k < (c / each + 1) * each; k++)
        before += (int64_t)choice->x[k] < e && (int64_t)choice->x[k] / of_home == home;
    *slot = before < d->slots ? (double)before : -1;
    const int64_t of = home * d->groups + c / each;
    return before < d->slots ? (of * d->slots + before) * d->inner : -1;
}

/* The same numbers where none begins at a multiple of sixteen bytes. */
static Array shifted(Bench *b, const Array *a)
{
    const int64_t width = mg_dtype_bytes(a->t), n = a->n;
    Array to = {take(b, (n + 1) * width) + width, n, malloc((size_t)n * sizeof *a->x), a->t};
    memcpy(to.x, a->x, (size_t)n * sizeof *a->x);
    upload(b, &to);
    return to;
}

/* The bits of a, computed another way. */
static void compare_bits(Bench *b, const char *what, const Array *a, const Array *want)
{
    double *x = download(b, want);
    compare(b, what, a, x, -16, -is_half(a->t));
    free(x);
}

static void check_experts(Bench *b)
{
    mg_experts_desc d = {b->t,
                         draw_int(b, 1, 3),
                         draw_int(b, 1, 50),
                         draw_int(b, 1, 3),
                         draw_int(b, 0, 2) ? draw_int(b, 1, 5) : 1,
                         0,
                         draw_int(b, 1, 20),
                         draw_int(b, 1, 150)};
    d.experts = d.homes * draw_int(b, 1, 4);
    if (draw_int(b, 0, 1))
        d.inner = (d.inner + 7) / 8 * 8; /* rows that are read sixteen bytes at a time */
    if (d.homes == 1)
        d.slots = d.positions * d.choices;
    int64_t n = d.groups * d.positions * d.choices;
    Array rows = numbers(b, n / d.choices * d.inner), weight = numbers_of(b, n, statistic(b->t));
    Array z = numbers(b, d.homes * d.groups * d.slots * d.inner), choice = indices(b, n, d.experts);
    Array slot = indices(b, n, 1), end = indices(b, d.groups * d.experts, 1),
          sent = numbers(b, z.n), back = numbers(b, rows.n);
    Array product = numbers_of(b, n, statistic(b->t));
    mg_slots(&b->run, 0, &d, at(b, &choice), at(b, &slot));
    mg_ends(&b->run, 0, &d, at(b, &choice), at(b, &end));
    const int64_t of_home = d.experts / d.homes;
    for (int64_t u = 0; u < end.n; u++) {
        const int64_t home = u / of_home / d.groups, group = u / of_home % d.groups;
        end.x[u] = 0;
        for (int64_t c = 0; c < n / d.groups; c++) {
            const double e = choice.x[group * (n / d.groups) + c] - (double)(home * of_home);
            end.x[u] += e >= 0 && e <= (double)(u % of_home);
        }
        end.x[u] = end.x[u] < (double)d.slots ? end.x[u] : (double)d.slots;
    }
    const bool first = draw_int(b, 0, 1); /* which of the two has weights */
    void *there = first ? at(b, &weight) : NULL, *here = first ? NULL : at(b, &weight);
    mg_dispatch(&b->run, 0, &d, at(b, &rows), at(b, &choice), at(b, &slot), there, at(b, &sent));
    mg_combine(&b->run, 0, &d, at(b, &z), at(b, &choice), at(b, &slot), here, at(b, &back));
    mg_combine_weight(&b->run, 0, &d, at(b, &z), at(b, &rows), at(b, &choice), at(b, &slot),
                      at(b, &product));
    memset(sent.x, 0, (size_t)sent.n * sizeof *sent.x);
    memset(back.x, 0, (size_t)back.n * sizeof *back.x);
    for (int64_t c = 0; c < n; c++) {
        int64_t to = sent_to(&d, &choice, c, &slot.x[c]), from = c / d.choices * d.inner;
        product.x[c] = 0;
        for (int64_t j = 0; j < d.inner && to >= 0; j++) {
            sent.x[to + j] = rows.x[from + j] * (there ? weight.x[c] : 1);
            back.x[from + j] += z.x[to + j] * (here ? weight.x[c] : 1);
            product.x[c] += z.x[to + j] * rows.x[from + j];
        }
    }
    Array rows1 = shifted(b, &rows), z1 = shifted(b, &z), sent1 = shifted(b, &sent),
          back1 = shifted(b, &back);
    mg_dispatch(&b->run, 0, &d, at(b, &rows1), at(b, &choice), at(b, &slot), there, at(b, &sent1));
    mg_combine(&b->run, 0, &d, at(b, &z1), at(b, &choice), at(b, &slot), here, at(b, &back1));
    compare_bits(b, "dispatch, shifted", &sent1, &sent);
    compare_bits(b, "combine, shifted", &back1, &back);
    compare(b, "slots", &slot, slot.x, 0, 0);
    compare(b, "ends", &end, end.x, 0, 0);
    compare(b, "dispatch", &sent, sent.x, 1, 0);
    compare(b, "combine", &back, back.x, (double)d.choices, 0);
    compare(b, "combine_weight", &product, product.x, (double)d.inner, 0);
    done(b, 13,
         (Array *[]){&rows, &weight, &z, &choice, &slot, &end, &sent, &back, &product, &rows1, &z1,
                     &sent1, &back1});
}

static double lse_of(const double *z, int64_t n)
{
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < n; c++)
        top = fmax(top, z[c]);
    for (int64_t c = 0; c < n; c++)
        sum += exp(z[c] - top);
    return log(sum) + top;
}

/* Many short rows, or few that are longer than a block reads at once; with classes behind the valid
 * ones or without. */
static mg_xent_desc draw_classes(Bench *b)
{
    const bool few = draw_int(b, 0, 1);
    mg_xent_desc d = {.dtype = b->t,
                      .rows = few ? draw_int(b, 1, 3) : draw_int(b, 1, 40),
                      .vocab = few ? draw_int(b, 700, 11000) : draw_int(b, 2, 700),
                      .dloss_stride = draw_int(b, 0, 1)};
    if (draw_int(b, 0, 1))
        d.vocab = (d.vocab + 7) / 8 * 8; /* rows that begin at multiples of sixteen bytes */
    d.valid = draw_int(b, 0, 1) ? d.vocab : draw_int(b, (d.vocab + 1) / 2, d.vocab);
    d.target_inner = d.target_outer = d.rows;
    return d;
}

/* The gradient in the place of the logits, and with logits at another place among sixteen bytes,
 * where a row begins with other scalars: to the bit, for each element has its own thread. */
static void check_xent_places(Bench *b, const mg_xent_desc *d, const Array *z, Array *t, Array *lse,
                              Array *g, const Array *dz)
{
    Array in_place = shifted(b, z), apart = numbers(b, z->n);
    mg_xent_grad(&b->run, 0, d, at(b, &in_place), at(b, t), at(b, lse), at(b, g), at(b, &apart));
    mg_xent_grad(&b->run, 0, d, at(b, &in_place), at(b, t), at(b, lse), at(b, g), at(b, &in_place));
    compare_bits(b, "xent_grad, apart", &apart, dz);
    compare_bits(b, "xent_grad, in place", &in_place, dz);
    free(in_place.x);
    free(apart.x);
}

static void check_xent(Bench *b)
{
    const mg_xent_desc d = draw_classes(b);
    mg_dtype wide = statistic(b->t);
    Array z = numbers(b, d.rows * d.vocab), g = numbers_of(b, d.rows, wide),
          loss = numbers_of(b, d.rows, wide);
    Array lse = numbers_of(b, d.rows, wide), t = indices(b, d.rows, d.valid), dz = numbers(b, z.n);
    for (int64_t r = 0; r < d.rows; r++) /* classes that cannot be */
        for (int64_t c = draw_int(b, 0, 300); c < d.valid && r % 2; c++)
            z.x[r * d.vocab + c] = c == (int64_t)t.x[r] ? 0.5 : -INFINITY;
    upload(b, &z);
    mg_xent(&b->run, 0, &d, at(b, &z), at(b, &t), at(b, &loss), at(b, &lse));
    mg_xent_grad(&b->run, 0, &d, at(b, &z), at(b, &t), at(b, &lse), at(b, &g), at(b, &dz));
    check_xent_places(b, &d, &z, &t, &lse, &g, &dz);
    for (int64_t r = 0; r < d.rows; r++) {
        const double *row = z.x + r * d.vocab;
        lse.x[r] = lse_of(row, d.valid);
        loss.x[r] = lse.x[r] - row[(int64_t)t.x[r]];
        for (int64_t c = 0; c < d.vocab; c++)
            dz.x[r * d.vocab + c] =
                c < d.valid
                    ? g.x[r * d.dloss_stride] * (exp(row[c] - lse.x[r]) - (c == (int64_t)t.x[r]))
                    : 0;
    }
    compare(b, "xent", &loss, loss.x, 16, 0);
    compare(b, "xent lse", &lse, lse.x, 16, 0);
    compare(b, "xent_grad", &dz, dz.x, 16, 0);
    done(b, 6, (Array *[]){&z, &g, &loss, &lse, &t, &dz});
}

/* True if NaN is where it has to be, and nowhere else; of rows of n numbers the odd ones. */
static void compare_nan(Bench *b, const char *what, const Array *a, int64_t n, int64_t valid)
{
    double *x = download(b, a);
    int64_t wrong = 0;
    for (int64_t i = 0; i < a->n; i++)
        wrong += (isnan(x[i]) != 0) != (i / n % 2 && i % n < valid);
    printf("%s %-21s of NaN: %" PRId64 " of %" PRId64 " numbers are wrong\n",
           wrong ? "FAIL" : "ok  ", what, wrong, a->n);
    *(wrong ? &b->failed : &b->passed) += 1;
    free(x);
}

/* A NaN or +infinity among the logits of odd rows, which the loss and all gradients of such a row
 * become; nothing of it is in the other rows. */
static void check_xent_nan(Bench *b)
{
    mg_xent_desc d = draw_classes(b);
    d.rows = 4;
    d.target_inner = d.target_outer = d.rows;
    Array z = numbers(b, d.rows * d.vocab), g = numbers_of(b, d.rows, statistic(b->t)),
          loss = numbers_of(b, d.rows, statistic(b->t)),
          lse = numbers_of(b, d.rows, statistic(b->t)), t = indices(b, d.rows, d.valid);
    for (int64_t r = 1; r < d.rows; r += 2)
        z.x[r * d.vocab + draw_int(b, 0, d.valid - 1)] = r % 4 == 1 ? NAN : INFINITY;
    for (int64_t r = 0; r < d.rows; r++) /* behind the valid classes nobody looks */
        for (int64_t c = d.valid; c < d.vocab; c++)
            z.x[r * d.vocab + c] = NAN;
    upload(b, &z);
    mg_xent(&b->run, 0, &d, at(b, &z), at(b, &t), at(b, &loss), at(b, &lse));
    mg_xent_grad(&b->run, 0, &d, at(b, &z), at(b, &t), at(b, &lse), at(b, &g), at(b, &z));
    compare_nan(b, "xent", &loss, 1, 1);
    compare_nan(b, "xent lse", &lse, 1, 1);
    compare_nan(b, "xent_grad", &z, d.vocab, d.valid);
    done(b, 5, (Array *[]){&z, &g, &loss, &lse, &t});
}

/* x w by rows, then as check_xent, then both products of the gradients. */
static void head_want(const mg_head_desc *d, const Array *x, const Array *w, const Array *t,
                      const Array *g, double *loss, double *dx, double *dw)
{
    const int64_t vocab = d->xent.vocab, hidden = d->hidden;
    double *z = malloc((size_t)vocab * sizeof *z);
    for (int64_t r = 0; r < d->xent.rows; r++) {
        for (int64_t c = 0; c < vocab; c++) {
            z[c] = 0;
            for (int64_t h = 0; h < hidden; h++)
                z[c] += x->x[r * hidden + h] * w->x[d->w_by_vocab ? c * hidden + h : h * vocab + c];
        }
        const double lse = lse_of(z, d->xent.valid);
        loss[r] = lse - z[(int64_t)t->x[r]];
        for (int64_t c = 0; c < vocab; c++) {
            double dz =
                c < d->xent.valid ? g->x[0] * (exp(z[c] - lse) - (c == (int64_t)t->x[r])) : 0;
            for (int64_t h = 0; h < hidden; h++) {
                int64_t at_w = d->w_by_vocab ? c * hidden + h : h * vocab + c;
                dx[r * hidden + h] += dz * w->x[at_w];
                dw[at_w] += dz * x->x[r * hidden + h];
            }
        }
    }
    free(z);
}

static void check_head(Bench *b)
{
    mg_head_desc d = {
        .xent = {.dtype = b->t, .rows = draw_int(b, 1, 40), .vocab = draw_int(b, 2, 200)},
        .hidden = draw_int(b, 1, 50),
        .chunk = draw_int(b, 1, 20),
        .w_by_vocab = draw_int(b, 0, 1),
        .dw_accumulate = draw_int(b, 0, 1),
        .dw = draw_int(b, 0, 1) ? b->t : statistic(b->t)};
    d.frozen = !d.dw_accumulate && draw_int(b, 0, 1);
    d.xent.valid = d.xent.vocab;
    d.xent.target_inner = d.xent.target_outer = d.xent.rows;
    Array x = numbers(b, d.xent.rows * d.hidden), w = numbers(b, d.hidden * d.xent.vocab);
    Array g = numbers_of(b, 1, statistic(b->t)), t = indices(b, d.xent.rows, d.xent.vocab),
          loss = numbers_of(b, d.xent.rows, statistic(b->t));
    Array dx = numbers(b, x.n), dw = numbers_of(b, w.n, d.dw),
          work = numbers(b, d.chunk * mg_head_row(&d));
    mg_head(&b->run, 0, &d, at(b, &x), at(b, &w), at(b, &t), at(b, &g), at(b, &loss), at(b, &dx),
            d.frozen ? NULL : at(b, &dw), at(b, &work));
    memset(dx.x, 0, (size_t)dx.n * sizeof *dx.x);
    if (!d.dw_accumulate)
        memset(dw.x, 0, (size_t)dw.n * sizeof *dw.x);
    head_want(&d, &x, &w, &t, &g, loss.x, dx.x, dw.x);
    double terms = (double)(d.hidden + d.xent.vocab + d.xent.rows);
    /* Logits and their gradients are stored; of dw each chunk is added to what is stored. */
    double chunks = (double)((d.xent.rows + d.chunk - 1) / d.chunk);
    compare(b, "head loss", &loss, loss.x, terms, 4);
    compare(b, "head dx", &dx, dx.x, terms, 8);
    if (!d.frozen)
        compare(b, "head dw", &dw, dw.x, terms, 8 + (is_half(d.dw) ? chunks : 0));
    done(b, 8, (Array *[]){&x, &w, &g, &t, &loss, &dx, &dw, &work});
}

static void check_random(Bench *b)
{
    mg_random_desc d = {b->t, (uint64_t)(draw(b) * 0x1p60), draw_int(b, 1, 999)};
    int64_t seed = draw_int(b, 0, 1000), step = draw_int(b, 0, 1000);
    int32_t slot = (int32_t)draw_int(b, 0, 9);
    Array out = numbers(b, d.elements);
    int64_t at_seed = take(b, 8), at_step = take(b, 8), at_slot = take(b, 4);
    rt_put(&b->run, at_seed, &seed, 8);
    rt_put(&b->run, at_step, &step, 8);
    rt_put(&b->run, at_slot, &slot, 4);
    const char *arena = b->run.arena;
    mg_random(&b->run, 0, &d, (const int64_t *)(arena + at_seed),
              (const int64_t *)(arena + at_step), (const int32_t *)(arena + at_slot), at(b, &out));
    for (int64_t e = 0; e < d.elements; e++) {
        uint64_t g = (uint64_t)slot * (uint64_t)d.elements + (uint64_t)e,
                 key = d.key ^ (uint64_t)seed;
        uint32_t w[4];
        mg_philox((uint32_t[4]){(uint32_t)(g / 4), (uint32_t)(g / 4 >> 32), (uint32_t)step, 0},
                  (uint32_t[2]){(uint32_t)key, (uint32_t)(key >> 32)}, w);
        out.x[e] = (w[g % 4] >> 8) * 0x1p-24;
    }
    compare(b, "random", &out, out.x, -16, 0); /* the same bits */
    done(b, 1, (Array *[]){&out});
}

static void check_all(Bench *b)
{
    check_gemm(b);
    check_tables(b);
    check_put(b);
    check_experts(b);
    check_grouped(b);
    check_xent(b);
    check_xent_nan(b);
    check_head(b);
    check_attention(b);
    check_convolutions(b);
    if (!is_half(b->t))
        check_random(b);
    if (b->t == MG_BF16)
        check_tiles(b);
}

/* check_kernels [SEED [attention | conv | grouped | tiles]]: with the word, attention of halves,
 * convolutions, grouped products, or what is rounded in tiles, alone. */
int main(int argc, char **argv)
{
    const bool attention = argc > 2 && strcmp(argv[2], "attention") == 0;
    const bool convolutions = argc > 2 && strcmp(argv[2], "conv") == 0;
    const bool grouped = argc > 2 && strcmp(argv[2], "grouped") == 0;
    const bool tiles = argc > 2 && strcmp(argv[2], "tiles") == 0;
    Bench b = {.run = {.program = &mg_main, .threads = 1}, .rng = 1};
    b.rng = argc > 1 ? strtoull(argv[1], NULL, 10) * 2654435761u + 1 : 12345;
    rt_device_open(&b.run);
    rt_arena_map(&b.run);
    const uint64_t one_of = attention ? 4 : SANITIZED ? 2 : 1;
    uint64_t i = 0;
    for (int iteration = 0; iteration < 6; iteration++)
        for (b.t = attention ? MG_BF16 : MG_F32; b.t <= MG_F16; b.t++) {
            if (!sampled(i++, one_of))
                continue;
            if (attention)
                check_attention(&b);
            else if (convolutions)
                check_convolutions(&b);
            else if (grouped)
                check_grouped(&b);
            else if (tiles && b.t == MG_BF16)
                check_tiles(&b);
            else if (!tiles)
                check_all(&b);
        }
    rt_device_close(&b.run);
    printf("%d passed, %d failed\n", b.passed, b.failed);
    return b.failed || !b.passed;
}
