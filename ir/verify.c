/* verify.c - the invariants of ir/README.md, checked after every pass.
 *
 * A broken one is a bug of mgc. Every violation is reported with its number and its instruction, so
 * that one run shows all there are. */
#include "ir/ir.h"

#include <stdarg.h>
#include <string.h>

typedef struct Verifier {
    const Module *m;
    FILE *out;
    const char *fn;
    bool *seen; /* per value: its definition was passed and is in scope */
    int broken;
} Verifier;

static void __attribute__((format(printf, 4, 5))) broken(Verifier *v, const Ins *i, int invariant,
                                                         const char *fmt, ...)
{
    va_list ap;
    v->broken++;
    if (!v->out)
        return;
    fprintf(v->out, "invariant I%d broken in @%s: ", invariant, v->fn);
    va_start(ap, fmt);
    vfprintf(v->out, fmt, ap);
    va_end(ap);
    fputc('\n', v->out);
    if (i)
        ir_print_ins(v->m, i, v->out);
}

static const char *str(const Verifier *v, Name n)
{
    return name_str(v->m->names, n);
}

/* I1: a type has a dtype, at most MAX_RANK dims of different names, each of size 1 or more. */
static void check_type(Verifier *v, const Ins *i, const Type *t)
{
    if (t->dtype <= DT_none || t->dtype >= DT_count || t->rank < 0 || t->rank > MAX_RANK) {
        broken(v, i, 1, "a type without dtype or with a bad rank");
        return;
    }
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++) {
        if (!t->dims[k].name || t->dims[k].size < 1)
            broken(v, i, 1, "dim '%s' of size %lld", str(v, t->dims[k].name),
                   (long long)t->dims[k].size);
        else if (__builtin_mul_overflow(n, t->dims[k].size, &n) || n >= (int64_t)1 << 58)
            n = 1, broken(v, i, 1, "too many elements");
        for (int j = 0; j < k; j++)
            if (t->dims[j].name == t->dims[k].name)
                broken(v, i, 1, "dim '%s' twice in a type", str(v, t->dims[k].name));
    }
}

/* I2: a value is used where it is defined: above, in the same region or one around it; a fused body
 * sees its own values only. */
static void check_use(Verifier *v, const Ins *i, Value x)
{
    if (x == 0 || x >= v->m->values.n || !v->seen[x])
        broken(v, i, 2, "value %u is used where it is not defined", x);
}

static void define(Verifier *v, const Ins *i, Value x, const Ins *def, const Region *home)
{
    const ValueInfo *info = &v->m->values.data[x];
    if (v->seen[x])
        broken(v, i, 3, "value %u is defined twice", x);
    if (info->def != def || info->home != home)
        broken(v, i, 3, "value %u does not know where it is defined", x);
    v->seen[x] = true;
    check_type(v, i, &info->type);
}

static bool superset(const Type *big, const Type *small)
{
    for (int k = 0; k < small->rank; k++) {
        int at = type_find(big, small->dims[k].name);
        if (at < 0 || big->dims[at].size != small->dims[k].size)
            return false;
    }
    return true;
}

/* I4: result types are those of the op's rule, up to the order of dims; `copy` may add dims. const,
 * iota, random and cast choose their dtype, random its dims. */
static void check_types(Verifier *v, const Ins *i)
{
    Type want[8];
    if (i->nin > 8 || i->nout > 8) {
        broken(v, i, 4, "too many operands");
        return;
    }
    const char *wrong = type_check((Module *)v->m, i->op, &i->attrs, (int)i->nin, i->in, 8, want);
    if (wrong) {
        broken(v, i, 4, "%s", wrong);
        return;
    }
    for (uint32_t k = 0; k < i->nout; k++) {
        const Type *t = type_of(v->m, i->out[k]);
        bool any_dtype =
            i->op == OP_const || i->op == OP_iota || i->op == OP_random || i->op == OP_cast;
        if (!any_dtype && t->dtype != want[k].dtype)
            broken(v, i, 4, "the result is %s, by the rule %s", dtype_name(t->dtype),
                   dtype_name(want[k].dtype));
        if (i->op == OP_copy ? !superset(t, &want[k])
                             : i->op != OP_random && !type_same_dims(t, &want[k]))
            broken(v, i, 4, "the result has not the dims of the rule");
    }
}

