/* outside.c - the memory that a program takes on a GPU beside its arena.
 *
 * Nodes of graphs are counted by a walk over a program as a rank runs it: a loop multiplies, a
 * pipeline's loop is the rank's table. A program that has more than MG_NODES_MAX on any rank is not
 * captured. Ranks along other axes run the same.
 *
 * Each communicator of a set of axes is connected for what is sent there: a ring (what is added up
 * in the order of ranks, gathered or broadcast), the next rank (a shift), or each other rank (an
 * exchange; sums of a tree). Where sums may have any order NCCL may take a tree for an all-reduce,
 * in which a rank has up to two neighbours of its node and three of others, and the switch of a
 * node's links for all that goes around a ring within it. Connections come with their first use and
 * stay. All formulas and constants are those of runtime/sizes.h. */
#include "plan/outside.h"

#include "base/quantity.h"
#include "ir/collective.h"
#include "ir/mesh.h"
#include "plan/network.h"
#include "runtime/attend.h"
#include "runtime/conv.h"

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool is_head(const Action *a)
{
    return a->kind == ACT_head || a->kind == ACT_head_loss;
}

static int64_t nodes_of(const Action *a)
{
    switch (a->kind) {
    case ACT_loop:
    case ACT_end:
    case ACT_phase:
    case ACT_guard:
    case ACT_count:
        return 0;
    case ACT_gemm:
        return mg_gemm_nodes(&a->gemm);
    case ACT_attention_grad:
        return mg_attention_grad_nodes(&a->attention);
    case ACT_attention_bias_grad:
        return mg_attention_bias_nodes(&a->attention);
    case ACT_head:
    case ACT_head_loss:
        return mg_head_nodes(&a->head, a->kind == ACT_head);
    case ACT_scatter_add:
        return mg_scatter_nodes(&a->gather);
    case ACT_conv:
        return mg_conv_nodes(&a->conv);
    case ACT_dispatch:
        return 2;
    case ACT_comm:
        return mg_comm_nodes(&a->comm);
    case ACT_fetch:
    case ACT_offload:
        return action_level(a) == LEVEL_disk ? mg_disk_nodes(a->bytes, a->kind == ACT_fetch) : 1;
    case ACT_kernel:
    case ACT_attention:
    case ACT_xent:
    case ACT_xent_grad:
    case ACT_gather:
    case ACT_put:
    case ACT_top:
    case ACT_slots:
    case ACT_ends:
    case ACT_grouped:
    case ACT_grouped_weight:
    case ACT_combine:
    case ACT_combine_weight:
    case ACT_tile_scale:
    case ACT_round_tiles:
    case ACT_random:
    case ACT_copy:
    case ACT_zero:
    case ACT_receive:
    case ACT_send:
        return 1;
    }
    return 0;
}

/* Nodes that the library may add to those: of an epilogue that it lacks, and one that adds up the
 * parts of a sum over k that it cut. */
static int64_t more_of(const Action *a)
{
    if (a->kind == ACT_gemm)
        return mg_gemm_nodes(&a->gemm) + mg_apart_nodes(&a->gemm);
    if (!is_head(a))
        return 0;
    const int64_t chunks = mg_head_nodes(&a->head, false) / 2;
    return mg_head_nodes(&a->head, a->kind == ACT_head) - chunks; /* all but the losses */
}

typedef struct Walk {
    const Plan *p;
    const Program *g;
    int place, places;
    const mg_pipe_op *op; /* of the pipeline's table, or NULL: outside of it */
    bool guarded;
    Nodes n;
    int64_t more;
} Walk;

static bool runs(const Walk *w, const Action *a)
{
    const int at = w->op ? w->op->stage : w->place;
    const int last = (w->op ? w->g->pipe->stages : w->places) - 1;
    if (a->on == AT_ALL || (!w->op && w->places == 1))
        return true;
    return a->on & (at == 0 ? AT_FIRST : at == last ? AT_LAST : AT_MIDDLE);
}

