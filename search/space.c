/* space.c - which dims lie on which axes: read off a layout's rules, and by convention where they
 * say nothing; see space.h. */
#include "search/space.h"

#include <string.h>

#include "grammar/words.h"

static const char *const role_names[ROLE_count] = {"pp", "dp", "ep", "cp", "tp"};

/* Names that the shipped models have for what tensor parallelism splits. */
static const char *const tensor_dims[] = {"kv_heads", "heads", "ffn",   "wide",
                                          "inner",    "parts", "vocab", NULL};

typedef struct Reader {
    Space *s;
    const Ast *ast;
    NodeList axes, rules; /* of the template, with its parents' */
    int role[MAX_AXES];   /* of those axes; -1: none, so it has one rank */
} Reader;

static const char *name_of(const Ast *ast, Name n)
{
    return name_str(ast->names, n);
}

const Node *space_layout(const Ast *ast, const char *name)
{
    for (size_t i = 0; i < ast->items.n; i++) {
        const Node *n = ast->items.data[i];
        if (n->kind == N_LAYOUT && !strcmp(n->name ? name_of(ast, n->name) : "default", name))
            return n;
    }
    return NULL;
}

/* ---- the model ------------------------------------------------------------------------------- */

static const Node *model_of(const Ast *ast)
{
    for (size_t i = 0; i < ast->items.n; i++)
        if (ast->items.data[i]->kind == N_MODEL)
            return ast->items.data[i];
    return NULL;
}

static bool is_dim(const Ast *ast, const char *name)
{
    for (size_t i = 0; i < ast->items.n; i++)
        for (size_t k = 0; ast->items.data[i]->kind == N_DIMS && k < ast->items.data[i]->list.n;
             k++)
            if (!strcmp(name_of(ast, ast->items.data[i]->list.data[k]->name), name))
                return true;
    return false;
}

static bool contains_call(const Ast *ast, const Node *n, const char *name)
{
    if (!n)
        return false;
    if (n->kind == N_CALL && !strcmp(name_of(ast, n->name), name))
        return true;
    bool any = contains_call(ast, n->a, name) || contains_call(ast, n->b, name);
    for (size_t i = 0; !any && i < n->list.n; i++)
        any = contains_call(ast, n->list.data[i], name);
    for (size_t i = 0; !any && i < n->more.n; i++)
        any = contains_call(ast, n->more.data[i], name);
    return any;
}

static bool model_calls(const Ast *ast, const char *name)
{
    for (size_t i = 0; i < ast->items.n; i++)
        if ((ast->items.data[i]->kind == N_BLOCK || ast->items.data[i]->kind == N_MODEL) &&
            contains_call(ast, ast->items.data[i], name))
            return true;
    return false;
}

static bool repeats_over(const Ast *ast, const Node *n, const char *dim)
{
    for (size_t i = 0; i < n->more.n; i++)
        if (n->more.data[i]->kind == N_REPEAT && !strcmp(name_of(ast, n->more.data[i]->name), dim))
            return true;
    return false;
}

/* Dims of the inputs, and the first dim that the model repeats over. */
static bool read_model(Reader *r)
{
    const Node *model = model_of(r->ast);
    const Node *input = NULL;
    for (size_t i = 0; model && !input && i < model->list.n; i++)
        if (model->list.data[i]->kind == N_TENSOR && model->list.data[i]->list.n)
            input = model->list.data[i];
    if (!input)
        return false;
    r->s->batch = name_of(r->ast, input->list.data[0]->name);
    r->s->seq = input->list.n > 1 ? name_of(r->ast, input->list.data[1]->name) : NULL;
    for (size_t i = 0; !r->s->layers && i < model->more.n; i++)
        if (model->more.data[i]->kind == N_REPEAT)
            r->s->layers = name_of(r->ast, model->more.data[i]->name);
    if (is_dim(r->ast, "experts"))
        r->s->experts = "experts";
    return true;
}

/* ---- the template ---------------------------------------------------------------------------- */

