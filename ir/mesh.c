/* mesh.c - the ranks as points of a grid, whose axes are the layout's. */
#include "ir/ir.h"
#include "runtime/abi.h"

const char *const class_names[CLASS_count + 1] = {"", "state", "grads", "params", NULL};

int64_t mesh_size(const Module *m, Axes axes)
{
    int64_t n = 1;
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        if (axes >> i & 1)
            n *= m->layout.mesh.data[i].size;
    return n;
}

const char *mesh_axes_text(const Module *m, Axes axes)
{
    const char *all = "";
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        if (axes >> i & 1)
            all = arena_printf(m->arena, "%s%s%s", all, *all ? ", " : "",
                               name_str(m->names, m->layout.mesh.data[i].name));
    return all;
}

int64_t mesh_ranks(const Module *m)
{
    return mesh_size(m, ~(Axes)0);
}

int64_t mesh_block(const Module *m, Axes axes, int64_t block)
{
    int64_t stride = 1, here = 1;
    for (size_t i = m->layout.mesh.n; i-- > 0;) {
        const int64_t size = m->layout.mesh.data[i].size, room = block / stride;
        if (axes >> i & 1 && room > 1)
            here *= size < room ? size : room;
        stride *= size;
    }
    return here;
}

int64_t mesh_coordinate(const Module *m, int64_t rank, int axis)
{
    for (int i = (int)m->layout.mesh.n - 1; i > axis; i--)
        rank /= m->layout.mesh.data[i].size;
    return rank % m->layout.mesh.data[axis].size;
}

int64_t mesh_place(const Module *m, int64_t rank, Axes axes)
{
    int64_t place = 0;
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        if (axes >> i & 1)
            place = place * m->layout.mesh.data[i].size + mesh_coordinate(m, rank, (int)i);
    return place;
}

int64_t dim_whole(const Module *m, Dim d)
{
    return d.size * mesh_size(m, d.axes);
}

int mesh_nested(const Module *m, Dim d, int *axis)
{
    int n = 0;
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        if ((d.axes & ~d.inner) >> i & 1)
            axis[n++] = (int)i;
    for (size_t i = 0; i < m->layout.mesh.n; i++)
        if (d.inner >> i & 1)
            axis[n++] = (int)i;
    return n;
}

Dim mesh_split_within(const Module *m, Dim d, Axes axis)
{
    d.inner = axis < d.axes ? axis : 0;
    d.axes |= axis;
    d.size /= mesh_size(m, axis);
    return d;
}

Axes mesh_zigzag(const Module *m, Name dim)
{
    Axes all = 0;
    for (size_t r = 0; r < m->layout.rules.n; r++)
        all |= m->layout.rules.data[r].dim == dim ? m->layout.rules.data[r].zigzag : 0;
    return all;
}

Axes mesh_heads(const Module *m, Name dim)
{
    Axes all = 0;
    for (size_t r = 0; r < m->layout.rules.n; r++)
        all |= m->layout.rules.data[r].dim == dim ? m->layout.rules.data[r].heads : 0;
    return all;
}

Axes mesh_once(const Module *m, Name dim)
{
    Axes all = 0;
    for (size_t r = 0; r < m->layout.rules.n; r++)
        all |= m->layout.rules.data[r].dim == dim ? m->layout.rules.data[r].once : 0;
    return all;
}

/* The axis of these that a rule of the batch names last, though the mesh has others of the rule
 * behind it; 0: none. */
static Axes ruled_inner(const LayoutRule *rule, Axes axes)
{
    const Axes last = rule->n > 1 ? (Axes)1 << rule->axis[rule->n - 1] : 0;
    const bool within = last && rule->axis[rule->n - 1] < rule->axis[rule->n - 2];
    return within && (axes & last) && last < (axes & ~last) ? last : 0;
}

