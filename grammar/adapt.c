/* adapt.c - products of matrices that have an adapter.
 *
 *   before:  %y = dot %x, %w {over=[hidden]}
 *   after:   %y = dot %x, %w {over=[hidden]}
 *            %h = dot dropout(%x), %A {over=[hidden]};  %s = mul %h, scale
 *            %z = dot %s, %B {over=[rank]};             %r = add %y, %z
 *
 * Of DoRA, whose matrix is m (w + s A B) / |w + s A B|, the rows' lengths being of its outputs and
 * without a gradient:
 *            %g = m / lengths;  %r = g (y + z), and with dropout y + (g - 1) (dropout(x) @ w) + g z
 *
 * Of a table that is looked up, %y = gather %w, %i: %z = dot (mul (gather %A, %i), scale), %B.
 *
 * That is the meaning of a product of this language, so derivatives, layouts and all else see
 * parameters and products like others. A is [in, rank], B [rank, out], where `in` are the dims that
 * the product sums: they have to be one dim of the matrix in files, and the other dims the other.
 */
#include "grammar/adapter.h"
#include "ir/external.h"

#include <string.h>

static const Val poison = {.kind = VAL_POISON};

/* ---- which dims are summed ------------------------------------------------------------------ */

static bool same_dims(const DimList *a, const DimList *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++)
        same = dims_have(b, a->dim[i].name);
    return same;
}

/* The stored dims of an external dim, in the order of files. */
static DimList group(const Tensor *t, int place)
{
    DimList l = {0};
    int at = 0;
    for (int i = 0; i < place; i++)
        at += t->merge[i];
    for (int i = 0; i < t->merge[place]; i++)
        l.dim[l.n++] = t->type.dims[t->order[at + i]];
    return l;
}

static bool refuse(Elab *e, Span at, const Adapted *to, const char *why)
{
    const Tensor *w = &e->module->tensors.data[to->matrix];
    fail(e, at, 318, "'%s' gets no adapter: %s", text(e, w->external), why);
    note(e, to->selector->span, "it is selected here");
    note(e, w->span, "and declared here");
    help(e, "an adapter is for matrices that products alone read, over one of their two dims in "
            "files, or for tables that are looked up alone; select no others");
    return false;
}

/* In @train: the dims of A and B, which are those of all products of the matrix. */
static bool find_dims(Elab *e, Span at, Adapted *to, const DimList *over, const Type *x)
{
    const Tensor *w = &e->module->tensors.data[to->matrix];
    const DimList first = group(w, 0), second = group(w, 1);
    const bool rows = same_dims(over, &first);
    if (!rows && !same_dims(over, &second))
        return refuse(e, at, to,
                      arena_printf(e->arena, "this sums over (%s), and files have (%s) x (%s)",
                                   dims_text(e, over), dims_text(e, &first),
                                   dims_text(e, &second)));
    const DimList in = rows ? first : second, out = rows ? second : first;
    for (int i = 0; i < out.n; i++)
        if (type_find(x, out.dim[i].name) >= 0)
            return refuse(e, at, to,
                          arena_printf(e->arena, "what it is multiplied by has '%s', too",
                                       text(e, out.dim[i].name)));
    if (to->table)
        return refuse(e, at, to, "it is looked up, too");
    if (to->a)
        return same_dims(&in, &to->in) ||
               refuse(e, at, to, "products sum over different dims of it");
    const Adapted *shared = to->first;
    if (w->part_of && w->part_dim != rows)
        return refuse(e, at, to, "it is a part of the inputs of a tensor of files");
    if (shared != to && (!shared->a || !same_dims(&in, &shared->in) || shared->by != to->by))
        return refuse(e, at, to,
                      "parts of one tensor of files share one A, and this sums over "
                      "other dims, or comes before its first part");
    to->in = in;
    to->out = out;
    to->turned = rows;
    return make_adapter(e, to);
}

/* ---- its parameters in this function -------------------------------------------------------- */

static Value argument(Elab *e, uint32_t number, Value *known)
{
    const Tensor *t = &e->module->tensors.data[number - 1];
    if (!*known)
        *known = fn_arg(e, ARG_param, number - 1, t->type, text(e, t->name));
    return *known;
}

static Value parameter(Elab *e, const Adapted *to, uint32_t number, Value *known, DType t)
{
    const Name hint = e->module->tensors.data[number - 1].name;
    const Value v = slices_in(e, &to->loops, argument(e, number, known), hint);
    return build_cast(&e->b, v, t);
}

