/* stages.c - rules that cut the layers of a model into stages: layers -> pp (schedule = 1f1b).
 *
 * The dim of a rule is that of a `repeat`; its one axis is used by no other rule. Options of the
 * axis say in which order a rank computes. */
#include "grammar/config.h"
#include "grammar/tokens.h"
#include "ir/propose.h"

#include <string.h>

enum { S_GPIPE, S_1F1B, S_INTERLEAVED, S_ZB_H1, S_TABLE };
const char *const mg_pipelines[] = {"1f1b", "gpipe", "interleaved", "zb-h1", NULL};
static const int numbers[] = {S_1F1B, S_GPIPE, S_INTERLEAVED, S_ZB_H1};
/* Those in which the first rank has the last stage, too. */
static const char *const of_a_v[] = {"zb-v", "dualpipe-v", NULL};

/* zb-h1, and all names with a '-', are read as a difference. */
static const char *word_of(const Elab *e, const Node *n)
{
    if (n->kind == N_BINARY && n->op == B_SUB && n->a->kind == N_NAME && n->b->kind == N_NAME)
        return arena_printf(e->arena, "%s-%s", text(e, n->a->name), text(e, n->b->name));
    return n->kind == N_NAME ? text(e, n->name) : n->text;
}

/* zb-h1 has the memory of zb-v, and interleaved several chunks a rank. */
static void refuse_v(Elab *e, const Node *n, const char *word)
{
    fail(e, n->span, 341,
         "%s puts the first stage and the last on one rank, and a layout has each rank's stages in "
         "a "
         "loop: only mgc pipeline has this schedule so far",
         word);
    remedy(e, n->span, "zb-h1", "schedule = zb-h1");
    remedy(e, n->span, "interleaved", "schedule = interleaved");
}

/* One of S_*; -1: told. */
static int schedule_of(Elab *e, const Node *n)
{
    const char *word = word_of(e, n);
    size_t length = n->kind == N_STRING ? strlen(word) : 0;
    for (int i = 0; word && mg_pipelines[i]; i++)
        if (!strcmp(mg_pipelines[i], word))
            return numbers[i];
    for (int i = 0; word && of_a_v[i]; i++)
        if (!strcmp(of_a_v[i], word)) {
            refuse_v(e, n, word);
            return -1;
        }
    if (length > 4 && !strcmp(word + length - 4, ".csv"))
        return S_TABLE;
    if (n->kind == N_STRING) {
        fail(e, n->span, 324, "there is no schedule '%s'", word);
        help(e, "a table of one is a file of the name \"....csv\": mgc pipeline writes them");
        return -1;
    }
    return config_choice(e, n, "schedule", mg_pipelines, 324) < 0 ? -1 : S_1F1B;
}

static const Node *option(const Elab *e, const NodeList *options, const char *name)
{
    for (size_t i = 0; i < options->n; i++)
        if (options->data[i]->kind == N_NAMED && !strcmp(text(e, options->data[i]->name), name))
            return options->data[i];
    return NULL;
}

/* Proposes `interleaved`, which has this number, or the rule without the number. */
static void interleaved_or_without(Elab *e, const NodeList *options, const Node *number,
                                   const char *name)
{
    const Node *schedule = option(e, options, "schedule");
    if (schedule)
        remedy(e, schedule->a->span, "interleaved", "schedule = interleaved");
    remedy(e, entry_with_comma(e->diag, number->span), "", "without '%s'", name);
}

/* Each number of layers is one. */
static void check_cut(Elab *e, const NodeList *options)
{
    const Node *cut = option(e, options, "stages");
    int64_t n;
    for (size_t i = 0; cut && i < cut->a->list.n; i++)
        config_integer(e, cut->a->list.data[i], 0, &n, 341);
}

/* `pairs = all` or `pairs = none`; PAIRS_auto: something else, or nothing. */
static int pairs_of(const Elab *e, const Node *pairs)
{
    const char *word = pairs ? word_of(e, pairs->a) : NULL;
    return !word                   ? PAIRS_auto
           : !strcmp(word, "all")  ? PAIRS_all
           : !strcmp(word, "none") ? PAIRS_none
                                   : PAIRS_auto;
}

