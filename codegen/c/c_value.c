/* c_value.c - values of a kernel's body in plain C. A value with one use is written at that use,
 * without a variable. A variable of a half is the float of the same value; one of a dynamic number
 * has its bits. */
#include "codegen/c/c_gen.h"

#include <string.h>

enum { LONG = 70 /* characters of an expression that gets a name of its own */ };

static Text from_half(Code *c, DType half, Text x)
{
    if (!dtype_is_dynamic(half))
        return x;
    return (Text){arena_printf(c->a, "mg_from_%s(%s)", dtype_name(half), x.s), CALLED};
}

static Text to_half(Code *c, DType half, Text x)
{
    const char *name = dtype_name(half);
    if (dtype_is_dynamic(half))
        return (Text){arena_printf(c->a, "mg_to_%s(%s)", name, x.s), CALLED};
    return (Text){arena_printf(c->a, "mg_from_%s(mg_to_%s(%s))", name, name, x.s), CALLED};
}

Text c_loaded(CGen *g, DType t, const char *element)
{
    Arena *a = g->c.a;
    if (dtype_is_narrow(t) && !dtype_is_dynamic(t))
        return (Text){arena_printf(a, "mg_from_%s(%s)", dtype_name(t), element), CALLED};
    return t == DT_bool ? (Text){arena_printf(a, "%s != 0", element), COMPARED}
                        : (Text){element, NAMED};
}

const char *c_stored(CGen *g, DType t, Text x)
{
    if (!dtype_is_narrow(t) || dtype_is_dynamic(t))
        return x.s;
    const char *from = arena_printf(g->c.a, "mg_from_%s(", dtype_name(t));
    const size_t n = strlen(from);
    if (x.level == CALLED && !strncmp(x.s, from, n)) /* it is one already */
        return arena_strndup(g->c.a, x.s + n, strlen(x.s) - n - 1);
    return arena_printf(g->c.a, "mg_to_%s(%s)", dtype_name(t), x.s);
}

static Text load(Code *c, int o, const CodeEnv *e)
{
    const Operand *from = &c->k->operand[o];
    return c_loaded((CGen *)c, from->type.dtype, code_element(c, o, from, e, NULL));
}

static Text named(Code *c, Value v, Text x)
{
    return code_variable(c, c_value_name((CGen *)c, v), type_of(c->m, v)->dtype, x);
}

static Text keep(Code *c, Value v, Text x, int order)
{
    const bool often = !c->counting && c->uses.data[order] > 1;
    const bool long_part = strlen(x.s) > LONG && v != ((CGen *)c)->root;
    return x.level < NAMED && (often || long_part) ? named(c, v, x) : x;
}

static const char *fresh(Code *c, const char *base)
{
    return c_fresh((CGen *)c, base);
}

static const char *pointer(Code *c, int o)
{
    CGen *g = (CGen *)c;
    if (c->counting)
        c->uses.data[g->read[o]]++;
    return g->pointer[o];
}

/* If several elements have the same sum as offset, the sum is a variable. */
static const char *offset(Code *c, const char *sum)
{
    CGen *g = (CGen *)c;
    if (!strchr(sum, ' '))
        return sum;
    for (size_t i = 0; i < g->offset.n; i++)
        if (!strcmp(g->offset.data[i].sum, sum)) {
            if (c->counting)
                c->uses.data[g->offset.data[i].order]++;
            return g->offset.data[i].name;
        }
    const int order = c->order++;
    const char *name = sum;
    if (c->counting)
        vec_push(c->a, &c->uses, 1);
    if (!c->counting && c->uses.data[order] > 1) {
        name = c_fresh(g, "i");
        code_line(c, "const int64_t %s = %s;", name, sum);
    }
    vec_push(c->a, &g->offset, (COffset){sum, name, order});
    return name;
}

const Dialect c_dialect = {
    .half = {[DT_bf16] = "uint16_t",
             [DT_f16] = "uint16_t",
             [DT_e4m3] = "uint8_t",
             [DT_e5m2] = "uint8_t",
             [DT_e8m0] = "uint8_t",
             [DT_dynamic8] = "uint8_t",
             [DT_udynamic8] = "uint8_t"},
    .widened = true,
    .from_half = from_half,
    .to_half = to_half,
    .load = load,
    .keep = keep,
    .fresh = fresh,
    .pointer = pointer,
    .offset = offset,
    .read = c_read,
};

Text c_eval(CGen *g, Value v, const CodeEnv *e)
{
    g->root = v;
    Text x = code_eval(&g->c, v, e);
    g->root = 0;
    return x;
}

/* ---- results ------------------------------------------------------------------------------ */

static bool in_place(const Kernel *k)
{
    bool any = false;
    for (int o = k->nin; o < k->noperands; o++)
        any |= k->alias[o] >= 0;
    return any;
}

/* A result may take the place of an operand that other results need. Then all results are computed
 * before any is stored. */
void c_store(CGen *g, const CodeEnv *e, const bool *which)
{
    const Region *body = g->c.body;
    const bool first = in_place(g->c.k) && body->results.n > 1;
    Text x[MAX_OPERANDS];
    for (size_t r = 0; r < body->results.n; r++) {
        if (which && !which[r])
            continue;
        x[r] = c_eval(g, body->results.data[r], e);
        if (first && (x[r].level < NAMED || strchr(x[r].s, '[')))
            x[r] = named(&g->c, body->results.data[r], x[r]);
    }
    for (size_t r = 0; r < body->results.n; r++) {
        const int o = g->c.k->nin + (int)r;
        const Operand *to = &g->c.k->operand[o];
        if (!which || which[r])
            code_line(&g->c, "%s = %s;", code_element(&g->c, o, to, e, NULL),
                      c_stored(g, to->type.dtype, x[r]));
    }
}
