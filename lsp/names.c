/* names.c - declarations and occurrences of names; see names.h.
 *
 * Names of dims, axes, constants, values, parameters and instances are of one space, in which a
 * block's own and the file's exclude each other; blocks, optimizers, settings of optimizers and
 * layouts have spaces of their own. */
#include "lsp/names.h"

#include <stdlib.h>
#include <string.h>

typedef enum Space { SPACE_value, SPACE_block, SPACE_optimizer, SPACE_setting, SPACE_layout } Space;

typedef struct Walk {
    Index *x;
    const Node *owner;
    const Node *model; /* of the file */
} Walk;

const char *decl_kind_name(DeclKind k)
{
    static const char *const names[] = {"dim",       "constant",  "mesh axis", "value", "option",
                                        "flag",      "parameter", "instance",  "block", "model",
                                        "optimizer", "setting",   "state",     "layout"};
    return names[k];
}

const char *index_text(const Index *x, Name n)
{
    return name_str(x->names, n);
}

/* ---- declarations -------------------------------------------------------------------------- */

static Space space_of(DeclKind k)
{
    return k == DECL_block || k == DECL_model ? SPACE_block
           : k == DECL_optimizer              ? SPACE_optimizer
           : k == DECL_setting                ? SPACE_setting
           : k == DECL_layout                 ? SPACE_layout
                                              : SPACE_value;
}

/* The slot of a table of open addresses in which a declaration is, or would be. */
static size_t slot_of(const Index *x, Space s, const Node *owner, Name name)
{
    size_t i = (name * 2654435769u) ^ ((uintptr_t)owner >> 4) * 40503u ^ (uint32_t)s;
    for (i &= x->nslots - 1; x->slots[i]; i = (i + 1) & (x->nslots - 1)) {
        const Decl *d = &x->decls.data[x->slots[i] - 1];
        if (d->name == name && d->owner == owner && space_of(d->kind) == s)
            break;
    }
    return i;
}

static int find_in(const Index *x, Space s, const Node *owner, Name name)
{
    return x->nslots ? (int)x->slots[slot_of(x, s, owner, name)] - 1 : -1;
}

/* Makes room for one more. */
static void grow(Index *x)
{
    if (x->decls.n * 2 < x->nslots)
        return;
    x->nslots = x->nslots ? x->nslots * 2 : 64;
    x->slots = NEW_ARRAY(x->arena, uint32_t, x->nslots);
    for (size_t i = 0; i < x->decls.n; i++) {
        const Decl *d = &x->decls.data[i];
        x->slots[slot_of(x, space_of(d->kind), d->owner, d->name)] = (uint32_t)i + 1;
    }
}

int index_find(const Index *x, DeclKind kind, const Node *owner, Name name)
{
    const Space s = space_of(kind);
    const int mine = owner ? find_in(x, s, owner, name) : -1;
    return mine >= 0 ? mine : find_in(x, s, NULL, name);
}

static void occurs(Walk *w, Span at, Name name, int decl, bool write)
{
    vec_push(w->x->arena, &w->x->occurrences, (Occurrence){at, name, decl, write});
}

/* Declares a name where it is new; it stands there in any case. */
static void declare(Walk *w, DeclKind kind, const Node *owner, Name name, Span at, const Node *node)
{
    int d = find_in(w->x, space_of(kind), owner, name);
    if (d < 0 && owner && space_of(kind) == SPACE_value && kind == DECL_value)
        d = find_in(w->x, SPACE_value, NULL, name); /* which is an error, and no second name */
    if (d < 0) {
        grow(w->x);
        d = (int)w->x->decls.n;
        w->x->slots[slot_of(w->x, space_of(kind), owner, name)] = (uint32_t)d + 1;
        vec_push(w->x->arena, &w->x->decls, (Decl){kind, name, at, node, owner});
    }
    occurs(w, at, name, d, true);
}

/* The setting that a rule reads by its name; -1: it has none of that name. */
static int setting_of(const Walk *w, Name name)
{
    for (size_t i = 0; w->owner && w->owner->kind == N_OPTIMIZER && i < w->owner->list.n; i++)
        if (w->owner->list.data[i]->name == name)
            return find_in(w->x, SPACE_setting, NULL, name);
    return -1;
}

