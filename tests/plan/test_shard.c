/* Programs of several ranks against those of one, in the interpreter: named layouts and random ones
 * over small models. Loss, norm, every new parameter and state of a step; and each collective of
 * some of them left out or changed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/passes.h"
#include "passes/walk.h"
#include "tests/plan/planned.h"

/* ---- layouts -------------------------------------------------------------------------------- */

static int axis_named(const Layout *l, const Names *names, const char *name)
{
    for (size_t i = 0; i < l->mesh.n; i++)
        if (!strcmp(name_str(names, l->mesh.data[i].name), name))
            return (int)i;
    return -1;
}

/* "dp=2 tp=2; batch dp; kv_heads tp; state dp": the mesh, then rules. Axes that are not in the mesh
 * are left out of rules, as axes of one rank are. */
static void lay_out(Model *t, const char *spec)
{
    char *text = arena_printf(t->a, "%s", spec), *part = strtok(text, ";");
    Module *m = t->m;
    Layout *l = &m->layout;
    for (char *at = part, *end; *at; at = end + strspn(end, " ")) {
        int64_t size = strtoll(strchr(at, '=') + 1, &end, 10);
        Axis a = {.name = name_intern_n(m->names, at, strcspn(at, "=")), .size = size};
        if (size > 1)
            vec_push(t->a, &l->mesh, a);
    }
    while ((part = strtok(NULL, ";"))) {
        static const char *const classes[] = {"", "state", "grads", "params"};
        LayoutRule r = {0};
        part += strspn(part, " ");
        size_t n = strcspn(part, " ");
        const char *dim = arena_strndup(t->a, part, n);
        for (int c = 1; c < 4; c++)
            if (!strcmp(dim, classes[c]))
                r.of = (TensorClass)c;
        r.dim = r.of ? 0 : name_intern(m->names, dim);
        for (char *at = part + n; *at;) {
            at += strspn(at, " ");
            size_t k = strcspn(at, " ");
            int axis = axis_named(l, m->names, arena_strndup(t->a, at, k));
            if (axis >= 0)
                r.axis[r.n++] = (uint8_t)axis;
            at += k;
        }
        if (r.n)
            vec_push(t->a, &l->rules, r);
    }
}

/* ---- one rank and many ---------------------------------------------------------------------- */

static void open_step(Model *t, const Small *s, DType compute)
{
    open_elaborated(t, s);
    t->m->train.eps = 1e-3; /* so that tiny gradients compare after the update */
    t->m->train.compute = compute;
}

static void to_update(Model *t)
{
    must_pass(t, pass_precision);
    must_pass(t, pass_recompute);
    must_pass(t, pass_differentiate);
    must_pass(t, pass_microbatch);
    must_pass(t, pass_update);
}

static Tensor64 *arguments(Model *t, const Fn *fn)
{
    Tensor64 *args = inputs_for(t, fn, 5, -1, 1);
    uint64_t rng = 77;
    for (size_t i = 0; i < fn->args.n; i++)
        for (int64_t k = 0; fn->args.data[i].role == ARG_state && k < type_elements(&args[i].type);
             k++)
            args[i].data[k] = draw(&rng, 0, 1e-6); /* beside which gradients show */
    return args;
}

/* What a rank has of a whole tensor. */
static Tensor64 part_of(const Module *m, const Tensor64 *whole, const Type *t, int64_t rank,
                        Arena *a)
{
    Tensor64 part = {.type = *t, .data = NEW_ARRAY(a, double, type_elements(t))};
    for (int64_t e = 0; e < type_elements(t); e++) {
        int64_t at = 0, stride = 1, rest = e;
        for (int i = t->rank - 1; i >= 0; i--) {
            int64_t index = rest % t->dims[i].size;
            rest /= t->dims[i].size;
            at += (index + mesh_place(m, rank, t->dims[i].axes) * t->dims[i].size) * stride;
            stride *= whole->type.dims[i].size;
        }
        part.data[e] = whole->data[at];
    }
    return part;
}

typedef struct Compared {
    double worst;
    const char *where;
} Compared;

/* How arguments and results of a function lie: what their types say before pass local. */
typedef struct Lies {
    size_t args;
    Type *arg, *result;
} Lies;

static Lies lies(Model *t, const char *name)
{
    const Fn *fn = module_fn(t->m, name);
    Lies l = {fn->args.n, NEW_ARRAY(t->a, Type, fn->args.n), NEW_ARRAY(t->a, Type, fn->results.n)};
    for (size_t k = 0; k < fn->args.n; k++)
        l.arg[k] = *type_of(t->m, fn->body->args.data[k]);
    for (size_t k = 0; k < fn->results.n; k++)
        l.result[k] = *type_of(t->m, fn->body->results.data[k]);
    return l;
}

