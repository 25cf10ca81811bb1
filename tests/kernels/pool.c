/* pool.c - see pool.h. */
#include "tests/kernels/pool.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };

static mgk_level level_in_use = MGK_BASE;

mgk_level mgk_isa(void)
{
    return level_in_use;
}

void pool_level(mgk_level level)
{
    level_in_use = level;
}

mgk_level pool_best(void)
{
    return mgk_isa_best();
}

const char *pool_level_name(mgk_level level)
{
    static const char *const names[] = {"base", "v3", "v4", "pairs", "amx"};
    return names[level];
}

static void fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    abort();
}

/* ---- the runtime's part of the ABI -------------------------------------------------------- */

typedef struct Share {
    mg_task *fn;
    void *ctx, *scratch;
    int64_t begin, middle, end;
} Share;

static void *work(void *p)
{
    Share *s = p;
    if (s->begin < s->middle)
        s->fn(s->ctx, s->begin, s->middle, s->scratch);
    if (s->middle < s->end)
        s->fn(s->ctx, s->middle, s->end, s->scratch);
    return NULL;
}

void mg_look(mg_run *r, const void *scratch)
{
    atomic_fetch_add(&r->looks, 1);
    if ((uintptr_t)scratch % 64)
        fail("mg_look: not with the scratch of a thread");
}

/* Ranges are cut anywhere and each may come in two calls: a kernel may not rely on either. */
void mg_parallel(mg_run *r, int64_t units, int64_t grain, mg_task *fn, void *ctx)
{
    enum { LIMIT = 16 };
    Share share[LIMIT];
    pthread_t thread[LIMIT];
    if (grain < 1 || units < 0)
        fail("mg_parallel: bad grain or units");
    for (int i = 0; i < r->threads; i++) {
        int64_t begin = i ? share[i - 1].end : 0;
        int64_t end = i + 1 == r->threads ? units : in_range(&r->cuts, begin, units);
        char *scratch = aligned_alloc(64, (size_t)(r->scratch + 63) / 64 * 64 + 64);
        memset(scratch, 0xff, (size_t)(r->scratch + 63) / 64 * 64 + 64);
        share[i] = (Share){fn, ctx, scratch, begin, in_range(&r->cuts, begin, end), end};
        if (pthread_create(&thread[i], NULL, work, &share[i]))
            fail("pthread_create");
    }
    for (int i = 0; i < r->threads; i++) {
        pthread_join(thread[i], NULL);
        const unsigned char *past = share[i].scratch;
        for (int64_t j = r->scratch; j < (r->scratch + 63) / 64 * 64 + 64; j++)
            if (past[j] != 0xff)
                fail("a kernel wrote past its scratch");
        free(share[i].scratch);
    }
}

int mg_threads(const mg_run *r)
{
    return r->threads;
}

void mg_begin(mg_run *r, int action)
{
    (void)action;
    r->calls++;
    if (r->depth++ != 0)
        fail("mg_begin within mg_begin");
}

void mg_end(mg_run *r, int action)
{
    (void)action;
    if (--r->depth != 0)
        fail("mg_end without mg_begin");
}

/* A half by the definition: a sign, an exponent, and `fraction` bits behind the point. */
static double half_number(uint16_t h, mg_dtype t)
{
    const int fraction = t == MG_BF16 ? 7 : 10, bias = t == MG_BF16 ? 127 : 15;
    const int power = (h & 0x7fff) >> fraction, bits = h & ((1 << fraction) - 1);
    double x;
    if (power == 2 * bias + 1)
        x = bits ? NAN : INFINITY;
    else if (power)
        x = ldexp((1 << fraction) + bits, power - bias - fraction);
    else
        x = ldexp(bits, 1 - bias - fraction);
    return h >> 15 ? -x : x;
}

static double number(const void *p, mg_dtype t, int64_t i)
{
    return t == MG_F64   ? ((const double *)p)[i]
           : t == MG_F32 ? (double)((const float *)p)[i]
                         : half_number(((const uint16_t *)p)[i], t);
}

