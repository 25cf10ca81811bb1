/* parse.c - around lexer and parser: the token source, recovery after errors, messages, nodes. */
#include "grammar/parse.h"
#include "grammar/mg.tab.h"

#define YYSTYPE Semantic /* as mg.lex.h knows them */
#define YYLTYPE Span
#include "grammar/mg.lex.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 64 << 20 };

void parse_fatal(const char *message)
{
    fprintf(stderr, "mgc: %s\n", message);
    exit(70);
}

/* ---- tokens ------------------------------------------------------------------------------- */

void parse_comment(Parse *p, Span at, const char *text, size_t n)
{
    while (n > 1 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        n--;
    Comment c = {at, arena_strndup(p->ast->arena, text, n)};
    vec_push(p->ast->arena, &p->ast->comments, c);
}

/* The text of a string: what may go into file names, messages and emitted C as it is. */
const char *parse_string(Parse *p, Span at, const char *text, size_t n)
{
    if (n > PARSE_STRING_MAX) {
        diag_error(p->diag, at, 102, "a string of %zu bytes; the limit is %d", n, PARSE_STRING_MAX);
        return "_";
    }
    for (size_t i = 0; i < n; i++)
        if (text[i] < 32 || text[i] > 126 || text[i] == '\\') {
            Span byte = {at.file, at.begin + 1 + (uint32_t)i, at.begin + 2 + (uint32_t)i};
            diag_error(p->diag, byte, 103, "a string holds printable ASCII without '\\'");
            return "_";
        }
    return arena_strndup(p->ast->arena, text, n);
}

static Token lex(Parse *p)
{
    Token t = {0};
    t.kind = mgl_lex(&t.value, &t.span, p->scanner);
    if (!t.kind) /* the newline that was added is not of the file */
        t.span = (Span){p->ast->file, p->offset - 1, p->offset - 1};
    t.first = p->line_start;
    p->line_start = false;
    return t;
}

static void hand_back(Parse *p, Token t)
{
    vec_push(p->ast->arena, &p->queue, t);
}

/* Words that begin a line or a body and stand before a value: items outside of all braces,
 * declarations in an optimizer. Everywhere else they are names. */
static int word_of_optimizer(const Parse *p, const Token *t)
{
    static const struct {
        const char *word;
        int kind;
        bool item;
    } words[] = {{"optimizer", OPTIMIZER, true},
                 {"setting", SETTING, true},
                 {"state", STATE, false},
                 {"rest", REST, false}};
    const char *name = name_str(p->ast->names, t->value.name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].word, name) &&
            (words[i].item ? !p->braces : p->braces == 1 && p->item == OPTIMIZER))
            return words[i].kind;
    return IDENT;
}

/* The name x before a number is the sign of `h100 x 8`. The name at, behind a name or a parenthesis
 * and before a value, is that of `repeat layers at l` and `[rows at 8, hidden]`. Nothing else could
 * stand so. */
static bool is_at(const Token *t, int before, const Token *after)
{
    return !t->first && (before == IDENT || before == ')') && !after->first &&
           (after->kind == IDENT || after->kind == NUMBER || after->kind == '(');
}

/* The name follows, behind that of a block and before another: `target : block encoder follows
 * online by 0.99`. No statement begins with two names. */
static bool is_follows(int before, const Token *after)
{
    return (before == IDENT || before == STRING) && after->kind == IDENT && !after->first;
}

/* In a train block the name adapter, before another where a setting may begin, and on behind the
 * parenthesis of its settings. No setting is called so. */
static bool is_of_adapter(const Parse *p, const Token *t, int before, const Token *after)
{
    if (p->item != TRAIN || p->braces != 1)
        return false;
    if (t->value.name == p->on)
        return before == ')';
    const bool begins =
        t->first || before == '{' || before == ')' || before == NUMBER || before == STRING;
    return begins && after->kind == IDENT && !after->first;
}

