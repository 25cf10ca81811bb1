/* body.c - random statements, blocks and models; see gen.h. */
#include "tests/programs/gen.h"

#include <stdio.h>
#include <string.h>

#define TEXT(...) arena_printf(g->a, __VA_ARGS__)

static void statements(Gen *g, int n, int base);

/* ---- statements ------------------------------------------------------------------------------ */

/* Dims that a new value may have: those of one that is there, with some more or less. */
static Dims draw_dims(Gen *g)
{
    const GenValue *v = draw_value(g, KIND_float, ~(Dims)0);
    Dims d = v ? v->dims : 0;
    if (draw_one_in(g, 3))
        d &= ~bit(draw_dim(g, d));
    for (int k = draw_below(g, g->plain ? 2 : 3); k > 0; k--)
        d |= bit(draw_dim(g, tensor_dims(g) & ~d));
    d &= ~(g->fixed & ~reach(g));
    return small(g, d) ? d : v ? v->dims : 0;
}

static void assign_new(Gen *g)
{
    Dims d = draw_dims(g);
    const char *s = expression(g, d, 3), *name = new_name(g, "v");
    line(g, "%s = %s", name, s);
    add_value(g, name, KIND_float, d, -1);
    if (g->depth && g->ninner < 16)
        g->inner[g->ninner++] = name;
}

/* Another value for a name that has one. One from outside of the repeat keeps its dims. */
static void assign_again(Gen *g, int base)
{
    int some[VALUES_MAX], n = 0;
    for (int i = 0; i < g->nvalues; i++)
        if (g->value[i].kind == KIND_float && !g->value[i].param)
            some[n++] = i;
    if (!n)
        return;
    GenValue v = g->value[some[n - 1 - draw_below(g, n) * draw_below(g, 2)]];
    bool outer = base > 0 && v.name != g->value[g->nvalues - 1].name;
    for (int i = 0; i < base; i++)
        outer |= !strcmp(g->value[i].name, v.name);
    Dims d = outer || draw_below(g, 3) ? v.dims : draw_dims(g);
    const char *s = expression(g, d, 3);
    if (d == v.dims && draw_below(g, 3))
        s = TEXT("%s + %s", v.name, term(g, d, 2));
    line(g, "%s = %s", v.name, s);
    add_value(g, v.name, KIND_float, d, -1);
}

/* A name that may get a value of these dims: a new one, or one that has such a value. */
static const char *name_for(Gen *g, Dims d, const char *other)
{
    for (int i = 0; i < g->nvalues; i++) {
        const GenValue *v = &g->value[i];
        if (v->kind == KIND_float && !v->param && v->dims == d && strcmp(v->name, other) != 0 &&
            draw_one_in(g, 3))
            return v->name;
    }
    return new_name(g, "v");
}

static void assign_two(Gen *g)
{
    Dims d[2];
    const char *s = pair_called(g, d, 2);
    if (!s)
        return;
    const char *x = name_for(g, d[0], ""), *y = name_for(g, d[1], x);
    line(g, "%s, %s = %s", x, y, s);
    add_value(g, x, KIND_float, d[0], -1);
    add_value(g, y, KIND_float, d[1], -1);
}

static void choose_indices(Gen *g)
{
    const GenValue *v = draw_value(g, KIND_float, ~(Dims)0);
    Dims own = v ? v->dims & ~g->fixed : 0, to = 0;
    int d = draw_dim(g, own);
    for (int i = 0; d >= 0 && i < g->ndims; i++)
        if (tensor_dims(g) & ~v->dims & ~g->fixed & bit(i) && g->dim[i].size <= g->dim[d].size)
            to |= bit(i);
    int t = draw_dim(g, to);
    if (t < 0)
        return;
    const char *name = new_name(g, "i");
    line(g, "%s = top(%s, %s -> %s)", name, v->name, dim_name(g, d), dim_name(g, t));
    add_value(g, name, KIND_index, (v->dims & ~bit(d)) | bit(t), d);
}

