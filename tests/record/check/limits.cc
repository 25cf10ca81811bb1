/* limits.cc - what a launch may be: the grid, the block, its shared memory (the tables of compute
 * capabilities in the CUDA C++ Programming Guide). */
#include "tests/record/check/check.h"

#include <cinttypes>

namespace check
{

/* Bytes of dynamic shared memory that a block may have if the kernel's attribute says so. */
static uint64_t most_shared(int capability)
{
    switch (capability) {
    case 80:
    case 87:
        return 163 << 10;
    case 86:
    case 89:
    case 120:
        return 99 << 10;
    default:
        return 227 << 10;
    }
}

void Limits::set_shared(const Line &l)
{
    if (l.u(1) > most_shared(capability))
        found("launch", l.number, l.action, "%s is to have %" PRIu64 " bytes of shared memory",
              l.field[0].c_str(), l.u(1));
    shared[l.field[0]] = l.u(1);
}

void Limits::launch(const Launch &l, long line, int action) const
{
    static const uint64_t grid[] = {INT32_MAX, 65535, 65535}, block[] = {1024, 1024, 64};
    enum { USUAL = 48 << 10, THREADS = 1024, PARAMETERS = 4096 };
    const uint64_t threads = l.block[0] * l.block[1] * l.block[2];
    for (int i = 0; i < 3; i++) {
        if (l.grid[i] < 1 || l.grid[i] > grid[i])
            found("launch", line, action, "%s: the grid has %" PRIu64 " blocks along %c",
                  l.kernel.c_str(), l.grid[i], "xyz"[i]);
        if (l.block[i] < 1 || l.block[i] > block[i])
            found("launch", line, action, "%s: a block has %" PRIu64 " threads along %c",
                  l.kernel.c_str(), l.block[i], "xyz"[i]);
    }
    if (threads > THREADS)
        found("launch", line, action, "%s: a block has %" PRIu64 " threads", l.kernel.c_str(),
              threads);
    const auto set = shared.find(l.kernel);
    if (l.shared > (set == shared.end() ? (uint64_t)USUAL : set->second))
        found("launch", line, action,
              "%s: %" PRIu64 " bytes of shared memory, without the attribute that allows them",
              l.kernel.c_str(), l.shared);
    if (l.parameters.size() > PARAMETERS)
        found("launch", line, action, "%s: %zu bytes of parameters", l.kernel.c_str(),
              l.parameters.size());
}

} // namespace check
