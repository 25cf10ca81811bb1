/* attend.c - attention: chooses the kernels (runtime/attend.h) and launches them. */
#include "runtime/attend.h"
#include "runtime/cuda/cuda.h"

/* The mask as kernels take it: by value, as sight.h has it. */
typedef struct Sees {
    const int32_t *seen, *first;
    const void *bias;
} Sees;

static void check_head(const mg_attention_desc *d)
{
    if (d->head > MG_ATTENTION_HEAD || d->vhead > MG_ATTENTION_HEAD)
        rt_die(RT_FAILED, "attention with a head of %lld is not built; the limit is %d",
               (long long)(d->head > d->vhead ? d->head : d->vhead), MG_ATTENTION_HEAD);
    if ((d->queries - 1) * d->bias[1] + d->keys > INT32_MAX)
        rt_die(RT_FAILED, "a bias of %lld numbers of a head is not built; the limit is %d",
               (long long)((d->queries - 1) * d->bias[1] + d->keys), INT32_MAX);
}

/* The greatest power of two, at most 16, of which all addresses are multiples. */
static int64_t common(int n, const void *const *p)
{
    uintptr_t all = 16;
    for (int i = 0; i < n; i++)
        all |= (uintptr_t)p[i];
    return (int64_t)(all & -all);
}

/* True if all rows begin at multiples of 16 bytes and are multiples of that long. */
static bool in_chunks(const mg_attention_desc *d, bool grad, int64_t addresses)
{
    const int64_t each = 16 / mg_dtype_bytes(d->dtype);
    int64_t all = d->head | d->vhead;
    for (int i = 0; i < 4; i++)
        all |= d->q[i] | d->o[i] | (grad ? d->dq[i] : 0);
    for (int i = 0; i < 3; i++)
        all |= d->k[i] | d->v[i] | (grad ? d->dk[i] | d->dv[i] : 0);
    return all % each == 0 && addresses % 16 == 0;
}

/* Blocks of `each` rows for all rows of each head. */
static int64_t blocks_of(int64_t heads, int64_t rows, int64_t each)
{
    const int64_t blocks = heads * ((rows + each - 1) / each);
    if (blocks > INT32_MAX)
        rt_die(RT_FAILED, "attention in %lld blocks is not built; the limit is %d",
               (long long)blocks, INT32_MAX);
    return blocks;
}

/* Elements of the bias's gradient, in parts of `rows` queries and `keys` keys. */
static int64_t bias_parts(const mg_attention_desc *d, int64_t rows, int64_t keys)
{
    const int64_t *s = d->dbias;
    return (s[0] ? d->batch : 1) * (s[2] ? d->kv : 1) * (s[3] ? d->group : 1) *
           (s[1] ? (d->queries + rows - 1) / rows : 1) * (s[4] ? (d->keys + keys - 1) / keys : 1);
}

/* Launches a kernel for all heads and rows of the pass; args: what it takes after its descriptor
 * and mask, with room for one more. */
static void launch(mg_run *r, const mg_attention_desc *d, mg_attend_pass pass, const Sees *sees,
                   int64_t addresses, int nargs, void *const *args)
{
    const bool some = sees->seen || sees->first;
    const bool grad = pass == MG_ATTEND_DQ || pass == MG_ATTEND_DKV;
    mg_attend a =
        mg_attend_of(d, pass, some, r->program->tf32, r->cuda->warpgroups, addresses % 16 == 0);
    a.few = mg_attend_is_few(&a, blocks_of(d->batch * d->kv, d->keys, MG_FLASH90_ROWS),
                             r->cuda->multiprocessors);
    const mg_attend_launch l = mg_attend_launch_of(&a, (int)mg_dtype_bytes(d->dtype));
    const int64_t rows = pass == MG_ATTEND_DKV ? d->keys : d->queries;
    const int64_t heads = d->batch * d->kv * (pass == MG_ATTEND_DKV ? 1 : d->group);
    const bool rows_alone = a.class_ == MG_ATTEND_WARP; /* of any heads beside each other */
    const int64_t blocks = pass == MG_ATTEND_DBIAS
                               ? (rows_alone ? blocks_of(1, bias_parts(d, 1, 1), l.threads)
                                             : blocks_of(bias_parts(d, l.rows, l.keys), 1, 1))
                           : rows_alone ? blocks_of(1, heads * rows, l.rows)
                                        : blocks_of(heads, rows, l.rows);
    int whole = in_chunks(d, grad, addresses);
    void *all[16] = {(void *)d, (void *)sees};
    char name[MG_ATTEND_NAME];
    for (int i = 0; i < nargs; i++)
        all[2 + i] = args[i];
    all[2 + nargs] = &whole; /* only those of flash.h take it */
    mg_attend_name(&a, name);
    rt_cuda_launch(r, rt_cuda_named(r->cuda, name, l.shared), blocks, 1, l.threads, l.shared, all);
}

