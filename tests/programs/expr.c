/* expr.c - random expressions of given dims; see gen.h. */
#include "tests/programs/gen.h"

#include <stdio.h>
#include <string.h>

#define TEXT(...) arena_printf(g->a, __VA_ARGS__)

/* ---- numbers and leaves ---------------------------------------------------------------------- */

const char *number(Gen *g, int depth)
{
    static const char *const plain[] = {"0.5", "1", "2", "0.25", "1e-1", "0.1", "1.5", "3"};
    if (depth > 0 && draw_one_in(g, 3)) {
        static const char *const of[] = {"(%s + %s)",   "(%s - %s)",   "%s * %s",
                                         "max(%s, %s)", "min(%s, %s)", "%s / (1 + abs(%s))"};
        const char *x = number(g, depth - 1), *y = number(g, depth - 1);
        int which = draw_below(g, 6);
        return TEXT(of[which], x, y);
    }
    if (g->nnumbers && draw_one_in(g, 2))
        return g->number[draw_below(g, g->nnumbers)];
    if (draw_one_in(g, 10)) { /* a dim is its size; how many texts there are, none of them knows */
        const Dims any = named_dims(g) & ~(g->ordered < 0 ? 0 : bit(g->batch));
        return TEXT("(1 / %s)", dim_name(g, draw_dim(g, any)));
    }
    return plain[draw_below(g, 8)];
}

static const char *initial(Gen *g)
{
    switch (draw_below(g, 8)) {
    case 0:
        return "= 1";
    case 1:
        return "= 0.5";
    case 2:
        return TEXT("= %s", number(g, 1));
    case 3:
        return "~ uniform(-0.5, 0.5)";
    case 4:
        return TEXT("~ normal(0.1 / sqrt(%d))", draw_between(g, 1, 9));
    case 5:
        return "= 0.2 * tanh(normal(1)) + uniform(-0.1, 0.1)";
    default:
        return "~ normal(0.3)";
    }
}

/* The order in a checkpoint: all dims, some neighbours merged. The first of them is a mark, where
 * `at` can stand; *size is that dim's. */
static const char *external_order(Gen *g, Dims d, const char **size)
{
    const char *s = "";
    *size = NULL;
    while (d) {
        int n = rank_of(d) > 1 && draw_one_in(g, 3) ? 2 : 1;
        const char *group = "", *product = "";
        for (int k = 0; k < n; k++) {
            int one = draw_dim(g, d);
            d &= ~bit(one);
            group = TEXT("%s%s%s", group, k ? " " : "", dim_name(g, one));
            product = TEXT("%s%s%s", product, k ? " * " : "", dim_name(g, one));
        }
        s = TEXT(n > 1 ? "%s%s(%s)%s" : "%s%s%s%s", s, *s ? ", " : "", group, *s ? "" : "\1");
        *size = *size ? *size : product;
    }
    return s;
}

/* An external form whose mark is where a part begins, or nothing. */
static const char *with_place(Gen *g, const char *form, const char *at)
{
    const char *mark = strchr(form, '\1');
    return TEXT("%.*s%s%s%s", (int)(mark - form), form, at ? " at " : "", at ? at : "", mark + 1);
}

/* "(a b)", or "a" */
static const char *merged(Gen *g, Dims dims)
{
    const char *s = "";
    int n = 0;
    for (int i = 0; i < g->ndims; i++)
        if (dims & bit(i) && i != g->extra)
            s = TEXT("%s%s%s", s, n++ ? " " : "", dim_name(g, i));
    return n > 1 ? TEXT("(%s)", s) : s;
}

