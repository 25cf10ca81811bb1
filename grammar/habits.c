/* habits.c - what helps after an error of syntax that is right in another language.
 *
 * The parser says what it expected. Who writes `x += y` or `a ** 2` wants to know what is written
 * here instead: a row for each such habit, found by the token in the way and the one before it. A
 * word that begins a line and has a typing error gets the keyword that it is near to. */
#include "grammar/parse.h"
#include "grammar/mg.tab.h"

#include <string.h>

static bool is(const Parse *p, const Token *t, const char *word)
{
    const size_t n = t->span.end - t->span.begin;
    return n == strlen(word) && !memcmp(p->ast->text + t->span.begin, word, n);
}

static bool is_one(const Parse *p, const Token *t, const char *const *words)
{
    while (*words && !is(p, t, *words))
        words++;
    return *words;
}

static bool touch(const Token *a, const Token *b)
{
    return a->span.end == b->span.begin;
}

/* Signs behind a sign or a name: powers, comments of C, sums in place. */
static const char *of_signs(const Parse *p)
{
    static const char *const in_place[] = {"+", "-", "*", "/", NULL};
    const Token *t = &p->last, *b = &p->prior;
    if (is(p, t, "*") && is(p, b, "*") && touch(b, t))
        return "a power is `pow(a, k)`";
    if (is(p, t, "/") && is(p, b, "/") && touch(b, t))
        return "a comment begins with `#`";
    if (b->kind == IDENT && b->first && is_one(p, t, in_place))
        return "write `x = x + ...`";
    return NULL;
}

static const char *of_words(const Parse *p)
{
    if (p->last.kind == DIM && (p->prior.kind == ',' || p->prior.kind == '('))
        return "axes have names, and no numbers: `sum(x, over hidden)`";
    static const struct {
        const char *words[6];
        const char *help;
    } habits[] = {
        {{"if", "else", "elif", NULL},
         "`select(condition, a, b)` chooses, of a number or of each element"},
        {{"for", "while", NULL},
         "`repeat layers { ... }` runs a body once for each index of a dim, `scan seq { ... }` "
         "along a "
         "sequence"},
        {{"and", "or", "not", NULL}, "of two conditions: `select(a, select(b, x, y), y)`"},
        {{"def", "class", "fn", "function", NULL}, "`block name(x[hidden]) { ... return y }`"},
        {{"let", "var", "import", "from", NULL},
         "a value is `name = ...`, and a file stands by itself"},
    };
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (is_one(p, &p->last, habits[i].words) ||
            (p->prior.kind == IDENT && is_one(p, &p->prior, habits[i].words)))
            return habits[i].help;
    return NULL;
}

/* The keyword that a word at the beginning of a line is nearly, or NULL. */
static const char *near_keyword(const Parse *p, const Token *t)
{
    static const char *const statements[] = {"repeat", "scan", "return", "metric", "dim"};
    static const char *const items[] = {"dim",   "const",  "block",  "model",
                                        "train", "layout", "config", "optimizer"};
    const bool item = !p->braces;
    if (t->kind != IDENT || !t->first || p->item == TRAIN || p->item == LAYOUT)
        return NULL;
    return name_nearest(name_str(p->ast->names, t->value.name), item ? items : statements,
                        item ? sizeof items / sizeof *items
                             : sizeof statements / sizeof *statements);
}

void parse_habit(Parse *p)
{
    const char *help = of_signs(p);
    if (!help)
        help = of_words(p);
    if (help) {
        diag_help(p->diag, "%s", help);
        return;
    }
    const char *near =
        near_keyword(p, p->last.kind == IDENT && p->last.first ? &p->last : &p->prior);
    if (near)
        diag_help(p->diag, "did you mean '%s'?", near);
}
