/* compile.c - from an input to what the options ask for: front end, passes, plan, outputs. */
#include "compiler/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/cuda/cuda.h"
#include "codegen/link/link.h"
#include "compiler/search/command.h"
#include "compiler/search/meshed.h"
#include "compiler/write.h"
#include "decide/frontier.h"
#include "decide/make.h"
#include "decide/offload.h"
#include "plan/attend.h"
#include "plan/levels.h"
#include "ir/external.h"
#include "ir/optimizers.h"
#include "passes/passes.h"

/* ---- what is asked for --------------------------------------------------------------------- */

static bool asks(const Options *o, const char *pass)
{
    for (size_t i = 0; i < o->print_after.n; i++)
        if (!strcmp(o->print_after.data[i], pass) || !strcmp(o->print_after.data[i], "all"))
            return true;
    return false;
}

static Exit usage(Session *s, const char *text, const char *help)
{
    diag_error(s->diag, (Span){0}, 0, "%s", text);
    diag_help(s->diag, "%s", help);
    return EXIT_usage;
}

/* The last pass that anyone wants to see, or NULL if all of them and the plan are needed. */
static const char *last_pass(const Options *o)
{
    int last = -1;
    if (o->out || o->emit || o->check || o->plan || o->frontier || o->fusion || o->report ||
        o->schedule || o->trace || o->memory)
        return NULL;
    for (size_t i = 0; i < o->print_after.n; i++) {
        if (!strcmp(o->print_after.data[i], "all"))
            return NULL;
        int p = pass_find(o->print_after.data[i]);
        last = p > last ? p : last;
    }
    return last < 0 ? "lower" : pass_info[last].name;
}

/* ---- front --------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

/* An input that cannot be read is the command line's fault, what is in it the source's. */
static Exit parse(Session *s, const char *path, Ast **ast)
{
    uint32_t file = read_source(s, path);
    if (!file)
        return EXIT_usage;
    *ast = mg_parse(s->arena, s->names, s->diag, file);
    return *ast ? EXIT_done : EXIT_source;
}

/* Larger meshes are planned, and not yet made. */
static Exit ranks_are_built(Session *s, const Compiled *c)
{
    const Module *m = c->module;
    int64_t n = mesh_ranks(m);
    if ((!s->o->out && !s->o->emit) || n <= MG_RANKS_MAX)
        return EXIT_done;
    diag_error(s->diag, m->layout.mesh.data[0].span, 310,
               "the mesh has %lld ranks: programs of more than %d are not built yet", (long long)n,
               MG_RANKS_MAX);
    diag_help(s->diag, "--check, --plan and --schedule take any number of ranks");
    return EXIT_source;
}

/* Ranks on one processor share it. Where a host has a stream for collectives ranks are on several
 * machines, and the description is of what one of them has. */
static void share_device(const Session *s, Module *m, Device *d)
{
    int64_t n = mesh_ranks(m);
    d->collectives_wait = s->o->overlap && !strcmp(s->o->overlap, "none");
    if (s->o->pieces && strcmp(s->o->pieces, "auto"))
        m->layout.pieces[0].n = m->layout.pieces[1].n =
            strcmp(s->o->pieces, "none") ? strtoll(s->o->pieces, NULL, 10) : 1;
    if (n == 1 || d->target != TARGET_host || d->streams > 1)
        return;
    d->memory /= n;
    d->threads = d->threads > n ? (int)(d->threads / n) : 1;
    double *const rates[] = {&d->flops_f32, &d->flops_f64,    &d->flops_tf32, &d->flops_bf16,
                             &d->flops_f16, &d->exponentials, &d->operations, &d->bandwidth};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        *rates[i] /= (double)n;
}

