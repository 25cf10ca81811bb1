/* cuda_kernel.c - one fused instruction as one CUDA kernel.
 *
 *   map      one thread for each element, in the order of the largest operand
 *   row      one block for each row: loops over the row, stage by stage; the threads of the block
 *            add up their sums together
 *   col      one block for 32 kept elements, with eight threads for each, which divide the summed
 *            dims; if these are cut into chunks, y is the number of the chunk
 *   combine  one thread for each kept element: the chunks of partial sums, in their order
 *
 * Every sum has one order, on all devices. */
#include "codegen/cuda/cuda_gen.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK = 256,
    COLUMNS = 32, /* of a block that sums columns */
    ROW_EACH = 4, /* elements of a row a thread, at least */
    GRID_MAX = 1 << 20,
    TERMS = 64 /* terms summed first, so that long sums stay exact */
};

/* ---- shape of a launch -------------------------------------------------------------------- */

static int loops(const Nest *n)
{
    return n->nouter + n->ninner;
}

/* Is loop i spread over the threads of the grid? If not, it runs inside of a thread or block. */
static bool spread(const Nest *n, int i)
{
    return n->kind == NEST_map || n->kind == NEST_combine ? true
           : n->kind == NEST_row                          ? i < n->nouter
                                                          : !nest_loop(n, i)->reduced;
}

static int64_t extent(const Nest *n, bool of_spread)
{
    int64_t e = 1;
    for (int i = 0; i < loops(n); i++)
        if (spread(n, i) == of_spread)
            e *= nest_loop(n, i)->dim.size;
    return e;
}

/* `lanes`: the number of elements that a thread computes at a time. */
static CudaLaunch launch_of(const Nest *n, const Kernel *k, int lanes)
{
    CudaLaunch l = {.grid_y = k->phase == PHASE_partial ? k->chunks : 1, .block = BLOCK};
    if (n->kind == NEST_row) {
        int64_t row = extent(n, false);
        l.block = 32;
        while (l.block < BLOCK && (int64_t)l.block * ROW_EACH < row)
            l.block *= 2;
        l.grid_x = extent(n, true);
    } else {
        int each = n->kind == NEST_col ? COLUMNS : BLOCK;
        if (n->kind == NEST_map)
            each *= lanes;
        l.grid_x = (extent(n, true) + each - 1) / each;
    }
    l.grid_x = l.grid_x < GRID_MAX ? l.grid_x : GRID_MAX;
    return l;
}

CudaLaunch cuda_launch(const Plan *p, const Kernel *k)
{
    CudaGen g = {.c = {.m = p->module, .k = k, .nest = nest_of(p->module, k)}};
    cuda_lanes(&g, p);
    return launch_of(&g.c.nest, k, g.lanes);
}

int cuda_pointers(const Kernel *k, int operand[MAX_OPERANDS])
{
    int n = 0;
    for (int i = 0; i < k->noperands; i++)
        if (i < k->nin || k->alias[i] < 0)
            operand[n++] = i;
    return n;
}

/* ---- loops -------------------------------------------------------------------------------- */

/* Declares the indices of the loops that are spread, or of the others, from the flat number `of`.
 */
static void split_index(CudaGen *g, CodeEnv *e, bool of_spread, const char *of)
{
    int last = -1;
    int64_t below = 1;
    for (int i = 0; i < loops(&g->c.nest); i++)
        if (spread(&g->c.nest, i) == of_spread && last < 0)
            last = i; /* the outermost needs no remainder */
    for (int i = loops(&g->c.nest) - 1; i >= 0; i--) {
        if (spread(&g->c.nest, i) != of_spread)
            continue;
        bool lanes = g->lanes > 1 && i == g->lane_loop;
        int64_t size = nest_loop(&g->c.nest, i)->dim.size / (lanes ? g->lanes : 1);
        const char *name = cuda_temp(g, "i"), *x = of;
        if (below > 1)
            x = arena_printf(g->c.a, "%s / %lld", x, (long long)below);
        if (i != last)
            x = arena_printf(g->c.a, "%s %% %lld", x, (long long)size);
        if (lanes)
            x = arena_printf(g->c.a, "%s * %d", x, g->lanes);
        code_line(&g->c, "const %s %s = %s;", g->c.index, name, x);
        code_env_loop(&g->c, e, i, name);
        below *= size;
    }
}

