/* optimizer.c - random optimizers of a program's own; see gen.h.
 *
 * Their rules are smooth functions of bounded slope, so that programs of different layouts, which
 * round differently, stay as near as their gradients are. */
#include "tests/programs/gen.h"

#define TEXT(...) arena_printf(g->a, __VA_ARGS__)
#define ANY(...)                                                                                   \
    ((const char *const[]){__VA_ARGS__}[draw_below(                                                \
        g, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))])

/* Of the parameter's dims, and of what the rule has. */
static const char *rule_term(Gen *g, int states, int depth)
{
    const char *x = depth ? rule_term(g, states, depth - 1) : NULL;
    const char *y = depth > 1 ? rule_term(g, states, depth - 2) : "g";
    switch (draw_below(g, depth ? 11 : 3)) {
    case 0:
        return "g";
    case 1:
        return states ? TEXT("s%d", draw_below(g, states)) : "p";
    case 2:
        return ANY("p", "g", "tanh(p)");
    case 3:
        return TEXT("(%s + %s)", x, y);
    case 4:
        return TEXT("(%s - rho * %s)", x, y);
    case 5:
        return TEXT("tanh(%s) * %s", x, ANY("2", "rho", "0.5", "(1 / step)"));
    case 6:
        return TEXT("%s / sqrt(%s * %s + 0.5)", x, x, x);
    case 7:
        return TEXT("tanh(%s * mean(%s * %s, over all))", x, y, y);
    case 8:
        return TEXT("select(matrix, tanh(%s - mean(%s, over %s)), %s)", x, y,
                    ANY("rows", "cols", "(rows, cols)"), x);
    case 9:
        return TEXT("%s / (1 + sqrt(0.1 + sum(%s * %s, over all)))", x, x, x);
    default:
        return TEXT("sin(%s) * (1 - %s)", x, ANY("rho", "pow(rho, step)", "lr", "1 / (1 + step)"));
    }
}

static const char *state_line(Gen *g, int n)
{
    const char *first = draw_one_in(g, 2) ? TEXT(" = %s", ANY("0.5", "-1", "2")) : "";
    const char *slot = draw_one_in(g, 2) ? TEXT(" as \"slot%d\"", n) : "";
    const char *when = draw_one_in(g, 6) ? ANY(" where matrix == 0", " where rho != 0") : "";
    return TEXT("    state s%d%s%s%s\n", n, first, slot, when);
}

const char *own_optimizer(Gen *g)
{
    enum { STATES = 3 };
    const uint64_t rng = g->rng; /* the rest of the program is what it is without it */
    const char *name = new_name(g, "own"), *decay = draw_one_in(g, 2) ? ", decay = 0" : "";
    const int states = draw_below(g, STATES + 1);
    const char *text = draw_one_in(g, 3) ? "setting 0 <= rho < 1\n" : "";
    text = TEXT("%soptimizer %s(rho = %s%s) {\n", g->own_ranges ? "" : text, name,
                ANY("0.5", "0.9", "0.25"), decay);
    g->own_ranges |= text[0] == 's';
    for (int i = 0; i < states; i++)
        text = TEXT("%s%s", text, state_line(g, i));
    if (draw_one_in(g, 4))
        text = TEXT("%s    state one[] = 1\n    one = rho * one + tanh(mean(g, over all))\n", text);
    for (int i = 0; i < states; i++)
        text = TEXT("%s    s%d = rho * s%d + (1 - rho) * %s\n", text, i, i,
                    rule_term(g, states, draw_below(g, 3)));
    text = TEXT("%s%s    p = p - lr * (g + rho * %s)\n}\n", text,
                *decay ? "    p = decayed(p, lr, decay = decay)\n" : "",
                rule_term(g, states, draw_below(g, 4)));
    g->own = TEXT("%s%s", g->own ? g->own : "", text);
    const char *chosen = draw_one_in(g, 2) ? TEXT("%s(rho = 0.75)", name)
                         : *decay          ? TEXT("%s(decay = 0.1 where rank >= 1)", name)
                                           : name;
    g->rng = rng;
    return chosen;
}
