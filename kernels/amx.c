/* amx.c - products on the tile registers of AMX; see amx.h. */
#include "kernels/amx.h"
#include "kernels/isa.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Asks Linux for the use of tile data: it saves them for a thread only on request (x86/xstate). */
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

#include "kernels/amx_registers.h"

/* Tile registers 0 to 3 hold C, 4 and 5 hold A, 6 and 7 hold B. */

void mgk_amx_begin(void)
{
    shape_registers(MGK_AMX_LINES);
}

void mgk_amx_end(void)
{
    _tile_release();
}

/* Two tiles of an operand: where they begin, and the bytes between parts and between lines. */
typedef struct Tiles {
    const char *one, *two;
    int64_t part, line;
} Tiles;

/* Adds the terms of part x of A times part y of B to `rows` x `cols` tiles (1 or 2 each) of C. An
 * operand that is not new is still in its registers from the previous step. */
MGK_INLINE void step(int rows, int cols, Tiles a, Tiles b, int x, int y, bool new_a, bool new_b)
{
    if (new_a)
        _tile_loadd(4, a.one + x * a.part, a.line);
    if (new_b)
        _tile_loadd(6, b.one + y * b.part, b.line);
    _tile_dpbf16ps(0, 4, 6);
    if (cols == 2) {
        if (new_b)
            _tile_loadd(7, b.two + y * b.part, b.line);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (rows == 2) {
        if (new_a)
            _tile_loadd(5, a.two + x * a.part, a.line);
        _tile_dpbf16ps(2, 5, 6);
        if (cols == 2)
            _tile_dpbf16ps(3, 5, 7);
    }
}

/* How tiles lie: packed, or spread: those of A, or those of B where C is turned. */
typedef enum Way { PACKED, SPREAD, TURNED } Way;

/* The same; where C is turned the operands have changed places, and their parts. */
MGK_INLINE void step_of(Way way, int rows, int cols, Tiles a, Tiles b, int x, int y, bool new_x,
                        bool new_y)
{
    if (way == TURNED)
        step(rows, cols, a, b, y, x, new_y, new_x);
    else
        step(rows, cols, a, b, x, y, new_x, new_y);
}

/* The addresses to prefetch next: of a panel of B and of C. The prefetches are spread evenly
 * between the products, without branches: branches there cost a tenth of the time (measured). Past
 * the end of an array they do nothing. */
typedef struct Prefetch {
    const char *b, *c;
    int64_t row; /* bytes between rows of C */
} Prefetch;

/* Prefetches `lines` lines of B, and `count` lines of C from line number `from` on, to be written;
 * a row of C has two lines. */
MGK_INLINE void fetch(Prefetch *s, int lines, int from, int count)
{
#pragma GCC unroll 4
    for (int i = 0; i < lines; i++, s->b += 64)
        __builtin_prefetch(s->b, 0, 2);
#pragma GCC unroll 6
    for (int i = from; i < from + count; i++) {
        __builtin_prefetch(s->c + i % 2 * 64, 1, 3);
        s->c += i % 2 * s->row;
    }
}

/* Two tiles of chunk q of `chunks`, each of so many bytes, that lie behind each other from `from`
 * on. */
MGK_INLINE Tiles packed_at(const char *from, int64_t chunks, int64_t bytes, int64_t q)
{
    return (Tiles){from + q * bytes, from + (chunks + q) * bytes, MGK_AMX_BYTES, 64};
}

MGK_INLINE Tiles spread_at(const mgk_amx *w, const char *from, const int32_t *at, int64_t q)
{
    return (Tiles){from + (int64_t)at[q] * 64, from + (int64_t)at[w->chunks + q] * 64, w->part,
                   w->line};
}

/* All terms, the smallest parts first, so that the sum loses less. With three parts each step
 * prefetches `each` lines of C: enough for all of its 64 to be there when the sums are. */
MGK_INLINE void terms(Way way, int rows, int cols, int parts, int each, const mgk_amx *w,
                      Prefetch *prefetch, const char *from, const int32_t *at)
{
    /* If no tile was stored for about 2000 cycles, the next tile store takes 800 (measured on
     * Sapphire Rapids). A store now and then keeps it at 16. */
    enum { AWAKE = 96 };
    const int64_t often = AWAKE / (parts == 3 ? 24 : parts == 2 ? 16 : 4);
    const int64_t bytes = parts * MGK_AMX_BYTES;
    _Alignas(64) char nowhere[MGK_AMX_BYTES];
    for (int64_t q = 0; q < w->chunks; q++) {
        const Tiles a =
            way == SPREAD ? spread_at(w, w->a, at, q) : packed_at(from, w->chunks, bytes, q);
        const Tiles b =
            way == TURNED ? spread_at(w, w->b, at, q) : packed_at(w->b, w->chunks, bytes, q);
        if (q % often == often - 1)
            _tile_stored(4, nowhere, 64);
        /* Of B, 8 times two tiles of rows prefetch one panel. */
        if (parts == 3) {
            step_of(way, rows, cols, a, b, 0, 2, true, true);
            fetch(prefetch, 2, 0, each);
            step_of(way, rows, cols, a, b, 0, 1, false, true);
            fetch(prefetch, 2, each, each);
            step_of(way, rows, cols, a, b, 1, 1, true, false);
            fetch(prefetch, 2, 0, each);
            step_of(way, rows, cols, a, b, 1, 0, false, true);
            fetch(prefetch, 2, each, each);
            step_of(way, rows, cols, a, b, 2, 0, true, false);
            fetch(prefetch, 2, 0, each);
            step_of(way, rows, cols, a, b, 0, 0, true, false);
            fetch(prefetch, 2, each, each);
        }
        if (parts == 2) {
            step_of(way, rows, cols, a, b, 0, 1, true, true);
            fetch(prefetch, 2, 0, 2);
            step_of(way, rows, cols, a, b, 1, 1, true, false);
            fetch(prefetch, 2, 0, 2);
            step_of(way, rows, cols, a, b, 1, 0, false, true);
            fetch(prefetch, 2, 0, 2);
            step_of(way, rows, cols, a, b, 0, 0, true, false);
            fetch(prefetch, 2, 0, 0);
        }
        if (parts == 1) {
            step_of(way, rows, cols, a, b, 0, 0, true, true);
            fetch(prefetch, 4, 0, each);
        }
    }
}

/* Sums of `rows` x `cols` tiles of terms, stored with a row stride of `ld`. Terms of other blocks
 * are added later: partial sums are smaller, so they are rounded less. */
MGK_INLINE void sums(Way way, int rows, int cols, const mgk_amx *w, Prefetch *prefetch,
                     const char *a, const int32_t *at, float *to, int64_t ld)
{
    enum { LINES = MGK_AMX_LINES };
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (w->parts == 3 && w->chunks > 8)
        terms(way, rows, cols, 3, 1, w, prefetch, a, at);
    else if (w->parts == 3 && w->chunks > 2)
        terms(way, rows, cols, 3, 2, w, prefetch, a, at);
    else if (w->parts == 3)
        terms(way, rows, cols, 3, 6, w, prefetch, a, at);
    else if (w->parts == 2)
        terms(way, rows, cols, 2, 0, w, prefetch, a, at);
    else if (w->out)
        terms(way, rows, cols, 1, 2, w, prefetch, a, at);
    else
        terms(way, rows, cols, 1, 6, w, prefetch, a, at);
    _tile_stored(0, to, ld * 4);
    if (cols == 2)
        _tile_stored(1, to + LINES, ld * 4);
    if (rows == 2)
        _tile_stored(2, to + LINES * ld, ld * 4);
    if (rows == 2 && cols == 2)
        _tile_stored(3, to + LINES * ld + LINES, ld * 4);
}

/* Stores a row of n sums, times alpha, plus C (with `add`) or plus the bias. */
MGK_INLINE void put(const mgk_amx *w, const float *sums, float *c, int64_t n)
{
    const __m512 alpha = _mm512_set1_ps(w->alpha);
#pragma GCC unroll 2
    for (int64_t j = 0; j < n; j += 16) {
        const __mmask16 live = n - j < 16 ? (__mmask16)((1u << (n - j)) - 1) : 0xffff;
        __m512 x = _mm512_load_ps(sums + j);
        if (w->add)
            x = _mm512_fmadd_ps(alpha, x, _mm512_maskz_loadu_ps(live, c + j));
        else if (w->bias)
            x = _mm512_fmadd_ps(alpha, x, _mm512_maskz_loadu_ps(live, w->bias + j));
        else
            x = _mm512_mul_ps(alpha, x);
        _mm512_mask_storeu_ps(c + j, live, x);
    }
}

/* Transposes 16 x 16 numbers; rows of both are ld apart. */
MGK_INLINE void turn(const float *from, float *to, int64_t ld)
{
    __m512 a[16], b[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        a[i] = _mm512_load_ps(from + i * ld);
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
#define PAIRS(f, x, y)                                                                             \
    _mm512_castpd_ps(f(_mm512_castps_pd(b[i + (x)]), _mm512_castps_pd(b[i + (y)])))
        a[i] = PAIRS(_mm512_unpacklo_pd, 0, 2);
        a[i + 1] = PAIRS(_mm512_unpackhi_pd, 0, 2);
        a[i + 2] = PAIRS(_mm512_unpacklo_pd, 1, 3);
        a[i + 3] = PAIRS(_mm512_unpackhi_pd, 1, 3);
#undef PAIRS
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m512 x = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88),
                     y = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88),
                     z = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd),
                     u = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
        _mm512_store_ps(to + i * ld, _mm512_shuffle_f32x4(x, y, 0x88));
        _mm512_store_ps(to + (i + 4) * ld, _mm512_shuffle_f32x4(z, u, 0x88));
        _mm512_store_ps(to + (i + 8) * ld, _mm512_shuffle_f32x4(x, y, 0xdd));
        _mm512_store_ps(to + (i + 12) * ld, _mm512_shuffle_f32x4(z, u, 0xdd));
    }
}

