/* nest_pieces.c - the pieces of a loop in which what is counted lies inside its dim, or outside.
 *
 * A place such as all - 512 of a dim of 640 is there for 512 <= all < 1152, and 0 elsewhere. A loop
 * over `all` with a question at each element reads by gathers and masks. Cut at 512 and 1152, each
 * piece reads neighbours, or nothing. */
#include "plan/nest.h"

static int64_t floor_div(int64_t a, int64_t b) /* b > 0 */
{
    return a / b - (a % b < 0);
}

/* The first index whose place, at + by * index, is on the other side of `edge` than index - 1's. */
static int64_t crossing(int64_t at, int64_t by, int64_t edge)
{
    return by > 0 ? floor_div(edge - at + by - 1, by) : floor_div(at - edge, -by) + 1;
}

static int insert(int64_t *cut, int n, int64_t x)
{
    int i = n;
    while (i > 0 && cut[i - 1] >= x)
        i--;
    if (cut[i] == x || n == NEST_PIECES)
        return n;
    for (int k = n; k >= i; k--)
        cut[k + 1] = cut[k];
    cut[i] = x;
    return n + 1;
}

static bool walks(const Nest *n, int loop, Name dim)
{
    int d = nest_dim(n, dim);
    return d >= 0 && n->loop[d] == loop && n->dim[d].size == nest_loop(n, loop)->dim.size;
}

int nest_pieces(const Nest *n, const Region *body, int loop, bool places,
                int64_t cut[NEST_PIECES + 2])
{
    const int64_t size = nest_loop(n, loop)->dim.size;
    int pieces = 1;
    cut[0] = 0;
    cut[1] = size;
    if (nest_loop(n, loop)->rotated)
        pieces = insert(cut, pieces, size / 2);
    for (size_t k = 0; k < body->ins.n && places; k++) {
        const Attrs *a = &body->ins.data[k]->attrs;
        if (body->ins.data[k]->op != OP_reindex || a->over.n != 1 || a->every != 1 ||
            a->factors.by[0] == 0 || !walks(n, loop, a->over.dim[0].name))
            continue;
        for (int edge = 0; edge < 2; edge++) {
            int64_t x = crossing(a->at, a->factors.by[0], edge ? a->dim.size : 0);
            if (x > 0 && x < size)
                pieces = insert(cut, pieces, x);
        }
    }
    return pieces;
}
