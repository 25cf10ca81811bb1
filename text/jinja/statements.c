/* statements.c - a template as a tree of text, output and statements. */
#include "text/jinja/parts.h"

static Node *parse_body(Parser *p, const char *const *ends);

static void block_end(Parser *p)
{
    const Token *t = jin_peek(p);
    if (t->kind != TOKEN_block_end)
        jin_parse_fail(p, t->at, t->end, "'%%}' is expected here");
    p->next++;
}

/* A name that is assigned to: a variable, or a member of a namespace. */
static Node *parse_target(Parser *p)
{
    const Token *t = jin_peek(p);
    if (t->kind != TOKEN_name || jin_reserved_name(t))
        jin_parse_fail(p, t->at, t->end, "the name of a variable is expected here");
    Node *n = jin_parse_primary(p);
    if (n->kind != NODE_name)
        jin_parse_fail(p, t->at, t->end, "'%.*s' cannot be assigned to", (int)t->n, t->text);
    if (jin_skip_operator(p, ".")) {
        const Token *member = jin_peek(p);
        if (member->kind != TOKEN_name)
            jin_parse_fail(p, member->at, member->end, "a name is expected here");
        p->next++;
        Node *of = n;
        n = jin_node_new(p, NODE_member, of->at);
        n->a = of;
        n->text = arena_strndup(p->t->a, member->text, member->n);
        n->n = member->n;
        n->end = member->end;
    }
    return n;
}

static void parse_targets(Parser *p, Nodes *to, bool members)
{
    bool brackets = jin_skip_operator(p, "(");
    do {
        const Token *t = jin_peek(p);
        if (to->n && t->kind != TOKEN_name)
            break;
        vec_push(p->t->a, to, parse_target(p));
        if (!members && to->data[to->n - 1]->kind == NODE_member)
            jin_parse_fail(p, t->at, t->end, "a loop cannot assign to a member");
    } while (jin_skip_operator(p, ","));
    if (brackets)
        jin_expect_operator(p, ")");
}

static Node *parse_for(Parser *p, Node *n)
{
    static const char *const to_else[] = {"else", "endfor", NULL}, *const to_end[] = {"endfor",
                                                                                      NULL};
    parse_targets(p, &n->list, false);
    if (!jin_skip_name(p, "in"))
        jin_parse_fail(p, jin_peek(p)->at, jin_peek(p)->end, "'in' is expected here");
    n->a = jin_parse_loop_list(p);
    if (jin_skip_name(p, "if"))
        n->b = jin_parse_expression(p);
    if (jin_at_name(p, "recursive"))
        jin_parse_fail(p, jin_peek(p)->at, jin_peek(p)->end, "recursive loops are not built");
    block_end(p);
    p->loops++;
    n->c = parse_body(p, to_else);
    p->loops--;
    if (jin_skip_name(p, "else")) {
        block_end(p);
        n->d = parse_body(p, to_end);
    }
    p->next++; /* endfor */
    return n;
}

static Node *parse_if(Parser *p, Node *n)
{
    static const char *const to_next[] = {"elif", "else", "endif", NULL}, *const to_end[] = {
                                                                              "endif", NULL};
    n->a = jin_parse_tuple(p);
    block_end(p);
    n->b = parse_body(p, to_next);
    const Token *t = jin_peek(p);
    if (jin_skip_name(p, "elif")) {
        n->c = parse_if(p, jin_node_new(p, NODE_if, t->at));
        return n;
    }
    if (jin_skip_name(p, "else")) {
        block_end(p);
        n->c = parse_body(p, to_end);
    }
    p->next++; /* endif */
    return n;
}

static Node *parse_set(Parser *p, Node *n)
{
    static const char *const ends[] = {"endset", NULL};
    parse_targets(p, &n->list, true);
    if (jin_skip_operator(p, "=")) {
        n->a = jin_parse_tuple(p);
        return n;
    }
    const Token *t = jin_peek(p);
    if (n->list.n > 1)
        jin_parse_fail(p, t->at, t->end, "'=' is expected here");
    if (jin_at_operator(p, "|"))
        jin_parse_fail(p, t->at, t->end, "a filter of a 'set' block is not built");
    block_end(p);
    n->kind = NODE_set_block;
    n->b = parse_body(p, ends);
    p->next++;
    return n;
}

static Node *parse_macro(Parser *p, Node *n)
{
    static const char *const ends[] = {"endmacro", NULL};
    const Token *t = jin_peek(p);
    if (t->kind != TOKEN_name || jin_reserved_name(t))
        jin_parse_fail(p, t->at, t->end, "the name of a macro is expected here");
    p->next++;
    n->text = arena_strndup(p->t->a, t->text, t->n);
    n->name = jin_name_number(p->t, t->text, t->n);
    jin_expect_operator(p, "(");
    while (!jin_at_operator(p, ")")) {
        if (n->list.n)
            jin_expect_operator(p, ",");
        Node *name = parse_target(p), *value = NULL;
        if (name->kind != NODE_name)
            jin_parse_fail(p, name->at, name->end, "the name of a parameter is expected here");
        if (jin_skip_operator(p, "="))
            value = jin_parse_expression(p);
        else if (n->others.n && n->others.data[n->others.n - 1])
            jin_parse_fail(p, name->at, name->end, "a parameter without default after one with");
        vec_push(p->t->a, &n->list, name);
        vec_push(p->t->a, &n->others, value);
    }
    jin_expect_operator(p, ")");
    block_end(p);
    int loops = p->loops;
    p->loops = 0;
    p->macros++;
    n->a = parse_body(p, ends);
    p->macros--;
    p->loops = loops;
    p->next++;
    return n;
}

