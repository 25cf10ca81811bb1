/* strip.h - a strip of attention's rows as lanes: the (query, group) of each lane, and copies
 * between tensors and scratch; continues attention_body.h, so no include guard. */

#define LANES (MGK_STRIP_VECS * VL)

#define Strip        NAME(Strip)
#define strip_open   NAME(strip_open)
#define strip_keys   NAME(strip_keys)
#define strip_last   NAME(strip_last)
#define strip_first  NAME(strip_first)
#define strip_none   NAME(strip_none)
#define strip_sees   NAME(strip_sees)
#define strip_begin  NAME(strip_begin)
#define strip_row    NAME(strip_row)
#define strip_mask   NAME(strip_mask)
#define mask_keys    NAME(mask_keys)
#define strip_bias   NAME(strip_bias)
#define pack_lanes   NAME(pack_lanes)
#define unpack_lanes NAME(unpack_lanes)
#define pack_rows    NAME(pack_rows)
#define carve        NAME(carve)
#define copy_block   NAME(copy_block)

/* Rows [row0, row0 + rows) of (batch b, kv head h); row = query * group + g. */
typedef struct Strip {
    const mg_attention_desc *d;
    int64_t b, h, rows;             /* rows <= LANES */
    int64_t query[LANES], g[LANES]; /* of a lane; lanes past `rows` repeat the last one */
    /* The keys that a lane sees, for the mask: none if `last` is below `first`. Neither falls from
     * a lane to the next. */
    VI first[MGK_STRIP_VECS], last[MGK_STRIP_VECS];
} Strip;

static void strip_open(Strip *s, const mgk_attention *x, int64_t b, int64_t h, int64_t row0)
{
    const mg_attention_desc *d = x->d;
    const int64_t all = d->queries * d->group;
    int64_t query = row0 / d->group, g = row0 % d->group;
    s->d = d;
    s->b = b;
    s->h = h;
    s->rows = all - row0 < LANES ? all - row0 : LANES;
    for (int64_t i = 0; i < LANES; i++) {
        s->query[i] = query;
        s->g[i] = g;
        ((Int *)s->first)[i] = (Int)mgk_first_key(x, b, query);
        ((Int *)s->last)[i] = (Int)mgk_last_key(x, b, query);
        if (i + 1 < s->rows && ++g == d->group) {
            g = 0;
            query++;
        }
    }
}

/* The last key that a lane sees. */
MGK_INLINE int64_t strip_last(const Strip *s, int64_t lane)
{
    return ((const Int *)s->last)[lane];
}

MGK_INLINE int64_t strip_first(const Strip *s, int64_t lane)
{
    return ((const Int *)s->first)[lane];
}

/* Does a lane see no key at all? */
MGK_INLINE bool strip_none(const Strip *s, int64_t lane)
{
    return strip_last(s, lane) < strip_first(s, lane);
}

/* The number of the `keys` keys from t0 on up to the last that any row of the strip sees. */
MGK_INLINE int64_t strip_keys(const Strip *s, int64_t t0, int64_t keys)
{
    const int64_t seen = strip_last(s, LANES - 1) + 1 - t0;
    return seen > keys ? keys : seen;
}

/* May any row of the strip see one of the `keys` keys from t0 on? */
MGK_INLINE bool strip_sees(const Strip *s, int64_t t0, int64_t keys)
{
    return strip_keys(s, t0, keys) > 0 && strip_first(s, 0) < t0 + keys;
}

/* The first key of the first block, of those that begin at key0, that holds a key which the strip
 * sees. */
MGK_INLINE int64_t strip_begin(const Strip *s, int64_t key0)
{
    const int64_t skip = strip_first(s, 0) - key0;
    return key0 + (skip > 0 ? skip / MGK_BLOCK_KEYS * MGK_BLOCK_KEYS : 0);
}

/* Index of element 0 of a lane's row in a tensor with strides of (batch, query, kv, group). */
MGK_INLINE int64_t strip_row(const Strip *s, int64_t lane, const int64_t stride[4])
{
    return s->b * stride[0] + s->query[lane] * stride[1] + s->h * stride[2] +
           s->g[lane] * stride[3];
}

/* strip_mask for t in [begin, end). */
MGK_INLINE void mask_keys(const Strip *s, int64_t t0, int64_t begin, int64_t end, T *st)
{
    for (int64_t t = begin; t < end; t++)
        for (int j = 0; j < MGK_STRIP_VECS; j++) {
            T *at = st + t * LANES + j * VL;
            const VI key = (VI){0} + (Int)(t0 + t);
            const VI seen = (s->last[j] >= key) & (s->first[j] <= key);
            vstore(at, vwhere(seen, vload(at), vall(-(T)INFINITY)));
        }
}

