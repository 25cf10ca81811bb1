/* tune.c - mgc tune DIR: the model of a Hugging Face directory with an adapter's line in its train
 * block, or for an objective, and the program of that. */
#include "compiler/recipe/recipe.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* "rank=16,alpha=32" as the settings of an adapter; NULL: something else stands there. */
static const char *settings(Arena *a, const char *given)
{
    const char *text = "";
    for (const char *s = given; *s; s++) {
        if (!isalnum((unsigned char)*s) && !strchr("_=,.", *s))
            return NULL;
        text = arena_printf(a, *s == '=' ? "%s = " : *s == ',' ? "%s, " : "%s%c", text, *s);
    }
    return text;
}

/* "q_proj,v_proj" as selectors. */
static const char *selectors(Arena *a, const char *names)
{
    const char *text = "";
    while (*names) {
        const size_t n = strcspn(names, ",");
        text = arena_printf(a, "%s%s\"*.%.*s.weight\"", text, *text ? ", " : "", (int)n, names);
        names += n + (names[n] == ',');
    }
    return text;
}

/* The line of an adapter on these modules, "all" or NULL: those that adapters are mostly for. */
static const char *adapter_line(Session *s, const Imported *made, const char *numbers)
{
    const char *on = s->o->on ? s->o->on : "q_proj,v_proj";
    if (!strcmp(on, "all")) {
        const Words all = recipe_modules(s, made->module);
        on = "";
        for (size_t i = 0; i < all.n; i++)
            on = arena_printf(s->arena, "%s%s%s", on, i ? "," : "", all.data[i]);
    }
    return arena_printf(s->arena, "adapter %s(%s) on %s", s->o->dora ? "dora" : "lora", numbers,
                        selectors(s->arena, on));
}

/* The lines of an adapter, and one for what begins with random numbers: the head of an objective is
 * trained in full beside it, as PEFT does (modules_to_save). */
static const char *adapter_lines(Session *s, const Imported *made, const char *line)
{
    return *made->fresh ? arena_printf(s->arena, "%s\n    adapter whole() on %s", line, made->fresh)
                        : line;
}

/* The imported text with the line at the end of its train block, in the one form. */
static const char *with_line(Session *s, const Imported *made, const char *line)
{
    const char *train = strstr(made->text, "\ntrain {"), *end = train ? strstr(train, "\n}") : NULL;
    return end ? recipe_formatted(s, arena_printf(s->arena, "%.*s\n    %s%s",
                                                  (int)(end - made->text), made->text, line, end))
               : made->text;
}

static Exit write_source(Session *s, const char *path, const char *text)
{
    Output out;
    Exit status = text ? output_replaceable(s, path) : EXIT_source;
    if (!status && !(status = output_open(s, &out, path))) {
        fputs(text, out.file);
        status = output_close(s, &out, true);
    }
    return status;
}

Exit command_tune(Session *s)
{
    const Options *o = s->o;
    const char *given = o->dora ? o->dora : o->lora;
    const char *numbers = given ? settings(s->arena, given) : NULL;
    if (o->words.n != 1 || !o->out || (given ? !numbers : !o->objective || o->on) ||
        (o->lora && o->dora)) {
        diag_error(
            s->diag, (Span){0}, 0,
            "the form is: mgc tune DIR --lora rank=16,alpha=32 [--on q_proj,v_proj] -o train, or "
            "mgc tune DIR --objective dpo [--lora ...] -o train");
        diag_help(s->diag, "it writes train.mg, which says the same in a line of its train block, "
                           "and makes ./train of it");
        if (o->words.n == 1 && !given && !o->objective)
            diag_help(s->diag, "to train all parameters: mgc import-hf --packed DIR -o train.mg, "
                               "then mgc train.mg -o train");
        return EXIT_usage;
    }
    const char *path = arena_printf(s->arena, "%s.mg", o->out);
    Imported made;
    Options rest = *o;
    rest.command = rest.lora = rest.dora = rest.on = rest.objective = NULL;
    rest.packed = false; /* said by the text */
    rest.words = (Words){0};
    vec_push(s->arena, &rest.words, path);
    Session second = *s;
    second.o = &rest;
    Exit status = combination_check(&second); /* before anything is written */
    if (!status)
        status = import_hf(s, o->words.data[0], !o->objective, o->objective, &made);
    if (status)
        return status;
    const char *line = given ? adapter_lines(s, &made, adapter_line(s, &made, numbers)) : NULL;
    status = write_source(s, path, line ? with_line(s, &made, line) : made.text);
    if (status)
        return status;
    proposals_try(&second); /* what is proposed from here on is for the text that was written */
    return compile(&second);
}
