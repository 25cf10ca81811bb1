/* attention_tiles.h - products of attention on the tiles of AMX (amx.h); continues strip.h, so no
 * include guard.
 *
 * Keys and values come from memory, and have as many bf16 parts as their type. Computed operands
 * (scaled queries and probabilities) are floats with three parts, or, if the memory type is a half,
 * with two (16 bits). The pairing of terms is free if both operands agree: along heads and keys it
 * is the pairing of amx_pack.h, which keys and values have; along lanes a pair is two lanes half a
 * strip apart. */

#define Tiles         NAME(Tiles)
#define tiles_carve   NAME(tiles_carve)
#define tiles_pack    NAME(tiles_pack)
#define tiles_terms   NAME(tiles_terms)
#define tiles_keys    NAME(tiles_keys)
#define tiles_rows    NAME(tiles_rows)
#define tiles_product NAME(tiles_product)
#define tiles_chunks  NAME(tiles_chunks)
#define own_put       NAME(own_put)

/* Tiles of an operand in scratch. */
typedef struct Tiles {
    char *at;
    int64_t step; /* bytes from a tile of lines to the next */
    int parts;
} Tiles;

#undef TILED
#if VBYTES == 64 && !MGK_F64

#include "kernels/amx_pack.h"

#define TILED     (mgk_isa() == MGK_AMX)
#define OWN_PARTS (AMX_PARTS == 3 ? 3 : 2)

/* Stores a row of a tile in all its parts: pairs of x and y. */
MGK_INLINE void own_put(V x, V y, char *to)
{
    amx_put(x, y, OWN_PARTS, to);
}

MGK_INLINE int64_t tiles_chunks(int64_t terms)
{
    return (terms + MGK_AMX_TERMS - 1) / MGK_AMX_TERMS;
}

/* Allocates room for `lines` lines and `terms` terms, of memory numbers or (own) computed ones. */
static Tiles tiles_carve(char **scratch, int64_t lines, int64_t terms, bool own)
{
    Tiles t = {.at = *scratch, .parts = own ? OWN_PARTS : AMX_PARTS};
    t.step = tiles_chunks(terms) * t.parts * MGK_AMX_BYTES;
    *scratch += (lines + MGK_AMX_LINES - 1) / MGK_AMX_LINES * t.step;
    return t;
}

/* Packs numbers of memory as the left operand. `along`: terms are contiguous; otherwise lines
 * are. */
static void tiles_pack(const E *from, int64_t ld, bool along, int64_t lines, int64_t terms,
                       Tiles *to)
{
    to->step = tiles_chunks(terms) * to->parts * MGK_AMX_BYTES;
    amx_pack(from, ld, along, false, lines, terms, false, to->at); /* attention has prefetched it */
}

/* Packs `terms` rows of a strip's lanes as the right operand. */
static void tiles_terms(const T *from, int64_t terms, Tiles *to)
{
    const int64_t x = AMX_PARTS == 1 ? 2 : 1, y = AMX_PARTS == 1 ? 1 : VL;
    to->step = tiles_chunks(terms) * to->parts * MGK_AMX_BYTES;
    for (int64_t p = 0; p < terms; p += MGK_AMX_TERMS, from += MGK_AMX_TERMS * LANES)
        for (int64_t j = 0; j < MGK_STRIP_VECS; j++) {
            char *tile = to->at + j * to->step + p / MGK_AMX_TERMS * to->parts * MGK_AMX_BYTES;
            const T *at = from + j * VL;
            if (terms - p >= MGK_AMX_TERMS)
                for (int64_t r = 0; r < VL; r++)
                    own_put(vload(at + r * x * LANES), vload(at + (r * x + y) * LANES),
                            tile + r * VBYTES);
            else
                for (int64_t r = 0; r < VL; r++) {
                    const int64_t one = r * x, two = r * x + y;
                    own_put(p + one < terms ? vload(at + one * LANES) : vall(0),
                            p + two < terms ? vload(at + two * LANES) : vall(0), tile + r * VBYTES);
                }
        }
}

/* Packs rows of a strip's lanes as the left operand, whose lanes are chunk `chunk` of the terms:
 * `keys` rows, and zeros in further rows up to `lines`. */
static void tiles_keys(const T *from, int64_t keys, int64_t lines, const Tiles *to, int64_t chunk)
{
    char *at = to->at + chunk * to->parts * MGK_AMX_BYTES;
    for (int64_t i = 0; i < lines; i++, from += LANES) {
        char *row = at + i / MGK_AMX_LINES * to->step + i % MGK_AMX_LINES * VBYTES;
        if (i < keys)
            own_put(vload(from), vload(from + VL), row);
        else
            own_put(vall(0), vall(0), row);
    }
}

/* Packs the lanes' rows as the right operand: its columns are the `wide` numbers of a row. */
static void tiles_rows(const T *from, int64_t wide, const Tiles *to, int64_t chunk)
{
    for (int64_t j = 0; j < wide; j += VL) {
        char *tile = to->at + j / VL * to->step + chunk * to->parts * MGK_AMX_BYTES;
        for (int64_t r = 0; r < VL; r++)
            own_put(vload(from + r * wide + j), vload(from + (r + VL) * wide + j),
                    tile + r * VBYTES);
    }
}

/* c (+)= a b over `terms` terms from chunk `from` on. m and n are rounded up to whole tiles. */
static void tiles_product(int64_t m, int64_t n, int64_t from, int64_t terms, const Tiles *a,
                          const Tiles *b, T *c, int64_t ldc, bool add)
{
    mgk_amx_near(&(mgk_amx_tiles){.m = mgk_round_up(m, MGK_AMX_LINES),
                                  .n = mgk_round_up(n, MGK_AMX_LINES),
                                  .chunks = tiles_chunks(terms),
                                  .a_parts = a->parts,
                                  .b_parts = b->parts,
                                  .a = a->at + from * a->parts * MGK_AMX_BYTES,
                                  .b = b->at + from * b->parts * MGK_AMX_BYTES,
                                  .a_step = a->step,
                                  .b_step = b->step,
                                  .c = c,
                                  .ldc = ldc,
                                  .add = add});
}

#else

#define TILED false

static Tiles tiles_carve(char **scratch, int64_t lines, int64_t terms, bool own)
{
    (void)scratch, (void)lines, (void)terms, (void)own;
    return (Tiles){0};
}

static void tiles_pack(const E *from, int64_t ld, bool along, int64_t lines, int64_t terms,
                       Tiles *to)
{
    (void)from, (void)ld, (void)along, (void)lines, (void)terms, (void)to;
}

static void tiles_terms(const T *from, int64_t terms, Tiles *to)
{
    (void)from, (void)terms, (void)to;
}

static void tiles_keys(const T *from, int64_t keys, int64_t lines, const Tiles *to, int64_t chunk)
{
    (void)from, (void)keys, (void)lines, (void)to, (void)chunk;
}

static void tiles_rows(const T *from, int64_t wide, const Tiles *to, int64_t chunk)
{
    (void)from, (void)wide, (void)to, (void)chunk;
}

static void tiles_product(int64_t m, int64_t n, int64_t from, int64_t terms, const Tiles *a,
                          const Tiles *b, T *c, int64_t ldc, bool add)
{
    (void)m, (void)n, (void)from, (void)terms, (void)a, (void)b, (void)c, (void)ldc, (void)add;
}

#endif
