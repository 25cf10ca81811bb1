/* init.c - fills parameters with initial values, the same under every layout and any number of
 * threads.
 *
 * Element e of the external tensor n, which parts of it share, takes the block of Philox4x32-10
 * with key = mg_key(n) ^ seed, counter = { low(e), high(e), 0, 0 } and uses the first two of its
 * four words: normal   mean + std * sqrt(-2 log((w0 + 1) / 2^32)) * cos(2 pi w1 / 2^32) uniform low
 * + (high - low) * w0 / 2^32 (Box and Muller, 1958) in double, rounded once to the tensor's dtype.
 */
#include "runtime/run.h"

#include <math.h>

typedef struct filling {
    const rt_external *x;
    char *stored;
    uint32_t key[2];
} filling;

static double draw(const filling *f, int64_t e)
{
    const mg_tensor *t = f->x->form->tensor;
    uint32_t counter[4] = {(uint32_t)e, (uint32_t)((uint64_t)e >> 32), 0, 0}, w[4];
    mg_philox(counter, f->key, w);
    if (t->init == MG_INIT_UNIFORM)
        return t->a + (t->b - t->a) * ((double)w[0] * 0x1p-32);
    double r = sqrt(-2 * log(((double)w[0] + 1) * 0x1p-32));
    return t->a + t->b * r * cos(6.28318530717958647693 * ((double)w[1] * 0x1p-32));
}

/* Keeps a uniform value below b: rounding to float may give b, which is not in [a, b). */
static float narrow(const mg_tensor *t, double v)
{
    float f = (float)v;
    return t->init == MG_INIT_UNIFORM && t->b > t->a && (double)f >= t->b ? nextafterf(f, -INFINITY)
                                                                          : f;
}

static void fill(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    enum { BLOCK = 256 };
    const filling *f = ctx;
    const mg_tensor *t = f->x->form->tensor;
    union {
        float f32[BLOCK];
        double f64[BLOCK];
    } out;
    (void)scratch;
    for (int64_t e = begin; e < end; e += BLOCK) {
        int64_t n = end - e < BLOCK ? end - e : BLOCK;
        for (int64_t i = 0; i < n; i++) {
            double v = t->init == MG_INIT_CONST
                           ? t->a
                           : draw(f, t->part_of ? rt_whole_index(f->x->form, e + i) : e + i);
            if (t->dtype == MG_F64)
                out.f64[i] = v;
            else
                out.f32[i] = narrow(t, v);
        }
        rt_external_put(f->x, f->stored, e, n, &out);
    }
}

void rt_init(mg_run *r)
{
    for (int i = 0; i < r->params.n; i++) {
        const rt_external *x = &r->params.item[i];
        uint64_t key = mg_key(x->name) ^ (uint64_t)r->state.seed;
        filling f = {x, rt_stored_open(r, x, false), {(uint32_t)key, (uint32_t)(key >> 32)}};
        rt_pool_run(r->pool, x->form->elements, 4096, fill, &f);
        rt_stored_close(r, x, true);
    }
}