/* m rows of C. */
MGK_INLINE void rows_in(Way way, const mgk_amx *w, Prefetch *prefetch, int64_t m, const char *a,
                        const int32_t *at, float *to)
{
    enum { N = MGK_AMX_PANEL };
    const bool high = m > MGK_AMX_LINES, wide = w->n > MGK_AMX_LINES;
    if (high && wide)
        sums(way, 2, 2, w, prefetch, a, at, to, N);
    else if (high)
        sums(way, 2, 1, w, prefetch, a, at, to, N);
    else if (wide)
        sums(way, 1, 2, w, prefetch, a, at, to, N);
    else
        sums(way, 1, 1, w, prefetch, a, at, to, N);
}

/* The same into C. */
MGK_INLINE void rows_from(Way way, const mgk_amx *w, Prefetch *prefetch, int64_t m, const char *a,
                          const int32_t *at, float *c)
{
    enum { N = MGK_AMX_PANEL };
    _Alignas(64) float all[N * N];
    if (m == N && w->n == N && !w->add && !w->bias && w->alpha == 1) {
        sums(way, 2, 2, w, prefetch, a, at, c, w->ldc);
        return;
    }
    rows_in(way, w, prefetch, m, a, at, all);
    if (w->n == N)
        for (int64_t i = 0; i < m; i++)
            put(w, all + i * N, c + i * w->ldc, N);
    else
        for (int64_t i = 0; i < m; i++)
            put(w, all + i * N, c + i * w->ldc, w->n);
}