const char *declare_param(Gen *g, Dims dims, const char *stem)
{
    const char *name = new_name(g, stem), *as = "";
    g->used |= dims;
    if (g->blocks >= 0) /* no matrix, of which a base in NF4 takes only some */
        as = rank_of(dims) > 1 ? TEXT(" as \"%s.weight\" [%s]", name, merged(g, dims)) : "";
    else if (draw_one_in(g, 3))
        as = TEXT(" as \"%s.%s\"", name, draw_one_in(g, 2) ? "weight" : "bias");
    const char *list = dim_list(g, dims, ", ");
    const char *order = NULL, *size = NULL, *other = NULL;
    if (*as && dims && g->blocks < 0 && draw_one_in(g, 2)) {
        order = external_order(g, dims, &size);
        other = draw_one_in(g, 3) ? new_name(g, stem) : NULL;
        order = TEXT("%s [%s]", as, order);
        as = with_place(g, order, other ? "0" : NULL);
    } else if (dims && g->blocks < 0 && draw_one_in(g, 12))
        as = TEXT(" as \"%s.{}.weight\"", name);
    Text *out = g->out;
    const int indent = g->indent;
    if (g->scanned >= 0)
        g->out = g->before, g->indent = g->before_indent;
    line(g, "%s : param[%s] %s%s", name, list, initial(g), as);
    if (other) /* the rest of the same external tensor */
        line(g, "%s : param[%s] %s%s", other, list, initial(g), with_place(g, order, size));
    g->out = out;
    g->indent = indent;
    if (g->nexternal < 64)
        g->external[g->nexternal++] = name;
    g->nparams += 1 + (other != NULL);
    g->model |= dims;
    add_value(g, name, KIND_float, dims, -1)->param = true;
    if (other)
        add_value(g, other, KIND_float, dims, -1)->param = true;
    return name;
}

/* A value that has this dim, and no dim outside of `within`; else the parts outside summed. */
static const char *with_fixed(Gen *g, Dims f, Dims within, Dims *has)
{
    const GenValue *some[VALUES_MAX];
    int n = 0;
    *has = f;
    for (int i = 0; i < g->nvalues; i++)
        if (g->value[i].kind == KIND_float && g->value[i].dims & f)
            some[n++] = &g->value[i];
    if (!n) /* they were all assigned something else */
        return TEXT("index(%s)", dim_name(g, draw_dim(g, f)));
    const GenValue *v = some[n - 1 - draw_below(g, n) * draw_below(g, 2)];
    Dims out = v->dims & ~within;
    *has = v->dims & within;
    if (!out)
        return v->name;
    static const char *const how[] = {"sum", "mean", "max", "min"};
    return TEXT("%s(%s, over %s)", how[draw_below(g, 4)], v->name, over_list(g, out));
}

