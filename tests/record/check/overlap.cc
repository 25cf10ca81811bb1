/* overlap.cc - whether operands of one call meet: they may not if one is written, unless the call's
 * contract allows that they are the same bytes. */
#include "tests/record/check/check.h"

#include <algorithm>

namespace check
{

/* The next row of b that begins at or behind a's first one, modulo the common pitch, lies in the
 * gap of a. */
static bool in_gaps(const Piece &a, const Piece &b)
{
    const uint64_t pitch = a.pitch;
    const uint64_t shift = b.at >= a.at ? (b.at - a.at) % pitch
                                        : (pitch - (a.at - b.at) % pitch) % pitch;
    return shift >= a.row && shift + b.row <= pitch;
}

bool meet(const Piece &a, const Piece &b)
{
    if (a.end() <= b.at || b.end() <= a.at)
        return false;
    const uint64_t pitch = a.rows > 1 ? a.pitch : b.pitch;
    if (a.rows == 1 && b.rows == 1)
        return true;
    Piece x = a, y = b;
    x.pitch = a.rows > 1 ? a.pitch : pitch;
    y.pitch = b.rows > 1 ? b.pitch : pitch;
    return x.pitch != y.pitch || x.row > x.pitch || y.row > x.pitch || !in_gaps(x, y);
}

static bool same(const Piece &a, const Piece &b)
{
    return a.at == b.at && a.row == b.row && a.rows == b.rows && (a.rows == 1 || a.pitch == b.pitch);
}

void overlap(const Call &c)
{
    std::vector<const Piece *> all;
    for (const Piece &p : c.pieces)
        all.push_back(&p);
    std::sort(all.begin(), all.end(), [](const Piece *a, const Piece *b) { return a->at < b->at; });
    for (size_t i = 0; i < all.size(); i++)
        for (size_t k = i + 1; k < all.size() && all[k]->at < all[i]->end(); k++) {
            const Piece &a = *all[i], &b = *all[k];
            if ((a.writes || b.writes) && meet(a, b) && !(a.in_place && b.in_place && same(a, b)))
                found("aliasing", c.line, c.action, "%s: %s and %s of one call overlap",
                      c.what.c_str(), a.name, b.name);
        }
}

} // namespace check
