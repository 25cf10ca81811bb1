/* proof.c - T5 and T6 of pipeline.h: messages match, and nobody waits for himself.
 *
 * That no rank stops is shown for three ways to run a program, from many queues to one. The fewer
 * there are, the more there is to wait for: the last says most, and the first that fails why. A
 * send and its receive are complete when both have started; an order of all starts and ends in
 * which each comes behind what it waits for is an order in which the ranks get through. */
#include "pipeline/graph.h"

/* ---- T5 ------------------------------------------------------------------------------------- */

/* From one rank to another: where they are sent, and where they are received. A rank sends to the
 * two beside it: in a loop to those of the stages before and behind, and the first and the last
 * rank are beside each other; in a V to both in both directions. Of two ranks both are one. */
typedef struct Channel {
    VEC(Place) send, recv;
} Channel;

enum { PEERS = 2 };

/* That of `from` to `to`: by rank, and of a rank by the number of the other. */
static size_t channel_of(const PipeTable *t, int from, int to)
{
    int next = (from + 1) % t->ranks, before = (from + t->ranks - 1) % t->ranks;
    return (size_t)from * PEERS + (to != (next < before ? next : before));
}

static PipeAction action_of(const PipeProgram *p, Place x)
{
    return p->rank[x.rank].data[x.op].action;
}

/* The moment of an action in the file: what was put in has that of the action it was put in for. */
static Span place_span(const PipeProgram *p, Place x)
{
    PipeAction a = action_of(p, x);
    Span s = pipe_span(p->table, a);
    if (!p->table->comms)
        s.end = s.begin;
    return s;
}

static bool same(PipeAction a, PipeAction b)
{
    return a.kind == b.kind && a.stage == b.stage && a.microbatch == b.microbatch;
}

static void collect(Arena *a, const PipeProgram *p, Channel *channel)
{
    int ranks = p->table->ranks;
    for (int rank = 0; rank < ranks; rank++)
        for (size_t i = 0; i < p->rank[rank].n; i++) {
            const PipeOp *op = &p->rank[rank].data[i];
            if (op->step != PIPE_START)
                continue;
            int peer = pipe_rank(p->table, pipe_peer(op->action).stage);
            Place x = {rank, (uint32_t)i};
            if (pipe_sends(op->action.kind))
                vec_push(a, &channel[channel_of(p->table, rank, peer)].send, x);
            else
                vec_push(a, &channel[channel_of(p->table, peer, rank)].recv, x);
        }
}

/* Each message is sent once and received once (T4), so both lists are as long. */
static bool match(Arena *a, const PipeProgram *p, Diag *d, const Channel *c, Matches *m)
{
    for (size_t i = 0; i < c->send.n; i++) {
        Place s = c->send.data[i], r = c->recv.data[i];
        PipeAction sent = action_of(p, s), received = action_of(p, r);
        if (!same(pipe_peer(sent), received)) {
            diag_error(d, place_span(p, r), 589,
                       "message %zu from rank %d to rank %d is sent as %s, which is %s there, and "
                       "received as %s",
                       i + 1, s.rank, r.rank, pipe_name(sent).text, pipe_name(pipe_peer(sent)).text,
                       pipe_name(received).text);
            if (p->table->file)
                diag_note(d, place_span(p, s), "%s is here", pipe_name(sent).text);
            diag_help(d, "a rank receives from another in the order in which that sends");
            return false;
        }
        vec_push(a, m, (Match){s, r});
    }
    return true;
}

static bool match_order(Arena *tmp, const PipeProgram *p, Diag *d, Matches *m, uint64_t *work)
{
    size_t channels = (size_t)p->table->ranks * PEERS;
    Channel *channel = NEW_ARRAY(tmp, Channel, channels);
    bool good = true;
    collect(tmp, p, channel);
    for (size_t i = 0; i < channels; i++)
        good &= match(tmp, p, d, &channel[i], m);
    *work += channels + m->n;
    return good;
}