Dim mesh_ruled(const Module *m, Name dim, Axes axes)
{
    Dim d = {.name = dim, .axes = axes, .zigzag = axes & mesh_zigzag(m, dim)};
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        if (rule->dim == dim && rule->blocks && (axes >> rule->axis[rule->n - 1] & 1))
            d.blocks = rule->blocks;
        if (rule->dim == dim && dim == m->batch.name)
            d.inner |= ruled_inner(rule, axes);
    }
    return d;
}

Dim mesh_split(const Module *m, Dim d, Axes more)
{
    const Dim ruled = mesh_ruled(m, d.name, more);
    d.axes |= more;
    d.zigzag |= ruled.zigzag;
    d.blocks = ruled.blocks ? ruled.blocks : d.blocks;
    d.inner |= mesh_ruled(m, d.name, d.axes).inner;
    if (more & m->layout.pipeline.axis)
        d.size = m->layout.pipeline.chunks * m->layout.pipeline.max_layers;
    else
        d.size /= mesh_size(m, more);
    return d;
}

int mesh_stages(const Module *m)
{
    const Pipeline *p = &m->layout.pipeline;
    return p->axis ? p->chunks * (int)mesh_size(m, p->axis) : 1;
}

int mesh_stage(const Module *m, int64_t rank, int64_t i)
{
    const Pipeline *p = &m->layout.pipeline;
    return mg_stage_of_rank(MG_LOOP, (int)mesh_size(m, p->axis), (int)mesh_place(m, rank, p->axis),
                            (int)(i / p->max_layers));
}

int64_t mesh_first_layer(const Module *m, int stage)
{
    int64_t n = 0;
    for (int s = 0; s < stage; s++)
        n += m->layout.pipeline.layers.data[s];
    return n;
}

int64_t mesh_layer(const Module *m, int64_t rank, int64_t i)
{
    const Pipeline *p = &m->layout.pipeline;
    int stage = mesh_stage(m, rank, i);
    bool is_one = i % p->max_layers < p->layers.data[stage];
    return is_one ? mesh_first_layer(m, stage) + i % p->max_layers : -1;
}

/* From the innermost axis out: what zigzag order cuts in two has to be even there. */
int64_t mesh_pieces(const Module *m, Dim d)
{
    const int64_t blocks = d.blocks ? d.blocks : 1;
    bool odd = blocks % 2;
    for (size_t i = m->layout.mesh.n; i-- > 0;) {
        if (d.axes & d.zigzag & (Axes)1 << i && odd)
            return 2 * blocks;
        if (d.axes >> i & 1)
            odd &= m->layout.mesh.data[i].size % 2;
    }
    return blocks;
}

StageSet mesh_stage_set(const Module *m, int64_t rank)
{
    Axes axis = m->layout.pipeline.axis;
    int64_t place = axis ? mesh_place(m, rank, axis) : 0;
    return !axis                             ? AT_ALL
           : place == 0                      ? AT_FIRST
           : place == mesh_size(m, axis) - 1 ? AT_LAST
                                             : AT_MIDDLE;
}

int64_t mesh_unit(const Module *m, Dim d)
{
    return mesh_size(m, d.axes) * mesh_pieces(m, d);
}

int64_t mesh_index(const Module *m, int64_t rank, Dim d, int64_t i)
{
    int64_t size = d.size, blocks = d.blocks;
    if (d.axes & m->layout.pipeline.axis) /* split on that alone, with the same room for each */
        return mesh_stage(m, rank, i) * m->layout.pipeline.max_layers +
               i % m->layout.pipeline.max_layers;
    int axis[MAX_AXES];
    for (int k = mesh_nested(m, d, axis); k-- > 0;) {
        const int a = axis[k];
        int64_t n = m->layout.mesh.data[a].size, p = mesh_coordinate(m, rank, a);
        int64_t half = size / 2;
        if (blocks) {
            const int64_t each = size / blocks;
            i += (i / each * (n - 1) + p) * each;
        } else if (!(d.zigzag >> a & 1)) {
            i += p * size;
        } else {
            i += i < half ? p * half : (2 * n - 2 - p) * half;
        }
        blocks = 0;
        size *= n;
    }
    return i;
}