/* chunks and group are of schedules that have several chunks a rank. */
static void check_numbers(Elab *e, const NodeList *options, int schedule)
{
    static const char *const what[] = {"gpipe", "1f1b", "interleaved", "zb-h1", "a table"};
    const Node *chunks = option(e, options, "chunks"), *group = option(e, options, "group");
    int64_t n;
    bool many = schedule == S_INTERLEAVED || schedule == S_TABLE;
    if (chunks && !many) {
        fail(e, chunks->at, 341, "%s has one chunk of layers a rank", what[schedule]);
        interleaved_or_without(e, options, chunks, "chunks");
    } else if (chunks) {
        config_integer(e, chunks->a, schedule == S_INTERLEAVED ? 2 : 1, &n, 341);
    }
    if (group && schedule != S_INTERLEAVED) {
        fail(e, group->at, 341, "%s has no groups of microbatches: interleaved has",
             what[schedule]);
        interleaved_or_without(e, options, group, "group");
    } else if (group) {
        config_integer(e, group->a, 1, &n, 341);
    }
    const Node *pairs = option(e, options, "pairs");
    if (pairs && schedule != S_1F1B && schedule != S_INTERLEAVED)
        fail(e, pairs->at, 341, "%s has no pairs to choose: 1f1b and interleaved have",
             what[schedule]);
    else if (pairs && pairs_of(e, pairs) == PAIRS_auto)
        fail(e, pairs->a->span, 341,
             "'pairs' is all (each forward beside the backward behind it) or none; without it the "
             "faster of the two is taken");
}

static const Node *word(const Elab *e, const NodeList *options, const char *name)
{
    for (size_t i = 0; i < options->n; i++)
        if (options->data[i]->kind == N_NAME && !strcmp(text(e, options->data[i]->name), name))
            return options->data[i];
    return NULL;
}

/* Rows of experts are sent to them, as many as a bound says, or their matrices are gathered. */
static void check_rows(Elab *e, const Node *axis)
{
    const NodeList *options = &axis->list;
    const Node *rows = word(e, options, "rows"), *gather = word(e, options, "gather");
    const Node *bound = option(e, options, "bound"), *once = word(e, options, "once"),
               *first = rows     ? rows
                        : gather ? gather
                                 : once;
    double times;
    for (size_t i = 0; first && i < options->n; i++) {
        const Node *o = options->data[i];
        if (o == first || (rows && o == bound))
            continue;
        fail(e, o->span, 348, "'%s' beside '%s': %s", text(e, o->name), text(e, first->name),
             o == gather ? "rows are sent to experts' matrices, or these are gathered"
             : o == once ? "along an axis rows are sent to each expert, or once to all peers"
                         : "that is for the dim of experts, which lie in their order");
        remedy(e, entry_with_comma(e->diag, o->span), "", "without '%s'", text(e, o->name));
        return;
    }
    if (bound && !rows) {
        fail(e, bound->at, 348, "a bound of what is not sent: rows are, with the word 'rows'");
        return;
    }
    if (!bound || !config_real(e, bound->a, &times))
        return;
    if (!(times >= 1) || times > 1e6) {
        fail(e, bound->a->span, 348,
             times < 1 ? "bound = %g: a rank would take %g of each 1 row that it is sent where all "
                         "experts are used alike"
                       : "bound = %g: that is more than %g times the mean",
             times, times < 1 ? times : 1e6);
        help(e, "1.25 takes a quarter more than the mean; without a bound no row is dropped");
    }
}

enum { WORDS = AXIS_schedule }; /* options below have no value */

/* Is an option's value there, and of its kind? Else told. */
static bool check_value(Elab *e, const Node *o, int which)
{
    static const char *const examples[] = {"1f1b", "2", "4", "1.5", "all", "[3, 2]"};
    if (which < WORDS && o->kind == N_NAMED)
        fail(e, o->at, 324, "'%s' takes no value", axis_options[which]);
    else if (which >= WORDS && o->kind != N_NAMED)
        fail(e, o->at, 324, "'%s' needs a value: %s = %s", axis_options[which], axis_options[which],
             examples[which - WORDS]);
    else if (which >= WORDS && (which == AXIS_stages) != (o->a->kind == N_LIST))
        fail(e, o->a->span, 324, "'%s' takes %s: %s = %s", axis_options[which],
             which == AXIS_stages ? "a list of numbers of layers" : "one value",
             axis_options[which], examples[which - WORDS]);
    else
        return true;
    return false;
}

