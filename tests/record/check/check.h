/* check.h - the rules that a recording (tests/record) is checked by, and what they share. A rule
 * says what it found; nothing that it finds ends the check. */
#ifndef CHECK_H
#define CHECK_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace check
{

/* A line of a recording: its word, the action that was running (-1: none), the fields behind. */
struct Line {
    long number;
    std::string word;
    int action;
    std::vector<std::string> field;
    uint64_t u(size_t i) const;
    int64_t i(size_t k) const;
};

/* Bytes that a call reads or writes: `rows` pieces of `row` bytes, `pitch` bytes apart. Its address
 * is at a multiple of `multiple` bytes, and so is each row where there are several. */
struct Piece {
    const char *name;
    uint64_t at, row, rows, pitch;
    bool reads, writes;
    uint64_t multiple;
    bool in_place; /* may be the same bytes, all of them, as another piece of the call */
    uint64_t end() const
    {
        return at + (rows - 1) * pitch + row;
    }
};
/* True if a byte is in both. Exact for rows of one pitch; otherwise the bytes between rows count.
 */
bool meet(const Piece &a, const Piece &b);

/* A call that does something on the device. */
struct Call {
    long line;
    int action;
    uint64_t stream;
    std::string what;
    std::vector<Piece> pieces;
    bool host; /* a copy from the host's memory, or to it */
};

/* ---- what was found ---------------------------------------------------------------------- */

/* Counts it under the rule, and prints the first few of each. */
void found(const char *rule, long line, int action, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* 0: nothing was found. */
long findings();
/* Names of actions, for the messages. */
void name_action(int action, const std::string &name);
/* Of the actions of a call, the number of the last. */
int actions();

/* ---- kernels (contracts.cc, generated.cc) ------------------------------------------------ */

struct Launch {
    std::string kernel;
    uint64_t grid[3], block[3], shared;
    std::string parameters; /* bytes, one after another */
};
/* Sets the pieces that a kernel reads and writes, by its parameters. False: it is not known.
 * Numbers that its index arithmetic has no room for are found. */
bool pieces_of(const Launch &l, long line, int action, std::vector<Piece> *pieces);
/* Reads what kernel_text.py found in the text of generated kernels; sets the pieces of these. */
void read_generated(const char *path);
bool generated_pieces(const Launch &l, long line, int action, std::vector<Piece> *pieces);
/* True of a kernel of kernels/cuda that has a contract. */
bool has_contract(const std::string &kernel);

/* ---- rules ------------------------------------------------------------------------------- */

/* Limits of a launch on a device of this compute capability. */
struct Limits {
    int capability;
    std::map<std::string, uint64_t> shared; /* by kernel: what was set */
    void launch(const Launch &l, long line, int action) const;
    void set_shared(const Line &l);
};

/* products.cc: what cuBLASLt requires; sets the pieces. */
void product(const Line &l, Call *call);

/* memory.cc: allocations, and the buffers of the plan. */
struct Memory {
    struct Block {
        uint64_t at, bytes;
        bool pinned, live;
        long freed;
    };
    std::map<uint64_t, Block> blocks;
    struct Buffer {
        std::string name;
        int lower, upper;
        uint64_t from, to;
    };
    std::vector<Buffer> buffers;
    std::vector<std::vector<const Buffer *>> live; /* by action */
    uint64_t now = 0, most = 0, arena = 0, arena_bytes = 0;
    void allocate(const Line &l, bool pinned);
    const Block *free(const Line &l);
    const Block *block_of(uint64_t at) const;
    void read_buffers(const char *path);
    /* in_step: the plan knows where the call's bytes may be. */
    void check(const Call &c, bool in_step) const;
};

/* overlap.cc: operands of one call. */
void overlap(const Call &c);

/* order.cc: what may run at the same time. */
class Order
{
  public:
    Order();
    ~Order();
    void line(const Line &l); /* streams, events, graphs */
    void call(const Call &c); /* now, or in the graph that is captured */
    bool capturing() const;   /* anything */
    void freed(const Memory::Block &b, const Line &l);
    struct Nodes {
        long all, products, apart; /* apart: kernels of epilogues that the library does not have */
    };
    Nodes nodes() const; /* of all graphs so far */
    long calls() const;  /* run so far, those of graphs each time */
    void end(long line) const;

  private:
    struct State;
    State *s;
};

} // namespace check
#endif