/* Every rank's results against its parts of the whole ones; relative to the largest element. */
static Compared compare(const Model *one, Model *many, const Fn *fn, const Lies *l,
                        const Tensor64 *want, const Tensor64 *got)
{
    Compared c = {0, ""};
    const Module *m = many->m;
    for (int64_t r = 0; r < mesh_ranks(m); r++)
        for (size_t k = 0; k < fn->results.n; k++) {
            const Tensor64 *x = &got[(size_t)r * fn->results.n + k];
            Tensor64 y = part_of(m, &want[k], &l->result[k], r, many->a);
            double size = 1e-30, off = 0;
            for (int64_t e = 0; e < type_elements(&want[k].type); e++)
                size = fmax(size, fabs(want[k].data[e]));
            for (int64_t e = 0; e < type_elements(&x->type); e++)
                off = fmax(off, isfinite(x->data[e]) ? fabs(x->data[e] - y.data[e]) : INFINITY);
            if (off / size > c.worst)
                c = (Compared){off / size,
                               fn->results.data[k].role == RES_update
                                   ? name_str(one->m->names,
                                              one->m->tensors.data[fn->results.data[k].tensor].name)
                                   : result_role_names[fn->results.data[k].role]};
        }
    return c;
}

static Compared run_many(const Model *one, const Tensor64 *args, const Tensor64 *want, Model *many,
                         const char *name, const Lies *l)
{
    const Fn *fn = module_fn(many->m, name);
    int64_t ranks = mesh_ranks(many->m);
    Tensor64 *parts = NEW_ARRAY(many->a, Tensor64, (size_t)ranks * fn->args.n);
    Tensor64 *got = NEW_ARRAY(many->a, Tensor64, (size_t)ranks * fn->results.n);
    for (int64_t r = 0; r < ranks; r++)
        for (size_t k = 0; k < fn->args.n; k++) {
            Tensor64 *to = &parts[(size_t)r * fn->args.n + k];
            if (k < l->args) {
                *to = part_of(many->m, &args[k], &l->arg[k], r, many->a);
            } else { /* ARG_place */
                *to = (Tensor64){.type = {.dtype = DT_i32}, .data = NEW(many->a, double)};
                to->data[0] = (double)mesh_place(many->m, r, fn->args.data[k].tensor);
            }
        }
    ir_interpret_ranks(many->m, fn, parts, got, many->a);
    return compare(one, many, fn, l, want, got);
}

/* A model, and what one rank makes of it. */
typedef struct Reference {
    Model t;
    const Small *small;
    int64_t round; /* sequences computed at once, of all ranks */
    Tensor64 *args[3], *want[3];
} Reference;

static const char *const functions[] = {"train", "eval", "sample"};

/* It stays where it is: its messages are written there. */
static void open_reference(Reference *r, const Small *s, int64_t round)
{
    *r = (Reference){.small = s, .round = round};
    open_step(&r->t, s, DT_f64);
    r->t.m->layout.microbatch = round;
    to_update(&r->t);
    for (int f = 0; f < 3; f++) {
        const Fn *fn = module_fn(r->t.m, functions[f]);
        if (!fn)
            continue;
        r->args[f] = arguments(&r->t, fn);
        r->want[f] = run_fn(&r->t, fn, r->args[f]);
    }
}

static void open_many(Model *t, const Reference *r, const char *spec)
{
    open_step(t, r->small, DT_f64);
    lay_out(t, spec);
    t->m->layout.microbatch = r->round / mesh_batch_ranks(t->m);
    to_update(t);
    must_pass(t, pass_shard);
    if (strlen(spec) % 2) /* as what is simplified, too */
        must_pass(t, pass_simplify);
}

enum { BOUND_EXPONENT = -10 };
static double bound(void)
{
    return pow(10, BOUND_EXPONENT);
}

static void compare_all(const Reference *r, Model *t, const Lies *l, const char *spec,
                        const char *when)
{
    for (int f = 0; f < 3; f++) {
        if (!r->want[f])
            continue;
        Compared c = run_many(&r->t, r->args[f], r->want[f], t, functions[f], &l[f]);
        if (getenv("MGC_SHOW"))
            print_message("%-8s %-6s %.1e %-20s %s\n", functions[f], when, c.worst, c.where, spec);
        if (!(c.worst <= bound()))
            fail_msg("%s, layout %s, %s: @%s: %s is off by %g", r->small->file, spec, when,
                     functions[f], c.where, c.worst);
    }
}