/* --collectives, which is for GPUs; copies need those that are linked through their host. */
static Exit read_collectives(Session *s, const Module *m, Device *d)
{
    const char *text = s->o->collectives;
    if (!text)
        return EXIT_done;
    d->collectives = !strcmp(text, "nccl")        ? COLLECTIVES_nccl
                     : !strcmp(text, "copies")    ? COLLECTIVES_copies
                     : !strcmp(text, "unordered") ? COLLECTIVES_unordered
                                                  : COLLECTIVES_auto;
    if (d->target != TARGET_cuda)
        return usage(
            s,
            arena_printf(s->arena, "--collectives is for GPUs, and '%s' is a processor", d->name),
            "leave it out");
    if (d->collectives == COLLECTIVES_unordered && m->train.tree)
        return usage(s,
                     "--collectives=unordered beside 'reduce = tree', by which any number of ranks "
                     "has the same bits",
                     "leave it out, or 'reduce = tree'");
    if (d->collectives != COLLECTIVES_copies || d->through_host)
        return EXIT_done;
    return usage(
        s,
        arena_printf(s->arena,
                     "--collectives=copies is for GPUs that are linked through their host, "
                     "and the description of '%s' does not say so (\"link\": \"host\")",
                     d->name),
        "--collectives=nccl");
}

static Exit read_microbatch(Session *s, int64_t *n)
{
    const char *text = s->o->microbatch;
    char *end;
    if (!text)
        return EXIT_done;
    errno = 0;
    *n = strtoll(text, &end, 10);
    if (errno || *end || end == text || *n < 1)
        return usage(s, arena_printf(s->arena, "--microbatch '%s' is no whole number from 1", text),
                     "--microbatch 1");
    return EXIT_done;
}

/* For the front end: --device, or else that of the layout. A description that is missing or wrong
 * is told of when it is loaded. */
static bool is_gpu(void *who, const char *device)
{
    const Session *s = who;
    Session quiet = *s;
    quiet.diag = diag_silent(s->diag, s->arena);
    Device d;
    return device_load(&quiet, s->o->device ? s->o->device : device, &d) == EXIT_done &&
           d.target == TARGET_cuda;
}

static Exit front(Session *s, const char *path, Compiled *c)
{
    const Options *o = s->o;
    ElaborateOptions e = {.define = o->define.data, .ndefine = o->define.n};
    Ast *ast, *layouts = NULL;
    Exit wrong = parse(s, path, &ast);
    if (!wrong && o->layout && (ends_with(o->layout, ".mg") || strchr(o->layout, '/')))
        wrong = parse(s, o->layout, &layouts);
    else if (!wrong)
        wrong = search_layouts(s, path, ast, &layouts);
    if (!layouts)
        e.layout = o->layout;
    if (!wrong && s->layout_rules)
        wrong = mesh_splice(s, ast, layouts, s->layout_rules);
    if (!wrong && o->device)
        wrong = device_load(s, o->device, &c->device);
    if (!wrong)
        wrong = read_microbatch(s, &e.microbatch);
    if (!wrong)
        wrong = generate_number(s, "sequences", o->sequences, o->generate ? -1 : 0, &e.sequences);
    if (!wrong)
        wrong = generate_number(s, "prefill", o->prefill, 0, &e.prefill);
    if (!wrong)
        wrong = generate_number(s, "choices", o->choices, 0, &e.group);
    if (wrong)
        return wrong;
    times_mark(s, "read");
    e.layouts = layouts;
    e.device = o->device ? c->device.name : NULL;
    e.is_gpu = is_gpu;
    e.who = s;
    if (s->seen) {
        e.seen = s->seen->fn;
        e.whom = s->seen->whom;
    }
    e.adapter = o->adapter;
    e.precision = o->precision ? o->precision : s->precision;
    e.recompute = o->recompute;
    e.offload = o->offload;
    e.optimizer = o->optimizer;
    c->module = mg_elaborate(s->arena, s->names, s->diag, ast, &e);
    if (!c->module || diag_errors(s->diag))
        return EXIT_source;
    if (!o->device)
        wrong = device_load(s, name_str(s->names, c->module->layout.device), &c->device);
    if (wrong)
        return wrong;
    c->module->layout.device = name_intern(s->names, c->device.name);
    share_device(s, c->module, &c->device);
    times_mark(s, "elaborate");
    diag_stage(s->diag, 1);
    wrong = read_collectives(s, c->module, &c->device);
    return wrong ? wrong : ranks_are_built(s, c);
}

/* A mesh without rules is read a second time, with those that are found for it. */
Exit compile_front(Session *s, const char *path, Compiled *c)
{
    Exit wrong = front(s, path, c);
    if (wrong || s->quick || s->layout_rules || !mesh_is_alone(c->module))
        return wrong;
    s->layout_rules = mesh_rules(s, path, c->module);
    return s->layout_rules ? front(s, path, c) : EXIT_done;
}

