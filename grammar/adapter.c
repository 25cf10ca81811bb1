/* adapter.c - `adapter lora(rank = 16, alpha = 32) on "*.q_proj.weight"`: the lines of the train
 * block, the matrices that they select, and the parameters that these get beside them.
 *
 * A program with an adapter trains the adapter alone: every parameter of the source is frozen. A
 * file may have adapters of several names, of which `--adapter` chooses one; lines without a name,
 * or of one name, are one adapter. Names, shapes and initial values are those of PEFT. */
#include "grammar/adapter.h"
#include "grammar/tokens.h"
#include "ir/external.h"

#include <math.h>
#include <string.h>

/* ---- lines -------------------------------------------------------------------------------- */

enum { RANK, ALPHA, DROPOUT, STABILIZED, RATIO, KEPT, SETTINGS };

/* `base = nf4`, `base = int8`. */
static bool read_base(Elab *e, const Node *value, AdapterLine *l)
{
    static const char *const names[] = {"nf4", "int8", NULL};
    const Node *word = value && value->kind == N_NAMED ? value->a : value;
    const int is = word ? config_choice(e, word, "type of a frozen base", names, 307) : 0;
    l->base = value && is >= 0 ? (FrozenBase)(BASE_nf4 + is) : BASE_as_computed;
    return is >= 0;
}

static bool settings(Elab *e, const Node *call, const Node *const *slot, AdapterLine *l)
{
    if (!slot[RANK]) {
        fail(e, call->at, 318, "'%s' needs `rank = ...`", text(e, call->name));
        help(e, "adapter %s(rank = 16, alpha = 32) on \"*.q_proj.weight\"", text(e, call->name));
        return false;
    }
    if (!config_integer(e, slot[RANK], 1, &l->rank, 303))
        return false;
    l->alpha = (double)l->rank;
    l->ratio = 1;
    return config_within(e, slot[ALPHA], "alpha", -1, 1e300, &l->alpha) &&
           config_within(e, slot[DROPOUT], "dropout", 0, 1, &l->dropout) &&
           config_flag(e, slot[STABILIZED], "rank_stabilized", &l->stabilized) &&
           config_within(e, slot[RATIO], "ratio", -1, 1e300, &l->ratio) &&
           read_base(e, slot[KEPT], l);
}

const char *const mg_adapters[] = {"lora", "dora", "whole", NULL};
const char *const mg_adapter_options[] = {"rank",  "alpha", "dropout", "rank_stabilized",
                                          "ratio", "base",  NULL};

void read_adapter(Elab *e, const Node *n, const Goal *g)
{
    static const char *const nothing[] = {NULL};
    const Node *slot[SETTINGS];
    if (g != &e->module->train.goal[0]) {
        fail(e, n->at, 318, "an adapter stands in the train block without a name");
        return;
    }
    const int kind = config_choice(e, n->a, "kind of adapter", mg_adapters, 307);
    if (kind < 0 ||
        !config_args(e, n->a, kind == 2 ? nothing : mg_adapter_options, slot, NULL, 308))
        return;
    for (size_t i = 0; i < n->more.n; i++)
        if (!check_selector(e, n->more.data[i]))
            return;
    AdapterLine *l = NEW(e->arena, AdapterLine);
    *l = (AdapterLine){.node = n, .name = n->name, .dora = kind == 1, .whole = kind == 2};
    if (!l->whole && !settings(e, n->a, slot, l))
        return;
    const double rank = (double)l->rank;
    l->scale = l->alpha / (l->stabilized ? sqrt(rank) : rank);
    l->used = NEW_ARRAY(e->arena, bool, n->more.n + 1);
    vec_push(e->arena, &e->adapters, l);
}

/* The first line with matrices of its own: it is PEFT's configuration. NULL: there is none. */
static const AdapterLine *first_line(const Elab *e)
{
    for (size_t i = 0; i < e->adapters.n; i++)
        if (!e->adapters.data[i]->whole)
            return e->adapters.data[i];
    return NULL;
}

