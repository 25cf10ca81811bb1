/* command.c - mgc lsp: the language server of lsp/, which has this compiler look at texts. */
#include "compiler/lsp/facts.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lsp/lsp.h"

static void write_part(FILE *out, json_t *part)
{
    json_dumpf(part, out, JSON_COMPACT);
    fputc('\n', out);
    fflush(out);
    json_decref(part);
}

/* An option of the editor's that no compile of a text takes is told like an error of the text. */
static bool take_options(Session *s, Options *o, const LspAsk *ask)
{
    bool good = true;
    for (size_t i = 0; i < ask->noptions; i++) {
        Options one = {0};
        const bool is = option_add(s->arena, &one, ask->options[i]) && !one.command &&
                        !one.words.n && !one.help && !one.version && !one.proposals &&
                        !options_untaken(&one, "lsp");
        if (is)
            good &= option_add(s->arena, o, ask->options[i]);
        else
            diag_error(s->diag, (Span){0}, 658, "'%s' is no option of a model or a layout",
                       ask->options[i]);
        good &= is;
    }
    return good;
}

/* The person may go on writing: plans, and trials of remedies, are for texts that rest, and others
 * go before them. */
static void rest(void)
{
    enum { LESS_URGENT = 5 };
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    (void)!nice(LESS_URGENT);
}

/* Begins a look at a text: nothing has been heard. */
static void listen(Heard *h)
{
    *h = (Heard){.arena = arena_new(),
                 .messages = json_array(),
                 .values = json_array(),
                 .tensors = json_array()};
    h->names = names_new(h->arena);
    h->diag = diag_heard(h->arena, ERRORS_MAX, heard_message, h);
}

/* Types, and what elaboration finds wrong. */
static json_t *look_at_source(const Options *o, const char *path)
{
    Heard h;
    listen(&h);
    const Seen seen = {heard_value, &h};
    Session s = {
        .arena = h.arena, .names = h.names, .diag = h.diag, .o = o, .seen = &seen, .quick = true};
    Compiled c = {0};
    if (!combination_check(&s) && !compile_front(&s, path, &c))
        heard_tensors(&h, c.module);
    return json_pack("{s:s, s:o, s:o, s:o}", "part", "source", "messages", h.messages, "values",
                     h.values, "tensors", h.tensors);
}

/* The plan, and what works of what is proposed against errors. */
static json_t *look_at_plan(const Options *o, const char *path)
{
    Heard h;
    listen(&h);
    const Seen seen = {heard_value, &h};
    Session s = {.arena = h.arena, .names = h.names, .diag = h.diag, .o = o, .seen = &seen};
    Compiled c = {0};
    proposals_try(&s);
    if (!combination_check(&s) && !compile_front(&s, path, &c))
        compile_middle(&s, &c, NULL, NULL);
    json_t *part = json_pack("{s:s, s:O, s:o}", "part", "plan", "messages", h.messages, "fixes",
                             facts_fixes(h.diag));
    if (c.plan)
        facts_plan(&s, &c, &h, part);
    return part;
}

static json_t *wrong_options(Session *s, Options *o, const LspAsk *ask)
{
    Heard h;
    listen(&h);
    Session one = *s;
    one.arena = h.arena;
    one.diag = h.diag;
    return take_options(&one, o, ask)
               ? NULL
               : json_pack("{s:s, s:O}", "part", "source", "messages", h.messages);
}

static void look(void *ctx, const LspAsk *ask, FILE *out)
{
    Session *base = ctx;
    Options o = *base->o;
    o.command = NULL;
    o.words = (Words){0};
    o.check = true;
    o.search_time = "20"; /* seconds */
    vec_push(base->arena, &o.words, ask->path);
    o.held_path = ask->path;
    o.held_text = ask->text;
    o.held_size = ask->size;
    json_t *wrong = wrong_options(base, &o, ask);
    write_part(out, wrong ? wrong : look_at_source(&o, ask->path));
    if (wrong)
        return;
    rest();
    write_part(out, look_at_plan(&o, ask->path));
}

Exit command_lsp(Session *s)
{
    const char *prelude = arena_printf(s->arena, "%s/prelude.mg", home_dir(s->arena));
    if (isatty(STDIN_FILENO)) {
        diag_error(s->diag, (Span){0}, 659, "mgc lsp is started by an editor, which speaks to it");
        diag_help(s->diag, "docs/editors.md says how editors are told of it");
        return EXIT_usage;
    }
    const LspHost host = {.look = look,
                          .ctx = s,
                          .version = MGC_VERSION,
                          .prelude = access(prelude, R_OK) ? NULL : prelude};
    return lsp_serve(&host, STDIN_FILENO, STDOUT_FILENO) ? EXIT_source : EXIT_done;
}
