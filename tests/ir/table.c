/* table.c - the op tables of ir/README.md, from ops.def: what the document shows is what there is.
 */
#include <stdio.h>
#include <string.h>
#include "ir/ir.h"
static const char *expr[OP_count] = {
#define PW1(n, f, v, g)  [OP_##n] = #v,
#define PW2(n, f, v, g)  [OP_##n] = #v,
#define CMP2(n, f, v, g) [OP_##n] = #v,
#define PW3(n, f, v, g)  [OP_##n] = #v,
#include "ir/ops.def"
};
static const char *attr[] = {
#define ATTR(n, k) #n,
#include "ir/attrs.def"
};
int main(void)
{
    static const struct {
        unsigned bit;
        const char *name;
    } flags[] = {{CHEAP, "cheap"},   {FUSE, "fuse"},       {VIEW, "view"}, {CALL, "call"},
                 {EFFECT, "effect"}, {INTEGER, "integer"}, {COMM, "comm"}, {SUMS, "sums"}};
    puts("| op | value | derivative |\n|---|---|---|");
    for (int i = 1; i < OP_count; i++)
        if (op_is(i, POINTWISE))
            printf("| `%s` | `%s` | %s%s%s |\n", op_info[i].name, expr[i],
                   *op_info[i].vjp ? "`" : "", op_info[i].vjp, *op_info[i].vjp ? "`" : "");
    puts("\n| op | operands | results | flags | attributes |\n|---|---|---|---|---|");
    for (int i = 1; i < OP_count; i++) {
        const OpInfo *o = &op_info[i];
        if (op_is(i, POINTWISE))
            continue;
        char n[32];
        if (o->most == 250)
            strcpy(n, "any");
        else if (o->least == o->most)
            sprintf(n, "%d", o->least);
        else
            sprintf(n, o->most > o->least + 1 ? "%d to %d" : "%d or %d", o->least, o->most);
        printf("| `%s` | %s | ", o->name, n);
        if (o->results == 250)
            printf("any |");
        else
            printf("%d |", o->results);
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
            if (o->flags & flags[k].bit)
                printf(" %s", flags[k].name);
        printf(" |");
        for (int k = 0; k < ATTR_count; k++)
            if (o->attrs >> k & 1)
                printf(" %s", attr[k]);
        printf(" |\n");
    }
}
