/* generate.h - a forward function that goes on from where it was; private to generate*.c.
 *
 * Values of @generate are of all positions of a window, [batch, seq = S, ...]. @prefill and @decode
 * compute them of n new positions of each sequence, which begin at `begin` [batch]. A value has two
 * images:
 *
 *   near  its elements at the new positions: seq = n. What depends on the position alone gets the
 *         dim of the batch, since each sequence is at another one. A dim that is the sequence under
 *         another name (`k[seq -> t]`) is the sequence again.
 *   far   of a bias, which has queries and keys: seq = n, and t = S, the keys. Nothing of it may
 *         depend on tokens along t.
 *
 * Only what has a use is built (Generate.live). */
#ifndef MGC_PASSES_GENERATE_H
#define MGC_PASSES_GENERATE_H

#include "ir/ir.h"

typedef enum Image { NEAR, FAR, IMAGES } Image;

/* A region of @generate and the one that is made of it, with the frame around. */
typedef struct Frame {
    struct Frame *outer;
    const Region *from;
    Region *to;
    Ins *loop; /* whose body `to` is; NULL: it is a function's, or is made within the outer frame's
                */
} Frame;

typedef struct Resized {
    Name name;
    int64_t size;
} Resized;

/* Places of keys in caches of attention that sees `window` positions back, and what its queries
 * see: generate_attend.c. */
typedef struct Places {
    int64_t window;    /* 0: any */
    int64_t ring;      /* places of a cache in which position p is at p mod ring; 0: one for each */
    Dim keys;          /* of the cache */
    Dim seen_keys;     /* of what attention reads, a ring's older positions and the new ones */
    Value put;         /* i32[batch, seq]: the place of each new position, or -1 */
    Value old;         /* i32[batch, older]: places of the older positions; 0: nothing is read so */
    Value seen, first; /* operands of attention */
} Places;

typedef struct Generate {
    Module *m;
    Arena *tmp;
    const Fn *from;
    Fn *to;
    Dim batch;              /* the sequences */
    Name seq, context;      /* the window; all positions that caches have */
    int64_t window, n;      /* S, and how many are new */
    bool *live;             /* per value of @generate */
    size_t known;           /* values there were */
    ValueMap image[IMAGES]; /* of a value of @generate */
    ValueMap given;         /* of its arguments but the tokens */
    uint32_t base;          /* the number of its first cache */
    VEC(Name) alias;        /* names of the sequence but seq */
    VEC(Resized)
    resized;            /* dims that are as long as the sequence is, in some way: rows of experts */
    Value begin, count; /* i32[batch]: arguments */
    Value place[3];     /* [batch, seq] of DT_i32, f32, f64: the positions */
    Value at;           /* i32[batch, seq]: the same, none beyond the window */
    Value valid;        /* bool[batch, seq]: is there such a token? */
    Value fresh, active; /* bool[batch]: does a text begin here? is there a new token? */
    VEC(Places) places;  /* of caches: one for each window that some attention has */
    VEC(Value) left;     /* results: what becomes of the caches */
    bool whole;          /* a recurrence: all n positions are new, or none */
    int64_t cuts;        /* Fn.cuts: S, the shortest ring, or 0 */
    const Ins *wrong;    /* why it cannot be done, and where; NULL: it can */
    const char *why;
} Generate;

/* Says why an instruction has no image; returns 0. */
Value generate_refuse(Generate *g, const Ins *at, const char *why);

/* The image of a value, built where it belongs; 0: refused. */
Value generate_image(Generate *g, Frame *f, Value v, Image image);
/* The frame of the region that a value belongs to. */
Frame *generate_frame(Frame *f, const Region *home);

/* Dims and attributes of @generate as an image has them. */
Dim generate_dim(const Generate *g, Dim d, Image image);
Type generate_type(const Generate *g, const Type *t, Image image);
Attrs generate_attrs(const Generate *g, const Attrs *a, Image image);
bool generate_is_alias(const Generate *g, Name d);

/* x with the dim of the batch, outermost. */
Value generate_each(Generate *g, Builder *b, Value x);

/* At the beginning of the function: positions [batch, seq], and what else is known of them. */
Value generate_place(Generate *g, DType t);
void generate_start(Generate *g);

/* A cache, of type t: what positions before left, in the frame's region: an argument of the
 * function, sliced by the loops around; and what the cache of that number becomes. */
Value generate_cache(Generate *g, Frame *f, const Type *t, size_t *number);
void generate_leave(Generate *g, Frame *f, size_t number, Value v);

/* Of cache entries: t with the batch, then what is neither in `last` nor the sequence, then `to` in
 * its place, then `last`. */
Type generate_in_cache(const Generate *g, const Type *t, const DimList *last, Dim to);
/* v is the image of result k. */
bool generate_enter(Generate *g, const Ins *i, uint32_t k, Image image, Value v);

/* generate_attend.c: attention along the sequence. */
bool generate_attention(Generate *g, Frame *f, const Ins *i);
/* Are the keys those of the sequence itself, under another name? */
bool generate_own_keys(const Generate *g, const Attrs *a);

/* generate_latent.c. A part of a head, elements [at, at + size): elements [from, from + size) along
 * `dim` of x, or, where there is a weight, of the product of x and it over `over`. */
typedef struct LatentPart {
    int64_t at, size, from;
    Value x, weight; /* values of @generate */
    Name dim;
    Dim over;
} LatentPart;
enum { LATENT_PARTS = 8 };
typedef struct LatentParts {
    LatentPart part[LATENT_PARTS];
    int n;
    bool many; /* there are more */
} LatentParts;
typedef struct Latent {
    LatentParts k, v, row; /* the row that all heads share: first what values are made of */
    int64_t size;
    Dim over; /* that of queries and rows */
} Latent;
/* Are keys and values of heads made of fewer numbers, that are better kept? */
bool generate_is_latent(const Generate *g, const Ins *i, Latent *l);
/* Sets what takes the places of queries, and of keys, of the new positions. */
bool generate_latent(Generate *g, Frame *f, const Ins *i, Latent *l, Value *q, Value *row);
/* Of all rows what is their value; and what attention over that gives, multiplied to what it was.
 */
Value generate_latent_values(Generate *g, Builder *b, const Ins *i, const Latent *l, Value rows);
Value generate_latent_out(Generate *g, Frame *f, const Ins *i, const Latent *l, Value o);

/* generate_ops.c: the image of what an instruction gives, where it looks at other positions. Result
 * k is entered; false: refused. *done: it was one of these. */
bool generate_special(Generate *g, Frame *f, const Ins *i, Image image, bool *done);
/* generate_loop.c: a repeat, over layers or along the sequence. */
bool generate_loop(Generate *g, Frame *f, const Ins *i);

#endif
