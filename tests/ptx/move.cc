/* move.cc - mov between registers, and generic addresses of spaces. */
#include "tests/ptx/lanes.h"

#include <string.h>

namespace ptx
{

template <class T> void run_move(Warp &w, const Op &o)
{
    T *d = w.at<T>(o.d);
    const T *a = w.at<T>(o.a);
    each_lane(w.active, [=](int i) { d[i] = a[i]; });
    if (w.groups.open())
        note_copied(w, o.d, o.a);
}

static void run_move_predicate(Warp &w, const Op &o)
{
    unsigned &d = *w.at<unsigned>(o.d);
    d = (d & ~w.active) | (*w.at<unsigned>(o.a) & w.active);
}

/* A register as smaller ones, the lowest first, or of them. */
static void run_split(Warp &w, const Op &o)
{
    each_lane(w.active, [&](int i) {
        const char *a = w.file + o.a + (unsigned)i * o.bytes;
        for (size_t k = 0; k < o.list.size(); k++)
            memcpy(w.file + o.list[k] + (unsigned)i * o.count, a + k * o.count, o.count);
    });
}
static void run_join(Warp &w, const Op &o)
{
    each_lane(w.active, [&](int i) {
        char all[16];
        for (size_t k = 0; k < o.list.size(); k++)
            memcpy(all + k * o.count, w.file + o.list[k] + (unsigned)i * o.count, o.count);
        memcpy(w.file + o.d + (unsigned)i * o.bytes, all, o.bytes);
    });
}

static bool vectors(Decoder &d, Op &o, unsigned bytes)
{
    const bool split = d.operand(0).kind == Operand::VECTOR;
    const Operand &many = d.operand(split ? 0 : 1);
    const size_t n = many.parts.size();
    d.expect(n == 2 || n == 4);
    d.expect(bytes / n >= 2);
    o.bytes = (uint8_t)bytes;
    o.count = (uint8_t)(bytes / n);
    o.list = d.vector(many, o.count, split);
    o.writes = split ? (uint8_t)n : 0;
    if (split)
        o.a = d.read(d.operand(1), bytes);
    else
        o.d = d.write(d.operand(0), bytes);
    o.run = split ? run_split : run_join;
    return true;
}

static bool move(Decoder &d, Op &o)
{
    const std::string &t = d.last_type();
    const unsigned bytes = type_bytes(t);
    d.expect(d.now->words.size() == 2 && d.now->operands.size() == 2);
    if (t == "pred") {
        o.run = run_move_predicate;
        o.d = d.write(d.operand(0), 1);
        o.a = d.read(d.operand(1), 1);
        return true;
    }
    if (d.operand(0).kind == Operand::VECTOR || d.operand(1).kind == Operand::VECTOR)
        return vectors(d, o, bytes);
    o.run = bytes == 2   ? run_move<uint16_t>
            : bytes == 4 ? run_move<uint32_t>
            : bytes == 8 ? run_move<uint64_t>
                         : nullptr;
    d.expect(o.run != nullptr);
    o.d = d.write(d.operand(0), bytes);
    o.a = d.read(d.operand(1), bytes);
    return true;
}

/* offset: the window of the space; how: from the generic address to that of the space. */
static void run_window(Warp &w, const Op &o)
{
    each_lane(w.active, [&](int i) {
        uint64_t x = o.count == 8 ? w.at<uint64_t>(o.a)[i] : w.at<uint32_t>(o.a)[i];
        x += o.how ? 0 - (uint64_t)o.offset : (uint64_t)o.offset;
        if (o.bytes == 8)
            w.at<uint64_t>(o.d)[i] = x;
        else
            w.at<uint32_t>(o.d)[i] = (uint32_t)x;
    });
}

static bool window(Decoder &d, Op &o)
{
    const Space s = d.space();
    d.expect(s == GLOBAL || s == SHARED || s == LOCAL || s == CONST);
    o.bytes = o.count = (uint8_t)type_bytes(d.last_type());
    d.expect(o.bytes == 4 || o.bytes == 8);
    o.how = d.now->has("to");
    o.offset = (int64_t)(s == SHARED ? SHARED_WINDOW : s == LOCAL ? LOCAL_WINDOW : 0);
    o.run = run_window;
    o.d = d.write(d.operand(0), o.bytes);
    o.a = d.read(d.operand(1), o.bytes);
    return true;
}

bool move_group(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0];
    return name == "mov" ? move(d, o) : name == "cvta" ? window(d, o) : false;
}

} // namespace ptx
