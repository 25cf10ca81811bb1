/* cuda_rows.c - a kernel of rows: a block computes a row, or a warp does, of several in a block.
 *
 * The sums of a row are made stage by stage, each in a loop over the row, and a last loop writes
 * the results. What several loops read is read once: if a thread has few words of a row, its loops
 * are unrolled, and the operands' words are loaded into registers before the first of them, all at
 * once. So memory is waited for once a row. A row has as few threads as have registers for that,
 * because a warp adds up its sums faster than a block does. Where the results need no sums (of a
 * tensor and its largest number) the first loop writes them, and there is no other.
 *
 * The order of a row's sums follows from the kernel alone. */
#include "codegen/cuda/cuda_gen.h"

enum {
    ROW_EACH = 4,      /* elements of a row that a thread has, at least */
    ROWS_TOGETHER = 4, /* of a block of warps that have a row each */
    WORDS = 8,         /* of a thread, at most, for its loops to be unrolled */
    KEPT_BYTES = 256   /* of a thread, in registers */
};

/* ---- how a row is shared out -------------------------------------------------------------- */

/* Does the operand differ from row to row? One that does not is in the cache for all rows but the
 * first. */
static bool by_row(const CudaGen *g, const Operand *o)
{
    for (int i = 0; i < g->c.nest.ndims; i++) {
        int loop = g->c.nest.loop[i], d = operand_dim(o, g->c.nest.dim[i].name);
        for (int k = i; loop < 0; k++)
            loop = g->c.nest.loop[k];
        if (loop < g->c.nest.nouter && d >= 0 && o->stride[d] && o->type.dims[d].size > 1)
            return true;
    }
    return false;
}

/* Bytes that a thread holds for each of its words, if it keeps what may be kept. */
static int64_t keep_operands(CudaGen *g)
{
    int64_t bytes = 0;
    for (int o = 0; o < g->c.k->nin; o++) {
        const Operand *x = &g->c.k->operand[o];
        g->row.kept[o] = g->vector[o] && by_row(g, x);
        bytes += g->row.kept[o] ? g->lanes * dtype_bytes(x->type.dtype) : 0;
    }
    return bytes;
}

void cuda_row(CudaGen *g)
{
    CudaRow *r = &g->row;
    const int64_t words = cuda_steps(g, false), each = keep_operands(g);
    int64_t mine = 0;
    for (r->threads = 32; r->threads < CUDA_BLOCK; r->threads *= 2) {
        mine = (words + r->threads - 1) / r->threads;
        if (g->lanes > 1 ? mine <= WORDS && mine * each <= KEPT_BYTES : mine <= ROW_EACH)
            break;
    }
    mine = (words + r->threads - 1) / r->threads;
    const bool few = g->lanes > 1 && mine <= WORDS && mine * each <= KEPT_BYTES;
    r->words = few ? (int)mine : 0;
    for (int o = 0; o < g->c.k->nin; o++)
        r->kept[o] &= few;
    r->together = r->threads == 32 ? ROWS_TOGETHER : 1;
}

/* ---- loops -------------------------------------------------------------------------------- */

/* A loop over the words of this thread. */
static void begin_words(CudaGen *g, const CodeEnv *row, CodeEnv *e)
{
    const CudaRow *r = &g->row;
    const long long words = cuda_steps(g, false);
    *e = *row;
    if (r->words) {
        code_line(&g->c, "MG_UNROLL");
        code_line(&g->c, "for (int w = 0; w < %d; w++) {", r->words);
        cuda_open(g);
        code_line(&g->c, "const %s j = mine + w * %d;", g->c.index, r->threads);
        if (words != (long long)r->words * r->threads) {
            code_line(&g->c, "if (j >= %lld)", words);
            code_line(&g->c, "    break;");
        }
    } else {
        code_line(&g->c, "for (%s j = mine; j < %lld; j += %d) {", g->c.index, words, r->threads);
        cuda_open(g);
    }
    cuda_split_index(g, e, false, "j");
    g->in_row = true;
}

static void end_words(CudaGen *g)
{
    g->in_row = false;
    cuda_close(g);
}

static void load_kept(CudaGen *g, const CodeEnv *row)
{
    bool any = false;
    CodeEnv e;
    for (int o = 0; o < g->c.k->nin; o++) {
        any |= g->row.kept[o];
        if (g->row.kept[o])
            code_line(&g->c, "mg_vec<%s, %d> r%d[%d];", cuda_type(g->c.k->operand[o].type.dtype),
                      g->lanes, o, g->row.words);
    }
    if (!any)
        return;
    begin_words(g, row, &e);
    for (int o = 0; o < g->c.k->nin; o++)
        if (g->row.kept[o])
            code_line(&g->c, "r%d[w] = *(const mg_vec<%s, %d> *)&%s;", o,
                      cuda_type(g->c.k->operand[o].type.dtype), g->lanes,
                      code_element(&g->c, o, &g->c.k->operand[o], &e, NULL));
    end_words(g);
}

