/* rounding.c - see rounding.h. */
#include "passes/step/rounding.h"

/* Dims in the order of the external form: those that are indices in its name, then the others. */
static int stored_at(const Tensor *t, int place)
{
    return place < t->stacked ? place : t->order[place - t->stacked];
}

/* dim -1: the last of a tensor that has none, as a state that is one number. */
static Value index_of(Builder *b, const Rounding *r, int dim)
{
    if (dim < 0)
        return build_const(b, DT_i32, 0);
    return r->at[dim] ? r->at[dim] : build_iota(b, DT_i32, r->tensor->type.dims[dim]);
}

/* The index along all dims but the last that is stored. */
static Value row_of(Builder *b, const Rounding *r)
{
    const Tensor *t = r->tensor;
    Value row = 0;
    int64_t by = 1;
    for (int i = t->type.rank - 1; i >= 0; i--) {
        const int k = stored_at(t, i);
        if (k == t->type.rank - 1)
            continue;
        Value x = index_of(b, r, k);
        if (by != 1)
            x = build2(b, OP_mul, x, build_const(b, DT_i32, (double)by));
        row = row ? build2(b, OP_add, row, x) : x;
        by *= t->valid[k];
    }
    return row ? row : build_const(b, DT_i32, 0);
}

Value round_at_random(Builder *b, Value x, const Rounding *r)
{
    Attrs a = {.at = r->word, .key = r->key};
    const Value row = row_of(b, r), column = index_of(b, r, r->tensor->type.rank - 1);
    const Value in[] = {x, row, column, r->seed, r->count};
    Type type = *type_of(b->m, x);
    type.dtype = DT_bf16;
    return build_typed(b, OP_stochastic_round, &a, 5, in, 1, &type, NULL)->out[0];
}

Name rounding_key(Module *m, const Tensor *t, const char *what)
{
    const char *at = t->part_of ? arena_printf(m->arena, " at %lld", (long long)t->part_at) : "";
    return name_intern(
        m->names, arena_printf(m->arena, "%s %s%s", what, name_str(m->names, t->external), at));
}

Value scalar_argument(Module *m, Fn *fn, Region *args, ArgRole role, const char *name)
{
    for (size_t k = 0; k < fn->args.n; k++)
        if (fn->args.data[k].role == role)
            return args->args.data[k];
    vec_push(m->arena, &fn->args, ((FnArg){.role = role}));
    return region_arg(m, args, (Type){.dtype = DT_i64}, name_intern(m->names, name));
}

bool rounding_fits(const Module *m, const Tensor *t)
{
    double rows = 1;
    for (int i = 0; i + 1 < t->type.rank; i++)
        rows *= (double)t->valid[i];
    const int64_t columns = t->type.rank ? t->type.dims[t->type.rank - 1].size : 1;
    if (rows <= INT32_MAX && columns <= INT32_MAX)
        return true;
    diag_error(m->diag, t->span, 531, "'%s' has %.0f rows, and is kept in fewer bits: at most %d",
               name_str(m->names, t->external), rows, INT32_MAX);
    diag_help(m->diag, "leave out `state`, `master` and `reduce`");
    return false;
}
