/* factory_model.c - the imported model with this recipe: its dims, train block and layout. */
#include "compiler/recipe/factory.h"

#include <ctype.h>
#include <string.h>

/* The text without the block that begins with the line `head`. */
static const char *without(Arena *a, const char *text, const char *head)
{
    const char *begin = strstr(text, head), *end = begin ? strstr(begin, "\n}") : NULL;
    return end ? arena_printf(a, "%.*s%s", (int)(begin - text), text, end + 2) : text;
}

/* `name = N` of a line that begins with dim becomes another number. */
static const char *with_dim(Arena *a, const char *text, const char *name, int64_t size)
{
    const char *word = arena_printf(a, " %s = ", name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *at = strncmp(line, "dim ", 4) ? NULL : strstr(line, word),
                   *end = strchr(line, '\n');
        if (!at || (end && at > end))
            continue;
        const char *number = at + strlen(word);
        const size_t n = strspn(number, "0123456789");
        return arena_printf(a, "%.*s%lld%s", (int)(number - text), text, (long long)size,
                            number + n);
    }
    return text;
}

/* The first layers are of another kind than the rest: `x = select(l < n, x, x)` begins the body. */
static const char *in_two_kinds(Arena *a, const char *text, int64_t layers)
{
    const char *repeat = strstr(text, "    repeat layers "),
               *brace = repeat ? strchr(repeat, '{') : NULL;
    const char *as = repeat ? strstr(repeat, " as \"") : NULL;
    brace = as ? strstr(as, "\" {\n") : NULL;
    if (!brace)
        return text;
    const bool counted = strncmp(repeat, "    repeat layers at l ", 23) == 0;
    return arena_printf(a,
                        "%.*s    repeat layers at l%.*s\" {\n        x = select(l < %lld, x, x)%s",
                        (int)(repeat - text), text, (int)(brace - as), as, (long long)layers,
                        brace + (counted ? 3 : 3));
}

bool factory_model(Factory *f)
{
    Arena *a = f->s->arena;
    const Recipe *r = &f->r;
    const char *text = without(a, without(a, f->made.text, "\ntrain {"), "\nlayout {");
    text = with_dim(a, text, "batch", r->micro * r->accumulate * r->ranks);
    text = with_dim(a, text, "seq", keys_whole(&f->k, "cutoff_len"));
    if (f->kept)
        text = in_two_kinds(a, text, f->kept);
    const char *config = strstr(text, "\nconfig {");
    const int head = (int)(config ? config - text : (long)strlen(text));
    const char *all = arena_printf(a, "%.*s\n%s\n%s%s", head, text, recipe_train(r),
                                   recipe_layout(r), config ? config : "");
    const uint32_t file = diag_add_file(f->s->diag, "model.mg", all, strlen(all));
    const Ast *ast = mg_parse(a, f->s->names, f->s->diag, file);
    const ElaborateOptions none = {0};
    if (!ast || !mg_elaborate(a, f->s->names, f->s->diag, ast, &none))
        return false;
    f->text = recipe_formatted(f->s, all);
    return f->text;
}
