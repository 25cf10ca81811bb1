/* collective.c - the rows COLLECTIVE of ops.def as data. The switches have a case for each row, and
 * no default: a kind of abi.h without a row does not compile, nor do two rows of one kind. */
#include "ir/collective.h"

#include <stddef.h>

const Collective *collective_of(Op op)
{
    static const Collective rows[] = {
#define COLLECTIVE(name, kind, flags, sends, formula, bytes, steps, ...)                           \
    {OP_##name, kind, #kind, sends, formula},
#include "ir/ops.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == op)
            return &rows[i];
    return NULL;
}

const Collective *collective_of_kind(mg_comm_kind of)
{
    switch (of) {
#define COLLECTIVE(name, kind, ...)                                                                \
    case kind:                                                                                     \
        return collective_of(OP_##name);
#include "ir/ops.def"
    }
    return NULL;
}

double collective_bytes(mg_comm_kind of, double x, double n)
{
    const double share = (n - 1) / n;
    switch (of) {
#define COLLECTIVE(name, kind, flags, sends, formula, bytes, steps, ...)                           \
    case kind:                                                                                     \
        return bytes;
#include "ir/ops.def"
    }
    return 0;
}

double collective_steps(mg_comm_kind of, double n)
{
    switch (of) {
#define COLLECTIVE(name, kind, flags, sends, formula, bytes, steps, ...)                           \
    case kind:                                                                                     \
        return steps;
#include "ir/ops.def"
    }
    return 0;
}
