/* conv.h - convolutions as products in tiles, whose first operand is read through its taps: what
 * the taps show is in shared memory alone, a tile at a time.
 *
 * A block has a tile of MG_CONV_ROWS x N elements of y, and goes through the terms (taps and
 * colours, or of a weight's gradient positions) in tiles of MG_CONV_TERM_BYTES. Where a row or a
 * term lies in x is computed once: of rows before the first tile, of terms by one warp, a tile
 * ahead, into tables in shared memory. Element (row, term) lies where both offsets add up, and is
 * inside of x if the sum of their indices is, along each axis. So a chunk of 16 bytes takes three
 * comparisons and one asynchronous copy, of zeros outside. One tile is in use and one in flight.
 *
 * A tile in shared memory has a line for each row of y (or column, of w), of 4 chunks of terms. Two
 * lines are 8 chunks, and chunk c of line l is where no two of 8 lines in a row share banks. Halves
 * whose runs are along rows or columns (`turned`) are copied as they lie, a line for each term, and
 * turned when they are loaded into registers. Operands without runs are copied an element at a
 * time. All offsets are 32 bits (the compiler refuses larger operands), and the host gives axes
 * that there are not one element. A sum that is cut into parts is added up by a second kernel in
 * the order of the parts. */
#ifndef MG_CUDA_CONV_H
#define MG_CUDA_CONV_H

struct conv_row {
    int32_t x, p[3], y;
};
struct conv_term {
    int32_t x, p[3], w; /* w: -1 behind the last term */
};
static_assert(sizeof(conv_row) == MG_CONV_ROW_BYTES && sizeof(conv_term) == MG_CONV_ENTRY_BYTES,
              "launches.h counts them");
enum { CONV_NOWHERE = -(1 << 30), CONV_CHUNKS = MG_CONV_TERM_BYTES / 16 };

/* The place of index n of a group of dims: elements from the first, indices along the axes. */
struct conv_place {
    int x, w, y;
    int p[3];
};
__device__ static inline conv_place conv_place_of(const mg_conv_desc &d, int first, int count,
                                                  unsigned n)
{
    conv_place c = {0, 0, 0, {0, 0, 0}};
    MG_NO_UNROLL
    for (int i = first + count - 1; i >= first; i--) {
        const unsigned size = (unsigned)d.size[i], q = n / size;
        const int at = (int)(n - q * size);
        n = q;
        c.x += at * (int)d.x[i];
        c.w += at * (int)d.w[i];
        c.y += at * (int)d.y[i];
        MG_UNROLL
        for (int a = 0; a < 3; a++)
            c.p[a] += at * d.axis[a].by[i];
    }
    MG_UNROLL
    for (int a = 0; a < 3; a++)
        c.x += d.axis[a].every == 1 ? c.p[a] * (int)d.axis[a].stride : 0;
    return c;
}

__device__ static inline conv_row conv_row_of(const mg_conv_desc &d, int m, int row)
{
    conv_row r = {0, {CONV_NOWHERE, 0, 0}, 0};
    if (row >= m)
        return r;
    const conv_place c = conv_place_of(d, d.batch, d.rows, (unsigned)row);
    r.x = c.x, r.y = c.y;
    MG_UNROLL
    for (int a = 0; a < 3; a++) {
        r.p[a] = c.p[a] + (int)d.axis[a].at;
        r.x += d.axis[a].every == 1 ? (int)(d.axis[a].at * d.axis[a].stride) : 0;
    }
    return r;
}

__device__ static inline conv_term conv_term_of(const mg_conv_desc &d, int end, int term)
{
    conv_term t = {0, {CONV_NOWHERE, 0, 0}, -1};
    if (term >= end)
        return t;
    const conv_place c = conv_place_of(d, d.batch + d.rows + d.columns, d.terms, (unsigned)term);
    t.x = c.x, t.w = c.w;
    t.p[0] = c.p[0], t.p[1] = c.p[1], t.p[2] = c.p[2];
    return t;
}

/* Operands: elements from the first, or -1 outside. `at` is for any, `wide_at` where all axes have
 * an element at each index; `mine` is of the chunks that a thread copies. */
