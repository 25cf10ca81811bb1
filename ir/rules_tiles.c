/* rules_tiles.c - the type rule of tile_scale, and where its tiles are. */
#include "ir/mesh.h"
#include "ir/rules.h"

enum { MAX_SIDE = 256 }; /* elements of a side of a tile, for which kernels have room */

const char *type_tile_scale(Rule *r)
{
    const Attrs *a = r->attrs;
    const Type *x = r->in[0];
    const char *wrong = rule_all_have(r, x, &a->over, "the operand");
    if (wrong)
        return wrong;
    if (a->at < 1 || a->at > a->over.n)
        WRONG(r, "%lld of %d dims are no side of a tile", (long long)a->at, a->over.n);
    if (a->every < 1 || a->every > MAX_SIDE)
        WRONG(r, "a side of a tile has 1 to %d elements, not %lld", MAX_SIDE, (long long)a->every);
    if (!(a->value >= 1 && a->value <= 0x1p64))
        WRONG(r, "no largest number of a tile becomes %g", a->value);
    if (x->dtype != DT_bf16)
        WRONG(r, "the operand is %s where bf16 is wanted", dtype_name(x->dtype));
    r->out[0] = *x;
    r->out[0].dtype = DT_f32;
    return NULL;
}

/* A piece of a dim that a rank has, times what is further in, is a number of tiles: then they begin
 * and end with it. */
int ir_cut_tiles(const Module *m, const Attrs *a, const Type *t)
{
    int64_t inner = 1;
    for (int k = a->over.n; k-- > 0;) {
        const Dim d = t->dims[type_find(t, a->over.dim[k].name)];
        const int64_t whole = dim_whole(m, d), piece = whole / mesh_unit(m, d.axes, d.zigzag);
        if (d.axes && inner * piece % a->every)
            return k;
        inner = k == a->at ? 1 : inner * whole;
    }
    return -1;
}
