/* layout.c - layout blocks: all of a file are checked, the chosen one is applied.
 *
 * A layout that extends another starts from its settings, mesh and rules: a setting replaces, an
 * axis replaces one of that name, a rule is added. One rank is built so far: a chosen layout that
 * needs more is refused, the others are only read. */
#include "grammar/config.h"
#include "grammar/tokens.h"
#include "ir/propose.h"

#include <string.h>

typedef struct Spec {
    const Node *node; /* the layout itself */
    bool chosen;
    NodeList axes; /* BINDs */
    NodeList rules;
    NodeList pads;                                                   /* PADs, or the NAME none */
    NodeList asserts, offloads;                                      /* SETTINGs */
    const Node *device, *microbatch, *recompute, *chunk, *optimizer; /* values */
} Spec;

/* ---- finding ------------------------------------------------------------------------------ */

static const char *layout_name(const Elab *e, const Node *n)
{
    return n->name ? text(e, n->name) : "default";
}

static const Node *find_layout(const Elab *e, const Ast *ast, const char *name)
{
    for (size_t i = 0; ast && i < ast->items.n; i++)
        if (ast->items.data[i]->kind == N_LAYOUT &&
            strcmp(layout_name(e, ast->items.data[i]), name) == 0)
            return ast->items.data[i];
    return NULL;
}

static const char *near_layout(Elab *e, const char *name)
{
    VEC(const char *) near = {0};
    const Ast *files[2] = {e->options->layouts, e->ast};
    for (int f = 0; f < 2; f++)
        for (size_t i = 0; files[f] && i < files[f]->items.n; i++)
            if (files[f]->items.data[i]->kind == N_LAYOUT)
                vec_push(e->arena, &near, layout_name(e, files[f]->items.data[i]));
    return name_nearest(name, near.data, near.n);
}

static const Node *parent_of(Elab *e, const Node *n)
{
    const char *name = text(e, n->a->name);
    const Node *parent = find_layout(e, e->options->layouts, name);
    parent = parent ? parent : find_layout(e, e->ast, name);
    if (parent)
        return parent;
    fail(e, n->a->at, 320, "there is no layout '%s'", name);
    const char *near = near_layout(e, name);
    suggest(e, name, &near, near != NULL);
    return NULL;
}

/* ---- gathering ---------------------------------------------------------------------------- */

static void add_axes(Elab *e, const Node *setting, NodeList *axes)
{
    for (size_t i = 0; i < setting->list.n && !diag_enough(e->diag); i++) {
        Node *axis = setting->list.data[i];
        if (axis->kind != N_BIND) {
            fail(e, axis->span, 302, "a mesh is a list of axes: mesh dp = 1, tp = 1");
            continue;
        }
        for (size_t k = 0; k < i; k++)
            if (setting->list.data[k]->name == axis->name)
                fail(e, axis->at, 302, "axis '%s' is listed twice", text(e, axis->name));
        size_t k = 0;
        while (k < axes->n && axes->data[k]->name != axis->name)
            k++;
        if (k < axes->n)
            axes->data[k] = axis;
        else
            vec_push(e->arena, axes, axis);
        if (axes->n > AXES_MAX) {
            fail(e, axis->at, 302, "a mesh of more than %d axes", AXES_MAX);
            return;
        }
    }
}

static void add_setting(Elab *e, const Node *n, Spec *s)
{
    const Node **const one[SETTING_count] = {[SETTING_device] = &s->device,
                                             [SETTING_microbatch] = &s->microbatch,
                                             [SETTING_recompute] = &s->recompute,
                                             [SETTING_chunk] = &s->chunk,
                                             [SETTING_optimizer] = &s->optimizer};
    NodeList *const many[SETTING_count] = {
        [SETTING_assert] = &s->asserts, [SETTING_pad] = &s->pads};
    const int which = config_choice(e, &(Node){.kind = N_NAME, .name = n->name, .at = n->at},
                                    "setting", setting_names, 301);
    if (which < 0)
        return;
    if (one[which])
        *one[which] = config_value(e, n);
    else if (which == SETTING_mesh)
        add_axes(e, n, &s->axes);
    else if (which == SETTING_offload)
        vec_push(e->arena, &s->offloads, (Node *)n);
    else if (which == SETTING_precision)
        check_precisions(e, n, !strcmp(layout_name(e, s->node), "auto"));
    if (which != SETTING_offload && n->more.n)
        fail(e, n->more.data[0]->span, 302, "'%s' takes no '->'", setting_names[which]);
    for (size_t i = 0; many[which] && i < n->list.n; i++)
        vec_push(e->arena, many[which], n->list.data[i]);
}