/* A penalty, as a repeat may carry: a number made of what is at hand. */
static void add_up(Gen *g, int base)
{
    const GenValue *sum = NULL, *v = draw_value(g, KIND_float, ~g->fixed);
    for (int i = 0; i < g->nvalues; i++)
        if (!g->value[i].dims && !g->value[i].param && g->value[i].kind == KIND_float)
            sum = &g->value[i];
    (void)base;
    if (sum && v && v->dims)
        line(g, "%s = %s + %s(%s * %s)", sum->name, sum->name, draw_one_in(g, 2) ? "sum" : "mean",
             v->name, v->name);
}

static void repeat(Gen *g)
{
    Dims free = 0;
    int some[VALUES_MAX], n = 0;
    for (int i = 0; i < g->ndims; i++) {
        bool used = !g->dim[i].iterations || g->dim[i].gone;
        for (int k = 0; k < g->depth; k++)
            used |= g->loops[k] == i;
        free |= used ? 0 : bit(i);
    }
    for (int i = 0; i < g->nvalues; i++)
        if (g->value[i].kind == KIND_float && !g->value[i].param)
            some[n++] = i;
    int d = draw_dim(g, free);
    if (d < 0 || !n || g->depth == 3)
        return;
    GenValue carried = g->value[some[n - 1 - draw_below(g, n) * draw_below(g, 2)]];
    const char *as = draw_one_in(g, 3) ? "" : TEXT(" as \"%s.{}\"", new_name(g, "r"));
    const char *outer = g->iteration;
    if (draw_one_in(g, 3) && g->nnumbers < NUMBERS_MAX)
        g->number[g->nnumbers++] = g->iteration = new_name(g, "n");
    if (g->iteration != outer)
        line(g, "repeat %s at %s%s {", dim_name(g, d), g->iteration, as);
    else
        line(g, "repeat %s%s {", dim_name(g, d), as);
    int base = g->nvalues, instances = g->ninstances;
    g->repeated |= bit(d);
    g->loops[g->depth++] = d;
    g->indent++;
    statements(g, draw_between(g, 0, 3), base);
    const char *s = g->blocks >= 0 ? of_blocks(g, carried.dims) : NULL;
    s = s ? TEXT("(%s)", s) : term(g, carried.dims, draw_between(g, 1, 3));
    line(g, "%s = %s + %s", carried.name, carried.name,
         draw_one_in(g, 3) ? s : TEXT("0.3 * %s", s));
    g->indent--;
    g->depth--;
    g->nvalues = base;
    g->ninstances = instances;
    g->nnumbers -= g->iteration != outer;
    g->iteration = outer;
    line(g, "}");
}

/* The value that a scan reads at its index. */
static const GenValue *scanned_value(Gen *g)
{
    int some[VALUES_MAX], n = 0;
    for (int i = 0; i < g->nvalues; i++)
        if (g->value[i].kind == KIND_float && g->value[i].dims & tensor_dims(g) & ~g->fixed)
            some[n++] = i;
    return n ? &g->value[some[draw_below(g, n)]] : NULL;
}

/* The body of a scan along d, in which no value has d, and what has it outside is not assigned. */
static void scan_body(Gen *g, int d, GenValue read)
{
    const int base = g->nvalues;
    const GenValue *carried = NULL;
    for (int i = 0; i < base; i++) {
        g->value[i].param |= (g->value[i].dims & bit(d)) != 0;
        g->value[i].dims &= ~bit(d);
        if (g->value[i].kind == KIND_float && !g->value[i].param && draw_one_in(g, 2))
            carried = &g->value[i];
    }
    const GenValue c = carried ? *carried : (GenValue){0};
    statements(g, draw_below(g, 3), base);
    read.dims &= ~bit(d);
    const char *s = term(g, read.dims, 2), *name = new_name(g, "v");
    line(g, "%s = %s + 0.5 * %s", name, read.name, s);
    add_value(g, name, KIND_float, read.dims, -1);
    if (carried) {
        s = term(g, c.dims, draw_between(g, 1, 3));
        line(g, "%s = 0.5 * %s + 0.3 * %s", c.name, c.name, s);
    }
}

