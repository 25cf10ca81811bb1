/* random_body.h - draws a tensor of random numbers on one type and vector unit (each_isa.h): plain
 * loops over MGK_WIDE counters, which the compiler vectorises. */

#define rounds NAME(rounds)

static void rounds(uint32_t c[4][MGK_WIDE], const uint32_t key[2])
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < MGK_WIDE; i++) {
            uint64_t p0 = (uint64_t)0xd2511f53u * c[0][i], p1 = (uint64_t)0xcd9e8d57u * c[2][i];
            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[1][i] = (uint32_t)p1;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[3][i] = (uint32_t)p0;
        }
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

/* Unit u: the numbers of counters [first / 4 + u * WIDE, + WIDE) that fall into out. */
static void NAME(draw)(void *ctx, int64_t begin, int64_t end, void *scratch)
{
    (void)scratch;
    const mgk_draw *w = ctx;
    for (int64_t unit = begin; unit < end; unit++) {
        const uint64_t block = w->first / 4 + (uint64_t)unit * MGK_WIDE;
        uint32_t c[4][MGK_WIDE];
        for (int i = 0; i < MGK_WIDE; i++) {
            c[0][i] = (uint32_t)(block + (uint64_t)i);
            c[1][i] = (uint32_t)((block + (uint64_t)i) >> 32);
            c[2][i] = (uint32_t)w->step;
            c[3][i] = (uint32_t)(w->step >> 32);
        }
        rounds(c, w->key);
        T u[4 * MGK_WIDE];
        for (int i = 0; i < MGK_WIDE; i++)
            for (int j = 0; j < 4; j++)
                u[4 * i + j] = (T)((float)(int32_t)(c[j][i] >> 8) * 0x1p-24f);
        const int64_t at = (int64_t)(block * 4 - w->first); /* of u[0] in out; may be negative */
        const int64_t from = at < 0 ? -at : 0, left = w->elements - at;
        const int64_t to = left < 4 * MGK_WIDE ? left : 4 * MGK_WIDE;
        memcpy((T *)w->out + at + from, u + from, (size_t)(to - from) * sizeof(T));
    }
}