const char *leaf(Gen *g, Dims want)
{
    Dims have = 0;
    const char *s = NULL;
    g->used |= want;
    while (g->fixed & want & ~have) {
        Dims more;
        const char *v = with_fixed(g, g->fixed & want & ~have, want, &more);
        s = s ? TEXT("%s * %s", s, v) : v;
        have |= more;
    }
    if (!s && draw_below(g, 4)) {
        const GenValue *v = draw_value(g, KIND_float, want);
        s = v ? v->name : NULL;
        have = v ? v->dims : 0;
    }
    while (want & ~have) {
        Dims rest = want & ~have;
        const char *more;
        if (draw_one_in(g, 5)) {
            rest = bit(draw_dim(g, rest));
            more = TEXT("index(%s)", dim_name(g, draw_dim(g, rest)));
            if (draw_below(g, 3))
                more = TEXT("(%s * %s)", more, number(g, 0));
        } else {
            more = declare_param(g, rest, "w");
        }
        s = s ? TEXT(draw_below(g, 3) ? "%s * %s" : "%s + %s", s, more) : more;
        have |= rest;
    }
    if (!s)
        s = draw_one_in(g, 2) ? number(g, 2) : declare_param(g, 0, "s");
    return s;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static bool atomic(const char *s)
{
    int deep = 0;
    for (; *s; s++) {
        deep += (*s == '(' || *s == '[') - (*s == ')' || *s == ']');
        if (!deep && strchr(" -", *s))
            return false;
    }
    return true;
}

const char *term(Gen *g, Dims want, int depth)
{
    const char *s = expression(g, want, depth);
    return atomic(s) ? s : TEXT("(%s)", s);
}

/* A name for it. */
static const char *named(Gen *g, Dims want, int depth)
{
    const char *s = expression(g, want, depth), *name = new_name(g, "t");
    line(g, "%s = %s", name, s);
    add_value(g, name, KIND_float, want, -1);
    return name;
}

static Dims subset(Gen *g, Dims of)
{
    return of & (Dims)gen_random(&g->rng) & ~(g->fixed & ~reach(g));
}

/* Dims that nothing here has yet, to be summed over. */
static Dims fresh(Gen *g, Dims want, int max)
{
    Dims d = 0, free = tensor_dims(g) & ~want & ~g->fixed;
    for (int n = draw_between(g, 1, max); n > 0; n--)
        d |= bit(draw_dim(g, free & ~d));
    return small(g, want | d) ? d : 0;
}

static const char *condition(Gen *g, Dims within, int depth)
{
    static const char *const signs[] = {"<", "<=", ">", ">=", "==", "!="};
    const GenValue *v = draw_value(g, KIND_index, within);
    int d = draw_dim(g, within & ~bit(g->extra));
    const char *sign = signs[draw_below(g, 6)];
    if (v && draw_one_in(g, 2)) {
        if (within & bit(v->indexes) && draw_below(g, 3))
            return TEXT("index(%s) %s %s", dim_name(g, v->indexes), sign, v->name);
        return TEXT("%s %s %d", v->name, sign, draw_below(g, 4));
    }
    if (d >= 0 && draw_one_in(g, 3))
        return TEXT("index(%s) %s %d", dim_name(g, d), sign, draw_below(g, 4));
    Dims x = subset(g, within);
    return TEXT("%s %s %s", term(g, x, depth), signs[draw_below(g, 4)],
                draw_one_in(g, 2) ? number(g, 1) : term(g, subset(g, within), depth));
}

/* ---- productions: NULL where the dims do not allow them -------------------------------------- */

static const char *pair(Gen *g, Dims want, int depth)
{
    static const char *const of[] = {"%s + %s",     "%s - %s", "%s * %s", "max(%s, %s)",
                                     "min(%s, %s)", "%s + %s", "%s * %s"};
    const char *x = term(g, want, depth - 1), *y = term(g, subset(g, want), depth - 1);
    bool swap = draw_one_in(g, 3);
    return TEXT(of[draw_below(g, 7)], swap ? y : x, swap ? x : y);
}

static const char *ratio(Gen *g, Dims want, int depth)
{
    const char *x = term(g, want, depth - 1), *y = term(g, subset(g, want), depth - 1);
    return TEXT("%s / (1 + %s)", x,
                draw_one_in(g, 2) ? TEXT("abs(%s)", y) : TEXT("exp(-abs(%s))", y));
}

static const char *unary(Gen *g, Dims want, int depth)
{
    static const char *const of[] = {"tanh(%s)",
                                     "erf(%s)",
                                     "sigmoid(%s)",
                                     "sin(%s)",
                                     "cos(%s)",
                                     "abs(%s)",
                                     "sign(%s)",
                                     "rounded(%s)",
                                     "relu(%s)",
                                     "silu(%s)",
                                     "gelu(%s)",
                                     "gelu_tanh(%s)",
                                     "exp(-abs(%s))",
                                     "exp(tanh(%s))",
                                     "log(1 + abs(%s))",
                                     "sqrt(1 + abs(%s))",
                                     "rsqrt(1 + abs(%s))",
                                     "pow(%s, 2)",
                                     "-tanh(%s)",
                                     "stop(%s)",
                                     "pow(1 + abs(%s), -0.5)",
                                     "pow(0.5 + sigmoid(%s), 1.5)"};
    return TEXT(of[draw_below(g, 22)], expression(g, want, depth - 1));
}

static const char *square(Gen *g, Dims want, int depth)
{
    const char *x = named(g, want, depth - 1);
    switch (draw_below(g, 3)) {
    case 0:
        return TEXT("log(1 + %s * %s)", x, x);
    case 1:
        return TEXT("%s * rsqrt(0.1 + %s * %s)", x, x, x);
    default:
        return TEXT("pow(1 + %s * %s, sigmoid(%s))", x, x, term(g, subset(g, want), depth - 2));
    }
}

static const char *choice(Gen *g, Dims want, int depth)
{
    const char *x = expression(g, want, depth - 1), *y = expression(g, want, depth - 1);
    if (draw_one_in(g, 6))
        return TEXT("select(%s > 0.5, %s, %s)", number(g, 1), x, y);
    if (g->iteration && draw_one_in(g, 2)) { /* of some iterations, of the others */
        static const char *const of[] = {"%s %% 2 == 0", "%s < 1", "(%s + 1) %% 3 != 0"};
        const int which = draw_below(g, 3);
        return TEXT("select(%s, %s, %s)", TEXT(of[which], g->iteration), x, y);
    }
    return TEXT("select(%s, %s, %s)", condition(g, want, depth - 2), x, y);
}

static const char *reduction(Gen *g, Dims want, int depth)
{
    static const char *const of[] = {"sum(%s, over %s)", "mean(%s, over %s)", "max(%s, over %s)"};
    Dims d = fresh(g, want, 2);
    if (!want && !d && draw_one_in(g, 2))
        return TEXT("mean(%s)",
                    term(g, tensor_dims(g) & ~g->fixed & ~want & bit(draw_below(g, g->ndims)), 1));
    return d ? TEXT(of[draw_below(g, 3)], expression(g, want | d, depth - 1), over_list(g, d))
             : NULL;
}

/* Do rows of these dims have whole blocks, which begin in one of them? */
static bool rows_of_blocks(const Gen *g, Dims row)
{
    return row & bit(g->blocks) && 64 % elements(g, row & ~bit(g->blocks)) == 0;
}

/* A parameter that this product alone reads, and that is a matrix in files: one that may have an
 * adapter. */
static const char *declare_matrix(Gen *g, Dims out, Dims in)
{
    bool turned = draw_one_in(g, 3);
    if (g->blocks >= 0 && !rows_of_blocks(g, turned ? out : in)) {
        turned = !turned;
        if (!rows_of_blocks(g, turned ? out : in) && !draw_one_in(g, 40))
            return declare_param(g, out | in, "w");
    }
    const char *name = new_name(g, "m");
    Text *to = g->out;
    const int indent = g->indent;
    if (g->scanned >= 0)
        g->out = g->before, g->indent = g->before_indent;
    line(g, "%s : param[%s] ~ normal(0.5) as \"%s.weight\" [%s, %s]", name,
         dim_list(g, out | in, ", "), name, merged(g, turned ? in : out),
         merged(g, turned ? out : in));
    g->out = to;
    g->indent = indent;
    g->used |= out | in;
    g->model |= out | in;
    if (g->nmatrices < 16)
        g->matrix[g->nmatrices++] = name;
    g->nparams++;
    return name;
}

static const char *product(Gen *g, Dims want, int depth)
{
    Dims d = fresh(g, want, 2), right = subset(g, want);
    if (g->blocks >= 0 && tensor_dims(g) & ~want & bit(g->blocks) && draw_below(g, 4))
        d = small(g, want | bit(g->blocks)) ? bit(g->blocks) : 0;
    if (!d)
        return NULL;
    if (draw_below(g, 3)) /* a matrix */
        right &= ~g->fixed;
    Dims left = (want & ~right) | subset(g, want & right);
    if (g->fixed & left & ~reach(g))
        return NULL;
    const char *x = term(g, left | d, depth - 1);
    if (right && !(right & (left | g->fixed)) && draw_below(g, 3))
        return TEXT("%s @ %s over %s", x, declare_matrix(g, right, d), over_list(g, d));
    const char *w = !(right & g->fixed) && draw_below(g, 3) ? declare_param(g, right | d, "w")
                                                            : term(g, right | d, depth - 1);
    return draw_below(g, 4) ? TEXT("%s @ %s over %s", x, w, over_list(g, d))
                            : TEXT("%s @ %s over %s", w, x, over_list(g, d));
}

const char *of_blocks(Gen *g, Dims want)
{
    const Dims right = want & ~g->fixed, left = want & g->fixed;
    Dims d = want & bit(g->blocks) ? fresh(g, want, 1) : bit(g->blocks) & tensor_dims(g);
    if (!small(g, want | d) || elements(g, right) < 2 || elements(g, d) < 2 || left & ~reach(g))
        return NULL;
    const char *x = term(g, left | d, 2);
    return TEXT("%s @ %s over %s", x, declare_matrix(g, right, d), over_list(g, d));
}

static const char *norm(Gen *g, Dims want, int depth)
{
    Dims own = want & ~g->fixed, d = bit(draw_dim(g, own));
    if (!d)
        return NULL;
    if (draw_one_in(g, 4))
        d |= subset(g, own) & ~g->fixed;
    const char *x = expression(g, want, depth - 1);
    switch (draw_below(g, 3)) {
    case 0:
        return TEXT("softmax(%s, over %s)", x, over_list(g, d));
    case 1:
        return TEXT("rmsnorm(%s, %s, over %s, eps = %s)", x, declare_param(g, d, "gain"),
                    over_list(g, d), draw_one_in(g, 2) ? "1e-5" : "0.1");
    default:
        return TEXT("layernorm(%s, %s, %s, over %s, eps = 1e-2)", x, declare_param(g, d, "gain"),
                    draw_one_in(g, 3) ? "0" : declare_param(g, d, "bias"), over_list(g, d));
    }
}

/* A dim of the set with halves. */
static int even(Gen *g, Dims among)
{
    Dims e = 0;
    for (int i = 0; i < g->ndims; i++)
        if (g->dim[i].size % 2 == 0)
            e |= bit(i);
    return draw_dim(g, among & e);
}

static const char *turned(Gen *g, Dims want, int depth)
{
    int d = even(g, want & ~g->fixed), p = draw_dim(g, want & ~g->fixed & ~bit(d));
    if (d < 0)
        return NULL;
    const char *x = expression(g, draw_one_in(g, 8) ? want & ~bit(p) : want, depth - 1);
    if (p < 0 || draw_one_in(g, 3))
        return TEXT("rotate(%s, over %s)",
                    p < 0 ? expression(g, want, 0) : TEXT("%s + 0 * %s", x, leaf(g, want)),
                    dim_name(g, d));
    if (g->start && p == g->seq && want & bit(g->batch) && draw_one_in(g, 2))
        x = TEXT("%s, %s", x, g->start);
    if (draw_one_in(g, 3))
        return TEXT("rope_llama3(%s, along %s, over %s, theta = 100, factor = 4, original = 8)", x,
                    dim_name(g, p), dim_name(g, d));
    return TEXT("rope(%s, along %s, over %s%s)", x, dim_name(g, p), dim_name(g, d),
                draw_one_in(g, 2) ? ", theta = 10" : "");
}

static const char *looked_up(Gen *g, Dims want, int depth)
{
    const GenValue *v = draw_value(g, KIND_index, want);
    if (!v || want & ~v->dims & bit(v->indexes) || v->dims & bit(v->indexes))
        return NULL;
    const Dims matched = draw_one_in(g, 2) ? v->dims & (Dims)gen_random(&g->rng) : 0;
    const Dims rest = (want & ~v->dims) | matched | bit(v->indexes);
    if ((g->fixed & rest) & ~reach(g) || !small(g, want | rest))
        return NULL;
    const char *table = !(rest & g->fixed) && draw_below(g, 4) ? declare_param(g, rest, "table")
                                                               : term(g, rest, depth - 1);
    return TEXT("%s[%s]", table, v->name);
}

static const char *renamed(Gen *g, Dims want, int depth)
{
    int to = draw_dim(g, want & ~g->fixed);
    Dims from = 0;
    if (to < 0)
        return NULL;
    for (int i = 0; i < g->ndims; i++)
        if (tensor_dims(g) & ~want & ~g->fixed & bit(i) && g->dim[i].size == g->dim[to].size)
            from |= bit(i);
    int d = draw_dim(g, from);
    if (d < 0)
        return NULL;
    const char *x = term(g, (want & ~bit(to)) | bit(d), depth - 1);
    return TEXT("%s[%s -> %s]", x, dim_name(g, d), dim_name(g, to));
}

static const char *picked(Gen *g, Dims want, int depth)
{
    int d = draw_dim(g, fresh(g, want, 1));
    if (d < 0)
        return NULL;
    const char *x = expression(g, want | bit(d), depth - 1);
    if (draw_one_in(g, 3))
        return TEXT("last(%s, along %s)", x, dim_name(g, d));
    return TEXT("pick(%s, along %s, at = %d)", x, dim_name(g, d), draw_below(g, g->dim[d].size));
}

typedef const char *Production(Gen *g, Dims want, int depth);

/* Dims that may be cut and shifted. */
static Dims loose(const Gen *g)
{
    return tensor_dims(g) & ~g->fixed & ~bit(g->batch) & ~bit(g->extra);
}

/* Two dims among these whose sizes give that of d, multiplied or added. */
static bool two_of(Gen *g, Dims among, int size, bool times, int *a, int *b)
{
    Dims firsts = 0;
    for (int pass = 0; pass < 2; pass++) {
        *a = pass ? draw_dim(g, firsts) : -1;
        for (int i = 0; i < g->ndims; i++)
            for (int k = 0; k < g->ndims; k++) {
                const int with =
                    times ? g->dim[i].size * g->dim[k].size : g->dim[i].size + g->dim[k].size;
                if (i == k || !(among & bit(i)) || !(among & bit(k)) || with != size)
                    continue;
                firsts |= bit(i);
                if (i == *a) {
                    *b = k;
                    return true;
                }
            }
        if (!firsts)
            return false;
    }
    return false;
}

static const char *split_or_merged(Gen *g, Dims want, int depth)
{
    const Dims in = want & loose(g), out = loose(g) & ~want;
    const bool splits = draw_one_in(g, 2);
    const int d = draw_dim(g, splits ? out : in);
    int a, b;
    if (d < 0 || !two_of(g, splits ? in : out, g->dim[d].size, true, &a, &b))
        return NULL;
    const Dims pair = bit(a) | bit(b);
    const char *x = term(g, splits ? (want & ~pair) | bit(d) : (want & ~bit(d)) | pair, depth - 1);
    const char *one = dim_name(g, d), *two = TEXT("(%s, %s)", dim_name(g, a), dim_name(g, b));
    return TEXT("%s[%s -> %s]", x, splits ? one : two, splits ? two : one);
}

static const char *joined(Gen *g, Dims want, int depth)
{
    const int d = draw_dim(g, want & loose(g));
    int a, b;
    if (d < 0 || !two_of(g, loose(g) & ~want, g->dim[d].size, false, &a, &b))
        return NULL;
    const char *x = expression(g, (want & ~bit(d)) | bit(a), depth - 1);
    const char *y = expression(g, (want & ~bit(d)) | bit(b), depth - 1);
    return TEXT("join(%s, %s, (%s, %s) -> %s)", x, y, dim_name(g, a), dim_name(g, b),
                dim_name(g, d));
}

static const char *cut(Gen *g, Dims want, int depth)
{
    const int d = draw_dim(g, want & loose(g));
    Dims longer = 0;
    for (int i = 0; d >= 0 && i < g->ndims; i++)
        if (loose(g) & ~want & bit(i) && g->dim[i].size >= g->dim[d].size)
            longer |= bit(i);
    const int from = draw_dim(g, longer);
    if (from < 0)
        return NULL;
    const int at = draw_between(g, 0, g->dim[from].size - g->dim[d].size);
    const char *x = term(g, (want & ~bit(d)) | bit(from), depth - 1);
    return at ? TEXT("%s[%s = %d .. %d -> %s]", x, dim_name(g, from), at, at + g->dim[d].size,
                     dim_name(g, d))
              : TEXT("%s[%s = 0 .. %s]", x, dim_name(g, from), dim_name(g, d));
}

/* Elements at sums of indices. What is read has the dim of the place, which the result may have
 * too. */
static const char *shifted(Gen *g, Dims want, int depth)
{
    const int a = draw_dim(g, want & loose(g)), b = draw_dim(g, want & loose(g) & ~bit(a));
    const bool itself = draw_one_in(g, 2);
    const int from = itself ? a : draw_dim(g, loose(g) & ~want);
    if (a < 0 || from < 0)
        return NULL;
    const bool second = b >= 0 && draw_one_in(g, 2);
    Dims in = (want & ~bit(a)) | bit(from);
    if (second && draw_below(g, 4))
        in &= ~bit(b);
    const char *x = term(g, in, depth - 1), *one = dim_name(g, a), *place = dim_name(g, from);
    const char *two = second ? TEXT(" %s %s", draw_one_in(g, 2) ? "+" : "-", dim_name(g, b)) : "";
    if (draw_one_in(g, 4) && !(in & bit(b) & -second))
        return itself ? TEXT("%s[%s%s - %d]", x, one, *two ? two : " + 0", draw_below(g, 3))
                      : TEXT("%s[%s = %s%s]", x, place, one, two);
    return TEXT("%s[%s = %d * %s%s + %d]", x, place, draw_one_in(g, 4) ? -1 : draw_between(g, 1, 3),
                one, two, draw_between(g, -2, 3));
}

/* One axis of a convolution: position a of the result and tap b read dim *from; NULL: there is
 * none. */
static const char *axis(Gen *g, Dims want, int a, int b, int *from)
{
    *from = draw_one_in(g, 2) ? a : draw_dim(g, loose(g) & ~want & ~bit(b));
    if (a < 0 || b < 0 || *from < 0)
        return NULL;
    return TEXT("%s = %d * %s %s %d * %s + %d", dim_name(g, *from), draw_between(g, 1, 2),
                dim_name(g, a), draw_one_in(g, 2) ? "+" : "-", draw_between(g, 1, 2),
                dim_name(g, b), draw_between(g, -2, 2));
}

/* A convolution along one dim or two, with a stride or a dilation or none; or of each channel. */
static const char *convolved(Gen *g, Dims want, int depth)
{
    const Dims taps = loose(g) & ~want;
    const int a = draw_dim(g, want & loose(g)), b = draw_dim(g, taps);
    int from[2] = {-1, -1};
    const char *place = a < 0 || b < 0 ? NULL : axis(g, want, a, b, &from[0]);
    if (!place)
        return NULL;
    Dims over = bit(b), positions = bit(a), read = bit(from[0]);
    const int a2 = draw_dim(g, want & loose(g) & ~positions & ~read);
    const int b2 = draw_dim(g, taps & ~over & ~read);
    if (a2 >= 0 && b2 >= 0 && draw_one_in(g, 2)) {
        const char *more = axis(g, want | over | read, a2, b2, &from[1]);
        if (more) {
            place = TEXT("%s, %s", place, more);
            over |= bit(b2);
            positions |= bit(a2);
            read |= bit(from[1]);
        }
    }
    const Dims sums = fresh(g, want | over | read, 1), own = want & ~positions & ~g->fixed;
    const Dims columns = draw_below(g, 4) ? own & bit(draw_dim(g, own)) : 0;
    const Dims in = (want & ~positions & ~(draw_below(g, 4) ? columns : 0)) | read | sums;
    if (g->fixed & in & ~reach(g))
        return NULL;
    const char *x = term(g, in, depth - 1), *w = declare_param(g, over | sums | columns, "w");
    return draw_below(g, 4)
               ? TEXT("%s[%s] @ %s over %s", x, place, w, over_list(g, over | sums))
               : TEXT("sum(%s[%s] * %s, over %s)", x, place, w, over_list(g, over | sums));
}

static const char *parted(Gen *g, Dims want, int depth)
{
    static Production *const all[] = {split_or_merged, joined,    cut,      shifted,
                                      shifted,         convolved, convolved};
    return all[draw_below(g, 7)](g, want, depth);
}

static const char *dropped(Gen *g, Dims want, int depth)
{
    static const char *const p[] = {"0.1", "0.5", "0", "0.25"};
    return want ? TEXT("dropout(%s, p = %s)", expression(g, want, depth - 1), p[draw_below(g, 4)])
                : NULL;
}

/* Numbers drawn in each step; of no dims the step. */
static const char *noise(Gen *g, Dims want, int depth)
{
    (void)depth;
    if (!want)
        return draw_one_in(g, 2) ? "(0.1 * step())" : NULL;
    if (want & bit(g->extra) || !small(g, want))
        return NULL;
    return TEXT("%s(over (%s))", draw_one_in(g, 2) ? "uniform" : "normal", dim_list(g, want, ", "));
}

static const char *unpadded(Gen *g, Dims want, int depth)
{
    int d = draw_dim(g, want & ~bit(g->extra));
    return d < 0 ? NULL
                 : TEXT("select(valid(%s), %s, 0)", dim_name(g, d), expression(g, want, depth - 1));
}

/* A cross-entropy of a new expression; a value of the program gives its targets. */
static const char *entropy(Gen *g, Dims want, int depth)
{
    const GenValue *v = draw_value(g, KIND_index, tensor_dims(g) & ~g->fixed);
    if (want || !v || v->dims & bit(v->indexes) || !small(g, v->dims | bit(v->indexes)))
        return NULL;
    return TEXT("cross_entropy(%s, %s)", expression(g, v->dims | bit(v->indexes), depth - 1),
                v->name);
}

const char *expression(Gen *g, Dims want, int depth)
{
    static Production *const all[] = {
        pair,         pair,         unary,     unary,   product,  product, product,
        norm,         turned,       dropped,   noise,   choice,   ratio,   square,
        reduction,    reduction,    looked_up, renamed, picked,   entropy, unpadded,
        block_called, block_called, parted,    parted,  attended, routed};
    enum { PLAIN = 11, ALL = sizeof all / sizeof *all };
    g->used |= want;
    for (int tries = 0; depth > 0 && g->budget > 0 && tries < 4; tries++) {
        const char *before = g->ordered >= 0 && draw_one_in(g, 4) ? behind(g, want, depth) : NULL;
        if (before)
            return before;
        int which = g->plain ? draw_below(g, PLAIN + 3) : draw_below(g, ALL);
        if (g->plain && which >= PLAIN)
            which = ALL - 1 - (which - PLAIN);
        g->budget--;
        const char *s = all[which](g, want, depth);
        if (s)
            return s;
    }
    return leaf(g, want);
}
