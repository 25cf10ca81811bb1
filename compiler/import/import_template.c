/* import_template.c - the template of a family, line by line, from top to bottom.
 *
 * A line that begins with % is an instruction; all others are text of the model, in which $name and
 * $(expression) stand for values.
 *
 *   %include "parts/rope.mg"      the lines of another file
 *   %key ...                      a key of config.json (import_key.c)
 *   %option ...                   a setting of an objective, in the same form
 *   %config NAME = EXPRESSION, ... what config.json has from here on; null: not this key
 *   %ignore NAME, NAME            keys that do not change the mathematics of training
 *   %let NAME = EXPRESSION, NAME = EXPRESSION
 *   %require EXPRESSION, "KEY", "what is wrong with it"
 *   %extra "PATTERN"              tensors of files that are no parameters
 *   %new "PATTERN"                parameters that files may lack
 *   %if EXPRESSION, %elif EXPRESSION, %else, %end
 *   %# a remark about the template */
#include "compiler/import/import.h"

#include <ctype.h>
#include <string.h>

enum { INCLUDES_MAX = 8, CONDITIONS_MAX = 16 };

/* Of the conditions around a line. */
typedef struct Condition {
    uint32_t begin;
    bool outside, now, done; /* all around hold; its lines are read; one of its branches was */
} Condition;

typedef struct Runner {
    Import *h;
    int includes;
} Runner;

static bool run_file(Runner *r, const char *path);

/* ---- text ------------------------------------------------------------------------------------ */

static const char *value_text(Cursor *c, uint32_t begin, const json_t *v)
{
    if (json_is_string(v))
        return json_string_value(v);
    if (json_is_number(v))
        return import_number(c->h, v);
    if (json_is_boolean(v))
        return json_is_true(v) ? "1" : "0";
    import_refuse(c, begin, "%s is not text of a model", import_shown(c->h, v));
    return NULL;
}

/* The text in the place of `$...`; the cursor is at the $. */
static const char *replaced(Cursor *c)
{
    const uint32_t begin = c->at++;
    json_t *v = NULL;
    if (c->at < c->end && c->text[c->at] == '(') {
        c->at++;
        v = import_eval(c);
        if (!v || !import_expect(c, ")"))
            return NULL;
    } else {
        const char *name = import_name(c, false);
        if (name && !(v = json_object_get(c->h->values, name)))
            import_refuse(c, begin, "there is no key and no value '%s' before this line", name);
    }
    return v ? value_text(c, begin, v) : NULL;
}

