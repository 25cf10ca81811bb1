/* ast.c - names, comparison and dump of syntax trees; see ast.h. */
#include "grammar/ast.h"

#include <string.h>

const char *node_kind_name(NodeKind kind)
{
    static const char *const name[N_count] = {
#define NODE(kind, name, ...) [N_##kind] = name,
#include "grammar/ast.def"
    };
    return name[kind];
}

const char *binary_text(BinaryOp op)
{
    static const char *const text[] = {"+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!="};
    return text[op];
}

const Node *node_bare(const Node *n)
{
    while (n && n->kind == N_PAREN)
        n = n->a;
    return n;
}

static bool text_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool list_equal(const NodeList *a, const NodeList *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!node_equal(a->data[i], b->data[i]))
            return false;
    return true;
}

bool node_equal(const Node *a, const Node *b)
{
    if (!a || !b)
        return a == b;
    return a->kind == b->kind && a->op == b->op && a->flag == b->flag && a->name == b->name &&
           text_equal(a->text, b->text) && text_equal(a->unit, b->unit) && node_equal(a->a, b->a) &&
           node_equal(a->b, b->b) && list_equal(&a->list, &b->list) &&
           list_equal(&a->more, &b->more);
}

bool ast_equal(const Ast *a, const Ast *b)
{
    return list_equal(&a->items, &b->items);
}

static void dump(const Ast *ast, const Node *n, const char *role, int indent, FILE *out)
{
    fprintf(out, "%*s%s%s", indent * 2, "", role, node_kind_name(n->kind));
    if (n->kind == N_BINARY)
        fprintf(out, " %s", binary_text(n->op));
    if (n->name)
        fprintf(out, " %s", name_str(ast->names, n->name));
    if (n->text)
        fprintf(out, " \"%s\"", n->text);
    if (n->unit)
        fprintf(out, " %s", n->unit);
    fprintf(out, " @%u-%u\n", n->span.begin, n->span.end);
    if (n->a)
        dump(ast, n->a, "a: ", indent + 1, out);
    if (n->b)
        dump(ast, n->b, "b: ", indent + 1, out);
    for (size_t i = 0; i < n->list.n; i++)
        dump(ast, n->list.data[i], "", indent + 1, out);
    for (size_t i = 0; i < n->more.n; i++)
        dump(ast, n->more.data[i], "- ", indent + 1, out);
}

void ast_dump(const Ast *ast, FILE *out)
{
    for (size_t i = 0; i < ast->items.n; i++)
        dump(ast, ast->items.data[i], "", 0, out);
}
