/* page.c - two plans as one page: lib/mgc/diff.html with the rows and both timelines in it. */
#include <string.h>

#include "compiler/diff/show.h"
#include "compiler/report/template.h"

static json_t *side_json(Arena *a, const Side *s)
{
    const json_t *p = s->plan;
    return json_pack("{s:s, s:O, s:O, s:O, s:O}", "text", diff_shown(a, s->text), "layout",
                     json_object_get(p, "layout"), "device", json_object_get(p, "device"),
                     "numbers", json_object_get(p, "numbers"), "timeline",
                     json_object_get(p, "timeline"));
}

static json_t *part_json(const DiffPart *p)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < p->rows.n; i++) {
        const DiffRow *r = &p->rows.data[i];
        json_array_append_new(rows, json_pack("[s, s, s, s, b, f, b]", r->name, r->a, r->b, r->by,
                                              r->differs, r->weight, r->part));
    }
    return json_pack("{s:s, s:o}", "title", p->title, "rows", rows);
}

/* [name, A's rank, B's rank] */
static json_t *stages_json(const Diff *d)
{
    json_t *all = json_array();
    for (size_t i = 0; i < d->stages.n; i++) {
        const DiffStage *s = &d->stages.data[i];
        json_array_append_new(
            all, json_pack("[s, i, i]", diff_shown(d->a, s->name), s->rank[0], s->rank[1]));
    }
    return all;
}

Exit diff_page(Session *s, const Diff *d, const char *path)
{
    const char *html = template_read(s, "diff.html");
    Output out;
    if (!html)
        return EXIT_tool;
    const Exit wrong = output_open(s, &out, path);
    if (wrong)
        return wrong;
    json_t *parts = json_array();
    for (int k = 0; k < DIFF_PARTS; k++)
        json_array_append_new(parts, part_json(&d->part[k]));
    json_t *o = json_pack("{s:O, s:s, s:o, s:o, s:o, s:o}", "model",
                          json_object_get(d->side[0].plan, "model"), "verdict", d->verdict, "a",
                          side_json(d->a, &d->side[0]), "b", side_json(d->a, &d->side[1]), "parts",
                          parts, "stages", stages_json(d));
    template_write(html, o, 8, "", out.file);
    json_decref(o);
    return output_close(s, &out, true);
}