static void set_twice(Elab *e, const Node *layout, size_t i)
{
    const Node *n = layout->more.data[i];
    const char *name = text(e, n->name);
    const LayoutSetting is = setting_named(name);
    if (is == SETTING_assert || is == SETTING_pad || is == SETTING_offload)
        return;
    for (size_t k = 0; k < i; k++)
        if (layout->more.data[k]->kind == N_SETTING && layout->more.data[k]->name == n->name) {
            fail(e, n->at, 302, "'%s' is set twice", name);
            note(e, layout->more.data[k]->at, "here first");
        }
}

static bool gather(Elab *e, const Node *n, Spec *s, int depth)
{
    enum { DEEPEST = 16 };
    if (depth > DEEPEST) {
        if (!e->circle)
            fail(e, n->at, 321, "layout '%s' extends itself, or more than %d others",
                 layout_name(e, n), DEEPEST);
        e->circle = true;
        return false;
    }
    const Node *parent = n->a ? parent_of(e, n) : NULL;
    if (n->a && (!parent || !gather(e, parent, s, depth + 1)))
        return false;
    for (size_t i = 0; i < n->more.n && !diag_enough(e->diag); i++) {
        if (n->more.data[i]->kind == N_RULE) {
            vec_push(e->arena, &s->rules, n->more.data[i]);
            continue;
        }
        set_twice(e, n, i);
        add_setting(e, n->more.data[i], s);
    }
    return true;
}

/* ---- mesh and rules ----------------------------------------------------------------------- */

static TensorClass class_of(const Elab *e, Name name)
{
    for (int i = CLASS_none + 1; i < CLASS_count; i++)
        if (strcmp(class_names[i], text(e, name)) == 0)
            return (TensorClass)i;
    return CLASS_none;
}

/* Axes of one rank are as if they were not there. */
static void check_axes(Elab *e, const Spec *s, Layout *l)
{
    for (size_t i = 0; i < s->axes.n; i++) {
        const Node *axis = s->axes.data[i];
        const Node *given = take_override(e, axis->name);
        const Sym *same = map_find(&e->globals, axis->name);
        int64_t size;
        if (same) {
            fail(e, axis->at, 202, "'%s' is the name of a %s already", text(e, axis->name),
                 same->kind == SYM_DIM ? "dim" : "constant");
            note(e, same->span, "declared here");
            help(e, "dims, axes, constants, parameters and values share one namespace");
            continue;
        }
        if (!config_integer(e, given ? given : axis->a, 1, &size, 303) || !s->chosen || size == 1)
            continue;
        if (size > RANKS_MAX) {
            fail(e, given ? given->span : axis->span, 303, "axis '%s' is %lld, and at most %d",
                 text(e, axis->name), (long long)size, RANKS_MAX);
            continue;
        }
        Axis a = {.name = axis->name, .size = size, .span = given ? given->span : axis->span};
        vec_push(e->arena, &l->mesh, a);
    }
}

/* The rules of the chosen layout, of what is more than one rank. */
static void keep_rules(Elab *e, const Spec *s, Layout *l)
{
    l->ruled = s->rules.n > 0;
    for (size_t r = 0; r < s->rules.n; r++) {
        const Node *n = s->rules.data[r];
        for (size_t d = 0; d < n->list.n; d++) {
            LayoutRule rule = {.dim = n->list.data[d]->name, .span = n->list.data[d]->at};
            rule.of = class_of(e, rule.dim);
            if (rule.of)
                rule.dim = 0;
            for (size_t k = 0; k < n->more.n; k++)
                for (size_t a = 0; a < l->mesh.n; a++) {
                    if (l->mesh.data[a].name != n->more.data[k]->name || rule.n == MAX_AXES)
                        continue;
                    const NodeList *options = &n->more.data[k]->list;
                    rule.axis[rule.n++] = (uint8_t)a;
                    for (size_t o = 0; o < options->n; o++)
                        read_axis_word(e, options->data[o], (Axes)1 << a, &rule);
                }
            if (!rule.n) {
                warn_of_pairs(e, n);
                continue;
            }
            vec_push(e->arena, &l->rules, rule);
            read_stages(e, n, rule.dim, &rule, l);
        }
    }
}