static int64_t within(int64_t x, int64_t limit)
{
    return x < 0 ? 0 : x > limit ? limit : x;
}

int64_t mesh_below(const Module *m, int64_t rank, Dim d, int64_t end)
{
    int64_t size = dim_whole(m, d);
    if (d.axes & m->layout.pipeline.axis) {
        int64_t n = 0;
        while (n < d.size && mesh_index(m, rank, d, n) < end)
            n++;
        return n;
    }
    int axis[MAX_AXES];
    for (int i = 0, split = mesh_nested(m, d, axis); i < split; i++) {
        const int a = axis[i];
        int64_t n = m->layout.mesh.data[a].size, p = mesh_coordinate(m, rank, a);
        size /= n;
        if (d.blocks && !(d.axes >> a >> 1)) { /* the last */
            const int64_t each = size / d.blocks;
            int64_t all = 0;
            for (int64_t k = 0; k < d.blocks; k++)
                all += within(end - (k * n + p) * each, each);
            end = all;
        } else if (d.zigzag >> a & 1) {
            end = within(end - p * (size / 2), size / 2) +
                  within(end - (2 * n - 1 - p) * (size / 2), size / 2);
        } else {
            end = within(end - p * size, size);
        }
    }
    return end;
}

/* All three: fixed or may is NULL, applied may be. */
static void walk_rules(const Module *m, const Dim *dims, int n, const bool *fixed, const Axes *may,
                       Axes *axes, bool *applied)
{
    Axes used = 0;
    for (int i = 0; i < n; i++)
        axes[i] = 0;
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        for (int i = 0; i < n && !rule->of; i++) {
            bool window = dims[i].name == m->seq.name && dims[i].size != m->seq.size;
            const Axes free = (may ? may[i] : fixed[i] ? 0 : ~(Axes)0) & ~used;
            if (dims[i].name != rule->dim || dims[i].size == 1 || window)
                continue;
            for (int k = 0; k < rule->n; k++)
                if (free >> rule->axis[k] & 1) {
                    used |= (Axes)1 << rule->axis[k];
                    axes[i] |= (Axes)1 << rule->axis[k];
                    if (applied)
                        applied[r] = true;
                }
        }
    }
}

void mesh_walk(const Module *m, const Dim *dims, int n, const bool *fixed, Axes *axes)
{
    walk_rules(m, dims, n, fixed, NULL, axes, NULL);
}

void mesh_walk_noting(const Module *m, const Dim *dims, int n, const bool *fixed, Axes *axes,
                      bool *applied)
{
    walk_rules(m, dims, n, fixed, NULL, axes, applied);
}

void mesh_walk_within(const Module *m, const Dim *dims, int n, const Axes *may, Axes *axes)
{
    walk_rules(m, dims, n, NULL, may, axes, NULL);
}

Axes mesh_batch_axes(const Module *m)
{
    Dim dims[2] = {m->batch, m->seq};
    bool fixed[2] = {false, false};
    Axes axes[2];
    mesh_walk(m, dims, 2, fixed, axes);
    return axes[0];
}

int64_t mesh_batch_ranks(const Module *m)
{
    return mesh_size(m, mesh_batch_axes(m));
}

int64_t mesh_microbatches(const Module *m)
{
    return m->batch.size / mesh_batch_ranks(m) / m->layout.microbatch;
}

Axes mesh_tree_axes(const Module *m)
{
    return m->train.tree ? mesh_batch_axes(m) : 0;
}

Axes mesh_tree_of(const Module *m, const Type *t)
{
    return dtype_is_half(t->dtype) ? 0 : mesh_tree_axes(m);
}

bool mesh_tree_each_microbatch(const Module *m)
{
    Axes tree = mesh_tree_axes(m), split = 0;
    for (size_t r = 0; r < m->layout.rules.n; r++) {
        const LayoutRule *rule = &m->layout.rules.data[r];
        for (int k = 0; rule->of == CLASS_grads && k < rule->n; k++)
            split |= (Axes)1 << rule->axis[k];
    }
    return (tree & split) != 0;
}
