/* check_experts.c - do the numbers of a descriptor describe how rows go to experts and back? The
 * dims of each tensor are walked in the order that runtime/abi.h says, dense. */
#include "plan/check/check.h"

/* Takes dims off the front of a dense operand. */
typedef struct Front {
    const Operand *o;
    int at;
} Front;

static bool next_is(Front *f, Name d, int64_t size)
{
    const Type *t = &f->o->type;
    return f->at < t->rank && t->dims[f->at].name == d && t->dims[f->at++].size == size;
}

static int64_t rest_of(const Front *f)
{
    int64_t n = 1;
    for (int i = f->at; i < f->o->type.rank; i++)
        n *= f->o->type.dims[i].size;
    return n;
}

/* The dims of choices but their last, those of positions and of what is chosen. */
static bool groups_are(Front *f, const Type *choice, int n, int64_t groups)
{
    int64_t all = 1;
    for (int i = 0; i < n; i++) {
        if (!next_is(f, choice->dims[i].name, choice->dims[i].size))
            return false;
        all *= choice->dims[i].size;
    }
    return all == groups;
}

static bool choices_are(const Operand *o, const Type *choice, const mg_experts_desc *d,
                        const Attrs *a)
{
    Front f = {o, 0};
    return groups_are(&f, choice, choice->rank - 1 - a->over.n, d->groups) &&
           next_is(&f, a->along.name, d->positions) &&
           (a->over.n ? next_is(&f, a->over.dim[0].name, d->choices) : d->choices == 1) &&
           f.at == o->type.rank;
}

static bool same_rest(const Front *a, const Front *b)
{
    const Type *x = &a->o->type, *y = &b->o->type;
    bool same = x->rank - a->at == y->rank - b->at;
    for (int i = 0; same && a->at + i < x->rank; i++)
        same = x->dims[a->at + i].name == y->dims[b->at + i].name;
    return same;
}

static const char *top_wrong(const Action *a, const Ins *i)
{
    const mg_top_desc *d = &a->top;
    const Type *x = &a->operand[0].type, *y = &a->operand[1].type;
    int last = x->rank - 1;
    if (d->dtype != check_dtype(x->dtype))
        return "the type of its numbers";
    if (x->dims[last].name != i->attrs.dim.name || d->n != x->dims[last].size ||
        y->dims[y->rank - 1].name != i->attrs.to.name || d->top != y->dims[y->rank - 1].size ||
        x->rank != y->rank || d->rows * d->n != type_elements(x))
        return "rows or sizes";
    for (int k = 0; k < last; k++)
        if (x->dims[k].name != y->dims[k].name)
            return "the order of the rows";
    return NULL;
}

/* The operands of each op, by what they hold. */
static const struct {
    int rows, z, choice, first_weight;
} held[OP_count] = {
    [OP_slots] = {-1, -1, 0, 2},  [OP_ends] = {-1, -1, 0, 2},         [OP_dispatch] = {0, -1, 1, 3},
    [OP_combine] = {-1, 0, 1, 3}, [OP_combine_weight] = {1, 0, 2, 4},
};

/* Of ends: of homes, if they have them, and of experts; of the others: of homes, or of experts
 * whose rows lie together, or each apart. */
static bool homes_are(const mg_experts_desc *d, const Ins *i)
{
    const Attrs *a = &i->attrs;
    if (i->op == OP_ends)
        return d->homes == (a->keys.name ? a->keys.size : 1) &&
               d->experts == d->homes * a->dim.size;
    if (a->sorted)
        return d->homes == 1 && d->experts == a->dim.size;
    return d->homes == a->dim.size && d->experts == d->homes * (a->each ? a->each : 1);
}

