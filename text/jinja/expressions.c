/* expressions.c - expressions as trees, with Jinja's precedences. */
#include "text/jinja/parts.h"

#include <stdio.h>

enum { DEPTH = 120 };

_Noreturn void jin_parse_fail(Parser *p, uint32_t at, uint32_t end, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    *p->e = (JinError){.at = at, .end = end > at ? end : at + 1};
    vsnprintf(p->e->text, sizeof p->e->text, fmt, ap);
    va_end(ap);
    longjmp(p->fail, 1);
}

/* ---- tokens -------------------------------------------------------------------------------- */

const Token *jin_peek(const Parser *p)
{
    return &p->tokens.data[p->next];
}

static bool is_operator(const Token *t, const char *op)
{
    return t->kind == TOKEN_operator && t->n == strlen(op) && memcmp(t->text, op, t->n) == 0;
}

static bool is_name(const Token *t, const char *name)
{
    return t->kind == TOKEN_name && t->n == strlen(name) && memcmp(t->text, name, t->n) == 0;
}

bool jin_at_operator(const Parser *p, const char *op)
{
    return is_operator(jin_peek(p), op);
}

bool jin_at_name(const Parser *p, const char *name)
{
    return is_name(jin_peek(p), name);
}

bool jin_skip_operator(Parser *p, const char *op)
{
    bool here = jin_at_operator(p, op);
    p->next += here;
    return here;
}

bool jin_skip_name(Parser *p, const char *name)
{
    bool here = jin_at_name(p, name);
    p->next += here;
    return here;
}

void jin_expect_operator(Parser *p, const char *op)
{
    if (!jin_skip_operator(p, op))
        jin_parse_fail(p, jin_peek(p)->at, jin_peek(p)->end, "'%s' is expected here", op);
}

static const Token *take(Parser *p, TokenKind kind, const char *what)
{
    const Token *t = jin_peek(p);
    if (t->kind != kind)
        jin_parse_fail(p, t->at, t->end, "%s is expected here", what);
    p->next++;
    return t;
}

int jin_name_number(JinTemplate *t, const char *text, size_t n)
{
    for (size_t i = 0; i < t->names.n; i++)
        if (strlen(t->names.data[i]) == n && memcmp(t->names.data[i], text, n) == 0)
            return (int)i;
    vec_push(t->a, &t->names, arena_strndup(t->a, text, n));
    return (int)t->names.n - 1;
}

Node *jin_node_new(Parser *p, NodeKind kind, uint32_t at)
{
    Node *n = NEW(p->t->a, Node);
    n->kind = kind;
    n->at = at;
    n->name = -1;
    return n;
}

/* Ends a node before the token that comes now. */
static Node *ended(Parser *p, Node *n)
{
    n->end = p->next ? p->tokens.data[p->next - 1].end : n->at + 1;
    return n;
}

static Node *binary(Parser *p, NodeKind kind, Node *a, const Token *op, Node *b)
{
    Node *n = jin_node_new(p, kind, a->at);
    n->a = a;
    n->b = b;
    n->text = op ? arena_strndup(p->t->a, op->text, op->n) : "";
    return ended(p, n);
}

const char *jin_reserved_name(const Token *t)
{
    static const char *const words[] = {"if", "else", "for", "in", "is", "and", "or", "not"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_name(t, words[i]))
            return words[i];
    return NULL;
}

/* ---- primaries ----------------------------------------------------------------------------- */

static Node *constant(Parser *p, const Token *t, JinKind kind)
{
    Node *n = jin_node_new(p, NODE_constant, t->at);
    n->value = NEW(p->t->a, JinValue);
    n->value->kind = kind;
    return ended(p, n);
}

static Node *parse_name(Parser *p)
{
    const Token *t = jin_peek(p);
    bool yes = is_name(t, "true") || is_name(t, "True");
    if (jin_reserved_name(t))
        jin_parse_fail(p, t->at, t->end, "an expression is expected here, not '%s'",
                       jin_reserved_name(t));
    p->next++;
    if (yes || is_name(t, "false") || is_name(t, "False")) {
        Node *n = constant(p, t, JIN_bool);
        n->value->truth = yes;
        return n;
    }
    if (is_name(t, "none") || is_name(t, "None"))
        return constant(p, t, JIN_none);
    Node *n = jin_node_new(p, NODE_name, t->at);
    n->name = jin_name_number(p->t, t->text, t->n);
    return ended(p, n);
}

