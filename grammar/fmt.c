/* fmt.c - the canonical text of a syntax tree.
 *
 * The tree becomes lines of cells, which fmt_lines.c aligns and prints. A comment keeps its
 * place: at the end of its line, or on lines of its own before what follows it; one inside a
 * statement moves before the statement. Single blank lines are kept. */
#include "grammar/fmt_lines.h"
#include "grammar/grammar.h"

#include <string.h>

typedef struct Fmt {
    const Ast *ast;
    Arena *arena;
    VEC(char) text; /* the cell being written */
    VEC(Line) lines;
    size_t comment;  /* the first not yet placed */
    uint32_t passed; /* the source up to here has been dealt with */
    uint32_t limit;  /* a comment behind it is not for the lines being written */
    int indent;
    bool parted; /* the next line has an empty line before it */
} Fmt;

/* ---- expressions -------------------------------------------------------------------------- */

static void put(Fmt *f, const char *s)
{
    for (; *s; s++)
        vec_push(f->arena, &f->text, *s);
}

static void put_name(Fmt *f, Name n)
{
    put(f, name_str(f->ast->names, n));
}

static const char *take(Fmt *f)
{
    const char *s = arena_strndup(f->arena, f->text.data ? f->text.data : "", f->text.n);
    f->text.n = 0;
    return s;
}

static void put_node(Fmt *f, const Node *n);

static void put_list(Fmt *f, const NodeList *l, const char *separator)
{
    for (size_t i = 0; i < l->n; i++) {
        put(f, i ? separator : "");
        put_node(f, l->data[i]);
    }
}

static void put_enclosed(Fmt *f, const char *open, const NodeList *l, const char *separator,
                         const char *close)
{
    put(f, open);
    put_list(f, l, separator);
    put(f, close);
}

/* One dim, or several in parentheses. */
static void put_dims(Fmt *f, const char *word, const NodeList *l)
{
    put(f, word);
    if (l->n == 1)
        put_node(f, l->data[0]);
    else
        put_enclosed(f, "(", l, ", ", ")");
}

static void put_path(Fmt *f, const char *path)
{
    if (!path)
        return;
    put(f, " as \"");
    put(f, path);
    put(f, "\"");
}

static void put_pair(Fmt *f, const Node *a, const char *between, const Node *b)
{
    put_node(f, a);
    put(f, between);
    put_node(f, b);
}

/* A word that has a hyphen, `schedule = zb-h1`, was read as a difference. */
static bool is_hyphened(const Fmt *f, const Node *n)
{
    return n->name == name_intern(f->ast->names, "schedule") && n->a->kind == N_BINARY &&
           n->a->op == B_SUB;
}

static void put_assigned(Fmt *f, const Node *n)
{
    put_name(f, n->name);
    put(f, " = ");
    if (is_hyphened(f, n))
        put_pair(f, n->a->a, "-", n->a->b);
    else
        put_node(f, n->a);
    if (n->b) {
        put(f, " where ");
        put_node(f, n->b);
    }
}

/* d = k, or d = lo .. hi -> part */
static void put_assigned_part(Fmt *f, const Node *n)
{
    put_name(f, n->name);
    put(f, " = ");
    if (n->b)
        put_pair(f, n->a, " .. ", n->b);
    else
        put_node(f, n->a);
    if (n->list.n) {
        put(f, " -> ");
        put_node(f, n->list.data[0]);
    }
}

/* A parameter of a block or model. */
static void put_parameter(Fmt *f, const Node *n)
{
    put(f, n->kind == N_ALONG ? "along " : n->kind == N_OVER ? "over " : "");
    put_name(f, n->name);
    if ((n->kind == N_TENSOR || n->kind == N_OPTION) && n->flag)
        put_enclosed(f, "[", &n->list, ", ", "]");
    if (n->kind == N_TENSOR && n->a) {
        put(f, " : ");
        put(f, n->text);
        put(f, "(");
        put_node(f, n->a);
        put(f, ")");
    }
    if (n->kind == N_OPTION) {
        put(f, n->a ? " = " : " =");
        if (n->a)
            put_node(f, n->a);
    }
}

