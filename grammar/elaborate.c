/* elaborate.c - a syntax tree becomes a module: the model is elaborated once for each function,
 * with the sizes of that function. Train: the batch of a step. Eval: what is computed at once,
 * without dropout, of as many rows as the argument `filled` says (passes/model/evaluate.c goes on).
 * Sample: one sequence, without dropout, up to the logits of the loss; generate: the same of
 * several (passes/model/generate.c goes on). */
#include "grammar/config.h"
#include "grammar/elab.h"
#include "grammar/prelude.h"

#include <string.h>

/* So many positions are new at once while a prompt is read: enough for products to be bound by
 * arithmetic, few enough that a short prompt is not computed many times over. */
/* Positions of a prompt at once; the longest head of tiles of attention on a GPU
 * (runtime/attend.h). */
enum { PREFILL = 64, GPU_HEAD = 256 };

static const char *const mode_names[] = {"train", "eval", "sample"};

/* ---- functions ---------------------------------------------------------------------------- */

Value fn_arg(Elab *e, ArgRole role, uint32_t tensor, Type t, const char *hint)
{
    FnArg arg = {role, tensor};
    vec_push(e->module->arena, &e->fn->args, arg);
    return region_arg(e->module, e->fn->body, t, name_intern(e->names, hint));
}

/* Parameters come first, in the order of their declaration, then the inputs. */
static void order_args(Elab *e)
{
    Fn *f = e->fn;
    size_t n = f->args.n, to = 0;
    FnArg *args = NEW_ARRAY(e->module->arena, FnArg, n);
    Value *values = NEW_ARRAY(e->module->arena, Value, n);
    for (int params = 1; params >= 0; params--)
        for (size_t i = 0; i < n; i++)
            if ((f->args.data[i].role == ARG_param) == params) {
                args[to] = f->args.data[i];
                values[to++] = f->body->args.data[i];
            }
    if (n) {
        memcpy(f->args.data, args, n * sizeof *args);
        memcpy(f->body->args.data, values, n * sizeof *values);
    }
}

void add_result(Elab *e, FnResult r, Value v)
{
    vec_push(e->module->arena, &e->fn->results, r);
    vec_push(e->module->arena, &e->fn->body->results, v);
}

static void set_size(Elab *e, Dim d, int64_t size)
{
    DimInfo *info = dim_info(e, d.name);
    info->size = info->valid = size;
    Sym *s = map_find(&e->globals, d.name);
    s->dims.dim[0].size = size;
    s->val.number = number_int(size);
}

static Value named_input(Elab *e, const Node *in, uint32_t number, int64_t batch)
{
    Dim d;
    Type t = {.dtype = e->compute, .rank = (int)in->list.n};
    for (int i = 0; i < t.rank; i++)
        resolve_dim(e, in->list.data[i], &t.dims[i]);
    t.dims[0].size = batch;
    if (in->a && resolve_dim(e, in->a, &d)) {
        t.dtype = DT_i32;
        t.indexes = d.name;
    }
    return input_windows(e, in, number, fn_arg(e, ARG_input, number, t, text(e, in->name)));
}

/* Of a function that generates: the tokens are all that there is. */
static Val generating_input(Elab *e, const Node *in, int64_t batch)
{
    if (strcmp(text(e, in->name), "tokens") != 0)
        return (Val){.kind = VAL_POISON};
    token_windows(e, in, batch);
    return tensor_val(e->tokens);
}

static bool declare_inputs(Elab *e, const Node *model, int64_t batch)
{
    begin_windows(e);
    for (size_t i = 0; i < model->list.n; i++) {
        const Node *in = model->list.data[i];
        Sym *s = declare(e, SYM_VALUE, in->name, in->at);
        if (!s)
            return false;
        if (e->module->inputs.n && e->mode == MODE_SAMPLE)
            s->val = generating_input(e, in, batch);
        else if (e->module->inputs.n)
            s->val = tensor_val(named_input(e, in, (uint32_t)i, batch));
        else if (i == 0)
            token_windows(e, in, batch), s->val = tensor_val(e->tokens);
        else
            s->val = weight_windows(e, in, batch);
    }
    return true;
}

/* ---- results ------------------------------------------------------------------------------ */

