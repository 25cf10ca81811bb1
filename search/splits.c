/* splits.c - what the types of a program say of how it may be split; see rules.h.
 *
 * A rule list of an axis is a cover: each instruction is split along the first dim of the list that
 * it has, and what has none of them is computed by all ranks. A cover begins with any dim, and goes
 * on with the dim that has most of what is left, and least of what is covered already: heads have
 * attention and its products, then ffn has the rest of a layer, and vocab the head. That is tensor
 * parallelism, found without its name. Beginnings of covers count, too, with a dim of the inputs
 * behind them for all the rest: experts, then batch. */
#include "search/rules.h"

#include <string.h>

#include "grammar/words.h"
#include "ir/cost.h"

/* ---- dims and work --------------------------------------------------------------------------- */

typedef struct Reader {
    Splits *s;
    const Module *m;
    Arena *a;
    VEC(Name) names; /* by token */
    double all;
} Reader;

static const double SMALL = 1e-4; /* of all arithmetic: what has less is not looked at */

/* The token of a dim; -1: it has none, as nothing splits it. */
static int token_of(Reader *r, Dim d)
{
    for (size_t k = 0; k < r->names.n; k++)
        if (r->names.data[k] == d.name)
            return (int)k;
    if (d.size < 2 || r->names.n + 8 >= TOKENS_MAX || strchr(name_str(r->m->names, d.name), '.'))
        return -1;
    const Token t = {
        .dim = name_str(r->m->names, d.name), .kind = TOKEN_inner, .plain = (int)r->names.n};
    vec_push(r->a, &r->s->tokens, t);
    vec_push(r->a, &r->names, d.name);
    return t.plain;
}

static uint64_t bits_of(Reader *r, const Type *t)
{
    uint64_t bits = 0;
    for (int k = 0; k < t->rank; k++) {
        const int token = token_of(r, t->dims[k]);
        bits |= token < 0 ? 0 : (uint64_t)1 << token;
    }
    return bits;
}

static void read_region(Reader *r, const Region *g, double times)
{
    for (size_t k = 0; k < g->ins.n; k++) {
        const Ins *i = g->ins.data[k];
        if (i->body) {
            read_region(r, i->body,
                        times * (double)(i->attrs.dim.size > 1 ? i->attrs.dim.size : 1));
            continue;
        }
        Work w = {.flops = times * ir_cost(r->m, i).flops};
        for (uint32_t x = 0; x < i->nin; x++)
            w.dims |= bits_of(r, &r->m->values.data[i->in[x]].type);
        for (uint32_t x = 0; x < i->nout; x++)
            w.dims |= bits_of(r, &r->m->values.data[i->out[x]].type);
        r->all += w.flops;
        if (w.flops > 0)
            vec_push(r->a, &r->s->work, w);
    }
}

static void kinds_of_inputs(Reader *r, const Fn *f)
{
    for (size_t k = 0; k < f->args.n; k++) {
        const ArgRole role = f->args.data[k].role;
        const Type *t = &r->m->values.data[f->body->args.data[k]].type;
        const bool input =
            role == ARG_input || role == ARG_tokens || role == ARG_weight || role == ARG_documents;
        for (int d = 0; input && d < t->rank; d++) {
            const int token = token_of(r, t->dims[d]);
            if (token >= 0)
                r->s->tokens.data[token].kind = TOKEN_data;
        }
    }
}

static void kinds_of_tensors(Reader *r)
{
    for (size_t k = 0; k < r->m->tensors.n; k++)
        for (int d = 0; d < r->m->tensors.data[k].stacked; d++) {
            const int token = token_of(r, r->m->tensors.data[k].type.dims[d]);
            if (token >= 0)
                r->s->tokens.data[token].kind = TOKEN_stack;
        }
}

/* Alike work is one; what is small is left out. */
static void merge_work(Reader *r)
{
    Splits *s = r->s;
    size_t n = 0;
    for (size_t k = 0; k < s->work.n; k++) {
        size_t at = 0;
        while (at < n && s->work.data[at].dims != s->work.data[k].dims)
            at++;
        if (at < n)
            s->work.data[at].flops += s->work.data[k].flops;
        else
            s->work.data[n++] = s->work.data[k];
    }
    s->work.n = n;
    for (size_t k = n = 0; k < s->work.n; k++)
        if (s->work.data[k].flops > SMALL * r->all)
            s->work.data[n++] = s->work.data[k];
    s->work.n = n;
}

/* Dims of the inputs once more, in the order in which a causal mask gives all ranks as much. */
static void add_zigzag(Reader *r)
{
    const size_t n = r->s->tokens.n;
    for (size_t k = 0; k < n; k++) {
        Token t = r->s->tokens.data[k];
        if (t.kind != TOKEN_data || r->s->tokens.n >= TOKENS_MAX - 3)
            continue;
        t.words = axis_options[AXIS_zigzag];
        vec_push(r->a, &r->s->tokens, t);
    }
}

