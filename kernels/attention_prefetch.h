/* attention_prefetch.h - prefetches the rows that attention reads next, a few between products:
 * rows with a stride are not predicted by a processor's own prefetcher. Continues strip.h, so no
 * include guard. */

#define Prefetch       NAME(Prefetch)
#define SoonRows       NAME(SoonRows)
#define prefetch_row   NAME(prefetch_row)
#define prefetch_tile  NAME(prefetch_tile)
#define prefetch_block NAME(prefetch_block)
#define prefetch_some  NAME(prefetch_some)

typedef struct SoonRows {
    const E *at; /* row 0 of its (batch, kv head) */
    const int64_t *stride;
    int64_t size;
} SoonRows;

typedef struct Prefetch {
    int64_t group;
    SoonRows of_row[4], of_key[2]; /* of_row: ends at the first NULL */
    int64_t row, end, key, last;   /* [row, end) and [key, last) are not prefetched yet */
    int64_t rows, keys;            /* for each call of prefetch_some */
} Prefetch;

MGK_INLINE void prefetch_row(const E *at, int64_t size)
{
    for (int64_t c = 0; c < size; c += 64 / (int64_t)sizeof(E))
        __builtin_prefetch(at + c, 0, 2);
}

/* Sets the rows of the tile at `next` (q and o, in the gradient also dout and dq), to be prefetched
 * in `times` calls. next NULL: none. */
static void prefetch_tile(Prefetch *s, const mgk_attention *x, const mgk_place *next, int64_t times)
{
    const mg_attention_desc *d = x->d;
    const int64_t all = d->queries * d->group, tile = MGK_STRIPS * LANES;
    const SoonRows rows[] = {{x->q, d->q, d->head},
                             {x->o, d->o, d->vhead},
                             {x->dout, d->o, d->vhead},
                             {x->dq, d->dq, d->head}};
    *s = (Prefetch){.group = d->group};
    if (!next || times == 0)
        return;
    for (int i = 0; i < 4 && rows[i].at; i++) {
        s->of_row[i] = rows[i];
        s->of_row[i].at += next->b * rows[i].stride[0] + next->h * rows[i].stride[2];
    }
    s->row = next->row;
    s->end = next->row + tile < all ? next->row + tile : all;
    s->rows = tile / times + 1;
}

/* Sets the block of keys and values from `key` on, of `seen` at `place`, or the first block at
 * `next`, to be prefetched in `times` calls. */
static void prefetch_block(Prefetch *s, const mgk_attention *x, mgk_place place, int64_t key,
                           int64_t seen, const mgk_place *next, int64_t times)
{
    const mg_attention_desc *d = x->d;
    s->key = key;
    s->last = key + MGK_BLOCK_KEYS < seen ? key + MGK_BLOCK_KEYS : seen;
    if (key >= seen && next && (next->b != place.b || next->h != place.h)) {
        place = *next;
        s->key = 0;
        s->last = MGK_BLOCK_KEYS < d->keys ? MGK_BLOCK_KEYS : d->keys;
    }
    s->of_key[0] =
        (SoonRows){(const E *)x->k + place.b * d->k[0] + place.h * d->k[2], d->k, d->head};
    s->of_key[1] =
        (SoonRows){(const E *)x->v + place.b * d->v[0] + place.h * d->v[2], d->v, d->vhead};
    s->keys = MGK_BLOCK_KEYS / times + 1;
}

/* Prefetches the next few rows and keys. */
static void prefetch_some(Prefetch *s)
{
    for (int64_t n = s->rows; n > 0 && s->row < s->end; n--, s->row++)
        for (int i = 0; i < 4 && s->of_row[i].at; i++) {
            const SoonRows *r = &s->of_row[i];
            prefetch_row(r->at + s->row / s->group * r->stride[1] +
                             s->row % s->group * r->stride[3],
                         r->size);
        }
    for (int64_t n = s->keys; n > 0 && s->key < s->last; n--, s->key++)
        for (int i = 0; i < 2; i++)
            prefetch_row(s->of_key[i].at + s->key * s->of_key[i].stride[1], s->of_key[i].size);
}
