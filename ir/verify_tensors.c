/* verify_tensors.c - I8: the external form of tensors, and how one belongs to another. */
#include "ir/external.h"
#include "ir/initial.h"
#include "ir/verify.h"

static bool external_form(const Tensor *t)
{
    int rank = t->type.rank - t->stacked, merged = 0;
    unsigned seen = 0;
    if (t->numbered < 0 || t->stacked < t->numbered || rank < 0 || t->external_rank < 0 ||
        t->external_rank > MAX_RANK)
        return false;
    for (int k = 0; k < rank; k++)
        seen |= t->order[k] < MAX_RANK ? 1u << t->order[k] : 0;
    for (int k = 0; k < t->external_rank; k++) {
        merged += t->merge[k];
        if (!t->merge[k] && !(t->part_of && k == t->part_dim))
            return false;
    }
    if (t->part_of && (t->part_dim >= t->external_rank || t->part_at < 0 ||
                       t->part_at > t->part_of - external_size(t, t->part_dim)))
        return false;
    return seen == ((1u << t->type.rank) - 1) - ((1u << t->stacked) - 1) && merged == rank;
}

/* A state may lack dims of its parameter (a mean over them), but has no others. */
static int64_t whole_size(const Module *m, const Tensor *t, int dim)
{
    return dim_whole(m, t->type.dims[dim]) * mesh_size(m, t->axes[dim]);
}

/* All dims of t are dims of `of`, of the same whole sizes. */
static bool dims_within(const Module *m, const Tensor *t, const Tensor *of)
{
    for (int i = 0; i < t->type.rank; i++) {
        int at = type_find(&of->type, t->type.dims[i].name);
        if (at < 0 || whole_size(m, of, at) != whole_size(m, t, i))
            return false;
    }
    return true;
}

/* A state of 8 bits is what the program keeps so; its numbers are in units of what lies behind it,
 * which has a number for each block of them. */
static bool in_blocks(const Module *m, const Tensor *t, uint32_t at)
{
    if (!dtype_is_dynamic(m->train.goal[t->goal].state) || !t->slot ||
        (t->absmax ? at < 1 : at + 1 >= m->tensors.n))
        return false;
    const Tensor *other = &m->tensors.data[t->absmax ? at - 1 : at + 1];
    return other->absmax != t->absmax && other->parameter == t->parameter &&
           dtype_is_dynamic((t->absmax ? other : t)->type.dtype) &&
           (t->absmax ? t : other)->type.dtype == m->train.compute;
}

/* Parts of a frozen matrix are of their types, where the program says that it keeps some; nothing
 * else is of codes. */
static bool base_holds(const Module *m, const Tensor *t)
{
    const bool codes = t->base == BASE_codes || t->base == BASE_bytes;
    const DType is = codes ? DT_u8 : t->base == BASE_absmax ? DT_dynamic8 : m->train.compute;
    const FrozenBase kind = t->base == BASE_bytes   ? BASE_int8
                            : t->base == BASE_scale ? m->train.base
                                                    : BASE_nf4;
    return t->base ? m->train.base && m->train.base == kind && t->frozen && !t->slot &&
                         t->type.dtype == is
                   : t->type.dtype != DT_u8;
}

/* A follower is of the form of what it follows, which leads to no circle, and has no gradient. */
static void check_follower(Verifier *v, const Tensor *t)
{
    const Tensor *all = v->m->tensors.data, *of = t;
    size_t far = 0;
    if (!t->follows)
        return;
    while (of->follows && of->follows <= v->m->tensors.n && far++ < v->m->tensors.n)
        of = &all[of->follows - 1];
    if (of->follows) {
        verify_broken(v, NULL, 8, "tensor '%s' follows none", verify_name(v, t->name));
        return;
    }
    of = &all[t->follows - 1];
    if (of->slot || of->type.dtype != t->type.dtype || of->type.rank != t->type.rank ||
        !dims_within(v->m, t, of) || of->external_rank != t->external_rank)
        verify_broken(v, NULL, 8, "tensor '%s' is of another form than '%s', which it follows",
                      verify_name(v, t->name), verify_name(v, of->name));
    if (t->every < 1 || !t->beta || !step_formula_valid(verify_name(v, t->beta)) ||
        !(t->slot || t->frozen))
        verify_broken(v, NULL, 8, "tensor '%s' cannot follow '%s'", verify_name(v, t->name),
                      verify_name(v, of->name));
}

/* I8: a tensor's external form is a permutation of its dims that are not stacked, merged in groups
 * that cover it; a part lies in its whole, along a dim that may be of none; padding only adds. A
 * parameter is its own, a state that of a parameter with its dims. */
void verify_tensor(Verifier *v, uint32_t at)
{
    const Tensor *t = &v->m->tensors.data[at];
    int before = v->broken;
    verify_type(v, NULL, &t->type);
    if (v->broken > before)
        return;
    if (!external_form(t))
        verify_broken(v, NULL, 8, "tensor '%s' has no external form", verify_name(v, t->name));
    for (int k = 0; k < t->type.rank; k++) {
        int64_t whole = whole_size(v->m, t, k);
        if (t->type.dims[k].size %
            mesh_pieces(v->m, (Dim){.axes = t->axes[k], .zigzag = t->zigzag[k]}))
            verify_broken(v, NULL, 11, "tensor '%s': %lld cannot be in zigzag order",
                          verify_name(v, t->name), (long long)t->type.dims[k].size);
        if (t->valid[k] < 1 || t->valid[k] > whole)
            verify_broken(v, NULL, 8, "tensor '%s': %lld of %lld valid", verify_name(v, t->name),
                          (long long)t->valid[k], (long long)whole);
    }
    if ((t->init == INIT_formula) != (t->formula != 0) ||
        (t->formula && (t->slot || !initial_valid(verify_name(v, t->formula)))))
        verify_broken(v, NULL, 8, "tensor '%s' has no initial value", verify_name(v, t->name));
    check_follower(v, t);
    const Tensor *p = t->parameter < v->m->tensors.n ? &v->m->tensors.data[t->parameter] : NULL;
    const bool blocks = t->absmax || (dtype_is_dynamic(t->type.dtype) && !t->base);
    if (!p || p->slot || (!t->slot && p != t) || (!t->absmax && !dims_within(v->m, t, p)))
        verify_broken(v, NULL, 8, "tensor '%s' has no parameter", verify_name(v, t->name));
    else if (dtype_is_half(t->type.dtype) &&
             t->type.dtype != (t->rounded ? v->m->train.half : tensor_kept(v->m, t)))
        verify_broken(v, NULL, 8, "tensor '%s' is of halves, and the program keeps it in none",
                      verify_name(v, t->name));
    else if (!base_holds(v->m, t))
        verify_broken(v, NULL, 8, "tensor '%s' is no part of a frozen matrix",
                      verify_name(v, t->name));
    else if (blocks && !in_blocks(v->m, t, at))
        verify_broken(v, NULL, 8, "tensor '%s' is no state in blocks", verify_name(v, t->name));
    else if (tensor_is_rounded(t) && (!t->slot || t->type.rank != p->type.rank))
        verify_broken(v, NULL, 8, "tensor '%s' is no copy of its parameter",
                      verify_name(v, t->name));
}
