/* config.c - reading the values of settings; see config.h. */
#include "grammar/config.h"

#include <string.h>

const Node *config_value(Elab *e, const Node *setting)
{
    if (setting->list.n == 1 && setting->list.data[0]->kind != N_BIND &&
        setting->list.data[0]->kind != N_PAD)
        return setting->list.data[0];
    fail(e, setting->at, 302, "'%s' takes one value", text(e, setting->name));
    return NULL;
}

static size_t count(const char *const *names)
{
    size_t n = 0;
    while (names[n])
        n++;
    return n;
}

static void list_legal(Elab *e, const char *word, const char *const *names)
{
    const char *all = "";
    for (size_t i = 0; names[i]; i++)
        all = arena_printf(e->arena, "%s%s%s", all, i ? ", " : "", names[i]);
    suggest(e, word, names, count(names));
    help(e, "there is: %s", all);
}

int config_choice(Elab *e, const Node *value, const char *what, const char *const *names, int code)
{
    const char *word = value->kind == N_NAME || value->kind == N_CALL ? text(e, value->name)
                       : value->kind == N_WORD                        ? value->text
                                                                      : NULL;
    for (int i = 0; word && names[i]; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    if (word)
        fail(e, value->at, code, "there is no %s '%s'", what, word);
    else
        fail(e, value->span, code, "this is not the name of a %s", what);
    list_legal(e, word ? word : "", names);
    return -1;
}

bool config_args(Elab *e, const Node *value, const char *const *names, const Node **slots,
                 const char *conditional, int code)
{
    size_t next = 0, n = count(names);
    memset(slots, 0, n * sizeof *slots);
    for (size_t i = 0; i < value->list.n; i++) {
        const Node *arg = value->list.data[i];
        const char *word = arg->kind == N_NAMED ? text(e, arg->name) : NULL;
        size_t k = next;
        for (size_t j = 0; word && j < n; j++)
            k = strcmp(names[j], word) == 0 ? j : k;
        bool known = word ? k < n && strcmp(names[k], word) == 0 : k < n;
        if (!known || arg->kind == N_OVER || arg->kind == N_ALONG) {
            fail(e, arg->at, code,
                 word ? "'%s' has no argument '%s'" : "'%s' takes no such argument",
                 text(e, value->name), word);
            list_legal(e, word ? word : "", names);
            return false;
        }
        if (slots[k]) {
            fail(e, arg->at, code, "'%s' is given twice", names[k]);
            return false;
        }
        if (arg->kind == N_NAMED && arg->b && (!conditional || strcmp(conditional, word) != 0)) {
            fail(e, arg->b->span, code, "'%s' takes no condition", word);
            return false;
        }
        slots[k] = arg;
        next = k + 1;
    }
    return true;
}

static const Node *value_of(const Node *n)
{
    return n->kind == N_NAMED ? n->a : n;
}

bool config_real(Elab *e, const Node *n, double *d)
{
    Number number;
    bool ok = global_number(e, value_of(n), &number);
    *d = number.d;
    return ok;
}

bool config_integer(Elab *e, const Node *n, int64_t least, int64_t *i, int code)
{
    Number number;
    if (!global_number(e, value_of(n), &number))
        return false;
    if (number_integer(number, i) && *i >= least)
        return true;
    fail(e, value_of(n)->span, code, "this is %s; an integer of at least %lld is wanted",
         number_text(e->arena, number), (long long)least);
    return false;
}