struct conv_x {
    typedef conv_row line;
    const mg_conv_desc &d;
    const conv_row *lines;
    __device__ int wide_at(const conv_row &r, const conv_term &t) const
    {
        bool there = true;
        MG_UNROLL
        for (int a = 0; a < 3; a++)
            there &= (unsigned)(r.p[a] + t.p[a]) < (unsigned)d.axis[a].size;
        return there ? r.x + t.x : -1;
    }
    __device__ int at(int line, const conv_term &t) const
    {
        const conv_row &r = lines[line];
        unsigned at = (unsigned)(r.x + t.x); /* of a place outside it may be anything */
        bool there = true;
        MG_UNROLL
        for (int a = 0; a < 3; a++) {
            int q = r.p[a] + t.p[a];
            if (d.axis[a].every != 1) {
                const int every = (int)d.axis[a].every, i = q / every;
                there &= i * every == q;
                q = i;
                at += (unsigned)q * (unsigned)d.axis[a].stride;
            }
            there &= (unsigned)q < (unsigned)d.axis[a].size;
        }
        return there ? (int)at : -1;
    }
};
struct conv_w {
    typedef int line;
    const int *lines;
    __device__ int wide_at(int column, const conv_term &t) const
    {
        return column < 0 || t.w < 0 ? -1 : column + t.w;
    }
    __device__ int at(int line, const conv_term &t) const
    {
        return wide_at(lines[line], t);
    }
};

/* ---- tiles -------------------------------------------------------------------------------- */

/* Place of a chunk in a tile of lines. */
__device__ static inline int conv_at(int line, int chunk)
{
    return line / 2 * 8 + ((line % 2 * 4 + chunk) ^ (line / 2 % 4));
}

/* Copies a chunk of elements one by one: those of eight bytes before any is written. */
template <class T, class Of>
__device__ static inline void conv_gather(mg_chunk *to, const T *from, const Of &of, int line,
                                          const conv_term *terms)
{
    enum { SOME = 8 / sizeof(T) };
    MG_NO_UNROLL /* to need fewer registers */
        for (int half = 0; half < 2; half++)
    {
        mg_vec<T, SOME> x;
        MG_UNROLL
        for (int i = 0; i < SOME; i++) {
            const int at = of.at(line, terms[half * SOME + i]);
            x.x[i] = T{};
            if (at >= 0)
                x.x[i] = from[at];
        }
        ((mg_vec<T, SOME> *)to)[half] = x;
    }
}
template <class Of>
__device__ static inline void conv_gather(mg_chunk *to, const float *from, const Of &of, int line,
                                          const conv_term *terms)
{
    MG_NO_UNROLL
    for (int i = 0; i < 4; i++) {
        const int at = of.at(line, terms[i]);
        mg_copy_word((float *)to + i, from + (at < 0 ? 0 : at), at >= 0);
    }
}

/* Copies a tile of LINES rows or columns. mine: of the lines that this thread copies chunks of. */
template <bool TURNED, int LINES, class T, class Of>
__device__ static inline void conv_load(mg_chunk *tile, const T *from, bool wide, const Of &of,
                                        const typename Of::line *mine, const conv_term *terms)
{
    enum { EACH = 16 / sizeof(T), COUNT = LINES * CONV_CHUNKS, ACROSS = LINES / EACH };
    const int thread = (int)threadIdx.x;
    if (TURNED) {
        MG_UNROLL
        for (int i = 0; i < COUNT / MG_CONV_BLOCK; i++) {
            const int term = (thread + i * MG_CONV_BLOCK) / ACROSS, chunk = thread % ACROSS;
            const int at = of.wide_at(mine[0], terms[term]);
            mg_copy_async(&tile[mg_tile_at<ACROSS>(term, chunk)], from + (at < 0 ? 0 : at),
                          at >= 0);
        }
    } else if (wide) {
        const conv_term t = terms[thread % CONV_CHUNKS * EACH];
        MG_UNROLL
        for (int i = 0; i < COUNT / MG_CONV_BLOCK; i++) {
            const int at = of.wide_at(mine[i], t);
            mg_copy_async(
                &tile[conv_at((thread + i * MG_CONV_BLOCK) / CONV_CHUNKS, thread % CONV_CHUNKS)],
                from + (at < 0 ? 0 : at), at >= 0);
        }
    } else {
        MG_NO_UNROLL
        for (int i = thread; i < COUNT; i += MG_CONV_BLOCK) /* along lines first */
            conv_gather(&tile[conv_at(i % LINES, i / LINES)], from, of, i % LINES,
                        terms + i / LINES * EACH);
    }
}

