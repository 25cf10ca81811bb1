/* numbers.c - what comes out of the compiler against what the program says, by the reference
 * interpreter and in double precision; see try.h.
 *
 * Of the elaborated program: the loss, before and after differentiation, and the gradients against
 * differences of the loss; and both against the program without padding. Of the program of its
 * layout, after all passes and as it is planned: all that a step, an evaluation and a sample give,
 * on every rank, against one rank. */
#include "tests/programs/try.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compiler/session.h"
#include "decide/make.h"
#include "ir/optimizers.h"
#include "passes/walk.h"
#include "runtime/int8.h"
#include "runtime/nf4.h"
#include "tests/plan/sharded.h"
#include "tests/sample.h"

static const double WORK_MAX = SANITIZED ? 3e5 : 1e6; /* numbers that a step computes */
static const double SLOPE_BOUND = 1e-4;

_Noreturn void differs(const char *what, double off)
{
    fprintf(stderr, "%s is off by %.2e\n", what, off);
    fflush(stderr);
    _exit(EXIT_NUMBERS);
}

/* ---- how much it computes -------------------------------------------------------------------- */

static double work_of(const Module *m, const Region *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->ins.n; i++) {
        const Ins *ins = r->ins.data[i];
        double n = 1;
        for (uint32_t k = 0; k < ins->nout; k++)
            n += (double)type_elements(type_of(m, ins->out[k]));
        for (int k = 0; ins->op == OP_dot && k < ins->attrs.over.n; k++)
            n *= (double)ins->attrs.over.dim[k].size;
        if (ins->op == OP_attention)
            n *= 4 * (double)ins->attrs.along.size;
        sum += ins->body ? n + (double)ins->attrs.dim.size * work_of(m, ins->body) : n;
    }
    return sum;
}

/* ---- one rank -------------------------------------------------------------------------------- */

/* The program of one rank in double precision; `at_once` sequences at once, 0: all. An optimizer
 * that makes much of nothing (a sign, a ratio of two tiny numbers) is another one here. */
static void be_comparable(Module *m, uint64_t seed)
{
    for (Goal *t = m->train.goal; t < m->train.goal + m->train.goals; t++) {
        const OptimizerInfo *o = t->optimizer;
        bool smooth = o == &optimizers[OPT_adam] || o == &optimizers[OPT_adamw] ||
                      o == &optimizers[OPT_sgd] || o->declaration;
        t->eps = 1e-3;
        if (!smooth || seed % 2) {
            t->optimizer = &optimizers[OPT_sgd];
            t->momentum = 0;
            t->nesterov = false;
        }
    }
}

static bool as_said(void *who, const char *device)
{
    (void)device;
    return *(const bool *)who;
}

/* gpu: is its device one, which pads the vocabulary? after: the passes up to this one are left out;
 * NULL: none is. */
static void open_one(Model *t, const char *text, int64_t at_once, bool gpu, uint64_t seed,
                     const char *after)
{
    model_open(t);
    Diag *d = t->m->diag;
    Ast *ast =
        mg_parse(t->a, names_new(t->a), d, diag_add_file(d, "program.mg", text, strlen(text)));
    t->m =
        mg_elaborate(t->a, ast->names, d, ast,
                     &(ElaborateOptions){
                         .precision = "f64", .recompute = "auto", .is_gpu = as_said, .who = &gpu});
    if (!t->m) /* an option has made it legal, say another microbatch */
        _exit(EXIT_done);
    t->fn = module_fn(t->m, "train");
    t->m->layout.mesh.n = t->m->layout.rules.n = 0;
    t->m->layout.pipeline = (Pipeline){0};
    t->m->layout.microbatch = at_once ? at_once : t->m->batch.size;
    if (after) /* one position after the other */
        t->m->layout.chunk = 1;
    else if (!t->m->layout.chunk)
        t->m->layout.chunk = 2 + (int64_t)(seed % 4);
    be_comparable(t->m, seed);
    must_make(t, NULL, after, "precision");
}