/* A use; names that are nowhere declared are none. */
static void use(Walk *w, DeclKind kind, Span at, Name name)
{
    const int setting = setting_of(w, name);
    const int d = setting >= 0 ? setting : index_find(w->x, kind, w->owner, name);
    if (d >= 0)
        occurs(w, at, name, d, false);
}

static void use_node(Walk *w, const Node *n)
{
    if (n && n->kind == N_NAME)
        use(w, DECL_value, n->at, n->name);
}

static void use_list(Walk *w, const NodeList *l)
{
    for (size_t i = 0; i < l->n; i++)
        use_node(w, l->data[i]);
}

/* ---- expressions --------------------------------------------------------------------------- */

static void expression(Walk *w, const Node *n);

static void expressions(Walk *w, const NodeList *l)
{
    for (size_t i = 0; i < l->n; i++)
        expression(w, l->data[i]);
}

/* The block that a call is of; NULL: one of the language, or none. */
static const Node *called(const Walk *w, const Node *call)
{
    int d = w->owner ? find_in(w->x, SPACE_value, w->owner, call->name) : -1;
    Name block = call->name;
    if (d >= 0 && w->x->decls.data[d].kind == DECL_instance)
        block = w->x->decls.data[d].node->a ? w->x->decls.data[d].node->a->name : 0;
    d = find_in(w->x, SPACE_block, NULL, block);
    return d >= 0 ? w->x->decls.data[d].node : NULL;
}

/* The option or flag of a block by its name; -1: it has none. */
static int option_of(const Walk *w, const Node *block, Name name)
{
    const int d = block ? find_in(w->x, SPACE_value, block, name) : -1;
    const bool named = d >= 0 && (w->x->decls.data[d].kind == DECL_option ||
                                  w->x->decls.data[d].kind == DECL_flag);
    return named ? d : -1;
}

static void call(Walk *w, const Node *n)
{
    const int instance = w->owner ? find_in(w->x, SPACE_value, w->owner, n->name) : -1;
    const Node *block = called(w, n);
    if (instance >= 0 && w->x->decls.data[instance].kind == DECL_instance)
        occurs(w, n->at, n->name, instance, false);
    else
        occurs(w, n->at, n->name, find_in(w->x, SPACE_block, NULL, n->name), false);
    for (size_t i = 0; i < n->list.n; i++) {
        const Node *arg = n->list.data[i];
        int d = arg->kind == N_NAMED || arg->kind == N_NAME ? option_of(w, block, arg->name) : -1;
        if (arg->kind == N_NAME && d >= 0 && w->x->decls.data[d].kind != DECL_flag)
            d = -1; /* a value that is given by place */
        if (d >= 0)
            occurs(w, arg->at, arg->name, d, false);
        if (arg->kind == N_NAMED || d < 0)
            expression(w, arg);
    }
}

static void expression(Walk *w, const Node *n)
{
    if (!n)
        return;
    if (n->kind == N_NAME) {
        use_node(w, n);
    } else if (n->kind == N_CALL) {
        call(w, n);
    } else {
        if (n->kind == N_PART)
            use(w, DECL_value, n->at, n->name);
        expression(w, n->a);
        expression(w, n->b);
        expressions(w, &n->list);
    }
}

/* ---- blocks -------------------------------------------------------------------------------- */

/* A bare name behind a dim or an option is a flag. */
static bool is_flag(const NodeList *list, size_t i)
{
    const Node *p = list->data[i];
    if (p->kind != N_TENSOR || p->flag || p->a)
        return p->kind == N_FLAG;
    for (size_t k = 0; k < i; k++)
        if (list->data[k]->kind != N_TENSOR)
            return true;
    return false;
}

static DeclKind parameter_kind(const NodeList *list, size_t i)
{
    const NodeKind k = list->data[i]->kind;
    return is_flag(list, i)              ? DECL_flag
           : k == N_ALONG || k == N_OVER ? DECL_dim
           : k == N_OPTION               ? DECL_option
                                         : DECL_value;
}

/* Those of blocks are declared before any body is read, as calls may come before. */
static void declare_parameters(Walk *w, const Node *block)
{
    for (size_t i = 0; i < block->list.n; i++) {
        const Node *p = block->list.data[i];
        if (block->kind == N_OPTIMIZER)
            declare(w, DECL_setting, NULL, p->name, p->at, p);
        else
            declare(w, parameter_kind(&block->list, i), block, p->name, p->at, p);
    }
}