static void put_call(Fmt *f, const Node *n)
{
    put_name(f, n->name);
    put_enclosed(f, "(", &n->list, ", ", ")");
    put_path(f, n->text);
}

static void put_leaf(Fmt *f, const Node *n)
{
    if (n->kind == N_NAME)
        put_name(f, n->name);
    else
        put(f, n->text);
    if (n->unit) {
        put(f, *n->unit == '%' ? "" : " ");
        put(f, n->unit);
    }
}

/* n, if there is one, between two texts. */
static void put_between(Fmt *f, const char *before, const Node *n, const char *after)
{
    if (!n)
        return;
    put(f, before);
    put_node(f, n);
    put(f, after);
}

static void put_node(Fmt *f, const Node *n)
{
    switch (n->kind) {
    case N_PAREN:
        put(f, "(");
        put_node(f, n->a);
        put(f, ")");
        break;
    case N_TUPLE:
    case N_GROUP:
        put_enclosed(f, "(", &n->list, n->kind == N_TUPLE ? ", " : " ", ")");
        break;
    case N_FROM:
        put_pair(f, n->a, " at ", n->b);
        break;
    case N_NEG:
        put(f, "-");
        put_node(f, n->a);
        break;
    case N_BINARY:
        put_pair(f, n->a, arena_printf(f->arena, " %s ", binary_text(n->op)), n->b);
        break;
    case N_DOT:
        put_pair(f, n->a, " @ ", n->b);
        put_dims(f, " over ", &n->list);
        break;
    case N_CALL:
        put_call(f, n);
        break;
    case N_INDEX:
        put_node(f, n->a);
        put_enclosed(f, "[", &n->list, ", ", "]");
        break;
    case N_RENAME:
        put_pair(f, n->a, " -> ", n->b);
        break;
    case N_PART:
        put_assigned_part(f, n);
        break;
    case N_TIMES:
        put_pair(f, n->a, " x ", n->b);
        break;
    case N_PAD:
        put_pair(f, n->a, " to ", n->b);
        break;
    case N_BIND:
    case N_NAMED:
        put_assigned(f, n);
        break;
    case N_ALONG:
        put_dims(f, "along ", &n->list);
        break;
    case N_OVER:
        put_dims(f, "over ", &n->list);
        break;
    case N_STRING:
        put(f, "\"");
        put(f, n->text);
        put(f, "\"");
        break;
    case N_LIST:
        put_enclosed(f, "[", &n->list, ", ", "]");
        break;
    case N_OBJECT:
        put_enclosed(f, "{", &n->list, ", ", "}");
        break;
    case N_ASSIGN:
        put_assigned(f, n);
        break;
    case N_AXIS:
        put_name(f, n->name);
        if (n->list.n)
            put_enclosed(f, " (", &n->list, ", ", ")");
        break;
    case N_NAME:
    case N_NUMBER:
    case N_QUANTITY:
    case N_WORD:
        put_leaf(f, n);
        break;
    case N_STATE:
        put(f, "state ");
        put_list(f, &n->list, ", ");
        put_between(f, " where ", n->a, "");
        break;
    case N_SLOT:
        put_name(f, n->name);
        put(f, n->flag ? "[]" : "");
        put_between(f, "[", n->a, "]");
        put_between(f, " = ", n->b, "");
        put_path(f, n->text);
        break;
    case N_RANGE:
        put(f, "setting ");
        put_between(f, "", n->a, n->op == B_LT ? " < " : " <= ");
        put_name(f, n->name);
        put_between(f, " < ", n->b, "");
        break;
    case N_REST:
        put(f, "rest ");
        put_name(f, n->name);
        break;
    case N_DIMS: /* what has lines of its own, or is part of one */
    case N_CONSTS:
    case N_BLOCK:
    case N_MODEL:
    case N_TRAIN:
    case N_LAYOUT:
    case N_CONFIG:
    case N_TENSOR:
    case N_FLAG:
    case N_OPTION:
    case N_PARAM:
    case N_INSTANCE:
    case N_FOLLOWS:
    case N_METRIC:
    case N_REPEAT:
    case N_SCAN:
    case N_SEVERAL:
    case N_RETURN:
    case N_SETTING:
    case N_ADAPTER:
    case N_RULE:
    case N_OPTIMIZER:
    case N_none:
    case N_count:
        break;
    }
}

