/* calls.c - runs the calls of emitted code (abi.h) as launches in the stream. Only the guard
 * waits. */
#include "runtime/cuda/cuda.h"
#include "runtime/data/batch.h"
#include "runtime/health/health.h"
#include "runtime/net/ranks.h"

#include <math.h>

enum { BLOCK = 256, GRID_MAX = 1 << 20, GRID_Y_MAX = 65535 };

void rt_cuda_launch(mg_run *r, const void *kernel, int64_t x, int64_t y, int block, int shared,
                    void **args)
{
    dim3 grid = {(unsigned)x, (unsigned)y, 1}, threads = {(unsigned)block, 1, 1};
    if (x > 0 && y > 0)
        rt_cuda_must(cudaLaunchKernel(kernel, grid, threads, args, (size_t)shared, r->cuda->stream),
                     r->program->actions[r->action].name);
}

void mg_cuda_launch(mg_run *r, int action, int kernel, void *const *p)
{
    const mg_cuda_kernel *k = &r->program->cuda_kernels[kernel];
    void *args[256];
    mg_begin(r, action);
    for (int i = 0; i < k->npointers; i++)
        args[i] = (void *)&p[k->pointer[i]];
    rt_cuda_launch(r, r->cuda->kernel[kernel], k->grid_x, k->grid_y, k->block, 0, args);
    mg_end(r, action);
    rt_watch_outputs(r, action, p);
}

/* Offset of a type among the kernels for several types. */
static int variant(mg_dtype t)
{
    return t == MG_F64 ? 1 : t == MG_BF16 ? 2 : t == MG_F16 ? 3 : 0;
}

/* The type of losses and normalisers of numbers of type t. */
static mg_dtype statistic(mg_dtype t)
{
    return t == MG_F64 ? MG_F64 : MG_F32;
}

static int64_t blocks_for(int64_t elements, int block)
{
    int64_t n = (elements + block - 1) / block;
    return n < GRID_MAX ? n : GRID_MAX;
}

/* Blocks of a kernel without a loop over what its threads do. */
static int64_t blocks_for_each(int64_t threads, int block)
{
    return (threads + block - 1) / block;
}

/* ---- memory ------------------------------------------------------------------------------- */

void mg_zero(mg_run *r, int action, void *p, int64_t bytes)
{
    mg_begin(r, action);
    rt_cuda_must(cudaMemsetAsync(p, 0, (size_t)bytes, r->cuda->stream), "clearing");
    mg_end(r, action);
}

void mg_copy(mg_run *r, int action, void *to, const void *from, int64_t bytes)
{
    mg_begin(r, action);
    rt_cuda_must(
        cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, r->cuda->stream),
        "copying");
    mg_end(r, action);
}

bool mg_guard(mg_run *r, int action, const double *loss, const double *norm)
{
    bool passes = rt_graphs_guard(r, action, loss, norm);
    mg_ended(r, action);
    return passes;
}

/* Decides the guard. Loss and norm are the same on all ranks; the leader, which also detects
 * spikes, decides for all. */
bool rt_cuda_guard(mg_run *r, int action, const double *loss, const double *norm)
{
    bool passes = true;
    if (rt_health_guard(r, action))
        return false;
    rt_batch_ahead(r); /* while the GPU computes what the guard waits for */
    if (!r->rank) {
        double l = rt_get_f64(r, (const char *)loss - r->arena);
        double n = norm ? rt_get_f64(r, (const char *)norm - r->arena) : 0;
        passes = rt_guard_passes(r, action, l, n);
    } else {
        rt_device_wait(r); /* so that this rank hears the decision when it can go on */
    }
    return r->ranks ? rt_ranks_agree(r, passes) : passes;
}

/* ---- marks of collectives (comm.c) -------------------------------------------------------- */

static void mark(mg_run *r, uint32_t value)
{
    uint32_t *at = r->cuda->marks + 2 * r->cuda->at;
    rt_cuda_call(r, FIXED_mark, 1, 1, 1, (void *[]){&at, &value});
}

void rt_cuda_enter(mg_run *r, int action)
{
    mark(r, (uint32_t)action + 1);
}

void rt_cuda_leave(mg_run *r)
{
    mark(r, 0);
}

/* ---- tables ------------------------------------------------------------------------------- */

/* The kernels count indices and rows of a table in 32 bits. */
static void check_indices(const mg_gather_desc *d)
{
    if (d->indices > INT32_MAX || d->tables * d->n > INT32_MAX)
        rt_die(RT_FAILED, "a look-up of %lld indices in %lld rows is not built; the limit is %d",
               (long long)d->indices, (long long)(d->tables * d->n), INT32_MAX);
}