static const char *source_text(const Reader *r, Span at)
{
    return arena_strndup(r->s->arena, r->ast->text + at.begin, at.end - at.begin);
}

/* A line that all points have, in place of one of that name, but for pads and assertions. */
static void put_setting_line(Reader *r, const Node *n)
{
    const char *name = name_of(r->ast, n->name), *text = source_text(r, n->span);
    const LayoutSetting setting = setting_named(name);
    const bool many = setting == SETTING_pad || setting == SETTING_assert;
    for (size_t i = 0; i < r->s->settings.n; i++) {
        const char *there = r->s->settings.data[i];
        if (many ? strcmp(there, text) : strncmp(there, name, strlen(name)))
            continue;
        r->s->settings.data[i] = text;
        return;
    }
    vec_push(r->s->arena, &r->s->settings, text);
}

/* Settings of the template that are no choice of a search. */
static bool is_in_all_points(LayoutSetting s)
{
    return s == SETTING_pad || s == SETTING_chunk || s == SETTING_optimizer;
}

/* SETTING_count: it is a rule. */
static LayoutSetting setting_of(const Ast *ast, const Node *line)
{
    return line->kind == N_SETTING ? setting_named(name_of(ast, line->name)) : SETTING_count;
}

static void gather_lines(Reader *r, const Node *layout, int depth)
{
    enum { DEEPEST = 16 };
    const Node *parent = layout->a ? space_layout(r->ast, name_of(r->ast, layout->a->name)) : NULL;
    if (parent && depth < DEEPEST)
        gather_lines(r, parent, depth + 1);
    for (size_t i = 0; i < layout->more.n; i++) {
        Node *n = layout->more.data[i];
        if (n->kind == N_RULE)
            vec_push(r->s->arena, &r->rules, n);
        const LayoutSetting setting = setting_of(r->ast, n);
        if (is_in_all_points(setting))
            put_setting_line(r, n);
        if (setting != SETTING_mesh)
            continue;
        for (size_t k = 0; k < n->list.n && r->axes.n < MAX_AXES; k++) {
            size_t at = 0;
            while (at < r->axes.n && r->axes.data[at]->name != n->list.data[k]->name)
                at++;
            if (at == r->axes.n && n->list.data[k]->kind == N_BIND)
                vec_push(r->s->arena, &r->axes, n->list.data[k]);
        }
    }
}

static bool is_class(const char *dim)
{
    for (int k = CLASS_none + 1; k < CLASS_count; k++)
        if (!strcmp(dim, class_names[k]))
            return true;
    return false;
}

static bool has_word(const Reader *r, const Node *axis, AxisOption word)
{
    for (size_t i = 0; i < axis->list.n; i++)
        if (!strcmp(name_of(r->ast, axis->list.data[i]->name), axis_options[word]))
            return true;
    return false;
}

/* By what an axis splits: stages of a repeat; batches alone, or with something else; positions
 * alone; or anything else. */
static int role_of(const Reader *r, const Node *axis)
{
    bool stages = false, batch = false, seq = false, other = false, goes_round = false;
    for (size_t i = 0; i < r->rules.n; i++) {
        const Node *rule = r->rules.data[i];
        const Node *mine = NULL;
        for (size_t k = 0; k < rule->more.n; k++)
            if (rule->more.data[k]->name == axis->name)
                mine = rule->more.data[k];
        for (size_t d = 0; mine && d < rule->list.n; d++) {
            const char *dim = name_of(r->ast, rule->list.data[d]->name);
            if (is_class(dim))
                continue;
            if (has_word(r, mine, AXIS_schedule) || repeats_over(r->ast, model_of(r->ast), dim))
                stages = true;
            else if (!strcmp(dim, r->s->batch))
                batch = true;
            else if (r->s->seq && !strcmp(dim, r->s->seq))
                seq = true;
            else
                other = true;
            goes_round |= has_word(r, mine, AXIS_zigzag) || has_word(r, mine, AXIS_ring) ||
                          has_word(r, mine, AXIS_heads);
        }
    }
    if (stages || batch || seq || other)
        return stages          ? ROLE_pp
               : batch         ? (other ? ROLE_ep : ROLE_dp)
               : seq && !other ? ROLE_cp
               : goes_round    ? -1
                               : ROLE_tp;
    for (int k = 0; k < ROLE_count; k++)
        if (!strcmp(name_of(r->ast, axis->name), role_names[k]))
            return k;
    return -1;
}