static void read_parameters(Walk *w, const Node *block)
{
    for (size_t i = 0; i < block->list.n; i++) {
        const Node *p = block->list.data[i];
        use_list(w, &p->list);
        if (p->kind == N_OPTION)
            expression(w, p->a);
        else if (p->a && index_find(w->x, DECL_dim, w->owner, p->a->name) < 0)
            declare(w, DECL_dim, w->owner, p->a->name, p->a->at, p);
        else
            use_node(w, p->a);
    }
}

static void statements(Walk *w, const NodeList *list);

static void bindings(Walk *w, const NodeList *list, DeclKind kind)
{
    for (size_t i = 0; i < list->n; i++) {
        expression(w, list->data[i]->a);
        declare(w, kind, w->owner, list->data[i]->name, list->data[i]->at, list->data[i]);
    }
}

static void param(Walk *w, const Node *n)
{
    use_list(w, &n->list);
    expression(w, n->a);
    expression(w, n->b);
    expressions(w, &n->more);
    declare(w, DECL_param, w->owner, n->name, n->at, n);
}

static void states(Walk *w, const Node *n)
{
    for (size_t i = 0; i < n->list.n; i++)
        declare(w, DECL_state, w->owner, n->list.data[i]->name, n->list.data[i]->at,
                n->list.data[i]);
    expression(w, n->a);
}

static void instance(Walk *w, const Node *n)
{
    if (n->a)
        occurs(w, n->a->at, n->a->name, find_in(w->x, SPACE_block, NULL, n->a->name), false);
    if (n->b) {
        use(w, DECL_instance, n->b->at, n->b->name);
        expression(w, n->b->b);
    }
    declare(w, DECL_instance, w->owner, n->name, n->at, n);
}

static void statement(Walk *w, const Node *n)
{
    switch ((int)n->kind) {
    case N_ASSIGN:
    case N_METRIC:
        expression(w, n->a);
        declare(w, DECL_value, w->owner, n->name, n->at, n);
        break;
    case N_SEVERAL:
        expression(w, n->a);
        for (size_t i = 0; i < n->list.n; i++)
            declare(w, DECL_value, w->owner, n->list.data[i]->name, n->list.data[i]->at, n);
        break;
    case N_PARAM:
        param(w, n);
        break;
    case N_INSTANCE:
        instance(w, n);
        break;
    case N_REPEAT:
    case N_SCAN:
        use(w, DECL_dim, n->at, n->name);
        if (n->kind == N_REPEAT && n->a)
            declare(w, DECL_value, w->owner, n->a->name, n->a->at, n);
        statements(w, &n->more);
        break;
    case N_DIMS:
        bindings(w, &n->list, DECL_dim);
        break;
    case N_STATE:
        states(w, n);
        break;
    case N_REST:
        occurs(w, n->at, n->name, find_in(w->x, SPACE_optimizer, NULL, n->name), false);
        break;
    default:
        expressions(w, &n->list);
    }
}

static void statements(Walk *w, const NodeList *list)
{
    for (size_t i = 0; i < list->n; i++)
        statement(w, list->data[i]);
}

/* ---- train and layout ---------------------------------------------------------------------- */

static void optimizer_value(Walk *w, const Node *n)
{
    if (n->kind != N_CALL && n->kind != N_NAME)
        return;
    occurs(w, n->at, n->name, find_in(w->x, SPACE_optimizer, NULL, n->name), false);
    for (size_t i = 0; n->kind == N_CALL && i < n->list.n; i++) {
        const Node *arg = n->list.data[i];
        const int d = arg->kind == N_NAMED ? find_in(w->x, SPACE_setting, NULL, arg->name) : -1;
        if (d >= 0)
            occurs(w, arg->at, arg->name, d, false);
        expression(w, arg->kind == N_NAMED ? arg->a : arg);
        if (arg->kind == N_NAMED)
            expression(w, arg->b);
    }
}

/* The arguments of a word of a setting, which is no name itself: cosine(peak = ...). */
static void word_value(Walk *w, const Node *n)
{
    if (n->kind == N_CALL)
        expressions(w, &n->list);
    else if (n->kind != N_NAME || index_find(w->x, DECL_const, NULL, n->name) >= 0)
        expression(w, n);
}

