/* modules.c - the modules of a model that adapters may be for, by the names that PEFT gives them.
 */
#include "compiler/recipe/recipe.h"

#include <string.h>

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* "q_proj" of "model.layers.{}.self_attn.q_proj.weight", if a matrix of a layer has it. */
static const char *module_name(const Session *s, const Tensor *t)
{
    const char *name = t->external ? name_str(s->names, t->external) : "";
    const size_t n = strlen(name), end = strlen(".weight");
    const bool fits = !t->slot && t->stacked == 1 && !t->numbered && t->external_rank == 2 &&
                      n > end && !strcmp(name + n - end, ".weight");
    return fits ? last_part(arena_strndup(s->arena, name, n - end)) : NULL;
}

static bool among(const Words *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (!strcmp(w->data[i], name))
            return true;
    return false;
}

Words recipe_modules(const Session *s, const Module *m)
{
    Words all = {0};
    for (size_t i = 0; i < m->tensors.n; i++) {
        const char *name = module_name(s, &m->tensors.data[i]);
        if (name && !among(&all, name))
            vec_push(s->arena, &all, name);
    }
    return all;
}