/* Was a dim padded as on a GPU? Ranks pad in any program of the text. */
static bool pads_rows(const Module *m)
{
    for (size_t k = 0; k < m->layout.padded.n; k++)
        if (!m->layout.padded.data[k].ranks)
            return true;
    return false;
}

/* On to the gradients, or further. False: a pass refuses the program, as it may what another choice
 * of what is kept would have let through. */
static bool passes_to(Model *t, const char *upto)
{
    PlanJob job = {
        .m = t->m, .a = t->a, .after = "frontier", .upto = upto, .decided = true, .log = stderr};
    PassStatus s = plan_make(&job);
    t->m = job.m;
    if (s != PASS_ok && s != PASS_error)
        _exit(EXIT_internal);
    return s == PASS_ok;
}

/* Padding is zero. */
static void clear_padding(const Module *m, FnArg arg, Tensor64 *x)
{
    if (arg.role != ARG_param)
        return;
    const Tensor *t = &m->tensors.data[arg.tensor];
    for (int64_t e = 0; e < type_elements(&x->type); e++) {
        int64_t rest = e;
        for (int i = x->type.rank - 1; i >= 0; i--) {
            if (rest % x->type.dims[i].size >= t->valid[i])
                x->data[e] = 0;
            rest /= x->type.dims[i].size;
        }
    }
}

static Tensor64 *arguments(Model *t, const Fn *fn, uint64_t seed)
{
    Tensor64 *args = inputs_for(t, fn, seed, -0.7, 0.7);
    for (size_t i = 0; i < fn->args.n; i++) {
        clear_padding(t->m, fn->args.data[i], &args[i]);
        if (fn->args.data[i].role == ARG_pos && t->m->seq.size == 1)
            args[i].data[0] = 0;
    }
    return args;
}

static bool all_finite(const Fn *fn, const Tensor64 *x)
{
    for (size_t k = 0; k < fn->results.n; k++)
        for (int64_t e = 0; e < type_elements(&x[k].type); e++)
            if (!isfinite(x[k].data[e]) || fabs(x[k].data[e]) > 1e12)
                return false;
    return true;
}

/* ---- what rounding alone does -----------------------------------------------------------------
 */

/* The same arguments, changed in their last bits. */
static Tensor64 *nudged(Model *t, const Fn *fn, const Tensor64 *args)
{
    uint64_t rng = 3;
    Tensor64 *other = NEW_ARRAY(t->a, Tensor64, fn->args.n);
    for (size_t i = 0; i < fn->args.n; i++) {
        int64_t n = type_elements(&args[i].type);
        ArgRole role = fn->args.data[i].role;
        bool exact = (role != ARG_param && role != ARG_input) || args[i].type.indexes ||
                     args[i].type.dtype == DT_u8 || args[i].type.dtype == DT_dynamic8;
        other[i] = (Tensor64){args[i].type, NEW_ARRAY(t->a, double, n)};
        for (int64_t e = 0; e < n; e++)
            other[i].data[e] = args[i].data[e] * (exact ? 1 : 1 + draw(&rng, -1, 1) * 1e-14);
    }
    return other;
}

/* How far apart two runs are in a result: infinitely if one is not finite. */
static double apart(const Tensor64 *x, const Tensor64 *y)
{
    double off = 0;
    for (int64_t e = 0; e < type_elements(&x->type); e++) {
        const double by = fabs(x->data[e] - y->data[e]);
        off = fmax(off, isfinite(by) ? by : INFINITY);
    }
    return off;
}

/* How far each result is from `want` if every number on the way is off by its rounding, as in any
 * run: the gradients of logits that share all they are made of cancel whatever the arguments are,
 * and are made of nothing else; and where numbers that are equal by mathematics are compared,
 * rounding decides. (What is computed twice is rounded alike, and must compare as equal.)
 * Infinitely, if rounding makes it another result: a root of what is zero by mathematics. */
