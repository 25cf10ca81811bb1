/* sharded.c - see sharded.h. */
#include "tests/plan/sharded.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "passes/passes.h"
#include "passes/walk.h"

/* ---- layouts -------------------------------------------------------------------------------- */

static int axis_named(const Layout *l, const Names *names, const char *name)
{
    for (size_t i = 0; i < l->mesh.n; i++)
        if (!strcmp(name_str(names, l->mesh.data[i].name), name))
            return (int)i;
    return -1;
}

static bool has_dim(const Module *m, Name dim)
{
    for (size_t v = 1; v < m->values.n; v++)
        if (type_find(&m->values.data[v].type, dim) >= 0)
            return true;
    return false;
}

/* A rule on the axis pp: "layers pp", "layers pp:2" with two chunks a rank, "layers pp:2=3,2,3,0"
 * with so many layers in each stage. of: from the ':' on, or NULL. */
static void lay_stages(Model *t, const LayoutRule *r, const char *of)
{
    Module *m = t->m;
    char *at = NULL;
    const int64_t chunks = of ? strtoll(of + 1, &at, 10) : 1;
    m->layout.pipeline = (Pipeline){.axis = (Axes)1 << r->axis[0],
                                    .dim = r->dim,
                                    .schedule = name_intern(m->names, "table"),
                                    .chunks = (int)chunks};
    while (at && *at)
        vec_push(t->a, &m->layout.pipeline.layers, strtoll(at + 1, &at, 10));
}

void lay_out(Model *t, const char *spec)
{
    char *text = arena_printf(t->a, "%s", spec), *part = strtok(text, ";");
    Module *m = t->m;
    Layout *l = &m->layout;
    for (char *at = part, *end; *at; at = end + strspn(end, " ")) {
        int64_t size = strtoll(strchr(at, '=') + 1, &end, 10);
        Axis a = {.name = name_intern_n(m->names, at, strcspn(at, "=")), .size = size};
        a.apart = *end == '|';
        end += a.apart;
        if (size > 1)
            vec_push(t->a, &l->mesh, a);
    }
    while ((part = strtok(NULL, ";"))) {
        static const char *const classes[] = {"", "state", "grads", "params"};
        LayoutRule r = {0};
        part += strspn(part, " ");
        if (!strncmp(part, "offload ", 8)) {
            offload_some(t, strtoull(part + 8, NULL, 10));
            continue;
        }
        if (!strncmp(part, "pieces ", 7)) { /* "pieces 2 4t": forward, and backward in turns */
            char *at = part + 7;
            for (int k = 0; k < 2; k++) {
                l->pieces[k].n = strtoll(at, &at, 10);
                l->pieces[k].turns = *at == 't';
                at += *at == 't';
            }
            continue;
        }
        if (!strncmp(part, "schedule ", 9)) {
            l->pipeline.schedule = name_intern(m->names, part + 9);
            continue;
        }
        if (!strcmp(part, "once") || !strcmp(part, "pairs") || !strcmp(part, "buckets")) {
            l->once |= *part == 'o';
            l->pipeline.pairs = *part == 'p' ? PAIRS_all : l->pipeline.pairs;
            l->bucket = *part == 'b' ? 1 : l->bucket;
            continue;
        }
        size_t n = strcspn(part, " ");
        const char *dim = arena_strndup(t->a, part, n);
        for (int c = 1; c < 4; c++)
            if (!strcmp(dim, classes[c]))
                r.of = (TensorClass)c;
        r.dim = r.of ? 0 : name_intern(m->names, dim);
        const char *stages = strchr(part, ':') ? arena_printf(t->a, "%s", strchr(part, ':')) : NULL;
        part[strcspn(part, ":")] = '\0';
        for (char *at = part + n; *at;) {
            at += strspn(at, " ");
            size_t k = strcspn(at, " ~^/>!");
            int axis = axis_named(l, m->names, arena_strndup(t->a, at, k));
            const bool zigzag = at[k] == '~', heads = at[k] == '^', once = at[k] == '!';
            if (axis >= 0)
                r.axis[r.n++] = (uint8_t)axis;
            if (axis >= 0 && zigzag)
                r.zigzag |= (Axes)1 << axis;
            if (axis >= 0 && heads)
                r.heads |= (Axes)1 << axis;
            if (axis >= 0 && once)
                r.once |= (Axes)1 << axis;
            at += k + zigzag + heads + once;
            if (axis >= 0 && *at == '>') { /* rows are sent, up to a bound */
                r.rows |= (Axes)1 << axis;
                r.bound = strtod(at + 1, NULL);
            }
            at += *at == '>' ? strcspn(at, " ") : 0;
            if (*at == '/') /* in so many blocks */
                r.blocks = strtoll(at + 1, &at, 10);
        }
        if (r.n && (r.of || has_dim(m, r.dim)))
            vec_push(t->a, &l->rules, r);
        if (r.n && axis_named(l, m->names, "pp") == r.axis[0])
            lay_stages(t, &r, stages);
    }
}

