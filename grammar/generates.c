/* generates.c - the layout of a program that generates text, or learns what it generates.
 *
 * Texts lie over the axes of the batch, all else by its rules. A token is one position, so nothing
 * is split along the sequence: where an axis that other rules use splits it, too (`seq -> tp`),
 * that rule is left out; an axis that is for positions alone, or for stages of layers, through
 * which a token would go one after the other, is refused. Rows of experts are sent without a bound:
 * whom it drops depends on how many positions are computed at once.
 *
 * A program with rollouts keeps these rules for its steps; the functions that generate compute
 * fewer positions than a window has, and so are split by none of them.
 *
 * Texts of a group begin with one prompt, which is read once where they lie on one rank. A rank's
 * texts are consecutive, so groups of the greatest common divisor of a group and a rank's texts
 * each lie on one rank: a group over two ranks has its prompt read on both. */
#include "grammar/elab.h"

static const char *axis_name(Elab *e, int axis)
{
    return text(e, e->module->layout.mesh.data[axis].name);
}

/* Is the axis one of a rule for something else than positions? */
static bool used_otherwise(const Module *m, int axis)
{
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        for (int k = 0; k < rule->n && rule->dim != m->seq.name; k++)
            if (rule->axis[k] == axis)
                return true;
    }
    return false;
}

/* The code of a program that only generates, or of one with rollouts. */
static int either(const Elab *e, int generates, int rolls)
{
    return e->options->sequences ? generates : rolls;
}

static void refuse_positions(Elab *e, const LayoutRule *rule, int axis)
{
    fail(e, rule->span, either(e, 537, 597),
         "a token is one position, and '%s' of %lld splits positions alone", axis_name(e, axis),
         (long long)e->module->layout.mesh.data[axis].size);
    remedy_option(e, "-D %s=1", axis_name(e, axis));
    help(e,
         "ranks that share a text split its heads, ffn and vocab; others have texts of their own%s",
         e->options->sequences ? " (--sequences)" : "");
}

static void refuse_stages(Elab *e)
{
    const Pipeline *p = &e->module->layout.pipeline;
    for (int a = 0; a < (int)e->module->layout.mesh.n; a++) {
        if (!(p->axis >> a & 1))
            continue;
        fail(e, p->span, either(e, 537, 597),
             "a token would go through %lld stages of '%s' one after the other, and all but one "
             "would wait",
             (long long)e->module->layout.mesh.data[a].size, text(e, p->dim));
        remedy_option(e, "-D %s=1", axis_name(e, a));
        help(e, "ranks that split heads, ffn and vocab have as little of the parameters each");
    }
}

/* Tells of axes that are for positions alone. */
static void look_at_positions(Elab *e)
{
    const Module *m = e->module;
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule rule = m->layout.rules.data[r];
        for (int k = 0; k < rule.n && rule.dim == m->seq.name; k++)
            if (!used_otherwise(m, rule.axis[k]))
                refuse_positions(e, &rule, rule.axis[k]);
    }
}

/* Without the rules of positions, and bounds. */
static void leave_out_positions(Elab *e)
{
    Module *m = e->module;
    size_t kept = 0;
    for (size_t r = 0; r < m->layout.rules.n; r++)
        if (m->layout.rules.data[r].dim != m->seq.name)
            m->layout.rules.data[kept++] = m->layout.rules.data[r];
    m->layout.rules.n = kept;
    for (size_t r = 0; r < kept; r++)
        m->layout.rules.data[r].bound = 0;
}

/* Ranks that have texts of their own, each as many. */
static int64_t text_ranks(const Module *m)
{
    const Dim texts = {.name = m->batch.name, .size = INT32_MAX};
    const bool fixed = false;
    Axes axes;
    mesh_walk(m, &texts, 1, &fixed, &axes);
    return mesh_size(m, axes);
}

int64_t texts_of_prompt(const Elab *e)
{
    const Module *m = e->module;
    int64_t group = e->options->sequences ? e->options->group : m->train.rollout.size;
    int64_t each = group ? e->texts / text_ranks(m) : 0;
    while (each) {
        const int64_t rest = group % each;
        group = each;
        each = rest;
    }
    return group > 1 ? group : 0;
}

static void share_texts(Elab *e)
{
    const int64_t ranks = text_ranks(e->module), given = e->options->sequences,
                  group = e->options->group ? e->options->group : 1;
    e->texts = given > 0 ? given : ranks * group;
    if (e->texts % ranks == 0 && e->texts / ranks % group) {
        const int64_t all = ranks * group;
        fail(e, (Span){0}, 600,
             "--sequences %lld are %lld on each of %lld ranks, and --choices %lld of a rank begin "
             "with one "
             "prompt",
             (long long)given, (long long)(given / ranks), (long long)ranks, (long long)group);
        remedy_option(e, "--sequences %lld", (long long)((given + all - 1) / all * all));
        return;
    }
    if (e->texts % ranks == 0) { /* the batch, all at once */
        e->module->batch.size = e->texts;
        e->module->layout.microbatch = e->texts / ranks;
        return;
    }
    fail(e, (Span){0}, 293,
         "--sequences %lld, and '%s' is split on %lld ranks: each has as many texts",
         (long long)given, text(e, e->module->batch.name), (long long)ranks);
    remedy_option(e, "--sequences %lld", (long long)((given + ranks - 1) / ranks * ranks));
}

bool layout_rolls_out(Elab *e)
{
    Rollout *o = &e->module->train.rollout;
    const int errors = diag_errors(e->diag);
    refuse_stages(e);
    look_at_positions(e);
    const int64_t ranks = text_ranks(e->module), more = (o->texts + ranks - 1) / ranks * ranks;
    if (diag_errors(e->diag) != errors || o->texts % ranks == 0)
        return diag_errors(e->diag) == errors;
    fail(e, o->span, 594, "%lld texts are generated at once, and '%s' is split on %lld ranks",
         (long long)o->texts, text(e, e->module->batch.name), (long long)ranks);
    help(e,
         e->module->batch.size % more ? "leave `texts` out: then all of a step are"
                                      : "texts = %lld, or leave it out: then all of a step are",
         (long long)more);
    return false;
}

/* Fewer positions are computed at once than a window has, where the layout splits these: dims of
 * another size are not split (mesh_walk). */
int64_t most_prefilled(const Module *m, int64_t positions)
{
    bool split = false;
    for (size_t r = 0; r < m->layout.rules.n; r++)
        split |= m->layout.rules.data[r].dim == m->seq.name && m->layout.rules.data[r].n;
    return split && positions >= m->seq.size && m->seq.size > 1 ? m->seq.size - 1 : positions;
}

bool layout_generates(Elab *e)
{
    const int errors = diag_errors(e->diag);
    refuse_stages(e);
    look_at_positions(e);
    leave_out_positions(e);
    if (diag_errors(e->diag) == errors)
        share_texts(e);
    return diag_errors(e->diag) == errors;
}
