/* factory_script.c - the commands of a run, as a script of the shell. */
#include "compiler/recipe/factory.h"

/* Inputs that are read by name, each with the file of mgc tok that has it, and what fills rows up.
 */
typedef struct Named {
    const char *input, *end;
} Named;
static const Named of_pairs[] = {{"chosen=0", ".chosen.bin"},
                                 {"chosen_mask=2", ".chosen.weights.bin"},
                                 {"rejected=0", ".rejected.bin"},
                                 {"rejected_mask=2", ".rejected.weights.bin"}};
static const Named of_marks[] = {{"tokens=0", ".bin"},
                                 {"mask=2", ".weights.bin"},
                                 {"other=0", ".other.bin"},
                                 {"other_mask=2", ".other.weights.bin"},
                                 {"good=u8", ".labels"}};

static const char *named_options(const Factory *f, const DataSet *d)
{
    const Named *in = f->pairs ? of_pairs : of_marks;
    const size_t n =
        f->pairs ? sizeof of_pairs / sizeof *of_pairs : sizeof of_marks / sizeof *of_marks;
    const char *all = "";
    for (size_t i = 0; i < n; i++)
        all = arena_printf(f->s->arena, "%s --%s %s:\"$here\"/%s%s", all, d->held ? "val" : "data",
                           in[i].input, d->name, in[i].end);
    return all;
}

static const char *data_options(const Factory *f)
{
    const char *all = "";
    for (size_t i = 0; i < f->sets.n; i++) {
        const DataSet *d = &f->sets.data[i];
        if (f->objective)
            all = arena_printf(f->s->arena, "%s%s", all, named_options(f, d));
        else
            all = arena_printf(f->s->arena, "%s --%s %s\"$here\"/%s.bin", all,
                               d->held ? "val" : "data", d->share, d->name);
    }
    return all;
}

static const char *tokenized(const Factory *f)
{
    const char *all = "";
    for (size_t i = 0; i < f->sets.n; i++)
        all = arena_printf(f->s->arena, "%s%s\n", all, f->sets.data[i].command);
    return all;
}

/* The program with its data, which trains nothing and says how many there are. */
static const char *dry(const Factory *f, const char *held, const char *pattern)
{
    return arena_printf(f->s->arena,
                        "$(\"$here\"/train%s%s%s%s --out \"$here\"/run --dry-run | sed -n "
                        "'s/^.*data: %s.*/\\1/p' | tail -n 1)",
                        f->init ? " --init " : "", f->init ? f->init : "", data_options(f), held,
                        pattern);
}

/* Lines that count what an epoch has. */
static const char *counted(const Factory *f)
{
    const Recipe *r = &f->r;
    Arena *a = f->s->arena;
    const long long batch = r->micro * r->accumulate * r->ranks;
    const char *all = "", *rows = "\\([0-9]*\\) rows in";
    const char *windows = f->objective ? rows : ".* \\([0-9]*\\) windows of";
    if (f->records)
        all = arena_printf(a, "records=%s\nfraction=$(awk \"BEGIN { print %lld / $records }\")\n",
                           dry(f, "", f->packed ? "\\([0-9]*\\) documents in" : windows),
                           (long long)f->records);
    if (r->steps && !f->by_epoch)
        return arena_printf(a, "%ssteps=%lld\n", all, (long long)r->steps);
    all = arena_printf(a, "%swindows=%s\nepoch=$(up \"$windows / %lld\")\n", all,
                       dry(f, f->held, windows), batch);
    if (r->steps)
        return arena_printf(a, "%ssteps=%lld\n", all, (long long)r->steps);
    all = arena_printf(a, "%ssteps=$(up \"$windows * %.15g / %lld\")\n", all, f->epochs, batch);
    if (!(f->ratio > 0))
        return all;
    return arena_printf(a,
                        "%swarmup=$(up \"$steps * %.15g\")\n"
                        "\"$mgc\" \"$here\"/model.mg -D steps=\"$steps\" -D warmup=\"$warmup\" -o "
                        "\"$here\"/train\n",
                        all, f->ratio);
}

const char *factory_script(const Factory *f)
{
    Arena *a = f->s->arena;
    const char *head = arena_printf(
        a,
        "#!/bin/sh\n"
        "# The commands of %s, by mgc import-yaml. MGC is the compiler, PATH's without it.\n"
        "set -eu\n"
        "here=$(cd \"$(dirname \"$0\")\" && pwd)\n"
        "mgc=${MGC:-mgc}\n",
        marks_line(a, f->path));
    if (f->merges)
        return arena_printf(a, "%s%s", head, f->before);
    return arena_printf(a,
                        "%s"
                        "up() { awk \"BEGIN { n = $1; i = int(n); i += i < n - 1e-9; print i < 1 ? "
                        "1 : i }\"; } # at least 1, rounded up\n"
                        "\n%s%s"
                        "\"$mgc\" \"$here\"/model.mg -o \"$here\"/train\n%s"
                        "\"$here\"/train%s%s%s%s --steps \"$steps\"%s \"$@\"\n",
                        head, f->before, tokenized(f), counted(f), f->init ? " --init " : "",
                        f->init ? f->init : "", data_options(f), f->held, f->options);
}