/* The lines of one adapter are one configuration of PEFT, in which ranks alone may differ. */
static void check_alike(Elab *e)
{
    const AdapterLine *first = first_line(e);
    if (e->adapters.n && !first) {
        fail(e, e->adapters.data[0]->node->at, 318, "an adapter of whole parameters alone");
        help(e,
             "`whole()` stands beside lora(...) or dora(...); `frozen where` leaves out the rest "
             "of a model without an adapter");
    }
    for (size_t i = 0; first && i < e->adapters.n; i++) {
        const AdapterLine *l = e->adapters.data[i];
        if (l == first || l->whole)
            continue;
        const char *other = l->dora != first->dora               ? "kind"
                            : l->dropout != first->dropout       ? "dropout"
                            : l->stabilized != first->stabilized ? "rank_stabilized"
                            : l->base != first->base             ? "base"
                                                                 : NULL;
        if (!other)
            continue;
        fail(e, l->node->at, 318, "another %s than in the first line of this adapter", other);
        note(e, first->node->at, "the first line");
        help(e,
             "lines of one adapter may differ in rank, alpha and ratio; give it a name of its own "
             "to choose it by --adapter");
    }
}

static void unknown_adapter(Elab *e, const char *wanted)
{
    const char *all = "";
    for (size_t i = 0; i < e->adapters.n; i++)
        if (e->adapters.data[i]->name &&
            (!i || e->adapters.data[i]->name != e->adapters.data[i - 1]->name))
            all = arena_printf(e->arena, "%s%s, ", all, text(e, e->adapters.data[i]->name));
    const Span at = e->adapters.n ? e->adapters.data[0]->node->at : (Span){e->ast->file, 0, 0};
    fail(e, at, 318, "--adapter %s: the file has no adapter of this name", wanted);
    help(e, "there is: %snone", all);
}

/* The base is kept as the adapter that is trained says. */
static void take_base(Elab *e)
{
    Train *t = &e->module->train;
    if (!e->adapters.n || e->adapters.data[0]->base == BASE_as_computed)
        return;
    const AdapterLine *l = e->adapters.data[0];
    t->base = l->base;
    t->base_span = l->node->at;
    if (t->fp8) {
        fail(e, l->node->at, 349, "base = %s beside precision fp8", base_names[l->base]);
        help(e, "products of fp8 read matrices that were rounded once: precision bf16");
    }
}

void choose_adapter(Elab *e)
{
    const char *wanted = e->options->adapter;
    const Name name =
        wanted ? name_intern(e->names, wanted) : (e->adapters.n ? e->adapters.data[0]->name : 0);
    const bool none = wanted && !strcmp(wanted, "none");
    size_t kept = 0;
    for (size_t i = 0; i < e->adapters.n; i++) {
        AdapterLine *l = e->adapters.data[i];
        if (!wanted && l->name != name) {
            fail(e, l->node->at, 318, "a second adapter: a program has one");
            note(e, e->adapters.data[0]->node->at, "the first one");
            help(e, "choose one: --adapter %s",
                 text(e, l->name ? l->name : e->adapters.data[0]->name));
            return;
        }
        if (l->name == name && !none)
            e->adapters.data[kept++] = l;
    }
    if (wanted && !none && !kept) {
        unknown_adapter(e, wanted);
        return;
    }
    e->adapters.n = kept;
    check_alike(e);
    take_base(e);
    if (kept && e->module->train.goals > 1) {
        fail(e, e->adapters.data[0]->node->at, 318, "an adapter beside several losses");
        help(e, "an adapter freezes all parameters but its own, which follow `loss`");
    }
    for (size_t i = 0; i < kept; i++) {
        AdapterLine *l = e->adapters.data[i];
        if (l->whole)
            continue;
        l->dim = new_dim(e, name_intern(e->names, "rank"), l->rank, l->node->at);
        if (l->dora)
            l->other = new_dim(e, name_intern(e->names, "rank"), l->rank, l->node->at);
    }
}

/* ---- matrices ----------------------------------------------------------------------------- */

