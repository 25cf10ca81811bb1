/* page.c - mgc --report: lib/mgc/report.html with what was compiled in it, as one JSON object.
 *
 * The page draws; here is only gathered: texts while the passes run, the rest from the plan. */
#include "compiler/report/numbers.h"
#include "compiler/report/page_pipe.h"
#include "compiler/report/step_json.h"
#include "compiler/report/template.h"
#include "compiler/session.h"
#include "plan/whole.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "decide/frontier.h"
#include "plan/outside.h"
#include "plan/place/place.h"
#include "plan/show.h"

typedef struct Text {
    const char *name;
    char *text;
    size_t size;
} Text;

struct Page {
    Arena *a;
    VEC(Text) passes;
    Text fusion, frontier;
    FILE *why; /* where fusion is told */
};

/* ---- gathering ------------------------------------------------------------------------------- */

Page *page_new(Arena *a)
{
    Page *p = NEW(a, Page);
    *p = (Page){.a = a};
    p->why = open_memstream(&p->fusion.text, &p->fusion.size);
    return p;
}

void page_pass(Page *p, const char *name, const Module *m)
{
    Text t = {.name = name};
    FILE *out = open_memstream(&t.text, &t.size);
    ir_print(m, out);
    fclose(out);
    vec_push(p->a, &p->passes, t);
}

FILE *page_fusion(Page *p)
{
    return p->why;
}

void page_frontier(Page *p, const Module *m, const Device *d)
{
    FILE *out = open_memstream(&p->frontier.text, &p->frontier.size);
    frontier_print(m, d, out);
    fclose(out);
}

/* ---- the plan as JSON ------------------------------------------------------------------------ */

typedef struct Maker {
    const Plan *p;
    Arena *a;
    json_t *root;
    uint32_t file; /* the source */
} Maker;

/* The buffers of a level's arena; owner: numbers of owners in the page, -1: none yet. */
static json_t *arena_json(const Plan *p, Level level, int owner[OWN_count], json_t *owner_names)
{
    const int last = (int)p->train->actions.n - 1;
    json_t *all = json_array();
    for (size_t i = 0; i < p->buffers.n; i++) {
        const Buffer *b = &p->buffers.data[i];
        if (!plan_has_buffer(b, level))
            continue;
        if (owner[b->owner] < 0) {
            owner[b->owner] = (int)json_array_size(owner_names);
            json_array_append_new(owner_names, json_string(plan_owner(b->owner)));
        }
        json_array_append_new(all,
                              json_pack("[s, i, i, i, I, I]", name_str(p->module->names, b->name),
                                        owner[b->owner], b->persistent ? 0 : b->first,
                                        b->persistent ? last : b->last, (json_int_t)b->offset,
                                        (json_int_t)b->bytes));
    }
    return json_pack("{s:s, s:I, s:o}", "level", level_names[level], "bytes",
                     (json_int_t)(level ? p->level_bytes[level] : p->arena_bytes), "buffers", all);
}

/* The device's arena, and those of other levels that have something. */
static void add_arenas(Maker *m)
{
    const Plan *p = m->p;
    int owner[OWN_count];
    json_t *arenas = json_array(), *names = json_array(), *sizes = json_array();
    for (int o = 0; o < OWN_count; o++) {
        owner[o] = -1;
        if (p->memory[o])
            json_array_append_new(
                sizes, json_pack("[s, I]", plan_owner((Owner)o), (json_int_t)p->memory[o]));
    }
    for (int l = LEVEL_device; l < LEVEL_count; l++)
        if (!l || p->level_bytes[l])
            json_array_append_new(arenas, arena_json(p, (Level)l, owner, names));
    json_object_set_new(m->root, "owner_names", names);
    json_object_set_new(m->root, "owners", sizes);
    json_object_set_new(m->root, "arenas", arenas);
}

static void row(json_t *to, const char *name, const char *value)
{
    json_array_append_new(to, json_pack("[s, s]", name, value));
}