/* "ring, zigzag", as it is written; without `once`, which points say. */
static const char *words_of(const Reader *r, const Node *axis)
{
    const char *all = NULL;
    for (size_t i = 0; i < axis->list.n; i++) {
        const char *text = source_text(r, axis->list.data[i]->span);
        if (strcmp(text, axis_options[AXIS_once]))
            all = all ? arena_printf(r->s->arena, "%s, %s", all, text) : text;
    }
    return all;
}

static int role_of_template_axis(const Reader *r, Name axis)
{
    for (size_t i = 0; i < r->axes.n; i++)
        if (r->axes.data[i]->name == axis)
            return r->role[i];
    return -1;
}

/* A rule of the template, but for classes and stages, which points say. */
static void add_template_rule(Reader *r, const Node *n)
{
    Arena *a = r->s->arena;
    SpaceRule rule = {0};
    for (size_t i = 0; i < n->list.n; i++) {
        const char *dim = name_of(r->ast, n->list.data[i]->name);
        if (!is_class(dim))
            rule.dims = rule.dims ? arena_printf(a, "%s, %s", rule.dims, dim) : dim;
    }
    for (size_t i = 0; i < n->more.n; i++) {
        const int role = role_of_template_axis(r, n->more.data[i]->name);
        if (role == ROLE_pp && rule.dims)
            r->s->layers = rule.dims;
        if (role >= 0 && role != ROLE_pp)
            vec_push(a, &rule.axes, (SpaceAxis){(SearchRole)role, words_of(r, n->more.data[i])});
    }
    if (rule.dims && rule.axes.n)
        vec_push(a, &r->s->rules, rule);
}

/* ---- conventions ----------------------------------------------------------------------------- */

static bool has_rule(const Space *s, SearchRole role, const char *dim)
{
    for (size_t i = 0; i < s->rules.n; i++)
        for (size_t k = 0; k < s->rules.data[i].axes.n; k++)
            if (s->rules.data[i].axes.data[k].role == role &&
                (!dim || !strcmp(s->rules.data[i].dims, dim)))
                return true;
    return false;
}

static SpaceRule *find_or_add_rule(Space *s, const char *dim)
{
    for (size_t i = 0; i < s->rules.n; i++)
        if (!strcmp(s->rules.data[i].dims, dim))
            return &s->rules.data[i];
    vec_push(s->arena, &s->rules, (SpaceRule){.dims = dim});
    return &s->rules.data[s->rules.n - 1];
}

/* The last rule is the first: that of experts is before that of batches. */
static void move_last_rule_to_front(Space *s)
{
    const SpaceRule last = s->rules.data[s->rules.n - 1];
    memmove(s->rules.data + 1, s->rules.data, (s->rules.n - 1) * sizeof last);
    s->rules.data[0] = last;
}

/* Rules say dp before ep, so that mesh and rule have one order. */
static void add_to_rule(Space *s, const char *dim, SearchRole role, const char *words)
{
    vec_push(s->arena, &find_or_add_rule(s, dim)->axes, (SpaceAxis){role, words});
}

