/* subcommands.c - mgc explain, fmt, import-hf, tune, tok, gguf, watch, board, pipeline, lsp and
 * env: what is no compile. */
#include "compiler/diff/diff.h"
#include "compiler/gguf/gguf.h"
#include "compiler/session.h"
#include "compiler/merge/merge.h"
#include "compiler/preflight/hosts.h"
#include "compiler/recipe/recipe.h"
#include "compiler/search/command.h"
#include "compiler/tok/tok_run.h"

#include <stdlib.h>
#include <string.h>

static Exit usage(Session *s, const char *form)
{
    diag_error(s->diag, (Span){0}, 0, "the form is: mgc %s", form);
    return EXIT_usage;
}

/* An option that the command does not take, by takes.def. */
static Exit refuse_option(Session *s, const char *command, const char *option)
{
    const char *form;
    diag_error(s->diag, (Span){0}, 0, "mgc %s takes no --%s", command, option);
    for (int k = 0; (form = command_form(command, k)); k++)
        diag_help(s->diag, "the form is: mgc %s%s%s", command, *form ? " " : "", form);
    return EXIT_usage;
}

static Exit command_explain(Session *s)
{
    const Options *o = s->o;
    const char *end = o->words.n ? strrchr(o->words.data[0], '.') : NULL;
    const bool model = o->words.n == 2 || (end && !strcmp(end, ".mg"));
    if (o->words.n < 1 || o->words.n > 2 || (!model && options_untaken(o, NULL)))
        return usage(s, "explain CODE, or explain F.mg [NAME] [-D NAME=VALUE] [--layout NAME]");
    return !model            ? explain_code(s, o->words.data[0])
           : o->words.n == 1 ? explain_names(s, o->words.data[0])
                             : explain_name(s, o->words.data[0], o->words.data[1]);
}

/* ---- fmt ----------------------------------------------------------------------------------- */

static Exit command_fmt(Session *s)
{
    const Options *o = s->o;
    if (o->words.n != 1)
        return usage(s, "fmt [--check] F.mg");
    const char *path = o->words.data[0];
    uint32_t file = read_source(s, path);
    if (!file)
        return EXIT_usage;
    const Ast *ast = mg_parse(s->arena, s->names, s->diag, file);
    if (!ast)
        return EXIT_source;
    char *text;
    size_t size, had;
    FILE *memory = open_memstream(&text, &size);
    mg_fmt(ast, memory);
    fclose(memory);
    const char *old = diag_text(s->diag, file, &had);
    bool same = size == had && !memcmp(old, text, size);
    Exit status = EXIT_done;
    Output out;
    if (!same && o->check) {
        printf("%s is not in the one form; mgc fmt %s rewrites it\n", path, path);
        status = EXIT_source;
    } else if (!same && !(status = output_replaceable(s, path)) &&
               !(status = output_open(s, &out, path))) {
        fwrite(text, 1, size, out.file);
        status = output_close(s, &out, true);
    }
    free(text);
    return status;
}

/* ---- the rest ------------------------------------------------------------------------------ */

static Exit command_env(Session *s)
{
    return s->o->words.n ? usage(s, "env") : env_print(s);
}

static Exit command_import(Session *s)
{
    const Options *o = s->o;
    if (o->words.n != 1 || (o->packed && o->objective))
        return usage(s, "import-hf [--packed | --objective NAME] DIR [-o F.mg]");
    return command_import_hf(s, o->words.data[0]);
}

static Exit command_deepspeed(Session *s)
{
    return s->o->words.n != 1
               ? usage(s, "import-ds FILE.json [--ranks=N] [--device NAME] [-o LAYOUT.mg]")
               : command_import_ds(s, s->o->words.data[0]);
}

static Exit command_factory(Session *s)
{
    return s->o->words.n < 1
               ? usage(s,
                       "import-yaml FILE.yaml [KEY=VALUE...] [--ranks=N] [--device NAME] [-o DIR]")
               : command_import_yaml(s);
}

static Exit command_merging(Session *s)
{
    const Options *o = s->o;
    return o->words.n < 1 || !o->base || !o->out
               ? usage(s, "merge ADAPTER[=WEIGHT]... --base DIR [--type bf16|f32|f16] -o OUT")
               : command_merge(s);
}