/* The parts of a step of all ranks: seconds and bytes by class. */
static void add_whole(Maker *m, json_t *rows)
{
    const Module *mod = m->p->module;
    const Whole w = plan_whole(m->p);
    row(rows, "a microbatch", whole_microbatches_text(&w, m->a));
    row(rows, "bubble", arena_printf(m->a, "%.1f%% of the step", 100 * w.bubble));
    row(rows, "a rank that computes a tenth slower",
        arena_printf(m->a, "+%.1f%%", 100 * w.slower / w.step));
    if (w.most > 0)
        row(rows, "stragglers", whole_stragglers_text(m->p, &w, m->a));
    for (int i = 0; i < w.naxes; i++)
        row(rows, arena_printf(m->a, "waits for %s", mesh_axes_text(mod, w.along[i].axes)),
            arena_printf(m->a, "%s, %.1f%% of the step", text_seconds(m->a, w.along[i].exposed),
                         100 * w.along[i].exposed / w.step));
}

static void add_summary(Maker *m)
{
    const Plan *p = m->p;
    const Module *mod = p->module;
    const Program *g = p->train;
    Arena *a = m->a;
    double peak = peak_flops(p->device, &mod->train);
    json_t *rows = json_array();
    row(rows, "model", name_str(mod->names, mod->name));
    row(rows, "layout", name_str(mod->names, mod->layout.name));
    row(rows, "device", p->device->name);
    row(rows, "precision",
        arena_printf(a, "%s: %s", precision_name(&mod->train), precision_reason(&mod->train)));
    row(rows, "step",
        arena_printf(a, "%lld sequences of %lld, %lld at once", (long long)mod->batch.size,
                     (long long)mod->seq.size, (long long)mod->layout.microbatch));
    row(rows, "predicted", text_seconds(a, g->seconds));
    row(rows, "tokens a second",
        arena_printf(a, "%.4g", (double)mod->batch.size * (double)mod->seq.size / g->seconds));
    row(rows, "model FLOPs utilization",
        arena_printf(a, "%.1f%%", 100 * g->flops / g->seconds / peak));
    add_whole(m, rows);
    row(rows, "computed again", g->again > 0 ? text_seconds(a, g->again) : "nothing");
    row(rows, "memory",
        arena_printf(a, "%s of %s", text_bytes(a, (double)plan_bytes(p)),
                     text_bytes(a, (double)p->device->memory)));
    if (outside_bytes(p))
        row(rows, "beside the arena", outside_text(p, a));
    for (int l = LEVEL_device + 1; l < LEVEL_count; l++)
        if (p->level_bytes[l])
            row(rows, arena_printf(a, "on the %s", level_names[l]), plan_level_text(p, (Level)l));
    if (plan_transfers_text(p))
        row(rows, "transfers", plan_transfers_text(p));
    if (plan_on_host_text(p))
        row(rows, "optimizer", plan_on_host_text(p));
    row(rows, "largest live set",
        arena_printf(a, "%s, the arena %.2f%% over it", text_bytes(a, (double)p->live_bound_bytes),
                     100 * ((double)p->arena_bytes / (double)p->live_bound_bytes - 1)));
    row(rows, "actions, kernels", arena_printf(a, "%u, %zu generated", p->nactions, p->kernels.n));
    json_object_set_new(m->root, "summary", rows);
}

static json_t *text_json(const char *text)
{
    return json_string(text ? text : "");
}

/* Texts of passes as runs of lines: [first, how many, ...] of `lines`, of which each is there once,
 * since a pass leaves most of them. */
static json_t *runs_json(const char *text, Names *lines)
{
    json_t *runs = json_array();
    json_int_t first = 0, n = 0;
    for (bool more = true; more;) {
        const size_t length = strcspn(text, "\n");
        const json_int_t line = name_intern_n(lines, text, length);
        if (!n || line != first + n) {
            if (n)
                json_array_append_new(runs, json_integer(n));
            json_array_append_new(runs, json_integer(line));
            first = line;
            n = 0;
        }
        n++;
        more = text[length];
        text += length + more;
    }
    json_array_append_new(runs, json_integer(n));
    return runs;
}

