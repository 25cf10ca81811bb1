/* words.c - the words that the language knows, one a line behind its class: for scripts/editors,
 * which writes them into the files of editors. */
#include <stdio.h>

#include "grammar/tokens.h"
#include "ir/ir.h"
#include "lsp/names.h"

#include <string.h>

static void all(const char *class, const char *const *words)
{
    for (; *words; words++)
        printf("%s %s\n", class, *words);
}

static void prelude(void)
{
    Arena *a = arena_new();
    const Index *x = index_new(a, "prelude.mg", prelude_text, strlen(prelude_text));
    for (size_t i = 0; i < x->ast->items.n; i++) {
        const Node *n = x->ast->items.data[i];
        if (n->kind == N_BLOCK || n->kind == N_OPTIMIZER)
            printf("%s %s\n", n->kind == N_BLOCK ? "function" : "value", index_text(x, n->name));
    }
    arena_free(a);
}

int main(void)
{
    for (size_t i = 0; mg_keyword(i); i++)
        printf("keyword %s\n", mg_keyword(i));
    for (size_t i = 0; mg_soft_keyword(i); i++)
        printf("soft %s\n", mg_soft_keyword(i));
    for (size_t i = 0; mg_function(i); i++)
        printf("function %s\n", mg_function(i));
    prelude();
    all("setting", mg_train_settings);
    all("setting", setting_names);
    for (size_t i = 0; mg_schedule(i); i++)
        printf("value %s\n", mg_schedule(i));
    all("value", mg_devices);
    all("value", mg_precisions);
    all("value", mg_adapters);
    all("value", mg_pipelines);
    all("value", mg_recomputes);
    all("value", mg_quantities);
    all("value", mg_update_times);
    all("value", mg_levels);
    all("value", offload_ways);
    all("value", mg_optimizer_places);
    all("value", class_names + 1);
    for (int k = 0; k < OFFLOAD_count; k++)
        printf("value %s\n", offload_names[k]);
    return 0;
}
