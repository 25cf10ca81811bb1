/* lanes.h - an instruction as a function of one lane, for all lanes that take part. */
#ifndef PTX_LANES_H
#define PTX_LANES_H

#include "tests/ptx/decode.h"

namespace ptx
{

template <class D, class A, class F> void run_1(Warp &w, const Op &o)
{
    D *d = w.at<D>(o.d);
    const A *a = w.at<A>(o.a);
    each_lane(w.active, [=](int i) { d[i] = F::of(a[i]); });
}
template <class D, class A, class F> void run_2(Warp &w, const Op &o)
{
    D *d = w.at<D>(o.d);
    const A *a = w.at<A>(o.a), *b = w.at<A>(o.b);
    each_lane(w.active, [=](int i) { d[i] = F::of(a[i], b[i]); });
}
template <class D, class A, class F> void run_3(Warp &w, const Op &o)
{
    D *d = w.at<D>(o.d);
    const A *a = w.at<A>(o.a), *b = w.at<A>(o.b);
    const D *c = w.at<D>(o.c);
    each_lane(w.active, [=](int i) { d[i] = F::of(a[i], b[i], c[i]); });
}

/* The function for a type; nullptr: there is none. */
template <template <class> class R> Run of_integers(const std::string &t)
{
    return t == "u16"   ? R<uint16_t>::run
           : t == "s16" ? R<int16_t>::run
           : t == "u32" ? R<uint32_t>::run
           : t == "s32" ? R<int32_t>::run
           : t == "u64" ? R<uint64_t>::run
           : t == "s64" ? R<int64_t>::run
                        : nullptr;
}

} // namespace ptx

#endif