static bool loss_result(Elab *e, const Node *model)
{
    Sym *s = find_local(e->frame, name_intern(e->names, "loss"));
    if (!s || s->kind != SYM_VALUE || s->gone) {
        fail(e, model->at, 270, "model '%s' assigns no loss", text(e, model->name));
        help(e, "loss = cross_entropy(logits, next(tokens))");
        return false;
    }
    if (s->val.kind == VAL_POISON)
        return false;
    if (s->val.kind == VAL_NUMBER) {
        fail(e, s->span, 271, "the loss is the number %s: it depends on no parameter",
             number_text(e->arena, s->val.number));
        return false;
    }
    const Type *t = type_of(e->module, s->val.value);
    if (t->rank || !dtype_is_float(t->dtype)) {
        fail(e, s->span, 271, "the loss must be one number; this is %s",
             type_text(e, s->val.value));
        help(e, "loss = mean(...)");
        return false;
    }
    add_result(e, (FnResult){.role = RES_loss}, build_cast(&e->b, s->val.value, DT_f64));
    return true;
}

/* False if the logits are not those of one sequence: the model then has no sample function. */
static bool logits_result(Elab *e)
{
    Module *m = e->module;
    Value v = m->train.rollout.size ? rollout_logits(e) : e->logits;
    if (!v)
        return false;
    Dim batch = {.name = m->batch.name, .size = e->texts ? e->texts : 1};
    if (type_find(type_of(m, v), m->seq.name) >= 0) {
        Type scalar = {.dtype = DT_i32, .indexes = m->seq.name};
        v = at_position(e, v, m->seq, fn_arg(e, ARG_pos, 0, scalar, "pos"));
    }
    Type t = *type_of(m, v);
    if (t.rank != 2 || type_find(&t, batch.name) < 0)
        return false;
    if (t.dims[0].name != batch.name)
        t = (Type){.rank = 2, .dims = {batch, t.dims[0]}};
    t.dtype = e->compute; /* a loss within them is f64, and makes them so */
    add_result(e, (FnResult){.role = RES_logits},
               build_as(&e->b, build_cast(&e->b, v, e->compute), t));
    return true;
}

/* ---- the model ---------------------------------------------------------------------------- */

static bool elaborate_mode(Elab *e, const Node *model, Mode mode, int64_t batch)
{
    Module *m = e->module;
    Frame f = {.block = model, .path = "", .external = ""};
    e->mode = mode;
    e->fn = NEW(m->arena, Fn);
    const bool generates = mode == MODE_SAMPLE && e->texts;
    e->fn->name = name_intern(e->names, generates ? "generate" : mode_names[mode]);
    e->fn->body = region_new(m, NULL);
    e->b = (Builder){.m = m, .region = e->fn->body, .span = model->at};
    e->step = e->seed = e->logits = e->filled = 0;
    e->metrics.n = 0;
    e->work = 0;
    e->paths = e->shared = (Map){0};
    e->loop = NULL;
    set_size(e, m->batch, batch);
    e->frame = &f;
    if (!declare_inputs(e, model, batch))
        return false;
    Val none = {.kind = VAL_POISON};
    statements(e, &model->more, &none);
    bool ok = !e->stopped &&
              (mode == MODE_SAMPLE ? logits_result(e) : loss_result(e, model) && goal_results(e));
    ok = ok && (mode != MODE_EVAL || rollout_likely(e, model));
    for (size_t i = 0; ok && mode == MODE_EVAL && i < e->metrics.n; i++)
        add_result(e, (FnResult){RES_metric, (uint32_t)i}, e->metrics.data[i]);
    warn_unused_names(e, &f, 0);
    free_dims(e, &f);
    e->frame = NULL;
    if (!ok)
        return false;
    if (generates) {
        const ElaborateOptions *o = e->options;
        e->fn->prefill = most_prefilled(m, o->prefill ? o->prefill : PREFILL);
        e->fn->group = texts_of_prompt(e);
        e->fn->head = o->is_gpu && o->is_gpu(o->who, text(e, m->layout.device)) ? GPU_HEAD : 0;
    }
    end_windows(e);
    sweep(e, e->fn->body);
    if (!check_adapted(e))
        return false;
    order_args(e);
    vec_push(m->arena, &m->fns, e->fn);
    return mask_padding(e);
}

static bool bad_input(Elab *e, const Node *model, const Node *in, const char *why)
{
    fail(e, in ? in->span : model->at, 272, "%s", why);
    help(e,
         "model %s(tokens[batch, seq] : token(vocab)), perhaps with weight[batch, seq], or by name "
         "from a file: %s(x[batch, "
         "features], y[batch] : token(classes))",
         text(e, model->name), text(e, model->name));
    return false;
}

