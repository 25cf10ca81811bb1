/* check_expect.c - is what an action reads what lies in memory? As many rows at once as one piece
 * of memory holds: heads of a tensor are thousands of short rows, and one step apart. */
#include "plan/check/check_run.h"

static void tell_unexpected(Cursor *k, Value v, uint64_t iterations, int64_t first, int64_t address,
                            const Piece *p)
{
    k->failed = true;
    broken(k->c, 3, "reads element %lld of '%s' (from '%s') at byte %lld, where %s%s%s is",
           (long long)first, value_name(k->c, k->o->value), value_name(k->c, v), (long long)address,
           p ? "'" : "nothing", p ? value_name(k->c, p->value) : "",
           !p                            ? ""
           : p->value != v || !v         ? "'"
           : p->iterations != iterations ? "' of another iteration"
                                         : "', another element,");
}

/* How many rows of s lie as the first one does, which begins at `address` in piece p: further on in
 * the same piece, or in the rows, `rows` of them, that p is the first of. */
static int64_t rows_alike(Strip s, int64_t address, int64_t width, const Piece *p, int64_t rows,
                          int64_t period, int64_t step)
{
    const int64_t far = s.stride * width, rest = p->hi - address - s.n * width;
    int64_t alike = 1;
    if (rest < 0 || far <= 0)
        return 1;
    if (s.stride == s.step)
        alike = rest / far + 1;
    if (period && far % period == 0 && s.step == far / period * step) {
        const int64_t in_rows = (rows - 1) / (far / period) + 1;
        alike = in_rows > alike ? in_rows : alike;
    }
    return alike < s.count ? alike : s.count;
}

/* The first row of s is what is in memory; the number of rows that are, with it. */
static int64_t expect_row(Cursor *k, Value v, uint64_t iterations, Strip s)
{
    int64_t address = k->address + s.at * k->bytes, first = s.first, left = s.n, alike = 1;
    while (left > 0) {
        Piece p;
        int64_t period, step;
        const int64_t rows = memory_rows_at(k->c->memory, address, &p, &period, &step);
        if (!rows || p.value != v || p.iterations != iterations || p.bytes != k->bytes ||
            (address - p.lo) % k->bytes || first != p.first + (address - p.lo) / k->bytes) {
            tell_unexpected(k, v, iterations, first, address, rows ? &p : NULL);
            return 1;
        }
        if (left == s.n)
            alike = rows_alike(s, address, k->bytes, &p, rows, period, step);
        int64_t some = (p.hi - address) / k->bytes;
        some = some < left ? some : left;
        address += some * k->bytes;
        first += some;
        left -= some;
    }
    return alike;
}

void expect_run(void *ctx, Value v, uint64_t iterations, Strip s)
{
    Cursor *k = ctx;
    if (k->failed)
        return;
    if (iterations == UNWRITTEN) {
        k->failed = true;
        broken(k->c, 3,
               "reads element %lld of '%s', of a layer that this rank has not and nobody wrote",
               (long long)s.first, value_name(k->c, v));
    }
    while (s.count > 0 && !k->failed)
        s = strip_from(s, expect_row(k, v, iterations, s));
}