void check_axis_options(Elab *e, const Node *axis)
{
    const Node *heads = NULL, *other = NULL; /* `heads`, and what it cannot be together with */
    int schedule = S_1F1B;
    for (size_t i = 0; i < axis->list.n; i++) {
        const Node *o = axis->list.data[i];
        int which = config_choice(
            e, o->kind == N_NAMED ? &(Node){.kind = N_NAME, .name = o->name, .at = o->at} : o,
            "option of a rule", axis_options, 324);
        if (which < 0)
            return;
        if (which == AXIS_heads)
            heads = o;
        else if (which <= AXIS_ring)
            other = o;
        if (!check_value(e, o, which))
            return;
        if (which == WORDS && (schedule = schedule_of(e, o->a)) < 0)
            return;
        for (size_t k = 0; k < i; k++)
            if (axis->list.data[k]->kind == N_NAMED && o->kind == N_NAMED &&
                axis->list.data[k]->name == o->name)
                fail(e, o->at, 324, "'%s' is given twice", text(e, o->name));
    }
    if (heads && other) {
        fail(e, other->span, 347, "'%s' beside 'heads': %s", text(e, other->name),
             strcmp(text(e, other->name), "ring")
                 ? "with its heads a rank has whole sequences, in their order"
                 : "keys go round a ring, or heads are exchanged");
        remedy(e, entry_with_comma(e->diag, other->span), "", "%s (heads)", text(e, axis->name));
        remedy(e, entry_with_comma(e->diag, heads->span), "", "%s (%s)", text(e, axis->name),
               text(e, other->name));
    }
    check_rows(e, axis);
    check_numbers(e, &axis->list, schedule);
    check_cut(e, &axis->list);
}

void read_axis_word(Elab *e, const Node *option, Axes axis, LayoutRule *rule)
{
    Axes *const of[WORDS] = {
        [AXIS_zigzag] = &rule->zigzag, [AXIS_heads] = &rule->heads,   [AXIS_ring] = &rule->ring,
        [AXIS_rows] = &rule->rows,     [AXIS_gather] = &rule->gather, [AXIS_once] = &rule->once};
    for (int k = 0; k < WORDS; k++)
        if (option->kind == N_NAME && !strcmp(text(e, option->name), axis_options[k]))
            *of[k] |= axis;
    if (option->kind == N_NAMED && !strcmp(text(e, option->name), axis_options[AXIS_bound]))
        config_real(e, option->a, &rule->bound);
}

/* ---- the chosen layout ------------------------------------------------------------------------
 */

static bool repeats(const NodeList *statements, Name dim)
{
    for (size_t i = 0; i < statements->n; i++) {
        const Node *n = statements->data[i];
        if (n->kind == N_REPEAT && (n->name == dim || repeats(&n->more, dim)))
            return true;
    }
    return false;
}

/* Does a model or a block have a repeat over it? */
static bool is_repeated(const Elab *e, Name dim)
{
    for (size_t i = 0; i < e->ast->items.n; i++)
        if ((e->ast->items.data[i]->kind == N_MODEL || e->ast->items.data[i]->kind == N_BLOCK) &&
            repeats(&e->ast->items.data[i]->more, dim))
            return true;
    return false;
}

static bool is_pipeline_option(const Elab *e, const Node *o)
{
    return o->kind == N_NAMED && strcmp(text(e, o->name), "bound") != 0;
}

/* The numbers of layers that a list says. */
static void read_cut(Elab *e, const Node *list, Pipeline *p)
{
    p->cut_span = list->span;
    for (size_t i = 0; i < list->list.n; i++) {
        int64_t n;
        if (config_integer(e, list->list.data[i], 0, &n, 341))
            vec_push(e->arena, &p->layers, n);
    }
}

void warn_of_pairs(Elab *e, const Node *rule)
{
    for (size_t k = 0; k < rule->more.n; k++) {
        const Node *axis = rule->more.data[k], *pairs = option(e, &axis->list, "pairs");
        if (pairs_of(e, pairs) == PAIRS_all)
            warn(e, pairs->at, 341,
                 "'pairs = all' says nothing here: '%s' has one rank, and a forward is beside the "
                 "backward of another microbatch in pipelines of two and more",
                 text(e, axis->name));
    }
}

