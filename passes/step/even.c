/* even.c - a parameter that a class splits, and of which no dim divides evenly, is stored a little
 * larger; see even.h.
 *
 *   before:  @train(w[hidden=4096, ffn=11008]) { ... dot x, w ... -> gradient dw }
 *   after:   @train(w[hidden=4128, ffn=11008]) {      for 96 ranks; 4096 in files, the rest is 0
 *              w1 = window w {along=hidden=4096, at=0};  ... dot x, w1 ...
 *              z = 0 [hidden=32, ffn=11008];  -> gradient join dw, z {dim=hidden} }
 *
 * The program computes with the window, which is a view. The gradient has zeros where the padding
 * is, so its sum over ranks can be scattered in parts of one size, the optimizer leaves the padding
 * as it is, and what is gathered is the parameter with its padding. Which dim and how large is
 * class_padding (passes/spmd/shard_class.c).
 */
#include "passes/step/even.h"
#include "passes/spmd/shard.h"
#include "passes/walk.h"

typedef struct Even {
    Module *m;
    Arena *tmp;
    bool *padded;    /* per value: it has the padding of its tensor */
    Value *window;   /* ... and the window of it that is read */
    const Type *was; /* per tensor: its type before */
    uint32_t *of;    /* per value: the tensor whose padding it has */
} Even;

bool splits_gradients(const Module *m)
{
    for (size_t r = 0; r < m->layout.rules.n; r++)
        if (m->layout.rules.data[r].of > CLASS_state && m->layout.rules.data[r].n)
            return true;
    return false;
}

/* Enlarges types of tensors; per tensor those of before. */
static bool pad_tensors(Module *m, Type *was)
{
    bool any = false;
    for (uint32_t t = 0; t < m->tensors.n; t++)
        was[t] = m->tensors.data[t].type;
    for (uint32_t t = 0; t < m->tensors.n; t++) {
        int dim;
        int64_t size;
        while (m->tensors.data[t].parameter == t && class_padding(m, t, &dim, &size)) {
            m->tensors.data[t].type.dims[dim].size = size;
            any = true;
        }
    }
    return any;
}

/* ---- what reads parameters ------------------------------------------------------------------ */

static void enlarge(Even *e, Value v, uint32_t tensor)
{
    Type *t = &e->m->values.data[v].type;
    const Type *to = &e->m->tensors.data[tensor].type;
    for (int i = 0; i < t->rank; i++)
        t->dims[i].size = to->dims[type_find(to, t->dims[i].name)].size;
    e->padded[v] = true;
    e->of[v] = tensor;
}

/* Is a slice of the tensor gathered to be read, and may layers keep what was gathered? A window of
 * all of it is a value that they may keep, which a slice is not (decide/keep_more.c). In fp8 they
 * read what was rounded ahead of them of slices as they are (quantize.c), and gather that. */
static bool is_gathered(const Module *m, uint32_t tensor, Name dim)
{
    const Type *t = &m->tensors.data[tensor].type;
    const bool ahead = m->train.fp8 && m->train.fp8_scales == SCALES_tensor;
    return !ahead && m->layout.recompute == RECOMPUTE_auto && m->train.half &&
           splits_gradients(m) && class_axes(m, tensor, CLASS_params, type_find(t, dim));
}

/* Dims of a value without their padding, for a reader; NULL: what the function gives. */
static Value windowed(Even *e, Value v, const Ins *reader)
{
    if (e->window[v])
        return e->window[v];
    Module *m = e->m;
    const Type *was = &e->was[e->of[v]];
    Region *home = m->values.data[v].home;
    Builder b = reader ? builder_at(m, home, reader) : (Builder){.m = m, .region = home};
    Value w = v;
    for (int i = 0; i < type_of(m, v)->rank; i++) {
        const Dim d = type_of(m, v)->dims[i], whole = was->dims[type_find(was, d.name)];
        if (d.size != whole.size || is_gathered(m, e->of[v], d.name))
            w = build(&b, OP_window, &(Attrs){.along = whole}, 1, &w);
    }
    m->values.data[w].name = m->values.data[v].name;
    return e->window[v] = w;
}

static bool is_padded(const Even *e, Value v, size_t known)
{
    return v < known && e->padded[v];
}

/* Slices of layers, and what a parameter is rounded to, have the padding as well. What is computed
 * reads the window, which stands before its first reader in the region of what it shows. */
static void read_windows(Even *e, Region *r, size_t known)
{
    Module *m = e->m;
    Ins **old = r->ins.data;
    const size_t n = r->ins.n;
    r->ins.data = NULL;
    r->ins.n = r->ins.cap = 0;
    for (size_t k = 0; k < n; k++) {
        Ins *i = old[k];
        const bool rounds = i->op == OP_cast && is_padded(e, i->in[0], known);
        if (rounds)
            enlarge(e, i->out[0], e->of[i->in[0]]);
        for (uint32_t x = 0; x < i->nin && !rounds; x++) {
            if (!is_padded(e, i->in[x], known))
                continue;
            if (i->op == OP_repeat && x >= (uint32_t)i->attrs.carried)
                enlarge(e, i->body->args.data[x], e->of[i->in[x]]);
            else
                i->in[x] = windowed(e, i->in[x], i);
        }
        if (i->body)
            read_windows(e, i->body, known);
        vec_push(m->arena, &r->ins, i);
    }
    for (size_t k = 0; k < r->results.n; k++)
        if (is_padded(e, r->results.data[k], known))
            r->results.data[k] = windowed(e, r->results.data[k], NULL);
}

/* ---- gradients ------------------------------------------------------------------------------ */

/* g with zeros where its tensor has padding. */
static Value with_zeros(Module *m, Region *r, Value g, const Type *to)
{
    Builder b = {.m = m, .region = r, .backward = true};
    for (int i = 0; i < to->rank; i++) {
        Type rest = *type_of(m, g);
        const int at = type_find(&rest, to->dims[i].name);
        rest.dims[at].size = to->dims[i].size - rest.dims[at].size;
        if (!rest.dims[at].size)
            continue;
        const Value parts[] = {g, build_filled(&b, rest, 0)};
        const Value all = build(&b, OP_join, &(Attrs){.dim = to->dims[i]}, 2, parts);
        m->values.data[all].name = m->values.data[g].name;
        g = all;
    }
    return g;
}

static void pad_function(Even *e, Fn *fn)
{
    Module *m = e->m;
    const size_t known = m->values.n;
    e->padded = NEW_ARRAY(e->tmp, bool, known);
    e->window = NEW_ARRAY(e->tmp, Value, known);
    e->of = NEW_ARRAY(e->tmp, uint32_t, known);
    for (size_t k = 0; k < fn->args.n; k++) {
        const uint32_t t = fn->args.data[k].tensor;
        if (fn->args.data[k].role == ARG_param)
            enlarge(e, fn->body->args.data[k], t);
    }
    read_windows(e, fn->body, known);
    for (size_t k = 0; k < fn->results.n; k++)
        if (fn->results.data[k].role == RES_grad)
            fn->body->results.data[k] =
                with_zeros(m, fn->body, fn->body->results.data[k],
                           &m->tensors.data[fn->results.data[k].tensor].type);
}

void even_out(Module *m, Arena *tmp)
{
    Type *was = NEW_ARRAY(tmp, Type, m->tensors.n + 1);
    Even e = {.m = m, .tmp = tmp, .was = was};
    if (pad_tensors(m, was) || splits_gradients(m))
        for (size_t f = 0; f < m->fns.n; f++)
            pad_function(&e, m->fns.data[f]);
}