static void check_region(Verifier *v, const Region *r, const Ins *owner, const Region *parent);

static Type without(const Type *t, Name d)
{
    Type u = {.dtype = t->dtype, .indexes = t->indexes};
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k].name != d)
            u.dims[u.rank++] = t->dims[k];
    return u;
}

/* I5: a repeat's operands, body and results fit (see Region in ir.h). */
static void check_repeat(Verifier *v, const Ins *i)
{
    const Region *b = i->body;
    int64_t carried = i->attrs.carried;
    Dim d = i->attrs.dim;
    if (carried < 0 || carried > i->nin || carried > i->nout || b->args.n != i->nin + 1u ||
        b->results.n != i->nout || d.size < 1) {
        broken(v, i, 5, "repeat: operands, arguments, results do not match in number");
        return;
    }
    for (uint32_t k = 0; k < i->nin; k++) {
        const Type *in = type_of(v->m, i->in[k]), *arg = type_of(v->m, b->args.data[k]);
        Type slice = without(in, d.name);
        int at = type_find(in, d.name);
        if (k < carried ? !type_equal(in, arg)
                        : at != 0 || in->dims[0].size != d.size || !type_equal(&slice, arg))
            broken(v, i, 5, "repeat: operand %u does not fit its argument", k);
    }
    const Type *index = type_of(v->m, b->args.data[i->nin]);
    if (index->dtype != DT_i32 || index->rank)
        broken(v, i, 5, "repeat: the last argument is not the i32 index");
    for (uint32_t k = 0; k < i->nout; k++) {
        const Type *out = type_of(v->m, i->out[k]), *res = type_of(v->m, b->results.data[k]);
        Type slice = without(out, d.name);
        if (k < carried ? !type_equal(out, res) || !type_equal(out, type_of(v->m, i->in[k]))
                        : !out->rank || out->dims[0].name != d.name ||
                              out->dims[0].size != d.size || !type_equal(&slice, res))
            broken(v, i, 5, "repeat: result %u does not fit the body's", k);
    }
}

/* I6: a fused body is isolated, holds FUSE ops only, and fits operands and results. */
static void check_fused(Verifier *v, const Ins *i)
{
    const Region *b = i->body;
    if (b->args.n != i->nin || b->results.n != i->nout) {
        broken(v, i, 6, "fused: operands or results do not match the body's in number");
        return;
    }
    for (uint32_t k = 0; k < i->nin; k++)
        if (!type_equal(type_of(v->m, i->in[k]), type_of(v->m, b->args.data[k])))
            broken(v, i, 6, "fused: operand %u does not fit its argument", k);
    for (uint32_t k = 0; k < i->nout; k++)
        if (!type_equal(type_of(v->m, i->out[k]), type_of(v->m, b->results.data[k])))
            broken(v, i, 6, "fused: result %u does not fit the body's", k);
    for (size_t k = 0; k < b->ins.n; k++)
        if (!op_is(b->ins.data[k]->op, FUSE))
            broken(v, i, 6, "fused: %s cannot be in a kernel", op_info[b->ins.data[k]->op].name);
}

static void check_ins(Verifier *v, const Ins *i, const Region *home)
{
    for (uint32_t k = 0; k < i->nin; k++)
        check_use(v, i, i->in[k]);
    if (i->home != home)
        broken(v, i, 3, "the instruction does not know its region");
    bool body = i->op == OP_repeat || i->op == OP_fused;
    if (body != (i->body != NULL)) {
        broken(v, i, 5, "a region where there is none, or none where there is one");
        return;
    }
    int before = v->broken;
    for (uint32_t k = 0; k < i->nin; k++)
        if (i->in[k] == 0 || i->in[k] >= v->m->values.n)
            return;
    if (body) {
        bool *seen = v->seen;
        size_t n = v->m->values.n;
        bool *inner = NEW_ARRAY(v->m->arena, bool, n);
        if (i->op == OP_repeat)
            memcpy(inner, seen, n);
        v->seen = inner;
        check_region(v, i->body, i, home);
        v->seen = seen;
        if (v->broken == before)
            i->op == OP_repeat ? check_repeat(v, i) : check_fused(v, i);
    } else {
        check_types(v, i);
    }
    for (uint32_t k = 0; k < i->nout; k++)
        define(v, i, i->out[k], i, home);
}

