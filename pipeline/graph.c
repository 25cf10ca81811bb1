/* graph.c - the graph of a program, by the queues that its ranks have, and its order or a cycle.
 * See graph.h. */
#include "pipeline/graph.h"

typedef struct Edge {
    Node from, to;
} Edge;

enum { NOBODY = -1 };

typedef struct Build {
    PipeGraph *g;
    Arena *tmp;
    uint32_t **op; /* [rank][index]: which operation of the graph; of waits that of their start */
    Edge *edge;
    size_t edges;
} Build;

static Node start(uint32_t op)
{
    return 2 * op;
}

static Node complete(uint32_t op)
{
    return 2 * op + 1;
}

static void edge(Build *b, Node from, Node to)
{
    b->edge[b->edges++] = (Edge){from, to};
}

static void number(Build *b, Arena *a)
{
    PipeGraph *g = b->g;
    const PipeProgram *p = g->program;
    int ranks = p->table->ranks;
    size_t n = 0, ops = 0;
    for (int rank = 0; rank < ranks; rank++)
        n += p->rank[rank].n;
    g->place = NEW_ARRAY(a, Place, n);
    b->op = NEW_ARRAY(b->tmp, uint32_t *, ranks);
    for (int rank = 0; rank < ranks; rank++) {
        b->op[rank] = NEW_ARRAY(b->tmp, uint32_t, p->rank[rank].n);
        for (size_t i = 0; i < p->rank[rank].n; i++) {
            const PipeOp *op = &p->rank[rank].data[i];
            b->op[rank][i] = op->step == PIPE_WAIT ? b->op[rank][op->of] : (uint32_t)ops;
            if (op->step != PIPE_WAIT)
                g->place[ops++] = (Place){rank, (uint32_t)i};
        }
    }
    g->nodes = 2 * ops;
    /* Into an operation: its start, its end, its other end, what makes it or what it is behind. */
    b->edge = NEW_ARRAY(b->tmp, Edge, 4 * n);
}

/* A message stands behind the action that makes it: T4. */
static void needs_maker(Build *b, const Cells *made, uint32_t op, PipeAction send)
{
    const PipeTable *t = b->g->program->table;
    PipeAction maker = {PIPE_F, send.stage, send.microbatch, 0, false};
    if (send.kind == PIPE_SEND_B)
        maker = cells_backward(t, made, send.stage, send.microbatch);
    edge(b, complete(cells_find(t, made, maker) - 1), start(op));
}

enum { RANK_QUEUES = 10, BESIDE = RANK_QUEUES - 1 };

/* In a V the messages of a second chunk come from, and go to, the rank on the other side. */
static int queue_of(const PipeTable *t, PipeAction a, PipeQueues queues)
{
    const bool back = a.kind == PIPE_SEND_B || a.kind == PIPE_RECV_B;
    const bool other = t->placement == MG_V && a.stage >= t->ranks;
    if (pipe_computes(a.kind))
        return 0;
    if (a.kind >= PIPE_KINDS)
        return BESIDE;
    const int queue = pipe_sends(a.kind) ? 1 : 2;
    return queues == PIPE_BY_WAY ? queue + (back ? 2 : 0) + (other ? 4 : 0) : queue;
}

/* Queues go on beside each other; computing waits where it says so. Of a program that is stuck only
 * the order of computing was given. */
static void several_of(Build *b, Cells *made, int rank, PipeQueues queues)
{
    const PipeOps *ops = &b->g->program->rank[rank];
    int64_t last[RANK_QUEUES];
    for (int q = 0; q < RANK_QUEUES; q++)
        last[q] = NOBODY;
    size_t since = 0; /* behind what is no wait */
    for (size_t i = 0; i < ops->n; i++) {
        const PipeOp *op = &ops->data[i];
        uint32_t x = b->op[rank][i];
        if (op->step == PIPE_WAIT)
            continue;
        int queue = queue_of(b->g->program->table, op->action, queues);
        edge(b, start(x), complete(x));
        if (last[queue] != NOBODY && (queue == 0 || !b->g->program->stuck))
            edge(b, complete((uint32_t)last[queue]), start(x));
        last[queue] = x;
        if (op->step == PIPE_COMPUTE)
            /* A message of a pair is sent when both have ended. */
            cells_enter(b->g->program->table, made, op->action,
                        op->action.pair ? b->op[rank][i + 1] : x);
        else if (pipe_sends(op->action.kind))
            needs_maker(b, made, x, op->action);
        else if (op->action.kind == PIPE_REDUCE) /* all that the rank computes before it */
            edge(b, complete((uint32_t)last[0]), start(x));
        for (; since < i; since++) /* of what is sent and received, nothing waits */
            edge(b, complete(b->op[rank][since]), start(x));
        since = i + 1;
    }
}

/* One thing after the other; what is one issue starts together. What needs anything stands behind
 * it: T3, T4. */
