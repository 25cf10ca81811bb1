/* check_large FILE - kernels of a PTX file at the sizes of a large model: 131,072 rows of 32,000 logits
 * are more elements than 32 bits count, and 8.4 GB. The memory is sparse, and only some blocks run;
 * their rows are compared with loops in double. */
#include "runtime/abi.h"
#include "runtime/launches.h"
#include "tests/ptx/launch.h"
#include "tests/ptx/memory.h"

#include <fstream>
#include <iostream>
#include <math.h>
#include <sstream>
#include <string.h>
#include <sys/mman.h>

enum : int64_t { ROWS = 131072, VOCAB = 32000, VALID = 31990 };
/* The first and the last row, and those around 2^31 elements. */
static const uint64_t SOME[] = {0, 67108, 67109, ROWS - 1};

/* Memory of the device whose pages are there when they are written. */
template <class T> static T *sparse(int64_t n)
{
    void *p = mmap(NULL, (size_t)n * sizeof(T), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        std::cerr << "check_large: no address space for " << n * (int64_t)sizeof(T) << " bytes\n";
        exit(1);
    }
    ptx::global_ranges().add(p, (uint64_t)n * sizeof(T));
    return (T *)p;
}

static float wide(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
static uint16_t half(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (uint16_t)(bits >> 16);
}

static int launched(ptx::Module &m, const char *name, std::vector<void *> args)
{
    ptx::Launch l;
    l.grid = ptx::Dim{(unsigned)ROWS, 1, 1};
    l.block = ptx::Dim{MG_XENT_BLOCK, 1, 1};
    l.args = args.data();
    l.blocks.assign(SOME, SOME + sizeof SOME / sizeof *SOME);
    const ptx::Kernel *k = m.find(name);
    const std::string wrong = k ? ptx::launch(*k, l) : std::string("there is no ") + name;
    if (!wrong.empty())
        std::cerr << "check_large: " << wrong << "\n";
    return !wrong.empty();
}

int main(int argc, char **argv)
{
    std::ifstream file(argc > 1 ? argv[1] : "");
    std::stringstream text;
    text << file.rdbuf();
    ptx::Module m(text.str());
    uint16_t *z = sparse<uint16_t>(ROWS * VOCAB), *dz = sparse<uint16_t>(ROWS * VOCAB);
    int32_t *target = sparse<int32_t>(ROWS);
    float *loss = sparse<float>(ROWS), *lse = sparse<float>(ROWS), *dloss = sparse<float>(ROWS);
    for (uint64_t row : SOME) {
        for (int64_t c = 0; c < VOCAB; c++)
            z[(int64_t)row * VOCAB + c] = half((float)((row + (uint64_t)c * 37) % 101) / 16 - 3);
        target[row] = (int32_t)(row % VALID);
        dloss[row] = 2;
    }
    mg_xent_desc d = {};
    d.dtype = MG_BF16;
    d.rows = ROWS, d.vocab = VOCAB, d.valid = VALID;
    d.dloss_stride = 1, d.target_inner = ROWS;
    if (launched(m, "mg_xent_bf16", {&d, &z, &target, &loss, &lse}) ||
        launched(m, "mg_xent_grad_bf16", {&d, &z, &target, &lse, &dloss, &dz}))
        return 1;
    double most = 0; /* of a sum of floats; of gradients beside a rounding to bf16 */
    for (uint64_t row : SOME) {
        const uint16_t *x = z + (int64_t)row * VOCAB, *g = dz + (int64_t)row * VOCAB;
        double sum = 0;
        for (int64_t c = 0; c < VALID; c++)
            sum += exp((double)wide(x[c]));
        most = fmax(most, fabs((double)lse[row] / log(sum) - 1) / 1e-5);
        most = fmax(most, fabs((double)loss[row] / (log(sum) - wide(x[target[row]])) - 1) / 1e-5);
        for (int64_t c = 0; c < VOCAB; c++) {
            const double is = c < VALID ? 2 * (exp(wide(x[c])) / sum - (c == target[row])) : 0;
            most = fmax(most, fabs(wide(g[c]) - is) / (fabs(is) * (1.0 / 256 + 1e-5) + 1e-30));
        }
    }
    std::cout << "check_large: " << most << " of what rounding allows\n";
    return !(most <= 1);
}
