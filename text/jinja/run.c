/* run.c - statements, and a rendering from its beginning to its end.
 *
 * A frame holds the variables of the template, of an iteration of a loop, of a macro's call or of a
 * block; `set` binds in the innermost one, and names are looked up outwards. */
#include "text/jinja/parts.h"

#include <stdlib.h>

Frame *jin_frame_new(Render *r, Frame *outer)
{
    Frame *f = jin_render_alloc(r, 1, sizeof *f);
    f->outer = outer;
    return f;
}

void jin_bind(Render *r, Frame *f, int name, JinValue *value)
{
    for (size_t i = 0; i < f->bound.n; i++)
        if (f->bound.data[i].name == name) {
            f->bound.data[i].value = value;
            return;
        }
    r->memory += sizeof *f->bound.data;
    vec_push(r->a, &f->bound, (struct Bound){name, value});
}

static void assign_one(Render *r, const Node *target, JinValue *value)
{
    if (target->kind == NODE_name) {
        jin_bind(r, r->frame, target->name, value);
        return;
    }
    JinValue *of = jin_eval(r, target->a);
    r->here = target;
    if (of->kind != JIN_namespace)
        jin_render_fail(r, "a member of %s cannot be set", jin_kind_name(of));
    jin_dict_put(r, of, jin_string_of(r, target->text, target->n), value);
}

static void assign(Render *r, const Nodes *target, JinValue *value)
{
    size_t n;
    if (target->n == 1) {
        assign_one(r, target->data[0], value);
        return;
    }
    JinValue **item = jin_items_of(r, value, &n);
    if (n != target->n)
        jin_render_fail(r, "%zu values for %zu variables", n, target->n);
    for (size_t i = 0; i < n; i++)
        assign_one(r, target->data[i], item[i]);
}

/* ---- loops --------------------------------------------------------------------------------- */

/* The items for which the condition holds. */
static JinValue **fitting(Render *r, const Node *loop, JinValue **item, size_t *n)
{
    JinValue **kept = jin_render_alloc(r, *n + 1, sizeof *kept);
    size_t k = 0;
    Frame *outer = r->frame;
    r->loop_filters++;
    for (size_t i = 0; i < *n; i++) {
        r->frame = jin_frame_new(r, outer);
        assign(r, &loop->list, item[i]);
        if (jin_truthy(jin_eval(r, loop->b)))
            kept[k++] = item[i];
    }
    r->loop_filters--;
    r->frame = outer;
    *n = k;
    return kept;
}

static int loop_name(const Render *r)
{
    for (size_t i = 0; i < r->t->names.n; i++)
        if (strcmp(r->t->names.data[i], "loop") == 0)
            return (int)i;
    return -1;
}

static Flow run_for(Render *r, const Node *loop)
{
    size_t n;
    JinValue *of = jin_eval(r, loop->a);
    r->here = loop->a;
    JinValue **item = jin_items_of(r, of, &n);
    Frame *outer = r->frame;
    Flow flow = FLOW_on;
    if (loop->b)
        item = fitting(r, loop, item, &n);
    LoopState *state = jin_render_alloc(r, 1, sizeof *state);
    JinValue *self = jin_value_new(r, JIN_loop);
    *state = (LoopState){item, n, 0};
    self->loop = state;
    int name = loop_name(r);
    for (size_t i = 0; i < n && flow != FLOW_break; i++) {
        state->index = i;
        r->frame = jin_frame_new(r, outer);
        if (name >= 0)
            jin_bind(r, r->frame, name, self);
        assign(r, &loop->list, item[i]);
        flow = jin_run_body(r, loop->c);
    }
    r->frame = outer;
    if (!n && loop->d) {
        r->frame = jin_frame_new(r, outer);
        flow = jin_run_body(r, loop->d);
        r->frame = outer;
        return flow;
    }
    return FLOW_on;
}

/* ---- blocks -------------------------------------------------------------------------------- */

static void run_inner(Render *r, const Node *body)
{
    Frame *outer = r->frame;
    r->frame = jin_frame_new(r, outer);
    jin_run_body(r, body);
    r->frame = outer;
}

static void run_set_block(Render *r, const Node *n)
{
    size_t from = r->n;
    r->captures++;
    run_inner(r, n->b);
    r->captures--;
    assign(r, &n->list, jin_take_output(r, from));
}