static void open_brace(CudaGen *g)
{
    g->c.depth++;
    code_forget(&g->c);
}

static void close_brace(CudaGen *g)
{
    g->c.depth--;
    code_line(&g->c, "}");
    code_forget(&g->c);
}

/* Extents in steps of a thread. A step takes all lanes. */
static int64_t steps(const CudaGen *g, bool of_spread)
{
    bool lanes = g->lanes > 1 && spread(&g->c.nest, g->lane_loop) == of_spread;
    return extent(&g->c.nest, of_spread) / (lanes ? g->lanes : 1);
}

/* Loops over every spread element, with all threads in x. */
static void begin_spread(CudaGen *g, CodeEnv *e)
{
    code_line(&g->c,
              "for (int64_t n = (int64_t)blockIdx.x * %d + threadIdx.x; n < %lld; n += "
              "(int64_t)gridDim.x * %d) {",
              g->launch.block, (long long)steps(g, true), g->launch.block);
    open_brace(g);
    code_line(&g->c, "const %s at = (%s)n;", g->c.index, g->c.index);
    split_index(g, e, true, "at");
}

static void store(CudaGen *g, size_t k, const char *x, const CodeEnv *e)
{
    int o = g->c.k->nin + (int)k;
    code_line(&g->c, "%s = %s;", code_element(&g->c, o, &g->c.k->operand[o], e, NULL), x);
}

/* Stores result k of all lanes: as one vector if they are contiguous. */
static void store_lanes(CudaGen *g, size_t k, const char *const *x, const CodeEnv *first)
{
    int o = g->c.k->nin + (int)k;
    if (!g->vector[o]) {
        for (int lane = 0; lane < g->lanes; lane++) {
            CodeEnv e = cuda_lane(g, first, lane);
            store(g, k, x[lane], &e);
        }
        return;
    }
    const Operand *to = &g->c.k->operand[o];
    const char *type = arena_printf(g->c.a, "mg_vec<%s, %d>", cuda_type(to->type.dtype), g->lanes);
    const char *all = "";
    for (int lane = 0; lane < g->lanes; lane++)
        all = arena_printf(g->c.a, "%s%s%s", all, lane ? ", " : "", x[lane]);
    code_line(&g->c, "*(%s *)&%s = {{%s}};", type, code_element(&g->c, o, to, first, NULL), all);
}

/* All loads before all stores: a result may take an operand's place. */
static void store_all(CudaGen *g, const CodeEnv *first, const bool *which)
{
    const char *x[MAX_OPERANDS][LANES_MAX];
    memset(g->wide, 0, sizeof g->wide);
    for (int lane = 0; lane < g->lanes; lane++) {
        CodeEnv e = cuda_lane(g, first, lane);
        code_forget(&g->c);
        for (size_t k = 0; k < g->c.body->results.n; k++)
            if (!which || which[k])
                x[k][lane] = cuda_eval(g, g->c.body->results.data[k], &e);
    }
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        if (which && !which[k])
            continue;
        if (g->lanes > 1)
            store_lanes(g, k, x[k], first);
        else
            store(g, k, x[k][0], first);
    }
}

static void write_map(CudaGen *g)
{
    CodeEnv e = {0};
    begin_spread(g, &e);
    store_all(g, &e, NULL);
    close_brace(g);
}

/* ---- reductions --------------------------------------------------------------------------- */

static void step(CudaGen *g, const Ins *i, DType t, const char *acc, const char *x)
{
    if (i->op == OP_sum && i->exact)
        code_line(&g->c, "%s = mg_add_apart(%s, %s);", acc, acc, x);
    else if (i->op == OP_sum)
        code_line(&g->c, "%s += %s;", acc, x);
    else
        code_line(&g->c, "%s = mg_greater<%s>()(%s, %s);", acc, cuda_type(t), acc, x);
}