/* ---- one rank and many ---------------------------------------------------------------------- */

/* In double precision, without the layout of its file; with halves as the interpreter has them,
 * which rounds nothing. */
void open_step(Model *t, const Small *s, DType half, Scales scales)
{
    open_elaborated(t, s);
    t->m->layout.mesh.n = t->m->layout.rules.n = 0;
    t->m->layout.pipeline = (Pipeline){0};
    t->m->train.goal[0].eps = 1e-3; /* so that tiny gradients compare after the update */
    t->m->train.compute = half ? DT_f32 : DT_f64;
    t->m->train.half = dtype_is_fp8(half) ? DT_bf16 : half;
    t->m->train.fp8 = dtype_is_fp8(half) ? DT_e4m3 : DT_none;
    t->m->train.fp8_gradients = dtype_is_fp8(half) ? half : DT_none;
    t->m->train.fp8_scales = scales;
}

/* keep: as Reference has it. */
void to_update(Model *t, uint64_t keep)
{
    must_make(t, NULL, "evaluate", "precision");
    if (keep)
        random_keep(t, keep);
    must_make(t, NULL, "precision", "quantize");
}

Tensor64 *step_arguments(Model *t, const Fn *fn)
{
    Tensor64 *args = inputs_for(t, fn, 5, -1, 1);
    uint64_t rng = 77;
    for (size_t i = 0; i < fn->args.n; i++)
        for (int64_t k = 0; fn->args.data[i].role == ARG_state && k < type_elements(&args[i].type);
             k++)
            args[i].data[k] = draw(&rng, 0, 1e-6); /* beside which gradients show */
    return args;
}

/* The place in the whole dim of element i of what a rank has; -1: room that stages leave. */
static int64_t place_of(const Module *m, int64_t rank, Dim d, int64_t i)
{
    return d.axes & m->layout.pipeline.axis ? mesh_layer(m, rank, i) : mesh_index(m, rank, d, i);
}

/* A rank's shard of a whole tensor. The shard may have a dim more, of size 1, in front. room: the
 * value of elements in the room that stages leave, and in padding. */
Tensor64 shard_of(const Module *m, const Tensor64 *whole, const Type *t, int64_t rank, double room,
                  Arena *a)
{
    Tensor64 part = {.type = *t, .data = NEW_ARRAY(a, double, type_elements(t))};
    const int more = t->rank - whole->type.rank;
    for (int64_t e = 0; e < type_elements(t); e++) {
        int64_t at = 0, stride = 1, rest = e;
        for (int i = t->rank - 1; i >= more; i--) {
            int64_t index = place_of(m, rank, t->dims[i], rest % t->dims[i].size);
            rest /= t->dims[i].size;
            const int64_t size = whole->type.dims[i - more].size; /* behind which is padding */
            at = index < 0 || index >= size || at < 0 ? -1 : at + index * stride;
            stride *= size;
        }
        part.data[e] = at < 0 ? room : whole->data[at];
    }
    return part;
}

