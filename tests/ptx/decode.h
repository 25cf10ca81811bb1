/* decode.h - makes instructions that run of statements. Each group of instructions has a function
 * that says whether a statement is one of its own; it throws Unknown if it knows the opcode but not
 * this form. A statement that no group has is Unknown too: nothing is skipped. */
#ifndef PTX_DECODE_H
#define PTX_DECODE_H

#include <map>

#include "tests/ptx/machine.h"

namespace ptx
{

/* globals: where the module's variables are. */
std::unique_ptr<Kernel> decode(const Text &text, const Entry &entry,
                               const std::map<std::string, char *> &globals);

struct Decoder {
    struct Register {
        Slot slot;
        unsigned width; /* bytes of a lane; 1: a predicate, of one bit */
    };

    Kernel &kernel;
    const Text &text;
    const std::map<std::string, char *> &globals;
    std::vector<std::map<std::string, Register>> scopes;
    std::map<std::pair<uint64_t, unsigned>, Slot> constants;
    std::map<std::string, Register> specials;
    std::map<std::string, uint64_t> places; /* of variables in shared and local memory */
    std::map<std::string, std::vector<Operand>> targets;
    std::map<std::string, uint32_t> labels;
    const Statement *now = nullptr;

    Decoder(Kernel &k, const Text &t, const std::map<std::string, char *> &g)
        : kernel(k), text(t), globals(g), scopes(1)
    {
    }

    [[noreturn]] void wrong(const std::string &what) const;
    /* This form of the instruction is not known. */
    [[noreturn]] void unknown() const;
    void expect(bool is) const
    {
        if (!is)
            unknown();
    }
    const Operand &operand(size_t i) const
    {
        expect(i < now->operands.size());
        return now->operands[i];
    }

    Slot room(unsigned width);
    void declare(const std::string &name, const std::string &type);
    const Register *find(const std::string &name) const;
    Slot constant(uint64_t bits, unsigned width);
    /* A register or a number of that many bytes. */
    Slot read(const Operand &o, unsigned width);
    Slot write(const Operand &o, unsigned width);
    /* Any register, or a number as of `usual` bytes. */
    Register any(const Operand &o, unsigned usual);
    Slot predicate(const Operand &o); /* not negated */
    /* The value of "[base + n]": o.a is the base's slot, o.offset n, o.count the width of the base.
     */
    void address(Op &o, const Operand &at);
    Space space() const; /* of "ld.global": the words say it */
    std::string last_type() const
    {
        return now->words.back();
    }
    /* The slots of a vector's registers. */
    std::vector<Slot> vector(const Operand &o, unsigned width, bool written);
};

/* The address of an instruction for a lane; see Decoder::address. */
static inline uint64_t address_of(Warp &w, const Op &o, Slot base, unsigned width, int lane)
{
    return (width == 8 ? w.at<uint64_t>(base)[lane] : w.at<uint32_t>(base)[lane]) +
           (uint64_t)o.offset;
}

typedef bool Group_of(Decoder &d, Op &o);
Group_of integer_group, float_group, compare_group, convert_group, move_group, access_group,
    atomic_group, lane_group, control_group, copy_group, matrix_group, warpgroup_group,
    mbarrier_group;

bool is_special(const std::string &name, unsigned *width, int *which);

} // namespace ptx

#endif