/* Arguments are those of the function being built. */
static void begin_function(const Elab *e, Adapted *to)
{
    if (to->fn == e->fn)
        return;
    to->fn = e->fn;
    to->arg_a = to->arg_b = to->arg_magnitude = to->from = 0;
}

void note_adapted(Elab *e, uint32_t tensor, Value v)
{
    Adapted *to = map_find(&e->adapted_of, tensor + 1);
    if (!to)
        return;
    begin_function(e, to);
    to->loops = (LoopList){0};
    loops_of_parameters(e, &to->loops);
    map_put(e->arena, &e->adapted, v, to);
}

/* ---- what the product becomes ---------------------------------------------------------------- */

/* An instruction that may read the matrix itself. */
static Value own(Elab *e, Value v)
{
    map_put(e->arena, &e->adapted_uses, v, (void *)(uintptr_t)1);
    return v;
}

/* The squared lengths |w + s A B|^2 = |w|^2 + 2 s B (A w) + s^2 B (A A) B of each output, so that
 * nothing of the size of w is made. */
static Value lengths(Elab *e, const Adapted *to, Value w, Value a, Value b)
{
    const AdapterLine *l = to->by;
    const DType t = type_of(e->module, w)->dtype;
    const DimList rank = {.n = 1, .dim = {l->dim}}, other = {.n = 1, .dim = {l->other}};
    const Value square = build_sum(&e->b, own(e, build2(&e->b, OP_mul, w, w)), &to->in);
    const Value cross =
        build_sum(&e->b, build2(&e->b, OP_mul, own(e, build_dot(&e->b, w, a, &to->in)), b), &rank);
    const Attrs again = {.dim = l->dim, .to = l->other};
    const Value a2 = build(&e->b, OP_rename, &again, 1, &a);
    const Value b2 = build(&e->b, OP_rename, &again, 1, &b);
    const Value gram = build_dot(&e->b, a, a2, &to->in);
    const Value bb =
        build_sum(&e->b, build2(&e->b, OP_mul, build_dot(&e->b, gram, b2, &other), b), &rank);
    const Value twice = build2(&e->b, OP_mul, cross, build_const(&e->b, t, 2 * l->scale));
    const Value both = build2(&e->b, OP_mul, bb, build_const(&e->b, t, l->scale * l->scale));
    const Value sum = build2(&e->b, OP_add, square, build2(&e->b, OP_add, twice, both));
    return build1(&e->b, OP_stop, build1(&e->b, OP_sqrt, sum));
}

typedef struct Product {
    Value x, dropped, w, y, z; /* z: what lora adds */
} Product;

static Value dora(Elab *e, Adapted *to, const Product *p, Value a, Value b)
{
    const DType t = type_of(e->module, p->y)->dtype;
    const Value m = parameter(e, to, to->magnitude, &to->arg_magnitude, t);
    const Value g = build2(&e->b, OP_div, m, lengths(e, to, p->w, a, b));
    if (p->dropped == p->x)
        return build2(&e->b, OP_mul, build2(&e->b, OP_add, p->y, p->z), g);
    const Value base = own(e, build_dot(&e->b, p->dropped, p->w, &to->in));
    const Value less = build2(&e->b, OP_sub, g, build_const(&e->b, t, 1));
    const Value moved = build2(&e->b, OP_add, p->y, build2(&e->b, OP_mul, base, less));
    return build2(&e->b, OP_add, moved, build2(&e->b, OP_mul, p->z, g));
}

/* Parts of one tensor see the same drawn for what they all multiply, as PEFT's one module does. */
static Val drop_once(Elab *e, Span at, Adapted *to, Value x)
{
    Adapted *shared = to->first;
    if (e->mode != MODE_TRAIN || !(to->by->dropout > 0))
        return tensor_val(x);
    if (shared != to && shared->from == x && shared->dropped_in == e->b.region)
        return tensor_val(shared->dropped);
    const Val dropped = drop_elements(e, at, x, to->by->dropout, "adapter_dropout");
    shared->from = x;
    shared->dropped = dropped.value;
    shared->dropped_in = e->b.region;
    return dropped;
}