static int64_t iterations(const Walk *w, const Loop *l)
{
    const Pipeline *layout = &w->p->module->layout.pipeline;
    return w->op && l->dim.name == layout->dim ? layout->layers.data[w->op->stage] : l->dim.size;
}

static void walk(Walk *w, int from, int to, int64_t times);

/* A message's issue is one group. The rank waits for an issue in its stream, between two marks,
 * unless it has waited for that one or a later one before. */
typedef struct Issues {
    int64_t of[4][512]; /* begun and not waited for, by kind */
    unsigned first[4], n[4];
    int64_t begun, waited;
    int with;
} Issues;

static void pass(Walk *w, Issues *s, const mg_pipe_op *o)
{
    const bool waits = o->step == MG_PIPE_WAIT;
    const int kind = (waits ? o->of : o->step) - MG_PIPE_SEND_F;
    if (waits) {
        const int64_t issue = s->of[kind][s->first[kind]++ % 512];
        s->n[kind]--;
        if (issue >= s->waited) {
            w->n.before += 2;
            s->waited = issue + 1;
        }
        return;
    }
    if (!s->with)
        w->n.before++;
    s->of[kind][(s->first[kind] + s->n[kind]++) % 512] = s->begun;
    s->with = s->with ? s->with - 1 : o->with;
    s->begun += !s->with;
}

static void walk_table(Walk *w, int from, int to)
{
    const Pipe *p = w->g->pipe;
    Issues s = {0};
    for (const mg_pipe_op *o = p->ops[w->place]; o->step; o++) {
        if (o->step >= MG_PIPE_SEND_F) {
            if (o->step <= MG_PIPE_WAIT)
                pass(w, &s, o);
            continue;
        }
        const int first = o->step == MG_PIPE_F ? 0 : o->step == MG_PIPE_W ? 2 : 1;
        const int last = o->step == MG_PIPE_B ? p->phases - 1 : first;
        w->op = o;
        walk(w, first ? p->begin[first] : from, last + 1 < p->phases ? p->begin[last + 1] : to, 1);
        w->op = NULL;
    }
}

static void walk(Walk *w, int from, int to, int64_t times)
{
    for (int i = from; i < to; i++) {
        const Action *a = &w->g->actions.data[i];
        if (a->kind == ACT_loop) {
            const Loop *l = &w->g->loops.data[a->loop];
            if (w->g->pipe && (int)a->loop == w->g->pipe->loop)
                walk_table(w, i + 1, l->end);
            else
                walk(w, i + 1, l->end, times * iterations(w, l));
            i = l->end;
        } else if (runs(w, a)) {
            w->guarded |= a->kind == ACT_guard;
            *(w->guarded ? &w->n.after : &w->n.before) += times * nodes_of(a);
            w->more += times * more_of(a);
        }
    }
}

/* Sets the nodes of a program by place; returns the most that its graphs may have. */
static int64_t count_nodes(Plan *p, const Program *g, int number)
{
    Outside *o = &p->outside;
    int64_t most = 0, all = 0;
    o->nodes[number] = NEW_ARRAY(p->module->arena, Nodes, o->places);
    for (int place = 0; place < o->places; place++) {
        Walk w = {.p = p, .g = g, .place = place, .places = o->places};
        walk(&w, 0, (int)g->actions.n, 1);
        o->nodes[number][place] = w.n;
        const int64_t here = w.n.before + w.n.after;
        all = here > all ? here : all;
        most = here + w.more > most ? here + w.more : most;
    }
    return all <= MG_NODES_MAX ? most : 0;
}

/* ---- communicators --------------------------------------------------------------------------- */

enum { USES_ring = 1, USES_next = 2, USES_each = 4, USES_sum = 8 };