void mg_attention_part(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                       const void *k, const void *v, void *o, void *lse, const void *bias,
                       const int32_t *seen, const int32_t *first)
{
    const Sees sees = {seen, first, bias};
    check_head(d);
    mg_begin(r, action);
    launch(r, d, MG_ATTEND_FORWARD, &sees, common(4, (const void *[]){q, k, v, o}), 5,
           (void *[]){&q, &k, &v, &o, &lse});
    mg_end(r, action);
    if (r->watch & RT_WATCH_OUTPUTS)
        mg_attention_outputs(r, action, d, o, lse);
}

void mg_attention(mg_run *r, int action, const mg_attention_desc *d, const void *q, const void *k,
                  const void *v, void *o, void *lse)
{
    mg_attention_part(r, action, d, q, k, v, o, lse, NULL, NULL, NULL);
}

/* delta = do . o of each query: 16 bytes of each for a lane, and as many lanes as a row takes, at
 * most a warp. */
static void launch_delta(mg_run *r, const mg_attention_desc *d, int64_t addresses, const void *o,
                         const void *dout, void *delta)
{
    const int64_t word = 16 / mg_dtype_bytes(d->dtype);
    const char *name = d->dtype == MG_BF16  ? "mg_flash_delta_bf16"
                       : d->dtype == MG_F16 ? "mg_flash_delta_f16"
                                            : "mg_flash_delta_f32";
    int log = 0, chunks = in_chunks(d, true, addresses);
    while (1 << log < 32 && word << log < d->vhead)
        log++;
    const int64_t rows = MG_DELTA_BLOCK * MG_DELTA_ROWS >> log;
    rt_cuda_launch(r, rt_cuda_named(r->cuda, name, 0),
                   blocks_of(d->batch * d->kv * d->group, d->queries, rows), 1, MG_DELTA_BLOCK, 0,
                   (void *[]){(void *)d, &log, &chunks, &o, &dout, &delta});
}

void mg_attention_part_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                            const void *k, const void *v, const void *o, const void *lse,
                            const void *dout, void *dq, void *dk, void *dv, const void *bias,
                            const int32_t *seen, const int32_t *first, void *work)
{
    const Sees sees = {seen, first, bias};
    const int64_t addresses = common(8, (const void *[]){q, k, v, o, dout, dq, dk, dv});
    check_head(d);
    mg_begin(r, action);
    if (mg_attention_class(d, MG_ATTEND_DQ, r->program->tf32, r->cuda->warpgroups,
                           addresses % 16 == 0) == MG_ATTEND_WARP) {
        launch(r, d, MG_ATTEND_DQ, &sees, addresses, 7,
               (void *[]){&q, &k, &v, &o, &lse, &dout, &dq});
        launch(r, d, MG_ATTEND_DKV, &sees, addresses, 8,
               (void *[]){&q, &k, &v, &o, &lse, &dout, &dk, &dv});
    } else {
        launch_delta(r, d, addresses, o, dout, work);
        launch(r, d, MG_ATTEND_DQ, &sees, addresses, 7,
               (void *[]){&q, &k, &v, &lse, &dout, &work, &dq});
        launch(r, d, MG_ATTEND_DKV, &sees, addresses, 8,
               (void *[]){&q, &k, &v, &lse, &dout, &work, &dk, &dv});
    }
    mg_end(r, action);
    if (r->watch & RT_WATCH_OUTPUTS)
        mg_attention_grad_outputs(r, action, d, dq, dk, dv);
}

void mg_attention_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                       const void *k, const void *v, const void *o, const void *lse,
                       const void *dout, void *dq, void *dk, void *dv, void *work)
{
    mg_attention_part_grad(r, action, d, q, k, v, o, lse, dout, dq, dk, dv, NULL, NULL, NULL, work);
}

void mg_attention_bias_grad(mg_run *r, int action, const mg_attention_desc *d, const void *q,
                            const void *k, const void *v, const void *o, const void *lse,
                            const void *dout, void *dbias, const void *bias, const int32_t *seen,
                            const int32_t *first, void *work)
{
    const Sees sees = {seen, first, bias};
    const int64_t addresses = common(5, (const void *[]){q, k, v, o, dout});
    check_head(d);
    mg_begin(r, action);
    if (mg_attention_class(d, MG_ATTEND_DBIAS, r->program->tf32, r->cuda->warpgroups,
                           addresses % 16 == 0) == MG_ATTEND_WARP)
        launch(r, d, MG_ATTEND_DBIAS, &sees, addresses, 7,
               (void *[]){&q, &k, &v, &o, &lse, &dout, &dbias});
    else {
        launch_delta(r, d, addresses, o, dout, work);
        launch(r, d, MG_ATTEND_DBIAS, &sees, addresses, 7,
               (void *[]){&q, &k, &v, &lse, &dout, &work, &dbias});
    }
    mg_end(r, action);
    if (r->watch & RT_WATCH_OUTPUTS)
        mg_attention_bias_outputs(r, action, d, dbias);
}