/* The first line of a dump, "# after PASS", says where to go on. */
static const char *pass_of_dump(Session *s, uint32_t file)
{
    size_t size;
    const char *text = diag_text(s->diag, file, &size), *mark = "# after ";
    size_t skip = strlen(mark), n = 0;
    if (strncmp(text, mark, skip))
        return "lower";
    while (text[skip + n] && text[skip + n] != '\n' && text[skip + n] != '\r')
        n++;
    return arena_strndup(s->arena, text + skip, n);
}

/* A text has no declarations: an optimizer of the source is its name alone (ir/text_header.c). */
static bool rules_known(Session *s, const Module *m, uint32_t file, const char *after)
{
    for (int k = 0; k < m->train.goals; k++) {
        const char *name = m->train.goal[k].optimizer->name;
        if (optimizer_find(name) || pass_find(after) >= PASS_ID_update)
            continue;
        diag_error(s->diag, (Span){file, 0, 1}, 566,
                   "the text after '%s' does not hold the rule of '%s', which pass update needs",
                   after, name);
        diag_help(s->diag, "--print-after=update, or a later one, or the source");
        return false;
    }
    return true;
}

static Exit read_dump(Session *s, const char *path, Compiled *c, const char **after)
{
    uint32_t file = read_source(s, path);
    if (!file)
        return EXIT_usage;
    *after = pass_of_dump(s, file);
    if (!pass_is_known(*after) || !strcmp(*after, "all")) {
        diag_error(s->diag, (Span){file, 0, 1}, 565, "no pass is called '%s'", *after);
        return EXIT_source;
    }
    c->module = ir_parse(s->arena, s->names, s->diag, file);
    if (!c->module || diag_errors(s->diag))
        return EXIT_source;
    c->module->update_rule = mg_update_rule;
    if (ir_verify(c->module, stderr)) {
        diag_error(s->diag, (Span){file, 0, 1}, 566, "this text is no program");
        return EXIT_source;
    }
    if (!externals_hold(c->module))
        return EXIT_source;
    if (!rules_known(s, c->module, file, *after))
        return EXIT_source;
    const bool generates = module_fn(c->module, "generate") ||
                           (module_fn(c->module, "prefill") && module_fn(c->module, "decode"));
    if (!generates && (!module_fn(c->module, "train") || !module_fn(c->module, "eval"))) {
        diag_error(s->diag, (Span){file, 0, 1}, 566, "there is no @train or no @eval");
        return EXIT_source;
    }
    for (size_t i = 0; i < s->o->print_after.n; i++) {
        const char *pass = s->o->print_after.data[i];
        if (strcmp(pass, "all") && pass_find(pass) <= pass_find(*after))
            return usage(s,
                         arena_printf(s->arena, "'%s' has been through '%s' already", path, pass),
                         "name a later pass");
    }
    const char *device = s->o->device;
    Exit wrong =
        device_load(s, device ? device : name_str(s->names, c->module->layout.device), &c->device);
    if (wrong)
        return wrong;
    c->module->layout.device = name_intern(s->names, c->device.name);
    share_device(s, c->module, &c->device);
    wrong = read_collectives(s, c->module, &c->device);
    return wrong ? wrong : ranks_are_built(s, c);
}

/* ---- middle -------------------------------------------------------------------------------- */

static void show(Session *s, const char *pass, const Module *m)
{
    if (s->page)
        page_pass(s->page, pass, m);
    if (!asks(s->o, pass))
        return;
    printf("# after %s\n", pass);
    ir_print(m, stdout);
}

/* The frontier is printed for the module that it was decided from. */
static void show_frontier(Session *s, const PlanJob *j)
{
    if (s->o->frontier)
        frontier_print(j->m, j->d, stdout);
    if (s->page)
        page_frontier(s->page, j->m, j->d);
}

static void step_done(void *ctx, const char *step, const PlanJob *j)
{
    Session *s = ctx;
    if (!strcmp(step, "frontier"))
        show_frontier(s, j);
    times_mark(s, step);
    if (pass_find(step) >= 0)
        show(s, step, j->m);
    if (!strcmp(step, "fuse"))
        diag_stage(s->diag, 2);
    if (!strcmp(step, "asserts"))
        diag_stage(s->diag, 3);
}