static void follows(const Reference *r, const char *spec)
{
    Model t;
    Lies l[3];
    open_many(&t, r, spec);
    for (int f = 0; f < 3; f++)
        if (r->want[f])
            l[f] = lies(&t, functions[f]);
    compare_all(r, &t, l, spec, "shard");
    must_pass(&t, pass_local);
    compare_all(r, &t, l, spec, "local");
    model_close(&t);
}

static const Small models[] = {
    {"llama7b.mg",
     0,
     {"layers=2", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "vocab=16", "seq=8",
      "batch=16"}},
    {"gpt2_124m.mg",
     0,
     {"layers=2", "hidden=16", "heads=4", "head=4", "ffn=8", "vocab=16", "seq=8", "batch=16"}},
    {"qwen3_0_6b.mg",
     0,
     {"layers=2", "hidden=16", "kv_heads=4", "group=2", "head=4", "ffn=8", "vocab=16", "seq=8",
      "batch=16"}},
};

static const char *const layouts[] = {
    "dp=2; batch dp",
    "dp=4; batch dp",
    "dp=2; batch dp; state dp",
    "dp=2; batch dp; state dp; grads dp",
    "dp=2; batch dp; state dp; grads dp; params dp",
    "tp=2; kv_heads tp; heads tp; ffn tp; vocab tp",
    "tp=4; kv_heads tp; heads tp; ffn tp; vocab tp",
    "tp=2; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp",
    "dp=2 tp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp",
    "dp=2 tp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp",
    "tp=2 dp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; state dp; grads dp; "
    "params dp",
    "dp=2 cp=2; batch dp; seq cp",
    "dp=2 cp=2 tp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq cp tp; state dp",
    "replica=2 shard=2; batch replica shard; state shard; grads shard; params shard",
};

static void named(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        for (int64_t round = 16; round >= 8; round -= 8) {
            Reference r;
            open_reference(&r, &models[k], round);
            for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
                follows(&r, layouts[l]);
            model_close(&r.t);
        }
}

/* ---- random layouts -------------------------------------------------------------------------- */

/* A mesh of up to three axes and up to 32 ranks; rules for some of the dims, in any order; classes
 * each with those before it. */
static const char *random_layout(Arena *a, uint64_t *rng)
{
    static const char *const axes[] = {"dp", "cp", "tp"};
    static const char *const dims[] = {"batch", "kv_heads", "heads", "ffn",
                                       "vocab", "seq",      "hidden"};
    static const char *const classes[] = {"state", "grads", "params"};
    int n = 1 + draw_int(rng, 3), first = draw_int(rng, 3), order[7];
    int64_t ranks = 1;
    const char *s = "";
    for (int i = 0; i < n; i++) {
        int size = ranks <= 8 && draw_int(rng, 3) == 0 ? 4 : 2;
        ranks *= size;
        s = arena_printf(a, "%s%s%s=%d", s, i ? " " : "", axes[(first + i) % 3], size);
    }
    for (int i = 0; i < 7; i++) {
        int k = draw_int(rng, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (int i = 0; i < 7; i++) {
        if (draw_int(rng, 3) == 0)
            continue;
        int one = draw_int(rng, n), two = draw_int(rng, n);
        s = arena_printf(a, "%s; %s %s", s, dims[order[i]], axes[(first + one) % 3]);
        if (two > one)
            s = arena_printf(a, "%s %s", s, axes[(first + two) % 3]);
    }
    int most = draw_int(rng, 4), axis = draw_int(rng, n);
    for (int c = 0; c < most; c++)
        s = arena_printf(a, "%s; %s %s", s, classes[c], axes[(first + axis) % 3]);
    return s;
}

/* Layouts whose sizes do not come out even are refused with a message. */
static void any_layout(void **state)
{
    (void)state;
    const int samples = getenv("MGC_FULL") ? 600 : 60;
    int ran = 0, refused = 0;
    uint64_t rng = 31 * sample_turn() + 7;
    for (int k = 0; k < samples; k++) {
        const Small *small = &models[k % 3];
        Reference r;
        open_reference(&r, small, draw_int(&rng, 2) ? 16 : 8);
        const char *spec = random_layout(r.t.a, &rng);
        Model t;
        open_step(&t, small, DT_f64);
        lay_out(&t, spec);
        int64_t ranks = mesh_batch_ranks(t.m);
        t.m->layout.microbatch = r.round / ranks;
        bool even = r.round % ranks == 0;
        if (even) {
            to_update(&t);
            even = try_pass(&t, pass_shard) == PASS_ok;
            if (!even && !strstr(model_messages(&t), "error[MG0332]"))
                assert_non_null(strstr(model_messages(&t), "error[MG0333]"));
        }
        model_close(&t);
        ran += even;
        refused += !even;
        if (even)
            follows(&r, spec);
        model_close(&r.t);
    }
    print_message("%d layouts follow, %d are refused\n", ran, refused);
    assert_true(ran > samples / 3);
}

/* ---- faults -----------------------------------------------------------------------------------
 */

static Ins *nth_comm(Region *r, int *n)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k], *inner = i->body ? nth_comm(i->body, n) : NULL;
        if (inner)
            return inner;
        if (op_is(i->op, COMM) && (*n)-- == 0)
            return i;
    }
    return NULL;
}

