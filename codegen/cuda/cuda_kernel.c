/* cuda_kernel.c - one fused instruction as one CUDA kernel.
 *
 *   map      one thread for each element, in the order of the largest operand
 *   row      a block, or a warp, for each row: loops over the row, stage by stage (cuda_rows.c)
 *   col      a block for some kept elements (cuda_columns.c); y is the number of the chunk, if the
 *            summed dims are cut into chunks
 *   combine  the same, of the chunks' sums
 *
 * Every sum has one order, on all devices. */
#include "codegen/cuda/cuda_gen.h"

#include <math.h>
#include <string.h>

enum { BLOCK = CUDA_BLOCK, GRID_MAX = 1 << 20 };

/* ---- shape of a launch -------------------------------------------------------------------- */

static int loops(const Nest *n)
{
    return n->nouter + n->ninner;
}

/* Is loop i spread over the threads of the grid? If not, it runs inside of a thread or block. */
bool cuda_spread(const Nest *n, int i)
{
    return n->kind == NEST_map || n->kind == NEST_combine ? true
           : n->kind == NEST_row                          ? i < n->nouter
                                                          : !nest_loop(n, i)->reduced;
}

int64_t cuda_extent(const Nest *n, bool of_spread)
{
    int64_t e = 1;
    for (int i = 0; i < loops(n); i++)
        if (cuda_spread(n, i) == of_spread)
            e *= nest_loop(n, i)->dim.size;
    return e;
}

static CudaLaunch launch_of(const CudaGen *g, const Kernel *k)
{
    const Nest *n = &g->c.nest;
    CudaLaunch l = {.grid_y = k->phase == PHASE_partial ? k->chunks : 1, .block = BLOCK};
    int each = BLOCK;
    if (n->kind == NEST_row) {
        l.block = g->row.threads * g->row.together;
        each = g->row.together;
    } else if (n->kind != NEST_map) {
        each = g->columns;
    }
    l.grid_x = (cuda_steps(g, true) + each - 1) / each;
    l.grid_x = l.grid_x < GRID_MAX ? l.grid_x : GRID_MAX;
    return l;
}

/* Decides all of a kernel that its text and its launch depend on. */
static void decide(CudaGen *g, const Plan *p, const Kernel *k)
{
    cuda_lanes(g, p);
    if (g->c.nest.kind == NEST_row)
        cuda_row(g);
    else if (g->c.nest.kind != NEST_map)
        cuda_columns(g);
    g->launch = launch_of(g, k);
}