static Node *parse_strings(Parser *p)
{
    const Token *t = take(p, TOKEN_string, "a string");
    const char *text = t->text;
    size_t n = t->n;
    for (; jin_peek(p)->kind == TOKEN_string; p->next++) { /* which stand side by side: one */
        const Token *more = jin_peek(p);
        char *both = arena_alloc(p->t->a, n + more->n + 1);
        memcpy(both, text, n);
        memcpy(both + n, more->text, more->n);
        text = both;
        n += more->n;
    }
    Node *node = constant(p, t, JIN_string);
    node->value->text = text;
    node->value->n = n;
    return node;
}

static Node *parse_items(Parser *p, NodeKind kind, const char *close)
{
    Node *n = jin_node_new(p, kind, p->tokens.data[p->next - 1].at);
    while (!jin_at_operator(p, close)) {
        if (n->list.n) {
            jin_expect_operator(p, ",");
            if (jin_at_operator(p, close))
                break;
        }
        vec_push(p->t->a, &n->list, jin_parse_expression(p));
        if (kind == NODE_dict) {
            jin_expect_operator(p, ":");
            vec_push(p->t->a, &n->list, jin_parse_expression(p));
        }
    }
    jin_expect_operator(p, close);
    return ended(p, n);
}

static bool tuple_end(const Parser *p)
{
    TokenKind k = jin_peek(p)->kind;
    return k == TOKEN_close || k == TOKEN_block_end || jin_at_operator(p, ")") ||
           jin_at_name(p, "in");
}

static Node *parse_or(Parser *p);

static Node *parse_several(Parser *p, Node *(*one)(Parser *p))
{
    Node *n = jin_node_new(p, NODE_tuple, jin_peek(p)->at);
    bool several = false;
    while (!tuple_end(p)) {
        vec_push(p->t->a, &n->list, one(p));
        if (!jin_skip_operator(p, ","))
            break;
        several = true;
    }
    if (!several && n->list.n)
        return n->list.data[0];
    if (!n->list.n && !jin_at_operator(p, ")"))
        jin_parse_fail(p, jin_peek(p)->at, jin_peek(p)->end, "an expression is expected here");
    return ended(p, n);
}

Node *jin_parse_tuple(Parser *p)
{
    return parse_several(p, jin_parse_expression);
}

Node *jin_parse_loop_list(Parser *p)
{
    return parse_several(p, parse_or);
}

Node *jin_parse_primary(Parser *p)
{
    const Token *t = jin_peek(p);
    if (t->kind == TOKEN_name)
        return parse_name(p);
    if (t->kind == TOKEN_string)
        return parse_strings(p);
    if (t->kind == TOKEN_integer || t->kind == TOKEN_float) {
        p->next++;
        Node *n = constant(p, t, t->kind == TOKEN_integer ? JIN_int : JIN_float);
        if (t->kind == TOKEN_integer)
            n->value->integer = t->integer;
        else
            n->value->real = t->real;
        return n;
    }
    if (jin_skip_operator(p, "(")) {
        Node *n = jin_parse_tuple(p);
        jin_expect_operator(p, ")");
        return n;
    }
    if (jin_skip_operator(p, "["))
        return parse_items(p, NODE_list, "]");
    if (jin_skip_operator(p, "{"))
        return parse_items(p, NODE_dict, "}");
    jin_parse_fail(p, t->at, t->end, "an expression is expected here");
}

/* ---- what comes after ---------------------------------------------------------------------- */

static void parse_arguments(Parser *p, Node *n)
{
    jin_expect_operator(p, "(");
    while (!jin_at_operator(p, ")")) {
        const Token *t = jin_peek(p);
        if (n->list.n) {
            jin_expect_operator(p, ",");
            if (jin_at_operator(p, ")"))
                break;
            t = jin_peek(p);
        }
        if (is_operator(t, "*") || is_operator(t, "**"))
            jin_parse_fail(p, t->at, t->end, "arguments out of a list or a dict are not built");
        bool named = t->kind == TOKEN_name && is_operator(t + 1, "=");
        if (!named && n->positional < (int)n->list.n)
            jin_parse_fail(p, t->at, t->end, "an argument by position after one by name");
        p->next += named ? 2 : 0;
        Node *value = jin_parse_expression(p);
        Node *argument = jin_node_new(p, NODE_body, value->at); /* a holder: name and value */
        argument->a = value;
        argument->name = named ? jin_name_number(p->t, t->text, t->n) : -1;
        n->positional += !named;
        vec_push(p->t->a, &n->list, ended(p, argument));
    }
    jin_expect_operator(p, ")");
}

