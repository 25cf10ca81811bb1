/* rates.c - how long a product takes by its shape; collectives are network.c's.
 *
 * A GPU computes a product in tiles of its result, each on one multiprocessor, in waves of as many
 * tiles as there are multiprocessors; the last wave takes as long as a full one, and at the end of
 * each a tile is written while nothing is multiplied. So with T tiles of R x C elements, e bytes
 * each, on S multiprocessors
 *   seconds = ceil(T / S) (2 R C k / (share peak / S) + e R C / (bandwidth / S))
 * for the fastest of a few shapes of tiles (cuBLAS and CUTLASS choose alike), which may also cut
 * the sum over k; and no less than its bytes take.
 *
 * A matrix whose rows do not begin at multiples of 16 bytes is read by no kernel that loads such
 * words: its product is taken to run at half the rate, and a cross-entropy of such rows to read a
 * number at a time, at a quarter of the bandwidth (guesses: a padded vocabulary made nanoGPT's step
 * 25% faster, with a head of a third of its products).
 *
 * A host packs the operands of a product, multiplies and writes, one after the other: the sum of
 * arithmetic and traffic (schedule.c). With so few rows that one tile has them all, nothing waits:
 * each number of the other matrix is multiplied as it is read, once, seconds = max(2 m n k / (share
 * peak), e n k / (weights_share bandwidth)) + e m (n + k) / bandwidth In a scan that matrix is the
 * same at each step, and comes from a cache if it fits one.
 *
 * A convolution is priced by its own kernels' tiles (convolution.c).
 *
 * A head is its products and its cross-entropy, a chunk of rows after the other. What a product is
 * added to is read as well as written at the end of a tile. */
#include "plan/rates.h"

#include "plan/convolution.h"
#include "plan/levels.h"
#include "plan/network.h"
#include "runtime/sizes.h"

#include <math.h>

/* ---- products -------------------------------------------------------------------------------- */

/* A tile of half the size reads its operands more often per multiplication. */
static const double HALF_TILE_SHARE = 0.9;
enum { SPLITS = 8 }; /* parts that the sum may be cut into */
static const double UNALIGNED_SHARE = 0.5, UNALIGNED_BANDWIDTH = 0.25;

static bool in_words(int64_t row, mg_dtype t)
{
    return row * mg_dtype_bytes(t) % 16 == 0;
}

static bool is_aligned(const mg_gemm_desc *g)
{
    return in_words(g->lda, g->dtype) && in_words(g->ldb, g->dtype) && in_words(g->ldc, g->out);
}

typedef struct Tiles {
    const mg_gemm_desc *g;
    double multiplier; /* FLOP/s of one multiprocessor */
    double bandwidth;  /* bytes/s, its share of the memory's */
    double processors;
} Tiles;

static double by_tiles(const Tiles *t, double rows, double columns, int splits, double share)
{
    const mg_gemm_desc *g = t->g;
    double tiles = ceil((double)g->m / rows) * ceil((double)g->n / columns) * (double)g->batch;
    double waves = ceil(tiles * splits / t->processors);
    double area = rows * columns;
    double bytes = (double)mg_dtype_bytes(g->out) * (g->beta != 0 ? 2 : 1);
    if (splits > 1)
        bytes = 2 * 4; /* parts are f32, added up */
    double depth = ceil((double)g->k / splits);
    return waves * (2 * area * depth / (t->multiplier * share) + area * bytes / t->bandwidth);
}

/* Of a product that moves so many bytes. */
static double product_seconds(const Plan *p, const mg_gemm_desc *g, double bytes)
{
    const Device *d = p->device;
    const double whole =
        mg_dtype_is_fp8(g->dtype) ? product_flops_fp8(d) : product_flops(d, &p->module->train);
    double peak = whole * (is_aligned(g) ? 1 : UNALIGNED_SHARE);
    Tiles t = {.g = g,
               .multiplier = peak / d->threads,
               .bandwidth = d->bandwidth / d->threads,
               .processors = d->threads};
    double rows = d->product_rows, columns = d->product_columns, best = INFINITY;
    for (int s = 1; s <= SPLITS; s *= 2) {
        best = fmin(best, by_tiles(&t, rows, columns, s, 1));
        best = fmin(best, by_tiles(&t, columns, rows, s, 1));
        best =
            fmin(best, by_tiles(&t, fmin(rows, columns), fmin(rows, columns), s, HALF_TILE_SHARE));
    }
    return fmax(fmax(best, bytes / d->bandwidth), d->launch);
}

/* Rows of a tile of a host's product, by the kernels with 64-byte vectors
 * (kernels/product_tiles.h). */
enum { FEW_ROWS = 14 };