/* Place of an axis in the mesh; -1: it is not there. */
static int axis_place(const Spec *s, Name name)
{
    for (size_t i = 0; i < s->axes.n; i++)
        if (s->axes.data[i]->name == name)
            return (int)i;
    return -1;
}

static void check_rule_dim(Elab *e, const Node *n)
{
    const Sym *s = map_find(&e->globals, n->name);
    if (class_of(e, n->name) || (s && s->kind == SYM_DIM))
        return;
    fail(e, n->at, 322, "a rule for '%s', which is neither a dim nor a class of tensors",
         text(e, n->name));
    VEC(const char *) near = {0};
    for (size_t i = 0; i < e->global_order.n; i++)
        if (e->global_order.data[i]->kind == SYM_DIM)
            vec_push(e->arena, &near, text(e, e->global_order.data[i]->name));
    for (int i = CLASS_none + 1; i < CLASS_count; i++)
        vec_push(e->arena, &near, class_names[i]);
    suggest(e, text(e, n->name), near.data, near.n);
}

/* Of a rule's axes the outer ones of the mesh come first, but for the last one of the batch alone,
 * which no stored tensor has. */
static void check_order(Elab *e, const Spec *s, const Node *rule)
{
    const bool batch = rule->list.n == 1 && rule->list.data[0]->name == e->batch;
    for (size_t i = 1; i + batch < rule->more.n; i++) {
        const Node *a = rule->more.data[i - 1], *b = rule->more.data[i];
        if (axis_place(s, b->name) < 0 || axis_place(s, a->name) <= axis_place(s, b->name))
            continue;
        fail(e, b->at, 339, "a rule names '%s' before '%s', and the mesh has '%s' before '%s'",
             text(e, a->name), text(e, b->name), text(e, b->name), text(e, a->name));
        const Remedy swap = {
            2, {{a->span, source_text(e, b->span)}, {b->span, source_text(e, a->span)}}};
        remedies(e, &swap, "%s -> %s, %s", text(e, rule->list.data[0]->name), text(e, b->name),
                 text(e, a->name));
        return;
    }
}

static void check_axis(Elab *e, const Spec *s, const Node *rule, size_t nth)
{
    const Node *n = rule->more.data[nth];
    if (axis_place(s, n->name) < 0) {
        VEC(const char *) near = {0};
        for (size_t i = 0; i < s->axes.n; i++)
            vec_push(e->arena, &near, text(e, s->axes.data[i]->name));
        fail(e, n->at, 323, "the mesh has no axis '%s'", text(e, n->name));
        suggest(e, text(e, n->name), near.data, near.n);
        const char *all = "";
        for (size_t i = 0; i < near.n && i < 8; i++)
            all = arena_printf(e->arena, "%s%s%s", all, i ? ", " : "", near.data[i]);
        if (near.n)
            help(e, "the mesh has %s%s", all, near.n > 8 ? ", ..." : "");
    }
    for (size_t i = 0; i < nth; i++)
        if (rule->more.data[i]->name == n->name)
            fail(e, n->at, 323, "axis '%s' is named twice by one rule", text(e, n->name));
    check_axis_options(e, n);
}

