/* cuda_columns.c - a kernel that sums columns, or adds up the chunks of such sums.
 *
 * A block has some words of kept elements, and its threads are slices of what is summed:
 *   C columns   words next to each other, so that a warp reads whole lines. One, if what is summed
 *               lies innermost: then the slices are neighbours
 *   256 / C slices, of every so manieth row
 * A word is what a thread computes at a time (cuda_lanes.c): if its lanes are kept elements, they
 * have a sum each. A thread reads FLIGHT rows before it needs them, and sums TERMS first, so that
 * long sums stay exact. Then the slices are added up.
 *
 * The order of a sum follows from the kernel alone, and not from what else it reads where kept
 * elements are the lanes; of one whose order is promised (cuda_in_order) from the size of what is
 * summed. */
#include "codegen/cuda/cuda_gen.h"

enum {
    COLUMNS = 32,
    COMBINED =
        8, /* columns of a block that adds up chunks: 32 bytes of floats, the least to read */
    FLIGHT = 4,
    TERMS = 64
};

typedef struct Sums {
    int lanes; /* that have sums of their own */
    const char *acc[MAX_OPERANDS];
} Sums;

static bool lanes_kept(const CudaGen *g)
{
    return g->lanes > 1 && cuda_spread(&g->c.nest, g->lane_loop);
}

void cuda_columns(CudaGen *g)
{
    const Nest *n = &g->c.nest;
    const bool combine = n->kind == NEST_combine, fixed = cuda_in_order(g->c.body);
    const int last = n->nouter + n->ninner - 1;
    g->columns = combine ? COMBINED : COLUMNS;
    if (!fixed && !combine && last >= 0 && !cuda_spread(n, last))
        g->columns = 1;
    /* As few as words of the most lanes are: what else a kernel reads, and in which type, then
     * changes no sum. */
    const int64_t kept = cuda_extent(n, true), most = combine ? 1 : LANES_MAX;
    while (!fixed && g->columns > 1 && g->columns / 2 * most >= kept)
        g->columns /= 2;
}

/* Result k is made by this instruction. */
static const Ins *sum_of(const CudaGen *g, size_t k)
{
    return g->c.m->values.data[g->c.body->results.data[k]].def;
}

/* A result in the form of partial sums: [chunk, kept], dense. */
static Operand chunk_of(const CudaGen *g, size_t k, int64_t *elements)
{
    Operand o = g->c.k->operand[g->c.k->nin + (int)k];
    if (g->c.k->phase == PHASE_combine)
        o = g->c.k->operand[g->c.k->nout + (int)k];
    else
        o.type = *type_of(g->c.m, g->c.body->results.data[k]);
    return code_dense(&o, elements);
}

static DType summed_type(const CudaGen *g, size_t k)
{
    int64_t elements;
    return g->c.k->phase == PHASE_combine ? chunk_of(g, k, &elements).type.dtype
                                          : cuda_dtype(g, sum_of(g, k)->out[0]);
}

static Sums declare_sums(CudaGen *g)
{
    Sums s = {.lanes = lanes_kept(g) ? g->lanes : 1};
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        const char *start = code_start(&g->c, sum_of(g, k)), *all = start;
        for (int lane = 1; lane < s.lanes; lane++)
            all = arena_printf(g->c.a, "%s, %s", all, start);
        s.acc[k] = cuda_temp(g, "s");
        code_line(&g->c, "%s %s[%d] = {%s};", cuda_type(summed_type(g, k)), s.acc[k], s.lanes, all);
    }
    return s;
}

static const char *sum_name(CudaGen *g, const Sums *s, size_t k, int lane)
{
    return arena_printf(g->c.a, "%s[%d]", s->acc[k], lane);
}

/* Adds what row j has. */
static void add_row(CudaGen *g, const CodeEnv *kept, const Sums *to)
{
    CodeEnv e = *kept;
    cuda_split_index(g, &e, false, "j");
    cuda_new_lanes(g);
    for (int lane = 0; lane < g->lanes; lane++) {
        CodeEnv mine = cuda_lane(g, &e, lane);
        code_forget(&g->c);
        for (size_t k = 0; k < g->c.body->results.n; k++)
            cuda_add(g, sum_of(g, k), summed_type(g, k),
                     sum_name(g, to, k, to->lanes > 1 ? lane : 0),
                     cuda_eval(g, sum_of(g, k)->in[0], &mine));
    }
    g->lane = 0;
}

/* The same of a kernel that adds up chunks: their number is j. */
static void add_chunk(CudaGen *g, const CodeEnv *kept, const Sums *to)
{
    for (int k = 0; k < g->c.k->nout; k++) {
        int64_t elements;
        Operand o = chunk_of(g, (size_t)k, &elements);
        const char *base = arena_printf(g->c.a, "j * INT64_C(%lld)", (long long)elements);
        cuda_add(g, sum_of(g, (size_t)k), o.type.dtype, sum_name(g, to, (size_t)k, 0),
                 code_element(&g->c, k, &o, kept, base));
    }
}

