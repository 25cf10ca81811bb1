/* c_kernels.c - the fused instructions of a plan as plain C functions. They replace LLVM's kernels,
 * and have the same names, units and arguments. */
#include "codegen/c/c_kernels.h"
#include "codegen/c/c_gen.h"

#include <stdlib.h>
#include <string.h>

static void write_body(CGen *g)
{
    c_cut(g);
    if (g->c.k->phase == PHASE_partial)
        c_partial(g);
    else if (g->c.nest.kind == NEST_combine)
        c_combine(g);
    else if (g->c.nest.kind == NEST_row)
        c_row(g);
    else if (g->c.nest.kind == NEST_col)
        c_col(g);
    else {
        CodeEnv e = {0};
        c_units(g, &e);
        c_open_loops(g, 0, c_loops(g), -1, &e);
        c_store(g, &e, NULL);
    }
    c_close_to(g, 0);
}

/* Writes a kernel, one of the two times: its statements, in the arena. */
static const char *body_text(CGen *g, const Kernel *k, bool counting)
{
    char *text;
    size_t size;
    CGen fresh = {.c = {.uses = {g->c.uses.data, g->c.uses.n, g->c.uses.cap}, .counting = counting},
                  .e = g->e,
                  .text = g->text,
                  .taken = g->taken};
    Arena *a = g->c.a;
    *g = fresh;
    code_begin(&g->c, &c_dialect, g->e->m, k, a);
    g->c.nest = nest_on_host(g->e->m, k);
    g->c.out = open_memstream(&text, &size);
    g->c.depth = 1;
    c_name_operands(g);
    write_body(g);
    fclose(g->c.out);
    const char *kept = arena_strdup(a, text);
    free(text);
    return kept;
}

/* "float *restrict y = args[2]; / * f32[seq=128] * /": operands lie apart from each other. */
static void declare_operand(const CGen *g, int o)
{
    const Kernel *k = g->c.k;
    const Type *t = &k->operand[o].type;
    FILE *out = g->e->out;
    fprintf(out, "    %s%s *restrict %s = args[%d]; /* %s[", code_written(k, o) ? "" : "const ",
            code_stored(&c_dialect, t->dtype), g->pointer[o], o, dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) {
        fputs(i ? ", " : "", out);
        const char *name = name_str(g->e->m->names, t->dims[i].name);
        emit_comment_text(out, name, strlen(name));
        fprintf(out, "=%lld", (long long)t->dims[i].size);
    }
    fputs("] */\n", out);
}

static void write_kernel(const Emitter *e, const Kernel *k, const Names *taken)
{
    CGen g = {.e = e, .text = kernel_text(e, k), .taken = taken};
    g.c.a = arena_new();
    body_text(&g, k, true);
    const char *body = body_text(&g, k, false);
    fputs("/* ", e->out);
    emit_comment_text(e->out, g.text.formula, strlen(g.text.formula));
    fprintf(e->out, " */\nvoid %s(void *const *args, int64_t begin, int64_t end)\n{\n",
            name_str(e->m->names, k->name));
    for (int o = 0; o < k->noperands; o++)
        if (g.pointer[o] && g.c.uses.data[g.read[o]])
            declare_operand(&g, o);
    fprintf(e->out, "%s}\n\n", body);
    arena_free(g.c.a);
}

/* Does any kernel reduce to a maximum in this type? */
static bool has_maximum(const Emitter *e, DType t)
{
    bool any = false;
    for (size_t i = 0; i < e->p->kernels.n; i++) {
        const Region *body = e->p->kernels.data[i].ins->body;
        for (size_t n = 0; n < body->ins.n; n++)
            any |= body->ins.data[n]->op == OP_rmax &&
                   (type_of(e->m, body->ins.data[n]->out[0])->dtype == DT_f64) == (t == DT_f64);
    }
    return any;
}

/* Does any kernel read, store or round to such numbers? */
static bool has(const Emitter *e, bool (*such)(DType))
{
    bool any = false;
    for (size_t i = 0; i < e->p->kernels.n; i++) {
        const Kernel *k = &e->p->kernels.data[i];
        const Region *body = k->ins->body;
        for (int o = 0; o < k->noperands; o++)
            any |= such(k->operand[o].type.dtype);
        for (size_t n = 0; n < body->ins.n; n++)
            any |= such(type_of(e->m, body->ins.data[n]->out[0])->dtype);
    }
    return any;
}

static bool in_fp8_h(DType t)
{
    return dtype_is_fp8(t) || t == DT_e8m0;
}

static bool in_nf4_h(DType t)
{
    return t == DT_u8;
}

void c_kernels_include(const Emitter *e)
{
    fputs(has(e, in_fp8_h) ? "#include \"fp8.h\"\n" : "", e->out);
    fputs(has(e, dtype_is_dynamic) ? "#include \"dynamic8.h\"\n" : "", e->out);
    fputs(has(e, in_nf4_h) ? "#include \"nf4.h\"\n" : "", e->out);
    fputs(has(e, dtype_is_half) ? "#include \"half.h\"\n\n" : "\n", e->out);
    fputs("#include <math.h>\n", e->out);
}

void c_kernels(const Emitter *e)
{
    Arena *a = arena_new();
    const Names *taken = c_taken(e, a);
    fputs("/* The kernels, in C: units [begin, end) of what is done, on those places. */\n\n",
          e->out);
    static const char larger[] =
        "static inline %s larger%s(%s a, %s b) /* a NaN, if either is one */\n"
        "{\n    return a > b || a != a ? a : b;\n}\n\n";
    if (has_maximum(e, DT_f32))
        fprintf(e->out, larger, "float", "f", "float", "float");
    if (has_maximum(e, DT_f64))
        fprintf(e->out, larger, "double", "", "double", "double");
    for (size_t i = 0; i < e->p->kernels.n; i++)
        write_kernel(e, &e->p->kernels.data[i], taken);
    arena_free(a);
}
