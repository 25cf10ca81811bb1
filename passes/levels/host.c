/* host.c - kernels that update what is on the host of a GPU run there.
 *
 *   before:  m1 = transfer m {device};  m2, u = fused m1, g;  m3 = transfer m2 {host}
 *   after:   g1 = transfer g {host};    m2, u1 = fused m, g1;  u = transfer u1 {device}
 *
 * A kernel is moved if it updates something in its place (an operand that it alone reads comes from
 * the host, and a result of the same type goes there and nowhere else), and if fewer bytes are
 * transferred then. AdamW with its state and masters there reads gradients and gives rounded
 * parameters: of 12 bytes an element each way, 2 or 4 are left.
 *
 * All that such a kernel reads of the device is taken to the host where it is made, so that what is
 * the same for all layers, as the step's rate, goes there once.
 *
 * why here: kernels are made, and have their constants; what they compute is the same wherever they
 * run, so numbers do not change. */
#include "ir/level.h"
#include "passes/levels/levels.h"
#include "passes/passes.h"
#include "passes/simplify/simplify.h"
#include "passes/walk.h"

#include <string.h>

typedef struct Host {
    Module *m;
    Arena *tmp;
    Uses uses;
    VEC(Ins *) kernels; /* that are moved */
    VEC(Value) there;   /* per value of the device: what it is on the host, or 0 */
} Host;

/* An operand's value on the host, if the kernel alone reads what comes from there; else 0. */
static Value comes(const Host *h, Value v)
{
    const Ins *def = h->m->values.data[v].def;
    const bool alone = def && def->op == OP_transfer && h->uses.count[v] == 1;
    return alone && type_of(h->m, def->in[0])->level == LEVEL_host ? def->in[0] : 0;
}

/* The transfer that alone reads a result, to the host; NULL: there is none. */
static Ins *goes(const Host *h, const Ins *kernel, Value v)
{
    const Region *r = kernel->home;
    for (size_t n = 0; n < r->ins.n && h->uses.count[v] == 1; n++) {
        Ins *i = r->ins.data[n];
        if (i->op == OP_transfer && i->in[0] == v && i->attrs.level == LEVEL_host)
            return i;
    }
    return NULL;
}

static int64_t bytes_of(const Host *h, Value v)
{
    return type_bytes(type_of(h->m, v));
}

/* The bytes that fewer transfers move in an iteration if a kernel runs on the host. At most 0: it
 * does not update what is there. */
static int64_t saves(const Host *h, const Ins *i)
{
    int64_t bytes = 0;
    bool updates = false;
    if (!strcmp(name_str(h->m->names, i->attrs.kind), "col")) /* has work space on the device */
        return 0;
    for (uint32_t k = 0; k < i->nout; k++) {
        const bool gone = goes(h, i, i->out[k]) != NULL;
        bytes += gone ? bytes_of(h, i->out[k]) : -bytes_of(h, i->out[k]);
        for (uint32_t n = 0; gone && n < i->nin; n++)
            updates |=
                comes(h, i->in[n]) && type_equal(type_of(h->m, i->in[n]), type_of(h->m, i->out[k]));
    }
    for (uint32_t n = 0; n < i->nin; n++)
        bytes += comes(h, i->in[n]) ? bytes_of(h, i->in[n]) : -bytes_of(h, i->in[n]);
    return updates ? bytes : 0;
}

static void note_kernel(void *ctx, Ins *i)
{
    Host *h = ctx;
    if (i->op == OP_fused && !fused_level(h->m, i) && saves(h, i) > 0)
        vec_push(h->tmp, &h->kernels, i);
}

static Host look(Module *m, Fn *fn, Arena *tmp)
{
    Host h = {.m = m, .tmp = tmp, .uses = ir_uses(m, fn->body, tmp)};
    each_ins(fn->body, note_kernel, &h);
    return h;
}

bool levels_update_on_host(Module *m, Arena *tmp)
{
    bool any = false;
    for (size_t f = 0; f < m->fns.n && !any; f++)
        any = look(m, m->fns.data[f], tmp).kernels.n > 0;
    return any;
}

/* ---- the change ------------------------------------------------------------------------------ */

/* A transfer that stands in `r` behind what defines v, or (v 0) at its begin. */
static Value put_transfer(Host *h, Region *r, const Ins *behind, Value v, Level to)
{
    Module *m = h->m;
    Builder b = behind ? builder_at(m, r, behind) : (Builder){.m = m, .region = r};
    const Value y = levels_bring(&b, v, to);
    Ins *made = r->ins.data[--r->ins.n];
    size_t at = 0;
    while (behind && r->ins.data[at++] != behind)
        ;
    vec_push(m->arena, &r->ins, made);
    memmove(&r->ins.data[at + 1], &r->ins.data[at], (r->ins.n - 1 - at) * sizeof *r->ins.data);
    r->ins.data[at] = made;
    return y;
}

/* A value of the device, on the host: taken there once, where it is made. */
static Value taken(Host *h, Value v)
{
    const ValueInfo info = h->m->values.data[v];
    while (h->there.n <= v)
        vec_push(h->tmp, &h->there, 0);
    if (!h->there.data[v])
        h->there.data[v] = put_transfer(h, info.home, info.def, v, LEVEL_host);
    return h->there.data[v];
}

/* Every use of v inside r becomes one of `by`. */
static void replace(Host *h, Region *r, Value v, Value by)
{
    Value *map = NEW_ARRAY(h->tmp, Value, h->m->values.n);
    map[v] = by;
    ir_replace(r, map);
}

static void move(Host *h, Ins *i)
{
    Module *m = h->m;
    Ins **gone = NEW_ARRAY(h->tmp, Ins *, i->nout);
    for (uint32_t k = 0; k < i->nout; k++)
        gone[k] = goes(h, i, i->out[k]);
    for (uint32_t n = 0; n < i->nin; n++) {
        const Value from = comes(h, i->in[n]);
        i->in[n] = from ? from : taken(h, i->in[n]);
    }
    for (uint32_t k = 0; k < i->nout; k++) {
        m->values.data[i->out[k]].type.level = LEVEL_host;
        if (gone[k]) {
            replace(h, i->home, gone[k]->out[0], i->out[k]);
            continue;
        }
        const Value back = put_transfer(h, i->home, i, i->out[k], LEVEL_device);
        Ins *brings = m->values.data[back].def;
        replace(h, i->home, i->out[k], back);
        brings->in[0] = i->out[k];
    }
}

PassStatus pass_host(Job *j)
{
    Module *m = j->m;
    for (size_t f = 0; f < m->fns.n && m->layout.optimizer == OPTIMIZER_host; f++) {
        Host h = look(m, m->fns.data[f], j->tmp);
        for (size_t k = 0; k < h.kernels.n; k++)
            move(&h, h.kernels.data[k]);
        if (h.kernels.n)
            simplify_dce(m, m->fns.data[f], j->tmp);
    }
    return PASS_ok;
}
