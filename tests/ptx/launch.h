/* launch.h - kernels of a PTX text, and launching them: the interface of the interpreter. */
#ifndef PTX_LAUNCH_H
#define PTX_LAUNCH_H

#include <functional>
#include <memory>
#include <stdint.h>
#include <string>
#include <vector>

namespace ptx
{

struct Dim {
    unsigned x, y, z;
};

struct Kernel;

struct Launch {
    Dim grid, block;
    uint32_t shared = 0; /* bytes beside the kernel's own */
    void **args = nullptr;
    uint64_t seed = 1;
    /* These blocks alone, counted x first; none: all of them, from one on that the seed says. */
    std::vector<uint64_t> blocks;
};

struct Module {
    /* Throws Unknown (text.h). Kernels are decoded when they are asked for. */
    explicit Module(const std::string &ptx);
    ~Module();
    Module(const Module &) = delete;
    Module &operator=(const Module &) = delete;

    std::vector<std::string> names() const;
    /* Bytes of each argument of a kernel that there is. */
    std::vector<size_t> argument_bytes(const std::string &name) const;
    /* NULL: there is none. Throws Unknown if it has an instruction that is not known. */
    const Kernel *find(const std::string &name);

    struct Inside;
    std::unique_ptr<Inside> inside;
};

/* "", or what was wrong, and where: thread, block, line of the text, instruction. */
std::string launch(const Kernel &k, const Launch &l);

/* Instructions of threads that all launches have run until now. */
uint64_t instructions();

} // namespace ptx

#endif