/* ---- lines -------------------------------------------------------------------------------- */

static int newlines(const Fmt *f, uint32_t from, uint32_t to)
{
    int n = 0;
    for (uint32_t i = from; i < to; i++)
        n += f->ast->text[i] == '\n';
    return n;
}

static Line *add_line(Fmt *f, LineKind kind, uint32_t begin)
{
    Line line = {.kind = kind, .indent = f->indent};
    line.blank = f->lines.n && (f->parted || newlines(f, f->passed, begin) > 1);
    f->parted = false;
    vec_push(f->arena, &f->lines, line);
    return &f->lines.data[f->lines.n - 1];
}

/* The comments before byte `end` get lines of their own. */
static void place_comments(Fmt *f, uint32_t end)
{
    for (; f->comment < f->ast->comments.n; f->comment++) {
        const Comment *c = &f->ast->comments.data[f->comment];
        if (c->span.begin >= end)
            return;
        Line *line = add_line(f, L_COMMENT, c->span.begin);
        line->cell[line->cells++] = c->text;
        if (c->span.end > f->passed)
            f->passed = c->span.end;
    }
}

/* The text up to byte `end` has been written as the last line: a comment behind it joins that line.
 */
static void end_line(Fmt *f, uint32_t end)
{
    if (end > f->passed)
        f->passed = end;
    if (f->comment == f->ast->comments.n)
        return;
    const Comment *c = &f->ast->comments.data[f->comment];
    if (c->span.begin < end || c->span.begin >= f->limit || newlines(f, end, c->span.begin))
        return;
    f->lines.data[f->lines.n - 1].comment = c->text;
    f->passed = c->span.end;
    f->comment++;
}

static void add_cell(Line *line, const char *text)
{
    line->cell[line->cells++] = text;
}

static void add_statement(Fmt *f, const Node *n);

static void add_body(Fmt *f, const Node *n)
{
    Line *line = add_line(f, L_PLAIN, n->span.begin);
    put(f, " {");
    add_cell(line, take(f));
    end_line(f, n->body);
    f->passed = f->passed > n->body ? f->passed : n->body;
    f->indent++;
    uint32_t limit = f->limit;
    f->limit = n->span.end - 1;
    size_t opened = f->lines.n;
    for (size_t i = 0; i < n->more.n; i++)
        add_statement(f, n->more.data[i]);
    place_comments(f, n->span.end - 1);
    if (f->lines.n > opened)
        f->lines.data[opened].blank = false;
    f->indent--;
    f->limit = limit;
    f->passed = n->span.end;
    f->parted = false;
    add_cell(add_line(f, L_PLAIN, n->span.end), "}");
    end_line(f, n->span.end);
}

static void add_param(Fmt *f, const Node *n)
{
    Line *line = add_line(f, L_PARAM, n->span.begin);
    put_name(f, n->name);
    add_cell(line, take(f));
    put_enclosed(f, ": param[", &n->list, ", ", "]");
    add_cell(line, take(f));
    put(f, n->a ? "= " : "~ ");
    put_node(f, n->a ? n->a : n->b);
    put_path(f, n->text);
    if (n->more.n)
        put_enclosed(f, " [", &n->more, ", ", "]");
    add_cell(line, take(f));
}

static void add_instance(Fmt *f, const Node *n)
{
    Line *line = add_line(f, L_PARAM, n->span.begin);
    put_name(f, n->name);
    add_cell(line, take(f));
    put(f, ": block ");
    put_node(f, n->a);
    put_path(f, n->text);
    if (n->b) {
        put(f, " follows ");
        put_name(f, n->b->name);
        put(f, " ");
        put_node(f, n->b->a);
        put(f, " ");
        put_node(f, n->b->b);
    }
    add_cell(line, take(f));
}