static void run_generation(Render *r, const Node *n)
{
    JinPart part = {.begin = r->n};
    if (r->captures)
        jin_render_fail(r, "'generation' inside of a value is not built");
    run_inner(r, n->a);
    part.end = r->n;
    r->memory += sizeof part;
    vec_push(r->a, &r->generation, part);
}

static void define_macro(Render *r, const Node *n)
{
    JinValue *v = jin_value_new(r, JIN_macro);
    v->macro = n;
    v->frame = r->frame;
    jin_bind(r, r->frame, n->name, v);
}

JinValue *jin_call_macro(Render *r, const JinValue *m, Args *args)
{
    const Node *n = m->macro;
    Frame *before = r->frame, *f = jin_frame_new(r, m->frame);
    size_t from = r->n;
    for (size_t i = 0; i < n->list.n; i++) {
        const Node *name = n->list.data[i];
        const char *text = r->t->names.data[name->name];
        JinValue *v = jin_argument(r, args, i, text);
        r->frame = f;
        if (!v && n->others.data[i])
            v = jin_eval(r, n->others.data[i]);
        jin_bind(r, f, name->name, v ? v : jin_undefined_of(r, text, strlen(text)));
    }
    jin_no_more_arguments(r, args, n->text);
    r->frame = f;
    jin_deeper(r);
    r->captures++;
    jin_run_body(r, n->a);
    r->captures--;
    r->depth--;
    r->frame = before;
    return jin_take_output(r, from);
}

/* ---- statements ---------------------------------------------------------------------------- */

static Flow run_if(Render *r, const Node *n)
{
    for (; n && n->kind == NODE_if; n = n->c)
        if (jin_truthy(jin_eval(r, n->a)))
            return jin_run_body(r, n->b);
    return n ? jin_run_body(r, n) : FLOW_on;
}

static void run_output(Render *r, const Node *n)
{
    JinValue *v = jin_eval(r, n->a);
    r->here = n->a;
    jin_write_value(r, v);
}

static Flow run_one(Render *r, const Node *n)
{
    switch (n->kind) {
    case NODE_data:
        jin_write_out(r, n->text, n->n);
        return FLOW_on;
    case NODE_output:
        run_output(r, n);
        return FLOW_on;
    case NODE_for:
        return run_for(r, n);
    case NODE_if:
        return run_if(r, n);
    case NODE_set:
        assign(r, &n->list, jin_eval(r, n->a));
        return FLOW_on;
    case NODE_set_block:
        run_set_block(r, n);
        return FLOW_on;
    case NODE_macro:
        define_macro(r, n);
        return FLOW_on;
    case NODE_break:
        return FLOW_break;
    case NODE_continue:
        return FLOW_continue;
    case NODE_generation:
        run_generation(r, n);
        return FLOW_on;
    case NODE_body:
        return jin_run_body(r, n);
    case NODE_constant:
    case NODE_name:
    case NODE_list:
    case NODE_tuple:
    case NODE_dict:
    case NODE_member:
    case NODE_item:
    case NODE_slice:
    case NODE_call:
    case NODE_filter:
    case NODE_test:
    case NODE_not:
    case NODE_and:
    case NODE_or:
    case NODE_choice:
    case NODE_compare:
    case NODE_binary:
    case NODE_negative:
    case NODE_positive:
    case NODE_concat:
        break;
    }
    jin_render_fail(r, "no statement");
}

Flow jin_run_body(Render *r, const Node *body)
{
    Flow flow = FLOW_on;
    jin_deeper(r);
    for (size_t i = 0; i < body->list.n && flow == FLOW_on; i++) {
        r->here = body->list.data[i];
        r->steps++;
        flow = run_one(r, body->list.data[i]);
    }
    r->depth--;
    return flow;
}

bool jin_render(const JinTemplate *t, Arena *a, const JinVariable *v, size_t n, time_t now,
                JinText *out, JinError *e)
{
    Render *r = NEW(a, Render);
    *r = (Render){.t = t, .a = a, .now = now, .here = t->body, .e = e};
    if (setjmp(r->fail)) {
        free(r->out);
        return false;
    }
    r->frame = jin_frame_new(r, NULL);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < t->names.n; k++)
            if (strcmp(t->names.data[k], v[i].name) == 0)
                jin_bind(r, r->frame, (int)k, v[i].value);
    jin_run_body(r, t->body);
    *out = (JinText){r->out, r->n, r->generation.data, r->generation.n};
    return true;
}
