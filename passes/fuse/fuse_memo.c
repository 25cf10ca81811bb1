/* fuse_memo.c - regions that are alike are fused alike: which clusters one has become is remembered
 * for the next (base/memo.h).
 *
 * Plans that are compared differ in a part of the program; most regions of one are those of
 * another, value by value, with other numbers. What is merged is a function of what is written
 * here: instructions by their positions, what comes from outside by the order in which it is read
 * first, types, innermost dims, stages and users. Names are compared with each other alone. */
#include "base/memo.h"
#include "passes/fuse/fuse.h"

#include <string.h>

enum { KIND_OF_KEY = 0x66757365 };

typedef struct Key {
    const Fuse *f;
    VEC(uint64_t) words;
    uint32_t *outside; /* per value that does not come from the region: its number, from 1 */
    uint32_t n;
} Key;

static void put(Key *k, uint64_t word)
{
    vec_push(k->f->tmp, &k->words, word);
}

static void put_dims(Key *k, const Dim *dims, int n)
{
    put(k, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        put(k, dims[i].name);
        put(k, (uint64_t)dims[i].size);
    }
}

/* A value's type and where it lies. */
static void put_kind(Key *k, Value v)
{
    const Type *t = type_of(k->f->m, v);
    put(k, (uint64_t)t->dtype << 32 | (uint64_t)t->level);
    put_dims(k, t->dims, t->rank);
    put(k, fuse_innermost(k->f, v));
}

static void put_operand(Key *k, Value v)
{
    const Ins *def = k->f->m->values.data[v].def;
    const int at = k->f->at[v];
    if (at >= 0) {
        uint32_t o = 0;
        while (def->out[o] != v)
            o++;
        put(k, (uint64_t)(at + 1) << 32 | o);
        return;
    }
    const bool first = !k->outside[v];
    if (first)
        k->outside[v] = ++k->n;
    put(k, k->outside[v]);
    if (first) {
        put(k, def && fuse_leaf(def));
        put_kind(k, v);
    }
}

static void put_ins(Key *k, int at)
{
    const Ins *i = k->f->r->ins.data[at];
    const Users *u = &k->f->users[at];
    put(k, (uint64_t)i->op << 48 | (uint64_t)i->nin << 24 | i->nout);
    put_dims(k, &i->attrs.dim, 1);
    put_dims(k, i->attrs.over.dim, i->attrs.over.n);
    for (uint32_t n = 0; n < i->nin; n++)
        put_operand(k, i->in[n]);
    for (uint32_t n = 0; n < i->nout; n++) {
        put_kind(k, i->out[n]);
        put(k, (uint64_t)k->f->stages[i->out[n]]);
    }
    put(k, (uint64_t)u->n);
    for (int n = 0; n < u->n; n++)
        put(k, (uint64_t)u->at[n]);
}

MemoKey fuse_key(const Fuse *f)
{
    Key k = {.f = f, .outside = NEW_ARRAY(f->tmp, uint32_t, f->m->values.n)};
    put(&k, KIND_OF_KEY);
    put(&k, (uint64_t)f->n << 32 | (uint32_t)f->guard);
    put_dims(&k, f->depth.dim, f->depth.n);
    for (int at = 0; at < f->n; at++)
        put_ins(&k, at);
    return (MemoKey){k.words.data, k.words.n};
}

/* ---- clusters -------------------------------------------------------------------------------- */

enum { ALONE = -1, OF_NO_USE = -2 };

/* As numbers: how many clusters there are; of each its members, twice their positions, and one more
 * where it is extra; of each position its owner. */
void fuse_remember(const Fuse *f, MemoKey key)
{
    VEC(int) numbers = {0};
    int clusters = 0;
    vec_push(f->tmp, &numbers, 0);
    for (size_t i = 0; i < f->clusters.n; i++) {
        Cluster *c = f->clusters.data[i];
        if (c->gone)
            continue;
        c->number = clusters++;
        vec_push(f->tmp, &numbers, c->n);
        for (int k = 0; k < c->n; k++)
            vec_push(f->tmp, &numbers, 2 * c->member[k] + c->extra[k]);
    }
    numbers.data[0] = clusters;
    for (int at = 0; at < f->n; at++) {
        const Cluster *c = f->owner[at];
        vec_push(f->tmp, &numbers, !c ? ALONE : c->gone ? OF_NO_USE : c->number);
    }
    memo_keep(key, numbers.data, numbers.n * sizeof *numbers.data);
}

bool fuse_recall(Fuse *f, MemoKey key)
{
    size_t bytes;
    const int *next = memo_find(key, &bytes);
    if (!next)
        return false;
    const int clusters = *next++;
    Cluster *gone = NEW(f->tmp, Cluster), **made = NEW_ARRAY(f->tmp, Cluster *, clusters + 1);
    gone->gone = true;
    for (int i = 0; i < clusters; i++) {
        Cluster *c = made[i] = NEW(f->tmp, Cluster);
        c->n = *next++;
        c->member = NEW_ARRAY(f->tmp, int, c->n);
        c->extra = NEW_ARRAY(f->tmp, bool, c->n);
        for (int k = 0; k < c->n; k++, next++) {
            c->member[k] = *next / 2;
            c->extra[k] = *next % 2;
        }
        cluster_replace(f, c, NULL, NULL);
    }
    for (int at = 0; at < f->n; at++, next++)
        f->owner[at] = *next == ALONE ? NULL : *next == OF_NO_USE ? gone : made[*next];
    fuse_prune(f); /* sets all shapes */
    return true;
}