static bool copy_line(Cursor *c)
{
    while (c->at < c->end)
        if (c->text[c->at] == '$') {
            const char *text = replaced(c);
            if (!text)
                return false;
            fputs(text, c->h->out);
        } else {
            fputc(c->text[c->at++], c->h->out);
        }
    fputc('\n', c->h->out);
    return true;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static bool ignore(Cursor *c)
{
    const char *name;
    do {
        if (!(name = import_name(c, true)))
            return false;
        json_object_set_new(c->h->known, name, json_true());
    } while (import_accept(c, ","));
    return true;
}

static bool let(Cursor *c)
{
    do {
        const char *name = import_name(c, false);
        json_t *v = name && import_expect(c, "=") ? import_eval(c) : NULL;
        if (!v)
            return false;
        json_object_set(c->h->values, name, v);
    } while (import_accept(c, ","));
    return true;
}

/* A key of the written model's config.json that is another one than in the directory. */
static bool config(Cursor *c)
{
    do {
        const char *name = import_name(c, false);
        json_t *v = name && import_expect(c, "=") ? import_eval(c) : NULL;
        if (!v)
            return false;
        json_object_del(c->h->config, name);
        if (!json_is_null(v))
            json_object_set(c->h->config, name, v);
        json_object_set_new(c->h->known, name, json_true());
    } while (import_accept(c, ","));
    return true;
}

static const char *text_of(Cursor *c)
{
    const uint32_t begin = c->at;
    json_t *v = import_eval(c);
    if (v && !json_is_string(v))
        import_refuse(c, begin, "a text is expected here");
    return json_string_value(v);
}

static bool require(Cursor *c)
{
    json_t *v = import_eval(c);
    const char *key = v && import_expect(c, ",") ? text_of(c) : NULL;
    const char *why = key && import_expect(c, ",") ? text_of(c) : NULL;
    if (!why || import_true(v))
        return why;
    return json_object_get(c->h->declared, key) ? import_bad_option(c->h, key, "%s", why)
                                                : import_bad(c->h, key, "%s", why);
}

static bool pattern(Cursor *c, json_t *list)
{
    const char *text = text_of(c);
    if (text)
        json_array_append_new(list, json_string(text));
    return text;
}

static bool include(Runner *r, Cursor *c)
{
    const uint32_t begin = c->at;
    const char *name = text_of(c);
    if (!name)
        return false;
    if (r->includes == INCLUDES_MAX)
        return import_refuse(c, begin, "files include each other more than %d deep", INCLUDES_MAX);
    r->includes++;
    const bool good = run_file(r, name);
    r->includes--;
    return good;
}

static bool instruction(Runner *r, Cursor *c)
{
    const uint32_t begin = c->at - 1;
    bool good;
    if (import_accept(c, "key"))
        good = import_key(c, false);
    else if (import_accept(c, "option"))
        good = import_key(c, true);
    else if (import_accept(c, "config"))
        good = config(c);
    else if (import_accept(c, "ignore"))
        good = ignore(c);
    else if (import_accept(c, "let"))
        good = let(c);
    else if (import_accept(c, "require"))
        good = require(c);
    else if (import_accept(c, "extra"))
        good = pattern(c, c->h->extra);
    else if (import_accept(c, "new"))
        good = pattern(c, c->h->fresh);
    else if (import_accept(c, "include"))
        good = include(r, c);
    else
        return import_refuse(c, begin, "there is no such instruction");
    return good && (import_ends(c) || import_refuse(c, c->at, "the line ends here"));
}

/* ---- conditions ------------------------------------------------------------------------------ */

static bool begin_condition(Cursor *c, Condition *all, int *n, bool outside)
{
    if (*n == CONDITIONS_MAX)
        return import_refuse(c, c->at, "conditions are more than %d deep", CONDITIONS_MAX);
    c->dead += !outside;
    json_t *v = import_eval(c);
    c->dead -= !outside;
    const bool now = v && outside && import_true(v);
    all[(*n)++] = (Condition){c->at, outside, now, now};
    return v;
}

static bool next_branch(Cursor *c, Condition *top, bool last)
{
    const bool may = top->outside && !top->done;
    json_t *v = NULL;
    if (!last) {
        c->dead += !may;
        v = import_eval(c);
        c->dead -= !may;
        if (!v)
            return false;
    }
    top->now = may && (last || import_true(v));
    top->done |= top->now || last;
    return true;
}

/* 1: the line was about conditions, 0: it was not, -1: an error was told. */
static int condition(Cursor *c, Condition *all, int *n)
{
    const uint32_t begin = c->at - 1;
    bool good = true;
    if (import_accept(c, "if"))
        good = begin_condition(c, all, n, !*n || all[*n - 1].now);
    else if (!import_accept(c, "elif") && !import_accept(c, "else") && !import_accept(c, "end"))
        return 0;
    else if (!*n)
        good = import_refuse(c, begin, "there is no %%if before this");
    else if (!strncmp(c->text + begin, "%end", 4))
        --*n;
    else
        good = next_branch(c, &all[*n - 1], !strncmp(c->text + begin, "%else", 5));
    good = good && (import_ends(c) || import_refuse(c, c->at, "the line ends here"));
    return good ? 1 : -1;
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool run_line(Runner *r, Cursor *c, Condition *all, int *n)
{
    if (c->at < c->end && c->text[c->at] == '%') {
        if (++c->at < c->end && c->text[c->at] == '#')
            return true;
        const int is = condition(c, all, n);
        return is ? is > 0 : (*n && !all[*n - 1].now) || instruction(r, c);
    }
    return (*n && !all[*n - 1].now) || copy_line(c);
}

static bool run_file(Runner *r, const char *name)
{
    Import *h = r->h;
    Condition all[CONDITIONS_MAX];
    int n = 0;
    size_t size;
    const char *path = arena_printf(h->s->arena, "%s/hf/%s", home_dir(h->s->arena), name);
    const uint32_t file = read_source(h->s, path);
    if (!file)
        return false;
    const char *text = diag_text(h->s->diag, file, &size);
    for (uint32_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        const uint32_t next = end ? (uint32_t)(end - text) : (uint32_t)size;
        Cursor c = {.h = h, .file = file, .text = text, .at = at, .end = next};
        if (!run_line(r, &c, all, &n))
            return false;
        at = next + 1;
    }
    Cursor c = {.h = h, .file = file, .text = text, .at = n ? all[n - 1].begin : 0};
    return !n || import_refuse(&c, c.at, "this %%if has no %%end");
}

bool import_template(Import *h)
{
    Runner r = {.h = h};
    return run_file(&r, h->objective ? arena_printf(h->s->arena, "objectives/%s.mg", h->objective)
                                     : arena_printf(h->s->arena, "%s.mg", h->family));
}