static void check_region(Verifier *v, const Region *r, const Ins *owner, const Region *parent)
{
    if (r->owner != owner || r->parent != parent)
        broken(v, owner, 3, "a region does not know what it belongs to");
    for (size_t k = 0; k < r->args.n; k++)
        define(v, owner, r->args.data[k], NULL, r);
    for (size_t k = 0; k < r->ins.n; k++)
        check_ins(v, r->ins.data[k], r);
    for (size_t k = 0; k < r->results.n; k++)
        check_use(v, owner, r->results.data[k]);
}

static bool scalar(const Type *t, DType want)
{
    return t->rank == 0 && t->dtype == want;
}

/* I7: roles fit: a parameter or state argument, an update and a gradient have the tensor's type;
 * the scalars theirs. */
static void check_roles(Verifier *v, const Fn *f)
{
    static const DType scalars[] = {
        [ARG_lr] = DT_f64, [ARG_step] = DT_i64, [ARG_seed] = DT_i64, [ARG_pos] = DT_i32};
    if (f->args.n != f->body->args.n || f->results.n != f->body->results.n) {
        broken(v, NULL, 7, "not one role for each argument and result");
        return;
    }
    for (size_t k = 0; k < f->args.n; k++) {
        const Type *t = type_of(v->m, f->body->args.data[k]);
        ArgRole role = f->args.data[k].role;
        bool ok = role <= ARG_state
                      ? f->args.data[k].tensor < v->m->tensors.n &&
                            type_equal(t, &v->m->tensors.data[f->args.data[k].tensor].type)
                  : role == ARG_tokens ? t->dtype == DT_i32
                                       : scalar(t, scalars[role]);
        if (!ok)
            broken(v, NULL, 7, "argument %zu has not the type of its role", k);
    }
    for (size_t k = 0; k < f->results.n; k++) {
        Value x = f->body->results.data[k];
        if (x == 0 || x >= v->m->values.n)
            continue;
        const Type *t = type_of(v->m, x);
        FnResult res = f->results.data[k];
        bool ok = res.role <= RES_norm ? scalar(t, DT_f64)
                  : res.role == RES_logits
                      ? dtype_is_float(t->dtype)
                      : res.tensor < v->m->tensors.n &&
                            type_equal(t, &v->m->tensors.data[res.tensor].type);
        if (!ok)
            broken(v, NULL, 7, "result %zu has not the type of its role", k);
    }
}

/* I8: a tensor's external form is a permutation of its dims that are not stacked, merged in groups
 * that cover it; padding only adds. */
static void check_tensor(Verifier *v, const Tensor *t)
{
    unsigned seen = 0;
    int merged = 0;
    check_type(v, NULL, &t->type);
    for (int k = 0; k < t->type.rank - t->stacked; k++)
        seen |= 1u << t->order[k];
    for (int k = 0; k < t->external_rank; k++)
        merged += t->merge[k];
    if (seen != ((1u << t->type.rank) - 1) - ((1u << t->stacked) - 1) ||
        merged != t->type.rank - t->stacked || t->parameter >= v->m->tensors.n)
        broken(v, NULL, 8, "tensor '%s' has no external form", str(v, t->name));
    for (int k = 0; k < t->type.rank; k++)
        if (t->valid[k] < 1 || t->valid[k] > t->type.dims[k].size)
            broken(v, NULL, 8, "tensor '%s': %lld of %lld valid", str(v, t->name),
                   (long long)t->valid[k], (long long)t->type.dims[k].size);
}

int ir_verify(const Module *m, FILE *out)
{
    Verifier v = {.m = m, .out = out, .fn = "module"};
    for (size_t i = 0; i < m->tensors.n; i++)
        check_tensor(&v, &m->tensors.data[i]);
    if (v.broken)
        return v.broken;
    for (size_t i = 0; i < m->fns.n; i++) {
        const Fn *f = m->fns.data[i];
        v.fn = str(&v, f->name);
        v.seen = NEW_ARRAY(m->arena, bool, m->values.n);
        check_region(&v, f->body, NULL, NULL);
        check_roles(&v, f);
    }
    return v.broken;
}
