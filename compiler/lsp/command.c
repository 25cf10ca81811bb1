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
                        !one.words.n && !one.check && !one.help && !one.version &&
                        options_plain(&one, true);
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

static Diag *listen(Heard *h)
{
    *h = (Heard){.arena = arena_new(),
                 .messages = json_array(),
                 .values = json_array(),
                 .tensors = json_array()};
    h->names = names_new(h->arena);
    Diag *d = diag_heard(h->arena, ERRORS_MAX, heard_message, h);
    h->diag = d;
    return d;
}

/* Proposals against errors: found by compiling once more, and trying. */
static void tell_proposals(const Options *o, FILE *out)
{
    Heard h;
    Diag *d = listen(&h);
    Session s = {.arena = h.arena, .names = h.names, .diag = d, .o = o};
    proposals_try(&s);
    compile(&s);
    write_part(out, json_pack("{s:s, s:o, s:o}", "part", "plan", "messages", h.messages, "fixes",
                              facts_fixes(d)));
}

static void tell_plan(Session *s, Compiled *c, Heard *h, FILE *out)
{
    proposals_try(s);
    compile_middle(s, c, NULL, NULL);
    json_t *part = json_pack("{s:s, s:O, s:o}", "part", "plan", "messages", h->messages, "fixes",
                             facts_fixes(s->diag));
    if (c->plan)
        facts_plan(s, c, h, part);
    write_part(out, part);
}

static void look(void *ctx, const LspAsk *ask, FILE *out)
{
    const Session *base = ctx;
    Heard h;
    Diag *d = listen(&h);
    Options o = *base->o;
    Seen seen = {heard_value, &h};
    Session s = {.arena = h.arena, .names = h.names, .diag = d, .o = &o, .seen = &seen};
    Compiled c = {0};
    o.command = NULL;
    o.words = (Words){0};
    o.check = true;
    vec_push(h.arena, &o.words, ask->path);
    o.held_path = ask->path;
    o.held_text = ask->text;
    o.held_size = ask->size;
    const bool options = take_options(&s, &o, ask);
    const bool good = options && !combination_check(&s) && !compile_front(&s, ask->path, &c);
    if (good)
        heard_tensors(&h, c.module);
    write_part(out, json_pack("{s:s, s:O, s:o, s:o}", "part", "source", "messages", h.messages,
                              "values", h.values, "tensors", h.tensors));
    rest();
    s.seen = NULL;
    if (good)
        tell_plan(&s, &c, &h, out);
    else if (options)
        tell_proposals(&o, out);
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