/* Dims of the sum are those of the product, in its order. */
static Val adapted(Elab *e, Span at, Adapted *to, Product p)
{
    const AdapterLine *l = to->by;
    const DType t = type_of(e->module, p.y)->dtype;
    const DimList rank = {.n = 1, .dim = {l->dim}};
    begin_function(e, to->first);
    const Val dropped = drop_once(e, at, to, p.x);
    if (dropped.kind == VAL_POISON)
        return poison;
    Type hidden = {.rank = type_of(e->module, p.x)->rank};
    if (hidden.rank - to->in.n + 1 > MAX_RANK)
        return fail(e, at, 206, "an adapter's value would have more than %d dims", MAX_RANK);
    p.dropped = dropped.value;
    const Value a = parameter(e, to, to->a, &to->first->arg_a, t);
    const Value b = parameter(e, to, to->b, &to->arg_b, t);
    const Value h = build2(&e->b, OP_mul, build_dot(&e->b, p.dropped, a, &to->in),
                           build_const(&e->b, t, l->scale));
    p.z = build_dot(&e->b, h, b, &rank);
    const Value sum = l->dora ? dora(e, to, &p, a, b) : build2(&e->b, OP_add, p.y, p.z);
    return tensor_val(build_as(&e->b, sum, *type_of(e->module, p.y)));
}

Val adapted_product(Elab *e, Span at, Value x, Value w, Value matrix, const DimList *over, Val y)
{
    Adapted *to = map_find(&e->adapted, matrix);
    if (!to || y.kind != VAL_TENSOR)
        return y;
    own(e, y.value);
    if (e->frame->bare)
        return y;
    if (e->mode == MODE_TRAIN && !find_dims(e, at, to, over, type_of(e->module, x)))
        return poison;
    return to->a && to->b ? adapted(e, at, to, (Product){.x = x, .w = w, .y = y.value}) : y;
}

/* ---- tables -----------------------------------------------------------------------------------
 */

/* In @train: A has the dim that is looked up, B the others. */
static bool find_table(Elab *e, Span at, Adapted *to, const Attrs *attrs)
{
    const Tensor *w = &e->module->tensors.data[to->matrix];
    const DimList first = group(w, 0), second = group(w, 1);
    if (first.n != 1 || first.dim[0].name != attrs->dim.name || w->part_of)
        return refuse(e, at, to, "files have it otherwise than by rows of what is looked up");
    if (to->by->dora)
        return refuse(e, at, to, "a table has no magnitudes here: DoRA is for products");
    if (to->a)
        return to->table || refuse(e, at, to, "a product reads it, too");
    to->in = first;
    to->out = second;
    to->turned = to->table = true;
    return make_adapter(e, to);
}

Val adapted_table(Elab *e, Span at, Value table, Value index, const Attrs *attrs, Val y)
{
    Adapted *to = map_find(&e->adapted, table);
    if (!to || y.kind != VAL_TENSOR)
        return y;
    own(e, y.value);
    if (e->mode == MODE_TRAIN && !find_table(e, at, to, attrs))
        return poison;
    if (!to->a || !to->b)
        return y;
    const DType t = type_of(e->module, y.value)->dtype;
    const DimList rank = {.n = 1, .dim = {to->by->dim}};
    begin_function(e, to);
    const Value a = parameter(e, to, to->a, &to->arg_a, t);
    const Value b = parameter(e, to, to->b, &to->arg_b, t);
    const Val row = make(e, at, OP_gather, attrs, 2, (Value[]){a, index});
    if (row.kind != VAL_TENSOR)
        return row;
    const Value h = build2(&e->b, OP_mul, row.value, build_const(&e->b, t, to->by->scale));
    const Value sum = build2(&e->b, OP_add, y.value, build_dot(&e->b, h, b, &rank));
    return tensor_val(build_as(&e->b, sum, *type_of(e->module, y.value)));
}

/* ---- what else reads a matrix -----------------------------------------------------------------
 */

static bool check_use(Elab *e, Value v, Span at)
{
    const Adapted *to = map_find(&e->adapted, v);
    return !to || refuse(e, at, to, "this reads it otherwise than by a product");
}

static bool check_region(Elab *e, const Region *r)
{
    bool good = true;
    for (size_t n = 0; good && n < r->ins.n; n++) {
        const Ins *i = r->ins.data[n];
        const bool known = i->nout && map_find(&e->adapted_uses, i->out[0]);
        for (uint32_t k = 0; good && !known && k < i->nin; k++)
            good = check_use(e, i->in[k], i->span);
        good = good && (!i->body || check_region(e, i->body));
    }
    for (size_t k = 0; good && k < r->results.n; k++)
        good = check_use(e, r->results.data[k], r->owner ? r->owner->span : (Span){0});
    return good;
}

/* Other functions read what @train does, and a sample has copies of its products. */
bool check_adapted(Elab *e)
{
    return !e->adapters.n || e->mode != MODE_TRAIN || check_region(e, e->fn->body);
}