/* Whether t is what an adapter of PEFT takes: one matrix of a file, larger than the adapter. */
static bool fit(Elab *e, const Tensor *t, const AdapterLine *l, const Node *selector)
{
    const char *name = text(e, t->external);
    if (t->external_rank != 2 || t->numbered) {
        fail(e, selector->span, 318, "'%s' gets no adapter: it is %s", name,
             t->numbered
                 ? "a stack of experts' matrices"
                 : arena_printf(e->arena, "no matrix, files have %d dims of it", t->external_rank));
        note(e, t->span, "declared here");
        help(e, "an adapter is for matrices that products read: select no others");
        return false;
    }
    const int64_t rows = external_size(t, 0), columns = external_size(t, 1);
    if (l->rank < rows && l->rank < columns)
        return true;
    fail(e, selector->span, 318, "rank %lld for '%s', which is %lld x %lld: no smaller than that",
         (long long)l->rank, name, (long long)rows, (long long)columns);
    note(e, t->span, "declared here");
    help(e, "a rank below %lld", (long long)(rows < columns ? rows : columns));
    return false;
}

void select_adapter(Elab *e, Tensor *t)
{
    const Node *selector = NULL;
    AdapterLine *by = NULL;
    if (!e->adapters.n)
        return;
    t->frozen = true;
    for (size_t i = 0; i < e->adapters.n; i++) {
        AdapterLine *l = e->adapters.data[i];
        for (size_t k = 0; k < l->node->more.n; k++)
            if (selects(e, l->node->more.data[k], t)) {
                l->used[k] = true;
                by = l;
                selector = l->node->more.data[k];
            }
    }
    if (by && by->whole) {
        t->frozen = false;
        t->adapter = ADAPTER_whole;
        t->external = name_intern(
            e->names, arena_printf(e->arena, ADAPTER_PREFIX "%s", text(e, t->external)));
        return;
    }
    if (!by || !fit(e, t, by, selector))
        return;
    Adapted *to = NEW(e->arena, Adapted);
    *to = (Adapted){.matrix = t->parameter, .by = by, .selector = selector, .first = to};
    for (size_t i = 0; t->part_of && i < e->adapted_all.n; i++) {
        Adapted *other = e->adapted_all.data[i];
        if (e->module->tensors.data[other->matrix].external == t->external && to->first == to)
            to->first = other;
    }
    map_put(e->arena, &e->adapted_of, t->parameter + 1, to);
    vec_push(e->arena, &e->adapted_all, to);
}

/* ---- their parameters ----------------------------------------------------------------------- */

static const char *stem(const Elab *e, Name external)
{
    const char *name = text(e, external), *end = ".weight";
    const size_t n = strlen(name), k = strlen(end);
    return n > k && !strcmp(name + n - k, end) ? arena_strndup(e->arena, name, n - k) : name;
}

static void add_dim(Tensor *t, Dim d, int64_t valid)
{
    t->valid[t->type.rank] = valid;
    t->type.dims[t->type.rank++] = d;
}

/* The last dim of files so far, `place`: n stored dims from `first` on; `at` are in those before.
 */
static void add_group(Tensor *t, int place, int at, int first, int n)
{
    for (int i = 0; i < n; i++)
        t->order[at + i] = (uint8_t)(first + i);
    t->merge[place] = (uint8_t)n;
    t->external_rank = place + 1;
}

static void add_dims(Tensor *t, const Tensor *w, const DimList *l)
{
    for (int i = 0; i < l->n; i++)
        add_dim(t, l->dim[i], w->valid[type_find(&w->type, l->dim[i].name)]);
}

static Tensor begun(const Elab *e, const Tensor *w)
{
    Tensor t = {.span = w->span, .stacked = w->stacked, .goal = w->goal};
    t.type.dtype = e->compute;
    for (int i = 0; i < w->stacked; i++)
        add_dim(&t, w->type.dims[i], w->valid[i]);
    return t;
}

/* A parameter gets names, and the rules of the train block, last. 0 after an error. */
static uint32_t finish(Elab *e, const Adapted *to, Tensor *t, const char *what, const char *end)
{
    const uint32_t number = (uint32_t)e->module->tensors.n;
    const Tensor *w = &e->module->tensors.data[to->matrix];
    const Node at = {.at = to->by->node->at, .name = w->name};
    const char *base = stem(e, w->external);
    t->parameter = number;
    t->external =
        name_intern(e->names, arena_printf(e->arena, ADAPTER_PREFIX "%s.%s%s", base, what, end));
    if (!claim_adapter(e, &at, t))
        return 0;
    t->name = unique_path(e, arena_printf(e->arena, "%s.%s", text(e, w->name), what));
    apply_rules(e, t);
    t->turned = to->turned;
    t->scale = to->by->scale;
    vec_push(e->module->arena, &e->module->tensors, *t);
    return number + 1;
}

