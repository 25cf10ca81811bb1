/* check_outside.c - P9: what a GPU's program takes beside its arena, counted anew.
 *
 * Here each action is counted by itself: the iterations of the loops around it multiply, and of a
 * pipeline's loop the operations of the rank's table that run it. Which ranks of a communicator are
 * neighbours in a node is seen from the ranks themselves. */
#include "plan/check/check_run.h"

#include "ir/collective.h"
#include "ir/mesh.h"
#include "runtime/attend.h"
#include "runtime/conv.h"

#include <stdlib.h>

typedef struct Count {
    Check *c;
    const Program *g;
    int place, places;
} Count;

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_on(StageSet at, int k, int n)
{
    return (k == 0 && at & AT_FIRST) || (k && k == n - 1 && at & AT_LAST) ||
           (k && k < n - 1 && at & AT_MIDDLE);
}

static bool computes(const Pipe *p, const mg_pipe_op *o, int index)
{
    int phase = 0;
    while (phase + 1 < p->phases && p->begin[phase + 1] < index)
        phase++;
    switch (o->step) {
    case MG_PIPE_F:
        return phase == 0;
    case MG_PIPE_B:
        return phase > 0;
    case MG_PIPE_I:
        return phase == 1;
    case MG_PIPE_W:
        return phase == 2;
    default:
        return false;
    }
}

/* How often the rank's table runs an action that has so many loops over the layers of a stage
 * around it. */
static int64_t by_table(const Count *k, const Action *a, int staged)
{
    const Pipeline *layout = &k->c->m->layout.pipeline;
    const int index = (int)(a - k->g->actions.data);
    int64_t times = 0;
    for (const mg_pipe_op *o = k->g->pipe->ops[k->place]; o->step; o++) {
        int64_t here = computes(k->g->pipe, o, index);
        if (a->on != AT_ALL && !is_on(a->on, o->stage, k->g->pipe->stages))
            continue;
        for (int s = 0; s < staged; s++)
            here *= layout->layers.data[o->stage];
        times += here;
    }
    return times;
}

static int64_t times_of(const Count *k, const Action *a)
{
    const Name layers = k->c->m->layout.pipeline.dim;
    const Pipe *pipe = k->g->pipe;
    int64_t times = 1, over_layers = 1;
    int staged = 0;
    for (int l = a->around; l >= 0; l = k->g->loops.data[l].parent) {
        const Dim *d = &k->g->loops.data[l].dim;
        if (pipe && l == pipe->loop)
            return times * by_table(k, a, staged);
        if (pipe && d->name == layers) {
            staged++;
            over_layers *= d->size;
        } else {
            times *= d->size;
        }
    }
    return k->places > 1 && a->on != AT_ALL && !is_on(a->on, k->place, k->places)
               ? 0
               : times * over_layers;
}

/* One copy; to and from a disk one of each piece, which the host has begun before, or ends. */
static int64_t transferred(const Action *a)
{
    int64_t copies = 0;
    if (a->operand[0].type.level != LEVEL_disk && a->operand[1].type.level != LEVEL_disk)
        return 1;
    for (int64_t left = a->bytes; left > 0; left -= MG_DISK_PIECE)
        copies++;
    return a->kind == ACT_fetch ? 2 * copies : 2 * copies + 1;
}

static int64_t called(const Action *a)
{
    const bool gradients = a->kind == ACT_head;
    if (a->kind == ACT_loop || a->kind == ACT_end || a->kind == ACT_phase || a->kind == ACT_guard)
        return 0;
    if (a->kind == ACT_gemm)
        return mg_gemm_nodes(&a->gemm);
    if (a->kind == ACT_head || a->kind == ACT_head_loss)
        return mg_head_nodes(&a->head, gradients);
    if (a->kind == ACT_attention_grad)
        return mg_attention_grad_nodes(&a->attention);
    if (a->kind == ACT_attention_bias_grad)
        return mg_attention_bias_nodes(&a->attention);
    if (a->kind == ACT_scatter_add)
        return mg_scatter_nodes(&a->gather);
    if (a->kind == ACT_conv)
        return mg_conv_nodes(&a->conv);
    if (a->kind == ACT_comm)
        return mg_comm_nodes(&a->comm);
    if (action_transfers(a))
        return transferred(a);
    return a->kind == ACT_dispatch ? 2 : 1;
}

