/* machine.h - what runs PTX: kernels as decoded instructions, warps with their registers, and the
 * block that has their memory.
 *
 * A register is a slot of the warp's file: its value in each of the 32 lanes, one after another, in
 * elements of its own size; a predicate is a mask of 32 bits. Immediate numbers and special
 * registers are slots too, which are filled before the first instruction. So an instruction reads
 * and writes slots, and nothing else is looked up when it runs.
 *
 * Each lane has its own place in the code (pc). The lanes at the least place run together. */
#ifndef PTX_MACHINE_H
#define PTX_MACHINE_H

#include <memory>
#include <stdint.h>
#include <string>
#include <vector>

#include "tests/ptx/async.h"
#include "tests/ptx/launch.h"
#include "tests/ptx/memory.h"
#include "tests/ptx/text.h"

namespace ptx
{

enum { LANES = 32, BARRIERS = 16, NO_SLOT = -1 };
const unsigned ALL_LANES = ~0u;

typedef int32_t Slot; /* bytes from the beginning of the file */
struct Op;
typedef void (*Run)(Warp &, const Op &);

struct Op {
    enum Kind : uint8_t {
        PLAIN,
        BRANCH,
        BRANCH_INDEX, /* to list[a] */
        EXIT,
        MEET,    /* the lanes of a mask come together, then it runs for all of them */
        BARRIER, /* of the block: a: which; b: threads that take part, or NO_SLOT */
        ARRIVE,  /* the same, without waiting */
        POLL     /* others should run afterwards */
    };
    Run run = nullptr;
    Slot d = NO_SLOT, a = NO_SLOT, b = NO_SLOT, c = NO_SLOT, e = NO_SLOT;
    Slot guard = NO_SLOT;
    Slot mask = NO_SLOT; /* MEET: NO_SLOT: all lanes */
    uint32_t target = 0;
    Kind kind = PLAIN;
    bool guard_not = false;
    bool anywhere = false; /* MEET: lanes may be at different ones of these */
    bool watched = false;  /* it writes a register that a product of a warpgroup has */
    uint8_t space = 0, bytes = 0, count = 0, how = 0;
    uint8_t writes = 0;     /* so many of list, from its beginning, are written */
    int64_t offset = 0;     /* of an address */
    std::vector<Slot> list; /* registers of vectors and of products */
    const Statement *text = nullptr;
};

struct Constant {
    Slot slot;
    unsigned width;
    uint64_t bits;
};
/* A special register, as sreg.cc numbers them. */
struct Special {
    Slot slot;
    int which;
};

struct Kernel {
    const Entry *entry = nullptr;
    std::vector<Op> code;
    std::vector<Constant> constants;
    std::vector<Special> specials;
    uint32_t file_bytes = 0;
    /* Shared memory of the kernel's own; what a launch asks for follows from dynamic_at on. */
    struct Place {
        uint32_t at, bytes;
    };
    std::vector<Place> shared;
    uint32_t shared_end = 0, dynamic_at = 0;
    uint32_t local_bytes = 0;
    bool asynchronous = false; /* it has products of warpgroups */
    std::vector<Slot> watched; /* registers of such products */
};

enum State : uint8_t { READY, AT_MEETING, AT_BARRIER, DONE };

struct Warp {
    Block *block;
    int number;
    unsigned exists; /* lanes that there are */
    unsigned active; /* lanes that the instruction is for */
    State state[LANES];
    uint32_t pc[LANES];
    int barrier[LANES]; /* that a lane waits at */
    std::vector<char> memory;
    char *file;    /* registers */
    bool polls;    /* it asked for something that is not there yet */
    Groups groups; /* of products (wgmma.cc) */

    template <class T> T *at(Slot s)
    {
        return (T *)(file + s);
    }
    unsigned thread(int lane) const
    {
        return (unsigned)(number * LANES + lane);
    }
};

struct Barrier {
    unsigned arrived = 0, wanted = 0;
};

struct Block {
    const Kernel *kernel;
    const Launch *launch;
    unsigned threads;
    Dim at;
    std::vector<char> parameters;
    Shared shared;
    std::vector<char> local;
    std::vector<Copies> copies; /* by thread */
    Mbarriers mbarriers;
    Barrier barrier[BARRIERS];
    std::vector<Warp> warps;
    uint64_t rng, steps;
    Ranges::Cache near; /* of global memory */

    unsigned draw(unsigned n)
    {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        return (unsigned)((rng >> 11) % n);
    }
};

/* An instruction that did what it may not; the schedule adds where. */
struct Fault : std::runtime_error {
    int lane;
    Fault(const std::string &what, int of_lane = -1) : std::runtime_error(what), lane(of_lane)
    {
    }
};

/* Calls f(lane) for each lane that takes part. */
template <class F> static inline void each_lane(unsigned active, F f)
{
    if (active == ALL_LANES) {
        for (int lane = 0; lane < LANES; lane++)
            f(lane);
    } else {
        for (unsigned m = active; m; m &= m - 1)
            f(__builtin_ctz(m));
    }
}

/* A register that a product of a warpgroup has is about to be written (wgmma.cc). */
void note_written(Warp &w, const Op &o);
/* A register was copied to another by mov while products are under way. */
void note_copied(Warp &w, Slot to, Slot from);

/* Fills the slots of special registers (sreg.cc), for each block. */
void set_specials(Warp &w);

/* Runs the block to its end; throws Fault with all that is to be said. */
void run_block(Block &b);

} // namespace ptx

#endif