/* Writes the program that mgc was working on when it found itself to be wrong, for a report. */
static void leave_dump(const Session *s, const Module *m)
{
    const char *tmp = getenv("TMPDIR");
    char *path = arena_printf(s->arena, "%s/mgc-XXXXXX.mgir", tmp && *tmp ? tmp : "/tmp");
    int fd = mkstemps(path, 5);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out)
        return;
    ir_print(m, out);
    fclose(out);
    fprintf(stderr,
            "mgc: this is an error in mgc, not in the source; the program as it was then is "
            "in '%s'\n",
            path);
}

/* --cpu where there is a processor to choose. Of the host of a GPU its architecture: kernels that
 * run there are then for all processors of it, and without --cpu for this machine's. */
static bool takes_cpu(Session *s, const Compiled *c)
{
    const char *cpu = s->o->cpu;
    if (!cpu || c->device.target == TARGET_host || !strcmp(cpu, "x86-64") ||
        !strcmp(cpu, "aarch64"))
        return true;
    diag_error(s->diag, (Span){0}, 0, "--cpu=%s: kernels are for '%s', which is no processor", cpu,
               c->device.name);
    diag_help(s->diag, "--cpu=x86-64 or --cpu=aarch64 names the architecture of its host");
    return false;
}

/* --with-kernels where they are in C. */
static bool takes_kernels(Session *s, const Compiled *c)
{
    if (!s->o->with_kernels || c->device.target == TARGET_host)
        return true;
    diag_error(s->diag, (Span){0}, 0,
               "--with-kernels: kernels for '%s' are CUDA, a file of their own", c->device.name);
    diag_help(s->diag, "--emit=cuda writes it; --emit=c the program that launches them");
    return false;
}

static Exit usage_of_text(Session *s, const char *option, const char *pass)
{
    return usage(
        s,
        arena_printf(s->arena, "%s: the text has been through '%s', which decides", option, pass),
        "go on from an earlier one");
}

/* Options that ask for what a text that is read back has behind it. */
static Exit check_after(Session *s, const Compiled *c, const char *after)
{
    const int pass = after ? pass_find(after) : -1;
    if (s->o->frontier && (pass >= pass_find("recompute") || !module_fn(c->module, "train")))
        return usage_of_text(s, "--frontier", "recompute");
    if (s->o->fusion && pass >= pass_find("fuse"))
        return usage_of_text(s, "--fusion", "fuse");
    return EXIT_done;
}

/* Why a device has no products of fp8 with such scales; NULL: it has. */
static const char *lacks_products(Session *s, const Train *t, const Device *d)
{
    const int has = d->architecture ? d->architecture : d->warpgroups ? 90 : 0;
    if (d->flops_fp8 <= 0)
        return "which has no products of fp8";
    const bool mx = t->fp8_scales == SCALES_mx;
    if (t->fp8_scales == SCALES_tensor || (mx ? has >= 100 : has == 90))
        return NULL;
    return arena_printf(
        s->arena, "%s: cuBLASLt multiplies tiles of %d numbers on those of %s",
        has  ? arena_printf(s->arena, "a GPU of compute capability %d.%d", has / 10, has % 10)
        : mx ? "a GPU whose description has no `architecture`"
             : "a GPU without the tensor cores of compute capability 9.0",
        mx ? FP8_MX : FP8_TILE, mx ? "10.0 and later alone" : "9.0 alone");
}