/* Nodes that the library may launch besides. */
static int64_t called_besides(const Action *a)
{
    if (a->kind == ACT_gemm)
        return mg_gemm_nodes(&a->gemm) + mg_apart_nodes(&a->gemm);
    const int64_t chunks =
        a->kind == ACT_head || a->kind == ACT_head_loss ? mg_head_nodes(&a->head, false) / 2 : 0;
    return chunks * (a->kind != ACT_head ? 1 : a->head.frozen ? 2 : 3);
}

/* Groups of messages, and two marks around each wait that another has not done already. */
static int64_t messages(const Count *k)
{
    const mg_pipe_op *op = k->g->pipe->ops[k->place];
    int64_t n = 0, nodes = 0, issues = 0, done = 0;
    while (op[n].step)
        n++;
    int64_t *issue = calloc((size_t)n + 1, sizeof *issue);
    bool *waited = calloc((size_t)n + 1, sizeof *waited);
    for (int64_t i = 0, of_group = 0; i < n; i++) {
        if (op[i].step >= MG_PIPE_SEND_F && op[i].step <= MG_PIPE_RECV_B) {
            issues += of_group == 0;
            nodes += of_group == 0;
            of_group = of_group ? of_group - 1 : op[i].with;
            issue[i] = issues;
        }
        int64_t m = 0;
        while (op[i].step == MG_PIPE_WAIT && m < i && (op[m].step != op[i].of || waited[m]))
            m++;
        if (op[i].step != MG_PIPE_WAIT || m == i)
            continue;
        waited[m] = true;
        nodes += issue[m] > done ? 2 : 0;
        done = issue[m] > done ? issue[m] : done;
    }
    free(issue);
    free(waited);
    return nodes;
}

/* The nodes before the guard and after it; and what the library may add. */
static Nodes count(const Count *k, int64_t *besides)
{
    Nodes n = {0};
    bool guarded = false;
    *besides = 0;
    for (size_t i = 0; i < k->g->actions.n; i++) {
        const Action *a = &k->g->actions.data[i];
        const int64_t times = times_of(k, a);
        guarded |= a->kind == ACT_guard;
        n.before += guarded ? 0 : times * called(a);
        n.after += guarded ? times * called(a) : 0;
        *besides += times * called_besides(a);
    }
    n.before += k->g->pipe ? messages(k) : 0;
    return n;
}

/* Nodes that the graphs of a program take memory for. */
static int64_t check_nodes(Check *c, const Program *g, int number)
{
    const Outside *o = &c->p->outside;
    int64_t most = 0, all = 0;
    for (int place = 0; g && place < o->places; place++) {
        Count k = {c, g, place, o->places};
        int64_t besides;
        const Nodes n = count(&k, &besides), *said = &o->nodes[number][place];
        if (n.before != said->before || n.after != said->after)
            broken(c, 9,
                   "it claims graphs of %lld and %lld nodes on stage %d, which have %lld and %lld",
                   (long long)said->before, (long long)said->after, place, (long long)n.before,
                   (long long)n.after);
        const int64_t here = n.before + n.after;
        all = here > all ? here : all;
        most = here + besides > most ? here + besides : most;
    }
    most = all <= MG_NODES_MAX ? most : 0;
    if (o->most[number] < most)
        broken(c, 9, "it claims memory for %lld nodes of graphs, which may have %lld",
               (long long)o->most[number], (long long)most);
    return most;
}

/* ---- communicators --------------------------------------------------------------------------- */

/* Ranks of the first rank's communicator along some axes that are in its node. */
static int64_t in_node(const Check *c, Axes axes)
{
    int64_t here = 0;
    for (int64_t rank = 0; rank < c->p->device->node_ranks && rank < mesh_ranks(c->m); rank++) {
        bool is = true;
        for (int x = 0; x < (int)c->m->layout.mesh.n; x++)
            is &= axes >> x & 1 || mesh_coordinate(c->m, rank, x) == 0;
        here += is;
    }
    return here;
}

/* Is a collective of these axes among the actions, of those that go round a ring, to the next rank,
 * or to each? */
typedef struct Sent {
    bool any, ring, next, each, twice;
} Sent;

static Sent sent_along(const Plan *p, Axes axes, bool small)
{
    Sent s = {0};
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; p->programs[k] && i < p->programs[k]->actions.n; i++) {
            const Action *a = &p->programs[k]->actions.data[i];
            if (!action_sends(a) || a->comm.axes != axes || a->comm.small != small)
                continue;
            const SendWay way = collective_of_kind(a->comm.kind)->sends;
            const bool each = way == SEND_exchange || a->comm.tree;
            s.any = true;
            if (a->comm.piece)
                continue;
            s.each |= each;
            s.next |= way == SEND_neighbour;
            s.ring |= !each && way != SEND_neighbour;
            s.twice |= !each && way == SEND_twice;
        }
    return s;
}

