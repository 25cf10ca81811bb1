/* attention_bias_body.h - the gradient of a bias of attention; continues attention_grad_body.h.
 *
 * An element of the bias is added to the scores of all batches, heads, queries or keys that it
 * lacks: its gradient is the sum of their dS. A unit owns the elements of a batch, kv head and tile
 * of queries, as far as the bias has these, and adds up all that belongs to them in one order: the
 * same bits on any number of threads. */

#define bias_clear NAME(bias_clear)
#define bias_rows  NAME(bias_rows)
#define bias_unit  NAME(bias_unit)

/* Queries [query, query + n) of the bias, from element 0 of their batch and kv head on. */
static void bias_clear(const mg_attention_desc *d, T *at, int64_t query, int64_t n)
{
    const int64_t *stride = d->dbias, queries = stride[1] ? n : 1;
    const int64_t groups = stride[3] ? d->group : 1, keys = stride[4] ? d->keys : 1;
    for (int64_t q = 0; q < queries; q++)
        for (int64_t g = 0; g < groups; g++)
            memset(at + (query + q) * stride[1] + g * stride[3], 0, (size_t)keys * sizeof(T));
}

/* Adds what rows [row, end) of a batch and kv head say. */
static void bias_rows(const mgk_attention *x, int64_t b, int64_t h, int64_t row, int64_t end,
                      char *scratch)
{
    Backward w = {.x = x, .d = x->d, .b = b, .h = h, .want_bias = true, .keys = x->d->keys};
    backward_sweep(w, row, end, scratch);
}

/* From batch b and kv head h on, as far as the bias has none of its own. */
static void bias_unit(const mgk_attention *x, int64_t b, int64_t h, int64_t query, int64_t n,
                      char *scratch)
{
    const mg_attention_desc *d = x->d;
    const int64_t batches = d->dbias[0] ? b + 1 : d->batch, heads = d->dbias[2] ? h + 1 : d->kv;
    bias_clear(d, (T *)x->dbias + b * d->dbias[0] + h * d->dbias[2], query, n);
    for (; b < batches; b++)
        for (int64_t k = h; k < heads; k++)
            bias_rows(x, b, k, query * d->group, (query + n) * d->group, scratch);
}

/* A unit is (batch, kv head, tile of queries), each of them one where the bias lacks it. */
static void NAME(attention_bias_backward)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const mgk_attention *x = ctx;
    const mg_attention_desc *d = x->d;
    const int64_t rows = MGK_STRIPS * LANES, own = rows > d->group ? rows / d->group : 1;
    const int64_t tile = d->dbias[1] ? own : d->queries;
    const int64_t tiles = (d->queries + tile - 1) / tile, heads = d->dbias[2] ? d->kv : 1;
    if (TILED)
        mgk_amx_begin();
    for (int64_t u = begin; u < end; u++) {
        const int64_t query = u % tiles * tile, left = d->queries - query;
        bias_unit(x, u / tiles / heads, u / tiles % heads, query, left < tile ? left : tile,
                  scratch);
    }
    if (TILED)
        mgk_amx_end();
}
