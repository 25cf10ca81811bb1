/* combination.c - options of a compile that mean nothing together, or belong to another command. */
#include "compiler/session.h"
#include "compiler/tok/tok_run.h"

#include <string.h>
#include <unistd.h>

#include "passes/passes.h"

bool pass_is_known(const char *name)
{
    return !strcmp(name, "all") || !strcmp(name, "lower") || pass_find(name) >= 0;
}

static Exit usage(Session *s, const char *text, const char *help)
{
    diag_error(s->diag, (Span){0}, 0, "%s", text);
    diag_help(s->diag, "%s", help);
    return EXIT_usage;
}

static Exit unknown_pass(Session *s, const char *name)
{
    const char *names[PASS_count + 2] = {"all", "lower"}, *list = "all, lower";
    for (int i = 0; i < PASS_count; i++) {
        names[i + 2] = pass_info[i].name;
        list = arena_printf(s->arena, "%s, %s", list, pass_info[i].name);
    }
    const char *near = name_nearest(name, names, PASS_count + 2);
    return usage(s, arena_printf(s->arena, "no pass is called '%s'", name),
                 near ? arena_printf(s->arena, "did you mean '%s'?", near) : list);
}

/* Combinations that mean nothing are refused, not guessed at. */
/* Is the first word neither a file nor a command? */
static bool is_nothing(Session *s)
{
    const char *word = s->o->words.n ? s->o->words.data[0] : NULL;
    if (!word || strchr(word, '.') || !access(word, F_OK))
        return false;
    const char *near = command_nearest(word);
    usage(s, arena_printf(s->arena, "there is no command and no file '%s'", word),
          near ? arena_printf(s->arena, "did you mean 'mgc %s'?", near)
               : "mgc --help lists the commands");
    return true;
}

Exit combination_check(Session *s)
{
    const Options *o = s->o;
    if (is_nothing(s))
        return EXIT_usage;
    if (pipeline_options(o))
        return usage(s,
                     "--ranks, --microbatches, --chunks, --group, --pairs, --costs, --hidden, "
                     "--comms and --grid are "
                     "options of mgc pipeline",
                     "-D NAME=VALUE sets a size of the model's mesh");
    if (o->exhaustive || o->thorough || o->precisions || o->points || o->tokens || o->budget)
        return usage(s,
                     "--exhaustive, --thorough, --precisions, --points, --tokens and --budget are "
                     "options of mgc search",
                     "layout auto { device h100 x 64 } in a model is searched when it is compiled");
    if (o->lora || o->dora || o->on)
        return usage(s, "--lora, --dora and --on are options of mgc tune",
                     "a .mg file has a line: adapter lora(rank = 16) on \"*.q_proj.weight\"");
    if (o->objective)
        return usage(
            s, "--objective is an option of mgc import-hf and mgc tune",
            "a .mg file says by its loss what is learned: models/hf/objectives has examples");
    if (o->once || o->serve || o->bind)
        return usage(s, "--once, --serve and --bind are options of mgc watch and mgc board",
                     "mgc watch RUN --once, mgc board RUN --serve");
    if (o->launch)
        return usage(s, "--launch is an option of mgc preflight and mgc commbench",
                     "mgc preflight './train --data FILE' --launch 'srun -N 2'");
    if (o->packed)
        return usage(s, "--packed is an option of mgc import-hf",
                     "a model that takes packed documents says so: models/llama_packed.mg");
    if (tok_options(o))
        return usage(s,
                     "--tokenizer and what follows it in --help under Tokenize are options of mgc "
                     "tok",
                     "mgc tok --tokenizer tokenizer.json -o OUT FILE...");
    if (o->base || o->type)
        return usage(s, "--base and --type are options of mgc merge and mgc gguf",
                     "--precision says in which numbers a program computes");
    if (o->allow_missing)
        return usage(s, "--allow-missing is an option of mgc import-yaml and mgc import-ds",
                     "leave it out");
    if (!o->from && o->words.n != 1)
        return o->words.n
                   ? usage(s, "one model is compiled at a time", "mgc F.mg -o train")
                   : usage(s, "no model is given", "mgc F.mg -o train; mgc --help says more");
    if (o->from && (o->words.n || o->define.n || o->layout || o->precision || o->adapter ||
                    o->microbatch || o->recompute || o->offload || o->optimizer || o->generate))
        return usage(
            s,
            "--from continues from a text: model, -D, --layout, --precision, --adapter, "
            "--microbatch, --recompute, --offload, --optimizer and --generate are in it already",
            "mgc --from=FILE.mgir -o train");
    if (o->emit && !strcmp(o->emit, "source") && !o->out)
        return usage(s, "--emit=source writes a directory", "-o DIR");
    if (o->with_kernels && (!o->emit || strcmp(o->emit, "c")))
        return usage(s, "--with-kernels is for the program as C",
                     "--emit=c --with-kernels -o FILE.c");
    if (o->with_kernels && o->cpu)
        return usage(s, "--cpu is for kernels that LLVM makes, and --with-kernels writes them as C",
                     "leave out one of them; the C compiler has -march");
    if (o->check && (o->emit || o->out))
        return usage(s, "--check makes no code: there is nothing for -o or --emit to write",
                     "leave out one of them");
    for (size_t i = 0; i < o->print_after.n; i++)
        if (!pass_is_known(o->print_after.data[i]))
            return unknown_pass(s, o->print_after.data[i]);
    if (o->out || o->emit || o->check || o->plan || o->frontier || o->fusion || o->report ||
        o->schedule || o->trace || o->memory || o->print_after.n)
        return EXIT_done;
    return usage(s, "nothing to do",
                 "-o FILE makes the program; --check makes sure it could be made");
}
