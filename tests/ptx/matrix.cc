/* matrix.cc - the tensor cores of a warp: ldmatrix, stmatrix and mma.sync.
 *
 * Fragments are those of the PTX ISA, "Warp Level Matrix Instructions". With g = lane / 4 and
 * t = lane % 4, register r of a matrix of 8 rows of 16 bytes has bytes 4t .. 4t + 3 of row g. The
 * operands of mma.m16n8k8 and k16 consist of such matrices: a of rows g and g + 8, then of the next
 * 16 bytes; b of columns g. */
#include "tests/ptx/convert.h"
#include "tests/ptx/lanes.h"

#include <string.h>

namespace ptx
{

static void need_all(const Warp &w)
{
    if (w.active != ALL_LANES)
        throw Fault("not all 32 lanes of the warp are there");
}

/* ---- ldmatrix ----------------------------------------------------------------------------- */

/* list: the registers, one for each matrix; how: 1: transposed. Lane 8i + r has the address of row
 * r of matrix i. */
static void row_of(Warp &w, const Op &o, int lane, Use use, char **row)
{
    *row = memory_at(w, lane, (Space)o.space, address_of(w, o, o.a, o.count, lane), 16, use);
}

static void run_load_matrices(Warp &w, const Op &o)
{
    uint32_t all[4][LANES];
    need_all(w);
    for (size_t i = 0; i < o.list.size(); i++) {
        char *row[8];
        for (int r = 0; r < 8; r++)
            row_of(w, o, (int)i * 8 + r, READ, &row[r]);
        for (int lane = 0; lane < LANES; lane++) {
            const int g = lane / 4, t = lane % 4;
            uint16_t half[2];
            for (int k = 0; k < 2; k++)
                if (o.how & 1)
                    memcpy(&half[k], row[2 * t + k] + 2 * g, 2);
                else
                    memcpy(&half[k], row[g] + 4 * t + 2 * k, 2);
            all[i][lane] = (uint32_t)half[1] << 16 | half[0];
        }
    }
    for (size_t i = 0; i < o.list.size(); i++)
        memcpy(w.at<uint32_t>(o.list[i]), all[i], sizeof all[i]);
}

static void run_store_matrices(Warp &w, const Op &o)
{
    need_all(w);
    for (size_t i = 0; i < o.list.size(); i++) {
        char *row[8];
        for (int r = 0; r < 8; r++)
            row_of(w, o, (int)i * 8 + r, WRITE, &row[r]);
        for (int lane = 0; lane < LANES; lane++) {
            const int g = lane / 4, t = lane % 4;
            const uint32_t x = w.at<uint32_t>(o.list[i])[lane];
            for (int k = 0; k < 2; k++) {
                const uint16_t half = (uint16_t)(x >> 16 * k);
                memcpy(o.how & 1 ? row[2 * t + k] + 2 * g : row[g] + 4 * t + 2 * k, &half, 2);
            }
        }
    }
}

static bool matrices(Decoder &d, Op &o)
{
    const bool loads = d.now->words[0] == "ldmatrix";
    size_t n = 0;
    for (size_t i = 1; i < d.now->words.size(); i++) {
        const std::string &w = d.now->words[i];
        if (w == "x1" || w == "x2" || w == "x4")
            n = (size_t)(w[1] - '0');
        else if (w == "trans")
            o.how = 1;
        else
            d.expect(w == "sync" || w == "aligned" || w == "m8n8" || w == "shared" ||
                     w == "shared::cta" || w == "b16");
    }
    d.expect(n && d.now->has("m8n8") && d.now->operands.size() == 2);
    d.address(o, d.operand(loads ? 1 : 0));
    o.list = d.vector(d.operand(loads ? 0 : 1), 4, loads);
    o.writes = loads ? (uint8_t)n : 0;
    d.expect(o.list.size() == n);
    o.space = d.space();
    o.kind = Op::MEET;
    o.run = loads ? run_load_matrices : run_store_matrices;
    return true;
}

/* ---- mma ---------------------------------------------------------------------------------- */

enum Type : uint8_t { BF16, F16, TF32 };

/* Number k of a lane's register of numbers. */
static double number(uint8_t type, uint32_t x, unsigned k)
{
    float y;
    if (type != TF32)
        return type == BF16 ? from_bf16((uint16_t)(x >> 16 * k))
                            : from_f16((uint16_t)(x >> 16 * k));
    x &= ~(uint32_t)0x1fff;
    memcpy(&y, &x, 4);
    return y;
}

/* how: the type; bytes: registers of a; list: d, a, b, c. Terms are added in double, as the
 * hardware's order and width are not said. */
static void run_mma(Warp &w, const Op &o)
{
    const unsigned na = o.bytes, nb = na / 2, per = o.how == TF32 ? 1 : 2; /* numbers a register */
    const unsigned depth = nb * 4 * per;
    double a[16][16], b[16][8], sum[16][8];
    need_all(w);
    for (unsigned lane = 0; lane < LANES; lane++) {
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned k = 0; k < per; k++) {
            for (unsigned r = 0; r < na; r++)
                a[g + r % 2 * 8][r / 2 * 4 * per + t * per + k] =
                    number(o.how, w.at<uint32_t>(o.list[4 + r])[lane], k);
            for (unsigned r = 0; r < nb; r++)
                b[r * 4 * per + t * per + k][g] =
                    number(o.how, w.at<uint32_t>(o.list[4 + na + r])[lane], k);
        }
        for (unsigned i = 0; i < 4; i++)
            sum[g + i / 2 * 8][2 * t + i % 2] = w.at<float>(o.list[4 + na + nb + i])[lane];
    }
    for (unsigned i = 0; i < 16; i++)
        for (unsigned k = 0; k < depth; k++)
            for (unsigned j = 0; j < 8; j++)
                sum[i][j] += a[i][k] * b[k][j];
    for (unsigned lane = 0; lane < LANES; lane++)
        for (unsigned i = 0; i < 4; i++)
            w.at<float>(o.list[i])[lane] = (float)sum[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
}

static bool mma(Decoder &d, Op &o)
{
    const std::vector<std::string> &w = d.now->words;
    d.expect(w.size() == 10 && w[1] == "sync" && w[2] == "aligned" && w[4] == "row" &&
             w[5] == "col" && w[6] == "f32" && w[7] == w[8] && w[9] == "f32" &&
             d.now->operands.size() == 4);
    const std::string &shape = w[3], &t = w[7];
    o.how = t == "bf16" ? BF16 : t == "f16" ? F16 : TF32;
    d.expect(t == "bf16" || t == "f16" || t == "tf32");
    const bool deep = shape == (o.how == TF32 ? "m16n8k8" : "m16n8k16");
    d.expect(deep || shape == (o.how == TF32 ? "m16n8k4" : "m16n8k8"));
    o.bytes = deep ? 4 : 2;
    for (size_t i = 0; i < 4; i++) {
        const std::vector<Slot> s = d.vector(d.operand(i), 4, i == 0);
        d.expect(s.size() == (i == 1 ? o.bytes : i == 2 ? o.bytes / 2u : 4u));
        o.list.insert(o.list.end(), s.begin(), s.end());
    }
    o.writes = 4;
    o.kind = Op::MEET;
    o.run = run_mma;
    return true;
}

bool matrix_group(Decoder &d, Op &o)
{
    const std::string &name = d.now->words[0];
    if (name == "ldmatrix" || name == "stmatrix")
        return matrices(d, o);
    return name == "mma" ? mma(d, o) : false;
}

} // namespace ptx