/* The lines of the chunks that this thread copies. */
template <bool TURNED, int LINES, class T, class L>
__device__ static inline void conv_mine(L *mine, const L *lines)
{
    enum { EACH = 16 / sizeof(T), COUNT = LINES * CONV_CHUNKS };
    const int thread = (int)threadIdx.x;
    MG_UNROLL
    for (int i = 0; i < COUNT / MG_CONV_BLOCK; i++)
        mine[i] = lines[TURNED ? thread % (LINES / EACH) * EACH
                               : (thread + i * MG_CONV_BLOCK) / CONV_CHUNKS];
}

/* ---- products of a warp ------------------------------------------------------------------- */

/* Halves, on the tensor cores. Rows and columns of the warp begin at m and n of the tile. */
template <class N> struct conv_halves {
    typedef N T;
    typedef float sum;
    enum { BLOCKS = 2 }; /* of a multiprocessor, at least */
    template <bool TX, bool TW, int LINES, int I, int J>
    __device__ static void step(float (*c)[J][4], const mg_chunk *xs, const mg_chunk *ws, int m,
                                int n)
    {
        const int lane = (int)threadIdx.x % 32;
        MG_UNROLL
        for (int k = 0; k < 2; k++) {
            uint32_t a[I][4];
            MG_UNROLL
            for (int i = 0; i < I; i++) {
                const int row = m + 16 * i;
                if (TX)
                    mg_load_matrices_turned(
                        a[i], &xs[mg_tile_at<MG_CONV_ROWS / 8>(16 * k + lane / 16 * 8 + lane % 8,
                                                               row / 8 + lane / 8 % 2)]);
                else
                    mg_load_matrices(a[i], &xs[conv_at(row + lane % 16, 2 * k + lane / 16)]);
            }
            MG_UNROLL
            for (int j = 0; j < J / 2; j++) {
                const int column = n + 16 * j;
                uint32_t b[4];
                if (TW)
                    mg_load_matrices_turned(
                        b, &ws[mg_tile_at<LINES / 8>(16 * k + lane % 16, column / 8 + lane / 16)]);
                else
                    mg_load_matrices(
                        b, &ws[conv_at(column + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2)]);
                MG_UNROLL
                for (int i = 0; i < I; i++) {
                    mg_mma<T>(c[i][2 * j], a[i], b[0], b[1]);
                    mg_mma<T>(c[i][2 * j + 1], a[i], b[2], b[3]);
                }
            }
        }
    }
};

/* f32 rounded to tf32, on the tensor cores. */
struct conv_tf32s {
    typedef float T;
    typedef float sum;
    enum { BLOCKS = 2 };
    __device__ static uint32_t at(const mg_chunk *tile, int line, int chunk)
    {
        return mg_tf32(tile[conv_at(line, chunk)].x[threadIdx.x % 4]);
    }
    template <bool TX, bool TW, int LINES, int I, int J>
    __device__ static void step(float (*c)[J][4], const mg_chunk *xs, const mg_chunk *ws, int m,
                                int n)
    {
        const int g = (int)threadIdx.x % 32 / 4;
        MG_NO_UNROLL /* to need fewer registers */
            for (int k = 0; k < 2; k++)
        {
            uint32_t a[I][4];
            MG_UNROLL
            for (int i = 0; i < I; i++) {
                MG_UNROLL
                for (int q = 0; q < 4; q++)
                    a[i][q] = at(xs, m + 16 * i + q % 2 * 8 + g, 2 * k + q / 2);
            }
            MG_UNROLL
            for (int j = 0; j < J; j++) {
                const uint32_t b0 = at(ws, n + 8 * j + g, 2 * k);
                const uint32_t b1 = at(ws, n + 8 * j + g, 2 * k + 1);
                MG_UNROLL
                for (int i = 0; i < I; i++)
                    mg_mma_tf32(c[i][j], a[i], b0, b1);
            }
        }
    }
};