CudaLaunch cuda_launch(const Plan *p, const Kernel *k)
{
    CudaGen g = {.c = {.nest = nest_of(p->module, k)}};
    Arena *a = arena_new();
    code_begin(&g.c, &cuda_dialect, p->module, k, a);
    decide(&g, p, k);
    arena_free(a);
    return g.launch;
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
void cuda_split_index(CudaGen *g, CodeEnv *e, bool of_spread, const char *of)
{
    enum { WARP = 32 };
    const bool shared = of_spread && g->across >= 0; /* a warp, between two loops */
    const char *thread = NULL;
    int last = -1;
    int64_t below = 1;
    if (shared) {
        thread = cuda_temp(g, "i");
        const char *warp = cuda_temp(g, "i");
        code_line(&g->c, "const %s %s = %s %% %d;", g->c.index, thread, of, WARP);
        code_line(&g->c, "const %s %s = %s / %d;", g->c.index, warp, of, WARP);
        of = warp;
    }
    for (int i = 0; i < loops(&g->c.nest); i++)
        if (cuda_spread(&g->c.nest, i) == of_spread && last < 0)
            last = i; /* the outermost needs no remainder */
    for (int i = loops(&g->c.nest) - 1; i >= 0; i--) {
        if (cuda_spread(&g->c.nest, i) != of_spread)
            continue;
        bool lanes = g->lanes > 1 && i == g->lane_loop;
        int64_t size = nest_loop(&g->c.nest, i)->dim.size / (lanes ? g->lanes : 1);
        if (shared && lanes)
            size /= WARP / g->span;
        if (shared && i == g->across)
            size /= g->span;
        const char *name = cuda_temp(g, "i"), *x = of;
        if (below > 1)
            x = arena_printf(g->c.a, "%s / %lld", x, (long long)below);
        if (i != last)
            x = arena_printf(g->c.a, "%s %% %lld", x, (long long)size);
        if (shared && lanes)
            x = arena_printf(g->c.a, "(%s * %d + %s / %d)", x, WARP / g->span, thread, g->span);
        if (shared && i == g->across)
            x = arena_printf(g->c.a, "%s * %d + %s %% %d", x, g->span, thread, g->span);
        if (lanes)
            x = arena_printf(g->c.a, "%s * %d", x, g->lanes);
        code_line(&g->c, "const %s %s = %s;", g->c.index, name, x);
        code_env_loop(&g->c, e, i, name);
        below *= size;
    }
}

void cuda_open(CudaGen *g)
{
    g->c.depth++;
    code_forget(&g->c);
    cuda_forget_moved(g);
}

void cuda_close(CudaGen *g)
{
    g->c.depth--;
    code_line(&g->c, "}");
    code_forget(&g->c);
    cuda_forget_moved(g);
}

/* Extents in steps of a thread. A step takes all lanes. */
int64_t cuda_steps(const CudaGen *g, bool of_spread)
{
    bool lanes = g->lanes > 1 && cuda_spread(&g->c.nest, g->lane_loop) == of_spread;
    return cuda_extent(&g->c.nest, of_spread) / (lanes ? g->lanes : 1);
}

/* Loops over every spread element, with all threads in x. */
static void begin_spread(CudaGen *g, CodeEnv *e)
{
    code_line(&g->c,
              "for (int64_t n = (int64_t)blockIdx.x * %d + threadIdx.x; n < %lld; n += "
              "(int64_t)gridDim.x * %d) {",
              g->launch.block, (long long)cuda_steps(g, true), g->launch.block);
    cuda_open(g);
    code_line(&g->c, "const %s at = (%s)n;", g->c.index, g->c.index);
    cuda_split_index(g, e, true, "at");
}

void cuda_store(CudaGen *g, size_t k, const char *x, const CodeEnv *e)
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
            cuda_store(g, k, x[lane], &e);
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

void cuda_eval_results(CudaGen *g, const CodeEnv *e, const bool *which, CudaResults *x)
{
    for (size_t k = 0; k < g->c.body->results.n; k++)
        if (!which || which[k])
            x->at[k][g->lane] = cuda_eval(g, g->c.body->results.data[k], e);
}

void cuda_store_results(CudaGen *g, const CodeEnv *first, const bool *which, const CudaResults *x)
{
    for (size_t k = 0; k < g->c.body->results.n; k++) {
        if (which && !which[k])
            continue;
        if (g->lanes > 1)
            store_lanes(g, k, x->at[k], first);
        else
            cuda_store(g, k, x->at[k][0], first);
    }
}

void cuda_store_all(CudaGen *g, const CodeEnv *first, const bool *which)
{
    CudaResults x;
    cuda_new_lanes(g);
    for (int lane = 0; lane < g->lanes; lane++) {
        CodeEnv e = cuda_lane(g, first, lane);
        code_forget(&g->c);
        cuda_eval_results(g, &e, which, &x);
    }
    cuda_store_results(g, first, which, &x);
}

static void write_map(CudaGen *g)
{
    CodeEnv e = {0};
    begin_spread(g, &e);
    cuda_store_all(g, &e, NULL);
    cuda_close(g);
}

/* ---- reductions --------------------------------------------------------------------------- */

void cuda_add(CudaGen *g, const Ins *i, DType t, const char *acc, const char *x)
{
    if (i->op == OP_sum)
        code_line(&g->c, "%s += %s;", acc, x);
    else
        code_line(&g->c, "%s = mg_greater<%s>()(%s, %s);", acc, cuda_type(t), acc, x);
}

DType cuda_dtype(const CudaGen *g, Value v)
{
    return type_of(g->c.m, v)->dtype;
}

/* ---- the function ------------------------------------------------------------------------- */

/* Do all flat numbers and all offsets in elements fit an int? */
static bool small(const CudaGen *g)
{
    int64_t max = cuda_extent(&g->c.nest, true) > cuda_extent(&g->c.nest, false)
                      ? cuda_extent(&g->c.nest, true)
                      : cuda_extent(&g->c.nest, false);
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
    decide(&g, p, k);
    g.c.index = small(&g) ? "int" : "int64_t";
    fprintf(out, "extern \"C\" __global__ void __launch_bounds__(%d, 1) %s(", g.launch.block, name);
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%s%s *__restrict__ p%d", i ? ", " : "",
                code_written(k, pointer[i]) ? "" : "const ",
                cuda_type(k->operand[pointer[i]].type.dtype), pointer[i]);
    fputs(")\n{\n", out);
    g.c.depth = 1;
    if (g.c.nest.kind == NEST_row)
        cuda_write_row(&g);
    else if (g.c.nest.kind == NEST_map)
        write_map(&g);
    else
        cuda_write_columns(&g);
    fprintf(out, "}\nMG_EXPORT(%s)\n\n", name);
    arena_free(a);
}

/* Does any kernel read or store what is kept in 8 bits or fewer? */
static bool has_dynamic(const Plan *p)
{
    bool any = false;
    for (size_t i = 0; i < p->kernels.n; i++)
        for (int o = 0; o < p->kernels.data[i].noperands; o++) {
            const DType t = p->kernels.data[i].operand[o].type.dtype;
            any |= !p->kernels.data[i].level && (dtype_is_dynamic(t) || t == DT_u8);
        }
    return any;
}

void codegen_cuda_kernels(const Plan *p, const char *header, FILE *out)
{
    const Train *t = &p->module->train;
    fputs("/* Generated kernels. */\n", out);
    fprintf(out, "#define MG_WITH_%s\n", t->compute == DT_f64 ? "F64" : "F32");
    if (t->half)
        fprintf(out, "#define MG_WITH_%s\n", t->half == DT_bf16 ? "BF16" : "F16");
    if (t->fp8_products && t->fp8_scales != SCALES_tensor)
        fputs("#define MG_WITH_TILES\n", out);
    fprintf(out, "#include \"%s\"\n%s\n", header, has_dynamic(p) ? "#include \"dynamic.h\"\n" : "");
    if (strcmp(header, "library.h") == 0)
        cuda_instances(p, out);
    for (size_t i = 0; i < p->kernels.n; i++)
        if (p->kernels.data[i].level == LEVEL_device)
            write_kernel(p, &p->kernels.data[i], out);
}
