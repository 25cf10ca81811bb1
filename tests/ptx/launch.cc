/* launch.cc - modules, and grids as blocks one after another. */
#include "tests/ptx/decode.h"
#include "tests/ptx/machine.h"

#include <map>
#include <string.h>

namespace ptx
{

enum { THREADS_MAX = 1024 };

struct Module::Inside {
    Text text;
    std::map<std::string, std::unique_ptr<Kernel>> kernels;
    std::map<std::string, std::unique_ptr<char[]>> globals; /* memory of the module's variables */
};

Module::Module(const std::string &ptx) : inside(new Inside)
{
    inside->text = read_text(ptx);
    for (const Variable &v : inside->text.variables) {
        if (v.space == "shared")
            continue;
        std::unique_ptr<char[]> memory(new char[v.bytes + 16]());
        memcpy(memory.get(), v.start.data(), v.start.size());
        global_ranges().add(memory.get(), v.bytes);
        inside->globals[v.name] = std::move(memory);
    }
}

Module::~Module()
{
    for (const auto &g : inside->globals)
        global_ranges().remove(g.second.get());
}

std::vector<std::string> Module::names() const
{
    std::vector<std::string> all;
    for (const Entry &e : inside->text.entries)
        all.push_back(e.name);
    return all;
}

std::vector<size_t> Module::argument_bytes(const std::string &name) const
{
    std::vector<size_t> all;
    for (const Entry &e : inside->text.entries)
        for (const Parameter &p : e.parameters)
            if (e.name == name)
                all.push_back(p.bytes);
    return all;
}

const Kernel *Module::find(const std::string &name)
{
    std::unique_ptr<Kernel> &k = inside->kernels[name];
    if (k)
        return k.get();
    for (const Entry &e : inside->text.entries)
        if (e.name == name) {
            std::map<std::string, char *> globals;
            for (const auto &g : inside->globals)
                globals[g.first] = g.second.get();
            k = decode(inside->text, e, globals);
        }
    return k.get();
}

/* ---- launching ---------------------------------------------------------------------------- */

static void fill_constants(Warp &w, const Kernel &k)
{
    for (const Constant &c : k.constants)
        for (int lane = 0; lane < LANES; lane++)
            if (c.width == 1)
                *w.at<unsigned>(c.slot) = c.bits ? ALL_LANES : 0;
            else
                memcpy(w.file + c.slot + (unsigned)lane * c.width, &c.bits, c.width);
}

static void make_warps(Block &b)
{
    const Kernel &k = *b.kernel;
    b.warps.resize((b.threads + LANES - 1) / LANES);
    for (size_t i = 0; i < b.warps.size(); i++) {
        Warp &w = b.warps[i];
        const unsigned lanes = b.threads - (unsigned)i * LANES;
        w.block = &b;
        w.number = (int)i;
        w.exists = lanes >= LANES ? ALL_LANES : (1u << lanes) - 1;
        w.memory.assign(k.file_bytes + 64, (char)0xff);
        w.file = (char *)(((uintptr_t)w.memory.data() + 63) & ~(uintptr_t)63);
        fill_constants(w, k);
    }
}

static std::string cannot_launch(const Kernel &k, const Launch &l, uint64_t threads,
                                 uint64_t blocks)
{
    if (threads < 1 || threads > THREADS_MAX || !blocks)
        return "a launch of no size that there is";
    if (k.entry->threads_max && threads > k.entry->threads_max)
        return "a block of " + std::to_string(threads) + " threads, of which the kernel allows " +
               std::to_string(k.entry->threads_max);
    for (uint64_t i : l.blocks)
        if (i >= blocks)
            return "there is no block " + std::to_string(i);
    return "";
}

std::string launch(const Kernel &k, const Launch &l)
{
    const uint64_t blocks = (uint64_t)l.grid.x * l.grid.y * l.grid.z;
    const uint64_t threads = (uint64_t)l.block.x * l.block.y * l.block.z;
    const std::string cannot = cannot_launch(k, l, threads, blocks);
    if (!cannot.empty())
        return cannot;
    Block b;
    b.kernel = &k;
    b.launch = &l;
    b.threads = (unsigned)threads;
    b.rng = l.seed * 0x9e3779b97f4a7c15u + 1;
    b.parameters.resize(k.entry->parameter_bytes);
    for (size_t i = 0; i < k.entry->parameters.size(); i++)
        memcpy(&b.parameters[k.entry->parameters[i].at], l.args[i], k.entry->parameters[i].bytes);
    make_warps(b);
    const uint64_t some = l.blocks.empty() ? blocks : l.blocks.size();
    const uint64_t first = b.draw(1u << 30) % some;
    for (uint64_t i = 0; i < some; i++) {
        const uint64_t at = (i + first) % some, n = l.blocks.empty() ? at : l.blocks[at];
        b.at = Dim{(unsigned)(n % l.grid.x), (unsigned)(n / l.grid.x % l.grid.y),
                   (unsigned)(n / l.grid.x / l.grid.y)};
        try {
            run_block(b);
        } catch (const Fault &f) {
            return k.entry->name + ": " + f.what();
        }
    }
    return "";
}

} // namespace ptx
