/* weights_first.c - pass weights_first: what experts give is weighed before their last product.
 *
 *   before:  y = dot h, down                            [experts, group, slot, hidden]
 *            o = combine y, c, s, w
 *   after:   u = dispatch 1, c, s, w                    [experts, group, slot]
 *            y = dot (mul h, u), down
 *            o = combine y, c, s
 *
 * A product is linear in its rows: both are the same sum. But the gradient of a weight is then a
 * sum over what the product reads, beside the other gradients of h, and nothing asks for y again:
 * it is neither kept nor made twice. And gradients of positions go to the experts as they are, in
 * the 8 bits in which the product reads them where that is fp8 (spmd/send_narrow.c), for nothing
 * has to be multiplied behind the exchange. h is weighed before it is rounded, so it is rounded
 * once, as before.
 *
 * Functions that generate stay as they are: they have no gradients, and a few rows each, for which
 * one kernel more is what counts. So does what is not one product, as with a bias or an adapter.
 *
 * why here: the types say what is rounded; before send_rows and differentiate, so that rows are
 * sent, and gradients made, of what is computed. */
#include "passes/passes.h"
#include "passes/walk.h"

typedef struct First {
    Module *m;
    Uses uses;
} First;

/* Casts that nothing reads are as precision leaves them. */
static bool is_unread(const First *f, const Ins *i)
{
    return i->op == OP_cast && f->uses.count[i->out[0]] == 0;
}

/* Is i all that reads v, in r and elsewhere? */
static bool alone_reads(const First *f, const Region *r, const Ins *i, Value v)
{
    int reads = 0;
    for (size_t k = 0; k < r->ins.n; k++)
        for (uint32_t x = 0; x < r->ins.data[k]->nin; x++)
            reads +=
                r->ins.data[k]->in[x] == v && (r->ins.data[k] == i || is_unread(f, r->ins.data[k]));
    return reads == (int)f->uses.count[v];
}

static bool is_in(const Region *r, const Ins *i)
{
    for (size_t k = 0; k < r->ins.n; k++)
        if (r->ins.data[k] == i)
            return true;
    return false;
}

/* The product whose rows i weighs, and in *rows which of its operands has them; NULL: there is
 * none, or others read what it gives. */
static Ins *weighed(const First *f, const Region *r, const Ins *i, int *rows)
{
    const Value y = i->nin ? i->in[0] : 0;
    Ins *dot = i->op == OP_combine && i->nin == 4 ? f->m->values.data[y].def : NULL;
    if (!dot || !OP_AMONG(dot->op, OP_dot, OP_grouped) || !is_in(r, dot) ||
        !alone_reads(f, r, i, y))
        return NULL;
    *rows = dot->op == OP_dot && type_find(type_of(f->m, dot->in[0]), i->attrs.to.name) < 0;
    const Type *h = type_of(f->m, dot->in[*rows]);
    bool of_slots =
        type_find(h, i->attrs.to.name) >= 0 &&
        (dot->op == OP_grouped || type_find(type_of(f->m, dot->in[!*rows]), i->attrs.to.name) < 0);
    const Type *choice = type_of(f->m, i->in[1]);
    for (int k = 0; k < choice->rank && of_slots; k++)
        of_slots = choice->dims[k].name == i->attrs.along.name ||
                   dims_have(&i->attrs.over, choice->dims[k].name) ||
                   type_find(h, choice->dims[k].name) >= 0;
    return of_slots && (i->attrs.sorted || type_find(h, i->attrs.dim.name) >= 0) ? dot : NULL;
}

/* A product whose rows a combine weighs. */
typedef struct Weighed {
    Ins *combine, *dot;
    int rows;
    size_t at; /* of the instruction before which weights are sent */
    Value weights;
} Weighed;

typedef VEC(Weighed) WeighedList;

/* Sets in `need` which of the instructions behind number `from` make what combine number `at` reads
 * beside rows; false: some cannot be before that one. */
static bool needed(const First *f, const Region *r, size_t from, size_t at, bool *need)
{
    for (size_t k = at + 1; k-- > from;) {
        const Ins *i = r->ins.data[k];
        if (k < at && !need[k])
            continue;
        if (k == from || (k < at && i->body))
            return false;
        for (uint32_t x = k == at; x < i->nin; x++)
            for (size_t n = from; n < k; n++)
                need[n] |= f->m->values.data[i->in[x]].def == r->ins.data[n];
    }
    need[at] = false;
    return true;
}

/* Weights are sent to the experts before rows are, where they are known as soon: what is sent, and
 * cut, in turns (spmd/pieces_experts.c) has nothing small in between. */