Lies lies(Model *t, const char *name)
{
    const Fn *fn = module_fn(t->m, name);
    Lies l = {.args = fn->args.n,
              .arg = NEW_ARRAY(t->a, Type, fn->args.n),
              .result = NEW_ARRAY(t->a, Type, fn->results.n)};
    for (size_t k = 0; k < fn->args.n; k++)
        l.arg[k] = *type_of(t->m, fn->body->args.data[k]);
    for (size_t k = 0; k < fn->results.n; k++)
        l.result[k] = *type_of(t->m, fn->body->results.data[k]);
    return l;
}

/* The difference from what is wanted; of room that stages leave there may be anything finite in
 * states (Adafactor's begin with its epsilon): nothing comes of it. */
static double off_by(double x, double want)
{
    return !isfinite(x) ? INFINITY : isnan(want) ? 0 : fabs(x - want);
}

/* Tensors outside of the layers are at some of a pipeline's ranks. */
static bool has_result(const Module *m, FnResult r, int64_t rank)
{
    return r.role != RES_update || !m->layout.pipeline.axis ||
           (m->tensors.data[r.tensor].at & mesh_stage_set(m, rank));
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
            if (!has_result(m, fn->results.data[k], r))
                continue;
            FnResult res = fn->results.data[k];
            bool state = res.role == RES_update && m->tensors.data[res.tensor].slot;
            Tensor64 y = shard_of(m, &want[k], &l->result[k], r, state ? NAN : 0, many->a);
            double size = l->size ? l->size[k] : 1e-30, off = 0;
            for (int64_t e = 0; e < type_elements(&want[k].type); e++)
                size = fmax(size, fabs(want[k].data[e]));
            for (int64_t e = 0; e < type_elements(&x->type); e++)
                off = fmax(off, off_by(x->data[e], y.data[e]));
            if (off / size > c.worst)
                c = (Compared){off / size,
                               fn->results.data[k].role == RES_update
                                   ? name_str(one->m->names,
                                              one->m->tensors.data[fn->results.data[k].tensor].name)
                                   : result_role_names[fn->results.data[k].role]};
        }
    return c;
}

/* The shards of the arguments, by rank. */
static Tensor64 *parts_of(Model *many, const Fn *fn, const Tensor64 *args, const Lies *l)
{
    int64_t ranks = mesh_ranks(many->m);
    Tensor64 *parts = NEW_ARRAY(many->a, Tensor64, (size_t)ranks * fn->args.n);
    for (int64_t r = 0; r < ranks; r++)
        for (size_t k = 0; k < fn->args.n; k++) {
            Tensor64 *to = &parts[(size_t)r * fn->args.n + k];
            if (k < l->args) {
                *to = shard_of(many->m, &args[k], &l->arg[k], r, 0, many->a);
            } else { /* ARG_place */
                *to = (Tensor64){.type = {.dtype = DT_i32}, .data = NEW(many->a, double)};
                to->data[0] = (double)mesh_place(many->m, r, fn->args.data[k].tensor);
            }
        }
    return parts;
}

Compared run_many(const Model *one, const Tensor64 *args, const Tensor64 *want, Model *many,
                  const char *name, const Lies *l)
{
    const Fn *fn = module_fn(many->m, name);
    const Tensor64 *parts = parts_of(many, fn, args, l);
    Tensor64 *got = NEW_ARRAY(many->a, Tensor64, (size_t)mesh_ranks(many->m) * fn->results.n);
    ir_interpret_ranks(many->m, fn, parts, got, many->a);
    return compare(one, many, fn, l, want, got);
}

/* Does a rank have a buffer? At its place are other things where it has not. */
static bool has_buffer(const Model *many, const Plan *p, size_t rank, int buffer)
{
    return p->buffers.data[buffer].at & mesh_stage_set(many->m, (int64_t)rank);
}