/* One input by name: x[batch, ...] or y[batch, ...] : token(classes). */
static bool check_named(Elab *e, const Node *model, const Node *in)
{
    Module *m = e->module;
    Input input = {.name = in->name};
    Dim d;
    if (in->kind == N_TENSOR && in->list.n > MAX_RANK - 1)
        return bad_input(e, model, in,
                         arena_printf(e->arena, "an input of %zu dims; the limit is %d", in->list.n,
                                      MAX_RANK - 1));
    if (in->kind != N_TENSOR || !in->flag || !in->list.n ||
        (in->a && strcmp(in->text, "token") != 0))
        return bad_input(e, model, in, "an input has dims, the batch first");
    for (size_t i = 0; i < in->list.n; i++) {
        if (!resolve_dim(e, in->list.data[i], &d))
            return false;
        for (size_t k = 0; k < i; k++)
            if (in->list.data[k]->name == in->list.data[i]->name)
                return fail(e, in->list.data[i]->at, 205, "dim '%s' is listed twice",
                            text(e, d.name)),
                       false;
        if (i)
            continue;
        if (m->batch.name && m->batch.name != d.name)
            return bad_input(e, model, in, "the first dim of all inputs is one: the batch");
        m->batch = d;
    }
    if (in->a) {
        if (!resolve_dim(e, in->a, &d))
            return false;
        input.limit = dim_info(e, d.name)->valid;
        if (input.limit >= INT32_MAX)
            return fail(e, in->a->at, 273, "'%s' is %lld; the limit is 2^31 - 2", text(e, d.name),
                        (long long)input.limit),
                   false;
    }
    vec_push(m->arena, &m->inputs, input);
    return true;
}

static bool check_named_inputs(Elab *e, const Node *model)
{
    if (!model->list.n || model->list.n > MAX_INPUTS)
        return bad_input(e, model, NULL,
                         arena_printf(e->arena, "%zu inputs; a model has from 1 to %d",
                                      model->list.n, MAX_INPUTS));
    for (size_t i = 0; i < model->list.n; i++)
        if (!check_named(e, model, model->list.data[i]))
            return false;
    e->module->seq = (Dim){.size = 1};
    return true;
}

/* weight[batch, seq] after tokens[batch, seq] : token(vocab). */
static bool is_weight(const Node *in, const Node *tokens)
{
    return in->kind == N_TENSOR && !in->a && in->list.n == 2 &&
           in->list.data[0]->name == tokens->list.data[0]->name &&
           in->list.data[1]->name == tokens->list.data[1]->name;
}

static bool is_tokens(const Node *in)
{
    return in->kind == N_TENSOR && in->a && in->list.n == 2 && strcmp(in->text, "token") == 0;
}

/* The tokens of a window, perhaps with weights, or inputs by name. */
static bool check_input(Elab *e, const Node *model)
{
    const NodeList *list = &model->list;
    const Node *in = list->n ? list->data[0] : NULL;
    bool weighed = list->n == 2 && is_tokens(in) && is_weight(list->data[1], in);
    if (!in || !is_tokens(in) || (list->n > 1 && !weighed))
        return check_named_inputs(e, model);
    if (weighed && !e->reads_next)
        return bad_input(e, model, list->data[1],
                         "the weights are those of next(tokens), which is not used");
    Module *m = e->module;
    Dim vocab;
    bool ok = resolve_dim(e, in->list.data[0], &m->batch);
    ok &= resolve_dim(e, in->list.data[1], &m->seq);
    ok &= resolve_dim(e, in->a, &vocab);
    if (!ok)
        return false;
    const Node *names[3] = {in->list.data[0], in->list.data[1], in->a};
    const Dim dims[3] = {m->batch, m->seq, vocab};
    for (int i = 0; i < 3; i++) {
        if (dims[i].size >= INT32_MAX)
            return fail(e, names[i]->at, 273, "'%s' is %lld; the limit is 2^31 - 2",
                        text(e, dims[i].name), (long long)dims[i].size),
                   false;
        for (int k = 0; k < i; k++)
            if (dims[k].name == dims[i].name)
                return fail(e, names[i]->at, 205, "dim '%s' is listed twice",
                            text(e, dims[i].name)),
                       false;
    }
    e->vocab = vocab.name;
    m->vocab = dim_info(e, vocab.name)->valid;
    return true;
}

static const Node *find_model(Elab *e)
{
    const Node *model = NULL;
    for (size_t i = 0; i < e->ast->items.n; i++) {
        const Node *n = e->ast->items.data[i];
        if (n->kind != N_MODEL)
            continue;
        if (model) {
            fail(e, n->at, 274, "a second model");
            note(e, model->at, "the first one");
            return NULL;
        }
        model = n;
    }
    if (!model) {
        fail(e, (Span){e->ast->file, 0, 0}, 274, "there is no model");
        help(e, "model name(tokens[batch, seq] : token(vocab)) { ... loss = ... }");
    }
    return model;
}