static Node *parse_call(Parser *p, Node *of)
{
    Node *n = jin_node_new(p, NODE_call, of->at);
    n->a = of;
    parse_arguments(p, n);
    return ended(p, n);
}

/* a[i], a[i:j], a[i:j:k] behind the bracket. */
static Node *parse_subscript(Parser *p, Node *of)
{
    Node *n = jin_node_new(p, NODE_item, of->at), **part[] = {&n->b, &n->c, &n->d};
    n->a = of;
    for (int i = 0; i < 3; i++) {
        if (!jin_at_operator(p, ":") && !jin_at_operator(p, "]"))
            *part[i] = jin_parse_expression(p);
        if (!jin_skip_operator(p, ":"))
            break;
        n->kind = NODE_slice;
    }
    if (n->kind == NODE_item && !n->b)
        jin_parse_fail(p, jin_peek(p)->at, jin_peek(p)->end, "an index is expected here");
    jin_expect_operator(p, "]");
    return ended(p, n);
}

static Node *parse_member(Parser *p, Node *of)
{
    const Token *t = jin_peek(p);
    if (t->kind == TOKEN_integer) {
        Node *n = jin_node_new(p, NODE_item, of->at);
        n->a = of;
        n->b = jin_parse_primary(p);
        return ended(p, n);
    }
    take(p, TOKEN_name, "a name");
    Node *n = jin_node_new(p, NODE_member, of->at);
    n->a = of;
    n->text = arena_strndup(p->t->a, t->text, t->n);
    n->n = t->n;
    return ended(p, n);
}

static Node *parse_postfix(Parser *p, Node *n)
{
    for (;;) {
        if (jin_skip_operator(p, "."))
            n = parse_member(p, n);
        else if (jin_skip_operator(p, "["))
            n = parse_subscript(p, n);
        else if (jin_at_operator(p, "("))
            n = parse_call(p, n);
        else
            return n;
    }
}

static Node *parse_filter(Parser *p, Node *of)
{
    const Token *t = take(p, TOKEN_name, "the name of a filter");
    Node *n = jin_node_new(p, NODE_filter, t->at);
    n->a = of;
    n->text = arena_strndup(p->t->a, t->text, t->n);
    if (jin_at_operator(p, "("))
        parse_arguments(p, n);
    return ended(p, n);
}

static bool begins_argument(const Token *t)
{
    if (t->kind == TOKEN_name)
        return !is_name(t, "else") && !is_name(t, "or") && !is_name(t, "and");
    return t->kind == TOKEN_string || t->kind == TOKEN_integer || t->kind == TOKEN_float ||
           is_operator(t, "[") || is_operator(t, "{");
}

static Node *parse_test(Parser *p, Node *of)
{
    bool negated = jin_skip_name(p, "not");
    const Token *t = take(p, TOKEN_name, "the name of a test");
    Node *n = jin_node_new(p, NODE_test, of->at);
    n->a = of;
    n->text = arena_strndup(p->t->a, t->text, t->n);
    if (!jin_test_known(n->text))
        jin_parse_fail(p, t->at, t->end, "the test '%s' is not built", n->text);
    if (jin_at_operator(p, "(")) {
        parse_arguments(p, n);
    } else if (begins_argument(jin_peek(p))) {
        Node *argument = jin_node_new(p, NODE_body, jin_peek(p)->at);
        argument->a = parse_postfix(p, jin_parse_primary(p));
        vec_push(p->t->a, &n->list, argument);
        n->positional = 1;
    }
    ended(p, n);
    if (!negated)
        return n;
    Node *no = jin_node_new(p, NODE_not, of->at);
    no->a = n;
    return ended(p, no);
}

static Node *parse_filters(Parser *p, Node *n)
{
    for (;;) {
        if (jin_skip_operator(p, "|"))
            n = parse_filter(p, n);
        else if (jin_skip_name(p, "is"))
            n = parse_test(p, n);
        else if (jin_at_operator(p, "("))
            n = parse_call(p, n);
        else
            return n;
    }
}