static Node *parse_generation(Parser *p, Node *n)
{
    static const char *const ends[] = {"endgeneration", NULL};
    int loops = p->loops;
    block_end(p);
    if (p->macros)
        jin_parse_fail(p, n->at, n->at + 2, "'generation' inside of a macro is not built");
    p->loops = 0;
    n->a = parse_body(p, ends);
    p->loops = loops;
    p->next++;
    p->t->generation = true;
    return n;
}

static Node *parse_jump(Parser *p, Node *n, const char *word)
{
    if (!p->loops)
        jin_parse_fail(p, n->at, n->at + 2, "'%s' outside of a loop", word);
    return n;
}

/* After the opening mark; up to its end. */
static Node *parse_statement(Parser *p)
{
    const Token *t = jin_peek(p);
    Node *n = jin_node_new(p, NODE_if, t->at);
    n->end = t->end;
    if (jin_skip_name(p, "if"))
        return parse_if(p, n);
    if (jin_skip_name(p, "for")) {
        n->kind = NODE_for;
        return parse_for(p, n);
    }
    if (jin_skip_name(p, "set")) {
        n->kind = NODE_set;
        return parse_set(p, n);
    }
    if (jin_skip_name(p, "macro")) {
        n->kind = NODE_macro;
        return parse_macro(p, n);
    }
    if (jin_skip_name(p, "generation")) {
        n->kind = NODE_generation;
        return parse_generation(p, n);
    }
    if (jin_skip_name(p, "break")) {
        n->kind = NODE_break;
        return parse_jump(p, n, "break");
    }
    if (jin_skip_name(p, "continue")) {
        n->kind = NODE_continue;
        return parse_jump(p, n, "continue");
    }
    if (t->kind != TOKEN_name)
        jin_parse_fail(p, t->at, t->end, "a statement is expected here");
    jin_parse_fail(p, t->at, t->end, "the statement '%.*s' is not built, or ends nothing",
                   (int)(t->n > 40 ? 40 : t->n), t->text);
}

static bool at_any(const Parser *p, const char *const *ends)
{
    for (; *ends; ends++)
        if (jin_at_name(p, *ends))
            return true;
    return false;
}

static void parse_output(Parser *p, Node *body)
{
    const Token *t = jin_peek(p);
    p->next++;
    Node *n = jin_node_new(p, NODE_output, t->at);
    n->a = jin_parse_tuple(p);
    n->end = n->a->end;
    if (jin_peek(p)->kind != TOKEN_close)
        jin_parse_fail(p, jin_peek(p)->at, jin_peek(p)->end, "'}}' is expected here");
    p->next++;
    vec_push(p->t->a, &body->list, n);
}

/* Up to a block that begins with one of the names, of which the name is the next token; the whole
 * template if there are none. */
static Node *parse_body(Parser *p, const char *const *ends)
{
    Node *body = jin_node_new(p, NODE_body, jin_peek(p)->at);
    if (++p->depth > 100)
        jin_parse_fail(p, jin_peek(p)->at, jin_peek(p)->end,
                       "statements nested more than 100 deep");
    for (;;) {
        const Token *t = jin_peek(p);
        if (t->kind == TOKEN_data) {
            Node *n = jin_node_new(p, NODE_data, t->at);
            n->end = t->end;
            n->text = t->text;
            n->n = t->n;
            vec_push(p->t->a, &body->list, n);
            p->next++;
        } else if (t->kind == TOKEN_open) {
            parse_output(p, body);
        } else if (t->kind == TOKEN_block) {
            p->next++;
            if (ends && at_any(p, ends))
                break;
            vec_push(p->t->a, &body->list, parse_statement(p));
            block_end(p);
        } else if (t->kind == TOKEN_end && !ends) {
            break;
        } else {
            jin_parse_fail(p, t->at, t->end, "'{%% %s %%}' is missing", ends ? *ends : "");
        }
    }
    p->depth--;
    return body;
}

Node *jin_parse_template(Parser *p)
{
    return parse_body(p, NULL);
}

JinTemplate *jin_parse(Arena *a, const char *source, size_t n, JinError *e)
{
    JinTemplate *t = NEW(a, JinTemplate);
    Parser *p = NEW(a, Parser);
    t->a = a;
    t->source = source;
    t->size = n;
    p->t = t;
    p->e = e;
    if (n >= 1 << 24) {
        *e = (JinError){.text = "a template of more than 16 MB", .end = 1};
        return NULL;
    }
    if (setjmp(p->fail))
        return NULL;
    jin_lex(p);
    t->body = jin_parse_template(p);
    return t;
}

bool jin_has_generation(const JinTemplate *t)
{
    return t->generation;
}
