/* tok_read_sentencepiece.c - a model of SentencePiece (tokenizer.model), of which nothing is
 * believed: pieces with scores, and how text is normalized, as fields of a protobuf message. The
 * kinds unigram and bpe.
 *
 * Byte-pair encoding merges there whatever two neighbours make a piece, the highest score first:
 * those are merges, one for each way to cut a piece in two, whose rank is that of its score. */
#include "text/tok.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3, DENORMALIZER = 5 }; /* fields of the model */
enum { UNIGRAM = 1, BPE = 2 };                                      /* model_type */
typedef enum Kind { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE } Kind;
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* wire types */

typedef struct Wire { /* what is left of a message */
    const unsigned char *p, *end;
    bool bad;
} Wire;
typedef struct Field {
    uint32_t number, type;
    uint64_t value;
    Wire bytes;
} Field;

typedef struct Piece {
    const char *text;
    size_t n;
    float score;
    Kind kind;
} Piece;

typedef struct Model {
    Tokenizer *t;
    const char *path;
    TextError *e;
    VEC(Piece) piece;
    uint64_t kind;
    bool fallback, suffix, prefix, extra, escape;
    const char *unknown; /* the text of an unknown piece */
    Wire map;            /* of characters */
} Model;

/* ---- protobuf ------------------------------------------------------------------------------ */

static uint64_t varint(Wire *w)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (w->p == w->end)
            break;
        unsigned char c = *w->p++;
        v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return v;
    }
    w->bad = true;
    return 0;
}

static uint64_t fixed(Wire *w, size_t n)
{
    uint64_t v = 0;
    if ((size_t)(w->end - w->p) < n) {
        w->bad = true;
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)w->p[i] << 8 * i;
    w->p += n;
    return v;
}

/* False at the end, and where the bytes are no message. */
static bool next_field(Wire *w, Field *f)
{
    if (w->bad || w->p == w->end)
        return false;
    uint64_t tag = varint(w);
    *f = (Field){.number = (uint32_t)(tag >> 3), .type = tag & 7};
    if (w->bad || !f->number || tag >> 32) {
        w->bad = true;
    } else if (f->type == VARINT) {
        f->value = varint(w);
    } else if (f->type == FIXED64 || f->type == FIXED32) {
        f->value = fixed(w, f->type == FIXED64 ? 8 : 4);
    } else if (f->type == BYTES) {
        uint64_t n = varint(w);
        if (n > (size_t)(w->end - w->p))
            w->bad = true;
        else
            f->bytes = (Wire){w->p, w->p + n, false};
        w->p += w->bad ? 0 : n;
    } else {
        w->bad = true; /* groups */
    }
    return !w->bad;
}

static size_t size_of(const Wire *w)
{
    return (size_t)(w->end - w->p);
}

/* ---- messages ------------------------------------------------------------------------------ */

static bool refuse(Model *m, const char *why)
{
    return text_error(m->e, m->t->a, "%s: %s", m->path, why);
}

static bool damaged(Model *m)
{
    return refuse(m, "is no model of SentencePiece, or is damaged: it cannot be read as its "
                     "protobuf message");
}

static bool is_text(const char *p, size_t n)
{
    size_t bad;
    for (size_t i = 0, k; i < n; i += k)
        if (!p[i] || !(k = tok_whole_char((const unsigned char *)p + i, n - i, &bad)))
            return false;
    return true;
}

static bool read_piece(Model *m, Wire w)
{
    Piece piece = {.text = "", .kind = NORMAL};
    Field f;
    while (next_field(&w, &f))
        if (f.number == 1 && f.type == BYTES) {
            piece.n = size_of(&f.bytes);
            piece.text = arena_strndup(m->t->a, (const char *)f.bytes.p, piece.n);
        } else if (f.number == 2 && f.type == FIXED32) {
            uint32_t bits = (uint32_t)f.value;
            memcpy(&piece.score, &bits, sizeof bits);
        } else if (f.number == 3 && f.type == VARINT) {
            piece.kind = f.value >= NORMAL && f.value <= BYTE ? (Kind)f.value : 0;
        }
    if (w.bad || !piece.kind || !piece.n || piece.n > 1 << 16 || !is_text(piece.text, piece.n) ||
        !(piece.score >= -FLT_MAX && piece.score <= FLT_MAX) || m->piece.n == 1 << 24)
        return damaged(m);
    vec_push(m->t->a, &m->piece, piece);
    return true;
}

static bool read_trainer(Model *m, Wire w)
{
    Field f;
    while (next_field(&w, &f))
        if (f.number == 3 && f.type == VARINT)
            m->kind = f.value;
        else if (f.number == 24 && f.type == VARINT)
            m->suffix = f.value;
        else if (f.number == 35 && f.type == VARINT)
            m->fallback = f.value;
        else if (f.number == 44 && f.type == BYTES &&
                 is_text((const char *)f.bytes.p, size_of(&f.bytes)))
            m->unknown = arena_strndup(m->t->a, (const char *)f.bytes.p, size_of(&f.bytes));
    return !w.bad || damaged(m);
}