/* f32 and f64, by multiply-adds; a lane has the sums that a fragment of mma.h has. */
template <class N> struct conv_reals {
    typedef N T;
    typedef N sum;
    enum { BLOCKS = sizeof(N) == 4 ? 2 : 1 };
    template <bool TX, bool TW, int LINES, int I, int J>
    __device__ static void step(N (*c)[J][4], const mg_chunk *xs, const mg_chunk *ws, int m, int n)
    {
        enum { EACH = 16 / sizeof(N) };
        typedef mg_vec<N, EACH> some;
        const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
        MG_NO_UNROLL
        for (int k = 0; k < CONV_CHUNKS; k++) {
            some a[I][2];
            MG_UNROLL
            for (int i = 0; i < 2 * I; i++)
                a[i / 2][i % 2] = *(const some *)&xs[conv_at(m + 8 * i + g, k)];
            MG_UNROLL
            for (int j = 0; j < 2 * J; j++) {
                const some b = *(const some *)&ws[conv_at(n + j / 2 * 8 + 2 * t + j % 2, k)];
                MG_UNROLL
                for (int i = 0; i < 2 * I; i++) {
                    MG_UNROLL
                    for (int q = 0; q < EACH; q++)
                        c[i / 2][j / 2][i % 2 * 2 + j % 2] += a[i / 2][i % 2].x[q] * b.x[q];
                }
            }
        }
    }
};

/* ---- results ------------------------------------------------------------------------------ */

/* Writes two sums, of which `left` are there. */
template <class O, class A>
__device__ static inline void conv_put(O *to, A first, A second, int left, bool pairs, bool adds)
{
    A x[2] = {first, second}, was[2] = {0, 0};
    if (pairs) {
        if (adds)
            mg_read<2>(to, was);
        x[0] += was[0], x[1] += was[1];
        mg_write<2>(to, x);
        return;
    }
    MG_UNROLL
    for (int i = 0; i < 2; i++)
        if (i < left)
            to[i] = mg_narrow<O>(adds ? x[i] + mg_wide(to[i]) : x[i]);
}

/* ---- the kernels -------------------------------------------------------------------------- */

/* The tile from row0 and column0 on, of number b of the batch; `set` counts these and the parts
 * that sums are cut into. adds: to y. */