/* The first dim of a model's inputs, as far as there are any: constants may be made of it. */
static Name batch_name(const Ast *ast)
{
    for (size_t i = 0; i < ast->items.n; i++) {
        const Node *n = ast->items.data[i], *in = n->list.n ? n->list.data[0] : NULL;
        if (n->kind == N_MODEL)
            return in && in->kind == N_TENSOR && in->list.n ? in->list.data[0]->name : 0;
    }
    return 0;
}

/* The function that generates: @train has told what there is to be told. */
static void elaborate_generate(Elab *e, const Node *model)
{
    Module *m = e->module;
    const bool rolls = m->train.rollout.size;
    if (e->options->sequences && !layout_generates(e))
        return;
    if (!e->options->sequences)
        e->texts = m->train.rollout.texts;
    if ((((!e->sampled || m->inputs.n) && !rolls) ||
         !elaborate_mode(e, model, MODE_SAMPLE, e->texts)) &&
        !diag_errors(e->diag)) {
        fail(e, model->at, 536, "model '%s' has no logits of the next token", text(e, model->name));
        help(e, rolls ? "logits = policy(tokens), of which answers are drawn"
                      : "loss = cross_entropy(logits, next(tokens))");
    }
    set_size(e, m->batch, m->batch.size);
}

static void elaborate_functions(Elab *e, const Node *model)
{
    Module *m = e->module;
    if (!elaborate_mode(e, model, MODE_TRAIN, m->batch.size) || diag_errors(e->diag))
        return;
    find_followed(e);
    all_rules_used(e);
    finish_adapters(e);
    check_wholes(e);
    warn_unused(e);
    stages_of_kinds(e);
    if (e->options->sequences) { /* it generates, and does nothing else */
        m->fns.n = 0;
        elaborate_generate(e, model);
        return;
    }
    elaborate_mode(e, model, MODE_EVAL, m->layout.microbatch * mesh_batch_ranks(m));
    size_windows(e);
    if (m->train.rollout.size)
        elaborate_generate(e, model);
    else if (e->sampled && !m->inputs.n)
        elaborate_mode(e, model, MODE_SAMPLE, 1);
    set_size(e, m->batch, m->batch.size);
}

const Ast *read_prelude(Elab *e)
{
    uint32_t file = diag_add_file(e->diag, "prelude.mg", prelude_text, strlen(prelude_text));
    return mg_parse(e->arena, e->names, e->diag, file);
}

typedef struct Trial {
    Arena *arena;
    Names *names;
    Diag *diag;
    const Ast *ast;
    const ElaborateOptions *options;
} Trial;

static const Module *try_padding(void *ctx, const PaddedList *pads);

/* pads: those beside what the layout says; NULL: which is tried. */
static Module *elaborate(const Trial *t, const PaddedList *pads)
{
    Arena *a = t->arena;
    Names *names = t->names;
    Diag *d = t->diag;
    const Ast *ast = t->ast;
    const ElaborateOptions *o = t->options;
    int errors = diag_errors(d);
    Elab *e = NEW(a, Elab);
    *e = (Elab){.arena = a, .names = names, .diag = d, .ast = ast, .options = o};
    Module *m = e->module = module_new(a, names, d);
    e->b.m = m;
    m->source = ast->path;
    m->update_rule = mg_update_rule;
    m->rules = e;
    e->prelude = read_prelude(e);
    if (!e->prelude) /* the limit of errors was passed before */
        return NULL;
    e->batch = batch_name(ast);
    declare_globals(e);
    const Node *model = find_model(e);
    read_optimizers(e);
    read_train(e);
    read_config(e);
    e->compute = m->train.compute;
    find_next(e, model);
    bool input = model && check_input(e, model);
    read_layout(e);
    default_precision(e, &m->train);
    state_fits(e, &m->train);
    fp8_fits(e, &m->train);
    check_goals(e);
    if (e->untrained && diag_errors(d) == errors + 1 && input)
        elaborate_mode(e, model, MODE_TRAIN, m->batch.size); /* for the model's own errors */
    if (diag_errors(d) == errors && input && rollout_begins(e, model)) {
        m->name = model->name;
        if (pads)
            pad_as_tried(e, pads);
        else
            pad_by_default(e, try_padding, (void *)t);
        elaborate_functions(e, model);
    }
    return diag_errors(d) == errors ? m : NULL;
}

static const Module *try_padding(void *ctx, const PaddedList *pads)
{
    Trial t = *(const Trial *)ctx;
    t.diag = diag_silent(t.diag, t.arena);
    return elaborate(&t, pads);
}

Module *mg_elaborate(Arena *a, Names *names, Diag *d, const Ast *ast, const ElaborateOptions *o)
{
    return elaborate(&(Trial){a, names, d, ast, o}, NULL);
}