static bool read_normalizer(Model *m, Wire w)
{
    Field f;
    while (next_field(&w, &f))
        if (f.number == 2 && f.type == BYTES)
            m->map = f.bytes;
        else if (f.number == 3 && f.type == VARINT)
            m->prefix = f.value;
        else if (f.number == 4 && f.type == VARINT)
            m->extra = f.value;
        else if (f.number == 5 && f.type == VARINT)
            m->escape = f.value;
    return !w.bad || damaged(m);
}

/* A denormalizer changes a text that was decoded. */
static bool read_denormalizer(Model *m, Wire w)
{
    Field f;
    while (next_field(&w, &f))
        if (f.number == 2 && f.type == BYTES && size_of(&f.bytes))
            m->t->undecoded = "a denormalizer with a map of characters is not built";
    return !w.bad || damaged(m);
}

static bool read_model(Model *m, Wire w)
{
    Field f;
    while (next_field(&w, &f)) {
        bool good = true;
        if (f.type != BYTES)
            continue;
        if (f.number == PIECES)
            good = read_piece(m, f.bytes);
        else if (f.number == TRAINER)
            good = read_trainer(m, f.bytes);
        else if (f.number == NORMALIZER)
            good = read_normalizer(m, f.bytes);
        else if (f.number == DENORMALIZER)
            good = read_denormalizer(m, f.bytes);
        if (!good)
            return false;
    }
    return (!w.bad && m->piece.n) || damaged(m);
}

/* ---- the tokenizer ------------------------------------------------------------------------- */

/* The byte of a piece "<0x41>", or -1. */
static int byte_of(const Piece *p)
{
    char name[8];
    for (int b = 0; b < 256; b++)
        if (snprintf(name, sizeof name, "<0x%02X>", (unsigned)b) == 6 && strcmp(p->text, name) == 0)
            return b;
    return -1;
}

static bool put_piece(Model *m, int32_t id, const Piece *p)
{
    Tokenizer *t = m->t;
    int byte = p->kind == BYTE ? byte_of(p) : -1;
    bool found = p->kind == NORMAL || p->kind == USER_DEFINED;
    tok_add_name(t, id, p->kind == UNKNOWN ? m->unknown : p->text, p->kind == CONTROL);
    if (p->kind == BYTE && byte < 0)
        return damaged(m);
    if (byte >= 0)
        t->byte[byte] = id;
    if (p->kind == UNKNOWN && t->unk >= 0)
        return refuse(m, "has two unknown pieces");
    if (p->kind == UNKNOWN)
        t->unk = id;
    if (found && tok_table_get(&t->vocab, p->text, p->n) >= 0)
        return refuse(m, arena_printf(t->a, "has the piece '%.40s' twice", p->text));
    if (found)
        tok_table_put(t->a, &t->vocab, p->text, p->n, id);
    if (p->kind == USER_DEFINED || p->kind == CONTROL || p->kind == UNKNOWN) {
        TokAdded a = {.text = p->text, .find = p->text, .length = p->n, .id = id};
        if (p->kind == USER_DEFINED)
            vec_push(t->a, &t->kept, a);
        else
            vec_push(t->a, &t->known, a);
        t->keeps[(unsigned char)*a.text] |= p->kind == USER_DEFINED;
    }
    return true;
}

static bool put_pieces(Model *m)
{
    Tokenizer *t = m->t;
    t->unk = -1;
    t->size = (int32_t)m->piece.n;
    memset(t->byte, -1, sizeof t->byte);
    for (size_t i = 0; i < m->piece.n; i++)
        if (!put_piece(m, (int32_t)i, &m->piece.data[i]))
            return false;
    if (t->unk < 0)
        return refuse(m, "has no unknown piece");
    t->byte_fallback = m->fallback;
    for (int b = 0; m->fallback && b < 256; b++)
        if (t->byte[b] < 0)
            return refuse(m, "falls back to bytes, and has not a piece for each");
    return true;
}

static void put_norm(Model *m, const TokCharsmap *map)
{
    TokNorm norm = {.kind = NORM_sentencepiece,
                    .map = *map,
                    .text = m->escape ? "\xe2\x96\x81" : " ",
                    .left = m->prefix && !m->suffix,
                    .right = m->prefix && m->suffix,
                    .squeeze = m->extra};
    vec_push(m->t->a, &m->t->norm, norm);
}

/* Bytes are text, the first U+2581 goes (all of the first, where no text has several), and others
 * are spaces. */
static void put_decoder(Model *m)
{
    enum { EACH = 1 << 20 };
    const TokDecode strip = {
        .kind = DECODE_strip, .text = "\xe2\x96\x81", .left = m->extra ? EACH : 1};
    vec_push(m->t->a, &m->t->decode, ((TokDecode){.kind = DECODE_fallback}));
    vec_push(m->t->a, &m->t->decode, ((TokDecode){.kind = DECODE_fuse}));
    if (m->prefix || m->extra)
        vec_push(m->t->a, &m->t->decode, strip);
    vec_push(m->t->a, &m->t->decode,
             ((TokDecode){.kind = DECODE_replace, .text = "\xe2\x96\x81", .by = " "}));
}

