/* recipe.c - a recipe as mgc's train block and layout. */
#include "compiler/recipe/recipe.h"

#include <stdlib.h>
#include <string.h>

bool recipe_begin(Recipe *r, Session *s)
{
    const Options *o = s->o;
    *r = (Recipe){.s = s, .ranks = 1, .micro = 1, .accumulate = 1, .more = "", .lines = ""};
    r->device = o->device ? o->device : "cpu";
    r->recompute = "auto";
    if (o->ranks) {
        char *end;
        r->ranks = strtoll(o->ranks, &end, 10);
        if (*end || r->ranks < 1 || r->ranks > 1 << 20) {
            diag_error(s->diag, (Span){0}, 0, "--ranks takes a number from 1 on, not '%s'",
                       o->ranks);
            return false;
        }
    }
    if (device_load(s, r->device, &r->about))
        return false;
    r->gpu = r->about.target == TARGET_cuda;
    return true;
}

static const char *rate(const Recipe *r)
{
    Arena *a = r->s->arena;
    const char *peak = keys_shown(a, r->rate);
    return arena_printf(a, "lr %s(peak = %s, warmup = warmup, steps = steps%s)", r->schedule, peak,
                        r->more);
}

const char *recipe_train(const Recipe *r)
{
    Arena *a = r->s->arena;
    const char *decay =
        arena_printf(a, "%sdecay = %s%s", *r->settings ? ", " : "", keys_shown(a, r->decay),
                     r->all_decay ? "" : " where rank >= 2");
    const char *clip = r->clip > 0 ? arena_printf(a, "clip %s\n", keys_shown(a, r->clip)) : "";
    return arena_printf(a,
                        "const steps = %lld, warmup = %lld\n\n"
                        "train {\noptimizer %s(%s%s)\n%s\n%sprecision %s\n%s}\n",
                        (long long)(r->steps ? r->steps : 1000), (long long)r->warmup, r->optimizer,
                        r->settings, r->decay > 0 ? decay : "", rate(r), clip, r->precision,
                        r->lines);
}

/* The axes, and the rules of ZeRO over them: all ranks are data parallel. */
static const char *over(const Recipe *r)
{
    static const char *const classes[] = {"", "state -> %s\n", "state, grads -> %s\n",
                                          "state, grads, params -> %s\n"};
    Arena *a = r->s->arena;
    const int64_t n = r->ranks, g = r->group > 1 && r->group < n ? r->group : 0;
    const char *all = g ? "dp, near" : "dp";
    const char *mesh =
        g ? arena_printf(a, "mesh dp = %lld, near = %lld\n", (long long)(n / g), (long long)g)
          : arena_printf(a, "mesh dp = %lld\n", (long long)n);
    const char *rules = "";
    if (g && r->copies && r->stage)
        rules = "state, grads, params -> near\n";
    else if (g && r->stage == 3)
        rules = "state, grads -> dp, near\nparams -> near\n";
    else if (r->stage == 1)
        rules = arena_printf(a, classes[1], all);
    else if (r->stage)
        rules = arena_printf(a, r->stage == 2 ? classes[2] : classes[3], all);
    return arena_printf(a, "%sbatch -> %s\n%s", mesh, all, rules);
}

const char *recipe_layout(const Recipe *r)
{
    Arena *a = r->s->arena;
    const bool halves = strncmp(r->precision, "f32", 3) != 0;
    const char *moved = "";
    if (r->state)
        moved = arena_printf(a, "offload state%s -> %s\n", halves ? ", masters" : "", r->state);
    if (r->parameters)
        moved = arena_printf(a, "%soffload parameters -> %s\n", moved, r->parameters);
    return arena_printf(a, "layout {\ndevice %s\n%s%smicrobatch %lld\nrecompute %s\n}\n",
                        strchr(r->device, '.') || strchr(r->device, '/')
                            ? arena_printf(a, "\"%s\"", r->device)
                            : r->device,
                        over(r), moved, (long long)r->micro, r->recompute);
}

const char *recipe_formatted(Session *s, const char *text)
{
    size_t size;
    char *formatted;
    const uint32_t file = diag_add_file(s->diag, "imported.mg", text, strlen(text));
    const Ast *ast = mg_parse(s->arena, s->names, s->diag, file);
    if (!ast)
        return NULL;
    FILE *f = open_memstream(&formatted, &size);
    mg_fmt(ast, f);
    fclose(f);
    const char *kept = arena_strndup(s->arena, formatted, size);
    free(formatted);
    return kept;
}
