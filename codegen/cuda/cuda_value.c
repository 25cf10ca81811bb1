/* cuda_value.c - values of a kernel's body as C expressions.
 *
 * A value is evaluated where it is needed, by recursion from the results, into one temporary; the
 * memo keeps those of the current indices. Floats of 32 bits use the functions with an f: nothing
 * is computed in double that is not double in the body. */
#include "codegen/cuda/cuda_gen.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

const char *cuda_type(DType t)
{
    static const char *const names[] = {
        [DT_f32] = "float",   [DT_f64] = "double",  [DT_bf16] = "mg_bf16", [DT_f16] = "mg_f16",
        [DT_i32] = "int32_t", [DT_i64] = "int64_t", [DT_bool] = "uint8_t"};
    return names[t];
}

static const char *register_type(DType t)
{
    return t == DT_bool ? "bool" : cuda_type(t);
}

void cuda_line(CudaGen *g, const char *fmt, ...)
{
    va_list ap;
    fprintf(g->out, "%*s", 4 * g->depth, "");
    va_start(ap, fmt);
    vfprintf(g->out, fmt, ap);
    va_end(ap);
    fputc('\n', g->out);
}

void cuda_forget(CudaGen *g)
{
    memset(g->memo, 0, g->m->values.n * sizeof *g->memo);
}

const char *cuda_temp(CudaGen *g, const char *prefix)
{
    return arena_printf(g->a, "%s%d", prefix, g->temps++);
}

/* ---- indices ------------------------------------------------------------------------------ */

void cuda_enter(CudaEnv *e, Name d, const char *index)
{
    e->dim[e->n] = d;
    e->index[e->n++] = index;
}

static const char *index_of(const CudaEnv *e, Name d)
{
    for (int i = e->n - 1; i >= 0; i--)
        if (e->dim[i] == d)
            return e->index[i];
    return NULL;
}

static bool entered(const CudaEnv *e, Name d)
{
    for (int i = 0; i < e->n; i++)
        if (e->dim[i] == d)
            return true;
    return false;
}

void cuda_env_loop(const CudaGen *g, CudaEnv *e, int loop, const char *index)
{
    for (int i = 0; i < g->nest.ndims; i++)
        if (g->nest.loop[i] == loop)
            cuda_enter(e, g->nest.dim[i].name, index);
        else if (g->nest.loop[i] < 0 && !entered(e, g->nest.dim[i].name))
            cuda_enter(e, g->nest.dim[i].name, NULL);
}

const char *cuda_element(CudaGen *g, int o, const Operand *as, const CudaEnv *e, const char *base)
{
    const char *at = base;
    for (int i = 0; i < as->type.rank; i++) {
        const char *index = index_of(e, as->type.dims[i].name);
        long long stride = as->stride[i];
        if (!index || !stride)
            continue;
        const char *part = stride == 1 ? index : arena_printf(g->a, "%s * %lld", index, stride);
        at = at ? arena_printf(g->a, "%s + %s", at, part) : part;
    }
    int alias = o >= g->k->nin && g->k->alias[o] >= 0 ? g->k->alias[o] : o;
    return arena_printf(g->a, "p%d[%s]", alias, at ? at : "0");
}

/* ---- numbers ------------------------------------------------------------------------------ */

const char *cuda_number(CudaGen *g, DType t, double x)
{
    if (t == DT_bool)
        return x != 0 ? "true" : "false";
    if (!dtype_is_float(t))
        return arena_printf(g->a, t == DT_i64 ? "INT64_C(%lld)" : "%lld", (long long)x);
    if (dtype_is_half(t))
        return arena_printf(g->a, "mg_narrow<%s>(%s)", cuda_type(t), cuda_number(g, DT_f32, x));
    if (!isfinite(x))
        return arena_printf(g->a, "%s(%s)%s", x < 0 ? "-" : "", cuda_type(t),
                            isnan(x) ? "NAN" : "INFINITY");
    const char *s = arena_printf(g->a, t == DT_f32 ? "%.9g" : "%.17g", t == DT_f32 ? (float)x : x);
    if (!strpbrk(s, ".e"))
        s = arena_printf(g->a, "%s.0", s);
    return t == DT_f32 ? arena_printf(g->a, "%sf", s) : s;
}

/* ---- operations --------------------------------------------------------------------------- */

static const char *cast(CudaGen *g, DType from, DType to, const char *x)
{
    if (dtype_is_half(from) && from != to)
        return cast(g, DT_f32, to, arena_printf(g->a, "mg_wide(%s)", x));
    if (to == DT_bool)
        return arena_printf(g->a, "%s != %s", x, cuda_number(g, from, 0));
    if (dtype_is_half(to) && from != to)
        return arena_printf(g->a, "mg_narrow<%s>((float)%s)", cuda_type(to), x);
    return from == to ? x : arena_printf(g->a, "(%s)%s", cuda_type(to), x);
}