/* A factor that a state is scaled by; rarely one that may be 0 or less. */
static const char *fading(Gen *g, Dims dims)
{
    const char *s = term(g, dims, 1);
    switch (draw_below(g, 6)) {
    case 0:
        return "0.7";
    case 1:
        return TEXT("sigmoid(%s)", s);
    case 2:
        return TEXT("(1 - sigmoid(%s))", s);
    case 3:
        return draw_one_in(g, 3) ? TEXT("tanh(%s)", s) : TEXT("pow(sigmoid(%s), 0.5)", s);
    default:
        return TEXT("exp(-abs(%s))", s);
    }
}

/* Some of these dims. */
static Dims some_dims(Gen *g, Dims all)
{
    Dims d = 0;
    for (int i = 0; i < g->ndims; i++)
        d |= draw_one_in(g, 2) ? all & bit(i) : 0;
    return d;
}

/* A body that updates a state linearly: it fades, takes in a product of what has some of its dims
 * each, or what a key does not read yet, and is read by a sum over one of them. */
static void linear_body(Gen *g, const char *along, const char *state, Dims dims)
{
    const int key = draw_dim(g, dims);
    const Dims inner = bit(key) | some_dims(g, dims), outer = dims & ~bit(key);
    const char *k = TEXT("(%s * cos(0.3 * index(%s)))", term(g, inner, 1), along);
    const char *v = term(g, outer, 1), *y = new_name(g, "v");
    const char *fade = draw_one_in(g, 4) ? "" : TEXT("%s * ", fading(g, some_dims(g, dims)));
    const char *q = term(g, bit(key) | some_dims(g, dims), 1);
    const char *read = draw_one_in(g, 2)
                           ? TEXT("%s @ %s over %s", q, state, dim_name(g, key))
                           : TEXT("sum(%s * %s, over %s)", q, state, dim_name(g, key));
    const bool first = draw_one_in(g, 4);
    if (first)
        line(g, "%s = %s", y, read);
    if (draw_one_in(g, 3)) {
        line(g, "%s = %s%s", state, fade, state);
        line(g, "%s = %s + 0.2 * (%s - 0.1 * %s @ %s over %s) * %s", state, state, v, k, state,
             dim_name(g, key), k);
    } else {
        line(g, "%s = %s%s %s %s * %s", state, fade, state, draw_one_in(g, 4) ? "-" : "+", k, v);
    }
    if (!first)
        line(g, "%s = %s", y, read);
    add_value(g, y, KIND_float, outer, -1);
}

/* The dims of a state: a few, of which one is summed where it is read. */
static Dims state_dims(Gen *g, int along)
{
    Dims d = 0;
    for (int n = draw_between(g, 1, 3); n > 0; n--)
        d |= bit(draw_dim(g, tensor_dims(g) & ~g->fixed & ~d & ~bit(along)));
    return small(g, d) ? d : 0;
}