static DType dtype_of(const CudaGen *g, Value v)
{
    return type_of(g->c.m, v)->dtype;
}

static void begin_row_loop(CudaGen *g, const CodeEnv *row, CodeEnv *e)
{
    *e = *row;
    code_line(&g->c, "for (%s j = threadIdx.x; j < %lld; j += %d) {", g->c.index,
              (long long)steps(g, false), g->launch.block);
    open_brace(g);
    split_index(g, e, false, "j");
}

static void row_stage(CudaGen *g, const CodeEnv *row, int s)
{
    const Ins *sum[MAX_OPERANDS];
    const char *acc[MAX_OPERANDS];
    int n = 0;
    for (size_t i = 0; i < g->c.body->ins.n && n < MAX_OPERANDS; i++) {
        const Ins *ins = g->c.body->ins.data[i];
        if (!nest_reduces(ins) || g->c.stage[ins->out[0]] != s)
            continue;
        DType t = dtype_of(g, ins->out[0]);
        sum[n] = ins;
        acc[n] = cuda_temp(g, "s");
        code_line(&g->c, "%s %s = %s;", cuda_type(t), acc[n], code_start(&g->c, ins));
        n++;
    }
    CodeEnv e;
    begin_row_loop(g, row, &e);
    memset(g->wide, 0, sizeof g->wide);
    for (int lane = 0; lane < g->lanes; lane++) {
        CodeEnv mine = cuda_lane(g, &e, lane);
        code_forget(&g->c);
        for (int k = 0; k < n; k++)
            step(g, sum[k], dtype_of(g, sum[k]->out[0]), acc[k],
                 cuda_eval(g, sum[k]->in[0], &mine));
    }
    close_brace(g);
    g->lane = 0;
    for (int k = 0; k < n; k++) {
        code_line(&g->c, "%s = mg_block_%s<%d>(%s);", acc[k], sum[k]->op == OP_sum ? "sum" : "max",
                  g->launch.block, acc[k]);
        g->c.reduced[sum[k]->out[0]] = acc[k];
    }
}

/* A result with one number for each row is computed before the last loop and stored after it,
 * because it may take the place of an operand that the loop reads. */
static void write_row(CudaGen *g)
{
    CodeEnv row = {0}, e;
    bool is_wide[MAX_OPERANDS] = {0}, any = false, narrow = false;
    const char *x[MAX_OPERANDS];
    code_line(&g->c, "for (int64_t n = blockIdx.x; n < %lld; n += gridDim.x) {",
              (long long)extent(&g->c.nest, true));
    open_brace(g);
    code_line(&g->c, "const %s at = (%s)n;", g->c.index, g->c.index);
    split_index(g, &row, true, "at");
    int stages = nest_stages(g->c.body, g->c.stage);
    for (int s = 1; s <= stages; s++)
        row_stage(g, &row, s);
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        is_wide[k] = nest_wide(&g->c.nest, type_of(g->c.m, g->c.body->results.data[k]));
        any |= is_wide[k];
        narrow |= !is_wide[k];
        if (!is_wide[k])
            x[k] = cuda_eval(g, g->c.body->results.data[k], &row);
    }
    if (any) {
        begin_row_loop(g, &row, &e);
        store_all(g, &e, is_wide);
        close_brace(g);
    }
    if (narrow) {
        code_line(&g->c, "__syncthreads();"); /* all threads have read the old values */
        code_line(&g->c, "if (threadIdx.x == 0) {");
        g->c.depth++;
        for (size_t k = 0; k < g->c.body->results.n; k++)
            if (!is_wide[k])
                store(g, k, x[k], &row);
        g->c.depth--;
        code_line(&g->c, "}");
    }
    close_brace(g);
}

/* ---- columns ------------------------------------------------------------------------------ */

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

