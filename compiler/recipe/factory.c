/* factory.c - mgc import-yaml: LLaMA-Factory's training file as a model, a layout and a script.
 *
 * Words KEY=VALUE stand in place of the file's, as with llamafactory-cli. What each key became is
 * printed, and kept beside the model: report.txt. */
#include "compiler/recipe/factory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const Key table[] = {
#define KEY(name, type, kind, standard, why) {name, KEY_##type, KEY_##kind, standard, why},
#include "compiler/recipe/lf_keys.def"
#undef KEY
};

const char *factory_quoted(const Factory *f, const char *text)
{
    const char *all = "'";
    for (const char *t = text; *t;) {
        const size_t n = strcspn(t, "'");
        all = arena_printf(f->s->arena, "%s%.*s%s", all, (int)n, t, t[n] ? "'\\''" : "");
        t += n + (t[n] != 0);
    }
    return arena_printf(f->s->arena, "%s'", all);
}

const char *factory_find(const Factory *f, const char *path)
{
    if (!access(path, F_OK))
        return path;
    const char *slash = strrchr(f->path, '/');
    const char *beside =
        slash ? arena_printf(f->s->arena, "%.*s/%s", (int)(slash - f->path), f->path, path) : path;
    return *path != '/' && !access(beside, F_OK) ? beside : NULL;
}

/* KEY=VALUE of the command line as a file of its own; NULL without any. False: told. */
static bool read_words(Factory *f, const Marked **over)
{
    const Words *w = &f->s->o->words;
    const char *all = "";
    for (size_t i = 1; i < w->n; i++) {
        const char *equals = strchr(w->data[i], '=');
        if (!equals || equals == w->data[i]) {
            diag_error(f->s->diag, (Span){0}, 0, "'%s' is not KEY=VALUE", w->data[i]);
            return false;
        }
        all = arena_printf(f->s->arena, "%s%.*s: %s\n", all, (int)(equals - w->data[i]), w->data[i],
                           equals + 1);
    }
    *over = NULL;
    if (!*all)
        return true;
    *over = marks_parse(f->s, diag_add_file(f->s->diag, "command line", all, strlen(all)));
    return *over;
}

static bool find_model(Factory *f)
{
    const char *name = keys_text(&f->k, "model_name_or_path");
    const char *config = name ? arena_printf(f->s->arena, "%s/config.json", name) : NULL;
    if (!name) {
        diag_error(f->s->diag, (Span){0}, 618, "%s has no 'model_name_or_path'", f->path);
        f->k.failed = true;
    } else if (!(config = factory_find(f, config))) {
        keys_wrong(&f->k, "model_name_or_path",
                   "'%s' is no directory with a config.json: mgc loads nothing from elsewhere",
                   name);
        diag_help(f->s->diag, "give the directory: mgc import-yaml %s model_name_or_path=DIR",
                  f->path);
    } else {
        f->model = arena_strndup(f->s->arena, config, strlen(config) - strlen("/config.json"));
        f->init = factory_quoted(f, f->model);
        keys_here(&f->k, "model_name_or_path", "mgc import-hf %s; ./train --init %s", f->model,
                  f->model);
    }
    return f->model;
}

static void deepspeed(Factory *f)
{
    const char *name = keys_text(&f->k, "deepspeed");
    const char *path = name ? factory_find(f, name) : NULL;
    if (!keys_given(&f->k, "deepspeed"))
        return;
    if (!path) {
        keys_wrong(&f->k, "deepspeed", "'%s' is no file, here or beside %s", name ? name : "this",
                   f->path);
        return;
    }
    Keys *ds = NEW(f->s->arena, Keys);
    keys_here(&f->k, "deepspeed", "the layout, by %s, below", path);
    if (!deepspeed_read(&f->r, ds, path, true))
        f->k.failed = true;
    else if (keys_given(ds, "scheduler.type") &&
             keys_given(ds, "scheduler.params.warmup_num_steps"))
        f->ratio = 0; /* the warm-up is that number */
    vec_push(f->s->arena, &f->others, ds);
}

/* FSDP splits as ZeRO 3 or 2 does; its files are not read. */
static void fsdp(Factory *f)
{
    const char *words = keys_text(&f->k, "fsdp");
    if (!keys_given(&f->k, "fsdp") && !keys_given(&f->k, "fsdp_config"))
        return;
    const bool full = words && strstr(words, "full_shard"),
               half = words && strstr(words, "shard_grad_op");
    if (keys_given(&f->k, "fsdp") && (full || half)) {
        f->r.stage = full ? 3 : 2;
        keys_here(&f->k, "fsdp", full ? "state, grads, params -> dp" : "state, grads -> dp");
    } else if (keys_given(&f->k, "fsdp"))
        keys_missing(&f->k, "fsdp", "of FSDP's ways full_shard and shard_grad_op are here");
    if (keys_given(&f->k, "fsdp_config"))
        keys_idle(&f->k, "fsdp_config", "what is gathered when is planned");
}

static void print_all(Factory *f, FILE *out)
{
    keys_print(&f->k, out);
    for (size_t i = 0; i < f->others.n; i++)
        keys_print(f->others.data[i], out);
}

static Exit write_file(Factory *f, const char *name, const char *text, mode_t mode)
{
    Output out;
    const char *path = arena_printf(f->s->arena, "%s/%s", f->dir, name);
    Exit status = output_replaceable(f->s, path);
    if (status || (status = output_open(f->s, &out, path)))
        return status;
    if (text)
        fputs(text, out.file);
    else
        print_all(f, out.file);
    if (mode)
        (void)!fchmod(fileno(out.file), mode);
    return output_close(f->s, &out, true);
}

static Exit write_all(Factory *f)
{
    if (mkdir(f->dir, 0777) && errno != EEXIST) {
        diag_error(f->s->diag, (Span){0}, 543, "cannot make '%s': %s", f->dir, strerror(errno));
        return EXIT_tool;
    }
    Exit status = f->text ? write_file(f, "model.mg", f->text, 0) : EXIT_done;
    if (!status)
        status = write_file(f, "run.sh", factory_script(f), 0755);
    if (!status)
        status = write_file(f, "report.txt", NULL, 0);
    if (!status)
        diag_notice(f->s->diag, "%s/run.sh trains; %s/report.txt has the lines above", f->dir,
                    f->dir);
    return status;
}

static const char *folder(const Session *s, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    return s->o->out           ? s->o->out
           : dot && dot > name ? arena_strndup(s->arena, name, (size_t)(dot - name))
                               : arena_printf(s->arena, "%s.import", name);
}

static bool read_all(Factory *f)
{
    const Marked *over, *root = marks_read(f->s, f->path);
    if (!root || !read_words(f, &over) || !keys_read(&f->k, root, over) || !find_model(f))
        return false;
    factory_method(f);
    factory_numbers(f);
    deepspeed(f);
    fsdp(f);
    factory_run(f);
    factory_data(f);
    factory_trained(f);
    return !f->k.failed;
}

Exit command_import_yaml(Session *s)
{
    Factory f = {.s = s, .path = s->o->words.data[0], .options = "", .before = "", .held = ""};
    f.k = (Keys){.s = s,
                 .path = f.path,
                 .table = table,
                 .n = sizeof table / sizeof *table,
                 .defaults = true};
    f.dir = folder(s, f.path);
    if (!recipe_begin(&f.r, s))
        return EXIT_usage;
    const bool good = read_all(&f);
    print_all(&f, stdout);
    if (good && !keys_complete(&f.k))
        abort();
    if (!good || (!f.merges && !factory_model(&f)))
        return EXIT_source;
    return write_all(&f);
}
