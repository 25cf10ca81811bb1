/* toposort.c - a region's instructions in the order in which they will run.
 *
 * A stable topological order that runs pointwise and reducing instructions as soon as their
 * operands are there, before products and other kernels: so that what can share a kernel stands
 * together, and nothing that uses it stands between. Nothing crosses an instruction with an effect.
 * Or, of those that are ready, the one with the least key first.
 */
#include "passes/toposort.h"
#include "passes/walk.h"

typedef struct Order {
    Region *r;
    int n;
    int *def;         /* per value: index of its instruction here, or -1 */
    int *waiting;     /* per instruction: operands not yet computed */
    VEC(int) * users; /* per instruction */
    int user;
    const int *key; /* per instruction; NULL: eager ones first */
    Arena *tmp;
} Order;

static void count_operand(void *ctx, Value *use)
{
    Order *o = ctx;
    int d = o->def[*use];
    if (d < 0 || d == o->user)
        return;
    o->waiting[o->user]++;
    vec_push(o->tmp, &o->users[d], o->user);
}

static bool eager(const Ins *i)
{
    return op_is(i->op, POINTWISE | FUSE);
}

/* Does instruction i, which is ready and stands behind `than`, run before it all the same? */
static bool comes_first(const Order *o, int i, int than)
{
    if (than < 0)
        return true;
    if (o->key)
        return o->key[i] < o->key[than];
    return eager(o->r->ins.data[i]) && !eager(o->r->ins.data[than]);
}

/* Emits the ready instructions among [from, to): the one that comes first. */
static void order_part(Order *o, int from, int to, Ins **out, int *n)
{
    bool *done = NEW_ARRAY(o->tmp, bool, o->n);
    for (int left = to - from; left > 0;) {
        int pick = -1;
        for (int i = from; i < to; i++) {
            if (done[i] || o->waiting[i])
                continue;
            if (comes_first(o, i, pick))
                pick = i;
        }
        if (pick < 0)
            return; /* a cycle: the verifier will say so */
        done[pick] = true;
        left--;
        out[(*n)++] = o->r->ins.data[pick];
        for (size_t k = 0; k < o->users[pick].n; k++)
            o->waiting[o->users[pick].data[k]]--;
    }
}

static void sort(Module *m, Region *r, const int *key, Arena *tmp)
{
    Order o = {.r = r, .n = (int)r->ins.n, .key = key, .tmp = tmp};
    o.def = NEW_ARRAY(tmp, int, m->values.n);
    o.waiting = NEW_ARRAY(tmp, int, o.n);
    o.users = arena_array(tmp, (size_t)o.n + 1, sizeof *o.users);
    for (size_t v = 0; v < m->values.n; v++)
        o.def[v] = -1;
    for (int i = 0; i < o.n; i++)
        for (uint32_t k = 0; k < r->ins.data[i]->nout; k++)
            o.def[r->ins.data[i]->out[k]] = i;
    for (o.user = 0; o.user < o.n; o.user++) {
        const Ins *before = ir_relay_before(r->ins.data[o.user], r->ins.data, r->ins.n);
        each_use(r->ins.data[o.user], count_operand, &o);
        if (before)
            count_operand(&o, &(Value){before->out[0]});
    }
    Ins **out = NEW_ARRAY(tmp, Ins *, o.n);
    int n = 0, from = 0;
    for (int i = 0; i <= o.n; i++)
        if (i == o.n || op_is(r->ins.data[i]->op, EFFECT)) {
            order_part(&o, from, i, out, &n);
            if (i < o.n)
                out[n++] = r->ins.data[i];
            from = i + 1;
        }
    for (int i = 0; i < n && n == o.n; i++)
        r->ins.data[i] = out[i];
}

void toposort_region(Module *m, Region *r, Arena *tmp)
{
    sort(m, r, NULL, tmp);
}

void toposort_by(Module *m, Region *r, const int *key, Arena *tmp)
{
    sort(m, r, key, tmp);
}