const char *experts_wrong(const Action *a, const Ins *i)
{
    const mg_experts_desc *d = &a->experts;
    const Operand *o = a->operand;
    for (int k = 0; k < a->noperands; k++)
        if (!check_is_dense(&o[k]))
            return "an operand that is not dense";
    if (i->op == OP_top)
        return top_wrong(a, i);
    int result = a->noperands - 1, choice = held[i->op].choice;
    const Type *of = &o[choice].type;
    int groups = of->rank - 1 - i->attrs.over.n;
    if (!choices_are(&o[choice], of, d, &i->attrs) ||
        (i->op != OP_ends && !choices_are(&o[choice + 1], of, d, &i->attrs)))
        return "groups, positions or choices";
    if (!homes_are(d, i) || d->slots != i->attrs.to.size)
        return "experts or slots";
    if (i->op == OP_ends) {
        Front ends = {&o[1], 0};
        if ((i->attrs.keys.name && !next_is(&ends, i->attrs.keys.name, d->homes)) ||
            !groups_are(&ends, of, groups, d->groups) ||
            !next_is(&ends, i->attrs.dim.name, d->experts / d->homes) || rest_of(&ends) != 1)
            return "the ends of each group";
    }
    if (OP_AMONG(i->op, OP_slots, OP_ends))
        return d->inner == 1 ? NULL : "what a row is";
    for (int k = held[i->op].first_weight; k <= result; k++)
        if ((k < result || i->op == OP_combine_weight) && !choices_are(&o[k], of, d, &i->attrs))
            return "the weight of a choice";
    Front rows = {&o[held[i->op].rows < 0 ? result : held[i->op].rows], 0};
    Front z = {&o[held[i->op].z < 0 ? result : held[i->op].z], 0};
    if (d->dtype != check_dtype(rows.o->type.dtype) || z.o->type.dtype != rows.o->type.dtype)
        return "the type of its numbers";
    if (!groups_are(&rows, of, groups, d->groups) ||
        !next_is(&rows, i->attrs.along.name, d->positions) || rest_of(&rows) != d->inner)
        return "the rows of positions";
    if ((!i->attrs.sorted && !next_is(&z, i->attrs.dim.name, d->homes)) ||
        !groups_are(&z, of, groups, d->groups) || !next_is(&z, i->attrs.to.name, d->slots) ||
        rest_of(&z) != d->inner)
        return "the rows of slots";
    return same_rest(&rows, &z) ? NULL : "what a row is";
}

/* ---- grouped products ------------------------------------------------------------------------ */

/* Dims off the front of f, until none of `of` follows (the dims of which are summed, or not);
 * their number of elements. */
static int64_t row_of(Front *f, const Attrs *a, bool summed)
{
    const Type *t = &f->o->type;
    int64_t n = 1;
    for (; f->at < t->rank && dims_have(&a->over, t->dims[f->at].name) == summed; f->at++)
        n *= t->dims[f->at].size;
    return n;
}

/* Do the dims [from, to) of a and those of b from `at` on have the same names? */
static bool same_names(const Type *a, int from, int to, const Type *b, int at)
{
    bool same = to - from <= b->rank - at;
    for (int k = from; same && k < to; k++)
        same = a->dims[k].name == b->dims[at + k - from].name;
    return same;
}

/* Rows of groups, up to what a row is. */
static bool sorted_rows(Front *f, const Type *ends, const mg_grouped_desc *d, const Attrs *a)
{
    return groups_are(f, ends, ends->rank - 1, d->groups) && next_is(f, a->along.name, d->rows);
}

const char *grouped_wrong(const Action *a, const Ins *i)
{
    const mg_grouped_desc *d = &a->grouped;
    const Operand *o = a->operand;
    const bool weight = i->op == OP_grouped_weight;
    const Type *ends = &o[2].type;
    for (int k = 0; k < a->noperands; k++)
        if (!check_is_dense(&o[k]))
            return "an operand that is not dense";
    Front z = {&o[0], 0}, y = {&o[weight ? 1 : 3], 0}, w = {&o[weight ? 3 : 1], 0},
          end = {&o[2], 0};
    if (d->dtype != check_dtype(z.o->type.dtype) || d->dtype != check_dtype(o[1].type.dtype) ||
        d->out != check_dtype(o[3].type.dtype) || o[2].type.dtype != DT_i32)
        return "the type of its numbers";
    if (d->accumulate != o[3].read)
        return "what is added to";
    if (!groups_are(&end, ends, ends->rank - 1, d->groups) ||
        !next_is(&end, i->attrs.to.name, d->experts) || rest_of(&end) != 1)
        return "the ends of each group";
    if (!sorted_rows(&z, ends, d, &i->attrs) || !sorted_rows(&y, ends, d, &i->attrs))
        return "the rows of groups";
    if (!next_is(&w, i->attrs.dim.name, d->experts))
        return "the matrix of each expert";
    const Type *zt = &z.o->type, *yt = &y.o->type, *wt = &w.o->type;
    const int first = w.at, of_z = zt->rank - z.at, of_y = yt->rank - y.at;
    if (rest_of(&z) != d->k || rest_of(&y) != d->n || wt->rank != first + of_z + of_y)
        return "what a row is";
    if (weight)
        return !d->turned && same_names(zt, z.at, zt->rank, wt, first) &&
                       same_names(yt, y.at, yt->rank, wt, first + of_z)
                   ? NULL
                   : "the order of the matrix";
    if (row_of(&w, &i->attrs, !d->turned) != (d->turned ? d->n : d->k) ||
        row_of(&w, &i->attrs, d->turned) != (d->turned ? d->k : d->n) || w.at != wt->rank)
        return "the order of the matrix";
    return same_names(zt, z.at, zt->rank, wt, first + (d->turned ? of_y : 0)) &&
                   same_names(yt, y.at, yt->rank, wt, first + (d->turned ? 0 : of_z))
               ? NULL
               : "what is summed";
}