/* state, then grads, then params: each class is split on an axis only with those before it. */
static void check_classes(Elab *e, const Spec *s)
{
    for (size_t a = 0; a < s->axes.n; a++) {
        const Node *seen[CLASS_count] = {NULL};
        for (size_t r = 0; r < s->rules.n; r++) {
            const Node *rule = s->rules.data[r];
            bool here = false;
            for (size_t i = 0; i < rule->more.n; i++)
                here |= rule->more.data[i]->name == s->axes.data[a]->name;
            for (size_t i = 0; here && i < rule->list.n; i++)
                seen[class_of(e, rule->list.data[i]->name)] = rule->list.data[i];
        }
        for (int c = CLASS_params; c > CLASS_state; c--)
            if (seen[c] && !seen[c - 1]) {
                fail(e, seen[c]->at, 325, "'%s' is split on '%s' and '%s' is not", class_names[c],
                     text(e, s->axes.data[a]->name), class_names[c - 1]);
                const char *lacks = "";
                for (int k = c - 1; k > CLASS_none && !seen[k]; k--)
                    lacks = arena_printf(e->arena, "%s, %s", class_names[k], lacks);
                Span before = {seen[c]->at.file, seen[c]->at.begin, seen[c]->at.begin};
                remedy(e, before, lacks, "%s%s -> %s", lacks, class_names[c],
                       text(e, s->axes.data[a]->name));
                break;
            }
    }
}

static void check_rules(Elab *e, const Spec *s)
{
    for (size_t r = 0; r < s->rules.n; r++) {
        const Node *rule = s->rules.data[r];
        for (size_t i = 0; i < rule->list.n; i++)
            check_rule_dim(e, rule->list.data[i]);
        for (size_t i = 0; i < rule->more.n; i++)
            check_axis(e, s, rule, i);
        check_order(e, s, rule);
    }
    check_classes(e, s);
}

/* ---- settings ----------------------------------------------------------------------------- */

const char *const mg_devices[] = {
    "cpu",      "cpus", "a100",    "h100",    "h200",      "b200",    "gb200",      "gh200",
    "h100_nvl", "l40s", "rtx3090", "rtx4090", "rtx5060ti", "rtx5090", "rtxpro6000", NULL};

static void device(Elab *e, const Spec *s, Layout *l)
{
    const Node *n = s->device;
    int64_t count = 1;
    if (n && n->kind == N_TIMES) {
        config_integer(e, n->b, 1, &count, 303);
        n = n->a;
    }
    int which = n ? config_choice(e, n, "device", mg_devices, 307) : 0;
    const char *name = which < 0 ? "cpu" : mg_devices[which];
    if (s->chosen && e->options->device)
        name = e->options->device;
    l->device = name_intern(e->names, name);
    if (!s->chosen || which < 0)
        return;
    const Module over = {.layout = *l};
    int64_t ranks = mesh_ranks(&over);
    if (count == ranks || !n || s->device->kind != N_TIMES || e->options->device)
        return;
    fail(e, s->device->span, 334, "%lld devices, and a mesh of %lld rank%s", (long long)count,
         (long long)ranks, ranks == 1 ? "" : "s");
    remedy(e, s->device->b->span, arena_printf(e->arena, "%lld", (long long)ranks),
           "device %s x %lld", name, (long long)ranks);
}

static void microbatch(Elab *e, const Spec *s, Layout *l)
{
    const Module over = {.layout = *l, .batch = e->module->batch, .names = e->names};
    int64_t ranks = mesh_batch_ranks(&over), all = e->module->batch.size;
    int64_t batch = all / ranks, given = s->chosen ? e->options->microbatch : 0;
    Span at = given || !s->microbatch ? (Span){0} : s->microbatch->span;
    l->microbatch = batch;
    l->microbatch_span = at;
    if (s->microbatch && !config_integer(e, s->microbatch, 1, &l->microbatch, 303))
        return;
    if (given)
        l->microbatch = given;
    if (e->options->sequences) { /* its batch is texts (generates.c) */
        l->microbatch = 1;
        return;
    }
    if (s->chosen && all % ranks) {
        fail(e, s->node->span, 332, "'%s' of %lld is not split evenly on %lld ranks",
             text(e, e->module->batch.name), (long long)all, (long long)ranks);
        if (!e->quiet)
            propose_ranks(e->diag, &over, mesh_batch_axes(&over), all, 1);
        remedy_option(e, "-D %s=%lld", text(e, e->module->batch.name),
                      (long long)((all + ranks - 1) / ranks * ranks));
        l->microbatch = 1;
        return;
    }
    if (!s->chosen || !batch || batch % l->microbatch == 0)
        return;
    if (l->microbatch > batch) {
        warn(e, at, 331, "microbatch %lld is more than '%s': all %lld are computed at once",
             (long long)l->microbatch, text(e, e->module->batch.name), (long long)batch);
        l->microbatch = batch;
        return;
    }
    int64_t legal = l->microbatch;
    while (batch % legal)
        legal--;
    fail(e, at, 326, "microbatch %lld does not divide '%s', which is %lld",
         (long long)l->microbatch, text(e, e->module->batch.name), (long long)batch);
    note(e, dim_info(e, e->module->batch.name)->span, "'%s' is declared here",
         text(e, e->module->batch.name));
    if (!e->quiet)
        propose_microbatch(e->diag, l, legal);
}