/* Bytes that are copied or added at once: as many as 16, where rows of `row` bytes of both begin at
 * multiples of that. */
static int64_t word_of(int64_t row, const void *a, const void *b)
{
    const uint64_t all = 16 | (uint64_t)row | (uintptr_t)a | (uintptr_t)b;
    return (int64_t)(all & -all);
}

/* Copies rows by words: `first` is the kernel of one byte, which takes both pointers in its order.
 */
static void move_rows(mg_run *r, const mg_gather_desc *d, rt_fixed first, const void *from,
                      const int32_t *index, void *to)
{
    enum { PART = 1024 }; /* words of a row for a warp */
    const int64_t width = mg_dtype_bytes(d->dtype), word = word_of(d->inner * width, from, to);
    mg_gather_desc words = *d;
    int log = 0, kernel = (int)first;
    check_indices(d);
    words.inner = d->inner * width / word;
    while (1 << log < 32 && 1 << log < words.inner)
        log++;
    while ((int64_t)1 << (kernel - (int)first) < word)
        kernel++;
    const int64_t parts = (words.inner + PART - 1) / PART;
    rt_cuda_call(r, kernel, blocks_for_each(d->indices * d->outer << log, MG_GATHER_BLOCK),
                 parts < GRID_Y_MAX ? parts : GRID_Y_MAX, MG_GATHER_BLOCK,
                 (void *[]){&words, &log, &from, &index, &to});
}

void mg_gather(mg_run *r, int action, const mg_gather_desc *d, const void *table,
               const int32_t *index, void *y)
{
    mg_begin(r, action);
    move_rows(r, d, FIXED_gather_1, table, index, y);
    mg_end(r, action);
    if (d->dtype <= MG_F16)
        mg_output(r, action, y, d->indices * d->outer * d->inner, d->dtype);
}

void mg_put(mg_run *r, int action, const mg_gather_desc *d, const void *x, const int32_t *index,
            void *table)
{
    mg_begin(r, action);
    move_rows(r, d, FIXED_put_1, x, index, table);
    mg_end(r, action);
    if (d->dtype <= MG_F16)
        mg_output(r, action, table, d->tables * d->outer * d->n * d->inner, d->dtype);
}

/* Sorts the positions of the indices in `work`; returns where they are. */
static const uint64_t *sort_indices(mg_run *r, const mg_gather_desc *d, const int32_t *index,
                                    char *work)
{
    const int passes = mg_sort_passes(d);
    int bits = mg_sort_bits(d);
    int64_t tiles = mg_sort_tiles(d);
    const int64_t blocks = (tiles + MG_SORT_WARPS - 1) / MG_SORT_WARPS;
    uint64_t *placed = (uint64_t *)work, *from = NULL, *to = placed;
    uint32_t *counts = (uint32_t *)(work + mg_sort_placed(d));
    for (int pass = 0; pass < passes; pass++) {
        int shift = pass * bits;
        to = placed + pass % 2 * d->indices;
        rt_cuda_call(r, FIXED_sort_count, blocks, 1, 32 * MG_SORT_WARPS,
                     (void *[]){(void *)d, &shift, &bits, &tiles, &index, &from, &counts});
        rt_cuda_call(r, FIXED_sort_scan, ((1 << bits) + MG_SORT_WARPS - 1) / MG_SORT_WARPS, 1,
                     32 * MG_SORT_WARPS, (void *[]){&bits, &tiles, &counts});
        rt_cuda_call(r, FIXED_sort_place, blocks, 1, 32 * MG_SORT_WARPS,
                     (void *[]){(void *)d, &shift, &bits, &tiles, &index, &from, &counts, &to});
        from = to;
    }
    return to;
}

void mg_scatter_add(mg_run *r, int action, const mg_gather_desc *d, const void *dy,
                    const int32_t *index, void *dtable, void *work)
{
    const int64_t n = d->tables * d->outer * d->n * d->inner, width = mg_dtype_bytes(d->dtype);
    int wide = word_of(d->inner * width, dy, dtable) == 16;
    const int64_t strip = 32 * (wide ? 16 / width : 1), strips = (d->inner + strip - 1) / strip;
    check_indices(d);
    mg_begin(r, action);
    if (!d->accumulate)
        rt_cuda_must(cudaMemsetAsync(dtable, 0, (size_t)(n * width), r->cuda->stream),
                     "clearing a table");
    if (d->indices > 0 && n > 0) {
        const uint64_t *sorted = sort_indices(r, d, index, work);
        rt_cuda_call(
            r, FIXED_scatter_add + variant(d->dtype),
            blocks_for_each((d->indices + 31) / 32 * d->outer * strips * 32, MG_SCATTER_BLOCK), 1,
            MG_SCATTER_BLOCK, (void *[]){(void *)d, &wide, &sorted, &dy, &dtable});
    }
    mg_end(r, action);
    mg_output(r, action, dtable, n, d->dtype);
}

