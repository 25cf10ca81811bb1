/* amx.c - see amx.h. */
#include "kernels/amx.h"
#include "kernels/isa.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux gives a process the tiles' place among what it saves of a thread if asked (x86/xstate). */
static bool granted;

__attribute__((constructor)) static void ask(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    const unsigned bf16 = 1u << 22, tile = 1u << 24; /* of leaf 7's edx */
    unsigned a, b, c, d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && d & bf16 && d & tile)
        granted = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

bool mgk_amx_there(void)
{
    return granted;
}

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4,amx-tile,amx-bf16"))),          \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,amx-tile,amx-bf16")
#endif

/* gcc's intrinsics do not say that they read memory: what was written before is there. */
MGK_INLINE void settle(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Tiles of C are registers 0 to 3, of A 4 and 5, of B 6 and 7. */

void mgk_amx_begin(void)
{
    struct {
        uint8_t palette, start, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shape.bytes[i] = 64;
        shape.rows[i] = 16;
    }
    settle();
    _tile_loadconfig(&shape);
}

void mgk_amx_end(void)
{
    _tile_release();
}

/* Terms of `rows` x `cols` tiles (1 or 2 each) of C: part x of A times part y of B. What is the
 * part of the step before is in its registers. */
MGK_INLINE void step(int rows, int cols, const char *a, const char *a2, const char *b,
                     const char *b2, int x, int y, bool new_a, bool new_b)
{
    if (new_a)
        _tile_loadd(4, a + x * MGK_AMX_BYTES, 64);
    if (new_b)
        _tile_loadd(6, b + y * MGK_AMX_BYTES, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (cols == 2) {
        if (new_b)
            _tile_loadd(7, b2 + y * MGK_AMX_BYTES, 64);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (rows == 2) {
        if (new_a)
            _tile_loadd(5, a2 + x * MGK_AMX_BYTES, 64);
        _tile_dpbf16ps(2, 5, 6);
        if (cols == 2)
            _tile_dpbf16ps(3, 5, 7);
    }
}

/* What comes next, of a panel of B and of C. It is asked for beside the products, at an even pace
 * and without a question: branches there cost a tenth of the time (measured). Beyond the end of
 * anything this does nothing. */
typedef struct Soon {
    const char *b, *c;
    int64_t row; /* bytes between rows of C */
} Soon;

/* In a chunk of terms, `lines` of B, and 3 rows of C: all of its 32, where sums are long. */
MGK_INLINE void fetch(Soon *s, int lines)
{
#pragma GCC unroll 12
    for (int i = 0; i < lines; i++, s->b += 64)
        __builtin_prefetch(s->b, 0, 2);
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++, s->c += s->row) {
        __builtin_prefetch(s->c, 0, 2);
        __builtin_prefetch(s->c + 64, 0, 2);
    }
}

/* All terms, the smallest parts first. */
MGK_INLINE void terms(int rows, int cols, int parts, const mgk_amx *w, Soon *soon, const char *a)
{
    /* After some 2000 cycles without one, the next store of a tile takes 800 (measured on Sapphire
     * Rapids); a store of any tile now and then keeps it at 16. */
    enum { AWAKE = 96 };
    const int64_t often = AWAKE / (parts == 3 ? 24 : parts == 2 ? 16 : 4);
    const int64_t bytes = parts * MGK_AMX_BYTES, next = w->chunks * bytes;
    const char *b = w->b, *a2 = a + next, *b2 = b + next;
    _Alignas(64) char nowhere[MGK_AMX_BYTES];
    for (int64_t q = 0; q < w->chunks; q++, a += bytes, a2 += bytes, b += bytes, b2 += bytes) {
        fetch(soon, 4 * parts); /* a panel in 8 times two tiles of rows */
        if (q % often == often - 1)
            _tile_stored(4, nowhere, 64);
        if (parts == 3) {
            step(rows, cols, a, a2, b, b2, 0, 2, true, true);
            step(rows, cols, a, a2, b, b2, 0, 1, false, true);
            step(rows, cols, a, a2, b, b2, 1, 1, true, false);
            step(rows, cols, a, a2, b, b2, 1, 0, false, true);
            step(rows, cols, a, a2, b, b2, 2, 0, true, false);
        }
        if (parts == 2) {
            step(rows, cols, a, a2, b, b2, 0, 1, true, true);
            step(rows, cols, a, a2, b, b2, 1, 1, true, false);
            step(rows, cols, a, a2, b, b2, 1, 0, false, true);
        }
        step(rows, cols, a, a2, b, b2, 0, 0, true, parts == 1);
    }
}

/* What the sums go on top of is at `c`; or one row of it, if ldc is 0. */
MGK_INLINE void load(int rows, int cols, const float *c, int64_t ldc)
{
    settle();
    _tile_loadd(0, c, ldc * 4);
    if (cols == 2)
        _tile_loadd(1, c + 16, ldc * 4);
    if (rows == 2)
        _tile_loadd(2, c + 16 * ldc, ldc * 4);
    if (rows == 2 && cols == 2)
        _tile_loadd(3, c + 16 * ldc + 16, ldc * 4);
}

MGK_INLINE void store(int rows, int cols, float *c, int64_t ldc)
{
    _tile_stored(0, c, ldc * 4);
    if (cols == 2)
        _tile_stored(1, c + 16, ldc * 4);
    if (rows == 2)
        _tile_stored(2, c + 16 * ldc, ldc * 4);
    if (rows == 2 && cols == 2)
        _tile_stored(3, c + 16 * ldc + 16, ldc * 4);
}

MGK_INLINE void terms_of(int rows, int cols, const mgk_amx *w, Soon *soon, const char *a)
{
    if (w->parts == 3)
        terms(rows, cols, 3, w, soon, a);
    else if (w->parts == 2)
        terms(rows, cols, 2, w, soon, a);
    else
        terms(rows, cols, 1, w, soon, a);
}

/* Two by two tiles that C has whole. */
static void whole(const mgk_amx *w, Soon *soon, const char *a, float *c)
{
    if (w->add) {
        load(2, 2, c, w->ldc);
    } else if (w->bias) {
        load(2, 2, w->bias, 0);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    terms_of(2, 2, w, soon, a);
    store(2, 2, c, w->ldc);
}

MGK_INLINE void by_way(int rows, int cols, const mgk_amx *w, Soon *soon, const char *a, float *all)
{
    load(rows, cols, all, MGK_AMX_PANEL);
    terms_of(rows, cols, w, soon, a);
    store(rows, cols, all, MGK_AMX_PANEL);
}

/* The same of m rows, by way of a buffer. */
static void part(const mgk_amx *w, Soon *soon, int64_t m, const char *a, float *c)
{
    enum { N = MGK_AMX_PANEL };
    _Alignas(64) float all[N * N] = {0};
    float first[N] = {0};
    const size_t bytes = (size_t)w->n * sizeof(float);
    const bool high = m > MGK_AMX_LINES, wide = w->n > MGK_AMX_LINES;
    if (w->bias && !w->add)
        memcpy(first, w->bias, bytes);
    for (int64_t i = 0; i < m && w->alpha == 1; i++)
        memcpy(all + i * N, w->add ? c + i * w->ldc : first, bytes);
    if (high && wide)
        by_way(2, 2, w, soon, a, all);
    else if (high)
        by_way(2, 1, w, soon, a, all);
    else if (wide)
        by_way(1, 2, w, soon, a, all);
    else
        by_way(1, 1, w, soon, a, all);
    for (int64_t i = 0; i < m && w->alpha != 1; i++)
        for (int64_t j = 0; j < w->n; j++)
            all[i * N + j] = (w->add ? c[i * w->ldc + j] : first[j]) + w->alpha * all[i * N + j];
    for (int64_t i = 0; i < m; i++)
        memcpy(c + i * w->ldc, all + i * N, bytes);
}

void mgk_amx_panel(const mgk_amx *w)
{
    enum { HIGH = 2 * MGK_AMX_LINES };
    const int64_t bytes = w->chunks * w->parts * 2 * MGK_AMX_BYTES; /* of two tiles of rows */
    const char *a = w->a;
    Soon soon = {.b = w->b + bytes, .row = w->ldc * (int64_t)sizeof(float)};
    settle();
    for (int64_t i = 0; i < w->m; i += HIGH, a += bytes) {
        float *c = w->c + i * w->ldc;
        soon.c = (const char *)(i + HIGH < w->m ? c + HIGH * w->ldc : w->c + MGK_AMX_PANEL);
        if (w->m - i >= HIGH && w->n == MGK_AMX_PANEL && w->alpha == 1)
            whole(w, &soon, a, c);
        else
            part(w, &soon, w->m - i < HIGH ? w->m - i : HIGH, a, c);
    }
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else

bool mgk_amx_there(void)
{
    return false;
}

void mgk_amx_begin(void)
{
}

void mgk_amx_end(void)
{
}

void mgk_amx_panel(const mgk_amx *w)
{
    (void)w;
    mgk_fatal("mg_gemm", "this processor has no tiles");
}

#endif