static Exit command_file(Session *s)
{
    return s->o->words.n != 1 || !s->o->out
               ? usage(s, "gguf DIR -o F.gguf [--type f32|f16|bf16|q8_0]")
               : command_gguf(s);
}

static Exit command_measured(Session *s)
{
    return s->o->words.n != 1 ? usage(s, "report RUN/trace.json")
                              : command_report(s, s->o->words.data[0]);
}

static Exit command_measure(Session *s)
{
    const Options *o = s->o;
    const bool source = o->emit && !strcmp(o->emit, "source") && o->out && o->device;
    return o->words.n || (o->emit && !source)
               ? usage(s, "calibrate [-o cpu.json]; or calibrate --device NAME [-D NAME=VALUE] "
                          "[-o gpu.json | --emit=source -o DIR]")
               : command_calibrate(s);
}

static Exit command_schedule(Session *s)
{
    return s->o->words.n != 1
               ? usage(s, "pipeline KIND|FILE [--ranks=P] [--microbatches=M] [--chunks=V] "
                          "[--group=N] [--pairs] [--costs=[STAGE:]F,I,W[,SEND]] [--hidden=TIME] "
                          "[--comms|--grid|--schedule] "
                          "[-o FILE]")
               : command_pipeline(s, s->o->words.data[0]);
}

static Exit command_watching(Session *s)
{
    return s->o->words.n ? command_watch(s) : usage(s, "watch RUN... [--once]");
}

static Exit command_boarding(Session *s)
{
    const Options *o = s->o;
    return !o->words.n || (o->out && o->serve) || (o->bind && !o->serve)
               ? usage(s, "board RUN... [-o page.html | --serve[=PORT] [--bind ADDRESS]]")
               : command_board(s);
}

/* Options of the front are for those sides that are models. */
static Exit command_differing(Session *s)
{
    return s->o->words.n != 2
               ? usage(s, "diff A B [options of a model] [--report page.html]; A and B are plans "
                          "(--plan=json), or models, with options as one word: 'F.mg -D dp=2'")
               : command_diff(s);
}

/* Of preflight and commbench. */
static bool names_hosts(const Options *o)
{
    return o->words.n >= 1 && o->words.n <= (o->launch ? 1 : 2);
}

static Exit command_before(Session *s)
{
    return names_hosts(s->o)
               ? command_preflight(s)
               : usage(s, "preflight './train --data FILE' [HOSTS | --launch 'srun -N 2']");
}

static Exit command_links(Session *s)
{
    return names_hosts(s->o) ? command_commbench(s)
                             : usage(s, "commbench ./train [HOSTS | --launch 'srun -N 2'] "
                                        "[--device NAME] [-o mine.json]");
}

static Exit command_serving(Session *s)
{
    return s->o->words.n ? usage(s, "lsp [--device NAME] [--layout NAME] [-D NAME=VALUE]")
                         : command_lsp(s);
}

Exit command_run(Session *s)
{
    static const struct {
        const char *name;
        Exit (*run)(Session *s);
    } commands[] = {{"explain", command_explain},
                    {"fmt", command_fmt},
                    {"tok", command_tok},
                    {"import-hf", command_import},
                    {"tune", command_tune},
                    {"gguf", command_file},
                    {"merge", command_merging},
                    {"import-ds", command_deepspeed},
                    {"import-yaml", command_factory},
                    {"report", command_measured},
                    {"diff", command_differing},
                    {"watch", command_watching},
                    {"board", command_boarding},
                    {"pipeline", command_schedule},
                    {"search", command_search},
                    {"scale", command_scale},
                    {"calibrate", command_measure},
                    {"preflight", command_before},
                    {"commbench", command_links},
                    {"lsp", command_serving},
                    {"env", command_env}};
    const char *name = s->o->command, *option = options_untaken(s->o, name);
    if (option)
        return refuse_option(s, name, option);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(commands[i].name, name))
            return commands[i].run(s);
    diag_error(s->diag, (Span){0}, 0, "mgc has no command '%s'", name);
    return EXIT_usage;
}
