/* check_memory.c - a map of bytes as disjoint pieces: a treap by address.
 *
 * A node is a piece; or lanes of rows, as the parts of a tensor have each their bytes of each row:
 * thousands of rows are one node then. Between its lanes a node of rows knows nothing. Where one is
 * cut or another write does not fit, it becomes the pieces that it stands for. */
#include "plan/check/check.h"

enum { LANES = 24 };

/* n rows, `period` bytes apart; each lane is what it has of the first row, and how many elements
 * further the next one is: none, where a tensor's part is there again. */
typedef struct Rows {
    struct Rows *next; /* of those to be used again */
    int64_t n, period;
    int lanes;
    Piece lane[LANES];
    int64_t step[LANES];
} Rows;

typedef struct Node {
    struct Node *left, *right;
    uint32_t priority;
    Piece piece; /* of rows: the bytes alone, from the first lane's to the last's */
    Rows *rows;  /* NULL: a piece */
} Node;

struct Memory {
    Arena *arena;
    Node *root, *spare;
    Rows *spare_rows;
    uint32_t random;
};

Memory *memory_new(Arena *a)
{
    Memory *m = NEW(a, Memory);
    m->arena = a;
    m->random = 1;
    return m;
}

static Node *node_new(Memory *m, Piece p)
{
    Node *n = m->spare ? m->spare : NEW(m->arena, Node);
    if (m->spare)
        m->spare = n->left;
    m->random = m->random * 1664525u + 1013904223u;
    *n = (Node){.priority = m->random, .piece = p};
    return n;
}

static Rows *rows_new(Memory *m)
{
    Rows *r = m->spare_rows ? m->spare_rows : NEW(m->arena, Rows);
    if (m->spare_rows)
        m->spare_rows = r->next;
    return r;
}

static void discard(Memory *m, Node *n)
{
    if (!n)
        return;
    discard(m, n->right);
    Node *left = n->left;
    if (n->rows) {
        n->rows->next = m->spare_rows;
        m->spare_rows = n->rows;
    }
    n->left = m->spare;
    m->spare = n;
    discard(m, left);
}

static Node *join(Node *a, Node *b)
{
    if (!a || !b)
        return a ? a : b;
    if (a->priority > b->priority) {
        a->right = join(a->right, b);
        return a;
    }
    b->left = join(a, b->left);
    return b;
}

static Piece piece_from(Piece p, int64_t lo)
{
    p.first += (lo - p.lo) / p.bytes;
    p.lo = lo;
    return p;
}

/* Splits at a byte; a piece that lies across is cut in two. */
static void split(Memory *m, Node *n, int64_t at, Node **a, Node **b)
{
    if (!n) {
        *a = *b = NULL;
    } else if (n->piece.hi <= at) {
        split(m, n->right, at, &n->right, b);
        *a = n;
    } else if (n->piece.lo >= at) {
        split(m, n->left, at, a, &n->left);
        *b = n;
    } else {
        Node *right = n->right;
        Node *rest = node_new(m, piece_from(n->piece, at));
        n->piece.hi = at;
        n->right = NULL;
        *a = n;
        *b = join(rest, right);
    }
}

static Piece piece_of_row(Piece p, int64_t row, int64_t period, int64_t step)
{
    p.lo += row * period;
    p.hi += row * period;
    p.first += row * step;
    return p;
}

/* The node that holds byte `at`, or NULL. */
static Node *node_at(const Memory *m, int64_t at)
{
    Node *n = m->root;
    while (n && (at < n->piece.lo || at >= n->piece.hi))
        n = at < n->piece.lo ? n->left : n->right;
    return n;
}

/* Puts what is in [lo, hi), whose bounds cut no rows, aside: it is discarded, and `by` is there. */
static void replace(Memory *m, int64_t lo, int64_t hi, Node *by)
{
    Node *before, *rest, *under, *after;
    split(m, m->root, lo, &before, &rest);
    split(m, rest, hi, &under, &after);
    discard(m, under);
    m->root = join(join(before, by), after);
}

/* A node of rows becomes pieces. */
static void expand(Memory *m, const Node *n)
{
    const Rows *r = n->rows;
    replace(m, n->piece.lo, n->piece.hi, NULL);
    for (int64_t row = 0; row < r->n; row++)
        for (int k = 0; k < r->lanes; k++)
            memory_write(m, piece_of_row(r->lane[k], row, r->period, r->step[k]));
}