static void rows_of(const mgk_amx *w, Prefetch *prefetch, int64_t m, const char *a, float *c)
{
    rows_from(PACKED, w, prefetch, m, a, NULL, c);
}

static void rows_spread(const mgk_amx *w, Prefetch *prefetch, int64_t m, const int32_t *at,
                        float *c)
{
    rows_from(SPREAD, w, prefetch, m, NULL, at, c);
}

/* m rows of what is turned: columns of C. */
static void rows_turned(const mgk_amx *w, Prefetch *prefetch, int64_t m, const char *a, float *c)
{
    enum { N = MGK_AMX_PANEL };
    _Alignas(64) float all[N * N], turned[N * N];
    mgk_amx x = *w;
    x.n = m;
    rows_in(TURNED, w, prefetch, m, a, w->at, all);
    for (int64_t i = 0; i < w->n; i += MGK_AMX_LINES)
        for (int64_t j = 0; j < m; j += MGK_AMX_LINES)
            turn(all + j * N + i, turned + i * N + j, N);
    for (int64_t i = 0; i < w->n; i++)
        put(&x, turned + i * N, c + i * w->ldc, m);
}

void mgk_amx_panel(const mgk_amx *w)
{
    /* The last byte of 64: rows that begin inside of a line end in a third one, which is
     * prefetched; the panel before this one wrote to the first. */
    enum { HIGH = 2 * MGK_AMX_LINES, LAST = 63 };
    const int64_t bytes = w->chunks * w->parts * 2 * MGK_AMX_BYTES; /* of two tiles of rows */
    const char *a = w->a;
    Prefetch prefetch = {.b = w->next,
                         .row = w->out ? w->out_row : w->ldc * (int64_t)sizeof(float)};
    settle();
    for (int64_t i = 0; i < w->m; i += HIGH, a += bytes) {
        float *c = w->c + i * (w->turned ? 1 : w->ldc);
        const float *below = w->c + MGK_AMX_PANEL * (w->turned ? w->ldc : 1);
        const float *then = i + HIGH < w->m ? c + HIGH * (w->turned ? 1 : w->ldc) : below;
        prefetch.c = w->out ? w->out : (const char *)then + LAST;
        const int64_t m = w->m - i < HIGH ? w->m - i : HIGH;
        if (w->turned)
            rows_turned(w, &prefetch, m, a, c);
        else if (w->at)
            rows_spread(w, &prefetch, m, w->at + i / MGK_AMX_LINES * w->chunks, c);
        else
            rows_of(w, &prefetch, m, a, c);
    }
}

