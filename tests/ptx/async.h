/* async.h - what is under way in a block: copies to shared memory, products of warpgroups, and
 * barriers in shared memory. */
#ifndef PTX_ASYNC_H
#define PTX_ASYNC_H

#include <map>
#include <stdint.h>
#include <vector>

namespace ptx
{

struct Warp;
struct Block;

/* A copy of up to 16 bytes by cp.async: done when its thread has waited for its group. */
struct Copy {
    uint32_t to; /* shared memory */
    uint64_t from;
    uint32_t bytes, there; /* zeros follow what is there */
    uint64_t group;
};
struct Copies {
    std::vector<Copy> open;
    uint64_t group = 0; /* that the next copy belongs to */
};

/* A product of a warpgroup, what of it a warp has. */
struct Product {
    uint64_t group;
    int sums; /* number in Groups::sums */
    bool computed, add;
    float scale_a, scale_b;
    struct {
        bool in_registers, turned_a, turned_b, bf16;
        unsigned n;
    } form;
    uint32_t registers[4][32]; /* of the first operand, and which */
    int32_t operands[4];
    uint64_t a, b;               /* descriptors */
    std::vector<uint32_t> reads; /* pieces of 16 bytes of shared memory */
};

/* Accumulators that products are adding to: their registers hold NaN until they are waited for.
 * registers[i]: where element i is; copies of a register by mov hold it too. */
struct Sums {
    int number;
    std::vector<int32_t> registers;
    std::vector<std::pair<int32_t, unsigned>> copies; /* slot, element */
    std::vector<float> x;                             /* [element][lane] */
};

struct Groups {
    uint64_t group = 0; /* that the next product belongs to */
    int numbers = 0;
    std::vector<Product> products;
    std::vector<Sums> sums;
    uint64_t time = 0, fenced = 0;       /* the order of writes to registers and of fences */
    std::map<int32_t, uint64_t> written; /* a register of products: when others wrote it */

    bool open() const
    {
        return !sums.empty();
    }
};

/* A barrier object in shared memory (mbarrier). */
struct Mbarrier {
    uint32_t count = 0;   /* arrivals of a phase */
    uint32_t pending = 0; /* that are missing in this one */
    uint64_t phase = 0;
};
typedef std::map<uint32_t, Mbarrier> Mbarriers;

} // namespace ptx

#endif