Tensor64 *run_ranks_planned(const Tensor64 *args, Model *many, const Plan *p, const char *name,
                            const Lies *l, uint64_t *order)
{
    const Fn *fn = module_fn(many->m, name);
    const Program *prog = program_of(p, fn);
    const size_t ranks = (size_t)mesh_ranks(many->m);
    const Tensor64 *parts = parts_of(many, fn, args, l);
    Tensor64 *got = NEW_ARRAY(many->a, Tensor64, ranks * fn->results.n);
    unsigned char **arena = NEW_ARRAY(many->a, unsigned char *, ranks);
    for (size_t r = 0; r < ranks; r++) {
        arena[r] = arena_of_nan(p);
        for (size_t k = 0; k < fn->args.n; k++) {
            const Tensor64 *x = &parts[r * fn->args.n + k];
            int b = buffer_of_argument(p, prog, fn->args.data[k]);
            assert_true(b >= 0);
            for (int64_t e = 0; e < type_elements(&x->type) && has_buffer(many, p, r, b); e++)
                number_put(arena[r] + memory_offset(p, &p->buffers.data[b]), x->type.dtype, e,
                           x->data[e]);
        }
    }
    assert_true(run_plan_ranks(p, prog, arena, order));
    for (size_t r = 0; r < ranks; r++) {
        for (size_t k = 0; k < fn->results.n; k++) {
            Tensor64 *x = &got[r * fn->results.n + k];
            int b = buffer_of_result(p, prog, fn->results.data[k]);
            x->type = *type_of(many->m, fn->body->results.data[k]);
            x->data = NEW_ARRAY(many->a, double, type_elements(&x->type));
            for (int64_t e = 0; e < type_elements(&x->type); e++)
                x->data[e] = has_buffer(many, p, r, b)
                                 ? number_at(arena[r] + memory_offset(p, &p->buffers.data[b]),
                                             x->type.dtype, e)
                                 : NAN;
        }
        free(arena[r]);
    }
    return got;
}

Compared run_many_planned(const Model *one, const Tensor64 *args, const Tensor64 *want, Model *many,
                          const Plan *p, const char *name, const Lies *l, uint64_t *order)
{
    const Tensor64 *got = run_ranks_planned(args, many, p, name, l, order);
    return compare(one, many, module_fn(many->m, name), l, want, got);
}

const char *const sharded_functions[SHARDED] = {"train", "eval", "sample", "round"};

static void run_reference(Reference *r)
{
    for (int f = 0; f < SHARDED; f++) {
        const Fn *fn = module_fn(r->t.m, sharded_functions[f]);
        if (!fn)
            continue;
        r->args[f] = step_arguments(&r->t, fn);
        r->want[f] = run_fn(&r->t, fn, r->args[f]);
    }
}

void open_reference(Reference *r, const Small *s, int64_t at_once)
{
    open_reference_in(r, s, at_once, DT_none);
}

void open_reference_in(Reference *r, const Small *s, int64_t at_once, DType half)
{
    open_reference_scaled(r, s, at_once, half, SCALES_tensor);
}

void open_reference_scaled(Reference *r, const Small *s, int64_t at_once, DType half, Scales scales)
{
    *r = (Reference){.small = s, .at_once = at_once, .half = half, .scales = scales};
    open_step(&r->t, s, half, r->scales);
    r->t.m->layout.microbatch = at_once;
    to_update(&r->t, 0);
    run_reference(r);
}

void open_reference_as(Reference *r, const Small *s, int64_t at_once, const char *spec)
{
    *r = (Reference){.small = s, .at_once = at_once};
    open_step(&r->t, s, DT_none, SCALES_tensor);
    lay_out(&r->t, spec);
    r->t.m->layout.microbatch = at_once / mesh_batch_ranks(r->t.m);
    to_update(&r->t, 0);
    run_reference(r);
}

/* As pass shard leaves it. */
static bool open_sharded(Model *t, const Reference *r, const char *spec)
{
    Small many = *r->small;
    int n = 0;
    while (many.define[n] && strcmp(many.define[n], AS_READY))
        n++;
    if (r->padded) {
        many.define[n + 1] = many.define[n];
        many.define[n] = r->padded;
    }
    open_step(t, &many, r->half, r->scales);
    t->m->train.wide_partials = r->wide;
    lay_out(t, spec);
    int64_t ranks = mesh_batch_ranks(t->m);
    if (r->at_once % ranks)
        return false;
    t->m->layout.microbatch = r->at_once / ranks;
    to_update(t, r->keep);
    return try_pass(t, pass_shard) == PASS_ok;
}

