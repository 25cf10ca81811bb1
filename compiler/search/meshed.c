/* meshed.c - what rules.c of search needs of the driver; see meshed.h. */
#include "compiler/search/meshed.h"

#include <stdlib.h>
#include <string.h>

#include "search/rules.h"

/* ---- lines into a layout --------------------------------------------------------------------- */

static const char *name_of(const Ast *ast, const Node *layout)
{
    return layout->name ? name_str(ast->names, layout->name) : "default";
}

/* Number of the layout of that name; NULL: the first. -1: there is none. */
static int find(const Ast *ast, const char *name)
{
    for (size_t i = 0; ast && i < ast->items.n; i++)
        if (ast->items.data[i]->kind == N_LAYOUT &&
            (!name || !strcmp(name_of(ast, ast->items.data[i]), name)))
            return (int)i;
    return -1;
}

/* The layout that grammar/layout.c chooses; NULL: the plain one, which no file has. */
static Node **chosen(Session *s, Ast *ast, Ast *layouts)
{
    int at = find(layouts, "default");
    if (at < 0)
        at = find(layouts, NULL);
    if (at >= 0)
        return &layouts->items.data[at];
    at = find(ast, s->o->layout && !layouts ? s->o->layout : "default");
    return at >= 0 ? &ast->items.data[at] : NULL;
}

static bool is_mesh(const Session *s, const Node *n)
{
    return n->kind == N_SETTING && !strcmp(name_str(s->names, n->name), "mesh");
}

/* The axes of a layout's own mesh, those of the lines in place of the same ones. */
static void merge(Session *s, Node *lines, const Node *own)
{
    NodeList all = {0};
    for (size_t i = 0; i < own->list.n; i++) {
        bool given = false;
        for (size_t k = 0; k < lines->list.n; k++)
            given |= lines->list.data[k]->name == own->list.data[i]->name;
        if (!given)
            vec_push(s->arena, &all, own->list.data[i]);
    }
    for (size_t k = 0; k < lines->list.n; k++)
        vec_push(s->arena, &all, lines->list.data[k]);
    lines->list = all;
}

Exit mesh_splice(Session *s, Ast *ast, Ast *layouts, const char *lines)
{
    const char *text = arena_printf(s->arena, "layout lines {\n%s}\n", lines);
    const uint32_t file = diag_add_file(s->diag, "rules that were found", text, strlen(text));
    const Ast *parsed = mg_parse(s->arena, s->names, s->diag, file);
    Node **place = chosen(s, ast, layouts);
    if (!parsed || !place)
        return EXIT_source;
    const Node *added = parsed->items.data[0];
    Node *with = NEW_ARRAY(s->arena, Node, 1);
    Node *mesh = NULL;
    *with = **place;
    with->more = (NodeList){0};
    for (size_t i = 0; i < added->more.n; i++)
        mesh = is_mesh(s, added->more.data[i]) ? added->more.data[i] : mesh;
    for (size_t i = 0; i < (*place)->more.n; i++) {
        Node *own = (*place)->more.data[i];
        if (mesh && is_mesh(s, own))
            merge(s, mesh, own);
        else
            vec_push(s->arena, &with->more, own);
    }
    for (size_t i = 0; i < added->more.n; i++)
        vec_push(s->arena, &with->more, added->more.data[i]);
    *place = with;
    return EXIT_done;
}

/* ---- finding --------------------------------------------------------------------------------- */

typedef struct Meshed {
    Session *s;
    const char *path;
    Options options; /* of one layout of many */
} Meshed;

static void first_code(void *ctx, const Found *f)
{
    int *code = ctx;
    if (f->code && !*code)
        *code = f->code;
}

/* As the compiler elaborates, with other lines; nobody is told. */
static Module *elaborate(void *ctx, const char *lines, Arena *a, Device *d, int *code)
{
    static const Remedy none = {0};
    const Meshed *k = ctx;
    Session s = {.arena = a,
                 .names = names_new(a),
                 .diag = diag_trial(a, &none, first_code, code),
                 .o = &k->options,
                 .layout_rules = lines,
                 .trial = true};
    Compiled made = {0};
    if (compile_front(&s, k->path, &made) != EXIT_done)
        return NULL;
    *d = made.device;
    return made.module;
}

static bool is_axis(const Module *m, const char *define)
{
    const size_t n = strcspn(define, "=");
    for (size_t i = 0; i < m->layout.mesh.n; i++) {
        const char *axis = name_str(m->names, m->layout.mesh.data[i].name);
        if (strlen(axis) == n && !strncmp(axis, define, n))
            return true;
    }
    return false;
}

/* The device is named, as parts of a mesh have other numbers of it; sizes of axes are in lines. */
static Options options_of(Session *s, const Module *m)
{
    Options o = *s->o;
    o.out = o.emit = o.proposals = NULL;
    if (!o.device)
        o.device = name_str(m->names, m->layout.device);
    o.define = (Words){0};
    for (size_t i = 0; i < s->o->define.n; i++)
        if (!is_axis(m, s->o->define.data[i]))
            vec_push(s->arena, &o.define, s->o->define.data[i]);
    return o;
}

bool mesh_is_alone(const Module *m)
{
    return m->layout.mesh.n && !m->layout.ruled && module_fn(m, "train");
}

const char *mesh_rules(Session *s, const char *path, const Module *m)
{
    static char *found; /* of this process, which compiles one model: also for its remedies */
    static bool searched;
    if (searched || s->trial)
        return found;
    searched = true;
    Meshed k = {.s = s, .path = path, .options = options_of(s, m)};
    Rules r = {.arena = s->arena, .elaborate = elaborate, .ctx = &k};
    const char *mesh = "", *alone = "";
    for (size_t i = 0; i < m->layout.mesh.n; i++) {
        const Axis *axis = &m->layout.mesh.data[i];
        const char *name = name_str(m->names, axis->name);
        vec_push(s->arena, &r.axes, ((RuleAxis){name, axis->size}));
        mesh = arena_printf(s->arena, "%s%s%s = %lld", mesh, i ? ", " : "", name,
                            (long long)axis->size);
        alone = arena_printf(s->arena, "%s%s%s = 1", alone, i ? ", " : "", name);
    }
    Device d;
    int code = 0;
    r.one = elaborate(&k, arena_printf(s->arena, "    mesh %s\n", alone), s->arena, &d, &code);
    if (!r.one || !rules_find(&r))
        return NULL;
    fprintf(stderr, "note: layout %s says no rules for mesh %s; these were found, by %d plans:\n%s",
            name_str(m->names, m->layout.name), mesh, r.plans, r.text);
    if (r.failed)
        fprintf(stderr, "note: mgc itself failed on %d of these; please report the first: %s",
                r.failed, r.why);
    found = strdup(r.text);
    return found;
}
