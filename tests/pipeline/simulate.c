/* simulate.c - see simulate.h. */
#include "tests/pipeline/simulate.h"

#include <stdlib.h>
#include <string.h>

/* The content of a message: the kind of result, the stage that made it and its microbatch. */
typedef struct Token {
    char what; /* 'f', 'b'; 0: nothing is there */
    int stage, microbatch;
} Token;

/* A stage's place for a microbatch. */
typedef struct Cell {
    int forward, input, weight; /* how often each was computed */
    bool apart;                 /* the input's gradient was computed by I */
    Token from_before, from_after;
} Cell;

/* A send or a receive that has begun and not ended. */
typedef struct Post {
    PipeAction action;
    size_t tag; /* who posted it */
    bool done;
} Post;

/* From one rank to another, in the order in which they began. */
typedef struct Channel {
    Post *send, *recv;
    size_t sends, recvs, met;
} Channel;

typedef struct World {
    const PipeTable *t;
    Cell *cell;
    Channel *channel; /* [from * ranks + to]; by way, after them those back */
    bool by_way;
    bool broken; /* something was computed of what is not there */
} World;

/* The rank of a stage, by going from stage to stage: in a V to the last rank, and then back. */
static int home(const PipeTable *t, int stage)
{
    int rank = 0, step = 1;
    for (int s = 0; s < stage; s++) {
        rank += step;
        if (rank == t->ranks && t->placement == MG_V) {
            rank--;
            step = -1;
        } else if (rank == t->ranks)
            rank = 0;
    }
    return rank;
}

/* Does one rank have both? */
static bool neighbours(const PipeTable *t, int a, int b)
{
    return home(t, a) == home(t, b);
}

static Cell *cell_at(const World *w, int stage, int microbatch)
{
    return &w->cell[stage * w->t->microbatches + microbatch];
}

static size_t longest(const PipeTable *t)
{
    size_t n = 0;
    for (int rank = 0; rank < t->ranks; rank++)
        n += t->row[rank].n;
    return n;
}

static int channels_of(const PipeTable *t)
{
    return 2 * t->ranks * t->ranks;
}

static void world_open(World *w, const PipeTable *t, size_t messages)
{
    int channels = channels_of(t);
    *w = (World){.t = t};
    w->cell = calloc((size_t)t->stages * (size_t)t->microbatches, sizeof *w->cell);
    w->channel = calloc((size_t)channels, sizeof *w->channel);
    for (int i = 0; i < channels; i++) {
        w->channel[i].send = calloc(messages + 1, sizeof(Post));
        w->channel[i].recv = calloc(messages + 1, sizeof(Post));
    }
}

static void world_close(World *w)
{
    for (int i = 0; i < channels_of(w->t); i++) {
        free(w->channel[i].send);
        free(w->channel[i].recv);
    }
    free(w->channel);
    free(w->cell);
}

/* ---- computing ------------------------------------------------------------------------------ */

/* Is what an action needs there? `shared`: results are everywhere. */
static bool ready(const World *w, PipeAction a, bool shared)
{
    int s = a.stage, k = a.microbatch;
    const Cell *c = cell_at(w, s, k);
    switch (a.kind) {
    case PIPE_F:
        if (s == 0)
            return true;
        return shared || neighbours(w->t, s, s - 1) ? cell_at(w, s - 1, k)->forward > 0
                                                    : c->from_before.what != 0;
    case PIPE_B:
    case PIPE_I:
        if (!c->forward)
            return false;
        if (s == w->t->stages - 1)
            return true;
        return shared || neighbours(w->t, s, s + 1) ? cell_at(w, s + 1, k)->input > 0
                                                    : c->from_after.what != 0;
    case PIPE_W:
        return c->apart;
    case PIPE_SEND_F:
    case PIPE_RECV_F:
    case PIPE_SEND_B:
    case PIPE_RECV_B:
    case PIPE_KINDS: /* and PIPE_UNSHARD */
    case PIPE_REDUCE:
        break; /* the clock moves messages by itself */
    }
    abort();
}

/* Of the right things? */
static bool right(const World *w, PipeAction a, bool shared)
{
    const Cell *c = cell_at(w, a.stage, a.microbatch);
    bool first = a.stage == 0, last = a.stage == w->t->stages - 1;
    if (shared || a.kind == PIPE_W || (a.kind == PIPE_F ? first : last))
        return true;
    if (neighbours(w->t, a.stage, a.kind == PIPE_F ? a.stage - 1 : a.stage + 1))
        return true;
    Token x = a.kind == PIPE_F ? c->from_before : c->from_after;
    return x.what == (a.kind == PIPE_F ? 'f' : 'b') && x.microbatch == a.microbatch &&
           x.stage == (a.kind == PIPE_F ? a.stage - 1 : a.stage + 1);
}

