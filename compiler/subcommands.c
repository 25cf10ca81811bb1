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

/* Options that a command does not take are refused: only --check of fmt and those of a compile's
 * front for explain mean anything. */
static bool plain(const Options *o, bool compiles)
{
    bool front = o->define.n || o->layout || o->device || o->precision || o->adapter ||
                 o->microbatch || o->recompute || o->offload || o->optimizer || o->overlap ||
                 o->pieces || o->collectives || o->cpu || o->generate || o->sequences ||
                 o->prefill || o->choices;
    return !pipeline_options(o) && !tok_options(o) && !search_options(o) && !o->lora && !o->dora &&
           !o->on && !o->objective && !o->packed && !o->allow_missing && !o->base && !o->type &&
           !o->out && !o->emit && !o->with_kernels && !o->plan && !o->frontier && !o->fusion &&
           !o->report && !o->schedule && !o->trace && !o->memory && !o->print_after.n &&
           !o->time_passes && !o->from && !o->once && !o->serve && !o->bind && !o->launch &&
           !o->elastic && (compiles || !front);
}

bool options_plain(const Options *o, bool compiles)
{
    return plain(o, compiles);
}

static Exit command_explain(Session *s)
{
    const Options *o = s->o;
    const char *end = o->words.n ? strrchr(o->words.data[0], '.') : NULL;
    const bool model = o->words.n == 2 || (end && !strcmp(end, ".mg"));
    if (o->check || o->words.n < 1 || o->words.n > 2 || !plain(o, model))
        return usage(s, "explain CODE, or explain F.mg [NAME] [-D NAME=VALUE] [--layout NAME]");
    return !model            ? explain_code(s, o->words.data[0])
           : o->words.n == 1 ? explain_names(s, o->words.data[0])
                             : explain_name(s, o->words.data[0], o->words.data[1]);
}

/* ---- fmt ----------------------------------------------------------------------------------- */

static Exit command_fmt(Session *s)
{
    const Options *o = s->o;
    if (o->words.n != 1 || !plain(o, false))
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
    return s->o->words.n || s->o->check || !plain(s->o, false) ? usage(s, "env") : env_print(s);
}

static Exit command_import(Session *s)
{
    const Options *o = s->o;
    Options rest = *o;
    rest.out = NULL;
    rest.packed = false;
    rest.objective = NULL;
    if (o->words.n != 1 || o->check || (o->packed && o->objective) || !plain(&rest, false))
        return usage(s, "import-hf [--packed | --objective NAME] DIR [-o F.mg]");
    return command_import_hf(s, o->words.data[0]);
}

/* Of import-yaml and import-ds. */
static bool plain_recipe(const Options *o)
{
    Options rest = *o;
    rest.out = rest.device = rest.ranks = NULL;
    rest.allow_missing = false;
    return !o->check && plain(&rest, false);
}

static Exit command_deepspeed(Session *s)
{
    return s->o->words.n != 1 || !plain_recipe(s->o)
               ? usage(s, "import-ds FILE.json [--ranks=N] [--device NAME] [-o LAYOUT.mg]")
               : command_import_ds(s, s->o->words.data[0]);
}

static Exit command_factory(Session *s)
{
    return s->o->words.n < 1 || !plain_recipe(s->o)
               ? usage(s,
                       "import-yaml FILE.yaml [KEY=VALUE...] [--ranks=N] [--device NAME] [-o DIR]")
               : command_import_yaml(s);
}

static Exit command_merging(Session *s)
{
    const Options *o = s->o;
    Options rest = *o;
    rest.out = rest.base = rest.type = NULL;
    return o->words.n < 1 || !o->base || !o->out || o->check || !plain(&rest, false)
               ? usage(s, "merge ADAPTER[=WEIGHT]... --base DIR [--type bf16|f32|f16] -o OUT")
               : command_merge(s);
}

static Exit command_tokenize(Session *s)
{
    Options rest = *s->o;
    rest.out = rest.tokenizer = rest.json_key = rest.json_prompt = rest.eod = rest.format = NULL;
    rest.chat_template = rest.template_name = rest.train_on = rest.max_length = rest.too_long =
        NULL;
    return s->o->check || !plain(&rest, false)
               ? usage(s, "tok --tokenizer tokenizer.json -o OUT FILE...")
               : command_tok(s);
}

static Exit command_file(Session *s)
{
    Options rest = *s->o;
    rest.out = rest.type = NULL;
    return s->o->words.n != 1 || !s->o->out || s->o->check || !plain(&rest, false)
               ? usage(s, "gguf DIR -o F.gguf [--type f32|f16|bf16|q8_0]")
               : command_gguf(s);
}

static Exit command_measured(Session *s)
{
    return s->o->words.n != 1 || s->o->check || !plain(s->o, false)
               ? usage(s, "report RUN/trace.json")
               : command_report(s, s->o->words.data[0]);
}