static Token next(Parse *p)
{
    if (p->queue.n)
        return p->queue.data[--p->queue.n];
    const int before = p->before;
    Token t = lex(p);
    p->before = t.kind;
    if (t.kind == IDENT && (t.first || before == '{') && word_of_optimizer(p, &t) != IDENT) {
        Token after = lex(p);
        p->before = after.kind;
        hand_back(p, after);
        if (after.kind == IDENT || after.kind == NUMBER || (after.kind == '-' && !p->braces))
            t.kind = word_of_optimizer(p, &t);
    }
    if (t.kind == IDENT && (t.value.name == p->adapter || t.value.name == p->on)) {
        Token after = lex(p);
        p->before = after.kind;
        hand_back(p, after);
        if (is_of_adapter(p, &t, before, &after))
            t.kind = t.value.name == p->adapter ? ADAPTER : ON;
    }
    if (t.kind == IDENT &&
        (t.value.name == p->x || t.value.name == p->at || t.value.name == p->follows)) {
        Token after = lex(p);
        p->before = after.kind;
        hand_back(p, after);
        if (t.value.name == p->x)
            t.kind = after.kind == NUMBER ? TIMES : IDENT;
        else if (t.value.name == p->follows)
            t.kind = is_follows(before, &after) ? FOLLOWS : IDENT;
        else
            t.kind = is_at(&t, before, &after) ? AT : IDENT;
    }
    return t;
}

/* Does an item begin here? `dim` begins one only at the start of a line's text. */
static bool begins_item(const Parse *p, const Token *t)
{
    bool margin = !t->span.begin || p->ast->text[t->span.begin - 1] == '\n';
    return t->first && (t->kind == BLOCK || t->kind == MODEL || t->kind == TRAIN ||
                        t->kind == LAYOUT || t->kind == CONFIG || t->kind == OPTIMIZER ||
                        t->kind == SETTING || (margin && (t->kind == DIM || t->kind == CONST)));
}

/* Do a name's `=` or `:`, or the other names of several and their `=`, come next? */
static bool goes_on_as_statement(Parse *p)
{
    enum { LOOK = 16 };
    Token seen[LOOK];
    int n = 0;
    bool names = true;
    while (names && n + 2 <= LOOK) {
        seen[n++] = next(p);
        names = seen[n - 1].kind == ',';
        if (names)
            seen[n++] = next(p);
        names = names && seen[n - 1].kind == IDENT;
    }
    bool found = seen[n - 1].kind == '=' || (n == 1 && seen[0].kind == ':');
    while (n > 0)
        hand_back(p, seen[--n]);
    return found;
}

static bool begins_statement(Parse *p, const Token *t)
{
    if (!t->first)
        return false;
    if (t->kind == METRIC || t->kind == REPEAT || t->kind == SCAN || t->kind == RETURN ||
        t->kind == DIM)
        return true;
    if (t->kind != IDENT || p->item == TRAIN || p->item == LAYOUT)
        return t->kind == IDENT || t->kind == ADAPTER;
    return goes_on_as_statement(p);
}

/* After an error at p->last: skips to where something new begins, closes the braces that must have
 * been forgotten, and puts RESUME before it. */
static void find_resumption(Parse *p)
{
    int skipped = 0; /* braces opened by what is skipped */
    Token t = p->last, resume = {.kind = RESUME}, close = {.kind = '}'};
    p->braces -= t.kind == '{' ? 1 : t.kind == '}' ? -1 : 0;
    for (;; t = next(p)) {
        bool item = t.kind == 0 || begins_item(p, &t);
        if (item || (skipped == 0 && p->braces > 0 && (t.kind == '}' || begins_statement(p, &t)))) {
            hand_back(p, t);
            close.span = resume.span = t.span;
            for (int i = 0; item && i < p->braces; i++)
                hand_back(p, close);
            hand_back(p, resume);
            return;
        }
        skipped += t.kind == '{' ? 1 : t.kind == '}' && skipped ? -1 : 0;
    }
}