static int uses(const mg_comm_desc *d)
{
    if (d->piece) /* by copies: through the memory of the host */
        return 0;
    switch (collective_of_kind(d->kind)->sends) {
    case SEND_nothing:
        break;
    case SEND_ring:
        return d->tree ? USES_each : USES_ring;
    case SEND_twice:
        return d->tree ? USES_each : USES_ring | USES_sum;
    case SEND_exchange:
        return USES_each;
    case SEND_neighbour:
        return USES_next;
    }
    return 0;
}

/* Ranks along some axes that one node may have, at most. */
static int64_t node_has(const Plan *p, Axes axes)
{
    const Layout *l = &p->module->layout;
    const int64_t node = p->device->node_ranks;
    int64_t stride = 1, here = 1;
    for (size_t i = l->mesh.n; i-- > 0;) {
        const int64_t size = l->mesh.data[i].size, room = (node + stride - 1) / stride;
        if (axes >> i & 1)
            here *= size < room ? size : room;
        stride *= size;
    }
    return here < node ? here : node;
}

/* Adds the connections of one communicator: to `peers` ranks by messages, and of a ring. */
static void connect(const Plan *p, Axes axes, bool ring, int64_t peers, mg_links *l)
{
    const int64_t here = node_has(p, axes);
    const bool leaves = network_node(p->module, p->device, axes) < mesh_size(p->module, axes);
    l->near += ring && !leaves;
    l->far += ring && leaves;
    l->near += peers < here - 1 ? peers : here - 1;
    l->pools += peers && leaves;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Adds what the ways take that NCCL has where sums may have any order. */
static void connect_unordered(const Plan *p, Axes axes, int how, mg_links *l)
{
    enum { NEAR = 2, FAR = 3 };
    const int64_t ranks = mesh_size(p->module, axes), here = node_has(p, axes);
    const bool leaves = network_node(p->module, p->device, axes) < ranks;
    if (how & USES_sum) {
        l->near += least(NEAR, here - 1);
        l->far += leaves ? FAR : 0;
    }
    if (how & USES_ring && !leaves && p->device->switch_bandwidth > 0)
        l->switched += ranks;
}

/* small: of those that are, or of all others. */
static mg_links links_of_collectives(const Plan *p, bool small)
{
    Program *const *const all = p->programs;
    struct {
        Axes axes;
        int uses;
    } group[MG_GROUPS_MAX] = {0};
    int n = 0;
    const Axes every = ((Axes)1 << p->module->layout.mesh.n) - 1;
    mg_links l = {.comms = !small, .small = small}; /* that of all ranks is made in any case */
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; all[k] && i < all[k]->actions.n; i++) {
            const Action *a = &all[k]->actions.data[i];
            int g = 0;
            if (!action_sends(a) || a->comm.small != small)
                continue;
            while (g < n && group[g].axes != a->comm.axes)
                g++;
            if (g == n && n < MG_GROUPS_MAX)
                group[n++].axes = a->comm.axes;
            if (g < n)
                group[g].uses |= uses(&a->comm);
        }
    for (int g = 0; g < n; g++) {
        const int64_t ranks = mesh_size(p->module, group[g].axes);
        const int64_t peers = group[g].uses & USES_each   ? ranks - 1
                              : group[g].uses & USES_next ? 1
                                                          : 0;
        l.comms += small || group[g].axes != every;
        connect(p, group[g].axes, group[g].uses & USES_ring, peers, &l);
        if (p->device->collectives == COLLECTIVES_unordered)
            connect_unordered(p, group[g].axes, group[g].uses, &l);
    }
    return l;
}

/* Both neighbours, which may be the same rank. */
static mg_links links_of_messages(const Plan *p)
{
    const Axes axis = p->module->layout.pipeline.axis;
    mg_links l = {0};
    if (!axis)
        return l;
    l.comms = 1;
    connect(p, axis, false, mesh_size(p->module, axis) > 2 ? 2 : 1, &l);
    return l;
}