static void compute(World *w, PipeAction a, bool shared)
{
    Cell *c = cell_at(w, a.stage, a.microbatch);
    w->broken |= !right(w, a, shared);
    c->forward += a.kind == PIPE_F;
    c->input += a.kind == PIPE_B || a.kind == PIPE_I;
    c->weight += a.kind == PIPE_B || a.kind == PIPE_W;
    c->apart |= a.kind == PIPE_I;
}

static bool all_once(const World *w)
{
    for (int i = 0; i < w->t->stages * w->t->microbatches; i++)
        if (w->cell[i].forward != 1 || w->cell[i].input != 1 || w->cell[i].weight != 1)
            return false;
    return true;
}

/* How many actions begin together: two of a pair. */
static size_t begin_with(const PipeRow *row, size_t at)
{
    return row->data[at].pair ? 2 : 1;
}

/* Begins what stands at `at`, if all that it needs is there: false, if not. */
static bool compute_all(World *w, const PipeRow *row, size_t at, bool shared)
{
    for (size_t k = 0; k < begin_with(row, at); k++)
        if (!ready(w, row->data[at + k], shared))
            return false;
    for (size_t k = 0; k < begin_with(row, at); k++)
        compute(w, row->data[at + k], shared);
    return true;
}

/* ---- sending -------------------------------------------------------------------------------- */

static bool sending(PipeAction a)
{
    return a.kind == PIPE_SEND_F || a.kind == PIPE_SEND_B;
}

static bool computing(PipeAction a)
{
    return a.kind == PIPE_F || a.kind == PIPE_B || a.kind == PIPE_I || a.kind == PIPE_W;
}

/* Has been computed what is to be sent? */
static bool made(const World *w, PipeAction a)
{
    const Cell *c = cell_at(w, a.stage, a.microbatch);
    return a.kind == PIPE_SEND_F ? c->forward > 0 : c->input > 0;
}

/* NULL: nobody is there. */
static Post *post(World *w, PipeAction a, size_t tag)
{
    int step = a.kind == PIPE_SEND_F || a.kind == PIPE_RECV_B ? 1 : -1, p = w->t->ranks;
    int stage = a.stage + step, here = home(w->t, a.stage);
    int other = stage < 0 || stage >= w->t->stages ? here : home(w->t, stage);
    if (other == here) {
        w->broken = true;
        return NULL;
    }
    Post x = {a, tag, false};
    int back = w->by_way && (a.kind == PIPE_SEND_B || a.kind == PIPE_RECV_B) ? p * p : 0;
    if (sending(a)) {
        Channel *c = &w->channel[back + here * p + other];
        c->send[c->sends] = x;
        return &c->send[c->sends++];
    }
    Channel *c = &w->channel[back + other * p + here];
    c->recv[c->recvs] = x;
    return &c->recv[c->recvs++];
}

/* The next two of a channel meet, if both are there. */
static bool meet(World *w, Channel *c)
{
    if (c->met == c->sends || c->met == c->recvs)
        return false;
    Post *s = &c->send[c->met], *r = &c->recv[c->met];
    c->met++;
    Cell *to = cell_at(w, r->action.stage, r->action.microbatch);
    Token *place = r->action.kind == PIPE_RECV_F ? &to->from_before : &to->from_after;
    w->broken |= place->what != 0;
    *place =
        (Token){s->action.kind == PIPE_SEND_F ? 'f' : 'b', s->action.stage, s->action.microbatch};
    s->done = r->done = true;
    return true;
}

static bool meet_all(World *w)
{
    bool any = false;
    for (int i = 0; i < channels_of(w->t); i++)
        while (meet(w, &w->channel[i]))
            any = true;
    return any;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* Is a pair a forward and, behind it, a backward of something else? */
static bool pairs_up(const PipeRow *row, size_t i)
{
    if (!row->data[i].pair)
        return true;
    const PipeAction a = row->data[i], b = row->data[i + 1 == row->n ? i : i + 1];
    return a.kind == PIPE_F && (b.kind == PIPE_B || b.kind == PIPE_I) &&
           a.microbatch != b.microbatch;
}

/* Every stage has its parameters on one rank, and pairs are pairs. */
static bool at_home(const PipeTable *t)
{
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i < t->row[rank].n; i++)
            if (!pairs_up(&t->row[rank], i) || home(t, t->row[rank].data[i].stage) != rank)
                return false;
    return true;
}