/* ---- stages ------------------------------------------------------------------------------- */

/* wide: NULL, or the results that this loop writes. */
static void row_stage(CudaGen *g, const CodeEnv *row, int s, const bool *wide)
{
    const Ins *sum[MAX_OPERANDS];
    const char *acc[MAX_OPERANDS];
    int n = 0;
    for (size_t i = 0; i < g->c.body->ins.n && n < MAX_OPERANDS; i++) {
        const Ins *ins = g->c.body->ins.data[i];
        if (!nest_reduces(ins) || g->c.stage[ins->out[0]] != s)
            continue;
        DType t = cuda_dtype(g, ins->out[0]);
        sum[n] = ins;
        acc[n] = cuda_temp(g, "s");
        code_line(&g->c, "%s %s = %s;", cuda_type(t), acc[n], code_start(&g->c, ins));
        n++;
    }
    CodeEnv e;
    CudaResults x;
    begin_words(g, row, &e);
    cuda_new_lanes(g);
    for (int lane = 0; lane < g->lanes; lane++) {
        CodeEnv mine = cuda_lane(g, &e, lane);
        code_forget(&g->c);
        for (int k = 0; k < n; k++)
            cuda_add(g, sum[k], cuda_dtype(g, sum[k]->out[0]), acc[k],
                     cuda_eval(g, sum[k]->in[0], &mine));
        if (wide)
            cuda_eval_results(g, &mine, wide, &x);
    }
    if (wide)
        cuda_store_results(g, &e, wide, &x);
    end_words(g);
    g->lane = 0;
    for (int k = 0; k < n; k++) {
        code_line(&g->c, "%s = mg_block_%s<%d>(%s);", acc[k], sum[k]->op == OP_sum ? "sum" : "max",
                  g->row.threads, acc[k]);
        g->c.reduced[sum[k]->out[0]] = acc[k];
    }
}

/* Results with one number for each row, which may take the place of an operand that the last loop
 * reads: all threads have read it. */
static void store_narrow(CudaGen *g, const CodeEnv *row, const bool *is_wide, const char *const *x)
{
    code_line(&g->c, g->row.together > 1 ? "__syncwarp();" : "__syncthreads();");
    code_line(&g->c, "if (mine == 0) {");
    g->c.depth++;
    for (size_t k = 0; k < g->c.body->results.n; k++)
        if (!is_wide[k])
            cuda_store(g, k, x[k], row);
    g->c.depth--;
    code_line(&g->c, "}");
}

/* The rows of a block, or of a warp; and the number of the thread in its row. */
static void begin_rows(CudaGen *g, CodeEnv *row)
{
    const long long rows = cuda_extent(&g->c.nest, true);
    const int together = g->row.together;
    if (together > 1) {
        code_line(&g->c, "const int mine = threadIdx.x %% 32;");
        code_line(&g->c,
                  "for (int64_t n = (int64_t)blockIdx.x * %d + threadIdx.x / 32; n < %lld; n += "
                  "(int64_t)gridDim.x * %d) {",
                  together, rows, together);
    } else {
        code_line(&g->c, "const int mine = threadIdx.x;");
        code_line(&g->c, "for (int64_t n = blockIdx.x; n < %lld; n += gridDim.x) {", rows);
    }
    cuda_open(g);
    code_line(&g->c, "const %s at = (%s)n;", g->c.index, g->c.index);
    cuda_split_index(g, row, true, "at");
}

void cuda_write_row(CudaGen *g)
{
    CodeEnv row = {0}, e;
    bool is_wide[MAX_OPERANDS] = {0}, any = false, narrow = false;
    const char *x[MAX_OPERANDS];
    begin_rows(g, &row);
    load_kept(g, &row);
    int stages = nest_stages(g->c.body, g->c.stage);
    const bool once = nest_one_walk(g->c.m, &g->c.nest, g->c.body, g->c.stage);
    for (size_t k = 0; k < g->c.body->results.n; k++)
        is_wide[k] = nest_wide(&g->c.nest, type_of(g->c.m, g->c.body->results.data[k]));
    for (int s = 1; s <= stages; s++)
        row_stage(g, &row, s, once ? is_wide : NULL);
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        any |= is_wide[k];
        narrow |= !is_wide[k];
        if (!is_wide[k])
            x[k] = cuda_eval(g, g->c.body->results.data[k], &row);
    }
    if (any && !once) {
        begin_words(g, &row, &e);
        cuda_store_all(g, &e, is_wide);
        end_words(g);
    }
    if (narrow)
        store_narrow(g, &row, is_wide, x);
    cuda_close(g);
}
