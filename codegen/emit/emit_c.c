/* emit_c.c - the emitted program: one C file that calls kernels on places of one arena.
 *
 * Each program (step, eval, sample, round) becomes a function with the loops of the plan. Above the
 * calls are the source lines that they come from. These functions come before all tables, so that a
 * reader begins with mg_step. The emitter decides nothing: order, places and kernels are those of
 * the plan. */
#include "codegen/c/c_kernels.h"
#include "codegen/cuda/cuda.h"
#include "codegen/emit/writer.h"
#include "codegen/emit/emit_c.h"

#include <stdlib.h>
#include <string.h>

static const char *str(const Emitter *e, Name n)
{
    return name_str(e->m->names, n);
}

/* ---- programs -------------------------------------------------------------------------------- */

static void emit_loop(const Writer *w, uint32_t index, int depth)
{
    const Loop *l = &w->p->loops.data[index];
    const char *i = w->loop[index];
    long long n = (long long)l->dim.size;
    fprintf(w->e->out, "%*sfor (int64_t %s = ", depth * 4, "", i);
    if (l->reverse)
        fprintf(w->e->out, "%lld; %s >= 0; %s--) {\n", n - 1, i, i);
    else
        fprintf(w->e->out, "0; %s < %lld; %s++) {\n", i, n, i);
}

/* The loop over the microbatches of a pipeline goes through its table. */
int emit_loop_begin(const Writer *w, const Action *a, int depth)
{
    const Loop *l = &w->p->loops.data[a->loop];
    const Name layers = w->e->m->layout.pipeline.dim;
    emit_waits(w, a, depth);
    if (w->p->pipe && (int)a->loop == w->p->pipe->loop) {
        emit_pipe_begin(w->e, w->entry, depth);
        return depth + 2;
    }
    if (emit_in_pipe(w->p, l->parent) && l->dim.name == layers)
        emit_stage_loop(w->e, w->p, l, w->loop[a->loop], depth);
    else
        emit_loop(w, a->loop, depth);
    return depth + 1;
}

int emit_loop_end(Writer *w, const Action *a, int depth)
{
    emit_waits(w, a, depth);
    if (w->p->pipe && (int)a->loop == w->p->pipe->loop) {
        emit_pipe_end(w, depth - 2);
        return depth - 2;
    }
    fprintf(w->e->out, "%*s}\n", (depth - 1) * 4, "");
    return depth - 1;
}

static void emit_body(Writer *w)
{
    FILE *out = w->e->out;
    int depth = 1;
    emit_gathers(w, depth);
    for (size_t i = w->p->pipe ? (size_t)w->p->pipe->ahead : 0; i < w->p->actions.n; i++) {
        const Action *a = &w->p->actions.data[i];
        if (a->chunk) /* at its place in the table */
            continue;
        if (a->kind == ACT_loop) {
            if (w->called)
                fputc('\n', out);
            depth = emit_loop_begin(w, a, depth);
            emit_point(w, a, depth);
            w->called = false;
        } else if (a->kind == ACT_phase) {
            emit_waits(w, a, depth); /* at the end of the phase before it, whatever comes next */
            emit_pipe_phase(w->e, w->p, a, depth);
            if (w->p->pipe->join && a == &w->p->actions.data[w->p->pipe->begin[0]])
                emit_join_call(w, depth);
            w->called = false;
        } else if (a->kind == ACT_end) {
            depth = emit_loop_end(w, a, depth);
            emit_point(w, a, depth);
            w->called = true;
            if (death_at(w->e->p, w->p, i))
                fprintf(out, "%*smg_ended(r, %u);\n", depth * 4, "", death_event(w->e->p, w->p, i));
        } else {
            emit_call(w, a, depth);
            if (a->kind == ACT_guard)
                w->guarded = a->noperands > 1; /* behind one of the loss there is more */
        }
    }
}

/* The variable of a loop is the first letter of its dim. Inside of a loop with the same letter it
 * gets a number. `r` and `o` have other meanings. */
static void name_loops(Writer *w)
{
    for (size_t l = 0; l < w->p->loops.n; l++) {
        CNames fresh = cnames_new(w->e->a);
        cname(&fresh, "", "r");
        cname(&fresh, "", "o");
        int chain[MAX_NEST + 1], n = 0;
        for (int up = (int)l; up >= 0 && n <= MAX_NEST; up = w->p->loops.data[up].parent)
            chain[n++] = up;
        while (n-- > 0)
            w->loop[l] = cname(
                &fresh, "",
                arena_printf(w->e->a, "%.1s", str(w->e, w->p->loops.data[chain[n]].dim.name)));
    }
    if (w->p->pipe)
        w->loop[w->p->pipe->loop] = "o->microbatch";
}