static bool put_unigram(Model *m)
{
    Tokenizer *t = m->t;
    float least = FLT_MAX;
    t->score = NEW_ARRAY(t->a, double, m->piece.n);
    for (size_t i = 0; i < m->piece.n; i++) {
        const Piece *p = &m->piece.data[i];
        t->score[i] = (double)p->score;
        if (p->kind == USER_DEFINED) /* as version 0.2.3 has it, whatever the file says */
            t->score[i] = 0.1 * (double)(p->n - 1);
        if (p->kind == NORMAL && p->score < least)
            least = p->score;
    }
    t->model = MODEL_unigram;
    t->least = (double)least;
    tok_unigram_trie(t);
    return true;
}

/* ---- merges -------------------------------------------------------------------------------- */

static int by_score(const void *a, const void *b)
{
    const Piece *x = *(const Piece *const *)a, *y = *(const Piece *const *)b;
    return (x->score < y->score) - (x->score > y->score);
}

/* The merges that make a piece; their number where to is NULL. */
static size_t merges_of(Model *m, const Piece *p, int32_t rank, TokMerge *to)
{
    Tokenizer *t = m->t;
    size_t count = 0;
    for (size_t i = 1; i < p->n; i++) {
        if (((unsigned char)p->text[i] & 0xc0) == 0x80)
            continue;
        int32_t a = tok_table_get(&t->vocab, p->text, i);
        int32_t b = tok_table_get(&t->vocab, p->text + i, p->n - i);
        if (a < 0 || b < 0)
            continue;
        if (to)
            to[count] = (TokMerge){(uint64_t)(uint32_t)a << 32 | (uint32_t)b, rank,
                                   (int32_t)(p - m->piece.data)};
        count++;
    }
    return count;
}

/* A character that no piece is by itself would merge there, and have no token here. */
static bool has_characters(Model *m, const Piece *p)
{
    size_t bad;
    for (size_t i = 0, k; i < p->n; i += k) {
        k = tok_whole_char((const unsigned char *)p->text + i, p->n - i, &bad);
        if (tok_table_get(&m->t->vocab, p->text + i, k) < 0)
            return refuse(m, arena_printf(m->t->a,
                                          "has the piece '%.40s' and not each of its characters "
                                          "as a piece, which is not built",
                                          p->text));
    }
    return true;
}

static bool put_bpe(Model *m)
{
    Tokenizer *t = m->t;
    const Piece **sorted = NEW_ARRAY(t->a, const Piece *, m->piece.n);
    size_t n = 0, merges = 0;
    for (size_t i = 0; i < m->piece.n; i++) {
        const Piece *p = &m->piece.data[i];
        if (p->kind == UNUSED)
            return refuse(m, "has pieces that are not used, which bpe cuts again: not built");
        if (p->kind != NORMAL)
            continue;
        if (!has_characters(m, p))
            return false;
        sorted[n++] = p;
    }
    qsort(sorted, n, sizeof *sorted, by_score);
    int32_t rank = 0;
    for (size_t i = 0; i < n; i++)
        merges += merges_of(m, sorted[i], 0, NULL);
    TokMerge *list = NEW_ARRAY(t->a, TokMerge, merges + 1), *to = list;
    for (size_t i = 0; i < n; i++) {
        rank += i && sorted[i]->score < sorted[i - 1]->score;
        to += merges_of(m, sorted[i], rank, to);
    }
    tok_put_merges(t, list, merges);
    t->model = MODEL_bpe;
    t->fuse_unk = true;
    for (size_t i = 0; i < t->kept.n; i++) { /* those merge with nothing */
        TokAdded a = t->kept.data[i];
        a.normalized = true;
        t->begins[1][(unsigned char)*a.find] = true;
        vec_push(t->a, &t->added, a);
    }
    return true;
}

bool tok_read_sentencepiece(TokReader *r, const char *bytes, size_t n)
{
    Model m = {.t = r->t,
               .path = r->path,
               .e = r->e,
               .kind = UNIGRAM,
               .prefix = true,
               .extra = true,
               .escape = true,
               .unknown = " \xe2\x81\x87 "};
    const unsigned char *p = (const unsigned char *)bytes;
    TokCharsmap map = {0};
    if (!read_model(&m, (Wire){p, p + n, false}))
        return false;
    if (m.kind != UNIGRAM && m.kind != BPE)
        return refuse(&m, m.kind == 3 ? "is of the kind word: unigram and bpe are built"
                          : m.kind == 4
                              ? "is of the kind char: unigram and bpe are built"
                              : "is of a kind that nobody knows: unigram and bpe are built");
    size_t size = m.map.p ? size_of(&m.map) : 0;
    char *copy = arena_alloc(r->t->a, size + 1); /* aligned */
    if (size)
        memcpy(copy, m.map.p, size);
    if (size && !tok_charsmap_read(&map, copy, size))
        return refuse(&m, "has a map of characters that is damaged");
    r->t->sentencepiece = true;
    put_norm(&m, &map);
    put_decoder(&m);
    return put_pieces(&m) && (m.kind == BPE ? put_bpe(&m) : put_unigram(&m));
}
