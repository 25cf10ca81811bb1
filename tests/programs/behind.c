/* behind.c - what positions take of those before them; see gen.h. A model that looks at positions
 * in these ways alone is one that generates. */
#include "tests/programs/gen.h"

#define TEXT(...) arena_printf(g->a, __VA_ARGS__)

/* Keys, or values, of a head that are products of one vector of each position, as latent attention
 * has them. */
static const char *of_latent(Gen *g, const char *z, int r, Dims own)
{
    return TEXT("(%s @ %s over %s)", z, declare_param(g, bit(r) | own, "w"), dim_name(g, r));
}

/* Causal attention along the positions, which may be turned. */
static const char *causal(Gen *g, Dims want, int depth)
{
    const Dims own = want & ~g->fixed;
    int d = draw_below(g, 3) ? draw_dim(g, own) : -1;
    const Dims fixed = g->fixed & want;
    if (d < 0)
        d = draw_dim(g, tensor_dims(g) & ~want & ~g->fixed);
    if (d < 0 || !small(g, want | bit(d)))
        return NULL;
    const bool inside = (want & bit(d)) != 0;
    const Dims keys = fixed | bit(d) | (draw_one_in(g, 2) ? own : 0);
    const Dims values = inside ? want : want & ~bit(d);
    const char *q = expression(g, want | bit(d), depth - 1), *v = NULL, *k = NULL;
    const int r = draw_one_in(g, 3) ? draw_dim(g, tensor_dims(g) & ~want & ~g->fixed) : -1;
    if (inside && r >= 0 && (own & ~bit(d))) {
        const char *z = new_name(g, "v");
        line(g, "%s = %s", z, expression(g, fixed | bit(r), depth - 1));
        k = of_latent(g, z, r, own);
        v = of_latent(g, z, r, own);
    } else {
        k = expression(g, keys, depth - 1);
        v = expression(g, values, depth - 1);
    }
    if (g->dim[d].size % 2 == 0 && draw_one_in(g, 3)) {
        const char *pos = dim_name(g, g->ordered), *over = dim_name(g, d);
        q = TEXT("rope(%s, along %s, over %s)", q, pos, over);
        k = TEXT("rope(%s, along %s, over %s)", k, pos, over);
    }
    return TEXT("attention(%s, %s, %s, along %s, over %s, causal%s%s%s)", q, k, v,
                dim_name(g, g->ordered), dim_name(g, d),
                draw_one_in(g, 3) ? TEXT(", window = %d", draw_between(g, 1, 3)) : "",
                draw_one_in(g, 4) ? ", cap = 3" : "", draw_one_in(g, 4) ? ", sink = 0.3" : "");
}

/* A sum of taps: a convolution that reads no later position. */
static const char *taps(Gen *g, Dims want, int depth)
{
    const int d = draw_dim(g, tensor_dims(g) & ~want & ~g->fixed);
    if (d < 0)
        return NULL;
    const char *pos = dim_name(g, g->ordered), *tap = dim_name(g, d);
    return TEXT("sum(%s[%s - %s] * %s, over %s)", term(g, want, depth - 1), pos, tap,
                declare_param(g, bit(d) | (want & ~g->fixed), "w"), tap);
}

/* A recurrence, on lines before: a state that each position updates. */
static const char *recurrence(Gen *g, Dims want, int depth)
{
    if (g->scanned >= 0 || g->depth == 3)
        return NULL;
    const char *x = new_name(g, "v"), *s = new_name(g, "s"), *y = new_name(g, "y");
    const char *pos = dim_name(g, g->ordered);
    const Dims state = want & ~bit(g->ordered);
    line(g, "%s = %s", x, expression(g, want, depth - 1));
    line(g, "%s = %s", s, state ? TEXT("expand(0, over %s)", over_list(g, state)) : "0");
    line(g, "scan %s {", pos);
    line(g,
         draw_one_in(g, 2) ? "    %1$s = tanh(0.5 * %1$s + %2$s)"
                           : "    %1$s = 0.7 * %1$s + sin(%2$s)",
         s, x);
    line(g, "    %s = %s%s", y, s, draw_one_in(g, 3) ? TEXT(" * index(%s)", pos) : "");
    line(g, "}");
    return y;
}

const char *behind(Gen *g, Dims want, int depth)
{
    if (!(want & bit(g->ordered)) || g->dim[g->ordered].gone)
        return NULL;
    switch (draw_below(g, 5)) {
    case 0:
        return TEXT("%s[%s - %d]", term(g, want, depth - 1), dim_name(g, g->ordered),
                    draw_between(g, 1, 3));
    case 1:
        return taps(g, want, depth);
    case 2:
        return recurrence(g, want, depth);
    default:
        return causal(g, want, depth);
    }
}