int parse_token(Semantic *value, Span *span, Parse *p)
{
    if (p->recover) {
        p->recover = false;
        if (!diag_enough(p->diag))
            find_resumption(p);
    }
    Token t = diag_enough(p->diag) ? (Token){.span = p->last.span} : next(p);
    if (t.kind == '{' && p->braces == 0)
        p->opened = t.span;
    p->braces += t.kind == '{' ? 1 : t.kind == '}' ? -1 : 0;
    if (begins_item(p, &t) && p->braces == 0)
        p->item = t.kind;
    p->prior = p->last;
    p->last = t;
    *value = t.value;
    *span = t.span;
    return t.kind;
}

/* ---- messages ----------------------------------------------------------------------------- */

static bool is_keyword(int kind)
{
    return kind >= DIM && kind <= TO;
}

/* "'x', a name or 'y'" of the symbols that would have been legal. */
static const char *any_of(Parse *p, const char *const *expected, int n)
{
    const char *text = "";
    for (int i = 0; i < n; i++) {
        const char *e = expected[i];
        bool bare = e[0] == '\'' || strchr(e, ' ');
        text = arena_printf(p->ast->arena, "%s%s%s%s%s", text,
                            i == 0       ? ""
                            : i == n - 1 ? " or "
                                         : ", ",
                            bare ? "" : "'", e, bare ? "" : "'");
    }
    return text;
}

void parse_unexpected(Parse *p, const char *const *expected, int n, bool wants_over)
{
    const Token *t = &p->last;
    bool name = false;
    for (int i = 0; i < n; i++)
        name |= strcmp(expected[i], "a name") == 0;
    size_t length = t->span.end - t->span.begin;
    const char *found =
        t->kind == 0 ? "the end of the file"
                     : arena_printf(p->ast->arena, "'%.*s%s'", (int)(length > 40 ? 40 : length),
                                    p->ast->text + t->span.begin, length > 40 ? "..." : "");
    p->recover = true;
    if (p->braces > 0 && (t->kind == 0 || begins_item(p, t))) {
        diag_error(p->diag, t->span, 105, "expected '}' before %s", found);
        diag_note(p->diag, p->opened, "to close this one");
        return;
    }
    if (wants_over) {
        diag_error(p->diag, t->span, 106, "expected 'over' and the dims that '@' sums, found %s",
                   found);
        diag_help(p->diag, "write `a @ b over d`, or `over (d, e)` for several");
        return;
    }
    if (n)
        diag_error(p->diag, t->span, 105, "expected %s, found %s", any_of(p, expected, n), found);
    else
        diag_error(p->diag, t->span, 105, "%s cannot stand here", found);
    if ((name || (!n && t->first && p->braces)) && is_keyword(t->kind))
        diag_help(p->diag, "%s is a reserved word: choose another name", found);
    else
        parse_habit(p);
}

static void too_deep(Parse *p, Span at)
{
    if (!p->deep)
        diag_error(p->diag, at, 107, "nested too deeply; the limit is %d levels", AST_DEPTH_MAX);
    p->deep = true;
}

void parse_exhausted(Parse *p, const char *message)
{
    (void)message;
    too_deep(p, p->last.span);
}

/* ---- nodes -------------------------------------------------------------------------------- */

static void deepen(Node *n, const Node *child)
{
    if (child && child->depth >= n->depth)
        n->depth = child->depth + 1;
}

Node *node_make(Parse *p, const Node *given)
{
    Node *n = NEW(p->ast->arena, Node);
    *n = *given;
    n->depth = 1;
    if (!n->at.file)
        n->at = n->span;
    deepen(n, n->a);
    deepen(n, n->b);
    for (size_t i = 0; i < n->list.n; i++)
        deepen(n, n->list.data[i]);
    for (size_t i = 0; i < n->more.n; i++)
        deepen(n, n->more.data[i]);
    if (n->depth > AST_DEPTH_MAX)
        too_deep(p, n->at);
    return n;
}