static void scan(Gen *g)
{
    const GenValue *v = scanned_value(g);
    const int d = v ? draw_dim(g, v->dims & tensor_dims(g) & ~g->fixed) : -1;
    if (d < 0 || g->scanned >= 0 || g->depth == 3)
        return;
    GenValue *saved = arena_array(g->a, VALUES_MAX, sizeof *saved);
    memcpy(saved, g->value, sizeof g->value);
    const int base = g->nvalues, instances = g->ninstances;
    const GenValue read = *v;
    Text body = {0}, *out = g->out;
    const char *name = dim_name(g, d), *state = new_name(g, "s");
    const Dims dims = draw_one_in(g, 2) ? state_dims(g, d) : 0;
    if (dims) {
        line(g, "%s = expand(0, over %s)", state, over_list(g, dims));
        g->linear |= bit(d);
    }
    g->before = out;
    g->before_indent = g->indent++;
    g->out = &body;
    g->scanned = d;
    g->dim[d].gone = true;
    g->loops[g->depth++] = d;
    if (dims) {
        for (int i = 0; i < g->nvalues; i++) {
            g->value[i].param |= (g->value[i].dims & bit(d)) != 0;
            g->value[i].dims &= ~bit(d);
        }
        linear_body(g, name, state, dims);
    } else {
        scan_body(g, d, read);
    }
    g->depth--;
    g->dim[d].gone = false;
    g->scanned = -1;
    g->ninstances = instances;
    g->out = out;
    g->indent--;
    line(g, "scan %s%s {", name, draw_one_in(g, 3) ? " reverse" : "");
    put(g->a, out, "%s", body.n ? body.data : "");
    line(g, "}");
    const int made = g->nvalues;
    GenValue *now = arena_array(g->a, VALUES_MAX, sizeof *now);
    memcpy(now, g->value, sizeof g->value);
    memcpy(g->value, saved, sizeof g->value);
    g->nvalues = base;
    if (dims)
        add_value(g, state, KIND_float, dims, -1);
    for (int i = base; i < made; i++) {
        const Dims all = now[i].dims | (now[i].param ? 0 : bit(d));
        if (small(g, all))
            add_value(g, now[i].name, now[i].kind, all, now[i].indexes)->param = now[i].param;
    }
}

static void local_dim(Gen *g)
{
    int d = draw_dim(g, tensor_dims(g) & ~g->fixed);
    const char *name = new_name(g, "d");
    int at = d < 0 ? -1 : add_dim(g, name, g->dim[d].size);
    if (at < 0)
        return;
    line(g, "dim %s = %s", name, dim_name(g, d));
    g->dim[at].local = true;
}

static void statement(Gen *g, int base)
{
    int which = draw_below(g, 21);
    if (which < 5)
        assign_new(g);
    else if (which < 10)
        assign_again(g, base);
    else if (which < 12)
        repeat(g);
    else if (which == 12 && !g->plain)
        choose_indices(g);
    else if (which == 13 && !g->plain && g->depth == 0)
        local_dim(g);
    else if (which == 14)
        add_up(g, base);
    else if (which == 18)
        scan(g);
    else if (which == 20)
        new_follower(g);
    else if (which == 19)
        new_instance(g);
    else if (which > 15)
        assign_two(g);
    else
        declare_param(g, draw_dims(g) & ~g->fixed, "p");
}