static double unit_bytes(const char *unit)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"B", 1},
                 {"kB", 1e3},
                 {"KB", 1e3},
                 {"MB", 1e6},
                 {"GB", 1e9},
                 {"TB", 1e12},
                 {"KiB", 1024.0},
                 {"MiB", 1048576.0},
                 {"GiB", 1073741824.0},
                 {"TiB", 1099511627776.0}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, unit) == 0)
            return units[i].bytes;
    return 0;
}

const char *const mg_quantities[] = {"peak", "exposed_comm", "step", "host", "disk", NULL};

static void assertion(Elab *e, const Node *n, Layout *l)
{
    enum { PEAK, EXPOSED, STEP, HOST, DISK };
    static const char *const examples[] = {"peak < 76 GB", "exposed_comm < 10%", "step < 500 ms",
                                           "host < 60 GB", "disk < 500 GB"};
    if (n->kind != N_BINARY || (n->op != B_LT && n->op != B_LE)) {
        fail(e, n->span, 327, "an assertion bounds a quantity from above");
        help(e, "assert peak < 76 GB");
        return;
    }
    int which = config_choice(e, n->a, "quantity", mg_quantities, 327);
    if (which < 0)
        return;
    bool fraction = n->b->kind == N_QUANTITY && strcmp(n->b->unit, "%") == 0;
    bool size = n->b->kind == N_QUANTITY && unit_bytes(n->b->unit) > 0;
    bool time = n->b->kind == N_QUANTITY && !fraction && !size;
    if (which == EXPOSED ? !fraction : which == STEP ? !time : !size) {
        fail(e, n->b->span, 328, "'%s' is bounded by a %s", mg_quantities[which],
             which == EXPOSED ? "percentage"
             : which == STEP  ? "time"
                              : "number of bytes");
        help(e, "assert %s", examples[which]);
    } else if (which == PEAK) {
        l->assert_peak = n->b->number * unit_bytes(n->b->unit);
        l->assert_span = n->span;
    } else if (which == HOST || which == DISK) {
        const Level level = which == HOST ? LEVEL_host : LEVEL_disk;
        l->assert_level[level] = n->b->number * unit_bytes(n->b->unit);
        l->assert_level_span[level] = n->span;
    } else if (which == STEP) {
        const char *unit = n->b->unit;
        l->assert_step = n->b->number * (!strcmp(unit, "us")   ? 1e-6
                                         : !strcmp(unit, "ms") ? 1e-3
                                                               : 1);
        l->assert_step_span = n->span;
    } else {
        l->assert_exposed = n->b->number / 100;
        l->assert_exposed_span = n->span;
    }
}

/* `keep [q, gate]`: that there are such values is seen when there is a program (recompute.c). */
static void kept_names(Elab *e, const Node *list, Layout *l)
{
    for (size_t i = 0; i < list->list.n; i++) {
        const Node *n = list->list.data[i];
        if (n->kind == N_NAME)
            vec_push(e->arena, &l->keep, ((KeptName){n->name, n->span}));
        else
            fail(e, n->span, 307, "this is not the name of a value");
    }
}

const char *const mg_recomputes[] = {"auto", "none", "all", "keep", NULL};

