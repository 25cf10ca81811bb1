/* table.c - the op tables of ir/README.md, from ops.def: what the document shows is what there is.
 */
#include <stdio.h>
#include <string.h>
#include "ir/ir.h"
#include "ir/optimizers.h"
static const char *expr[OP_count] = {
#define PRIMITIVE(n, operands, takes, flags, flops, value, vjp) [OP_##n] = #value,
#define COMPOSED(n, operands, takes, flags, flops, value, vjp)  [OP_##n] = value,
#include "ir/ops.def"
};
static const char *takes[] = {"real", "number", "stored", "any"};
static const char *attr[] = {
#define ATTR(n, k) #n,
#include "ir/attrs.def"
};
/* With an argument: the names of the `functions` of the language, or of its `optimizers`. */
int main(int argc, char **argv)
{
    static const struct {
        unsigned bit;
        const char *name;
    } flags[] = {{CHEAP, "cheap"},   {FUSE, "fuse"},        {VIEW, "view"}, {CALL, "call"},
                 {EFFECT, "effect"}, {INTEGER, "integer"},  {COMM, "comm"}, {SUMS, "sums"},
                 {LINEAR, "linear"}, {ADDITIVE, "additive"}};
    const size_t nflags = sizeof flags / sizeof *flags;
    bool functions = argc > 1 && !strcmp(argv[1], "functions");
    for (int i = 1; functions && i < OP_count; i++)
        if (op_is(i, FUNCTION))
            puts(op_info[i].name);
    for (int i = 0; argc > 1 && !functions && i < OPT_count; i++)
        puts(optimizers[i].name);
    if (argc > 1)
        return 0;
    puts("| op | takes | value | derivative |\n|---|---|---|---|");
    for (int i = 1; i < OP_count; i++)
        if (op_is(i, POINTWISE))
            printf("| `%s` | %s | `%s` | %s%s%s |\n", op_info[i].name, takes[op_info[i].takes],
                   expr[i], *op_info[i].vjp ? "`" : "", op_info[i].vjp, *op_info[i].vjp ? "`" : "");
    puts("\n| op | operands | results | flags | attributes |\n|---|---|---|---|---|");
    for (int i = 1; i < OP_count; i++) {
        const OpInfo *o = &op_info[i];
        if (op_is(i, POINTWISE))
            continue;
        char n[32];
        if (o->max == 250)
            strcpy(n, "any");
        else if (o->min == o->max)
            sprintf(n, "%d", o->min);
        else
            sprintf(n, o->max > o->min + 1 ? "%d to %d" : "%d or %d", o->min, o->max);
        printf("| `%s` | %s | ", o->name, n);
        if (o->results == 250)
            printf("any |");
        else
            printf("%d |", o->results);
        for (size_t k = 0; k < nflags; k++)
            if (o->flags & flags[k].bit)
                printf(" %s", flags[k].name);
        printf(" |");
        for (int k = 0; k < ATTR_count; k++)
            if (o->attrs >> k & 1)
                printf(" %s", attr[k]);
        printf(" |\n");
    }
}
