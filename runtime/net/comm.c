/* comm.c - runs the collectives of ranks on processors. On one machine each rank reads the arenas
 * of the other ranks in place. Data of other machines arrive over the wire, in chunks, in memory
 * that is allocated at the start.
 *
 * Each rank gives each other rank some rows of x (`share`). From the rows that a rank is given
 * it makes y, by summation or concatenation. Sums are made in the order of ranks, either by one
 * rank for all, or by each rank in the same way. The bits are therefore the same on all ranks,
 * in every run, and for any placement of ranks on machines. */
#include <string.h>
#include <sys/mman.h>

#include "runtime/net/comm.h"
#include "runtime/net/async_comm.h"
#include "runtime/sizes.h"
#include "runtime/net/sum.h"

enum { SMALL = 1 << 15, GRAIN = 1 << 15 }; /* bytes: each rank sums it all; work of a thread */
enum { POST = RT_POST, ALIGN = 64 };

typedef rt_share share;
typedef rt_comm comm;

static void find_group(comm *c)
{
    const mg_program *p = c->run->program;
    uint32_t others = ~c->d->axes & (((uint32_t)1 << p->naxes) - 1);
    int n = 0, mine = rt_place_of(p, c->run->rank, others);
    c->all_here = true;
    for (int k = 0; n < c->d->n; k++)
        if (rt_place_of(p, k, others) == mine) {
            c->here[n] = rt_is_here(c->run, k);
            c->all_here = c->all_here && c->here[n];
            c->member[n++] = k;
        }
    c->me = rt_place_of(p, c->run->rank, c->d->axes);
}

static const char *of_member(const comm *c, const void *at, int member)
{
    return rt_of_rank(c->run, at, c->member[member]);
}

static int64_t total(const share *s)
{
    return s->rows * s->row;
}

