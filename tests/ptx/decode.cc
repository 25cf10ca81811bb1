/* decode.cc - registers, constants, labels and memory of a kernel, and its statements one by one.
 */
#include "tests/ptx/decode.h"

#include <stdlib.h>
#include <string.h>

namespace ptx
{

void Decoder::wrong(const std::string &what) const
{
    throw Unknown("line " + std::to_string(now ? now->line : 0) + ": " + what);
}

void Decoder::unknown() const
{
    wrong("the instruction is not known: " + now->text);
}

/* ---- slots -------------------------------------------------------------------------------- */

Slot Decoder::room(unsigned width)
{
    const uint32_t bytes = width == 1 ? 4 : width * LANES;
    const uint32_t align = width == 1 ? 4 : 64;
    const uint32_t at = (kernel.file_bytes + align - 1) / align * align;
    kernel.file_bytes = at + bytes;
    return (Slot)at;
}

void Decoder::declare(const std::string &name, const std::string &type)
{
    const unsigned width = type == "pred" ? 1 : type_bytes(type);
    if (!width || width > 8 || (width == 1 && type != "pred"))
        wrong("registers of type ." + type + " are not known");
    scopes.back()[name] = Register{room(width), width};
}

const Decoder::Register *Decoder::find(const std::string &name) const
{
    for (size_t i = scopes.size(); i--;) {
        auto at = scopes[i].find(name);
        if (at != scopes[i].end())
            return &at->second;
    }
    auto at = specials.find(name);
    return at == specials.end() ? nullptr : &at->second;
}

Slot Decoder::constant(uint64_t bits, unsigned width)
{
    if (width > 1 && width < 8)
        bits &= ((uint64_t)1 << 8 * width) - 1;
    auto made = constants.insert({{bits, width}, NO_SLOT});
    if (made.second) {
        made.first->second = room(width);
        kernel.constants.push_back(Constant{made.first->second, width, bits});
    }
    return made.first->second;
}

Decoder::Register Decoder::any(const Operand &o, unsigned usual)
{
    if (o.kind == Operand::INTEGER)
        return Register{constant(o.number, usual), usual};
    if (o.kind == Operand::SINGLE)
        return Register{constant(o.number, 4), 4};
    if (o.kind == Operand::DOUBLE)
        return Register{constant(o.number, 8), 8};
    if (o.kind != Operand::NAME || o.negated)
        unknown();
    if (const Register *r = find(o.name))
        return *r;
    unsigned width;
    int which;
    if (is_special(o.name, &width, &which)) {
        const Register r = {room(width), width};
        kernel.specials.push_back(Special{r.slot, which});
        return specials[o.name] = r;
    }
    auto place = places.find(o.name);
    if (place != places.end())
        return Register{constant(place->second + o.number, usual), usual};
    auto global = globals.find(o.name);
    if (global != globals.end())
        return Register{constant((uint64_t)global->second + o.number, usual), usual};
    wrong("there is no " + o.name);
}

Slot Decoder::read(const Operand &o, unsigned width)
{
    const Register r = any(o, width);
    expect(r.width == width);
    return r.slot;
}

Slot Decoder::write(const Operand &o, unsigned width)
{
    if (o.kind == Operand::NAME && o.name == "_")
        return room(width);
    const Register *r = o.kind == Operand::NAME && !o.negated ? find(o.name) : nullptr;
    expect(r && r->width == width);
    return r->slot;
}

Slot Decoder::predicate(const Operand &o)
{
    return read(o, 1);
}

std::vector<Slot> Decoder::vector(const Operand &o, unsigned width, bool written)
{
    std::vector<Slot> all;
    if (o.kind != Operand::VECTOR)
        all.push_back(written ? write(o, width) : read(o, width));
    for (const Operand &part : o.parts)
        all.push_back(written ? write(part, width) : read(part, width));
    return all;
}

void Decoder::address(Op &o, const Operand &at)
{
    expect(at.kind == Operand::ADDRESS && at.parts.size() == 1);
    Operand base = at.parts[0];
    uint64_t offset = at.number;
    if (base.kind == Operand::NAME) {
        offset += base.number;
        base.number = 0;
    }
    const Register r = any(base, 8);
    expect(r.width >= 4);
    o.a = r.slot;
    o.count = (uint8_t)r.width;
    o.offset = (int64_t)offset;
}

Space Decoder::space() const
{
    for (const std::string &w : now->words) {
        if (w == "global")
            return GLOBAL;
        if (w == "const")
            return CONST;
        if (w == "shared" || w == "shared::cta")
            return SHARED;
        if (w == "local")
            return LOCAL;
        if (w == "param" || w == "param::entry")
            return PARAM;
        if (w.compare(0, 8, "shared::") == 0)
            unknown();
    }
    return GENERIC;
}

/* ---- memory of a kernel ------------------------------------------------------------------- */

static uint64_t up(uint64_t x, uint64_t to)
{
    return (x + to - 1) / to * to;
}

static bool names_it(const Operand &o, const std::string &name)
{
    if (o.name == name)
        return true;
    for (const Operand &part : o.parts)
        if (names_it(part, name))
            return true;
    return false;
}

static bool uses(const Entry &e, const std::string &name)
{
    for (const Statement &s : e.body)
        for (const Operand &o : s.operands)
            if (names_it(o, name))
                return true;
    return false;
}

/* A gap follows each variable, so that a step beyond one is not a step into the next. */
static void place_shared(Decoder &d, const Variable &v, uint64_t *end)
{
    enum { GAP = 16 };
    const uint64_t at = up(*end, v.align);
    d.places[v.name] = at;
    d.kernel.shared.push_back(Kernel::Place{(uint32_t)at, (uint32_t)v.bytes});
    *end = at + v.bytes + GAP;
}

static void place_all(Decoder &d, const Entry &e)
{
    uint64_t end = SHARED_FIRST, local = 0, align = 16;
    for (const std::vector<Variable> *list : {&d.text.variables, &e.variables})
        for (const Variable &v : *list) {
            if (v.space == "shared" && !v.is_extern && uses(e, v.name))
                place_shared(d, v, &end);
            if (v.space == "local") {
                d.places[v.name] = local = up(local, v.align);
                local += v.bytes;
            }
            if (v.is_extern && v.align > align)
                align = v.align;
        }
    d.kernel.local_bytes = (uint32_t)up(local, 16);
    d.kernel.shared_end = (uint32_t)end;
    d.kernel.dynamic_at = (uint32_t)up(end, align);
    for (const Variable &v : d.text.variables)
        if (v.is_extern)
            d.places[v.name] = d.kernel.dynamic_at;
    for (const Parameter &p : e.parameters)
        d.places[p.name] = p.at;
}

/* ---- statements --------------------------------------------------------------------------- */

static void declare_all(Decoder &d, const Statement &s)
{
    if (!s.count)
        d.declare(s.name, s.type);
    for (int i = 0; i < s.count; i++)
        d.declare(s.name + std::to_string(i), s.type);
}

static void instruction(Decoder &d, const Statement &s)
{
    static Group_of *const groups[] = {move_group,    access_group,  integer_group, float_group,
                                       compare_group, convert_group, control_group, lane_group,
                                       atomic_group,  copy_group,    matrix_group,  warpgroup_group,
                                       mbarrier_group};
    Op o;
    o.text = &s;
    if (!s.guard.empty()) {
        Operand guard;
        guard.name = s.guard;
        o.guard = d.predicate(guard);
        o.guard_not = s.guard_not;
    }
    for (Group_of *group : groups)
        if (group(d, o)) {
            d.kernel.code.push_back(o);
            return;
        }
    d.unknown();
}

static void resolve(Decoder &d)
{
    for (Op &o : d.kernel.code) {
        if (o.kind != Op::BRANCH && o.kind != Op::BRANCH_INDEX)
            continue;
        d.now = o.text;
        std::vector<std::string> names;
        if (o.kind == Op::BRANCH)
            names.push_back(o.text->operands[0].name);
        else
            for (const Operand &t : d.targets[o.text->operands[1].name])
                names.push_back(t.name);
        for (const std::string &name : names) {
            if (!d.labels.count(name))
                d.wrong("there is no label " + name);
            o.target = d.labels[name];
            o.list.push_back((Slot)o.target);
        }
    }
}

/* Instructions that write a register which a product of a warpgroup reads or adds to. */
static void watch(Kernel &k)
{
    std::map<Slot, bool> of_products;
    for (Slot s : k.watched)
        of_products[s] = true;
    if (of_products.empty())
        return;
    for (Op &o : k.code) {
        o.watched = of_products.count(o.d) > 0;
        for (unsigned i = 0; i < o.writes; i++)
            o.watched |= of_products.count(o.list[i]) > 0;
    }
}

std::unique_ptr<Kernel> decode(const Text &text, const Entry &entry,
                               const std::map<std::string, char *> &globals)
{
    std::unique_ptr<Kernel> k(new Kernel);
    k->entry = &entry;
    Decoder d(*k, text, globals);
    place_all(d, entry);
    for (const Statement &s : entry.body) {
        d.now = &s;
        switch (s.kind) {
        case Statement::OPEN:
            d.scopes.push_back({});
            break;
        case Statement::CLOSE:
            if (d.scopes.size() > 1)
                d.scopes.pop_back();
            break;
        case Statement::REGISTERS:
            declare_all(d, s);
            break;
        case Statement::LABEL:
            d.labels[s.name] = (uint32_t)k->code.size();
            break;
        case Statement::TARGETS:
            d.targets[s.name] = s.operands;
            break;
        case Statement::VARIABLE:
            break; /* place_all */
        case Statement::INSTRUCTION:
            instruction(d, s);
            break;
        }
    }
    Op end;
    end.kind = Op::EXIT;
    k->code.push_back(end);
    resolve(d);
    watch(*k);
    return k;
}

} // namespace ptx
