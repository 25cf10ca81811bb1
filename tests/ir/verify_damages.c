/* verify_damages.c - programs that no text says, broken as structures; see verify_damages.h. */
#include "tests/ir/verify_damages.h"

#include <string.h>

/* @f: %a is given; %b = neg %a; a loop with %x, %n and %c = neg %x in it. */
const char *const damage_args[] = {"a: f64[i=2]", "p: f32[j=2, k=3]", NULL};
const char damage_body[] =
    "%b: f64[i=2] = neg %a\n"
    "%r: f64[i=2] = repeat %b {dim=l=2, carried=1, reverse=no} {\n"
    "  arg %x: f64[i=2]\n  arg %n: i32[]\n  %c: f64[i=2] = neg %x\n  give %c\n}\n"
    "%s: f64[] = sum %r {over=[i=2]}\ngive %s";

static Fn *fn(Module *m)
{
    return m->fns.data[0];
}
static Ins *ins(Module *m, size_t i)
{
    return fn(m)->body->ins.data[i];
}
static ValueInfo *value(Module *m, Value v)
{
    return &m->values.data[v];
}

static void no_dtype(Module *m)
{
    value(m, ins(m, 0)->out[0])->type.dtype = DT_none;
}
static void rank_nine(Module *m)
{
    value(m, ins(m, 0)->out[0])->type.rank = 9;
}
static void operand_of_nothing(Module *m)
{
    ins(m, 0)->in[0] = 0;
}
static void operand_beyond(Module *m)
{
    ins(m, 0)->in[0] = (Value)m->values.n;
}
static void used_above(Module *m)
{
    ins(m, 0)->in[0] = ins(m, 1)->out[0];
}
static void result_of_nothing(Module *m)
{
    fn(m)->body->results.data[0] = 0;
}
static void same_result(Module *m)
{
    ins(m, 1)->out[0] = ins(m, 0)->out[0];
}
static void result_beyond(Module *m)
{
    ins(m, 0)->out[0] = 1u << 30;
}
static void wrong_home(Module *m)
{
    ins(m, 0)->home = ins(m, 1)->body;
}
static void value_home(Module *m)
{
    value(m, ins(m, 0)->out[0])->home = ins(m, 1)->body;
}
static void value_def(Module *m)
{
    value(m, ins(m, 0)->out[0])->def = ins(m, 1);
}
static void arg_twice(Module *m)
{
    fn(m)->body->args.data[1] = fn(m)->body->args.data[0];
}
static void wrong_owner(Module *m)
{
    ins(m, 1)->body->owner = ins(m, 0);
}
static void wrong_parent(Module *m)
{
    ins(m, 1)->body->parent = NULL;
}
static void more_results(Module *m)
{
    ins(m, 0)->nout = 0;
}
static void no_body(Module *m)
{
    ins(m, 1)->body = NULL;
}
static void body_of_neg(Module *m)
{
    ins(m, 0)->body = ins(m, 1)->body;
}
static void no_iteration(Module *m)
{
    ins(m, 1)->attrs.dim.size = 0;
}
static void fewer_roles(Module *m)
{
    fn(m)->args.n--;
}
static void other_tensor(Module *m)
{
    fn(m)->args.data[0].tensor = 1;
}
static void no_tensor(Module *m)
{
    fn(m)->args.data[0].tensor = 2;
}
static void tensor_twice(Module *m)
{
    m->tensors.data[1].type = m->tensors.data[0].type;
    memcpy(m->tensors.data[1].valid, m->tensors.data[0].valid, sizeof m->tensors.data[0].valid);
    m->tensors.data[1].external_rank = 1;
    value(m, fn(m)->body->args.data[1])->type = m->tensors.data[0].type;
    fn(m)->args.data[1].tensor = 0;
}
static void parameter_as_state(Module *m)
{
    fn(m)->args.data[0].role = ARG_state;
}
static void tensor_as_step(Module *m)
{
    fn(m)->args.data[0].role = ARG_step;
}
static void tensor_as_tokens(Module *m)
{
    fn(m)->args.data[0].role = ARG_tokens;
}
static void update_of_scalar(Module *m)
{
    fn(m)->results.data[0] = (FnResult){.role = RES_update};
}
static void update_of_nothing(Module *m)
{
    fn(m)->results.data[0] = (FnResult){.role = RES_grad, .tensor = 9};
}
static void update_twice(Module *m)
{
    fn(m)->results.data[0] = (FnResult){.role = RES_update};
    fn(m)->body->results.data[0] = fn(m)->body->args.data[0];
    vec_push(m->arena, &fn(m)->results, fn(m)->results.data[0]);
    vec_push(m->arena, &fn(m)->body->results, fn(m)->body->results.data[0]);
}
static void no_metric(Module *m)
{
    fn(m)->results.data[0] = (FnResult){.role = RES_metric};
}
static void metric_of_another(Module *m)
{
    vec_push(m->arena, &m->metrics, name_intern(m->names, "accuracy"));
    no_metric(m);
}
static void metric_not_given(Module *m)
{
    vec_push(m->arena, &m->metrics, name_intern(m->names, "accuracy"));
    fn(m)->name = name_intern(m->names, "eval");
}
static void metric_twice(Module *m)
{
    metric_not_given(m);
    no_metric(m);
    vec_push(m->arena, &fn(m)->results, fn(m)->results.data[0]);
    vec_push(m->arena, &fn(m)->body->results, fn(m)->body->results.data[0]);
}
static void many_metrics(Module *m)
{
    for (int k = 0; k <= MAX_METRICS; k++)
        vec_push(m->arena, &m->metrics, name_intern(m->names, "accuracy"));
}
static void short_order(Module *m)
{
    m->tensors.data[1].order[1] = 0;
}
static void long_merge(Module *m)
{
    m->tensors.data[1].merge[1] = 2;
}
static void no_merge(Module *m)
{
    m->tensors.data[1].external_rank = 3;
    m->tensors.data[1].merge[2] = 0;
}
static void part_outside(Module *m)
{
    Tensor *t = &m->tensors.data[1];
    t->part_at = 1;
    t->part_of = t->valid[t->order[0]];
}
static void no_such_part(Module *m)
{
    m->tensors.data[1].part_dim = m->tensors.data[1].external_rank;
    m->tensors.data[1].part_of = 1000;
}
static void all_stacked(Module *m)
{
    m->tensors.data[1].stacked = 3;
}
static void more_valid(Module *m)
{
    m->tensors.data[1].valid[1] = 4;
}
static void nobodys(Module *m)
{
    m->tensors.data[1].parameter = 7;
}
static void anothers(Module *m)
{
    m->tensors.data[1].parameter = 0;
}
static void state_of_state(Module *m)
{
    m->tensors.data[1].slot = m->tensors.data[1].name;
}
/* The second parameter as one that follows the first, but for what is broken. */
static Tensor *follower(Module *m)
{
    Tensor *t = &m->tensors.data[1];
    t->follows = 1;
    t->every = 1;
    t->beta = name_intern(m->names, "0.5");
    t->frozen = true;
    return t;
}
static void another_form(Module *m)
{
    follower(m);
    m->tensors.data[0].type.rank--;
}
static void follows_itself(Module *m)
{
    follower(m)->follows = 2;
}
static void trained_follower(Module *m)
{
    follower(m)->frozen = false;
}
static void never(Module *m)
{
    follower(m)->every = 0;
}
static void by_element(Module *m)
{
    follower(m)->beta = name_intern(m->names, "uniform:0:1");
}
static void tensor_name(Module *m)
{
    m->tensors.data[1].name = m->tensors.data[0].name;
}
static void fn_name(Module *m)
{
    vec_push(m->arena, &m->fns, fn(m));
}
static void nameless(Module *m)
{
    fn(m)->name = 0;
}
static void computes_whole(Module *m)
{
    m->train.compute = DT_i32;
}
static void no_microbatch(Module *m)
{
    m->layout.microbatch = 0;
}
static void odd_microbatch(Module *m)
{
    m->batch.size = 3;
}
static void no_tree(Module *m)
{
    m->train.tree = true;
    m->batch.size = 6;
}