static size_t sent_at(const First *f, const Region *r, size_t at, Arena *tmp)
{
    const Ins *combine = r->ins.data[at];
    for (size_t k = 0; k < at; k++)
        if (r->ins.data[k]->op == OP_dispatch && r->ins.data[k]->in[1] == combine->in[1])
            return needed(f, r, k, at, NEW_ARRAY(tmp, bool, r->ins.n)) ? k : at;
    return at;
}

/* One number for each position, 1. */
static Value ones(Builder *b, const Ins *combine)
{
    const Type *choice = type_of(b->m, combine->in[1]);
    Type t = {.dtype = type_of(b->m, combine->in[3])->dtype};
    for (int k = 0; k < choice->rank; k++)
        if (!dims_have(&combine->attrs.over, choice->dims[k].name))
            t.dims[t.rank++] = choice->dims[k];
    return build_filled(b, t, 1);
}

/* The weights of a combine's rows where these are. */
static void send_weights(First *f, Region *r, Weighed *w)
{
    Builder b = builder_at(f->m, r, w->combine);
    const Ins *c = w->combine;
    const Value in[] = {ones(&b, c), c->in[1], c->in[2], c->in[3]};
    w->weights = build(&b, OP_dispatch, &c->attrs, 4, in);
}

/* A product's operand with each row weighed; of a rounded one what was rounded is. */
static void weigh(First *f, Region *r, const Weighed *w)
{
    Builder b = builder_at(f->m, r, w->dot);
    const Value h = w->dot->in[w->rows];
    const Ins *def = f->m->values.data[h].def;
    const DType as = type_of(f->m, h)->dtype, wide = type_of(f->m, w->weights)->dtype;
    const bool rounded = def && def->op == OP_cast && type_of(f->m, def->in[0])->dtype == wide;
    const Value x = build_cast(&b, rounded ? def->in[0] : h, wide);
    const Value u = build_as(&b, w->weights, *type_of(f->m, x));
    w->dot->in[w->rows] = build_cast(&b, build2(&b, OP_mul, x, u), as);
    w->combine->nin = 3;
    vec_push(f->m->arena, &r->ins, w->dot);
}

static void find(First *f, const Region *r, WeighedList *list, Arena *tmp)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Weighed w = {.combine = r->ins.data[k]};
        w.dot = weighed(f, r, w.combine, &w.rows);
        if (w.dot) {
            w.at = sent_at(f, r, k, tmp);
            vec_push(tmp, list, w);
        }
    }
}

static bool is_weighed(const WeighedList *list, const Ins *i)
{
    for (size_t n = 0; n < list->n; n++)
        if (list->data[n].dot == i)
            return true;
    return false;
}

/* Puts what makes the weights before the instruction behind which they are sent. */
static void first(First *f, Region *r, const Region *was, const Weighed *w, bool *done, Arena *tmp)
{
    bool *need = NEW_ARRAY(tmp, bool, was->ins.n);
    size_t end = w->at;
    while (was->ins.data[end] != w->combine)
        end++;
    if (end > w->at)
        needed(f, was, w->at, end, need);
    for (size_t k = w->at; k < end; k++)
        if (need[k] && !done[k]) {
            done[k] = true;
            vec_push(f->m->arena, &r->ins, was->ins.data[k]);
        }
}

static void region(First *f, Region *r, Arena *tmp)
{
    const Region was = *r;
    WeighedList list = {0};
    bool *done = NEW_ARRAY(tmp, bool, was.ins.n);
    for (size_t k = 0; k < was.ins.n; k++)
        if (was.ins.data[k]->body)
            region(f, was.ins.data[k]->body, tmp);
    find(f, &was, &list, tmp);
    if (!list.n)
        return;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < was.ins.n; k++) {
        Ins *i = was.ins.data[k];
        for (size_t n = 0; n < list.n; n++)
            if (list.data[n].at == k) {
                first(f, r, &was, &list.data[n], done, tmp);
                send_weights(f, r, &list.data[n]);
            }
        for (size_t n = 0; n < list.n; n++)
            if (list.data[n].combine == i)
                weigh(f, r, &list.data[n]);
        if (!done[k] && !is_unread(f, i) && !is_weighed(&list, i))
            vec_push(f->m->arena, &r->ins, i);
    }
}

PassStatus pass_weights_first(Job *j)
{
    static const char *const of[] = {"train", "eval"};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        Fn *fn = module_fn(j->m, of[k]);
        if (!fn)
            continue;
        First f = {.m = j->m, .uses = ir_uses(j->m, fn->body, j->tmp)};
        region(&f, fn->body, j->tmp);
    }
    return PASS_ok;
}
