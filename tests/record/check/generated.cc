/* generated.cc - what generated kernels read and write: kernel_text.py finds it in their text, for
 * the grid that the program launches. */
#include "tests/record/check/check.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace check
{

struct Pointer {
    uint64_t from, to, multiple; /* bytes from the pointer on */
    bool reads, writes;
};
struct Generated {
    uint64_t grid[2], block;
    std::vector<Pointer> pointer;
};
static std::map<std::string, Generated> all;

/* kernel NAME GRID_X GRID_Y BLOCK; then for each parameter: pointer r|w|rw FROM TO MULTIPLE */
void read_generated(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[512], name[256], does[4];
    Generated *at = nullptr;
    if (!f) {
        fprintf(stderr, "record-check: cannot read %s\n", path);
        exit(2);
    }
    while (fgets(line, sizeof line, f)) {
        Generated g = {};
        Pointer p;
        if (sscanf(line, "kernel %255s %" SCNu64 " %" SCNu64 " %" SCNu64, name, &g.grid[0],
                   &g.grid[1], &g.block) == 4) {
            at = &all[name];
            *at = g;
        } else if (at && sscanf(line, "pointer %3s %" SCNu64 " %" SCNu64 " %" SCNu64, does, &p.from,
                                &p.to, &p.multiple) == 4) {
            p.reads = strchr(does, 'r');
            p.writes = strchr(does, 'w');
            at->pointer.push_back(p);
        } else {
            fprintf(stderr, "record-check: %s: %s", path, line);
            exit(2);
        }
    }
    fclose(f);
}

bool generated_pieces(const Launch &l, long line, int action, std::vector<Piece> *pieces)
{
    static const char *const names[] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"};
    const auto g = all.find(l.kernel);
    if (g == all.end())
        return false;
    if (l.grid[0] != g->second.grid[0] || l.grid[1] != g->second.grid[1] || l.grid[2] != 1 ||
        l.block[0] * l.block[1] * l.block[2] != g->second.block)
        found("launch", line, action, "%s: the launch is not the one that the program's table has",
              l.kernel.c_str());
    if (l.parameters.size() != g->second.pointer.size() * sizeof(uint64_t)) {
        found("launch", line, action, "%s: %zu bytes of parameters, and it takes %zu pointers",
              l.kernel.c_str(), l.parameters.size(), g->second.pointer.size());
        return true;
    }
    for (size_t i = 0; i < g->second.pointer.size(); i++) {
        const Pointer &p = g->second.pointer[i];
        uint64_t at;
        memcpy(&at, l.parameters.data() + i * sizeof at, sizeof at);
        if (p.to > p.from)
            pieces->push_back({names[i < 9 ? i : 9], at + p.from, p.to - p.from, 1, 0, p.reads,
                               p.writes, 1, false});
        if (at % p.multiple)
            found("alignment", line, action,
                  "%s: %s is at %#" PRIx64 ", and has to be at multiples of %" PRIu64,
                  l.kernel.c_str(), names[i < 9 ? i : 9], at, p.multiple);
    }
    return true;
}

} // namespace check