static void add_conventional_rules(Reader *r)
{
    Space *s = r->s;
    const bool tensors = has_rule(s, ROLE_tp, NULL);
    if (s->experts && !has_rule(s, ROLE_ep, NULL)) {
        add_to_rule(s, s->experts, ROLE_ep, NULL);
        move_last_rule_to_front(s);
        if (!has_rule(s, ROLE_dp, s->batch))
            add_to_rule(s, s->batch, ROLE_dp, NULL);
        add_to_rule(s, s->batch, ROLE_ep, NULL);
    }
    if (!has_rule(s, ROLE_dp, NULL))
        add_to_rule(s, s->batch, ROLE_dp, NULL);
    const char *dims = NULL;
    for (int i = 0; !tensors && tensor_dims[i]; i++)
        if (is_dim(r->ast, tensor_dims[i]))
            dims = dims ? arena_printf(s->arena, "%s, %s", dims, tensor_dims[i]) : tensor_dims[i];
    if (dims)
        add_to_rule(s, dims, ROLE_tp, NULL);
    if (!s->seq)
        return;
    if (!has_rule(s, ROLE_cp, NULL) && !has_rule(s, ROLE_tp, s->seq))
        add_to_rule(s, s->seq, ROLE_cp,
                    model_calls(r->ast, "attention") ? axis_options[AXIS_zigzag] : NULL);
    if (!has_rule(s, ROLE_tp, s->seq) && has_rule(s, ROLE_tp, NULL)) {
        SpaceRule positions = {.dims = s->seq, .optional = true};
        vec_push(s->arena, &positions.axes, (SpaceAxis){ROLE_tp, NULL});
        vec_push(s->arena, &s->rules, positions);
        s->sequence = s->seq;
    }
}

/* Names of axes and their order in the mesh: of those that rules are for. */
static void name_and_order_axes(Reader *r)
{
    Space *s = r->s;
    int n = 0;
    bool taken[ROLE_count] = {false};
    for (size_t i = 0; i < r->axes.n; i++) {
        const int role = r->role[i];
        if (role < 0 || taken[role])
            continue;
        taken[role] = true;
        s->axis[role] = name_of(r->ast, r->axes.data[i]->name);
        s->order[n++] = (SearchRole)role;
    }
    for (int k = 0; k < ROLE_count; k++) {
        int at = n;
        if (taken[k])
            continue;
        while (at > 0 && (int)s->order[at - 1] > k) { /* where the convention has it */
            s->order[at] = s->order[at - 1];
            at--;
        }
        s->order[at] = (SearchRole)k;
        n++;
    }
    for (int k = 0; k < ROLE_count; k++) {
        const bool used = k == ROLE_pp ? s->layers != NULL : has_rule(s, (SearchRole)k, NULL);
        s->axis[k] = !used ? NULL : s->axis[k] ? s->axis[k] : role_names[k];
    }
}

/* Has an axis the word in any rule? */
static bool says(const Reader *r, Name axis, AxisOption word)
{
    for (size_t i = 0; i < r->rules.n; i++)
        for (size_t k = 0; k < r->rules.data[i]->more.n; k++)
            if (r->rules.data[i]->more.data[k]->name == axis &&
                has_word(r, r->rules.data[i]->more.data[k], word))
                return true;
    return false;
}

/* The axis of machines of a template is none of experts: points have it or not. */
static void take_machines(Reader *r)
{
    int of_experts = 0;
    for (size_t i = 0; i < r->axes.n; i++)
        of_experts += r->role[i] == ROLE_ep;
    for (size_t i = 0; i < r->axes.n && of_experts > 1; i++)
        if (r->role[i] == ROLE_ep && says(r, r->axes.data[i]->name, AXIS_once)) {
            r->role[i] = -1;
            r->s->machines = name_of(r->ast, r->axes.data[i]->name);
            return;
        }
}

/* Two axes of one role: the second has one rank, and its places in rules are not there. */
static void keep_first_of_each_role(Reader *r)
{
    bool taken[ROLE_count] = {false};
    for (size_t i = 0; i < r->axes.n; i++) {
        const int role = r->role[i];
        if (role >= 0 && taken[role])
            r->role[i] = -1;
        else if (role >= 0)
            taken[role] = true;
    }
}

