/* plug.cc - kernels of PTX in place of those of the shim; see tests/cuda_shim/shim.h. */
#include "tests/ptx/launch.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/text.h"

#include <fstream>
#include <sstream>
#include <stdlib.h>

extern "C" {
#include "tests/cuda_shim/shim.h"
}

namespace
{

struct Loaded {
    ptx::Module *module;
    std::string name;
    std::vector<size_t> sizes;
};

/* Those that the shim knows; they stay to the end, as the kernels of a program do. */
std::vector<std::unique_ptr<Loaded>> &loaded = *new std::vector<std::unique_ptr<Loaded>>;
std::vector<std::unique_ptr<ptx::Module>> &modules = *new std::vector<std::unique_ptr<ptx::Module>>;

const char *keep(const std::string &what)
{
    static std::string kept;
    kept = what;
    return kept.c_str();
}

const char *run(const void *what, ShimDim grid, ShimDim block, size_t shared, void **args,
                uint64_t seed)
{
    const Loaded &k = *(const Loaded *)what;
    ptx::Launch l;
    l.grid = ptx::Dim{grid.x, grid.y, grid.z};
    l.block = ptx::Dim{block.x, block.y, block.z};
    l.shared = (uint32_t)shared;
    l.args = args;
    l.seed = seed;
    try {
        const std::string wrong = ptx::launch(*k.module->find(k.name), l);
        return wrong.empty() ? NULL : keep(wrong);
    } catch (const ptx::Unknown &e) {
        return keep(e.what());
    }
}

} // namespace

const char *shim_ptx_load()
{
    const char *path = getenv("SHIM_PTX");
    if (!path || !*path)
        return NULL;
    std::ifstream file(path);
    if (!file)
        return keep(std::string("$SHIM_PTX: ") + path + " cannot be read");
    std::stringstream text;
    text << file.rdbuf();
    try {
        modules.emplace_back(new ptx::Module(text.str()));
    } catch (const ptx::Unknown &e) {
        return keep(std::string(path) + ": " + e.what());
    }
    shim_forget();
    for (const std::string &name : modules.back()->names()) {
        loaded.emplace_back(
            new Loaded{modules.back().get(), name, modules.back()->argument_bytes(name)});
        const Loaded &k = *loaded.back();
        shim_export_other(k.name.c_str(), (int)k.sizes.size(), k.sizes.data(), run, &k);
    }
    return NULL;
}

uint64_t shim_ptx_instructions()
{
    return ptx::instructions();
}

void shim_ptx_allocated(const void *p, size_t bytes)
{
    ptx::global_ranges().add(p, bytes);
}

void shim_ptx_freed(const void *p)
{
    ptx::global_ranges().remove(p);
}