/* Refuses what the device cannot compute in, and texts of products for another. */
static Exit check_precision(Session *s, const Compiled *c, const char *after)
{
    const Train *t = &c->module->train;
    const Device *d = &c->device;
    const bool option = t->precision_by == PRECISION_by_option;
    const bool gpu = d->target == TARGET_cuda, tiles = t->fp8_scales != SCALES_tensor;
    const char *const decides = tiles ? "quantize" : "emulate", *why;
    if (!t->fp8)
        return EXIT_done;
    if (gpu && (why = lacks_products(s, t, d))) {
        const char *scales =
            tiles ? arena_printf(s->arena, "(scales = %s)", scales_names[t->fp8_scales]) : "";
        const char *instead = d->flops_fp8 > 0 ? "fp8" : "bf16";
        diag_error(s->diag, option ? (Span){0} : t->precision_span, 311,
                   "precision fp8%s on %s, %s", scales, d->name, why);
        diag_help(s->diag, "%sprecision %s", option ? "--" : "", instead);
        return EXIT_source;
    }
    if (t->fp8_products != gpu && after && pass_find(after) >= pass_find(decides) &&
        (tiles || !gpu))
        return usage(
            s,
            arena_printf(s->arena, "--device %s: the text has %s", d->name,
                         gpu ? "products of halves in place of those of fp8"
                             : "products of fp8, which it has not"),
            arena_printf(s->arena, "go on from the text of an earlier pass than '%s'", decides));
    return EXIT_done;
}

/* Passes, decisions and planning, from behind `after` on. */
static Exit run_steps(Session *s, Compiled *c, const char *after, const char *until)
{
    const Exit wrong = check_precision(s, c, after);
    if (wrong)
        return wrong;
    if (!levels_there(c->module, &c->device))
        return EXIT_source;
    PlanJob job = {.m = c->module,
                   .d = &c->device,
                   .a = s->arena,
                   .after = after,
                   .upto = until,
                   .log = stderr,
                   .fusion = s->o->fusion ? stdout
                             : s->page    ? page_fusion(s->page)
                                          : NULL,
                   .done = step_done,
                   .ctx = s};
    PassStatus status = plan_make(&job);
    c->module = job.m;
    const bool small = status == PASS_infeasible || status == PASS_error;
    if (small && !strcmp(job.at, "place") && !s->trial) { /* the device, or another level */
        remedies_tell(s, job.plan, job.missing);
        times_mark(s, "remedies");
    }
    if (status == PASS_broken && !strcmp(job.at, "check") && getenv("MGC_DEBUG_PLAN"))
        status = PASS_ok;
    if (status == PASS_ok && job.plan) {
        if (c->device.target == TARGET_cuda && !codegen_cuda_fits(job.plan))
            return EXIT_infeasible;
        job.plan->cpu = s->o->cpu ? s->o->cpu : c->device.processor;
        c->plan = job.plan;
        offload_tell_empty(job.plan);
        if (!attention_built(job.plan))
            status = PASS_error;
    }
    if (status == PASS_broken)
        leave_dump(s, c->module);
    return (Exit)status;
}

Exit compile_middle(Session *s, Compiled *c, const char *after, const char *until)
{
    const bool lowered = after && !strcmp(after, "lower"); /* which comes before the table */
    if (!after || lowered) {
        if (ir_verify(c->module, stderr)) {
            leave_dump(s, c->module);
            return EXIT_internal;
        }
        if (!after)
            show(s, "lower", c->module);
    }
    Exit wrong = check_after(s, c, after);
    if (!wrong && !until && !(takes_cpu(s, c) && takes_kernels(s, c)))
        wrong = EXIT_usage;
    if (!wrong && (!until || strcmp(until, "lower")))
        wrong = run_steps(s, c, lowered ? NULL : after, until);
    if (!wrong && until)
        diag_stage(s->diag, 2);
    return wrong;
}

/* ---- all of it ----------------------------------------------------------------------------- */

Exit compile(Session *s)
{
    const Options *o = s->o;
    Compiled c = {0};
    const char *after = NULL;
    Exit wrong = combination_check(s);
    if (!wrong && o->elastic)
        return compile_elastic(s);
    if (o->time_passes)
        times_begin(s);
    if (o->report)
        s->page = page_new(s->arena);
    if (!wrong && o->out)
        wrong = o->emit && !strcmp(o->emit, "source") ? output_fresh(s, o->out)
                                                      : output_replaceable(s, o->out);
    if (!wrong)
        wrong =
            o->from ? read_dump(s, o->from, &c, &after) : compile_front(s, o->words.data[0], &c);
    if (!wrong)
        wrong = compile_middle(s, &c, after, last_pass(o));
    if (!wrong && c.plan)
        wrong = generate_options(s, &c);
    if (!wrong && c.plan) {
        wrong = write_outputs(s, &c);
        times_mark(s, "write");
    }
    times_print(s, stderr);
    return wrong;
}