/* ---- experts ------------------------------------------------------------------------------ */

void mg_top(mg_run *r, int action, const mg_top_desc *d, const void *x, int32_t *y)
{
    mg_begin(r, action);
    rt_cuda_call(r, FIXED_top + variant(d->dtype), blocks_for(d->rows, BLOCK), 1, BLOCK,
                 (void *[]){(void *)d, &x, &y});
    mg_end(r, action);
    mg_output(r, action, y, d->rows * d->top, MG_I32);
}

void mg_slots(mg_run *r, int action, const mg_experts_desc *d, const int32_t *choice, int32_t *slot)
{
    const int warps = MG_SLOTS_BLOCK / 32;
    mg_begin(r, action);
    rt_cuda_call(r, FIXED_slots, (d->groups * d->experts + warps - 1) / warps, 1, MG_SLOTS_BLOCK,
                 (void *[]){(void *)d, &choice, &slot});
    mg_end(r, action);
    mg_output(r, action, slot, d->groups * d->positions * d->choices, MG_I32);
}

void mg_ends(mg_run *r, int action, const mg_experts_desc *d, const int32_t *choice, int32_t *end)
{
    const int warps = MG_SLOTS_BLOCK / 32;
    mg_begin(r, action);
    rt_cuda_call(r, FIXED_ends, (d->groups * d->experts + warps - 1) / warps, 1, MG_SLOTS_BLOCK,
                 (void *[]){(void *)d, &choice, &end});
    mg_end(r, action);
    mg_output(r, action, end, d->groups * d->experts, MG_I32);
}

void mg_dispatch(mg_run *r, int action, const mg_experts_desc *d, const void *rows,
                 const int32_t *choice, const int32_t *slot, const void *weight, void *z)
{
    int64_t n = d->homes * d->groups * d->slots * d->inner;
    mg_begin(r, action);
    rt_cuda_must(cudaMemsetAsync(z, 0, (size_t)(n * mg_dtype_bytes(d->dtype)), r->cuda->stream),
                 "clearing slots");
    rt_cuda_call(r, FIXED_dispatch + variant(d->dtype), d->groups * d->positions * d->choices, 1,
                 MG_EXPERTS_BLOCK, (void *[]){(void *)d, &rows, &choice, &slot, &weight, &z});
    mg_end(r, action);
    mg_output(r, action, z, n, d->dtype);
}

void mg_combine(mg_run *r, int action, const mg_experts_desc *d, const void *z,
                const int32_t *choice, const int32_t *slot, const void *weight, void *rows)
{
    mg_begin(r, action);
    rt_cuda_call(r, FIXED_combine + variant(d->dtype), d->groups * d->positions, 1,
                 MG_EXPERTS_BLOCK, (void *[]){(void *)d, &z, &choice, &slot, &weight, &rows});
    mg_end(r, action);
    mg_output(r, action, rows, d->groups * d->positions * d->inner, d->dtype);
}

void mg_combine_weight(mg_run *r, int action, const mg_experts_desc *d, const void *z,
                       const void *rows, const int32_t *choice, const int32_t *slot, void *weight)
{
    int64_t n = d->groups * d->positions * d->choices;
    mg_begin(r, action);
    rt_cuda_call(r, FIXED_combine_weight + variant(d->dtype), n, 1, MG_EXPERTS_BLOCK,
                 (void *[]){(void *)d, &z, &rows, &choice, &slot, &weight});
    mg_end(r, action);
    mg_output(r, action, weight, n, statistic(d->dtype));
}

void mg_random(mg_run *r, int action, const mg_random_desc *d, const int64_t *seed,
               const int64_t *step, const int32_t *slot, void *out)
{
    mg_begin(r, action);
    rt_cuda_call(r, FIXED_random + variant(d->dtype), blocks_for(d->elements / 4 + 2, BLOCK), 1,
                 BLOCK, (void *[]){(void *)d, &seed, &step, &slot, &out});
    mg_end(r, action);
    mg_output(r, action, out, d->elements, d->dtype);
}

/* ---- cross-entropy ------------------------------------------------------------------------ */

void mg_xent(mg_run *r, int action, const mg_xent_desc *d, const void *z, const int32_t *target,
             void *loss, void *lse)
{
    mg_begin(r, action);
    rt_cuda_call(r, FIXED_xent + variant(d->dtype), d->rows, 1, MG_XENT_BLOCK,
                 (void *[]){(void *)d, &z, &target, &loss, &lse});
    mg_end(r, action);
    mg_output(r, action, loss, d->rows, statistic(d->dtype));
}