template <class E, bool TX, bool TW, int N>
__device__ static inline void conv_tile(const mg_conv_desc &d, const mg_conv_how &h,
                                        const typename E::T *x, const typename E::T *w, void *y,
                                        typename E::sum *parts, unsigned set, int row0, int column0,
                                        bool adds)
{
    typedef typename E::T T;
    typedef typename E::sum A;
    enum { M = MG_CONV_ROWS, K = MG_CONV_TERM_BYTES / sizeof(T) };
    enum { DOWN = N == 128 ? 2 : 4, I = M / DOWN / 16, J = 4 }; /* warps of 32 columns */
    MG_SHARED_ALL(area);
    mg_chunk *xs = area, *ws = xs + 2 * M * CONV_CHUNKS;
    conv_row *rows = (conv_row *)(ws + 2 * N * CONV_CHUNKS);
    int *columns = (int *)(rows + M);
    conv_term *terms = (conv_term *)(columns + N);
    const int thread = (int)threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int split = (int)(set / (unsigned)h.batch), b = (int)(set % (unsigned)h.batch);
    const int64_t first = (int64_t)split * h.steps * K, last = first + (int64_t)h.steps * K;
    const int from = first < h.k ? (int)first : h.k, to = last < h.k ? (int)last : h.k;
    const int steps = (to - from + K - 1) / K;
    const conv_place origin = conv_place_of(d, 0, d.batch, (unsigned)b);
    x += origin.x;
    w += origin.w;

    if (thread < M)
        rows[thread] = conv_row_of(d, h.m, row0 + thread);
    else if (thread - M < N) {
        const int column = column0 + thread - M;
        columns[thread - M] =
            column < h.n ? conv_place_of(d, d.batch + d.rows, d.columns, (unsigned)column).w : -1;
    }
    for (int s = 0; s < 2; s++)
        if (warp == s && lane < K)
            terms[32 * s + lane] = conv_term_of(d, to, from + s * K + lane);
    __syncthreads();
    const conv_x of_x = {d, rows};
    const conv_w of_w = {columns};
    conv_row my_rows[M * CONV_CHUNKS / MG_CONV_BLOCK];
    int my_columns[N * CONV_CHUNKS / MG_CONV_BLOCK];
    conv_mine<TX, M, T>(my_rows, rows);
    conv_mine<TW, N, T>(my_columns, columns);
    if (steps > 0) {
        conv_load<TX, M>(xs, x, h.wide_x, of_x, my_rows, terms);
        conv_load<TW, N>(ws, w, h.wide_w, of_w, my_columns, terms);
    }
    mg_copy_commit();

    A c[I][J][4];
    MG_UNROLL
    for (int i = 0; i < I * J * 4; i++)
        c[i / 4 / J][i / 4 % J][i % 4] = 0;
    const int m = warp % DOWN * (M / DOWN), n = warp / DOWN * 32;
    MG_NO_UNROLL
    for (int s = 0; s < steps; s++) {
        const int now = s % 2, next = 1 - now;
        mg_copy_wait<0>();
        __syncthreads(); /* this tile has arrived, the one before is used, terms are there */
        if (s + 1 < steps) {
            const conv_term *of = terms + next * 32;
            conv_load<TX, M>(xs + next * M * CONV_CHUNKS, x, h.wide_x, of_x, my_rows, of);
            conv_load<TW, N>(ws + next * N * CONV_CHUNKS, w, h.wide_w, of_w, my_columns, of);
        }
        mg_copy_commit();
        if (warp == (s + 2) % (MG_CONV_BLOCK / 32) && lane < K)
            terms[now * 32 + lane] = conv_term_of(d, to, from + (s + 2) * K + lane);
        E::template step<TX, TW, N, I, J>(c, xs + now * M * CONV_CHUNKS, ws + now * N * CONV_CHUNKS,
                                          m, n);
    }

    const int g = lane / 4, t = lane % 4;
    MG_UNROLL
    for (int i = 0; i < 2 * I; i++) {
        const int row = m + 8 * i + g;
        if (row0 + row >= h.m)
            continue;
        const int64_t at =
            h.splits > 1 ? ((int64_t)set * h.m + row0 + row) * h.n : origin.y + rows[row].y;
        MG_UNROLL
        for (int j = 0; j < J; j++) {
            const int column = column0 + n + 8 * j + 2 * t, left = h.n - column;
            const A one = c[i / 2][j][i % 2 * 2], two = c[i / 2][j][i % 2 * 2 + 1];
            if (left <= 0)
                continue;
            if (h.splits > 1)
                conv_put(parts + at + column, one, two, left, h.n % 2 == 0, false);
            else if (h.wide_y)
                conv_put((A *)y + at + column, one, two, left, h.pairs, adds);
            else
                conv_put((T *)y + at + column, one, two, left, h.pairs, adds);
        }
    }
}

template <class E, bool TX, bool TW, int N>
__device__ static inline void conv_product(const mg_conv_desc &d, const mg_conv_how &h,
                                           const typename E::T *x, const typename E::T *w, void *y,
                                           typename E::sum *parts)
{
    enum { M = MG_CONV_ROWS };
    const unsigned across = (unsigned)(h.n + N - 1) / N, down = (unsigned)(h.m + M - 1) / M;
    const unsigned tile = blockIdx.x / across, set = tile / down;
    conv_tile<E, TX, TW, N>(d, h, x, w, y, parts, set, (int)(tile % down) * M,
                            (int)(blockIdx.x % across) * N, d.accumulate);
}

