/* cuda_value.c - values of a kernel's body in CUDA C. Each value is a temporary. A variable of a
 * half has the type in memory, and is widened at each use. */
#include "codegen/cuda/cuda_gen.h"

#include <string.h>

const char *cuda_type(DType t)
{
    return code_stored(&cuda_dialect, t);
}

const char *cuda_temp(CudaGen *g, const char *prefix)
{
    return arena_printf(g->c.a, "%s%d", prefix, g->temps++);
}

const char *cuda_eval(CudaGen *g, Value v, const CodeEnv *e)
{
    return code_eval(&g->c, v, e).s;
}

static Text from_half(Code *c, DType half, Text x)
{
    (void)half;
    return (Text){arena_printf(c->a, "mg_wide(%s)", x.s), CALLED};
}

static Text to_half(Code *c, DType half, Text x)
{
    return (Text){arena_printf(c->a, "mg_narrow<%s>(%s)", cuda_type(half), x.s), CALLED};
}

/* Operand o for all lanes at once: the first of them reads it, into *wide. */
static const char *load_wide(CudaGen *g, int o, const CodeEnv *e, const char **wide)
{
    const Operand *from = &g->c.k->operand[o];
    if (!*wide) {
        const char *type =
            arena_printf(g->c.a, "mg_vec<%s, %d>", cuda_type(from->type.dtype), g->lanes);
        *wide = cuda_temp(g, "q");
        code_line(&g->c, "const %s %s = *(const %s *)&%s;", type, *wide, type,
                  code_element(&g->c, o, from, e, NULL));
    }
    return arena_printf(g->c.a, "%s.x[%d]", *wide, g->lane);
}

/* Neighbours that are moved alike along other dims than the lanes' are one vector, too. NULL: they
 * are not, or the first lane does not read it. */
static const char *load_moved(CudaGen *g, int o, const CodeEnv *e)
{
    const Operand *from = &g->c.k->operand[o];
    CodeEnv at = *e;
    bool own = false;
    if (g->lanes == 1 || !g->aligned[o] || !g->first)
        return NULL;
    const char *mine = g->lane ? arena_printf(g->c.a, "(%s + %d)", g->first, g->lane) : g->first;
    for (int d = 0; d < from->type.rank; d++) {
        int i = at.n - 1; /* the last that was entered counts */
        while (i >= 0 && at.dim[i] != from->type.dims[d].name)
            i--;
        if (from->stride[d] != 1 || i < 0 || !at.index[i] || strcmp(at.index[i], mine) != 0)
            continue;
        at.index[i] = g->first;
        own = true;
    }
    if (!own)
        return NULL;
    const char *element = code_element(&g->c, o, from, &at, NULL);
    for (size_t i = 0; i < g->moved.n; i++)
        if (!strcmp(g->moved.data[i].element, element))
            return arena_printf(g->c.a, "%s.x[%d]", g->moved.data[i].name, g->lane);
    if (g->lane)
        return NULL;
    const char *type =
        arena_printf(g->c.a, "mg_vec<%s, %d>", cuda_type(from->type.dtype), g->lanes);
    const char *name = cuda_temp(g, "q");
    code_line(&g->c, "const %s %s = *(const %s *)&%s;", type, name, type, element);
    vec_push(g->c.a, &g->moved, ((CudaMoved){element, name}));
    return arena_printf(g->c.a, "%s.x[0]", name);
}

static Text load(Code *c, int o, const CodeEnv *e)
{
    CudaGen *g = (CudaGen *)c;
    const Operand *from = &c->k->operand[o];
    if (g->in_row && g->row.kept[o] && !c->moved)
        return (Text){arena_printf(c->a, "r%d[w].x[%d]", o, g->lane), NAMED};
    const char **all = c->turned ? &g->turned[o] : &g->wide[o];
    bool wide = g->lanes > 1 && g->vector[o] && (!c->moved || c->turned) && (*all || g->lane == 0);
    const char *x = wide                     ? load_wide(g, o, e, all)
                    : c->moved && !c->turned ? load_moved(g, o, e)
                                             : NULL;
    if (!x)
        x = code_element(c, o, from, e, NULL);
    return from->type.dtype == DT_bool ? (Text){arena_printf(c->a, "%s != 0", x), COMPARED}
                                       : (Text){x, NAMED};
}

/* Lanes that are in one half of the dim, as all are if a half is a number of vectors, read one
 * vector of the other half. */
static const char *turn(Code *c, Name d, int64_t half, const char **at)
{
    CudaGen *g = (CudaGen *)c;
    if (g->lanes == 1 || c->moved || half % g->lanes || !cuda_along_lanes(g, d))
        return NULL;
    if (!g->turn_to && g->lane == 0) {
        g->turn_dim = d;
        g->turn_at = *at;
        g->turn_to = code_opposite(c, *at, half);
    }
    if (!g->turn_to || g->turn_dim != d)
        return NULL;
    *at = g->turn_at;
    return g->lane ? arena_printf(c->a, "(%s + %d)", g->turn_to, g->lane) : g->turn_to;
}

static CodePlace *place(Code *c, const char *described)
{
    CudaGen *g = (CudaGen *)c;
    for (size_t i = 0; i < g->counted.n; i++)
        if (!strcmp(g->counted.data[i].described, described))
            return g->counted.data[i].place;
    CodePlace *p = NEW(c->a, CodePlace);
    *p = (CodePlace){0};
    if (g->first)
        vec_push(c->a, &g->counted, ((CudaCounted){described, p}));
    return p;
}

static Text keep(Code *c, Value v, Text x, int order)
{
    (void)order;
    return code_variable(c, "v", type_of(c->m, v)->dtype, x);
}

static const char *fresh(Code *c, const char *base)
{
    (void)base;
    return cuda_temp((CudaGen *)c, "v");
}

static const char *pointer(Code *c, int o)
{
    return arena_printf(c->a, "p%d", o);
}

static const char *offset(Code *c, const char *sum)
{
    (void)c;
    return sum;
}

const Dialect cuda_dialect = {
    .half = {[DT_bf16] = "mg_bf16",
             [DT_f16] = "mg_f16",
             [DT_e4m3] = "mg_e4m3",
             [DT_e5m2] = "mg_e5m2",
             [DT_e8m0] = "mg_e8m0",
             [DT_dynamic8] = "mg_dynamic8_bits",
             [DT_udynamic8] = "mg_udynamic8_bits"},
    .product = "mg_product",
    .from_half = from_half,
    .to_half = to_half,
    .load = load,
    .keep = keep,
    .fresh = fresh,
    .pointer = pointer,
    .offset = offset,
    .turn = turn,
    .place = place,
};