/* An operand at other indices than those of the memo. */
static const char *elsewhere(CudaGen *g, Value v, const CudaEnv *e)
{
    const char **memo = g->memo;
    bool moved = g->moved;
    g->memo = NEW_ARRAY(g->a, const char *, g->m->values.n);
    g->moved = true;
    const char *x = cuda_eval(g, v, e);
    g->moved = moved;
    g->memo = memo;
    return x;
}

static const char *moved(CudaGen *g, const Ins *i, const CudaEnv *e)
{
    CudaEnv other = *e;
    const Attrs *a = &i->attrs;
    if (i->op == OP_rename)
        cuda_enter(&other, a->dim.name, index_of(e, a->to.name));
    else if (i->op == OP_pick)
        cuda_enter(&other, a->dim.name, arena_printf(g->a, "%lld", (long long)a->at));
    else
        cuda_enter(&other, a->along.name,
                   arena_printf(g->a, "(%s + %lld)", index_of(e, a->along.name), (long long)a->at));
    return elsewhere(g, i->in[0], &other);
}

/* x[i + n/2] negated in the first half, x[i - n/2] in the second. */
static const char *rotated(CudaGen *g, const Ins *i, const CudaEnv *e)
{
    const Type *t = type_of(g->m, i->in[0]);
    Name d = i->attrs.dim.name;
    long long half = t->dims[type_find(t, d)].size / 2;
    const char *at = index_of(e, d), *to = cuda_temp(g, "j");
    cuda_line(g, "const %s %s = %s < %lld ? %s + %lld : %s - %lld;", g->index, to, at, half, at,
              half, at, half);
    CudaEnv other = *e;
    cuda_enter(&other, d, to);
    const char *x = elsewhere(g, i->in[0], &other);
    return arena_printf(g->a, "%s < %lld ? -(%s) : %s", at, half, x, x);
}

static const char *expression(CudaGen *g, const Ins *i, const CudaEnv *e)
{
    DType t = type_of(g->m, i->out[0])->dtype;
    if (i->op == OP_const)
        return cuda_number(g, t, i->attrs.value);
    if (i->op == OP_iota)
        return arena_printf(g->a, "(%s)(%s)", cuda_type(t), index_of(e, i->attrs.dim.name));
    if (i->op == OP_rotate)
        return rotated(g, i, e);
    if (i->op == OP_rename || i->op == OP_pick || i->op == OP_window)
        return moved(g, i, e);
    if (i->op == OP_cast)
        return cast(g, type_of(g->m, i->in[0])->dtype, t, cuda_eval(g, i->in[0], e));
    const char *x[3] = {0};
    for (uint32_t k = 0; k < i->nin; k++)
        x[k] = cuda_eval(g, i->in[k], e);
    if (i->op == OP_add && i->exact)
        return arena_printf(g->a, "mg_add_apart(%s, %s)", x[0], x[1]);
    DType of = type_of(g->m, i->in[i->nin - 1])->dtype;
    return cuda_pointwise(g, i->op, of, (int)i->nin, x);
}

/* Operand k for all lanes at once: the first of them reads it. */
static const char *load_wide(CudaGen *g, size_t k, const CudaEnv *e)
{
    const Operand *o = &g->k->operand[k];
    if (!g->wide[k]) {
        const char *type = arena_printf(g->a, "mg_vec<%s, %d>", cuda_type(o->type.dtype), g->lanes);
        g->wide[k] = cuda_temp(g, "q");
        cuda_line(g, "const %s %s = *(const %s *)&%s;", type, g->wide[k], type,
                  cuda_element(g, (int)k, o, e, NULL));
    }
    return arena_printf(g->a, "%s.x[%d]", g->wide[k], g->lane);
}

static const char *load(CudaGen *g, Value v, const CudaEnv *e)
{
    size_t k = 0;
    while (g->body->args.data[k] != v)
        k++;
    const Operand *o = &g->k->operand[k];
    bool wide = g->lanes > 1 && g->vector[k] && !g->moved && (g->wide[k] || g->lane == 0);
    const char *x = wide ? load_wide(g, k, e) : cuda_element(g, (int)k, o, e, NULL);
    return o->type.dtype == DT_bool ? arena_printf(g->a, "%s != 0", x) : x;
}

const char *cuda_eval(CudaGen *g, Value v, const CudaEnv *e)
{
    if (g->reduced[v])
        return g->reduced[v];
    if (g->memo[v])
        return g->memo[v];
    const Ins *def = g->m->values.data[v].def;
    bool here = def && def->op != OP_fused && def->home == g->body;
    const char *x = here ? expression(g, def, e) : load(g, v, e);
    if (here && def->op == OP_const)
        return g->memo[v] = x;
    const char *name = cuda_temp(g, "v");
    cuda_line(g, "const %s %s = %s;", register_type(type_of(g->m, v)->dtype), name, x);
    return g->memo[v] = name;
}