static void add_links(const Check *c, Axes axes, bool ring, int64_t peers, mg_links *l)
{
    const int64_t here = in_node(c, axes), n = mesh_size(c->m, axes);
    const int64_t near = peers < here - 1 ? peers : here - 1;
    if (ring && here < n)
        l->far++;
    else if (ring)
        l->near++;
    l->near += near;
    l->pools += peers > 0 && here < n;
}

/* Trees, and the switch of a node's links, beside rings: a chain in a node has a rank before and
 * one behind, a tree of nodes one above and two below. */
static void add_others(const Check *c, Axes axes, const Sent *s, mg_links *l)
{
    const int64_t here = in_node(c, axes), n = mesh_size(c->m, axes);
    if (s->twice && here > 1)
        l->near += here == 2 ? 1 : 2;
    if (s->twice && here < n)
        l->far += 1 + 2;
    if (s->ring && here == n && c->p->device->switch_bandwidth > 0)
        l->switched += n;
}

/* Small ones have communicators beside those of all others, also that of all ranks. */
static int64_t collectives(const Check *c, bool small)
{
    const Axes every = ((Axes)1 << c->m->layout.mesh.n) - 1;
    mg_links l = {.comms = small ? 0 : 1};
    for (Axes axes = 1; axes <= every; axes++) {
        const Sent s = sent_along(c->p, axes, small);
        if (!s.any)
            continue;
        l.comms += small || axes != every;
        add_links(c, axes, s.ring, s.each ? mesh_size(c->m, axes) - 1 : s.next, &l);
        if (c->p->device->collectives == COLLECTIVES_unordered)
            add_others(c, axes, &s, &l);
    }
    return mg_links_bytes(&l, small ? MG_SMALL_CHANNELS : MG_NCCL_CHANNELS, MG_NCCL_BUFFER);
}

static int64_t stages(const Check *c)
{
    const Axes axis = c->m->layout.pipeline.axis;
    mg_links l = {.comms = 1};
    if (!axis)
        return 0;
    add_links(c, axis, false, mesh_size(c->m, axis) == 2 ? 1 : 2, &l);
    return mg_links_bytes(&l, MG_NCCL_CHANNELS, MG_NCCL_BUFFER);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int streams_with_products(const Plan *p)
{
    bool has[MAX_STREAMS] = {0};
    int n = 0;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; p->programs[k] && i < p->programs[k]->actions.n; i++) {
            const Action *a = &p->programs[k]->actions.data[i];
            if (a->kind == ACT_gemm || a->kind == ACT_head || a->kind == ACT_head_loss)
                has[a->stream] = true;
        }
    for (int s = 0; s < MAX_STREAMS; s++)
        n += has[s];
    return n;
}

static void check_item(Check *c, OutsideItem i, int64_t needs)
{
    static const char *const names[OUT_count] = {
        "the context", "code", "products", "graphs", "communicators", "small ones", "messages"};
    if (c->p->outside.bytes[i] < needs)
        broken(c, 9, "it counts %lld bytes beside the arena for %s, which take %lld",
               (long long)c->p->outside.bytes[i], names[i], (long long)needs);
}

void check_outside(Check *c)
{
    const Plan *p = c->p;
    const bool ranks = c->m->layout.mesh.n > 0;
    const int64_t works = streams_with_products(p);
    int64_t nodes = 0;
    c->at = -1;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        nodes += check_nodes(c, p->programs[k], k);
    check_item(c, OUT_context,
               MG_CONTEXT_BYTES + MG_CONTEXT_PROCESSOR * (int64_t)p->device->threads);
    check_item(c, OUT_code,
               MG_CODE_BYTES + MG_CODE_KERNEL * (int64_t)p->kernels.n +
                   (works ? MG_CODE_CUBLASLT : 0) + (ranks ? MG_CODE_NCCL : 0));
    check_item(c, OUT_products, MG_PRODUCT_WORK * works);
    check_item(c, OUT_graphs, nodes * MG_NODE_BYTES);
    check_item(c, OUT_comms, ranks ? collectives(c, false) : 0);
    check_item(c, OUT_small, ranks ? collectives(c, true) : 0);
    check_item(c, OUT_messages, ranks ? stages(c) : 0);
}