/* The place of byte `at` of a share in x; *behind: how many bytes follow it in one piece. */
static int64_t place_in(const share *s, int64_t at, int64_t *behind)
{
    int64_t row = s->first + at / s->row * s->step, in = at % s->row, half = s->row / 2;
    bool second = s->jump && in >= half;
    *behind = (s->jump && !second ? half : s->row) - in;
    return row + in + (second ? s->jump - half : 0);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- who gives what -------------------------------------------------------------------------- */

/* If each of two ranks on two machines sums everything itself, it sends as many bytes as
 * otherwise, and the second meeting is saved. */
static bool is_small(const comm *c)
{
    return c->bytes <= SMALL || (c->d->n == 2 && !c->all_here);
}

/* Member k sums elements [all * k / n, all * (k + 1) / n) for all members. */
static int64_t cut(const comm *c, int k)
{
    return c->bytes / c->width * k / c->d->n * c->width;
}

/* The part of its x that each member gives to member `to`. */
static share share_of(const comm *c, int to)
{
    const mg_comm_desc *d = c->d;
    int64_t row = d->size / d->n * d->inner * c->width;
    switch (d->kind) {
    case MG_REDUCE_SCATTER:
    case MG_SHARD:
        if (d->zigzag)
            return (share){d->outer, row, row * d->n, to * row / 2,
                           (2 * d->n - 1 - 2 * to) * row / 2};
        return (share){d->outer, row, row * d->n, to * row, 0};
    case MG_ALL_TO_ALL:
        row = d->to_size / d->n * d->to_inner * c->width;
        return (share){d->to_outer, row, row * d->n, to * row, 0};
    case MG_ALL_REDUCE:
        if (!is_small(c))
            return (share){1, cut(c, to + 1) - cut(c, to), 0, cut(c, to), 0};
        break;
    case MG_ALL_GATHER:
    case MG_RING_SHIFT:
    case MG_BROADCAST:
        break;
    }
    return (share){1, c->bytes, 0, 0, 0};
}

/* ---- over the wire --------------------------------------------------------------------------- */

int64_t rt_comm_bytes(const mg_run *r)
{
    return rt_world_spread(&r->world) ? 2 * (int64_t)POST : 0;
}

void rt_comm_open(mg_run *r)
{
    struct rt_ranks *k = r->ranks;
    if (!k->wire)
        return;
    k->in = mmap(NULL, 2 * (size_t)POST, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (k->in == MAP_FAILED)
        rt_die(RT_FAILED, "no memory for messages to other machines");
    k->out = k->in + POST;
    rt_async_comm_open(r);
}

/* Bytes of each member's chunk: the same for all members of a group. */
static int64_t chunk(const comm *c)
{
    return c->all_here ? INT64_MAX : POST / (c->d->n - 1) / ALIGN * ALIGN;
}

/* Bytes [begin, end) of a share of x in one piece: in place if possible, otherwise copied into
 * `to`. */
static const char *pack(const comm *c, const share *s, int64_t begin, int64_t end, char *to)
{
    int64_t behind;
    if (s->rows == 1 && !s->jump)
        return c->x + s->first + begin;
    for (int64_t at = begin, n; at < end; at += n) {
        int64_t from = place_in(s, at, &behind);
        n = least(behind, end - at);
        memcpy(to + at - begin, c->x + from, (size_t)n);
    }
    return to;
}

/* Sends each member on another machine its part of the chunk, and receives this rank's part from
 * it. If y has the received bytes in one piece, they arrive in y directly. */
void rt_comm_post(comm *c, int64_t begin, int64_t size, char *ins, char *outs, rt_ticket *t)
{
    const struct rt_ranks *k = c->run->ranks;
    int64_t post = 0;
    c->begin = begin;
    c->end = least(begin + size, total(&c->mine));
    for (int i = 0; i < c->d->n; i++) {
        share theirs = share_of(c, i);
        int64_t end = least(begin + size, total(&theirs));
        if (c->here[i])
            continue;
        char *in = ins + post, *out = outs + post;
        if (c->line && total(&c->mine) <= c->line && !c->d->zigzag)
            in = c->y + i * c->line + begin;
        post += size;
        c->came[i] = in;
        if (end > begin)
            rt_wire_send(k->wire, c->member[i], pack(c, &theirs, begin, end, out), end - begin, t);
        if (c->end > begin)
            rt_wire_take(k->wire, c->member[i], in, c->end - begin, t);
    }
}

/* The address of byte `at` of what a member gives to this rank; *behind: how many bytes follow
 * it in one piece. */
static const char *given(const comm *c, int member, int64_t at, int64_t *behind)
{
    if (!c->here[member]) {
        *behind = c->end - at;
        return c->came[member] + at - c->begin;
    }
    return of_member(c, c->x + place_in(&c->mine, at, behind), member);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Sums into y, which begins with this rank's first element (for a large all_reduce: y begins
 * with element 0 and the sum goes to this rank's part). */
static void sum_given(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const comm *c = ctx;
    char *y = c->y + (c->d->kind == MG_ALL_REDUCE ? c->mine.first : 0);
    (void)scratch;
    end = c->begin + end * c->width;
    for (int64_t at = c->begin + begin * c->width, n; at < end; at += n) {
        const char *from[MG_RANKS_MAX];
        int64_t behind;
        n = end - at;
        for (int k = 0; k < c->d->n; k++) {
            from[k] = given(c, k, at, &behind);
            n = least(n, behind);
        }
        rt_sum(c->d, from, y + at, n / c->width);
    }
}

/* Each rank has summed one part for all: copies the parts of the other ranks here into y. */
void rt_comm_copy_sums(const comm *c)
{
    for (int k = 0; k < c->d->n; k++)
        if (c->here[k] && k != c->me)
            memcpy(c->y + cut(c, k), of_member(c, c->y + cut(c, k), k),
                   (size_t)(cut(c, k + 1) - cut(c, k)));
}

void rt_comm_post_sums(const comm *c, int64_t at, rt_ticket *t)
{
    int64_t from = cut(c, c->me) + at, n = least(RT_WIRE_MAX, cut(c, c->me + 1) - from);
    for (int k = 0; k < c->d->n; k++) {
        int64_t to = cut(c, k) + at, comes = least(RT_WIRE_MAX, cut(c, k + 1) - to);
        if (!c->here[k] && n > 0)
            rt_wire_send(c->run->ranks->wire, c->member[k], c->y + from, n, t);
        if (!c->here[k] && comes > 0)
            rt_wire_take(c->run->ranks->wire, c->member[k], c->y + to, comes, t);
    }
}

static void gather_sums(const comm *c)
{
    rt_meet(c->run, c->d->axes);
    rt_comm_copy_sums(c);
    for (int64_t at = 0; at < c->max_bytes && !c->all_here; at += RT_WIRE_MAX) {
        rt_ticket t = {0};
        rt_comm_post_sums(c, at, &t);
        rt_wire_wait(c->run, &t);
    }
}

/* ---- side by side ---------------------------------------------------------------------------- */

/* The place in y of byte `at` of what member k gives; *room: how many bytes follow it in one
 * piece. */
static int64_t place_of_line(const comm *c, int k, int64_t at, int64_t *room)
{
    int64_t n = c->d->n, line = at / c->line, in = at % c->line, half = c->line / 2;
    bool second = c->d->zigzag && in >= half;
    *room = (c->d->zigzag && !second ? half : c->line) - in;
    if (!c->d->zigzag)
        return (line * n + k) * c->line + in;
    return (line * 2 * n + (second ? 2 * n - 1 - k : k)) * half + in % half;
}

static void lay_given(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const comm *c = ctx;
    (void)scratch;
    begin = c->begin + begin * c->width;
    end = c->begin + end * c->width;
    for (int k = 0; k < c->d->n; k++)
        for (int64_t at = begin, n; at < end; at += n) {
            int64_t behind, room;
            const char *from = given(c, k, at, &behind);
            char *to = c->y + place_of_line(c, k, at, &room);
            n = least(end - at, least(behind, room));
            if (to != from)
                memcpy(to, from, (size_t)n);
        }
}

/* Bytes that each rank gives in one piece. For each index of the outer dims, y has the pieces of
 * all ranks next to each other in rank order. A piece covers the inner dims; the dim that an
 * all_to_all cuts may be one of them. */
static int64_t line_of(const comm *c)
{
    const mg_comm_desc *d = c->d;
    int64_t inside = d->size * d->inner * c->width;
    bool cut_inside = d->kind == MG_ALL_TO_ALL && d->outer * d->size <= d->to_outer;
    return cut_inside ? inside / d->n : inside;
}

static void cut_rows(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const comm *c = ctx;
    (void)scratch;
    for (int64_t at = begin * c->mine.row, n; at < end * c->mine.row; at += n) {
        int64_t from = place_in(&c->mine, at, &n);
        memcpy(c->y + at, c->x + from, (size_t)n);
    }
}

/* ---- ring shift and broadcast ---------------------------------------------------------------- */

bool rt_comm_moves(const comm *c)
{
    return mg_comm_does(c->d->kind) & MG_MOVES;
}

/* The member whose x becomes the y of `member`. */
static int giver_of(const comm *c, int member)
{
    switch (c->d->kind) {
    case MG_RING_SHIFT:
        return (member + (int)c->d->n - 1) % (int)c->d->n;
    case MG_BROADCAST:
        return c->d->root;
    case MG_ALL_REDUCE:
    case MG_REDUCE_SCATTER:
    case MG_ALL_GATHER:
    case MG_ALL_TO_ALL:
    case MG_SHARD:
        break;
    }
    return member;
}

static int giver(const comm *c)
{
    return giver_of(c, c->me);
}

/* Copies a range from the x of another rank on this machine. */
static void copy_range(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    const comm *c = ctx;
    (void)scratch;
    memcpy(c->y + begin * c->width, of_member(c, c->x + begin * c->width, giver(c)),
           (size_t)((end - begin) * c->width));
}

void rt_comm_copy(comm *c)
{
    if (c->here[giver(c)])
        mg_parallel(c->run, c->bytes / c->width, GRAIN / c->width, copy_range, c);
}

void rt_comm_post_move(const comm *c, int64_t at, rt_ticket *t)
{
    rt_wire *wire = c->run->ranks->wire;
    int64_t n = least(RT_WIRE_MAX, c->bytes - at);
    for (int k = 0; k < c->d->n; k++)
        if (!c->here[k] && giver_of(c, k) == c->me)
            rt_wire_send(wire, c->member[k], c->x + at, n, t);
    if (!c->here[giver(c)])
        rt_wire_take(wire, c->member[giver(c)], c->y + at, n, t);
}

static void move(comm *c)
{
    rt_meet(c->run, c->d->axes);
    rt_comm_copy(c);
    for (int64_t at = 0; at < c->bytes && !c->all_here; at += RT_WIRE_MAX) {
        rt_ticket t = {0};
        rt_comm_post_move(c, at, &t);
        rt_wire_wait(c->run, &t);
    }
}

/* ---- a collective ---------------------------------------------------------------------------- */

static bool lies_side_by_side(const mg_comm_desc *d)
{
    return mg_comm_does(d->kind) & MG_JOINS;
}

bool rt_comm_parts(const comm *c)
{
    return c->d->kind == MG_ALL_REDUCE && !is_small(c);
}

void rt_comm_set(comm *c, mg_run *r, const mg_comm_desc *d, const void *x, void *y)
{
    *c = (comm){.d = d, .run = r, .x = x, .y = y, .width = mg_dtype_bytes(d->dtype)};
    c->bytes = d->outer * d->size * d->inner * c->width;
    find_group(c);
    c->mine = share_of(c, c->me);
    if (lies_side_by_side(d))
        c->line = line_of(c);
    for (int i = 0; i < d->n; i++) {
        share s = share_of(c, i);
        c->max_bytes = total(&s) > c->max_bytes ? total(&s) : c->max_bytes;
    }
}

static mg_task *maker(const comm *c)
{
    return lies_side_by_side(c->d) ? lay_given : sum_given;
}

void rt_comm_take(comm *c, int64_t from, int64_t to)
{
    maker(c)(c, from, to, NULL);
}

/* Chunk by chunk: exchanges the messages, then makes y from the chunk. */
static void over_chunks(comm *c)
{
    const struct rt_ranks *k = c->run->ranks;
    int64_t size = chunk(c);
    rt_meet(c->run, c->d->axes);
    for (int64_t at = 0; at < c->max_bytes; at += size) {
        c->end = total(&c->mine);
        if (!c->all_here) {
            rt_ticket t = {0};
            rt_comm_post(c, at, size, k->in, k->out, &t);
            rt_wire_wait(c->run, &t);
        }
        if (c->end > c->begin)
            mg_parallel(c->run, (c->end - c->begin) / c->width, GRAIN / c->width, maker(c), c);
        if (c->all_here)
            return;
    }
}

static void together(comm *c)
{
    if (rt_comm_moves(c))
        move(c);
    else
        over_chunks(c);
    if (rt_comm_parts(c))
        gather_sums(c);
    rt_meet(c->run, c->d->axes); /* no rank overwrites what another rank still reads */
}

void mg_comm(mg_run *r, int action, const mg_comm_desc *d, const void *x, void *y, void *work)
{
    (void)work;
    if (rt_async_comm_begin(r, action, d, x, y))
        return;
    comm c;
    mg_begin(r, action);
    rt_comm_set(&c, r, d, x, y);
    if (d->kind == MG_SHARD)
        mg_parallel(r, c.mine.rows, 1 + GRAIN / (c.mine.row + 1), cut_rows, &c);
    else
        together(&c);
    mg_end(r, action);
    mg_output(r, action, y, mg_comm_elements(d), d->dtype);
}
