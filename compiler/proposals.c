/* proposals.c - remedies are tried by compiling once more with them, and written as edits. */
#include "base/trial.h"
#include "compiler/session.h"

#include <jansson.h>
#include <string.h>

/* ---- trying ---------------------------------------------------------------------------------- */

/* Adds `more` to *o: a single option takes the place of the one there, a list is appended. */
static void merge(Arena *a, Options *o, const Options *more)
{
#define OPTION_TEXT(field, ...) o->field = more->field ? more->field : o->field;
#define OPTION_LIST(field, ...)                                                                    \
    for (size_t i = 0; i < more->field.n; i++)                                                     \
        vec_push(a, &o->field, more->field.data[i]);
#define OPTION_CHOICE(field, ...) OPTION_TEXT(field)
#define OPTION_MAYBE(field, ...)  OPTION_TEXT(field)
#define OPTION_FLAG(field, ...)   o->field |= more->field;
#include "compiler/options.def"
}

bool option_add(Arena *a, Options *o, const char *text)
{
    char *word = arena_strdup(a, text), *blank = strchr(word, ' ');
    char *argv[3] = {"mgc", word, blank ? blank + 1 : NULL};
    Options more;
    if (blank)
        *blank = 0;
    if (!options_parse(&more, blank ? 3 : 2, argv, a, stderr))
        return false;
    merge(a, o, &more);
    return true;
}

/* All is checked, and nothing is written. */
static void only_check(Options *o)
{
    o->check = !o->command || !strcmp(o->command, "fmt");
    o->out = o->elastic = o->emit = o->plan = o->trace = o->report = o->memory = o->proposals =
        NULL;
    o->with_kernels = o->frontier = o->fusion = o->schedule = o->time_passes = false;
    o->print_after.n = 0;
}

static void run(void *ctx, Diag *d, const Remedy *edits)
{
    const Session *given = ctx;
    Options o = *given->o;
    Arena *a = arena_new();
    Session s = {.arena = a, .names = names_new(a), .diag = d, .o = &o, .trial = true};
    only_check(&o);
    for (int i = 0; i < edits->n; i++)
        if (!edits->edit[i].at.file && !option_add(a, &o, edits->edit[i].with))
            diag_error(d, (Span){0}, 0, "no option");
    if (diag_errors(d))
        return;
    if (o.command)
        command_run(&s);
    else
        compile(&s);
}

void proposals_try(Session *s)
{
    trial_begin(s->arena, s->diag, run, s);
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *edit_json(const Diag *d, const Edit *e)
{
    return e->at.file ? json_pack("{s:s, s:i, s:i, s:s}", "file", diag_path(d, e->at.file), "begin",
                                  (int)e->at.begin, "end", (int)e->at.end, "with", e->with)
                      : json_pack("{s:s}", "option", e->with);
}

static json_t *told_json(const Diag *d, const Told *t)
{
    json_t *edits = json_array();
    for (int i = 0; i < t->remedy.n; i++)
        json_array_append_new(edits, edit_json(d, &t->remedy.edit[i]));
    return json_pack("{s:o, s:o, s:i, s:s, s:o}", "code", json_sprintf("MG%04d", t->code), "file",
                     t->at.file ? json_string(diag_path(d, t->at.file)) : json_null(), "begin",
                     (int)t->at.begin, "help", t->said, "edits", edits);
}

Exit proposals_write(Session *s, const char *path)
{
    const ToldList *told = diag_told(s->diag);
    json_t *all = json_array();
    Output out;
    for (size_t i = 0; i < told->n; i++)
        json_array_append_new(all, told_json(s->diag, &told->data[i]));
    Exit wrong = output_open(s, &out, path);
    if (!wrong) {
        json_dumpf(all, out.file, JSON_INDENT(2));
        fputc('\n', out.file);
        wrong = output_close(s, &out, true);
    }
    json_decref(all);
    return wrong;
}