bool simulate_data(const PipeTable *t)
{
    World w;
    size_t *at = calloc((size_t)t->ranks, sizeof *at);
    bool on = at_home(t), good = on;
    world_open(&w, t, 0);
    while (on) {
        on = false;
        for (int rank = 0; rank < t->ranks; rank++)
            while (at[rank] < t->row[rank].n) {
                const PipeRow *row = &t->row[rank];
                if (computing(row->data[at[rank]]) && !compute_all(&w, row, at[rank], true))
                    break;
                at[rank] += begin_with(row, at[rank]);
                on = true;
            }
    }
    for (int rank = 0; rank < t->ranks; rank++)
        good &= at[rank] == t->row[rank].n;
    good &= all_once(&w);
    world_close(&w);
    free(at);
    return good;
}

/* Posts what stands at `from` up to the next that computes; returns where that is. */
static size_t post_all(World *w, const PipeRow *row, size_t from, Post **posted, size_t *n)
{
    size_t i = from;
    for (; i < row->n && !computing(row->data[i]); i++) {
        PipeAction a = row->data[i];
        w->broken |= sending(a) && !made(w, a);
        Post *p = post(w, a, i);
        if (p)
            posted[(*n)++] = p;
    }
    return i;
}

bool simulate_single(const PipeTable *t)
{
    World w;
    size_t all = longest(t), *at = calloc((size_t)t->ranks, sizeof *at);
    size_t *waiting = calloc((size_t)t->ranks, sizeof *waiting);
    Post ***posted = calloc((size_t)t->ranks, sizeof *posted);
    bool on = at_home(t), good = on;
    world_open(&w, t, all);
    for (int rank = 0; rank < t->ranks; rank++)
        posted[rank] = calloc(all + 1, sizeof **posted);
    while (on && !w.broken) {
        on = meet_all(&w);
        for (int rank = 0; rank < t->ranks; rank++) {
            const PipeRow *row = &t->row[rank];
            while (waiting[rank] && posted[rank][waiting[rank] - 1]->done)
                waiting[rank]--;
            if (waiting[rank] || at[rank] == row->n)
                continue;
            PipeAction a = row->data[at[rank]];
            on = true;
            if (computing(a)) {
                w.broken |= !compute_all(&w, row, at[rank], false);
                at[rank] += begin_with(row, at[rank]);
            } else
                at[rank] = post_all(&w, row, at[rank], posted[rank], &waiting[rank]);
        }
    }
    for (int rank = 0; rank < t->ranks; rank++) {
        good &= at[rank] == t->row[rank].n && !waiting[rank];
        free(posted[rank]);
    }
    good &= all_once(&w) && !w.broken;
    world_close(&w);
    free(posted);
    free(waiting);
    free(at);
    return good;
}

/* Of a row, what each of nine does: 0 computes, 1 sends, 2 receives; 3 and 4 likewise, back; those
 * after them likewise, on the way back of a V. */
typedef struct Stream {
    size_t at; /* in the row */
    Post *posted;
} Stream;

enum { STREAMS = 9 };

static int stream_of(const PipeTable *t, PipeAction a, bool by_way)
{
    bool back = by_way && (a.kind == PIPE_SEND_B || a.kind == PIPE_RECV_B);
    bool returns = by_way && t->placement == MG_V && a.stage >= t->ranks;
    return computing(a) ? 0 : (sending(a) ? 1 : 2) + (back ? 2 : 0) + (returns ? 4 : 0);
}

static bool stream_step(World *w, const PipeRow *row, Stream *s, int which, bool by_way)
{
    if (s->posted) {
        if (!s->posted->done)
            return false;
        s->posted = NULL;
        s->at++;
        return true;
    }
    while (s->at < row->n && stream_of(w->t, row->data[s->at], by_way) != which)
        s->at++;
    if (s->at == row->n)
        return false;
    PipeAction a = row->data[s->at];
    if (which == 0) {
        if (!compute_all(w, row, s->at, false))
            return false;
        s->at += begin_with(row, s->at);
        return true;
    }
    if (sending(a) && !made(w, a))
        return false;
    s->posted = post(w, a, s->at);
    return s->posted != NULL;
}