const Damage damages[] = {
    {1, no_dtype, "a type without dtype"},
    {1, rank_nine, "a bad rank"},
    {2, operand_of_nothing, "value 0 is used where it is not defined"},
    {2, operand_beyond, "is used where it is not defined"},
    {2, used_above, "is used where it is not defined"},
    {2, result_of_nothing, "value 0 is used where it is not defined"},
    {3, same_result, "is defined twice"},
    {3, result_beyond, "value 1073741824 does not exist"},
    {3, wrong_home, "the instruction does not know its region"},
    {3, value_home, "does not know where it is defined"},
    {3, value_def, "does not know where it is defined"},
    {3, arg_twice, "is defined twice"},
    {3, wrong_owner, "a region does not know what it belongs to"},
    {3, wrong_parent, "a region does not know what it belongs to"},
    {4, more_results, "1 operands, 0 results"},
    {5, no_body, "none where there is one"},
    {5, body_of_neg, "a region where there is none"},
    {5, no_iteration, "do not match in number"},
    {7, fewer_roles, "not one role for each"},
    {7, other_tensor, "argument 0 has not the type of its role"},
    {7, no_tensor, "argument 0 has not the type of its role"},
    {7, tensor_twice, "argument 1 is a tensor that came before"},
    {7, parameter_as_state, "argument 0 has not the type of its role"},
    {7, tensor_as_step, "argument 0 has not the type of its role"},
    {7, tensor_as_tokens, "argument 0 has not the type of its role"},
    {7, update_of_scalar, "result 0 has not the type of its role"},
    {7, update_of_nothing, "result 0 has not the type of its role"},
    {7, update_twice, "result 1 is of a tensor that came before"},
    {7, no_metric, "result 0 is a metric that there is not"},
    {7, metric_of_another, "@f gives 1 metrics of 1"},
    {7, metric_not_given, "@eval gives 0 metrics of 1"},
    {7, metric_twice, "result 1 is a metric that there is not, or that came before"},
    {7, many_metrics, "33 metrics; the limit is 32"},
    {8, short_order, "'p' has no external form"},
    {8, long_merge, "'p' has no external form"},
    {8, no_merge, "'p' has no external form"},
    {8, all_stacked, "'p' has no external form"},
    {8, part_outside, "'p' has no external form"},
    {8, no_such_part, "'p' has no external form"},
    {8, more_valid, "'p': 4 of 3 valid"},
    {8, nobodys, "'p' has no parameter"},
    {8, anothers, "'p' has no parameter"},
    {8, state_of_state, "'p' has no parameter"},
    {8, another_form, "'p' is of another form than"},
    {8, follows_itself, "'p' follows none"},
    {8, trained_follower, "'p' cannot follow"},
    {8, never, "'p' cannot follow"},
    {8, by_element, "'p' cannot follow"},
    {9, tensor_name, "tensor 1 is called 'a', as another"},
    {9, fn_name, "function 1 is called 'f', as another"},
    {9, nameless, "function 0 is called ''"},
    {10, computes_whole, "the program computes in i32"},
    {10, no_microbatch, "microbatches of 0 for a batch of 2"},
    {10, odd_microbatch, "microbatches of 2 for a batch of 3"},
    {10, no_tree, "a tree of 3 microbatches"},
};
const size_t damage_count = sizeof damages / sizeof *damages;