/* A name that no axis has, and no dim. */
static void name_machines(Reader *r)
{
    static const char *const names[] = {"node", "machine", "host"};
    Space *s = r->s;
    for (size_t i = 0; i < sizeof names / sizeof *names && s->axis[ROLE_ep] && !s->machines; i++) {
        bool taken = is_dim(r->ast, names[i]);
        for (int k = 0; k < ROLE_count; k++)
            taken |= s->axis[k] && !strcmp(s->axis[k], names[i]);
        s->machines = taken ? NULL : names[i];
    }
}

Space *space_new(Arena *a, const Ast *ast, const Node *from)
{
    Space *s = NEW(a, Space);
    Reader r = {.s = s, .ast = ast};
    s->arena = a;
    if (!read_model(&r))
        return NULL;
    if (from)
        gather_lines(&r, from, 0);
    for (size_t i = 0; i < r.axes.n; i++)
        r.role[i] = role_of(&r, r.axes.data[i]);
    take_machines(&r);
    keep_first_of_each_role(&r);
    for (size_t i = 0; i < r.rules.n; i++)
        add_template_rule(&r, r.rules.data[i]);
    add_conventional_rules(&r);
    name_and_order_axes(&r);
    name_machines(&r);
    return s;
}

/* ---- what is given --------------------------------------------------------------------------- */

static int64_t integer_of(const Node *n)
{
    n = n ? node_bare(n) : NULL;
    return n && n->kind == N_NUMBER && n->number >= 1 && n->number < 1e15 ? (int64_t)n->number : 0;
}

static int role_of_axis(const Space *s, const char *axis)
{
    for (int role = 0; role < ROLE_count; role++)
        if (s->axis[role] && !strcmp(s->axis[role], axis))
            return role;
    return -1;
}

static const Node *take_mesh_sizes(Space *s, const Ast *ast, const Node *mesh)
{
    for (size_t k = 0; k < mesh->list.n; k++) {
        const Node *axis = mesh->list.data[k];
        const int role = axis->kind == N_BIND ? role_of_axis(s, name_of(ast, axis->name)) : -1;
        if (role < 0 || !integer_of(axis->a))
            return axis;
        s->fixed[role] = integer_of(axis->a);
    }
    return NULL;
}

const Node *space_fix(Space *s, const Ast *ast, const Node *layout)
{
    Reader r = {.s = s, .ast = ast};
    const Node *wrong = NULL;
    for (size_t i = 0; i < layout->more.n && !wrong; i++) {
        const Node *n = layout->more.data[i];
        const LayoutSetting setting = setting_of(ast, n);
        if (setting == SETTING_mesh) {
            wrong = take_mesh_sizes(s, ast, n);
        } else if (setting == SETTING_microbatch) {
            s->microbatch = n->list.n ? integer_of(n->list.data[0]) : 0;
            wrong = s->microbatch ? NULL : n;
        } else if (setting == SETTING_recompute) {
            s->recompute = source_text(&r, n->span);
        } else if (setting == SETTING_offload) {
            s->offload = s->offload ? arena_printf(s->arena, "%s\n    %s", s->offload,
                                                   source_text(&r, n->span))
                                    : source_text(&r, n->span);
        } else if (n->kind == N_SETTING && setting != SETTING_device &&
                   setting != SETTING_precision) {
            put_setting_line(&r, n); /* what is no setting is refused where the text is read */
        }
    }
    return wrong;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static int64_t dim_size(const Module *m, const char *dim)
{
    const Name name = dim ? name_find(m->names, dim) : 0;
    for (size_t i = 0; name && i < m->tensors.n; i++)
        for (int k = 0; k < m->tensors.data[i].type.rank; k++)
            if (m->tensors.data[i].type.dims[k].name == name)
                return m->tensors.data[i].type.dims[k].size;
    return 0;
}

void space_sizes(Space *s, const Module *m, const Device *d)
{
    s->nbatch = m->batch.size;
    s->nseq = s->seq ? m->seq.size : 0;
    s->nlayers = dim_size(m, s->cut ? s->cut : s->layers);
    s->nexperts = dim_size(m, s->experts);
    s->node = d->node_ranks > 0 ? d->node_ranks : 1;
}