static void recompute(Elab *e, const Spec *s, Layout *l)
{
    const Node *value = s->recompute, *list = NULL;
    if (value && value->kind == N_INDEX) {
        list = value;
        value = value->a;
    }
    int which = value ? config_choice(e, value, "way to recompute", mg_recomputes, 307) : 0;
    if (which < 0)
        return;
    if ((which == RECOMPUTE_keep) != (list != NULL)) {
        fail(e, value->span, 307, list ? "'%s' takes no names" : "'%s' takes names of values",
             mg_recomputes[which]);
        help(e, "recompute keep [q, gate]");
        return;
    }
    if (list)
        kept_names(e, list, l);
    if (s->chosen && e->options->recompute) {
        for (which = 0; strcmp(mg_recomputes[which], e->options->recompute) != 0;)
            which++;
        l->keep.n = 0;
    }
    l->recompute = (Recompute)which;
}

/* ---- all of them -------------------------------------------------------------------------- */

static void check_layout(Elab *e, const Node *n, bool chosen, NodeList *axes)
{
    Spec s = {.node = n, .chosen = chosen};
    Layout l = {.name = name_intern(e->names, layout_name(e, n))};
    if (!gather(e, n, &s, 0))
        return;
    check_axes(e, &s, &l);
    check_rules(e, &s);
    if (chosen) {
        keep_rules(e, &s, &l);
        check_stages(e, &l);
    }
    device(e, &s, &l);
    microbatch(e, &s, &l);
    if (s.chunk)
        config_integer(e, s.chunk, 1, &l.chunk, 303);
    if (chosen)
        check_tree(e, &l, s.microbatch ? s.microbatch->span : s.node->span);
    recompute(e, &s, &l);
    for (size_t i = 0; i < s.offloads.n; i++)
        layout_offload(e, s.offloads.data[i], &l);
    if (chosen && e->options->offload)
        override_offload(e, &l);
    layout_optimizer(e, s.optimizer, chosen, &l);
    for (size_t i = 0; i < s.asserts.n; i++)
        assertion(e, s.asserts.data[i], &l);
    read_pads(e, &s.pads, chosen);
    if (!chosen)
        return;
    e->module->layout = l;
    *axes = s.axes;
}

static void check_others(Elab *e, const Ast *ast, const Node *chosen)
{
    NodeList axes;
    for (size_t i = 0; ast && i < ast->items.n; i++) {
        const Node *n = ast->items.data[i];
        if (n->kind != N_LAYOUT)
            continue;
        const Node *first = find_layout(e, ast, layout_name(e, n));
        if (first != n) {
            fail(e, n->at, 320, "a second layout '%s'", layout_name(e, n));
            note(e, first->at, "the first one");
        } else if (n != chosen) {
            check_layout(e, n, false, &axes);
        }
    }
}

static const Node *choose(Elab *e)
{
    const char *name = e->options->layout;
    const Node *n = find_layout(e, e->options->layouts, name ? name : "default");
    for (size_t i = 0; !name && !n && e->options->layouts && i < e->options->layouts->items.n; i++)
        if (e->options->layouts->items.data[i]->kind == N_LAYOUT)
            n = e->options->layouts->items.data[i];
    n = n ? n : find_layout(e, e->ast, name ? name : "default");
    if (!n && name) {
        fail(e, (Span){0}, 320, "there is no layout '%s'", name);
        const char *near = near_layout(e, name);
        if (near)
            remedies(e, &(Remedy){1, {{{0}, arena_printf(e->arena, "--layout %s", near)}}},
                     "did you mean '%s'?", near);
    }
    return n;
}

static bool too_many(Elab *e, const Ast *ast)
{
    int n = 0;
    for (size_t i = 0; ast && i < ast->items.n; i++)
        if (ast->items.data[i]->kind == N_LAYOUT && ++n > LAYOUTS_MAX) {
            fail(e, ast->items.data[i]->at, 320, "more than %d layouts", LAYOUTS_MAX);
            return true;
        }
    return false;
}

void read_layout(Elab *e)
{
    static const Node plain = {.kind = N_LAYOUT};
    if (too_many(e, e->ast) || too_many(e, e->options->layouts))
        return;
    const Node *chosen = choose(e);
    NodeList axes = {0};
    check_layout(e, chosen ? chosen : &plain, true, &axes);
    check_others(e, e->options->layouts, chosen);
    check_others(e, e->ast, chosen);
    check_overrides(e, &axes);
}