static const double *shaken(Model *t, const Fn *fn, const Tensor64 *args, const Tensor64 *want)
{
    enum { SHAKES = 4 };
    Tensor64 *got = NEW_ARRAY(t->a, Tensor64, fn->results.n);
    double *off = NEW_ARRAY(t->a, double, fn->results.n + 1);
    for (uint64_t n = 1; n <= SHAKES;
         n++) { /* one may differ in the sign alone of what is squared */
        ir_interpret_shaken(t->m, fn, args, got, t->a, n);
        for (size_t k = 0; k < fn->results.n; k++)
            off[k] = fmax(off[k], apart(&got[k], &want[k]));
    }
    return off;
}

/* BOUND of this size is a thousand times what rounding does: a change of the arguments in their
 * last bits, and one of each number on the way. */
const double *noise(Model *t, const Fn *fn, const Tensor64 *args, const Tensor64 *want)
{
    enum { TIMES = 1000 };
    const double SQUARED = 1e-32 / BOUND; /* rounding of a sum that cancels, squared: a moment */
    double *size = NEW_ARRAY(t->a, double, fn->results.n + 1);
    const Tensor64 *got = run_fn(t, fn, nudged(t, fn, args));
    const double *off = shaken(t, fn, args, want);
    for (size_t k = 0; k < fn->results.n; k++) {
        const double by = apart(&got[k], &want[k]);
        size[k] = fmax(SQUARED, TIMES / BOUND * fmax(off[k], isfinite(by) ? by : 0));
    }
    return size;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The loss that argument p follows, at p + h * way, with what `stop` gave in the first call. */
static double loss_at(Model *t, const Fn *fn, Tensor64 *args, size_t p, const double *way, double h,
                      Held *held)
{
    Arena *a = held->noted ? arena_new() : t->a;
    Tensor64 *results = NEW_ARRAY(a, Tensor64, fn->results.n);
    int64_t n = type_elements(&args[p].type);
    double *was = args[p].data;
    args[p].data = NEW_ARRAY(a, double, n);
    for (int64_t e = 0; e < n; e++)
        args[p].data[e] = was[e] + h * way[e];
    ir_interpret_held(t->m, fn, args, results, a, held);
    double loss = results[t->m->tensors.data[fn->args.data[p].tensor].goal].data[0];
    args[p].data = was;
    if (a != t->a)
        arena_free(a);
    return loss;
}

/* How far the slope along a random way is from what a gradient says, relative to what it is made
 * of. gradient: of the arguments, and of nudged ones; shake: what rounding makes of the loss, and
 * of an element of the gradient. */
static double slope_error(Model *t, const Fn *loss, Tensor64 *args, size_t p,
                          const Tensor64 gradient[2], const double shake[2], double h,
                          uint64_t *rng)
{
    int64_t n = type_elements(&args[p].type);
    Tensor64 way = {.type = args[p].type, .data = NEW_ARRAY(t->a, double, n)};
    double said = 0, size = 1e-30, noise = 0;
    for (int64_t e = 0; e < n; e++)
        way.data[e] = draw(rng, -1, 1);
    clear_padding(t->m, loss->args.data[p], &way);
    for (int64_t e = 0; e < n; e++) {
        said += way.data[e] * gradient[0].data[e];
        size += fabs(way.data[e] * gradient[0].data[e]);
        noise += 10 * fabs(way.data[e]) *
                 fmax(shake[1], fabs(gradient[0].data[e] - gradient[1].data[e]));
    }
    Held held = {0};
    double here = loss_at(t, loss, args, p, way.data, 0, &held), least = 1e-5 * fmax(1, fabs(here));
    double at[5];
    for (int k = -2; k <= 2; k++)
        at[k + 2] = loss_at(t, loss, args, p, way.data, k * h, &held);
    double slope = (8 * (at[3] - at[1]) - at[4] + at[0]) / (12 * h);
    double rounded = fmax(1e-15 * fabs(here), shake[0]);
    for (int k = -4; k <= 4; k++) /* steps so short that nothing but rounding shows */
        rounded = fmax(rounded, fabs(loss_at(t, loss, args, p, way.data, k * 1e-12, &held) - here));
    /* A loss that does not move at all, as a softmax under what all its logits share, has a
     * gradient of rounding alone, as large as what it is multiplied by on its way. */
    if (slope == 0 && fabs(said) < 1e-2)
        return 0;
    return fabs(slope - said) / (fmax(size, least) + (rounded / h + noise) / SLOPE_BOUND);
}

/* A gradient is wrong if it is so at each of several places. One place can mislead: the slope
 * differs on the two sides of a maximum or a choice, and a long way sees another where the loss
 * bends much. */
static void check_gradients(Model *plain, Model *t, uint64_t seed)
{
    enum { PLACES = 6 };
    static const double way[] = {1e-4, 1e-5, 1e-6};
    const Fn *fn = module_fn(t->m, "train"), *loss = module_fn(plain->m, "train");
    uint64_t rng = seed;
    for (size_t r = 0; r < fn->results.n; r++) {
        double least = INFINITY;
        if (fn->results.data[r].role != RES_grad)
            continue;
        const int goal = t->m->tensors.data[fn->results.data[r].tensor].goal;
        size_t p = 0;
        while (loss->args.data[p].role != ARG_param ||
               loss->args.data[p].tensor != fn->results.data[r].tensor)
            p++;
        for (uint64_t place = 0; place < PLACES && !(least <= SLOPE_BOUND); place++) {
            Tensor64 *args = arguments(t, fn, seed % 1000 + 5 + place);
            const Tensor64 *results = run_fn(t, fn, args);
            if (!all_finite(fn, results))
                return;
            const Tensor64 both[2] = {results[r], run_fn(t, fn, nudged(t, fn, args))[r]};
            const double *off = shaken(t, fn, args, results), shake[2] = {off[goal], off[r]};
            least =
                fmin(least, slope_error(plain, loss, args, p, both, shake, way[place % 3], &rng));
        }
        if (!(least <= SLOPE_BOUND))
            differs(arena_printf(
                        t->a, "the gradient of %s",
                        name_str(t->m->names, t->m->tensors.data[fn->results.data[r].tensor].name)),
                    least);
    }
}

/* ---- padding -------------------------------------------------------------------------------- */

/* The text with layouts that pad nothing. */
static const char *without_pads(Arena *a, const char *text)
{
    char *out = arena_alloc(a, 2 * strlen(text) + 1), *to = out;
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n');
        const size_t n = end ? (size_t)(end - line) + 1 : strlen(line);
        const char *word = line + strspn(line, " ");
        if (strncmp(word, "pad ", 4) != 0)
            to = mempcpy(to, line, n);
        if (strncmp(word, "layout ", 7) == 0)
            to = mempcpy(to, "    pad none\n", 13);
        line += n;
    }
    *to = 0;
    return out;
}