static Exit command_measure(Session *s)
{
    Options rest = *s->o;
    const bool source = rest.emit && !strcmp(rest.emit, "source") && rest.out && rest.device;
    rest.out = rest.device = NULL;
    rest.define.n = 0;
    if (source)
        rest.emit = NULL;
    return s->o->words.n || s->o->check || !plain(&rest, false)
               ? usage(s, "calibrate [-o cpu.json]; or calibrate --device NAME [-D NAME=VALUE] "
                          "[-o gpu.json | --emit=source -o DIR]")
               : command_calibrate(s);
}

static Exit command_schedule(Session *s)
{
    Options rest = *s->o;
    rest.out = rest.ranks = rest.microbatches = rest.chunks = rest.group = rest.hidden = NULL;
    rest.comms = rest.grid = rest.schedule = rest.pairs = false;
    rest.costs.n = 0;
    return s->o->words.n != 1 || s->o->check || !plain(&rest, false)
               ? usage(s, "pipeline KIND|FILE [--ranks=P] [--microbatches=M] [--chunks=V] "
                          "[--group=N] [--pairs] [--costs=[STAGE:]F,I,W[,SEND]] [--hidden=TIME] "
                          "[--comms|--grid|--schedule] "
                          "[-o FILE]")
               : command_pipeline(s, s->o->words.data[0]);
}

static Exit command_watching(Session *s)
{
    Options rest = *s->o;
    rest.once = false;
    return !s->o->words.n || s->o->check || !plain(&rest, false) ? usage(s, "watch RUN... [--once]")
                                                                 : command_watch(s);
}

static Exit command_boarding(Session *s)
{
    const Options *o = s->o;
    Options rest = *o;
    rest.out = rest.serve = rest.bind = NULL;
    return !o->words.n || o->check || (o->out && o->serve) || (o->bind && !o->serve) ||
                   !plain(&rest, false)
               ? usage(s, "board RUN... [-o page.html | --serve[=PORT] [--bind ADDRESS]]")
               : command_board(s);
}

/* Options of the front are for those sides that are models. */
static Exit command_differing(Session *s)
{
    Options rest = *s->o;
    rest.report = NULL;
    return s->o->words.n != 2 || s->o->check || !plain(&rest, true)
               ? usage(s, "diff A B [options of a model] [--report page.html]; A and B are plans "
                          "(--plan=json), or models, with options as one word: 'F.mg -D dp=2'")
               : command_diff(s);
}

/* Of preflight and commbench. */
static bool plain_hosts(const Options *o)
{
    Options rest = *o;
    rest.launch = NULL;
    return o->words.n >= 1 && o->words.n <= (o->launch ? 1 : 2) && !o->check && plain(&rest, false);
}

static Exit command_before(Session *s)
{
    return plain_hosts(s->o)
               ? command_preflight(s)
               : usage(s, "preflight './train --data FILE' [HOSTS | --launch 'srun -N 2']");
}

static Exit command_links(Session *s)
{
    Options rest = *s->o;
    rest.out = rest.device = NULL;
    return plain_hosts(&rest) ? command_commbench(s)
                              : usage(s, "commbench ./train [HOSTS | --launch 'srun -N 2'] "
                                         "[--device NAME] [-o mine.json]");
}

static Exit command_serving(Session *s)
{
    return s->o->words.n || s->o->check || !plain(s->o, true)
               ? usage(s, "lsp [--device NAME] [--layout NAME] [-D NAME=VALUE]")
               : command_lsp(s);
}

Exit command_run(Session *s)
{
    const char *c = s->o->command;
    return !strcmp(c, "explain")       ? command_explain(s)
           : !strcmp(c, "fmt")         ? command_fmt(s)
           : !strcmp(c, "tok")         ? command_tokenize(s)
           : !strcmp(c, "import-hf")   ? command_import(s)
           : !strcmp(c, "tune")        ? command_tune(s)
           : !strcmp(c, "gguf")        ? command_file(s)
           : !strcmp(c, "merge")       ? command_merging(s)
           : !strcmp(c, "import-ds")   ? command_deepspeed(s)
           : !strcmp(c, "import-yaml") ? command_factory(s)
           : !strcmp(c, "report")      ? command_measured(s)
           : !strcmp(c, "diff")        ? command_differing(s)
           : !strcmp(c, "watch")       ? command_watching(s)
           : !strcmp(c, "board")       ? command_boarding(s)
           : !strcmp(c, "pipeline")    ? command_schedule(s)
           : !strcmp(c, "search")      ? command_search(s)
           : !strcmp(c, "scale")       ? command_scale(s)
           : !strcmp(c, "calibrate")   ? command_measure(s)
           : !strcmp(c, "preflight")   ? command_before(s)
           : !strcmp(c, "commbench")   ? command_links(s)
           : !strcmp(c, "lsp")         ? command_serving(s)
                                       : command_env(s);
}