static void declare_sums(CudaGen *g, const char **acc)
{
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        Value v = g->c.body->results.data[k];
        acc[k] = cuda_temp(g, "s");
        code_line(&g->c, "%s %s = %s;", cuda_type(dtype_of(g, v)), acc[k],
                  code_start(&g->c, g->c.m->values.data[v].def));
    }
}

/* Sums every eighth of the rows [from, to), TERMS rows at a time. */
static void sum_rows(CudaGen *g, const CodeEnv *kept, const char *const *acc)
{
    const char *some[MAX_OPERANDS];
    CodeEnv e = *kept;
    const int slices = BLOCK / COLUMNS;
    code_line(&g->c, "for (%s k = from + threadIdx.x / %d; k < to; k += %d) {", g->c.index, COLUMNS,
              slices * TERMS);
    open_brace(g);
    declare_sums(g, some);
    code_line(&g->c, "for (%s j = k; j < to && j < k + %d; j += %d) {", g->c.index, slices * TERMS,
              slices);
    open_brace(g);
    split_index(g, &e, false, "j");
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        const Ins *sum = g->c.m->values.data[g->c.body->results.data[k]].def;
        step(g, sum, dtype_of(g, sum->out[0]), some[k], cuda_eval(g, sum->in[0], &e));
    }
    close_brace(g);
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        const Ins *sum = g->c.m->values.data[g->c.body->results.data[k]].def;
        step(g, sum, dtype_of(g, sum->out[0]), acc[k], some[k]);
    }
    close_brace(g);
}

static void write_col(CudaGen *g)
{
    CodeEnv kept = {0};
    const char *acc[MAX_OPERANDS];
    bool partial = g->c.k->phase == PHASE_partial;
    long long total = extent(&g->c.nest, false), chunks = g->c.k->chunks,
              n = extent(&g->c.nest, true);
    if (partial) {
        code_line(&g->c, "const %s from = (%s)(blockIdx.y * INT64_C(%lld) / %lld);", g->c.index,
                  g->c.index, total, chunks);
        code_line(&g->c, "const %s to = (%s)((blockIdx.y + INT64_C(1)) * %lld / %lld);", g->c.index,
                  g->c.index, total, chunks);
    } else {
        code_line(&g->c, "const %s from = 0, to = %lld;", g->c.index, total);
    }
    code_line(
        &g->c,
        "for (int64_t n = (int64_t)blockIdx.x * %d; n < %lld; n += (int64_t)gridDim.x * %d) {",
        COLUMNS, n, COLUMNS);
    open_brace(g);
    code_line(&g->c, "const int64_t mine = n + threadIdx.x %% %d;", COLUMNS);
    code_line(&g->c, "const %s at = (%s)(mine < %lld ? mine : %lld);", g->c.index, g->c.index, n,
              n - 1);
    split_index(g, &kept, true, "at");
    declare_sums(g, acc);
    sum_rows(g, &kept, acc);
    for (size_t k = 0; k < g->c.body->results.n; k++)
        code_line(&g->c, "%s = mg_column_%s<%d>(%s);", acc[k],
                  g->c.m->values.data[g->c.body->results.data[k]].def->op == OP_sum ? "sum" : "max",
                  BLOCK, acc[k]);
    code_line(&g->c, "if (threadIdx.x < %d && mine < %lld) {", COLUMNS, n);
    g->c.depth++;
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        int64_t elements;
        Operand o = chunk_of(g, k, &elements);
        int at = g->c.k->nin + (int)k;
        const char *base =
            partial ? arena_printf(g->c.a, "blockIdx.y * INT64_C(%lld)", (long long)elements)
                    : NULL;
        code_line(&g->c, "%s = %s;",
                  code_element(&g->c, at, partial ? &o : &g->c.k->operand[at], &kept, base),
                  acc[k]);
    }
    g->c.depth--;
    code_line(&g->c, "}");
    close_brace(g);
}