/* Elements of x that are no padding: as many along each dim as `type` has. */
static Tensor64 unpadded(Arena *a, const Tensor64 *x, const Type *type)
{
    Tensor64 y = {.type = *type, .data = NEW_ARRAY(a, double, type_elements(type))};
    for (int64_t e = 0; e < type_elements(type); e++) {
        int64_t at = 0, stride = 1, rest = e;
        for (int i = type->rank - 1; i >= 0; i--) {
            at += rest % type->dims[i].size * stride;
            rest /= type->dims[i].size;
            stride *= x->type.dims[i].size;
        }
        y.data[e] = x->data[at];
    }
    return y;
}

static bool is_padded(const Module *m)
{
    for (size_t t = 0; t < m->tensors.n; t++)
        for (int i = 0; i < m->tensors.data[t].type.rank; i++)
            if (m->tensors.data[t].valid[i] != m->tensors.data[t].type.dims[i].size)
                return true;
    return false;
}

/* The program with padding gives what it gives without, and its gradients are 0 in the padding. */
static void compare_padding(const char *text, Model *t, const Tensor64 *got, uint64_t seed,
                            Shared *s)
{
    Model plain;
    if (!is_padded(t->m))
        return;
    open_one(&plain, without_pads(t->a, text), 0, false, seed, NULL);
    if (!passes_to(&plain, "differentiate"))
        return;
    const Fn *fn = module_fn(plain.m, "train"), *padded = module_fn(t->m, "train");
    const Tensor64 *args = arguments(t, padded, 5);
    Tensor64 *here = NEW_ARRAY(plain.a, Tensor64, fn->args.n);
    for (size_t k = 0; k < fn->args.n; k++)
        here[k] = unpadded(plain.a, &args[k], type_of(plain.m, fn->body->args.data[k]));
    const Tensor64 *want = run_fn(&plain, fn, here);
    const double *off = shaken(&plain, fn, here, want);
    for (size_t k = 0; k < fn->results.n; k++) {
        const Tensor64 x = unpadded(t->a, &got[k], &want[k].type);
        double size = 1, in_padding = 0, outside = 0;
        for (int64_t e = 0; e < type_elements(&x.type); e++) {
            size = fmax(size, fabs(want[k].data[e]));
            outside += fabs(x.data[e]);
        }
        for (int64_t e = 0; e < type_elements(&got[k].type); e++)
            in_padding += fabs(got[k].data[e]);
        if (!(apart(&x, &want[k]) <= BOUND * size + 1000 * off[k]) ||
            !(in_padding - outside <= 1e-9 * outside))
            differs(arena_printf(t->a, "result %zu, padded,", k), apart(&x, &want[k]));
    }
    s->compared |= COMPARED_padding;
}