static void train(Walk *w, const Node *n)
{
    const int loss = n->name && w->model ? find_in(w->x, SPACE_value, w->model, n->name) : -1;
    if (loss >= 0)
        occurs(w, n->at, n->name, loss, false);
    expressions(w, &n->list);
    for (size_t i = 0; i < n->more.n; i++) {
        const Node *s = n->more.data[i];
        const char *name = s->kind == N_SETTING ? index_text(w->x, s->name) : "";
        if (s->kind == N_ADAPTER)
            word_value(w, s->a);
        for (size_t k = 0; s->kind == N_SETTING && k < s->list.n; k++) {
            if (!strcmp(name, "optimizer"))
                optimizer_value(w, s->list.data[k]);
            else
                word_value(w, s->list.data[k]);
        }
        expressions(w, &s->more);
    }
}

/* Values by which a layout names what is kept: of whatever block. */
static void kept(Walk *w, const Node *list)
{
    enum { MANY = 32 };
    for (size_t i = 0; i < list->list.n && i < MANY; i++) {
        const Node *n = list->list.data[i];
        for (size_t k = 0; n->kind == N_NAME && k < w->x->decls.n; k++) {
            const Decl *d = &w->x->decls.data[k];
            if (d->name == n->name && d->owner && (d->kind == DECL_value || d->kind == DECL_param))
                occurs(w, n->at, n->name, (int)k, false);
        }
    }
}

static void axes(Walk *w, const Node *rule)
{
    for (size_t i = 0; i < rule->more.n; i++) {
        const Node *axis = rule->more.data[i];
        use(w, DECL_axis, axis->at, axis->name);
        for (size_t k = 0; k < axis->list.n; k++) {
            const Node *o = axis->list.data[k];
            if (o->kind == N_NAMED && strcmp(index_text(w->x, o->name), "schedule") != 0)
                expression(w, o->a);
        }
    }
}

static void layout_setting(Walk *w, const Node *s)
{
    const char *name = index_text(w->x, s->name);
    for (size_t i = 0; i < s->list.n; i++) {
        const Node *v = s->list.data[i];
        if (v->kind == N_BIND) { /* mesh */
            expression(w, v->a);
            declare(w, DECL_axis, NULL, v->name, v->at, v);
        } else if (v->kind == N_TIMES) {
            expression(w, v->b);
        } else if (v->kind == N_PAD || !strcmp(name, "microbatch") || !strcmp(name, "chunk")) {
            expression(w, v);
        } else if (v->kind == N_INDEX) {
            kept(w, v);
        } else if (v->kind == N_BINARY) { /* assert: a quantity below a number */
            expression(w, v->b);
        }
    }
}

static void layout(Walk *w, const Node *n)
{
    if (n->a)
        use(w, DECL_layout, n->a->at, n->a->name);
    for (size_t i = 0; i < n->more.n; i++)
        if (n->more.data[i]->kind == N_SETTING)
            layout_setting(w, n->more.data[i]);
    for (size_t i = 0; i < n->more.n; i++)
        if (n->more.data[i]->kind == N_RULE) {
            use_list(w, &n->more.data[i]->list);
            axes(w, n->more.data[i]);
        }
}

/* ---- the file ------------------------------------------------------------------------------ */

/* Names that may be used before they are declared. */
static void first_pass(Walk *w, const Node *n)
{
    static const struct {
        NodeKind item;
        DeclKind kind;
    } kinds[] = {{N_BLOCK, DECL_block},
                 {N_MODEL, DECL_model},
                 {N_OPTIMIZER, DECL_optimizer},
                 {N_LAYOUT, DECL_layout}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n->kind == kinds[i].item && n->name)
            declare(w, kinds[i].kind, NULL, n->name, n->at, n);
    if (n->kind == N_DIMS || n->kind == N_CONSTS)
        for (size_t i = 0; i < n->list.n; i++)
            declare(w, n->kind == N_DIMS ? DECL_dim : DECL_const, NULL, n->list.data[i]->name,
                    n->list.data[i]->at, n->list.data[i]);
    if (n->kind == N_BLOCK || n->kind == N_MODEL || n->kind == N_OPTIMIZER)
        declare_parameters(w, n);
    if (n->kind == N_MODEL)
        w->model = n;
}