NodeList *list_new(Parse *p, Node *first)
{
    NodeList *l = NEW(p->ast->arena, NodeList);
    return first ? list_add(p, l, first) : l;
}

NodeList *list_add(Parse *p, NodeList *l, Node *n)
{
    vec_push(p->ast->arena, l, n);
    return l;
}

/* ---- entry -------------------------------------------------------------------------------- */

/* The two bytes that editors put before UTF-16, in either order. */
static bool is_utf16(const char *text, size_t n)
{
    return n > 1 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2));
}

/* The bytes of the mark that some editors put before UTF-8: blanks to the lexer. */
static size_t byte_order_mark(const char *text, size_t n)
{
    return n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
}

/* A copy of the text for the lexer: the last line gets its end, and it wants two NULs behind. */
Parse *parse_open(Arena *a, Names *names, Diag *d, uint32_t file, size_t skip)
{
    size_t size;
    Parse *p = NEW(a, Parse);
    p->ast = NEW(a, Ast);
    *p->ast = (Ast){.arena = a, .names = names, .file = file, .path = diag_path(d, file)};
    p->ast->text = diag_text(d, file, &size);
    p->diag = d;
    p->x = name_intern(names, "x");
    p->at = name_intern(names, "at");
    p->follows = name_intern(names, "follows");
    p->adapter = name_intern(names, "adapter");
    p->on = name_intern(names, "on");
    p->line_start = true;
    if (size > FILE_MAX) {
        diag_error(d, (Span){file, 0, 0}, 108, "a file of %zu bytes; the limit is %d", size,
                   FILE_MAX);
        return NULL;
    }
    if (is_utf16(p->ast->text, size)) {
        diag_error(d, (Span){file, 0, 2}, 101,
                   "the file is UTF-16: every other byte of it means nothing here");
        diag_help(d, "save it as UTF-8 or ASCII");
        return NULL;
    }
    char *copy = arena_alloc(a, size + 3);
    memcpy(copy, p->ast->text, size);
    copy[size] = '\n';
    memset(copy, ' ', skip ? skip : byte_order_mark(copy, size));
    if (mgl_lex_init_extra(p, &p->scanner))
        parse_fatal("out of memory");
    mgl__scan_buffer(copy, size + 3, p->scanner);
    return p;
}

void parse_close(Parse *p)
{
    mgl_lex_destroy(p->scanner);
}

int parse_lex(Parse *p, Semantic *value, Span *span)
{
    const Token t = lex(p);
    *value = t.value;
    *span = t.span;
    return t.kind;
}

/* whole: whether there was no error. */
static Parse *run(Arena *a, Names *names, Diag *d, uint32_t file, size_t skip, int start,
                  bool *whole)
{
    const int errors = diag_errors(d);
    Parse *p = parse_open(a, names, d, file, skip);
    *whole = false;
    if (!p)
        return NULL;
    hand_back(p, (Token){.kind = start, .span = {file, 0, 0}});
    const int failed = mgy_parse(p);
    parse_close(p);
    *whole = !failed && diag_errors(d) == errors;
    return p;
}

Ast *mg_parse(Arena *a, Names *names, Diag *d, uint32_t file)
{
    bool whole;
    Parse *p = run(a, names, d, file, 0, START_FILE, &whole);
    return whole ? p->ast : NULL;
}

Ast *mg_parse_rest(Arena *a, Names *names, Diag *d, uint32_t file)
{
    bool whole;
    Parse *p = run(a, names, d, file, 0, START_FILE, &whole);
    return p ? p->ast : NULL;
}

const Node *parse_expression(Arena *a, Names *names, Diag *d, uint32_t file, size_t skip)
{
    bool whole;
    Parse *p = run(a, names, d, file, skip, START_EXPRESSION, &whole);
    return whole ? p->expression : NULL;
}