/* ---- all ranks, after all passes --------------------------------------------------------------
 */

typedef struct Many {
    Model t;
    Lies lies[3], whole[3]; /* whole: as pass base leaves them */
    const char *read_back;  /* after this pass */
} Many;

static char *text_of(const Module *m, size_t *n)
{
    char *text;
    FILE *out = open_memstream(&text, n);
    ir_print(m, out);
    fclose(out);
    return text;
}

/* The program's text, read back, is the same program. */
static void read_back(const Module *m)
{
    size_t n;
    Arena *a = arena_new();
    char *text = text_of(m, &n);
    Diag *d = diag_new(a, stderr, false);
    Module *again = ir_parse(a, names_new(a), d, diag_add_file(d, "dump.mgir", text, n));
    if (!again)
        differs("the program as a text", 1);
    if (strcmp(text, text_of(again, &n)) != 0 || ir_verify(again, stderr))
        differs("the program, read back,", 1);
}

static void look(void *ctx, const char *step, const PlanJob *j)
{
    Many *many = ctx;
    many->t.m = j->m;
    if (!strcmp(step, many->read_back))
        read_back(j->m);
    const bool whole = !strcmp(step, "base");
    for (int f = 0; f < 3 && (whole || !strcmp(step, "simplify")); f++)
        if (module_fn(j->m, sharded_functions[f]))
            (whole ? many->whole : many->lies)[f] = lies(&many->t, sharded_functions[f]);
}

/* Arguments of one rank for the ranks, of which some split a base in NF4 into shorter runs: it has
 * the same elements in the same order, but each scale is there for each of them. */
static Tensor64 *in_runs(Arena *a, const Module *m, const Fn *fn, const Tensor64 *args,
                         const Lies *whole)
{
    Tensor64 *to = NEW_ARRAY(a, Tensor64, fn->args.n);
    for (size_t k = 0; k < fn->args.n; k++) {
        const FnArg arg = fn->args.data[k];
        to[k] = args[k];
        if (arg.role != ARG_param || !m->tensors.data[arg.tensor].base || k >= whole->args)
            continue;
        const int64_t n = type_elements(&whole->arg[k]), had = type_elements(&args[k].type);
        to[k] = (Tensor64){whole->arg[k], NEW_ARRAY(a, double, n)};
        for (int64_t e = 0; e < n; e++)
            to[k].data[e] = args[k].data[e * had / n];
    }
    return to;
}

/* The plan of the program as it stands, but for its precision. NULL: none in this. */
static Plan *plan_many(Many *many, const Device *d)
{
    PlanJob job = {
        .m = many->t.m, .d = d, .a = many->t.a, .log = stderr, .done = look, .ctx = many};
    PassStatus s = plan_make(&job);
    many->t.m = job.m;
    if (s == PASS_broken)
        _exit(EXIT_internal);
    return s == PASS_ok ? job.plan : NULL;
}