static void add_entry(Fmt *f, const Node *n)
{
    Line *line = add_line(f, n->kind == N_RULE ? L_RULE : L_SETTING, n->span.begin);
    if (n->kind == N_RULE) {
        put_list(f, &n->list, ", ");
        add_cell(line, take(f));
        put(f, "-> ");
        put_list(f, &n->more, ", ");
    } else if (n->kind == N_ADAPTER) {
        put(f, "adapter");
        add_cell(line, take(f));
        if (n->name) {
            put_name(f, n->name);
            put(f, " ");
        }
        put_node(f, n->a);
        put(f, " on ");
        put_list(f, &n->more, ", ");
    } else {
        put_name(f, n->name);
        add_cell(line, take(f));
        put_list(f, &n->list, ", ");
        if (n->more.n) {
            const char *word = n->more.data[0]->kind == N_AXIS ? "->" : "where";
            put(f, n->list.n ? " " : "");
            put(f, word);
            put(f, " ");
            put_list(f, &n->more, ", ");
        }
    }
    add_cell(line, take(f));
}

static void add_plain(Fmt *f, const Node *n)
{
    if (n->kind == N_DIMS || n->kind == N_CONSTS) {
        put(f, n->kind == N_DIMS ? "dim " : "const ");
        put_list(f, &n->list, ", ");
    } else if (n->kind == N_RETURN) {
        put(f, "return ");
        put_list(f, &n->list, ", ");
    } else if (n->kind == N_STATE || n->kind == N_RANGE || n->kind == N_REST) {
        put_node(f, n);
    } else if (n->kind == N_SEVERAL) {
        put_list(f, &n->list, ", ");
        put(f, " = ");
        put_node(f, n->a);
    } else {
        put(f, n->kind == N_METRIC ? "metric " : "");
        put_assigned(f, n);
    }
    add_cell(add_line(f, L_PLAIN, n->span.begin), take(f));
}

static void add_statement(Fmt *f, const Node *n)
{
    place_comments(f, n->body ? n->body : n->span.end);
    if (n->kind == N_REPEAT) {
        put(f, "repeat ");
        put_name(f, n->name);
        if (n->a) {
            put(f, " at ");
            put_node(f, n->a);
        }
        put_path(f, n->text);
        add_body(f, n);
        return;
    }
    if (n->kind == N_SCAN) {
        put(f, "scan ");
        put_name(f, n->name);
        if (n->a) {
            put(f, " ");
            put_name(f, n->a->name);
        }
        add_body(f, n);
        return;
    }
    if (n->kind == N_PARAM)
        add_param(f, n);
    else if (n->kind == N_INSTANCE)
        add_instance(f, n);
    else if (n->kind == N_SETTING || n->kind == N_RULE || n->kind == N_ADAPTER)
        add_entry(f, n);
    else
        add_plain(f, n);
    end_line(f, n->span.end);
}

/* ---- items -------------------------------------------------------------------------------- */

static void put_head(Fmt *f, const Node *n)
{
    put(f, node_kind_name(n->kind));
    if (n->name) {
        put(f, " ");
        put_name(f, n->name);
    }
    if (n->kind == N_LAYOUT && n->a) {
        put(f, " : ");
        put_node(f, n->a);
    }
    if (n->kind == N_TRAIN && n->name) {
        put(f, " where ");
        put_list(f, &n->list, ", ");
    }
    if (n->kind != N_BLOCK && n->kind != N_MODEL && n->kind != N_OPTIMIZER)
        return;
    put(f, "(");
    for (size_t i = 0; i < n->list.n; i++) {
        put(f, i ? ", " : "");
        put_parameter(f, n->list.data[i]);
    }
    put(f, ")");
}

static void add_item(Fmt *f, const Node *n, bool first)
{
    f->parted |= !first && n->body;
    if (!n->body) {
        add_statement(f, n);
        return;
    }
    place_comments(f, n->body);
    put_head(f, n);
    add_body(f, n);
    f->parted = true;
}

void mg_fmt(const Ast *ast, FILE *out)
{
    Arena *arena = arena_new();
    Fmt f = {.ast = ast, .arena = arena, .limit = UINT32_MAX};
    for (size_t i = 0; i < ast->items.n; i++)
        add_item(&f, ast->items.data[i], i == 0);
    place_comments(&f, UINT32_MAX);
    fmt_print_lines(arena, f.lines.data, f.lines.n, out);
    arena_free(arena);
}