/* Nothing is cut that is rows. */
static void expand_at(Memory *m, int64_t at)
{
    const Node *n = node_at(m, at);
    if (n && n->rows && n->piece.lo < at)
        expand(m, n);
}

void memory_write(Memory *m, Piece p)
{
    if (p.lo >= p.hi)
        return;
    expand_at(m, p.lo);
    expand_at(m, p.hi);
    replace(m, p.lo, p.hi, node_new(m, p));
}

void memory_forget(Memory *m, int64_t lo, int64_t hi)
{
    Node *n = NULL;
    if (lo >= hi)
        return;
    for (int k = 0; k < 2; k++) /* rows go as a whole */
        if ((n = node_at(m, k ? hi - 1 : lo)) && n->rows)
            replace(m, n->piece.lo, n->piece.hi, NULL);
    replace(m, lo, hi, NULL);
}

/* The number of nodes that touch [lo, hi), two for more; *first: one of them. */
static int nodes_in(Node *n, int64_t lo, int64_t hi, Node **first)
{
    int count = 0;
    if (!n)
        return 0;
    if (lo < n->piece.lo)
        count += nodes_in(n->left, lo, hi, first);
    if (n->piece.lo < hi && lo < n->piece.hi) {
        *first = n;
        count++;
    }
    if (count < 2 && n->piece.hi < hi)
        count += nodes_in(n->right, lo, hi, first);
    return count < 2 ? count : 2;
}

/* Adds a lane, in place of one at the same bytes; false: it does not fit between the others. */
static bool add_lane(Rows *r, Piece p, int64_t step)
{
    int64_t lo = p.lo, hi = p.hi;
    int at = r->lanes;
    for (int k = 0; k < r->lanes; k++) {
        const Piece *l = &r->lane[k];
        if (l->lo == p.lo && l->hi == p.hi)
            at = k;
        else if (l->lo < p.hi && p.lo < l->hi)
            return false;
        lo = l->lo < lo ? l->lo : lo;
        hi = l->hi > hi ? l->hi : hi;
    }
    if (at == LANES || hi - lo > r->period)
        return false;
    r->lane[at] = p;
    r->step[at] = step;
    r->lanes += at == r->lanes;
    return true;
}

/* Rows as one node, where nothing but other lanes of theirs lies between them. */
static bool write_as_rows(Memory *m, Piece p, int64_t n, int64_t period, int64_t step)
{
    Node *there = NULL;
    const int64_t end = p.hi + (n - 1) * period;
    const int count = nodes_in(m->root, p.lo, end, &there);
    if (count > 1 ||
        (count && (!there->rows || there->rows->n != n || there->rows->period != period)))
        return false;
    Rows *r = rows_new(m);
    *r = count ? *there->rows : (Rows){.n = n, .period = period};
    if (!add_lane(r, p, step)) {
        r->next = m->spare_rows;
        m->spare_rows = r;
        return false;
    }
    Piece bytes = {.lo = p.lo, .hi = end};
    if (count) {
        bytes.lo = there->piece.lo < p.lo ? there->piece.lo : p.lo;
        bytes.hi = there->piece.hi > end ? there->piece.hi : end;
    }
    Node *node = node_new(m, bytes);
    node->rows = r;
    replace(m, bytes.lo, bytes.hi, node);
    return true;
}

void memory_write_rows(Memory *m, Piece p, int64_t n, int64_t period, int64_t step)
{
    if (p.hi - p.lo <= period && n > 1 && write_as_rows(m, p, n, period, step))
        return;
    for (int64_t row = 0; row < n; row++)
        memory_write(m, piece_of_row(p, row, period, step));
}

int64_t memory_rows_at(const Memory *m, int64_t at, Piece *p, int64_t *period, int64_t *step)
{
    const Node *n = node_at(m, at);
    const Rows *r = n ? n->rows : NULL;
    *period = *step = 0;
    if (!r && n)
        *p = n->piece;
    if (!r)
        return n != NULL;
    for (int k = 0; k < r->lanes; k++) {
        const int64_t row = (at - r->lane[k].lo) / r->period;
        if (at < r->lane[k].lo || row >= r->n)
            continue;
        *p = piece_of_row(r->lane[k], row, r->period, r->step[k]);
        *period = r->period;
        *step = r->step[k];
        if (at < p->hi)
            return r->n - row;
    }
    return 0;
}

bool memory_at(const Memory *m, int64_t at, Piece *p)
{
    int64_t period, step;
    return memory_rows_at(m, at, p, &period, &step) > 0;
}