/* ---- a base in fewer bits ------------------------------------------------------------------- */

/* The place of the tensor among arguments; behind its codes comes what they are scaled by. */
static size_t place_in(const Fn *fn, FnArg arg)
{
    size_t k = 0;
    while (fn->args.data[k].role != arg.role || fn->args.data[k].tensor != arg.tensor)
        k++;
    return k;
}

/* Of NF4 the number at a place in the order of files, of so many; part[0] has the codes. */
static double from_nf4(const Tensor64 *part, int64_t at, int64_t elements)
{
    enum { CODES, ABSMAX, SCALE, OFFSET };
    const int64_t blocks = elements / BASE_BLOCK, half = BASE_BLOCK / 2,
                  layers = type_elements(&part[OFFSET].type),
                  scales = type_elements(&part[SCALE].type), k = at / BASE_BLOCK,
                  in = at % BASE_BLOCK;
    const double absmax = part[ABSMAX].data[k] * part[SCALE].data[k * scales / blocks] +
                          part[OFFSET].data[k * layers / blocks];
    return absmax * mg_nf4(part[CODES].data[k * half + in % half], in >= half);
}

/* Of int8, likewise: part[1] has one number a row. */
static double from_int8(const Tensor64 *part, int64_t at, int64_t elements)
{
    const int64_t row = elements / type_elements(&part[1].type);
    return (part[0].data[at] - MG_INT8_ZERO) * part[1].data[at / row] * (double)MG_INT8_UNIT;
}

/* The numbers that codes stand for, by the order of files alone. */
static Tensor64 dequantised(Arena *a, const Tensor *w, const Tensor64 *part, FrozenBase kind)
{
    Tensor64 x = {w->type, NEW_ARRAY(a, double, type_elements(&w->type))};
    const int64_t elements = type_elements(&x.type);
    for (int64_t e = 0; e < elements; e++) {
        int64_t index[MAX_RANK], rest = e, at = 0;
        for (int i = w->type.rank - 1; i >= 0; i--) {
            index[i] = rest % w->type.dims[i].size;
            rest /= w->type.dims[i].size;
        }
        for (int i = 0; i < w->type.rank; i++) {
            const int dim = i < w->stacked ? i : w->order[i - w->stacked];
            at = at * w->type.dims[dim].size + index[dim];
        }
        x.data[e] = kind == BASE_nf4 ? from_nf4(part, at, elements) : from_int8(part, at, elements);
    }
    return x;
}

/* The program without `base = ...` gives the same of what the codes stand for. */
static void compare_base(const char *text, Model *one, bool gpu, uint64_t seed,
                         const Tensor64 *args, const Tensor64 *want, const double *size)
{
    Model wide;
    const Fn *coded = module_fn(one->m, "train");
    open_one(&wide, text, one->m->layout.microbatch, gpu, seed, NULL);
    wide.m->train.base = BASE_as_computed;
    wide.m->train.tree = one->m->train.tree;
    if (!passes_to(&wide, "round"))
        _exit(EXIT_internal);
    const Fn *fn = module_fn(wide.m, "train");
    Tensor64 *here = NEW_ARRAY(wide.a, Tensor64, fn->args.n);
    for (size_t k = 0; k < fn->args.n; k++) {
        const FnArg arg = fn->args.data[k];
        const size_t at = place_in(coded, arg);
        here[k] = args[at];
        if (arg.role == ARG_param && one->m->tensors.data[arg.tensor].base)
            here[k] = dequantised(wide.a, &wide.m->tensors.data[arg.tensor], &args[at],
                                  one->m->train.base);
    }
    const Tensor64 *got = run_fn(&wide, fn, here);
    for (size_t k = 0; k < fn->results.n; k++) {
        double most = size[k];
        for (int64_t e = 0; e < type_elements(&want[k].type); e++)
            most = fmax(most, fabs(want[k].data[e]));
        if (!(apart(&got[k], &want[k]) <= BOUND * most))
            differs(arena_printf(wide.a, "result %zu, of what is in codes,", k),
                    apart(&got[k], &want[k]) / most);
    }
}