bool open_many(Model *t, const Reference *r, const char *spec)
{
    if (!open_sharded(t, r, spec))
        return false;
    if (strlen(spec) % 2) /* as what is simplified, too */
        must_pass(t, pass_simplify);
    return true;
}

void compare_all(const Reference *r, Model *t, const Lies *l, const char *spec, const char *when)
{
    for (int f = 0; f < SHARDED; f++) {
        if (!r->want[f])
            continue;
        Compared c = run_many(&r->t, r->args[f], r->want[f], t, sharded_functions[f], &l[f]);
        if (getenv("MGC_SHOW"))
            print_message("%-8s %-6s %.1e %-20s %s\n", sharded_functions[f], when, c.worst, c.where,
                          spec);
        if (!(c.worst <= SHARD_BOUND))
            fail_msg("%s, layout %s, %s: @%s: %s is off by %g", r->small->file, spec, when,
                     sharded_functions[f], c.where, c.worst);
    }
}

double layout_error(const Reference *r, const char *spec)
{
    Model t;
    Lies l[SHARDED];
    double worst = 0;
    if (!open_sharded(&t, r, spec))
        fail_msg("layout %s: %s", spec, model_messages(&t));
    for (int f = 0; f < SHARDED; f++)
        if (r->want[f])
            l[f] = lies(&t, sharded_functions[f]);
    for (int when = 0; when < 2; when++) {
        for (int f = 0; f < SHARDED; f++) {
            if (!r->want[f])
                continue;
            Compared c = run_many(&r->t, r->args[f], r->want[f], &t, sharded_functions[f], &l[f]);
            if (getenv("MGC_SHOW"))
                print_message("%-8s %d %.1e %-20s %s\n", sharded_functions[f], when, c.worst,
                              c.where, spec);
            worst = fmax(worst, c.worst);
        }
        if (!when)
            must_pass(&t, pass_local);
    }
    model_close(&t);
    return worst;
}

bool open_local(Model *t, const Reference *r, const char *spec, Lies *l)
{
    if (!open_many(t, r, spec))
        return false;
    must_pass(t, pass_simplify);
    for (int f = 0; f < SHARDED; f++)
        if (r->want[f])
            l[f] = lies(t, sharded_functions[f]);
    must_pass(t, pass_local);
    return true;
}

bool refused_for_sizes(Model *t, const char *spec)
{
    static const char *const known[] = {"error[MG0332]", "error[MG0333]", "error[MG0345]",
                                        "error[MG0347]", "error[MG0343]", "error[MG0344]"};
    const char *why = strstr(model_messages(t), "error[");
    bool expected = !why; /* the batch is too small */
    for (int k = 0; k < (strstr(spec, "pp=") ? 6 : 4) && why; k++)
        expected |= strncmp(why, known[k], strlen(known[k])) == 0;
    return expected;
}

bool layout_follows(const Reference *r, const char *spec)
{
    Model t;
    Lies l[SHARDED];
    bool runs = open_many(&t, r, spec);
    for (int f = 0; f < SHARDED && runs; f++)
        if (r->want[f])
            l[f] = lies(&t, sharded_functions[f]);
    if (runs) {
        compare_all(r, &t, l, spec, "shard");
        must_pass(&t, pass_local);
        compare_all(r, &t, l, spec, "local");
        if (strstr(spec, "|")) {
            must_pass(&t, pass_largest);
            compare_all(r, &t, l, spec, "largest");
        }
        if (strstr(spec, "/") || strstr(spec, "; pieces")) {
            must_pass(&t, pass_pieces);
            compare_all(r, &t, l, spec, "pieces");
        }
        if (strstr(spec, "; offload")) {
            must_pass(&t, pass_levels);
            compare_all(r, &t, l, spec, "levels");
        }
    } else if (!refused_for_sizes(&t, spec)) {
        fail_msg("layout %s: %s", spec, model_messages(&t));
    }
    model_close(&t);
    return runs;
}