static void statements(Gen *g, int n, int base)
{
    for (; n > 0; n--)
        statement(g, base);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static const char *block_arg(Gen *g, GenBlock *b, int i)
{
    GenValue *v = &b->arg[i];
    const char *name = new_name(g, i ? "y" : "x");
    int table = g->vocab >= 0 ? g->vocab : g->classes;
    if (i && table >= 0 && draw_one_in(g, 3)) {
        Dims dims = g->seq >= 0 ? bit(g->seq) : 0;
        bool own = !g->dim[table].alias && draw_one_in(g, 2);
        *v = (GenValue){name, KIND_index, dims, table, false};
        if (own)
            g->dim[table].alias = new_name(g, "c");
        return TEXT("%s : token(%s)", name, dim_name(g, table));
    }
    Dims dims = 0;
    for (int n = draw_between(g, 0, 3); n > 0; n--)
        dims |= bit(draw_dim(g, tensor_dims(g) & ~dims));
    *v = (GenValue){name, KIND_float, (small(g, dims) ? dims : 0) | (i ? 0 : bit(g->extra)), -1,
                    false};
    dims = v->dims & ~bit(g->extra);
    return draw_one_in(g, 3) ? name : TEXT("%s[%s]", name, dim_list(g, dims, ", "));
}

/* The head, and what it puts in sight. */
static void block_head(Gen *g, GenBlock *b)
{
    const char *s = "";
    b->along = b->over = -1;
    b->nargs = draw_between(g, 1, 3);
    if (draw_one_in(g, 3)) {
        b->along = draw_dim(g, tensor_dims(g));
        g->dim[b->along].alias = new_name(g, "pos");
    }
    if (draw_one_in(g, 3)) {
        b->over = draw_dim(g, tensor_dims(g) & ~bit(b->along));
        if (b->over >= 0)
            g->dim[b->over].alias = new_name(g, "d");
    }
    for (int i = 0; i < b->nargs; i++)
        s = TEXT("%s%s%s", s, i ? ", " : "", block_arg(g, b, i));
    if (b->along >= 0)
        s = TEXT("%s, along %s", s, dim_name(g, b->along));
    if (b->over >= 0)
        s = TEXT("%s, over %s", s, dim_name(g, b->over));
    if (draw_one_in(g, 3)) {
        b->option = new_name(g, "o");
        b->must = draw_one_in(g, 2);
        s = TEXT("%s, %s =%s", s, b->option, b->must ? "" : " 0.5");
    }
    if ((b->option || b->along >= 0) && draw_one_in(g, 2)) {
        b->flag = new_name(g, "flag");
        s = TEXT("%s, %s", s, b->flag);
    }
    line(g, "block %s(%s) {", b->name, s);
    for (int i = 0; i < b->nargs; i++) {
        const GenValue *v = &b->arg[i];
        add_value(g, v->name, v->kind, v->dims, v->indexes);
        g->used |= v->dims | (v->kind == KIND_index ? bit(v->indexes) : 0);
    }
    if (b->option)
        g->number[g->nnumbers++] = b->option;
    if (b->flag)
        g->number[g->nnumbers++] = b->flag;
}

static void forget_dims(Gen *g)
{
    for (int i = 0; i < g->ndims; i++) {
        g->dim[i].gone |= g->dim[i].local;
        g->dim[i].alias = NULL;
    }
}

void write_block(Gen *g)
{
    if (g->nblocks == BLOCKS_MAX || g->nnumbers + 2 > NUMBERS_MAX)
        return;
    GenBlock b = {.name = new_name(g, "f")};
    int numbers = g->nnumbers, external = g->nparams;
    g->dim[g->batch].gone = true;
    g->dim[g->extra].gone = false;
    g->fixed = bit(g->extra);
    g->used = 0;
    g->nvalues = g->ninstances = 0;
    block_head(g, &b);
    g->indent = 1;
    statements(g, draw_below(g, 4), 0);
    Dims local = 0;
    for (int i = 0; i < g->ndims; i++)
        local |= g->dim[i].local ? bit(i) : 0;
    b.result = draw_dims(g) & ~local;
    if (draw_below(g, 5))
        b.result |= reach(g);
    const char *result = expression(g, b.result, 3);
    b.two = draw_one_in(g, 3);
    if (b.two) {
        b.second = draw_dims(g) & ~local;
        result = TEXT("%s, %s", result, expression(g, b.second, 3));
    }
    line(g, "return %s", result);
    g->indent = 0;
    line(g, "}");
    forget_dims(g);
    g->dim[g->batch].gone = false;
    g->dim[g->extra].gone = true;
    b.extra = bit(g->extra);
    b.used = g->used & ~b.extra;
    b.params = g->nparams > external;
    g->nnumbers = numbers;
    g->nvalues = 0;
    g->block[g->nblocks++] = b;
}

/* ---- models ---------------------------------------------------------------------------------- */

static void named_inputs(Gen *g)
{
    const char *s = "";
    int n = draw_one_in(g, 8) ? 8 : draw_between(g, 1, 3);
    for (int i = 0; i < n; i++) {
        int index = i && draw_one_in(g, 2) ? (draw_one_in(g, 2) ? g->vocab : g->classes) : -1;
        const char *name = new_name(g, index >= 0 ? "y" : "x");
        Dims dims = 0, among = tensor_dims(g) & ~bit(g->batch) & ~bit(index);
        for (int k = draw_below(g, 3) + !i; k > 0; k--)
            dims |= bit(draw_dim(g, among & ~dims));
        dims = small(g, dims | bit(g->batch)) ? dims : 0;
        g->model |= dims;
        const char *list = dim_list(g, dims, ", ");
        s = TEXT("%s%s%s[%s%s%s]", s, i ? ", " : "", name, dim_name(g, g->batch), dims ? ", " : "",
                 list);
        if (index >= 0)
            s = TEXT("%s : token(%s)", s, dim_name(g, index));
        add_value(g, name, index >= 0 ? KIND_index : KIND_float, dims | bit(g->batch), index)
            ->param = true;
    }
    line(g, "model m(%s) {", s);
    g->indent = 1;
}

static void token_input(Gen *g)
{
    Dims at = bit(g->batch) | bit(g->seq),
         own = bit(draw_dim(g, tensor_dims(g) & ~at & ~bit(g->vocab)));
    if (draw_one_in(g, 3))
        own |= bit(draw_dim(g, tensor_dims(g) & ~at & ~bit(g->vocab) & ~own));
    line(g, "model m(tokens[batch, seq] : token(vocab)%s) {%s",
         g->weighted ? ", weight[batch, seq]" : "", g->ordered < 0 ? "" : "  " ORDERED);
    g->indent = 1;
    add_value(g, "tokens", KIND_index, at, g->vocab);
    if (g->weighted)
        add_value(g, "weight", KIND_float, at, -1)->param = true;
    if (!small(g, at | own | bit(g->vocab)))
        own = bit(draw_dim(g, own));
    const char *table = declare_param(g, own | bit(g->vocab), "embed");
    line(g, "x = %s[tokens]", table);
    if (draw_one_in(g, g->ordered < 0 ? 4 : 12)) { /* a model that generates knows no documents */
        g->start = new_name(g, "start");
        line(g, "%s = document_start(tokens, along seq)", g->start);
    }
    add_value(g, "x", KIND_float, at | own, -1);
}

/* The logits of a cross-entropy over targets of these dims. */
static const char *logits(Gen *g, Dims at, int classes)
{
    const GenValue *x = NULL;
    for (int i = 0; i < g->nvalues; i++)
        if (g->value[i].kind == KIND_float && !g->value[i].param && !(at & ~g->value[i].dims) &&
            !(g->value[i].dims & bit(classes)))
            x = &g->value[i];
    Dims over = x ? x->dims & ~at : 0;
    if (over && draw_below(g, 4)) {
        const char *w = declare_param(g, over | bit(classes), "head");
        return TEXT("%s @ %s over %s", x->name, w, over_list(g, over));
    }
    return expression(g, at | bit(classes), 2);
}

static const char *token_loss(Gen *g)
{
    Dims at = bit(g->batch) | bit(g->seq);
    bool last = !g->weighted && draw_one_in(g, 6);
    const char *targets = last               ? "last(next(tokens), along seq)"
                          : draw_below(g, 6) ? "next(tokens)"
                                             : "next(tokens, by = 2)";
    const char *l = logits(g, last ? bit(g->batch) : at, g->vocab);
    return TEXT("cross_entropy(%s, %s%s)", l, targets, g->weighted ? ", weight" : "");
}

static const char *named_loss(Gen *g)
{
    const GenValue *y = NULL;
    for (int i = 0; i < g->nvalues; i++)
        if (g->value[i].kind == KIND_index && g->value[i].param)
            y = &g->value[i];
    if (y && !(y->dims & bit(y->indexes)) && small(g, y->dims | bit(y->indexes)) &&
        draw_below(g, 5))
        return TEXT("cross_entropy(%s, %s)", logits(g, y->dims, y->indexes), y->name);
    const GenValue *x = draw_value(g, KIND_float, ~(Dims)0);
    for (int i = 0; i < g->nvalues; i++)
        if (g->value[i].kind == KIND_float && g->value[i].dims & bit(g->batch) && draw_below(g, 2))
            x = &g->value[i];
    const char *s = term(g, x->dims, 2);
    return TEXT("mean(pow(%s - %s, 2))", s, x->name);
}

/* Of values with dims: means, ratios of sums, and what is made of them; and of the loss. What is
 * drawn after them does not depend on them. */
static void metrics(Gen *g)
{
    const uint64_t rng = g->rng;
    static const char *const of_values[] = {
        "mean(%s)",
        "sqrt(1 + mean(%1$s * %1$s))",
        "mean(select(%s > 0, 1, 0))",
        "sum(%1$s * %1$s) / (1 + sum(abs(%1$s)))",
        "mean(min(%s, 0.5)) + 0.1 * log(1 + abs(loss))",
    };
    for (int k = draw_below(g, 3); k > 0; k--) {
        const GenValue *x = draw_value(g, KIND_float, ~(Dims)0);
        const char *form = x && x->dims ? of_values[draw_below(g, 5)] : "log(1 + abs(loss))";
        line(g, TEXT("metric %s = %s", new_name(g, "metric_"), form), x ? x->name : "");
    }
    if (!g->named && draw_one_in(g, 4)) {
        const char *l = logits(g, bit(g->batch) | bit(g->seq), g->vocab);
        line(g, "metric %s = mean(in_top(%s, next(tokens)%s))", new_name(g, "metric_"), l,
             draw_one_in(g, 2) ? ", best = 2" : "");
    }
    g->rng = rng;
}

/* Sometimes a loss beside the first: settings.c writes a train block for it. */
static void other_loss(Gen *g)
{
    const GenValue *x = draw_value(g, KIND_float, ~(Dims)0);
    g->other = x && x->dims && draw_one_in(g, 5) ? new_name(g, "loss_") : NULL;
    if (g->other)
        line(g,
             draw_one_in(g, 2) ? "%1$s = mean(%2$s * %2$s)"
                               : "%1$s = 0.1 * mean(log(1 + abs(%2$s)))",
             g->other, x->name);
}

void write_model(Gen *g)
{
    g->extra = -1;
    if (!g->named && draw_one_in(g, 4))
        g->ordered = g->seq;
    g->fixed = bit(g->batch) | bit(g->ordered);
    g->nmatrices = g->nvalues = g->nexternal = g->ninner = g->ninstances = 0;
    g->repeated = 0;
    g->model = bit(g->batch) | (g->named ? 0 : bit(g->seq));
    if (g->named)
        named_inputs(g);
    else
        token_input(g);
    if (draw_one_in(g, 4)) {
        line(g, "penalty = 0");
        add_value(g, "penalty", KIND_float, 0, -1);
    }
    statements(g, draw_between(g, 1, 6), 0);
    if (draw_below(g, 3))
        repeat(g);
    const char *loss = g->named ? named_loss(g) : token_loss(g), *more = "";
    for (int i = 0; i < g->nvalues; i++)
        if (g->value[i].kind == KIND_float && !g->value[i].param &&
            draw_one_in(g, strcmp(g->value[i].name, "penalty") ? 12 : 2))
            more = TEXT(g->value[i].dims ? "%s + %s * mean(%s)" : "%s + %s * %s", more,
                        draw_one_in(g, 2) ? "0.01" : number(g, 1), g->value[i].name);
    line(g, "loss = %s%s", loss, more);
    other_loss(g);
    metrics(g);
    g->indent = 0;
    line(g, "}");
    forget_dims(g);
}