static void one_of(Build *b, int rank)
{
    const PipeOps *ops = &b->g->program->rank[rank];
    int64_t computed = NOBODY;
    size_t since = 0; /* behind it */
    for (size_t i = 0; i < ops->n; i++) {
        uint32_t x = b->op[rank][i];
        if (ops->data[i].step == PIPE_WAIT)
            continue;
        edge(b, start(x), complete(x));
        if (computed != NOBODY)
            edge(b, complete((uint32_t)computed), start(x));
        if (ops->data[i].step != PIPE_COMPUTE)
            continue;
        for (; since < i; since++)
            if (ops->data[since].step == PIPE_START || ops->data[since].step == PIPE_BESIDE)
                edge(b, complete(b->op[rank][since]), start(x));
        since = i + 1;
        computed = x;
    }
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Edges by the node that they leave, or (back) by the one that they go to. */
static void sort_edges(Arena *a, const Build *b, bool back, uint32_t **first, Node **next)
{
    size_t n = b->g->nodes;
    uint32_t *at = NEW_ARRAY(a, uint32_t, n + 2);
    *next = NEW_ARRAY(a, Node, b->edges);
    for (size_t i = 0; i < b->edges; i++)
        at[2 + (back ? b->edge[i].to : b->edge[i].from)]++;
    for (size_t i = 0; i < n; i++)
        at[i + 2] += at[i + 1];
    for (size_t i = 0; i < b->edges; i++) {
        Edge e = b->edge[i];
        (*next)[at[1 + (back ? e.to : e.from)]++] = back ? e.from : e.to;
    }
    *first = at;
}

static void sort_nodes(Arena *a, const Build *b)
{
    PipeGraph *g = b->g;
    uint32_t *waits = NEW_ARRAY(b->tmp, uint32_t, g->nodes);
    g->order = NEW_ARRAY(a, Node, g->nodes);
    for (size_t i = 0; i < b->edges; i++)
        waits[b->edge[i].to]++;
    size_t n = 0;
    for (size_t x = 0; x < g->nodes; x++)
        if (!waits[x])
            g->order[n++] = (Node)x;
    for (size_t i = 0; i < n; i++) {
        Node x = g->order[i];
        for (uint32_t k = g->first[x]; k < g->first[x + 1]; k++)
            if (!--waits[g->next[k]])
                g->order[n++] = g->next[k];
    }
    g->sorted = n;
}

PipeGraph *graph_new(Arena *a, const PipeProgram *p, const Matches *m, PipeQueues queues)
{
    PipeGraph *g = NEW(a, PipeGraph);
    Build b = {.g = g, .tmp = arena_new()};
    g->program = p;
    number(&b, a);
    Cells *made = cells_new(b.tmp, p->table);
    for (int rank = 0; rank < p->table->ranks; rank++)
        if (queues == PIPE_ONE)
            one_of(&b, rank);
        else
            several_of(&b, made, rank, queues);
    for (size_t i = 0; i < m->n; i++) {
        uint32_t send = b.op[m->data[i].send.rank][m->data[i].send.op];
        uint32_t recv = b.op[m->data[i].recv.rank][m->data[i].recv.op];
        edge(&b, start(send), complete(recv));
        edge(&b, start(recv), complete(send));
    }
    sort_edges(a, &b, false, &g->first, &g->next);
    sort_nodes(a, &b);
    if (g->sorted < g->nodes) {
        sort_edges(a, &b, true, &g->first_before, &g->before);
        g->in_order = NEW_ARRAY(a, bool, g->nodes);
        for (size_t i = 0; i < g->sorted; i++)
            g->in_order[g->order[i]] = true;
    }
    arena_free(b.tmp);
    return g;
}

/* ---- a cycle -------------------------------------------------------------------------------- */

/* Back from what has no place in the order, to what comes before it and has none either: sooner or
 * later one comes round. */
static Node on_a_cycle(Arena *tmp, const PipeGraph *g)
{
    bool *seen = NEW_ARRAY(tmp, bool, g->nodes);
    Node x = 0;
    while (g->in_order[x])
        x++;
    while (!seen[x]) {
        seen[x] = true;
        uint32_t k = g->first_before[x];
        while (g->in_order[g->before[k]])
            k++;
        x = g->before[k];
    }
    return x;
}

/* The shortest through a node. */
Cycle graph_cycle(Arena *a, const PipeGraph *g)
{
    Arena *tmp = arena_new();
    Node x = on_a_cycle(tmp, g), *queue = NEW_ARRAY(tmp, Node, g->nodes);
    uint32_t *via = NEW_ARRAY(tmp, uint32_t, g->nodes); /* 1 + the node that waits for it */
    size_t n = 0;
    queue[n++] = x;
    for (size_t i = 0; i < n && !via[x]; i++) {
        Node y = queue[i];
        for (uint32_t k = g->first_before[y]; k < g->first_before[y + 1]; k++)
            if (!g->in_order[g->before[k]] && !via[g->before[k]]) {
                via[g->before[k]] = y + 1;
                queue[n++] = g->before[k];
            }
    }
    Cycle back = {0}, c = {0};
    Node y = x;
    do
        vec_push(tmp, &back, y = via[y] - 1);
    while (y != x);
    for (size_t i = back.n; i-- > 0;) /* from the last that waits to the first */
        vec_push(a, &c, back.data[i]);
    arena_free(tmp);
    return c;
}