static void emit_entry_function(Emitter *e, const Program *p, const char *entry, const char *what)
{
    if (!p) {
        fprintf(e->out,
                "/* %s: this model has none. */\nvoid mg_%s(mg_run *r)\n{\n    (void)r;\n}\n\n",
                what, entry);
        return;
    }
    Writer w = {.e = e, .p = p, .entry = entry, .block = ""};
    w.loop = NEW_ARRAY(e->a, const char *, p->loops.n + 1);
    name_loops(&w);
    w.point = stream_points(p, e->a);
    w.beside = stream_beside(e, p);
    if (p->pipe && p->pipe->join)
        emit_join(&w);
    fprintf(e->out,
            "/* %s: predicted %.3g ms, %.4g GFLOP. */\nvoid mg_%s(mg_run *r)\n{\n"
            "    char *base = mg_arena(r);\n",
            what, p->seconds * 1e3, p->flops * 1e-9, entry);
    emit_body(&w);
    if (!p->actions.n)
        fputs("    (void)base;\n", e->out);
    fputs("}\n\n", e->out);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void emit_heading(const Emitter *e)
{
    static const char *const owners[OWN_count] = {"parameters",  "gradients",         "optimizer",
                                                  "activations", "communication",     "workspace",
                                                  "caches",      "inputs and results"};
    FILE *out = e->out;
    fputs("/* ", out);
    emit_comment_text(out, str(e, e->m->name), 200);
    fputs(": compiled by mgc " MGC_VERSION " from ", out);
    emit_comment_text(out, e->m->source, 400);
    fputs(", layout ", out);
    emit_comment_text(out, str(e, e->m->layout.name), 200);
    fputs(", device ", out);
    emit_comment_text(out, str(e, e->m->layout.device), 200);
    fputs(".\n *\n * The runtime owns the process: it reads mg_main, at the end, and calls mg_step "
          "for each step of\n"
          " * training, mg_eval, mg_sample and mg_round. Each call in them is one action: its "
          "number in "
          "the table of\n"
          " * actions, what is done, on which places. ",
          out);
    fputs(e->kernels ? "Kernels stand behind mg_round, each below what it computes\n"
                       " * (y' is y's new value). To make the program, with HOME the home that "
                       "mgc env prints:\n *\n"
                       " *     cc -std=c17 -O2 -ffp-contract=off -IHOME/include FILE.c "
                       "HOME/libmgrt.a -lm -lpthread -ldl -o train\n"
                     : "Kernels stand in an object file; what they compute is written\n"
                       " * beside their declarations (y' is y's new value).\n",
          out);
    fprintf(out, " *\n * Everything lives in one arena of %lld bytes; at the peak:",
            (long long)e->p->arena_bytes);
    const char *comma = "";
    for (int i = 0; i < OWN_count; i++)
        if (e->p->memory[i]) {
            fprintf(out, "%s %s %lld", comma, owners[i], (long long)e->p->memory[i]);
            comma = ",";
        }
    fputs(". */\n#include \"abi.h\"\n", out);
    if (e->kernels)
        c_kernels_include(e);
    fputc('\n', out);
    fputs(e->cuda ? "#define LAUNCH(n, kernel, ...) "
                    "mg_cuda_launch(r, n, K_##kernel, (void *[]){__VA_ARGS__})\n"
                  : "#define LAUNCH(n, kernel, units, grain, ...) "
                    "mg_launch(r, n, kernel, units, grain, (void *[]){__VA_ARGS__})\n",
          out);
    if (plan_host_kernels(e->p))
        fputs("#define HOST(n, kernel, units, grain, pointers, ...) "
              "mg_host_launch(r, n, kernel, units, grain, pointers, (int64_t[]){__VA_ARGS__})\n",
              out);
    fputs("#define PRODUCT(n, what, x, y, result) "
          "mg_gemm(r, n, &what, x, y, result, NULL, NULL)\n\n",
          out);
}

/* The number of a kernel in cuda_kernels: those of the host are not there. */
static size_t cuda_number(const Plan *p, size_t k)
{
    size_t n = 0;
    for (size_t i = 0; i < k; i++)
        n += !kernel_on_processor(p, &p->kernels.data[i]);
    return n;
}

/* Kernels with the same formula stand together beside it. */
static void emit_kernels(const Emitter *e)
{
    const size_t n = e->p->kernels.n;
    const Kernel *kernel = e->p->kernels.data;
    const char **formula = NEW_ARRAY(e->a, const char *, n + 1);
    for (size_t i = 0; i < n; i++)
        formula[i] = kernel_text(e, &kernel[i]).formula;
    fputs("/* Generated kernels. */\n", e->out);
    for (size_t i = 0; i < n; i++) {
        if (!formula[i])
            continue;
        const bool here = kernel_on_processor(e->p, &kernel[i]);
        const char *same = formula[i], *comma = "", *all = "";
        for (size_t k = i; k < n; k++) {
            if (!formula[k] || kernel_on_processor(e->p, &kernel[k]) != here ||
                strcmp(formula[k], same) != 0)
                continue;
            const char *name = str(e, kernel[k].name);
            all = here ? arena_printf(e->a, "%s%s %s", all, comma, name)
                       : arena_printf(e->a, "%s%s K_%s = %zu", all, comma, name,
                                      cuda_number(e->p, k));
            comma = ",";
            formula[k] = NULL;
        }
        all = arena_printf(e->a, here ? "extern mg_kernel%s;" : "enum {%s };", all);
        const bool beside = strlen(all) + strlen(same) + strlen(" /*  */") <= EMIT_WIDTH;
        fprintf(e->out, beside ? "%s /* " : "/* ", all);
        emit_comment_text(e->out, same, strlen(same));
        fprintf(e->out, beside ? " */\n" : " */\n%s\n", all);
    }
    fputs("\n", e->out);
}

/* The launch of each kernel on a GPU. */
static void emit_cuda_kernels(const Emitter *e)
{
    const Plan *p = e->p;
    fputs("/* Generated kernels, in kernels.cu: grid, threads of a block, pointers it takes. */\n"
          "static const mg_cuda_kernel cuda_kernels[] = {\n",
          e->out);
    for (size_t i = 0; i < p->kernels.n; i++) {
        const Kernel *k = &p->kernels.data[i];
        if (kernel_on_processor(p, k))
            continue;
        CudaLaunch l = cuda_launch(p, k);
        int operand[MAX_OPERANDS], n = cuda_pointers(k, operand);
        fprintf(
            e->out,
            "    {.name = \"%s\", .grid_x = %lld, .grid_y = %lld, .block = %d, .npointers = %d, "
            ".pointer = (const uint8_t[]){",
            str(e, k->name), (long long)l.grid_x, (long long)l.grid_y, l.block, n);
        for (int j = 0; j < n; j++)
            fprintf(e->out, "%s%d", j ? ", " : "", operand[j]);
        fputs("}},\n", e->out);
    }
    fputs("};\nextern const unsigned char mg_cuda_image[];\n\n", e->out);
}

static void emit_functions(Emitter *e)
{
    emit_entry_function(e, e->p->train, "step", "A training step");
    emit_entry_function(e, e->p->eval, "eval", "The loss of held-out sequences");
    emit_entry_function(e, e->p->sample, "sample", "The next token");
    emit_entry_function(e, e->p->round, "round", "Rounded copies of parameters");
    if (e->p->prefill)
        emit_entry_function(e, e->p->prefill, "prefill", "Tokens of prompts");
    if (e->p->decode)
        emit_entry_function(e, e->p->decode, "decode", "One more token of each text");
    if (e->p->spread)
        emit_entry_function(e, e->p->spread, "spread", "What prompts left, for their texts");
}

static void emit_all_tables(Emitter *e)
{
    fputs("/* From here on, tables: a place is its offset in the arena, in bytes. */\n"
          "#define base 0\n"
          "#define AT(line) ",
          e->out);
    emit_string(e->out, e->m->source);
    fputs(" \":\" #line\n", e->out);
    fputs("#define GEMM(type, made, rows, columns, inner, x, y, z, f, g, times) .dtype = type, "
          ".out = made, .m = rows, "
          ".n = columns, .k = inner, .lda = x, .ldb = y, .ldc = z, .alpha = f, .beta = g, "
          ".batch = times\n",
          e->out);
    emit_descriptors(e);
    if (e->cuda)
        emit_cuda_kernels(e);
    emit_stages(e);
    emit_pipe(e, e->p->train, "step");
    emit_pipe(e, e->p->eval, "eval");
    emit_pipe(e, e->p->sample, "sample");
    emit_pipe(e, e->p->round, "round");
    emit_pipe(e, e->p->prefill, "prefill");
    emit_pipe(e, e->p->decode, "decode");
    emit_pipe(e, e->p->spread, "spread");
    emit_tensors(e);
    emit_actions(e);
    emit_deaths(e);
    emit_program(e);
}

void codegen_emit_c(const Plan *p, const char *features, bool kernels, FILE *out)
{
    static const char *const taken[] = {"mg_main",  "mg_step",    "mg_eval",   "mg_sample",
                                        "mg_round", "mg_prefill", "mg_decode", "mg_spread",
                                        "tensors",  "actions",    "main",      "deaths",
                                        "base",     "alike",      "held",      "stage_layers"};
    Arena *a = arena_new();
    char *text;
    size_t size;
    Emitter e = {.p = p, .m = p->module, .a = a, .features = features, .kernels = kernels};
    e.out = open_memstream(&text, &size);
    e.cuda = p->device->target == TARGET_cuda;
    e.names = cnames_new(a);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        cname(&e.names, "", taken[i]);
    for (size_t i = 0; i < p->kernels.n; i++)
        name_intern(e.names.used, str(&e, p->kernels.data[i].name));
    e.buffer = NEW_ARRAY(a, const char *, p->buffers.n + 1);
    e.step = NEW_ARRAY(a, int64_t, p->buffers.n + 1);
    e.desc = NEW_ARRAY(a, const char *, p->nactions + 1);
    e.begins = NEW_ARRAY(a, const char *, p->nactions + 1);
    e.described = arena_array(a, 2 * p->nactions + 1, sizeof *e.described);
    emit_heading(&e);
    emit_kernels(&e);
    emit_buffers(&e);
    emit_descriptor_names(&e);
    emit_pipe_names(&e);
    emit_functions(&e);
    if (kernels)
        c_kernels(&e);
    emit_all_tables(&e);
    fclose(e.out);
    emit_wrapped(out, text);
    free(text);
    arena_free(a);
}
