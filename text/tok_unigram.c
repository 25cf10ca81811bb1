/* tok_unigram.c - Unigram: of all ways to cut a piece into tokens the one whose scores sum to most,
 * the first found of equals. Neighbours that are unknown are one token, or its bytes. */
#include "text/tok.h"

#include <stdlib.h>
#include <string.h>

typedef struct Item {
    const char *key;
    uint32_t length;
    int32_t id;
} Item;

static int by_bytes(const void *a, const void *b)
{
    const Item *x = a, *y = b;
    int d = memcmp(x->key, y->key, x->length < y->length ? x->length : y->length);
    return d ? d : (x->length > y->length) - (x->length < y->length);
}

typedef struct TrieMaker {
    Tokenizer *t;
    const Item *item;
    VEC(TokNode) node;
    struct Below {
        uint32_t begin, end, depth;
    } *range; /* of the items below each node */
    size_t cap;
} TrieMaker;

static void add_node(TrieMaker *b, uint32_t begin, uint32_t end, uint32_t depth, uint8_t label)
{
    if (b->node.n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 1024;
        b->range = realloc(b->range, b->cap * sizeof *b->range);
        if (!b->range)
            abort();
    }
    b->range[b->node.n] = (struct Below){begin, end, depth};
    TokNode n = {.label = label, .id = -1};
    if (begin < end && b->item[begin].length == depth)
        n.id = b->item[begin].id;
    vec_push(b->t->a, &b->node, n);
}

/* Breadth first, so that the children of a node are neighbours. */
void tok_unigram_trie(Tokenizer *t)
{
    TrieMaker b = {.t = t};
    Item *item = malloc((t->vocab.n + 1) * sizeof *item);
    size_t n = 0;
    if (!item)
        abort();
    for (size_t i = 0; i < t->vocab.slots; i++)
        if (t->vocab.slot[i].key && t->vocab.slot[i].length)
            item[n++] = (Item){t->vocab.slot[i].key, t->vocab.slot[i].length, t->vocab.slot[i].id};
    qsort(item, n, sizeof *item, by_bytes);
    b.item = item;
    add_node(&b, 0, (uint32_t)n, 0, 0);
    for (size_t k = 0; k < b.node.n; k++) {
        struct Below r = b.range[k];
        uint32_t i = r.begin + (r.begin < r.end && item[r.begin].length == r.depth);
        b.node.data[k].child = (uint32_t)b.node.n;
        while (i < r.end) {
            uint8_t label = (uint8_t)item[i].key[r.depth];
            uint32_t end = i;
            while (end < r.end && (uint8_t)item[end].key[r.depth] == label)
                end++;
            add_node(&b, i, end, r.depth + 1, label);
            b.node.data[k].children++;
            i = end;
        }
    }
    t->node = b.node.data;
    free(b.range);
    free(item);
}

static const TokNode *child(const Tokenizer *t, const TokNode *n, uint8_t label)
{
    const TokNode *first = &t->node[n->child];
    size_t low = 0, high = n->children;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (first[middle].label < label)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->children && first[low].label == label ? &first[low] : NULL;
}

typedef struct Best { /* the best way to a place */
    double score;
    uint32_t from;
    int32_t id; /* -1: none is known */
} Best;

static void offer(Best *best, double score, size_t from, int32_t id)
{
    if (best->id < 0 || score > best->score)
        *best = (Best){score, (uint32_t)from, id};
}

static size_t char_length(const char *p)
{
    unsigned char c = (unsigned char)*p;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static double sum(const Tokenizer *t, double a, double b)
{
    return t->sentencepiece ? (double)(float)(a + b) : a + b;
}

static void search(const Tokenizer *t, Best *best, const char *p, size_t n)
{
    double unknown = sum(t, t->least, -10);
    for (size_t i = 0; i <= n; i++)
        best[i] = (Best){0, 0, -1};
    for (size_t i = 0, k; i < n; i += k) {
        const TokNode *node = t->node;
        bool single = false;
        k = char_length(p + i);
        for (size_t j = i; j < n && (node = child(t, node, (uint8_t)p[j])) != NULL; j++) {
            if (node->id < 0)
                continue;
            offer(&best[j + 1], sum(t, t->score[node->id], best[i].score), i, node->id);
            single |= j + 1 - i == k;
        }
        if (!single)
            offer(&best[i + k], sum(t, unknown, best[i].score), i, t->unk);
    }
}

/* The unknown neighbours as one: a token after all (not of SentencePiece), or bytes, or the unknown
 * one. */
static void unknown(TokWorker *w, const char *p, size_t begin, size_t end)
{
    const Tokenizer *t = w->t;
    int32_t id = t->sentencepiece ? -1 : tok_table_get(&t->vocab, p + begin, end - begin);
    bool bytes = id < 0 && t->byte_fallback;
    for (size_t i = begin; bytes && i < end; i++)
        bytes = t->byte[(unsigned char)p[i]] >= 0;
    if (!bytes)
        tok_push(w, id < 0 ? t->unk : id, (uint32_t)begin);
    for (size_t i = begin, at = begin; bytes && i < end; i++) {
        at = ((unsigned char)p[i] & 0xc0) == 0x80 ? at : i;
        tok_push(w, t->byte[(unsigned char)p[i]], (uint32_t)at);
    }
}

void tok_unigram(TokWorker *w, const char *p, size_t n)
{
    Best few[256], *best = n < 256 ? few : malloc((n + 1) * sizeof *best);
    if (!best)
        abort();
    search(w->t, best, p, n);
    /* Turned around: each place on the way knows where the next token ends. */
    uint32_t next = 0;
    for (size_t i = n; i > 0;) {
        uint32_t from = best[i].from;
        best[i].from = next;
        next = (uint32_t)i;
        i = from;
    }
    for (size_t i = 0, end = next; i < n; i = end, end = best[end].from) {
        if (best[end].id != w->t->unk) {
            tok_push(w, best[end].id, (uint32_t)i);
            continue;
        }
        while (end < n && best[best[end].from].id == w->t->unk)
            end = best[end].from;
        unknown(w, p, i, end);
    }
    if (best != few)
        free(best);
}