static int64_t largest_piece(const Plan *p)
{
    Program *const *const all = p->programs;
    int64_t most = 0;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        for (size_t i = 0; all[k] && i < all[k]->actions.n; i++) {
            const Action *a = &all[k]->actions.data[i];
            most = action_sends(a) && a->comm.piece > most ? a->comm.piece : most;
        }
    return most;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool multiplies(const Program *g)
{
    bool any = false;
    for (size_t i = 0; g && i < g->actions.n; i++)
        any |= g->actions.data[i].kind == ACT_gemm || is_head(&g->actions.data[i]);
    return any;
}

void plan_outside(Plan *p)
{
    Program *const *const all = p->programs;
    const Device *d = p->device;
    const Layout *layout = &p->module->layout;
    Outside *o = &p->outside;
    *o = (Outside){
        .places = layout->pipeline.axis ? (int)mesh_size(p->module, layout->pipeline.axis) : 1};
    if (d->target != TARGET_cuda)
        return;
    const bool ranks = layout->mesh.n > 0;
    const bool products = multiplies(p->train) || multiplies(p->eval) || multiplies(p->sample) ||
                          multiplies(p->prefill) || multiplies(p->decode);
    int64_t nodes = 0;
    for (int k = 0; k < PLAN_PROGRAMS; k++)
        if (all[k])
            nodes += o->most[k] = count_nodes(p, all[k], k);
    o->bytes[OUT_context] = MG_CONTEXT_BYTES + (int64_t)d->threads * MG_CONTEXT_PROCESSOR;
    o->bytes[OUT_code] = MG_CODE_BYTES + (int64_t)p->kernels.n * MG_CODE_KERNEL +
                         (products ? MG_CODE_CUBLASLT : 0) + (ranks ? MG_CODE_NCCL : 0);
    /* The streams of products are decided later. */
    o->bytes[OUT_products] =
        products ? (int64_t)MG_PRODUCT_WORK * (d->streams > 1 && !d->products_wait ? 2 : 1) : 0;
    o->bytes[OUT_graphs] = mg_outside_round(nodes * MG_NODE_BYTES);
    if (!ranks)
        return;
    o->piece = largest_piece(p);
    o->links[OUT_comms] = links_of_collectives(p, false);
    o->links[OUT_small] = links_of_collectives(p, true);
    o->links[OUT_messages] = links_of_messages(p);
    for (int i = OUT_comms; i <= OUT_messages; i++)
        o->bytes[i] = mg_links_bytes(
            &o->links[i], i == OUT_small ? MG_SMALL_CHANNELS : MG_NCCL_CHANNELS, MG_NCCL_BUFFER);
}

int64_t outside_bytes(const Plan *p)
{
    int64_t all = 0;
    for (int i = 0; i < OUT_count; i++)
        all += p->outside.bytes[i];
    return all;
}

int64_t outside_nodes(const Plan *p, int number)
{
    const Outside *o = &p->outside;
    int64_t most = 0;
    for (int k = 0; o->nodes[number] && k < o->places; k++) {
        const int64_t here = o->nodes[number][k].before + o->nodes[number][k].after;
        most = here > most ? here : most;
    }
    return most;
}

const char *outside_name(OutsideItem i)
{
    switch (i) {
    case OUT_context:
        return "CUDA context";
    case OUT_code:
        return "code of kernels and libraries";
    case OUT_products:
        return "work space of products";
    case OUT_graphs:
        return "CUDA graphs";
    case OUT_comms:
        return "communicators of NCCL";
    case OUT_small:
        return "communicators of small collectives";
    case OUT_messages:
        return "messages between stages";
    case OUT_count:
        break;
    }
    return "";
}

const char *outside_text(const Plan *p, Arena *a)
{
    const char *all = NULL;
    for (int i = 0; i < OUT_count; i++)
        if (p->outside.bytes[i])
            all = arena_printf(a, "%s%s%s %s", all ? all : "", all ? ", " : "",
                               outside_name((OutsideItem)i),
                               text_bytes(a, (double)p->outside.bytes[i]));
    return all;
}