static void compare_plan(const char *path, const char *text, uint64_t seed, Shared *s)
{
    Arena *a = arena_new();
    Options o = {.precision = "f64"};
    Compiled c = {0};
    vec_push(a, &o.words, path);
    Session session = {
        .arena = a, .names = names_new(a), .diag = diag_new(a, stderr, false), .o = &o};
    if (compile_front(&session, path, &c) != EXIT_done)
        return;
    Many many = {.t = {.a = a, .m = c.module}, .read_back = pass_info[seed % PASS_count].name};
    int64_t ranks = mesh_ranks(c.module);
    c.module->train.tree &= ranks == 1; /* else ranks have other sequences than in order */
    be_comparable(c.module, seed);
    s->ranks = (int)ranks;
    if (ranks > 16)
        return;
    Model one;
    open_one(&one, text, c.module->layout.microbatch * mesh_batch_ranks(c.module),
             pads_rows(c.module), seed, NULL);
    one.m->train.tree = c.module->train.tree;
    if (!passes_to(&one, "round"))
        return;
    Tensor64 *args[3], *want[3];
    for (int f = 0; f < 3; f++) {
        const Fn *fn = module_fn(one.m, sharded_functions[f]);
        if (!fn)
            continue;
        args[f] = arguments(&one, fn, 5);
        want[f] = run_fn(&one, fn, args[f]);
        if (!all_finite(fn, want[f])) {
            s->compared |= NOT_FINITE;
            return;
        }
    }
    if (one.m->train.base)
        compare_base(text, &one, pads_rows(c.module), seed, args[0], want[0],
                     noise(&one, module_fn(one.m, "train"), args[0], want[0]));
    Plan *p = plan_many(&many, &c.device);
    uint64_t order = seed | 1;
    for (int f = 0; f < 3 && p; f++) {
        if (!module_fn(one.m, sharded_functions[f]))
            continue;
        many.lies[f].size = noise(&one, module_fn(one.m, sharded_functions[f]), args[f], want[f]);
        const Tensor64 *parts =
            in_runs(a, one.m, module_fn(one.m, sharded_functions[f]), args[f], &many.whole[f]);
        Compared got = run_many_planned(&one, parts, want[f], &many.t, p, sharded_functions[f],
                                        &many.lies[f], &order);
        if (!(got.worst <= BOUND))
            differs(arena_printf(a, "@%s, planned: %s", sharded_functions[f], got.where),
                    got.worst);
    }
    s->compared |= p ? COMPARED_plan : 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

void compare_numbers(const char *path, const char *text, uint64_t seed, Shared *s)
{
    Model plain, t;
    open_one(&plain, text, 0, false, seed, "attention"); /* as it is written out */
    const Fn *fn = module_fn(plain.m, "train");
    double work = work_of(plain.m, fn->body);
    for (size_t k = 0; k < fn->args.n; k++) /* parameters that nothing reads, too */
        work += (double)type_elements(type_of(plain.m, fn->body->args.data[k]));
    if (!(work <= WORK_MAX))
        return;
    Tensor64 *args = arguments(&plain, fn, 5);
    const Tensor64 *said = run_fn(&plain, fn, args);
    if (!all_finite(fn, said)) {
        s->compared |= NOT_FINITE;
        return;
    }
    open_one(&t, text, 0, false, seed, NULL);
    if (!passes_to(&t, "differentiate"))
        return;
    fn = module_fn(t.m, "train");
    const Tensor64 *got = run_fn(&t, fn, arguments(&t, fn, 5));
    double off = fabs(got[0].data[0] - said[0].data[0]) / fmax(1, fabs(said[0].data[0]));
    if (!(off <= BOUND))
        differs("the loss, differentiated,", off);
    s->compared |= COMPARED_loss;
    if (all_finite(fn, got))
        compare_padding(text, &t, got, seed, s);
    if (all_finite(fn, got) && work * (double)fn->results.n < 4 * WORK_MAX) {
        check_gradients(&plain, &t, seed);
        s->compared |= COMPARED_gradients;
    }
    compare_plan(path, text, seed, s);
    compare_generated(text, work, s);
}