/* Adds up the parts of an element of y, in their order. */
template <class E>
__device__ static inline void conv_add_up(const mg_conv_desc &d, const mg_conv_how &h,
                                          const typename E::sum *parts, void *y)
{
    typedef typename E::T T;
    typedef typename E::sum A;
    const unsigned e = blockIdx.x * MG_CONV_BLOCK + threadIdx.x, m = (unsigned)h.m,
                   n = (unsigned)h.n, all = (unsigned)h.batch * m * n;
    if (e >= all)
        return;
    A sum = 0;
    MG_UNROLL_BY(8)
    for (int s = 0; s < h.splits; s++)
        sum += parts[(int64_t)s * all + e];
    const int64_t at = conv_place_of(d, 0, d.batch, e / n / m).y +
                       conv_place_of(d, d.batch, d.rows, e / n % m).y + e % n;
    if (h.wide_y)
        conv_put((A *)y + at, sum, sum, 1, false, d.accumulate);
    else
        conv_put((T *)y + at, sum, sum, 1, false, d.accumulate);
}

#define MG_CONV_NUMBERS_bf16 conv_halves<mg_bf16>
#define MG_CONV_NUMBERS_f16  conv_halves<mg_f16>
#define MG_CONV_NUMBERS_tf32 conv_tf32s
#define MG_CONV_NUMBERS_f32  conv_reals<float>
#define MG_CONV_NUMBERS_f64  conv_reals<double>
#define MG_CONV_plain        false
#define MG_CONV_turned       true

/* A kernel of these numbers: x and w as they lie, or turned, in tiles of N columns. A program lists
 * those that it calls after library.h, and the kernels that add up (runtime/conv.h). */
#define MG_CONV(n, x_, w_, N)                                                                      \
    extern "C" __global__ void __launch_bounds__(MG_CONV_BLOCK, MG_CONV_NUMBERS_##n::BLOCKS)       \
        mg_conv_##n##_##x_##_##w_##_##N(                                                           \
            mg_conv_desc d, mg_conv_how h, const MG_CONV_NUMBERS_##n::T *x,                        \
            const MG_CONV_NUMBERS_##n::T *w, void *y, MG_CONV_NUMBERS_##n::sum *parts)             \
    {                                                                                              \
        conv_product<MG_CONV_NUMBERS_##n, MG_CONV_##x_, MG_CONV_##w_, N>(d, h, x, w, y, parts);    \
    }                                                                                              \
    MG_EXPORT(mg_conv_##n##_##x_##_##w_##_##N)
#define MG_CONV_SUM(n)                                                                             \
    extern "C" __global__ void __launch_bounds__(MG_CONV_BLOCK, 1) mg_conv_sum_##n(                \
        mg_conv_desc d, mg_conv_how h, const MG_CONV_NUMBERS_##n::sum *parts, void *y)             \
    {                                                                                              \
        conv_add_up<MG_CONV_NUMBERS_##n>(d, h, parts, y);                                          \
    }                                                                                              \
    MG_EXPORT(mg_conv_sum_##n)

#ifdef MG_WITH_INSTANCES /* tests and benchmarks */
#define MG_CONV_halves(n)                                                                          \
    MG_CONV(n, plain, plain, 64)                                                                   \
    MG_CONV(n, plain, plain, 128)                                                                  \
    MG_CONV(n, plain, turned, 64)                                                                  \
    MG_CONV(n, plain, turned, 128)                                                                 \
    MG_CONV(n, turned, plain, 64)                                                                  \
    MG_CONV(n, turned, plain, 128)                                                                 \
    MG_CONV(n, turned, turned, 64) MG_CONV(n, turned, turned, 128) MG_CONV_SUM(n)
#define MG_CONV_floats(n) MG_CONV(n, plain, plain, 64) MG_CONV_SUM(n)
MG_CONV_halves(bf16) MG_CONV_halves(f16) MG_CONV_floats(tf32) MG_CONV_floats(f32)
    MG_CONV_floats(f64)
#endif

#endif