void mg_xent_grad(mg_run *r, int action, const mg_xent_desc *d, const void *z,
                  const int32_t *target, const void *lse, const void *dloss, void *dz)
{
    mg_begin(r, action);
    rt_cuda_call(r, FIXED_xent_grad + variant(d->dtype), d->rows, 1, MG_XENT_BLOCK,
                 (void *[]){(void *)d, &z, &target, &lse, &dloss, &dz});
    mg_end(r, action);
    mg_output(r, action, dz, d->rows * d->vocab, d->dtype);
}

/* ---- products ----------------------------------------------------------------------------- */

void mg_round_tiles(mg_run *r, int action, const mg_round_tiles_desc *d, const void *x, void *q,
                    void *f)
{
    const int way = d->power ? 2 : d->tile_rows > 1;
    const int64_t high = way == 1 ? d->tile_rows : MG_TILES_ROWS_HIGH;
    const int64_t down = (d->rows + high - 1) / high, across = (d->columns + 127) / 128;
    mg_begin(r, action);
    rt_cuda_call(r, FIXED_round_rows + way + 3 * (d->to == MG_E5M2), down * across, 1,
                 MG_TILES_BLOCK, (void *[]){(void *)d, &x, &q, &f});
    mg_end(r, action);
    mg_output(r, action, q, d->rows * d->columns, d->to);
    mg_output(r, action, f, mg_round_tiles_rows(d) * mg_round_tiles_row(d),
              d->power ? MG_E8M0 : MG_F32);
}

void mg_gemm(mg_run *r, int action, const mg_gemm_desc *d, const void *a, const void *b, void *c,
             void *extra, void *aux)
{
    mg_begin(r, action);
    rt_product(r, d, a, b, c, extra, aux);
    mg_end(r, action);
    for (int64_t i = 0; i < d->batch && (r->watch & RT_WATCH_OUTPUTS); i++)
        for (int64_t row = 0; row < d->m; row++)
            mg_output(r, action, (char *)c + (i * d->sc + row * d->ldc) * mg_dtype_bytes(d->out),
                      d->n, d->out);
    for (int64_t row = 0; d->epilogue & MG_AUX && row < d->m && r->watch & RT_WATCH_OUTPUTS; row++)
        mg_output(r, action, (char *)aux + row * d->ldx * mg_dtype_bytes(d->out), d->n, d->out);
    if (d->epilogue & MG_SUM && r->watch & RT_WATCH_OUTPUTS)
        mg_output(r, action, extra, d->n, d->out);
}

/* Runs one chunk of rows of the head: logits, their losses and gradients, the gradients of x and
 * w. */
static void head_rows(mg_run *r, const mg_head_desc *d, int64_t row, int64_t rows, const char *x,
                      const void *w, const int32_t *target, const void *dloss, void *loss, char *dx,
                      void *dw, void *z)
{
    mg_gemm_desc g = mg_head_z(d, rows);
    mg_xent_desc xent = mg_head_xent(d);
    rt_product(r, &g, x, w, z, NULL, NULL);
    rt_cuda_call(r, FIXED_head_rows + variant(d->xent.dtype), rows, 1, MG_XENT_BLOCK,
                 (void *[]){&xent, &row, &z, &target, &dloss, &loss});
    if (!dx)
        return;
    g = mg_head_dx(d, rows);
    rt_product(r, &g, z, w, dx, NULL, NULL);
    if (d->frozen)
        return;
    g = mg_head_dw(d, rows, row > 0 || d->dw_accumulate);
    rt_product(r, &g, d->w_by_vocab ? z : x, d->w_by_vocab ? (const void *)x : z, dw, NULL, NULL);
}

void mg_head(mg_run *r, int action, const mg_head_desc *d, const void *x, const void *w,
             const int32_t *target, const void *dloss, void *loss, void *dx, void *dw, void *work)
{
    const int64_t row_bytes = d->hidden * mg_dtype_bytes(d->xent.dtype);
    const void *scale = dx ? dloss : NULL;
    mg_begin(r, action);
    for (int64_t row = 0; row < d->xent.rows; row += d->chunk) {
        int64_t rows = d->xent.rows - row < d->chunk ? d->xent.rows - row : d->chunk;
        head_rows(r, d, row, rows, (const char *)x + row * row_bytes, w, target, scale, loss,
                  dx ? (char *)dx + row * row_bytes : NULL, dw, work);
    }
    mg_end(r, action);
    mg_output(r, action, loss, d->xent.rows, statistic(d->xent.dtype));
    if (dx)
        mg_output(r, action, dx, d->xent.rows * d->hidden, d->xent.dtype);
    if (dx && !d->frozen)
        mg_output(r, action, dw, d->hidden * d->xent.vocab, d->dw);
}