bool simulate_queues(const PipeTable *t, bool by_way)
{
    World w;
    Stream(*stream)[STREAMS] = calloc((size_t)t->ranks, sizeof *stream);
    bool on = at_home(t), good = on;
    world_open(&w, t, longest(t));
    w.by_way = by_way;
    while (on && !w.broken) {
        on = meet_all(&w);
        for (int rank = 0; rank < t->ranks; rank++)
            for (int which = 0; which < STREAMS; which++)
                on |= stream_step(&w, &t->row[rank], &stream[rank][which], which, by_way);
    }
    for (int rank = 0; rank < t->ranks; rank++)
        for (int which = 0; which < STREAMS; which++)
            good &= stream[rank][which].at == t->row[rank].n;
    good &= all_once(&w) && !w.broken;
    world_close(&w);
    free(stream);
    return good;
}

/* ---- programs ------------------------------------------------------------------------------- */

/* Outputs that a rank has made to be sent, by direction, and its sends. */
typedef struct Outgoing {
    size_t made[2], sends[2];
    Post **send[2];
} Outgoing;

/* An output takes a buffer until its send is done. */
static void fill_buffer(World *w, const int *buffers, Outgoing *g, PipeAction a)
{
    int way = a.kind == PIPE_F ? 0 : 1;
    int to = way ? a.stage - 1 : a.stage + 1;
    if (a.kind == PIPE_W || to < 0 || to >= w->t->stages || neighbours(w->t, a.stage, to))
        return;
    size_t gone = 0;
    for (size_t i = 0; i < g->sends[way]; i++)
        gone += g->send[way][i]->done;
    w->broken |= ++g->made[way] - gone > (size_t)buffers[way];
}

/* One operation of a rank; false: it waits, or is at its end. */
static bool program_step(World *w, const PipeProgram *p, int rank, size_t *at, Post **posted,
                         Outgoing *g)
{
    if (*at == p->rank[rank].n)
        return false;
    const PipeOp *op = &p->rank[rank].data[*at];
    if (op->step == PIPE_WAIT && !posted[op->of]->done)
        return false;
    if (op->step == PIPE_COMPUTE) {
        w->broken |= !ready(w, op->action, false);
        if (op->action.pair) /* the other begins with it */
            w->broken |= op[1].step != PIPE_COMPUTE || !ready(w, op[1].action, false);
        fill_buffer(w, p->buffers[rank], g, op->action);
        compute(w, op->action, false);
    } else if (op->step == PIPE_START) {
        w->broken |= sending(op->action) && !made(w, op->action);
        posted[*at] = post(w, op->action, *at);
        int way = op->action.kind == PIPE_SEND_B;
        if (sending(op->action))
            g->send[way][g->sends[way]++] = posted[*at];
    }
    ++*at;
    return !w->broken;
}

/* One message arrives: of those that can, any. */
static bool arrive(World *w, uint64_t *seed)
{
    int n = channels_of(w->t);
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    int from = (int)(*seed >> 33) % n;
    for (int i = 0; i < n; i++)
        if (meet(w, &w->channel[(from + i) % n]))
            return true;
    return false;
}

bool simulate_program(const PipeProgram *p, uint64_t seed)
{
    const PipeTable *t = p->table;
    World w;
    size_t all = 0, *at = calloc((size_t)t->ranks, sizeof *at);
    Post ***posted = calloc((size_t)t->ranks, sizeof *posted);
    Outgoing *going = calloc((size_t)t->ranks, sizeof *going);
    for (int rank = 0; rank < t->ranks; rank++) {
        for (int way = 0; way < 2; way++)
            going[rank].send[way] = calloc(p->rank[rank].n + 1, sizeof(Post *));
        posted[rank] = calloc(p->rank[rank].n + 1, sizeof **posted);
        all += p->rank[rank].n;
    }
    world_open(&w, t, all);
    bool on = true, good = true;
    while (on && !w.broken) {
        on = false;
        for (int rank = 0; rank < t->ranks; rank++)
            while (program_step(&w, p, rank, &at[rank], posted[rank], &going[rank]))
                on = true;
        if (!on)
            on = arrive(&w, &seed);
    }
    for (int rank = 0; rank < t->ranks; rank++) {
        good &= at[rank] == p->rank[rank].n;
        free(posted[rank]);
        for (int way = 0; way < 2; way++)
            free(going[rank].send[way]);
    }
    for (int i = 0; i < channels_of(t); i++) /* all have been waited for, so all have met */
        good &= w.channel[i].met == w.channel[i].sends && w.channel[i].met == w.channel[i].recvs;
    good &= all_once(&w) && !w.broken;
    world_close(&w);
    free(going);
    free(posted);
    free(at);
    return good;
}