/* A program that is stuck has no order of messages: they meet by name. */
static void match_names(Arena *tmp, const PipeProgram *p, Matches *m)
{
    Cells *recv = cells_new(tmp, p->table);
    for (int both = 0; both < 2; both++)
        for (int rank = 0; rank < p->table->ranks; rank++)
            for (size_t i = 0; i < p->rank[rank].n; i++) {
                const PipeOp *op = &p->rank[rank].data[i];
                if (op->step != PIPE_START)
                    continue;
                if (!pipe_sends(op->action.kind))
                    cells_enter(p->table, recv, op->action, i);
                else if (both) {
                    PipeAction to = pipe_peer(op->action);
                    uint32_t at = cells_find(p->table, recv, to) - 1;
                    vec_push(tmp, m,
                             (Match){{rank, (uint32_t)i}, {pipe_rank(p->table, to.stage), at}});
                }
            }
}

/* ---- T6 ------------------------------------------------------------------------------------- */

static Place place_of(const PipeGraph *g, Node x)
{
    return g->place[x / 2];
}

/* The place where the message about a cycle begins: at an operation that computes, if there is one,
 * because a person wrote that. */
static size_t beginning(const PipeGraph *g, const Cycle *c)
{
    size_t from = c->n;
    for (size_t i = 0; i < c->n; i++) {
        Node x = c->data[i], before = c->data[(i + c->n - 1) % c->n];
        if (x / 2 == before / 2)
            continue;
        if (pipe_computes(action_of(g->program, place_of(g, x)).kind))
            return i;
        from = from < c->n ? from : i;
    }
    return from;
}

static const char *listed(Arena *tmp, const PipeGraph *g, const Cycle *c, size_t from)
{
    enum { LIMIT = 24 }; /* of a long one that are written out */
    const char *text = "";
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        Node x = c->data[(from + i) % c->n], before = c->data[(from + i + c->n - 1) % c->n];
        Place at = place_of(g, x);
        if (x / 2 != before / 2 && n++ < LIMIT)
            text = arena_printf(tmp, "%srank %d: %s <- ", text, at.rank,
                                pipe_name(action_of(g->program, at)).text);
    }
    if (n > LIMIT)
        text = arena_printf(tmp, "%s(%zu more) <- ", text, n - LIMIT);
    Place at = place_of(g, c->data[from]);
    return arena_printf(tmp, "%srank %d: %s", text, at.rank,
                        pipe_name(action_of(g->program, at)).text);
}

static bool acyclic(const PipeGraph *g, Diag *d, const char *how)
{
    if (g->sorted == g->nodes)
        return true;
    Arena *tmp = arena_new();
    Cycle c = graph_cycle(tmp, g);
    size_t from = beginning(g, &c);
    diag_error(d, place_span(g->program, place_of(g, c.data[from])), 590,
               "the pipeline stands still, %s: %s", how, listed(tmp, g, &c, from));
    diag_help(d, "'a <- b': a waits for b; change the order on one of the ranks");
    arena_free(tmp);
    return false;
}

bool pipe_prove(Arena *a, const PipeProgram *p, Diag *d, PipeProof *proof)
{
    static const char *const how[PIPE_QUEUES] = {
        [PIPE_BY_WAY] =
            "even with queues of their own for computing, and for sending and receiving "
            "each way",
        [PIPE_BY_KIND] = "with a queue each for computing, sending and receiving",
        [PIPE_ONE] = "with one queue a rank"};
    Arena *tmp = arena_new();
    Matches m = {0};
    bool good = true;
    proof->work = 0;
    if (p->stuck)
        match_names(tmp, p, &m);
    else
        good = match_order(tmp, p, d, &m, &proof->work);
    for (int q = 0; q < PIPE_QUEUES && good; q++) {
        const PipeGraph *g = proof->graph[q] = graph_new(a, p, &m, (PipeQueues)q);
        proof->work += g->nodes + g->first[g->nodes];
        good = acyclic(proof->graph[q], d, p->stuck ? "however it sends and receives" : how[q]);
    }
    arena_free(tmp);
    return good;
}

const PipeGraph *pipe_graph(Arena *a, const PipeProgram *p, PipeQueues queues)
{
    Arena *tmp = arena_new();
    Matches m = {0};
    uint64_t work = 0;
    Diag *silent = diag_new(tmp, NULL, false);
    const PipeGraph *g = NULL;
    if (p->stuck)
        match_names(tmp, p, &m);
    if (p->stuck || match_order(tmp, p, silent, &m, &work))
        g = graph_new(a, p, &m, queues);
    arena_free(tmp);
    return g && g->sorted == g->nodes ? g : NULL;
}