/* ---- operators ----------------------------------------------------------------------------- */

static Node *parse_unary(Parser *p, bool filters)
{
    Node *n;
    const Token *t = jin_peek(p);
    if (++p->depth > DEPTH)
        jin_parse_fail(p, t->at, t->end, "nested more than %d deep", DEPTH);
    if (jin_skip_operator(p, "-") || jin_skip_operator(p, "+")) {
        n = jin_node_new(p, is_operator(t, "-") ? NODE_negative : NODE_positive, t->at);
        n->a = parse_unary(p, false);
        ended(p, n);
    } else {
        n = jin_parse_primary(p);
    }
    n = parse_postfix(p, n);
    p->depth--;
    return filters ? parse_filters(p, n) : n;
}

static Node *parse_power(Parser *p)
{
    Node *n = parse_unary(p, true);
    if (jin_at_operator(p, "**"))
        jin_parse_fail(p, jin_peek(p)->at, jin_peek(p)->end, "'**' is not built");
    return n;
}

static Node *parse_products(Parser *p)
{
    Node *n = parse_power(p);
    for (;;) {
        const Token *t = jin_peek(p);
        if (!jin_skip_operator(p, "*") && !jin_skip_operator(p, "/") &&
            !jin_skip_operator(p, "//") && !jin_skip_operator(p, "%"))
            return n;
        n = binary(p, NODE_binary, n, t, parse_power(p));
    }
}

static Node *parse_concat(Parser *p)
{
    Node *n = parse_products(p);
    while (jin_skip_operator(p, "~"))
        n = binary(p, NODE_concat, n, NULL, parse_products(p));
    return n;
}

static Node *parse_sums(Parser *p)
{
    Node *n = parse_concat(p);
    for (;;) {
        const Token *t = jin_peek(p);
        if (!jin_skip_operator(p, "+") && !jin_skip_operator(p, "-"))
            return n;
        n = binary(p, NODE_binary, n, t, parse_concat(p));
    }
}

static const char *comparison(Parser *p)
{
    static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">="};
    for (size_t i = 0; i < 6; i++)
        if (jin_skip_operator(p, ops[i]))
            return ops[i];
    if (jin_skip_name(p, "in"))
        return "in";
    if (jin_at_name(p, "not") && is_name(jin_peek(p) + 1, "in")) {
        p->next += 2;
        return "not in";
    }
    return NULL;
}

/* a < b == c: each of two neighbours. */
static Node *parse_compare(Parser *p)
{
    Node *first = parse_sums(p), *n = NULL;
    for (const char *op; (op = comparison(p)) != NULL;) {
        if (!n) {
            n = jin_node_new(p, NODE_compare, first->at);
            n->a = first;
        }
        Node *right = jin_node_new(p, NODE_body, jin_peek(p)->at);
        right->text = op;
        right->a = parse_sums(p);
        vec_push(p->t->a, &n->list, right);
        ended(p, n);
    }
    return n ? n : first;
}

static Node *parse_not(Parser *p)
{
    const Token *t = jin_peek(p);
    if (!jin_skip_name(p, "not"))
        return parse_compare(p);
    Node *n = jin_node_new(p, NODE_not, t->at);
    if (++p->depth > DEPTH)
        jin_parse_fail(p, t->at, t->end, "nested more than %d deep", DEPTH);
    n->a = parse_not(p);
    p->depth--;
    return ended(p, n);
}

static Node *parse_and(Parser *p)
{
    Node *n = parse_not(p);
    while (jin_skip_name(p, "and"))
        n = binary(p, NODE_and, n, NULL, parse_not(p));
    return n;
}

static Node *parse_or(Parser *p)
{
    Node *n = parse_and(p);
    while (jin_skip_name(p, "or"))
        n = binary(p, NODE_or, n, NULL, parse_and(p));
    return n;
}

Node *jin_parse_expression(Parser *p)
{
    Node *n = parse_or(p);
    if (++p->depth > DEPTH)
        jin_parse_fail(p, n->at, n->end, "nested more than %d deep", DEPTH);
    while (jin_skip_name(p, "if")) {
        Node *choice = jin_node_new(p, NODE_choice, n->at);
        choice->a = n;
        choice->b = parse_or(p);
        choice->c = jin_skip_name(p, "else") ? jin_parse_expression(p) : NULL;
        n = ended(p, choice);
    }
    p->depth--;
    return n;
}