typedef struct Swap {
    Value from, to;
    const Ins *not_in;
} Swap;

static void swap_use(Swap *s, Region *r)
{
    for (size_t k = 0; k < r->ins.n; k++) {
        Ins *i = r->ins.data[k];
        for (uint32_t x = 0; x < i->nin && i != s->not_in; x++)
            if (i->in[x] == s->from)
                i->in[x] = s->to;
        if (i->body)
            swap_use(s, i->body);
    }
    for (size_t k = 0; k < r->results.n; k++)
        if (r->results.data[k] == s->from)
            r->results.data[k] = s->to;
}

typedef enum Fault { LEFT_OUT, TWICE, OTHER_AXES, OTHER_DIM, FAULTS } Fault;

/* Does so to the collective; false: it cannot be done to this one. */
static bool plant(Model *t, Fn *fn, Ins *i, Fault f)
{
    const Type *in = type_of(t->m, i->in[0]);
    Axes all = ((Axes)1 << t->m->layout.mesh.n) - 1;
    if (f == LEFT_OUT) {
        swap_use(&(Swap){i->out[0], i->in[0], NULL}, fn->body);
    } else if (f == TWICE) {
        Builder b = builder_at(t->m, i->home, i);
        Ins *again =
            build_typed(&b, i->op, &i->attrs, 1, i->out, 1, type_of(t->m, i->out[0]), NULL);
        i->home->ins.n--;
        size_t at = 0;
        while (i->home->ins.data[at] != i)
            at++;
        vec_push(t->a, &i->home->ins, again);
        memmove(&i->home->ins.data[at + 2], &i->home->ins.data[at + 1],
                (i->home->ins.n - at - 2) * sizeof(Ins *));
        i->home->ins.data[at + 1] = again;
        swap_use(&(Swap){i->out[0], again->out[0], again}, fn->body);
    } else if (f == OTHER_AXES) {
        Axes other = all & ~i->attrs.axes;
        if (!other)
            return false;
        i->attrs.axes = other & -other;
    } else {
        if (!i->attrs.dim.name || in->rank < 2)
            return false;
        int k = type_find(in, i->attrs.dim.name);
        i->attrs.dim = in->dims[(k + 1) % in->rank];
    }
    return true;
}

static void faults(void **state)
{
    (void)state;
    static const char *const some[] = {
        "dp=2 tp=2; batch dp; kv_heads tp; heads tp; ffn tp; vocab tp; seq tp; state dp",
        "dp=2 cp=2; batch dp; seq cp; state dp; grads dp; params dp"};
    int planted = 0, typed = 0, seen = 0;
    uint64_t rng = sample_turn() + 3;
    for (int k = 0; k < 2; k++) {
        Reference r;
        open_reference(&r, &models[k], 8);
        for (int n = 0;; n++) {
            bool any = false;
            for (int f = 0; f < FAULTS; f++) {
                if (!getenv("MGC_FULL") && draw_int(&rng, 4)) {
                    any = true;
                    continue;
                }
                Model t;
                int at = n;
                open_many(&t, &r, some[k]);
                Fn *fn = module_fn(t.m, "train");
                Lies whole = lies(&t, "train");
                Ins *i = nth_comm(fn->body, &at);
                any |= i != NULL;
                if (i && plant(&t, fn, i, (Fault)f)) {
                    FILE *nowhere = fopen("/dev/null", "w");
                    planted++;
                    if (ir_verify(t.m, nowhere))
                        typed++;
                    else if (run_many(&r.t, r.args[0], r.want[0], &t, "train", &whole).worst >
                             bound())
                        seen++;
                    else
                        fail_msg("layout %s: fault %d of collective %d is not seen", some[k], f, n);
                    fclose(nowhere);
                }
                model_close(&t);
                if (!i)
                    break;
            }
            int left = n + 1;
            Model t;
            open_many(&t, &r, some[k]);
            any = nth_comm(module_fn(t.m, "train")->body, &left) != NULL;
            model_close(&t);
            if (!any)
                break;
        }
        model_close(&r.t);
    }
    print_message("%d faults: %d by the types, %d by the numbers\n", planted, typed, seen);
    assert_true(planted > 20 && typed >= 0.95 * planted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named),
        cmocka_unit_test(any_layout),
        cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