static void add_one(CudaGen *g, const CodeEnv *kept, const Sums *to)
{
    if (g->c.k->phase == PHASE_combine)
        add_chunk(g, kept, to);
    else
        add_row(g, kept, to);
}

/* Sums each slice's rows of [from, to). */
static void sum_rows(CudaGen *g, const CodeEnv *kept, const Sums *all)
{
    const int slices = CUDA_BLOCK / g->columns;
    const char *index = g->c.index;
    code_line(&g->c, "for (%s k = from + threadIdx.x / %d; k < to; k += %d) {", index, g->columns,
              slices * TERMS);
    cuda_open(g);
    Sums some = declare_sums(g);
    code_line(&g->c, "const %s last = to - k < %d ? to : k + %d;", index, slices * TERMS,
              slices * TERMS);
    code_line(&g->c, "%s j0 = k;", index);
    code_line(&g->c, "for (; j0 < last - %d; j0 += %d) {", (FLIGHT - 1) * slices, FLIGHT * slices);
    cuda_open(g);
    code_line(&g->c, "MG_UNROLL");
    code_line(&g->c, "for (int f = 0; f < %d; f++) {", FLIGHT);
    cuda_open(g);
    code_line(&g->c, "const %s j = j0 + f * %d;", index, slices);
    add_one(g, kept, &some);
    cuda_close(g);
    cuda_close(g);
    code_line(&g->c, "for (%s j = j0; j < last; j += %d) {", index, slices);
    cuda_open(g);
    add_one(g, kept, &some);
    cuda_close(g);
    for (size_t k = 0; k < g->c.body->results.n; k++)
        for (int lane = 0; lane < all->lanes; lane++)
            cuda_add(g, sum_of(g, k), summed_type(g, k), sum_name(g, all, k, lane),
                     sum_name(g, &some, k, lane));
    cuda_close(g);
}

/* The sums of the slices, and where they go: thread t has lane t / C of word t % C. */
static void store_sums(CudaGen *g, const Sums *all)
{
    const char *sum[MAX_OPERANDS];
    CodeEnv kept = {0};
    const bool partial = g->c.k->phase == PHASE_partial;
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        sum[k] = cuda_temp(g, "s");
        code_line(&g->c, "const %s %s = mg_column_%s<%d, %d, %d>(%s);",
                  cuda_type(summed_type(g, k)), sum[k], sum_of(g, k)->op == OP_sum ? "sum" : "max",
                  CUDA_BLOCK, g->columns, all->lanes, all->acc[k]);
    }
    code_line(&g->c, "if (threadIdx.x < %d && n + threadIdx.x %% %d < %lld) {",
              g->columns * all->lanes, g->columns, (long long)cuda_steps(g, true));
    cuda_open(g);
    code_line(&g->c, "const %s at = (%s)(n + threadIdx.x %% %d);", g->c.index, g->c.index,
              g->columns);
    cuda_split_index(g, &kept, true, "at");
    if (all->lanes > 1)
        kept = cuda_at_lane(g, &kept, arena_printf(g->c.a, "(int)threadIdx.x / %d", g->columns));
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        int64_t elements;
        Operand o = chunk_of(g, k, &elements);
        int at = g->c.k->noperands - g->c.k->nout + (int)k;
        const char *base =
            partial ? arena_printf(g->c.a, "blockIdx.y * INT64_C(%lld)", (long long)elements)
                    : NULL;
        code_line(&g->c, "%s = %s;",
                  code_element(&g->c, at, partial ? &o : &g->c.k->operand[at], &kept, base),
                  sum[k]);
    }
    cuda_close(g);
}

static void write_range(CudaGen *g)
{
    const char *index = g->c.index;
    long long total = cuda_steps(g, false), chunks = g->c.k->chunks;
    if (g->c.k->phase == PHASE_combine) {
        code_line(&g->c, "const %s from = 0, to = %lld;", index, chunks);
    } else if (g->c.k->phase == PHASE_partial) {
        code_line(&g->c, "const %s from = (%s)(blockIdx.y * INT64_C(%lld) / %lld);", index, index,
                  total, chunks);
        code_line(&g->c, "const %s to = (%s)((blockIdx.y + INT64_C(1)) * %lld / %lld);", index,
                  index, total, chunks);
    } else {
        code_line(&g->c, "const %s from = 0, to = %lld;", index, total);
    }
}

void cuda_write_columns(CudaGen *g)
{
    CodeEnv kept = {0};
    long long words = cuda_steps(g, true);
    write_range(g);
    code_line(
        &g->c,
        "for (int64_t n = (int64_t)blockIdx.x * %d; n < %lld; n += (int64_t)gridDim.x * %d) {",
        g->columns, words, g->columns);
    cuda_open(g);
    code_line(&g->c, "const int64_t mine = n + threadIdx.x %% %d;", g->columns);
    code_line(&g->c, "const %s at = (%s)(mine < %lld ? mine : %lld);", g->c.index, g->c.index,
              words, words - 1);
    cuda_split_index(g, &kept, true, "at");
    Sums all = declare_sums(g);
    sum_rows(g, &kept, &all);
    store_sums(g, &all);
    cuda_close(g);
}