/* Sums of `rows` x `cols` tiles, the smallest parts first. */
MGK_INLINE void near_terms(int rows, int cols, int a_parts, int b_parts, const mgk_amx_tiles *w,
                           const char *a, const char *b)
{
    Tiles one = {a, a + w->a_step, MGK_AMX_BYTES, 64}, two = {b, b + w->b_step, MGK_AMX_BYTES, 64};
    for (int64_t q = 0; q < w->chunks; q++) {
        if (a_parts == 3 && b_parts == 3) {
            step(rows, cols, one, two, 0, 2, true, true);
            step(rows, cols, one, two, 0, 1, false, true);
            step(rows, cols, one, two, 1, 1, true, false);
            step(rows, cols, one, two, 1, 0, false, true);
            step(rows, cols, one, two, 2, 0, true, false);
            step(rows, cols, one, two, 0, 0, true, false);
        } else {
            step(rows, cols, one, two, 0, 1, true, true);
            if (a_parts == 2)
                step(rows, cols, one, two, 1, 0, true, true);
            step(rows, cols, one, two, 0, 0, a_parts == 2, a_parts == 1);
        }
        one.one += a_parts * MGK_AMX_BYTES, one.two += a_parts * MGK_AMX_BYTES;
        two.one += b_parts * MGK_AMX_BYTES, two.two += b_parts * MGK_AMX_BYTES;
    }
}

MGK_INLINE void near_block(int rows, int cols, const mgk_amx_tiles *w, const char *a, const char *b,
                           float *c)
{
    enum { LINES = MGK_AMX_LINES };
    const int64_t row = w->ldc * (int64_t)sizeof(float);
    if (w->add) {
        _tile_loadd(0, c, row);
        if (cols == 2)
            _tile_loadd(1, c + LINES, row);
        if (rows == 2)
            _tile_loadd(2, c + LINES * w->ldc, row);
        if (rows == 2 && cols == 2)
            _tile_loadd(3, c + LINES * w->ldc + LINES, row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    if (w->a_parts == 3)
        near_terms(rows, cols, 3, 3, w, a, b);
    else if (w->a_parts == 2)
        near_terms(rows, cols, 2, 2, w, a, b);
    else
        near_terms(rows, cols, 1, 2, w, a, b);
    _tile_stored(0, c, row);
    if (cols == 2)
        _tile_stored(1, c + LINES, row);
    if (rows == 2)
        _tile_stored(2, c + LINES * w->ldc, row);
    if (rows == 2 && cols == 2)
        _tile_stored(3, c + LINES * w->ldc + LINES, row);
}

void mgk_amx_near(const mgk_amx_tiles *w)
{
    enum { LINES = MGK_AMX_LINES, SIDE = 2 * LINES };
    settle();
    for (int64_t j = 0; j < w->n; j += SIDE)
        for (int64_t i = 0; i < w->m; i += SIDE) {
            const bool high = w->m - i > LINES, wide = w->n - j > LINES;
            const char *a = w->a + i / LINES * w->a_step, *b = w->b + j / LINES * w->b_step;
            float *c = w->c + i * w->ldc + j;
            if (high && wide)
                near_block(2, 2, w, a, b, c);
            else if (high)
                near_block(2, 1, w, a, b, c);
            else if (wide)
                near_block(1, 2, w, a, b, c);
            else
                near_block(1, 1, w, a, b, c);
        }
    settle();
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

void mgk_amx_near(const mgk_amx_tiles *w)
{
    (void)w;
    mgk_fatal("mg_attention", "this processor has no tiles");
}

#endif
