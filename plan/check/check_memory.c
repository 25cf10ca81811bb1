/* check_memory.c - a map of bytes as disjoint pieces: a treap by address. */
#include "plan/check/check.h"

typedef struct Node {
    struct Node *left, *right;
    uint32_t priority;
    Piece piece;
} Node;

struct Memory {
    Arena *arena;
    Node *root, *spare;
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

static void discard(Memory *m, Node *n)
{
    if (!n)
        return;
    discard(m, n->right);
    Node *left = n->left;
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

void memory_write(Memory *m, Piece p)
{
    Node *before, *rest, *under, *after;
    if (p.lo >= p.hi)
        return;
    split(m, m->root, p.lo, &before, &rest);
    split(m, rest, p.hi, &under, &after);
    discard(m, under);
    m->root = join(join(before, node_new(m, p)), after);
}

const Piece *memory_at(const Memory *m, int64_t at)
{
    const Node *n = m->root;
    while (n && (at < n->piece.lo || at >= n->piece.hi))
        n = at < n->piece.lo ? n->left : n->right;
    return n ? &n->piece : NULL;
}