/* B and a magnitude are parts where the matrix is one of its outputs. */
static void set_part(Tensor *t, const Tensor *w)
{
    t->part_dim = 0;
    t->part_at = w->part_at;
    t->part_of = w->part_of;
}

static bool make_a(Elab *e, Adapted *to)
{
    const AdapterLine *l = to->by;
    const Tensor w = e->module->tensors.data[to->matrix];
    const int from = w.stacked;
    Tensor a = begun(e, &w);
    add_dims(&a, &w, &to->in);
    add_dim(&a, l->dim, l->rank);
    add_group(&a, 0, 0, from + to->in.n, 1);
    add_group(&a, 1, 1, from, to->in.n);
    a.adapter = ADAPTER_A;
    if (to->table) /* PEFT's begins with A = 0, and B of a normal distribution */
        return (to->a = finish(e, to, &a, "lora_embedding_A", "")) != 0;
    a.init = INIT_uniform; /* kaiming_uniform_(a = sqrt(5)) */
    a.b = 1 / sqrt((double)external_size(&a, 1));
    a.a = -a.b;
    return (to->a = finish(e, to, &a, "lora_A", ".weight")) != 0;
}

bool make_adapter(Elab *e, Adapted *to)
{
    const AdapterLine *l = to->by;
    const Tensor w = e->module->tensors.data[to->matrix];
    const int from = w.stacked;
    Tensor b = begun(e, &w), m = begun(e, &w);
    if (to->first == to ? !make_a(e, to) : !(to->a = to->first->a))
        return false;
    add_dim(&b, l->dim, l->rank);
    add_dims(&b, &w, &to->out);
    add_group(&b, 0, 0, from + 1, to->out.n);
    add_group(&b, 1, to->out.n, from, 1);
    b.adapter = ADAPTER_B;
    b.init = to->table ? INIT_normal : INIT_const;
    b.b = to->table;
    set_part(&b, &w);
    if (!(to->b = finish(e, to, &b, to->table ? "lora_embedding_B" : "lora_B",
                         to->table ? "" : ".weight")))
        return false;
    e->module->tensors.data[to->b - 1].rate *= l->ratio;
    if (!l->dora)
        return true;
    add_dims(&m, &w, &to->out);
    add_group(&m, 0, 0, from, to->out.n);
    m.adapter = ADAPTER_magnitude;
    set_part(&m, &w);
    m.init = INIT_const; /* until the program starts: the lengths of the rows that W has then */
    m.a = 1;
    return (to->magnitude = finish(e, to, &m, "lora_magnitude_vector", "")) != 0;
}

/* ---- once all are made ------------------------------------------------------------------------
 */

static const char *number_text_of(const Elab *e, double d)
{
    return d == floor(d) && fabs(d) < 1e15 ? arena_printf(e->arena, "%.0f", d)
                                           : arena_printf(e->arena, "%.17g", d);
}

/* The names of the modules whose matrices a line adapts, or "name": number of those whose number
 * is another than the first line's. */
static const char *modules(Elab *e, double (*number)(const AdapterLine *))
{
    const char *all = "";
    for (size_t i = 0; i < e->adapted_all.n; i++) {
        const Adapted *to = e->adapted_all.data[i];
        const Tensor *w = &e->module->tensors.data[to->matrix];
        int64_t names = 1;
        for (int k = 0; k < w->stacked; k++)
            names *= w->valid[k];
        if (to->first != to || (number && number(to->by) == number(first_line(e))))
            continue;
        for (int64_t k = 0; k < names; k++) {
            const char *name = external_name(e->arena, stem(e, w->external), w->valid, k);
            all = arena_printf(e->arena, "%s%s\n    \"%s\"%s%s", all, *all ? "," : "", name,
                               number ? ": " : "", number ? number_text_of(e, number(to->by)) : "");
        }
    }
    return all;
}

static double rank_of(const AdapterLine *l)
{
    return (double)l->rank;
}

static double alpha_of(const AdapterLine *l)
{
    return l->alpha;
}