/* st[t][lane] = -inf where the lane does not see key t0 + t. Between the first key of the last lane
 * and the last key of the first lane all see all. */
static void strip_mask(const Strip *s, int64_t t0, int64_t keys, T *st)
{
    const int64_t all = strip_first(s, LANES - 1) - t0, some = strip_last(s, 0) + 1 - t0;
    const int64_t low = all < 0 ? 0 : all > keys ? keys : all, high = some > low ? some : low;
    mask_keys(s, t0, 0, low, st);
    mask_keys(s, t0, high, keys, st);
}

/* st[t][lane] += by * the bias of lane and key t0 + t, whose numbers are of the compute type. */
static void strip_bias(const Strip *s, const mgk_attention *x, int64_t t0, int64_t keys, T by,
                       T *st)
{
    const int64_t *stride = s->d->bias;
    for (int64_t lane = 0; lane < (x->bias ? LANES : 0); lane += VL) {
        const T *row[VL];
        V a[VL];
        for (int64_t i = 0; i < VL; i++)
            row[i] = (const T *)x->bias + strip_row(s, lane + i, stride);
        if (stride[4] == 0) {
            for (int64_t i = 0; i < VL; i++)
                ((T *)a)[i] = *row[i];
            for (int64_t t = 0; t < keys; t++)
                vstore(st + t * LANES + lane, vload(st + t * LANES + lane) + a[0] * by);
            continue;
        }
        for (int64_t t = 0; t < keys; t += VL) {
            for (int64_t i = 0; i < VL; i++)
                a[i] =
                    t + VL > keys ? vload_n(row[i] + t0 + t, keys - t, 0) : vload(row[i] + t0 + t);
            vflip(a);
            for (int64_t i = 0; i < VL && t + i < keys; i++) {
                T *at = st + (t + i) * LANES + lane;
                vstore(at, vload(at) + a[i] * by);
            }
        }
    }
}

/* to[c][lane] = factor * row(lane)[c] for c < size; zeros in lanes past the strip's rows. */
static void pack_lanes(const Strip *s, const E *from, const int64_t stride[4], int64_t size,
                       T factor, T *to)
{
    for (int64_t lane = 0; lane < LANES; lane += VL)
        for (int64_t c = 0; c < size; c += VL) {
            V a[VL];
            for (int64_t i = 0; i < VL; i++) {
                const E *row = from + strip_row(s, lane + i, stride) + c;
                a[i] = lane + i >= s->rows ? vall(0)
                       : c + VL > size     ? eload_n(row, size - c, 0)
                                           : eload(row);
            }
            vflip(a);
            for (int64_t i = 0; i < VL && c + i < size; i++)
                vstore(to + (c + i) * LANES + lane, a[i] * factor);
        }
}

/* The inverse of pack_lanes: row(lane)[c] = from[c][lane] * factor[lane]. */
static void unpack_lanes(const Strip *s, const T *from, const T *factor, int64_t size, E *to,
                         const int64_t stride[4])
{
    for (int64_t lane = 0; lane < s->rows; lane += VL)
        for (int64_t c = 0; c < size; c += VL) {
            V a[VL];
            for (int64_t i = 0; i < VL; i++)
                a[i] = c + i < size ? vload(from + (c + i) * LANES + lane) * vload(factor + lane)
                                    : vall(0);
            vflip(a);
            for (int64_t i = 0; i < VL && lane + i < s->rows; i++) {
                E *row = to + strip_row(s, lane + i, stride) + c;
                if (c + VL > size)
                    estore_n(row, a[i], size - c);
                else
                    estore(row, a[i]);
            }
        }
}

/* to[lane][c] = row(lane)[c] for c < size, zeros up to `wide` and in lanes past the rows. */
static void pack_rows(const Strip *s, const E *from, const int64_t stride[4], int64_t size,
                      int64_t wide, T *to)
{
    memset(to, 0, (size_t)(LANES * wide) * sizeof(T));
    for (int64_t i = 0; i < s->rows; i++)
        ecopy(to + i * wide, from + strip_row(s, i, stride), size);
}

/* Allocates the next `count` numbers of a scratch block, on a 64-byte boundary. */
MGK_INLINE T *carve(char **scratch, int64_t count)
{
    T *p = (T *)*scratch;
    *scratch += mgk_round_up(count * (int64_t)sizeof(T), 64);
    return p;
}

/* Copies rows of keys or values to contiguous memory. In the tensor their stride is usually a power
 * of two, so that they would evict each other from the first-level cache. */
static void copy_block(T *to, const E *from, int64_t stride, int64_t rows, int64_t size)
{
    for (int64_t i = 0; i < rows; i++, from += stride, to += size)
        ecopy(to, from, size);
}
