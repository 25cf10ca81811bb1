/* The token that is chosen of logits, beside what the definition says with all of them sorted. */
#include "unit.h"

#include "runtime/sample.h"

#include <math.h>
#include <stdlib.h>

typedef struct Token {
    double z, p;
    int32_t id;
} Token;

static int order(const void *x, const void *y)
{
    const Token *a = x, *b = y;
    return a->z > b->z ? -1 : a->z < b->z ? 1 : (a->id > b->id) - (a->id < b->id);
}

/* Top_k, top_p, min_p, in this order, of all tokens in order. */
static int32_t defined(const rt_choice *c, const double *z, int n, double u)
{
    Token *t = malloc((size_t)n * sizeof *t);
    for (int i = 0; i < n; i++)
        t[i] = (Token){z[i], 0, i};
    qsort(t, (size_t)n, sizeof *t, order);
    int m = c->top_k > 0 && c->top_k < n ? (int)c->top_k : n, kept = 0, at = 0;
    double sum = 0, mass = 0, so_far = 0;
    for (int i = 0; i < m; i++)
        sum += t[i].p = exp((t[i].z - t[0].z) / c->temperature);
    for (; kept < m && (c->top_p >= 1 || mass < c->top_p * sum); kept++)
        mass += t[kept].p;
    while (kept > 1 && t[kept - 1].p < c->min_p)
        kept--;
    sum = 0;
    for (int i = 0; i < kept; i++)
        sum += t[i].p;
    while (at + 1 < kept && (so_far += t[at].p) <= u * sum)
        at++;
    const int32_t id = t[at].id;
    free(t);
    return id;
}

static uint64_t next = 7;
static double uniform(void)
{
    next = next * 6364136223846793005u + 1442695040888963407u;
    return (double)(next >> 11) * 0x1p-53;
}

/* Flat and steep ones, and many that are equal. */
static void as_defined(void **state)
{
    (void)state;
    enum { N = 3000 };
    static double z[N], same[N];
    for (int run = 0; run < 800; run++) {
        const int n = 2 + (int)(uniform() * (run % 3 ? 60 : N - 2));
        const double wide = run % 5 == 0 ? 0 : exp(8 * uniform() - 3);
        for (int i = 0; i < n; i++)
            z[i] = run % 4 ? wide * log(1 / (1 - uniform())) : floor(wide * uniform());
        rt_choice c = {.temperature = 0.2 + 2 * uniform(), .top_p = 1, .penalty = 1};
        if (run & 1)
            c.top_k =
                1 + (int)(uniform() * (run & 32 ? 40 : n * 1.2)); /* of a long vocabulary, few */
        if (run & 2)
            c.top_p = run & 16 ? uniform() : 1 - exp(-12 * uniform());
        if (run & 4)
            c.min_p = run & 8 ? uniform() : exp(-20 * uniform());
        if (!(run & 7))
            continue;
        for (int k = 0; k < 8; k++) {
            const double u = uniform();
            memcpy(same, z, sizeof same);
            assert_int_equal(rt_choose(&c, same, n, &(rt_text){0}, u), defined(&c, z, n, u));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_defined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