/* The modules that are trained whole, or null. */
static const char *whole_modules(Elab *e)
{
    const Module *m = e->module;
    const char *all = "";
    for (size_t i = 0; i < m->tensors.n; i++) {
        const Tensor *t = &m->tensors.data[i];
        int64_t names = 1;
        for (int k = 0; k < t->stacked; k++)
            names *= t->valid[k];
        for (int64_t k = 0; t->adapter == ADAPTER_whole && !t->slot && k < names; k++) {
            const char *name = external_name(e->arena, text(e, t->external), t->valid, k);
            const char *dot = strrchr(name, '.');
            const char *module = arena_printf(e->arena, "\n    \"%.*s\"",
                                              (int)(dot - name) - (int)strlen(ADAPTER_PREFIX),
                                              name + strlen(ADAPTER_PREFIX));
            if (!strstr(all, module))
                all = arena_printf(e->arena, "%s%s%s", all, *all ? "," : "", module);
        }
    }
    return *all ? arena_printf(e->arena, "[%s\n  ]", all) : "null";
}

/* PEFT's fan_in_fan_out: files have the matrices of products as [in, out]. */
static bool turned(const Elab *e)
{
    for (size_t i = 0; i < e->adapted_all.n; i++)
        if (!e->adapted_all.data[i]->table)
            return e->adapted_all.data[i]->turned;
    return false;
}

/* PEFT's class for the model: of sequences with labels (its config.json has their number, and its
 * first input is tokens), of images or sounds none of its own, else of the next token. */
static const char *task_type(const Module *m)
{
    if (m->inputs.n && !m->inputs.data[0].limit)
        return "null";
    return m->config && strstr(m->config, "\n  \"num_labels\": ") ? "\"SEQ_CLS\"" : "\"CAUSAL_LM\"";
}

/* adapter_config.json, from its second line on: the first has where the base came from. */
static void write_config(Elab *e)
{
    const AdapterLine *l = first_line(e);
    e->module->adapter = arena_printf(
        e->module->arena,
        "  \"peft_type\": \"LORA\",\n  \"task_type\": %s,\n  \"inference_mode\": true,\n"
        "  \"bias\": \"none\",\n  \"fan_in_fan_out\": %s,\n  \"init_lora_weights\": true,\n"
        "  \"modules_to_save\": %s,\n  \"r\": %lld,\n  \"lora_alpha\": %s,\n"
        "  \"lora_dropout\": %s,\n  \"use_rslora\": %s,\n  \"use_dora\": %s,\n"
        "  \"rank_pattern\": {%s},\n  \"alpha_pattern\": {%s},\n  \"target_modules\": [%s\n  "
        "]\n}\n",
        task_type(e->module), turned(e) ? "true" : "false", whole_modules(e), (long long)l->rank,
        number_text_of(e, l->alpha), number_text_of(e, l->dropout),
        l->stabilized ? "true" : "false", l->dora ? "true" : "false", modules(e, rank_of),
        modules(e, alpha_of), modules(e, NULL));
}

/* Names of all matrices, which a selector could have meant. */
static void help_names(Elab *e)
{
    enum { SHOWN = 12 };
    const char *names = "";
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < e->module->tensors.n; i++) {
        const Tensor *t = &e->module->tensors.data[i];
        if (t->slot || !t->external || t->external_rank != 2)
            continue;
        if (shown < SHOWN)
            names =
                arena_printf(e->arena, "%s%s%s", names, shown++ ? ", " : "", text(e, t->external));
        else
            more++;
    }
    help(e, more ? "the matrices are %s, and %zu others" : "the matrices are %s", names, more);
}

void finish_adapters(Elab *e)
{
    for (size_t i = 0; i < e->adapters.n; i++) {
        const AdapterLine *l = e->adapters.data[i];
        for (size_t k = 0; k < l->node->more.n; k++)
            if (!l->used[k]) {
                fail(e, l->node->more.data[k]->span, 315, "this names no parameter of the model");
                help_names(e);
            }
    }
    for (size_t i = 0; i < e->adapted_all.n; i++) {
        const Adapted *to = e->adapted_all.data[i];
        const Tensor *w = &e->module->tensors.data[to->matrix];
        if (to->a)
            continue;
        fail(e, to->selector->span, 318, "'%s' gets no adapter: no product reads it",
             text(e, w->external));
        note(e, w->span, "declared here");
    }
    if (e->adapted_all.n && !diag_errors(e->diag))
        write_config(e);
}