/* Of a product that a host multiplies as it reads. */
static double few_rows_seconds(const Plan *p, const Action *a)
{
    const Device *d = p->device;
    const mg_gemm_desc *g = &a->gemm;
    const double weights =
        (double)g->batch * (double)g->n * (double)g->k * (double)mg_dtype_bytes(g->dtype);
    const double multiplies = a->flops / product_flops(d, &p->module->train);
    const double reads = weights / (d->weights_share * d->bandwidth);
    return fmax(fmax(multiplies, reads) + fmax(a->bytes_moved - weights, 0) / d->bandwidth,
                d->launch);
}

/* ---- heads ----------------------------------------------------------------------------------- */

static double head_product(const Plan *p, const mg_gemm_desc *g)
{
    double m = (double)g->m, n = (double)g->n, k = (double)g->k;
    double bytes = (m * k + k * n) * (double)mg_dtype_bytes(g->dtype) +
                   m * n * (double)mg_dtype_bytes(g->out) * (g->beta != 0 ? 2 : 1);
    return product_seconds(p, g, bytes);
}

/* Of a chunk: its logits, their cross-entropy, which reads them once (the second time from a
 * cache) and writes their gradients, and the products of these. */
static double chunk_seconds(const Plan *p, const Action *a, int64_t rows, bool add)
{
    const Device *d = p->device;
    const mg_head_desc *h = &a->head;
    const bool grad = a->kind == ACT_head;
    const mg_gemm_desc z = mg_head_z(h, rows), dx = mg_head_dx(h, rows),
                       dw = mg_head_dw(h, rows, add);
    double logits = (double)(rows * mg_head_row(h));
    double bytes = logits * (double)mg_dtype_bytes(h->xent.dtype) * (grad ? 2 : 1);
    double exps = logits * (grad ? 2 : 1);
    double all =
        head_product(p, &z) + fmax(fmax(bytes / d->bandwidth, exps / d->exponentials), d->launch);
    all += grad ? head_product(p, &dx) : 0;
    return grad && !h->frozen ? all + head_product(p, &dw) : all;
}

int64_t rate_logits(const mg_head_desc *h)
{
    return mg_head_row(h) * mg_dtype_bytes(h->xent.dtype);
}

static double head_seconds(const Plan *p, const Action *a)
{
    const mg_head_desc *h = &a->head;
    double all = 0;
    for (int64_t row = 0; row < h->xent.rows; row += h->chunk) {
        int64_t left = h->xent.rows - row;
        all += chunk_seconds(p, a, left < h->chunk ? left : h->chunk, row || h->dw_accumulate);
    }
    return all;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* A cross-entropy by itself, whose logits lie as the plan has them. */
static double xent_seconds(const Plan *p, const Action *a)
{
    const double bytes = a->bytes_moved / p->device->bandwidth;
    return in_words(a->xent.vocab, a->xent.dtype) ? a->seconds
                                                  : fmax(a->seconds, bytes / UNALIGNED_BANDWIDTH);
}

static void rate(const Plan *p, Program *g)
{
    const Device *d = p->device;
    for (size_t i = 0; i < g->actions.n; i++) {
        Action *a = &g->actions.data[i];
        if (a->kind == ACT_gemm && d->product_rows && d->product_columns)
            a->seconds = product_seconds(p, &a->gemm, a->bytes_moved);
        if (a->kind == ACT_gemm && d->target == TARGET_host && a->gemm.m <= FEW_ROWS)
            a->seconds = few_rows_seconds(p, a);
        if ((a->kind == ACT_head || a->kind == ACT_head_loss) && d->product_rows &&
            d->product_columns)
            a->seconds = head_seconds(p, a);
        if ((a->kind == ACT_xent || a->kind == ACT_xent_grad) && d->target == TARGET_cuda)
            a->seconds = xent_seconds(p, a);
        if (a->kind == ACT_conv && d->target == TARGET_cuda)
            a->seconds = convolution_seconds(p, a);
        if ((a->kind == ACT_grouped || a->kind == ACT_grouped_weight) && d->target == TARGET_cuda)
            a->seconds = grouped_seconds(p, a);
        if (action_transfers(a)) {
            const DeviceLevel l = levels_share(p->module, d, action_level(a));
            a->seconds = l.seconds + a->bytes_moved / (a->kind == ACT_fetch ? l.in : l.out);
        }
        if (action_sends(a))
            a->seconds = fmax(network_collective(p->module, d, &a->comm),
                              fmax(a->bytes_moved / d->bandwidth, d->launch));
    }
}

static void total(Program *g)
{
    g->busy = g->again = 0;
    for (size_t i = 0; i < g->actions.n; i++) {
        const Action *a = &g->actions.data[i];
        g->busy += a->seconds * a->times;
        g->again += a->again ? a->seconds * a->times : 0;
    }
    g->seconds = g->busy;
}

void plan_rates(Plan *p)
{
    Program *const *const all = p->programs;
    for (int i = 0; i < PLAN_PROGRAMS; i++)
        if (all[i]) {
            rate(p, all[i]);
            total(all[i]);
        }
}