static void second_pass(Walk *w, const Node *n)
{
    if (n->kind == N_DIMS || n->kind == N_CONSTS) {
        for (size_t i = 0; i < n->list.n; i++)
            expression(w, n->list.data[i]->a);
    } else if (n->kind == N_BLOCK || n->kind == N_MODEL || n->kind == N_OPTIMIZER) {
        w->owner = n;
        if (n->kind == N_OPTIMIZER) { /* its settings are names of values in its rule */
            for (size_t i = 0; i < n->list.n; i++)
                expression(w, n->list.data[i]->a);
        } else {
            read_parameters(w, n);
        }
        statements(w, &n->more);
        w->owner = NULL;
    } else if (n->kind == N_RANGE) {
        declare(w, DECL_setting, NULL, n->name, n->at, n);
    } else if (n->kind == N_CONFIG) {
        for (size_t i = 0; i < n->more.n; i++)
            expression(w, n->more.data[i]->a);
    }
}

/* {layers} in a path is the number of that dim or constant. */
static void names_in_text(Walk *w, Span at)
{
    const char *text = w->x->ast->text;
    w->owner = index_owner(w->x, at.begin);
    for (uint32_t i = at.begin; i < at.end; i++) {
        uint32_t n = 0;
        while (text[i] == '{' && i + 1 + n < at.end && text[i + 1 + n] != '}')
            n++;
        if (!n || i + 1 + n >= at.end)
            continue;
        const Name name = name_intern_n(w->x->names, text + i + 1, n);
        use(w, DECL_dim, (Span){at.file, i + 1, i + 1 + n}, name);
        i += n;
    }
    w->owner = NULL;
}

static int by_place(const void *a, const void *b)
{
    const Occurrence *x = a, *y = b;
    return x->at.begin != y->at.begin ? (x->at.begin < y->at.begin ? -1 : 1) : x->decl - y->decl;
}

static void walk(Walk *w)
{
    const NodeList *items = &w->x->ast->items;
    for (size_t i = 0; i < items->n; i++)
        first_pass(w, items->data[i]);
    for (size_t i = 0; i < items->n; i++)
        second_pass(w, items->data[i]);
    for (size_t i = 0; i < items->n; i++)
        if (items->data[i]->kind == N_TRAIN)
            train(w, items->data[i]);
        else if (items->data[i]->kind == N_LAYOUT)
            layout(w, items->data[i]);
    for (size_t i = 0; i < w->x->tokens.n; i++)
        if (w->x->tokens.data[i].kind == TOKEN_string)
            names_in_text(w, w->x->tokens.data[i].at);
}

static void nobody(void *ctx, DiagKind kind, Span at, int code, const char *text)
{
    (void)ctx, (void)kind, (void)at, (void)code, (void)text;
}

Index *index_new(Arena *a, const char *path, const char *text, size_t size)
{
    enum { ERRORS = 1000, LONGEST = 1 << 20 };
    if (size > LONGEST)
        return NULL;
    Index *x = NEW(a, Index);
    *x = (Index){.arena = a, .names = names_new(a), .diag = diag_heard(a, ERRORS, nobody, NULL)};
    const uint32_t file = diag_add_file(x->diag, path, text, size);
    x->ast = mg_parse_rest(a, x->names, x->diag, file);
    x->whole = x->ast && !diag_errors(x->diag);
    if (!x->ast)
        return NULL;
    mg_tokens(a, x->names, x->diag, file, &x->tokens);
    walk(&(Walk){.x = x});
    if (x->occurrences.n)
        qsort(x->occurrences.data, x->occurrences.n, sizeof *x->occurrences.data, by_place);
    return x;
}

const Occurrence *index_at(const Index *x, size_t byte)
{
    for (size_t i = 0; i < x->occurrences.n; i++) {
        const Occurrence *o = &x->occurrences.data[i];
        if (o->at.begin <= byte && byte <= o->at.end)
            return o;
    }
    return NULL;
}

const Node *index_owner(const Index *x, size_t byte)
{
    const NodeList *items = &x->ast->items; /* in the order of the text */
    size_t low = 0, high = items->n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (items->data[middle]->span.begin <= byte)
            low = middle + 1;
        else
            high = middle;
    }
    const Node *n = low ? items->data[low - 1] : NULL;
    const bool owns = n && (n->kind == N_BLOCK || n->kind == N_MODEL || n->kind == N_OPTIMIZER);
    return owns && byte <= n->span.end ? n : NULL;
}
