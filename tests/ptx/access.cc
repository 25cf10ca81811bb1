/* access.cc - ld and st, of all spaces and with vectors. */
#include "tests/ptx/lanes.h"

#include <string.h>

namespace ptx
{

/* space: where; bytes: of an element; count: of the address's register; e: of the register of an
 * element; how: 1: with a sign. */

static char *parameter_at(Warp &w, int lane, uint64_t at, unsigned bytes)
{
    std::vector<char> &all = w.block->parameters;
    if (at + bytes > all.size() || at + bytes < bytes)
        throw Fault("a parameter at " + hex(at) + " of " + std::to_string(all.size()) + " bytes",
                    lane);
    if (at % bytes)
        throw Fault("a parameter at " + hex(at) + ", which is no multiple of its size", lane);
    return &all[at];
}

static char *place(Warp &w, const Op &o, int lane, Use use)
{
    const uint64_t at = address_of(w, o, o.a, o.count, lane);
    const unsigned bytes = (unsigned)(o.bytes * o.list.size());
    if (o.space == PARAM)
        return parameter_at(w, lane, at, bytes);
    return memory_at(w, lane, (Space)o.space, at, bytes, use);
}

template <class M, class R> void run_load(Warp &w, const Op &o)
{
    each_lane(w.active, [&](int lane) {
        const char *from = place(w, o, lane, READ);
        for (size_t k = 0; k < o.list.size(); k++) {
            M x;
            memcpy(&x, from + k * sizeof x, sizeof x);
            w.at<R>(o.list[k])[lane] = (R)x;
        }
    });
}
template <class M, class R> void run_store(Warp &w, const Op &o)
{
    each_lane(w.active, [&](int lane) {
        char *to = place(w, o, lane, WRITE);
        for (size_t k = 0; k < o.list.size(); k++) {
            const M x = (M)w.at<R>(o.list[k])[lane];
            memcpy(to + k * sizeof x, &x, sizeof x);
        }
    });
}

template <class M> static Run load_of(unsigned width)
{
    return width == 2   ? run_load<M, uint16_t>
           : width == 4 ? run_load<M, uint32_t>
           : width == 8 ? run_load<M, uint64_t>
                        : nullptr;
}
template <class M> static Run store_of(unsigned width)
{
    return width == 2   ? run_store<M, uint16_t>
           : width == 4 ? run_store<M, uint32_t>
           : width == 8 ? run_store<M, uint64_t>
                        : nullptr;
}

static Run load_by(unsigned bytes, bool is_signed, unsigned width)
{
    switch (bytes) {
    case 1:
        return is_signed ? load_of<int8_t>(width) : load_of<uint8_t>(width);
    case 2:
        return is_signed ? load_of<int16_t>(width) : load_of<uint16_t>(width);
    case 4:
        return is_signed ? load_of<int32_t>(width) : load_of<uint32_t>(width);
    case 8:
        return load_of<uint64_t>(width);
    default:
        return nullptr;
    }
}
static Run store_by(unsigned bytes, unsigned width)
{
    return bytes == 1   ? store_of<uint8_t>(width)
           : bytes == 2 ? store_of<uint16_t>(width)
           : bytes == 4 ? store_of<uint32_t>(width)
           : bytes == 8 ? store_of<uint64_t>(width)
                        : nullptr;
}

/* Words that say how caches should treat it, or in which order others see it: there is one order
 * here. */
static bool does_not_matter(const std::string &w)
{
    static const char *const all[] = {
        "volatile", "relaxed", "acquire", "release", "weak", "cta", "gpu", "sys",  "cluster", "nc",
        "ca",       "cg",      "cs",      "lu",      "cv",   "wb",  "wt",  "mmio", "unified"};
    for (const char *x : all)
        if (w == x)
            return true;
    return w.compare(0, 4, "L1::") == 0 || w.compare(0, 4, "L2::") == 0;
}

static size_t vector_of(const Decoder &d)
{
    size_t n = 1;
    for (size_t i = 1; i + 1 < d.now->words.size(); i++) {
        const std::string &w = d.now->words[i];
        if (w == "v2" || w == "v4" || w == "v8")
            n = (size_t)(w[1] - '0');
        else if (w != "global" && w != "shared" && w != "shared::cta" && w != "local" &&
                 w != "param" && w != "param::entry" && w != "const" && !does_not_matter(w))
            d.unknown();
    }
    return n;
}

/* All registers of an instruction have one width. */
static unsigned width_of(Decoder &d, const Operand &o, unsigned bytes)
{
    const Operand &first = o.kind == Operand::VECTOR ? o.parts[0] : o;
    const unsigned least = bytes < 2 ? 2 : bytes;
    if (first.kind == Operand::NAME && first.name == "_")
        return least;
    return d.any(first, least).width;
}

bool access_group(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0], &t = d.now->words.back();
    if (name == "prefetch" || name == "prefetchu") {
        o.run = [](Warp &, const Op &) {};
        return true;
    }
    if (name != "ld" && name != "st" && name != "ldu")
        return false;
    const bool loads = name != "st";
    const unsigned bytes = type_bytes(t);
    d.expect(d.now->operands.size() == 2 && bytes && bytes <= 8);
    const Operand &value = d.operand(loads ? 0 : 1);
    const unsigned width = width_of(d, value, bytes);
    const size_t n = vector_of(d);
    d.expect(width >= bytes);
    d.address(o, d.operand(loads ? 1 : 0));
    o.space = d.space();
    o.bytes = (uint8_t)bytes;
    o.list = d.vector(value, width, loads);
    o.writes = loads ? (uint8_t)o.list.size() : 0;
    d.expect(o.list.size() == n && (loads || o.space != PARAM));
    o.run = loads ? load_by(bytes, t[0] == 's', width) : store_by(bytes, width);
    d.expect(o.run != nullptr);
    return true;
}

} // namespace ptx