static void write_combine(CudaGen *g)
{
    CodeEnv e = {0};
    begin_spread(g, &e);
    for (int k = 0; k < g->c.k->nout; k++) {
        int64_t n;
        Operand o = chunk_of(g, (size_t)k, &n);
        const Ins *sum = g->c.m->values.data[g->c.body->results.data[k]].def;
        const char *acc = cuda_temp(g, "s");
        code_line(&g->c, "%s %s = %s;", cuda_type(o.type.dtype), acc, code_start(&g->c, sum));
        code_line(&g->c, "for (int c = 0; c < %lld; c++) {", (long long)g->c.k->chunks);
        g->c.depth++;
        const char *x = cuda_temp(g, "v");
        code_line(&g->c, "const %s %s = %s;", cuda_type(o.type.dtype), x,
                  code_element(&g->c, k, &o, &e,
                               arena_printf(g->c.a, "c * INT64_C(%lld)", (long long)n)));
        step(g, sum, o.type.dtype, acc, x);
        g->c.depth--;
        code_line(&g->c, "}");
        code_line(
            &g->c, "%s = %s;",
            code_element(&g->c, g->c.k->nout + k, &g->c.k->operand[g->c.k->nout + k], &e, NULL),
            acc);
    }
    close_brace(g);
}

/* ---- the function ------------------------------------------------------------------------- */

/* Do all flat numbers and all offsets in elements fit an int? */
static bool small(const CudaGen *g)
{
    int64_t max = extent(&g->c.nest, true) > extent(&g->c.nest, false) ? extent(&g->c.nest, true)
                                                                       : extent(&g->c.nest, false);
    for (int i = 0; i < g->c.k->noperands; i++) {
        const Operand *o = &g->c.k->operand[i];
        int64_t end = 1;
        for (int d = 0; d < o->type.rank; d++)
            end += (o->type.dims[d].size - 1) * o->stride[d];
        max = end > max ? end : max;
    }
    return max < INT32_MAX - (1 << 20);
}

static void write_kernel(const Plan *p, const Kernel *k, FILE *out)
{
    const Module *m = p->module;
    Arena *a = arena_new();
    CudaGen g = {.c = {.nest = nest_of(m, k), .out = out}};
    int pointer[MAX_OPERANDS], n = cuda_pointers(k, pointer);
    const char *name = name_str(m->names, k->name);
    code_begin(&g.c, &cuda_dialect, m, k, a);
    cuda_lanes(&g, p);
    g.launch = launch_of(&g.c.nest, k, g.lanes);
    g.c.index = small(&g) ? "int" : "int64_t";
    fprintf(out, "extern \"C\" __global__ void __launch_bounds__(%d, 1) %s(", g.launch.block, name);
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%s%s *__restrict__ p%d", i ? ", " : "",
                code_written(k, pointer[i]) ? "" : "const ",
                cuda_type(k->operand[pointer[i]].type.dtype), pointer[i]);
    fputs(")\n{\n", out);
    g.c.depth = 1;
    if (g.c.nest.kind == NEST_row)
        write_row(&g);
    else if (g.c.nest.kind == NEST_col)
        write_col(&g);
    else if (g.c.nest.kind == NEST_combine)
        write_combine(&g);
    else
        write_map(&g);
    fprintf(out, "}\nMG_EXPORT(%s)\n\n", name);
    arena_free(a);
}

void codegen_cuda_kernels(const Plan *p, const char *header, FILE *out)
{
    const Train *t = &p->module->train;
    fputs("/* Generated kernels. */\n", out);
    fprintf(out, "#define MG_WITH_%s\n", t->compute == DT_f64 ? "F64" : "F32");
    if (t->half)
        fprintf(out, "#define MG_WITH_%s\n", t->half == DT_bf16 ? "BF16" : "F16");
    fprintf(out, "#include \"%s\"\n\n", header);
    if (strcmp(header, "library.h") == 0)
        cuda_attention_kernels(p, out);
    for (size_t i = 0; i < p->kernels.n; i++)
        write_kernel(p, &p->kernels.data[i], out);
}