void splits_of(Splits *s, const Module *m, Arena *a)
{
    Reader r = {.s = s, .m = m, .a = a};
    const Fn *f = module_fn(m, "train");
    memset(s, 0, sizeof *s);
    if (!f)
        return;
    kinds_of_inputs(&r, f);
    kinds_of_tensors(&r);
    read_region(&r, f->body, 1);
    merge_work(&r);
    add_zigzag(&r);
    for (int k = CLASS_none + 1; k < CLASS_count; k++) {
        const Token t = {.dim = class_names[k], .kind = TOKEN_class, .plain = (int)s->tokens.n};
        vec_push(a, &s->tokens, t);
    }
}

/* ---- covers ---------------------------------------------------------------------------------- */

bool list_has(const RuleList *l, int token)
{
    for (int k = 0; k < l->n; k++)
        if (l->token[k] == token)
            return true;
    return false;
}

static bool same_set(const RuleList *a, const RuleList *b)
{
    bool same = a->n == b->n;
    for (int k = 0; k < a->n && same; k++)
        same = list_has(b, a->token[k]);
    return same;
}

typedef struct Maker {
    const Splits *s;
    uint64_t allowed;
    Arena *a;
    RuleLists *lists;
} Maker;

static bool may(const Maker *k, int token, TokenKind kind)
{
    const Token *t = &k->s->tokens.data[token];
    return t->kind == kind && !t->words && (k->allowed >> token & 1);
}

static void push(const Maker *k, RuleList l)
{
    for (size_t i = 0; i < k->lists->n; i++)
        if (same_set(&k->lists->data[i], &l))
            return;
    vec_push(k->a, k->lists, l);
}

static RuleList with(RuleList l, int token)
{
    if (l.n < LIST_MAX)
        l.token[l.n++] = (uint8_t)token;
    return l;
}

/* A list with a dim of the inputs, and with each level of the classes behind it. */
static void push_classes(const Maker *k, RuleList l)
{
    push(k, l);
    for (size_t t = 0; t < k->s->tokens.n; t++)
        if (may(k, (int)t, TOKEN_class)) {
            l = with(l, (int)t);
            push(k, l);
        }
}

static void push_data(const Maker *k, RuleList l)
{
    push(k, l);
    for (size_t t = 0; t < k->s->tokens.n; t++)
        if (may(k, (int)t, TOKEN_data) && !list_has(&l, (int)t))
            push_classes(k, with(l, (int)t));
}

/* The inner dim that goes on with a cover: -1: none has anything of what is left. */
static int next_of(const Maker *k, uint64_t covered)
{
    int best = -1;
    double most = 0;
    for (size_t t = 0; t < k->s->tokens.n; t++) {
        double gain = 0, twice = 0;
        if (!may(k, (int)t, TOKEN_inner) || covered >> t & 1)
            continue;
        for (size_t w = 0; w < k->s->work.n; w++) {
            const Work *work = &k->s->work.data[w];
            if (!(work->dims >> t & 1))
                continue;
            *(work->dims & covered ? &twice : &gain) += work->flops;
        }
        if (gain > 0 && (best < 0 || gain - twice / 2 > most)) {
            best = (int)t;
            most = gain - twice / 2;
        }
    }
    return best;
}

static void push_cover(const Maker *k, int seed)
{
    RuleList l = {.n = 1, .token = {(uint8_t)seed}};
    for (uint64_t covered = (uint64_t)1 << seed; seed >= 0 && l.n < LIST_MAX - 4;) {
        push_data(k, l);
        seed = next_of(k, covered);
        if (seed >= 0) {
            l = with(l, seed);
            covered |= (uint64_t)1 << seed;
        }
    }
}

void splits_lists(const Splits *s, uint64_t allowed, Arena *a, RuleLists *lists)
{
    const Maker k = {s, allowed, a, lists};
    for (size_t t = 0; t < s->tokens.n; t++) {
        const RuleList alone = {.n = 1, .token = {(uint8_t)t}};
        if (may(&k, (int)t, TOKEN_stack))
            push(&k, alone);
        if (!may(&k, (int)t, TOKEN_data))
            continue;
        push_classes(&k, alone);
        for (size_t u = 0; u < s->tokens.n; u++)
            if (u != t && may(&k, (int)u, TOKEN_data))
                push_classes(&k, with(alone, (int)u));
    }
    for (size_t t = 0; t < s->tokens.n; t++)
        if (may(&k, (int)t, TOKEN_inner))
            push_cover(&k, (int)t);
}
