/* replay.cc - record-replay PTX RECORDING CONTRACTS: runs some blocks of each different launch of a
 * recording, with the kernels' PTX as nvcc makes it, in the interpreter of tests/ptx. Device memory
 * is address space whose pages are there when they are touched; all of it is 0.
 *
 * Every access has to be within the bytes that the kernel's contract names (check/contracts.cc, or
 * kernel_text.py), and at a multiple of its size. So this shows both that the contracts name all that
 * the kernels touch, and that index arithmetic of the machine is right at the sizes of the model:
 * the first and the last block run, of the first and the last launch of each shape.
 *
 * Prints the number of launches and blocks; 1: an access was wrong; 2: something is missing. */
#include "tests/ptx/launch.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/text.h"
#include "tests/record/check/check.h"

#include <fstream>
#include <iostream>
#include <sstream>
#include <string.h>
#include <sys/mman.h>

using check::Launch;

/* The first and the last launch of a kernel with one shape: launches differ in their pointers. */
struct Shape {
    Launch first, last;
    long times;
};

static int fail(const std::string &what)
{
    std::cerr << "record-replay: " << what << "\n";
    return 2;
}

/* Mapped memory, by its first page. */
static std::map<uint64_t, uint64_t> mapped;

static bool map_memory(uint64_t at, uint64_t bytes)
{
    const uint64_t page = 4096, from = at / page * page;
    const uint64_t whole = (at + bytes - from + page - 1) / page * page;
    mapped[from] = whole;
    return mmap((void *)from, whole, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) ==
           (void *)from;
}

static std::string bytes_of(const std::string &hex)
{
    std::string all;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        all += (char)std::stoi(hex.substr(i, 2), nullptr, 16);
    return all;
}

/* What a launch has written is no index of the next one. */
static void clear_memory()
{
    for (const auto &m : mapped)
        madvise((void *)m.first, m.second, MADV_DONTNEED);
}

/* Pieces of the contract become the only memory there is. */
static std::string run(ptx::Module &m, const Launch &x)
{
    std::vector<check::Piece> pieces;
    if (!check::pieces_of(x, 0, -1, &pieces))
        return x.kernel + " has no contract";
    const ptx::Kernel *k = m.find(x.kernel);
    if (!k)
        return "the PTX has no " + x.kernel;
    ptx::Launch l;
    std::string parameters = x.parameters;
    std::vector<void *> args;
    size_t at = 0;
    for (size_t bytes : m.argument_bytes(x.kernel)) {
        args.push_back(&parameters[at]);
        at += bytes;
    }
    if (at != parameters.size())
        return x.kernel + " takes other parameters";
    const uint64_t last = x.grid[0] * x.grid[1] * x.grid[2] - 1;
    l.grid = ptx::Dim{(unsigned)x.grid[0], (unsigned)x.grid[1], (unsigned)x.grid[2]};
    l.block = ptx::Dim{(unsigned)x.block[0], (unsigned)x.block[1], (unsigned)x.block[2]};
    l.shared = (uint32_t)x.shared;
    l.args = args.data();
    l.blocks = {0};
    if (last)
        l.blocks.push_back(last);
    for (const check::Piece &p : pieces)
        ptx::global_ranges().add((const void *)p.at, p.end() - p.at);
    clear_memory();
    const std::string wrong = ptx::launch(*k, l);
    for (const check::Piece &p : pieces)
        ptx::global_ranges().remove((const void *)p.at);
    return wrong;
}

int main(int argc, char **argv)
{
    std::ifstream text(argc == 4 ? argv[1] : ""), recording(argc == 4 ? argv[2] : "");
    std::stringstream all;
    all << text.rdbuf();
    if (argc != 4 || !text || !recording)
        return fail("usage: record-replay PTX RECORDING CONTRACTS");
    check::read_generated(argv[3]);
    std::map<std::string, Shape> shapes;
    for (std::string line; std::getline(recording, line);) {
        std::istringstream words(line);
        std::string word, stream, parameters, key;
        int action;
        words >> word >> action;
        if (word == "malloc") {
            uint64_t at, bytes;
            words >> at >> bytes;
            if (!map_memory(at, bytes))
                return fail("there is no address space for " + line);
        }
        if (word != "launch")
            continue;
        Launch x;
        words >> stream >> x.kernel;
        key = x.kernel;
        for (uint64_t *of : {x.grid, x.block})
            for (int i = 0; i < 3; i++) {
                words >> of[i];
                key += " " + std::to_string(of[i]);
            }
        words >> x.shared >> parameters;
        if (x.kernel == "mg_mark")
            continue; /* it writes into memory of the host */
        x.parameters = bytes_of(parameters);
        auto s = shapes.emplace(key, Shape{x, x, 0}).first;
        s->second.last = x;
        s->second.times++;
    }
    long launches = 0, wrong = 0;
    try {
        ptx::Module m(all.str());
        for (const auto &s : shapes) {
            for (const Launch *x : {&s.second.first, &s.second.last}) {
                const std::string what = run(m, *x);
                launches++;
                wrong += !what.empty();
                if (!what.empty())
                    std::cout << what << "\n";
                if (s.second.first.parameters == s.second.last.parameters)
                    break;
            }
        }
    } catch (const ptx::Unknown &e) {
        return fail(e.what());
    }
    std::cout << launches << " launches of " << shapes.size() << " shapes, " << ptx::instructions()
              << " instructions of threads, " << wrong << " wrong\n";
    return wrong || !launches;
}