void read_stages(Elab *e, const Node *rule, Name dim, const LayoutRule *kept, Layout *l)
{
    const NodeList *options = NULL;
    for (size_t k = 0; k < rule->more.n; k++)
        if (rule->more.data[k]->name == l->mesh.data[kept->axis[0]].name)
            options = &rule->more.data[k]->list;
    bool repeated = !kept->of && is_repeated(e, dim);
    for (size_t k = 0; options && k < options->n && !repeated; k++)
        if (is_pipeline_option(e, options->data[k])) {
            fail(e, options->data[k]->at, 341, "'%s' is of rules for the dim of a repeat",
                 text(e, options->data[k]->name));
            return;
        }
    if (!repeated || !options)
        return;
    const Axes dealt =
        kept->zigzag | kept->heads | kept->ring | kept->rows | kept->gather | kept->once;
    if (kept->n > 1 || dealt) {
        fail(e, kept->span, 341, "the iterations of a repeat over '%s' are cut along one axis%s",
             text(e, dim), dealt ? ", in their order" : "");
        return;
    }
    if (l->pipeline.axis) {
        fail(e, kept->span, 341, "a second pipeline");
        note(e, l->pipeline.span, "the first one");
        return;
    }
    const Node *schedule = option(e, options, "schedule"), *chunks = option(e, options, "chunks");
    const Node *group = option(e, options, "group");
    int which = schedule ? schedule_of(e, schedule->a) : S_1F1B;
    int64_t v = which == S_INTERLEAVED ? 2 : 1, n = 0;
    if (which < 0 || (chunks && !config_integer(e, chunks->a, 1, &v, 341)) ||
        (group && !config_integer(e, group->a, 1, &n, 341)))
        return;
    if (v > STAGES_MAX || n > STAGES_MAX) {
        fail(e, kept->span, 341, "at most %d chunks a rank, and microbatches of a group",
             STAGES_MAX);
        return;
    }
    const char *name = !schedule ? "1f1b" : which == S_TABLE ? "table" : word_of(e, schedule->a);
    l->pipeline = (Pipeline){.axis = (Axes)1 << kept->axis[0],
                             .dim = dim,
                             .schedule = name_intern(e->names, name),
                             .table = which == S_TABLE ? schedule->a->text : NULL,
                             .chunks = (int)v,
                             .group = (int)n,
                             .pairs = pairs_of(e, option(e, options, "pairs")),
                             .span = kept->span};
    const Node *cut = option(e, options, "stages");
    if (cut)
        read_cut(e, cut->a, &l->pipeline);
}

/* The longest one: the iterations before it are computed by the first stage, those after it by the
 * last one. */
void stages_of_kinds(Elab *e)
{
    Layout *l = &e->module->layout;
    const PartLoop *longest = NULL;
    for (size_t i = 0; i < e->parts.n && l->pipeline.axis; i++) {
        const PartLoop *p = &e->parts.data[i];
        if (p->whole == l->pipeline.dim && (!longest || p->iterations > longest->iterations))
            longest = p;
    }
    for (size_t r = 0; r < l->rules.n && longest; r++)
        if (!l->rules.data[r].of && l->rules.data[r].dim == longest->whole)
            l->rules.data[r].dim = longest->dim;
    if (longest)
        l->pipeline.dim = longest->dim;
}

void check_stages(Elab *e, const Layout *l)
{
    const Pipeline *p = &l->pipeline;
    for (size_t r = 0; r < l->rules.n && p->axis; r++) {
        const LayoutRule *rule = &l->rules.data[r];
        const char *what = rule->of ? class_names[rule->of] : text(e, rule->dim);
        bool here = false;
        for (int k = 0; k < rule->n; k++)
            here |= (p->axis >> rule->axis[k] & 1) != 0;
        if (!here || rule->dim == p->dim)
            continue;
        fail(e, rule->span, 342, "'%s' is split on the axis of a pipeline", what);
        note(e, p->span, "whose stages have different layers");
    }
    if (p->axis && e->module->train.tree) {
        fail(e, p->span, 342, "reduce = tree does not go with a pipeline");
        if (!e->quiet)
            propose_no_tree(e->diag, &e->module->train);
    }
}
