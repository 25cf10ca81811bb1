/* actions.c - actions.def as data. */
#include <stddef.h>

#include "plan/plan.h"

/* abi.h declares the functions and types that the rows name, and Action has the members. */
#define ACTION(id, name, function, ...) _Static_assert(sizeof(&function), "declared");
#define DESCRIBED(id, name, function, descriptor, ...)                                             \
    _Static_assert(sizeof(&function), "declared");                                                 \
    _Static_assert(sizeof(((Action *)0)->descriptor) == sizeof(mg_##descriptor##_desc), "a "       \
                                                                                        "member");
#include "plan/actions.def"

const ActionInfo action_info[ACT_count] = {
#define MARK(id, name) [ACT_##id] = {name, NULL, NULL, RESOURCE_arithmetic},
#define ACTION(id, name, function, rate, resource)                                                 \
    [ACT_##id] = {name, #function, NULL, RESOURCE_##resource},
#define DESCRIBED(id, name, function, descriptor, rate, resource)                                  \
    [ACT_##id] = {name, #function, "mg_" #descriptor "_desc", RESOURCE_##resource},
#include "plan/actions.def"
};

double kind_share(ActionKind k, const Device *d, const Train *t)
{
    const struct {
        double product_share, attention_share, attention_grad_share;
    } of = {product_share(d, t), d->attention_share, d->attention_grad_share};
    switch (k) {
#define ACTION(id, name, function, rate, resource)                                                 \
    case ACT_##id:                                                                                 \
        return of.rate;
#define MARK(id, name) case ACT_##id:
#include "plan/actions.def"
    case ACT_count:
        break;
    }
    return 1; /* a mark computes nothing */
}