/* The half nearest to x, by bisection of the finite ones. */
static uint16_t nearest_half(double x, mg_dtype t)
{
    const double size = fabs(x);
    uint16_t low = 0, high = t == MG_BF16 ? 0x7f80 : 0x7c00; /* infinity */
    if (isnan(x))
        return 0x7fff;
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (half_number(middle, t) <= size)
            low = middle;
        else
            high = middle;
    }
    const double below = half_number(low, t);
    const double above = isinf(half_number(high, t))
                             ? 2 * below - half_number((uint16_t)(low - 1), t)
                             : half_number(high, t);
    const bool up = size - below > above - size || (size - below == above - size && (low & 1));
    return (uint16_t)((up ? high : low) | (signbit(x) ? 0x8000 : 0));
}

void mg_output(mg_run *r, int action, const void *p, int64_t elements, mg_dtype t)
{
    (void)action;
    for (int64_t i = 0; i < elements; i++)
        if (t <= MG_F16 && !isfinite(number(p, t, i)) && !r->not_finite) /* indices are */
            fail("mg_output: an output that is not finite");
    r->outputs += elements;
}

/* Of one result, an f32 or of C's type, that the test looks at itself. */
bool mg_outputs(mg_run *r, int action, void *const *p, const void *c)
{
    (void)r, (void)action;
    return p[0] == c;
}

/* ---- buffers ------------------------------------------------------------------------------ */

Buffer buffer_new(mg_dtype t, int64_t n)
{
    size_t bytes = (size_t)(n * mg_dtype_bytes(t));
    char *p = malloc(bytes + 2 * GUARD);
    memset(p, 0xa5, GUARD);
    memset(p + GUARD, 0xff, bytes); /* a NaN in either type */
    memset(p + GUARD + bytes, 0xa5, GUARD);
    return (Buffer){t, n, p + GUARD};
}

Buffer buffer_random(mg_dtype t, int64_t n, uint64_t *seed)
{
    Buffer b = buffer_new(t, n);
    for (int64_t i = 0; i < n; i++)
        put(&b, i, (double)(next_random(seed) >> 40) * 0x1p-23 - 1);
    return b;
}

void buffer_free(Buffer *b)
{
    const unsigned char *before = (unsigned char *)b->p - GUARD;
    const unsigned char *after = (unsigned char *)b->p + b->n * mg_dtype_bytes(b->t);
    for (int i = 0; i < GUARD; i++)
        if (before[i] != 0xa5 || after[i] != 0xa5)
            fail("a kernel wrote outside its buffer");
    free((char *)b->p - GUARD);
    b->p = NULL;
}

double at(const Buffer *b, int64_t i)
{
    assert(i >= 0 && i < b->n);
    return number(b->p, b->t, i);
}

double roundoff(mg_dtype t)
{
    return t == MG_F64 ? 0x1p-53 : t == MG_F32 ? 0x1p-24 : t == MG_BF16 ? 0x1p-8 : 0x1p-11;
}

void put(Buffer *b, int64_t i, double v)
{
    assert(i >= 0 && i < b->n);
    if (b->t == MG_F64)
        ((double *)b->p)[i] = v;
    else if (b->t != MG_F32)
        ((uint16_t *)b->p)[i] = nearest_half(v, b->t);
    else
        ((float *)b->p)[i] = (float)v;
}

bool untouched(const Buffer *b, int64_t i)
{
    static const unsigned char poison[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const int64_t bytes = mg_dtype_bytes(b->t);
    return memcmp((char *)b->p + i * bytes, poison, (size_t)bytes) == 0;
}

bool same_bits(const Buffer *a, const Buffer *b)
{
    return a->n == b->n && memcmp(a->p, b->p, (size_t)(a->n * mg_dtype_bytes(a->t))) == 0;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t next_random(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t in_range(uint64_t *seed, int64_t low, int64_t high)
{
    return low + (int64_t)(next_random(seed) % (uint64_t)(high - low + 1));
}