static void add_texts(Maker *m, const Page *page)
{
    json_t *passes = json_array(), *lines = json_array();
    Names *names = names_new(m->a);
    size_t size;
    for (size_t i = 0; i < page->passes.n; i++)
        json_array_append_new(passes,
                              json_pack("{s:s, s:o}", "name", page->passes.data[i].name, "runs",
                                        runs_json(page->passes.data[i].text, names)));
    const Diag *d = m->p->module->diag;
    const char *path = m->file ? diag_path(d, m->file) : "", *base = strrchr(path, '/');
    for (Name k = 0; k <= name_count(names); k++)
        json_array_append_new(lines, json_string(name_str(names, k)));
    json_object_set_new(m->root, "lines", lines);
    json_object_set_new(m->root, "passes", passes);
    json_object_set_new(m->root, "fusion", text_json(page->fusion.text));
    json_object_set_new(m->root, "recompute", text_json(page->frontier.text));
    Text layout = {0};
    FILE *out = open_memstream(&layout.text, &layout.size);
    plan_print_layout(m->p, out);
    fclose(out);
    json_object_set_new(m->root, "layout", text_json(layout.text));
    free(layout.text);
    json_object_set_new(m->root, "source_name", text_json(base ? base + 1 : path));
    json_object_set_new(m->root, "source", text_json(m->file ? diag_text(d, m->file, &size) : ""));
}

static json_t *page_json(const Plan *p, const Page *page, Arena *a)
{
    const Module *mod = p->module;
    const Program *g = p->train;
    Maker m = {.p = p, .a = a, .root = json_object(), .file = step_source(p)};
    const char *title =
        arena_printf(a, "%s on %s", name_str(mod->names, mod->name), p->device->name);
    json_object_set_new(m.root, "title", json_string(title));
    json_object_set_new(
        m.root, "line",
        json_string(arena_printf(a, "layout %s · %s a step · %s of %s · mgc %s",
                                 name_str(mod->names, mod->layout.name),
                                 text_seconds(a, g->seconds), text_bytes(a, (double)plan_bytes(p)),
                                 text_bytes(a, (double)p->device->memory), MGC_VERSION)));
    json_object_set_new(m.root, "numbers", numbers_json(p, a));
    add_summary(&m);
    step_json(p, trace_all, true, a, m.root);
    json_t *pipeline = page_pipeline(p);
    if (pipeline)
        json_object_set_new(m.root, "pipeline", pipeline);
    add_arenas(&m);
    add_texts(&m, page);
    const Action *peak = &g->actions.data[g->peak_action];
    json_t *rest = json_pack("{s:i, s:i, s:s, s:I, s:f, s:f}", "action_count", (int)g->actions.n,
                             "peak", g->peak_action, "peak_name",
                             peak->name ? name_str(mod->names, peak->name) : "a loop", "live",
                             (json_int_t)p->live_bound_bytes, "peak_flops",
                             peak_flops(p->device, &mod->train), "bandwidth", p->device->bandwidth);
    json_object_update(m.root, rest);
    json_decref(rest);
    return m.root;
}

/* ---- the page -------------------------------------------------------------------------------- */

Exit page_write(Session *s, const Compiled *c, const char *path)
{
    const char *html = template_read(s, "report.html");
    Output out;
    if (!html)
        return EXIT_tool;
    fflush(s->page->why);
    Exit wrong = output_open(s, &out, path);
    if (wrong)
        return wrong;
    json_t *o = page_json(c->plan, s->page, s->arena);
    template_write(html, o, 8, "", out.file);
    json_decref(o);
    return output_close(s, &out, true);
}
