/* shim.cc - the fibers behind cuda_shim.h. */
#include "tests/cuda_shim/cuda_shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <vector>

extern "C" {
#include "tests/cuda_shim/shim.h"
}

#if defined(__SANITIZE_ADDRESS__)
#define SHIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHIM_ASAN 1
#endif
#endif
#ifdef SHIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum { WARP = 32, THREADS = 1024, STACK = 128 << 10, SHARED = 64 };
enum State { READY, AT_BLOCK, AT_WARP, DONE };

struct Copy {
    void *to;
    const void *from;
    size_t bytes;
    int group;
};

/* A product of a warpgroup, and sums of which products are under way. */
struct Product {
    float *sums;
    void (*f)(float *, const void *, unsigned);
    std::string what;
    int group;
    bool computed;
};
struct Sums {
    float *at;
    std::vector<float> x; /* what they will be; their place holds NaN */
};

struct Fiber {
    shim_thread self; /* first: shim_self points to it */
    void *sp;
    char *stack;
    State state;
    int line; /* where it waits */
    uint64_t value, got;
    uint64_t *all; /* where the values of all lanes go, or NULL */
    unsigned mask, from;
    std::vector<Copy> *copies; /* not done yet */
    int group;                 /* that the next one belongs to */
    std::vector<Product> *products; /* under way, in the order in which they were issued */
    std::vector<Sums> *sums;
    int products_group;
    bool begun; /* a group of products */
    void *fake; /* of the address sanitizer */
};

struct Shared {
    const void *key;
    void *at;
};

static struct {
    Fiber fiber[THREADS];
    int threads;
    Fiber *now;
    void *sp; /* of the scheduler */
    void *fake;
    const void *stack;
    size_t stack_size;
    void (*call)(void **);
    void **args;
    Shared shared[SHARED];
    int nshared;
    char *whole; /* what the launch asked for */
    size_t whole_bytes;
    uint64_t rng;
    char wrong[200];
} block;

extern "C" {
shim_thread *shim_self;
}

struct ShimKernel {
    const char *name;
    void (*call)(void **);
    int n; /* arguments */
    const size_t *sizes;
    ShimRun *run; /* NULL: it is of this program's text */
    const void *what;
    ShimKernel *next;
};
static ShimKernel *kernels;

void shim_export(const char *name, void (*call)(void **), int n, const size_t *sizes)
{
    ShimKernel *k = (ShimKernel *)malloc(sizeof *k);
    *k = ShimKernel{name, call, n, sizes, NULL, NULL, kernels};
    kernels = k;
}

void shim_export_other(const char *name, int n, const size_t *sizes, ShimRun *run, const void *what)
{
    shim_export(name, NULL, n, sizes);
    kernels->run = run;
    kernels->what = what;
}

const ShimKernel *shim_find(const char *name)
{
    const ShimKernel *k = kernels;
    while (k && strcmp(k->name, name))
        k = k->next;
    return k;
}

const char *shim_name(const ShimKernel *k)
{
    return k->name;
}

int shim_arguments(const ShimKernel *k)
{
    return k->n;
}

unsigned long shim_argument_bytes(const ShimKernel *k, int i)
{
    return k->sizes[i];
}

void shim_forget()
{
    while (kernels) {
        ShimKernel *k = kernels;
        kernels = k->next;
        free(k);
    }
}

static unsigned draw(unsigned n)
{
    block.rng ^= block.rng >> 12;
    block.rng ^= block.rng << 25;
    block.rng ^= block.rng >> 27;
    return (unsigned)((block.rng * 0x2545F4914F6CDD1Du >> 33) % n);
}

/* ---- switching ---------------------------------------------------------------------------- */

/* Saves what a call preserves on this stack, whose pointer goes to *from, and goes on where `to` was
 * saved. */
extern "C" void shim_switch(void **from, void *to);
__asm__(".text\n"
        ".globl shim_switch\n"
        "shim_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n");

static void to_fiber(Fiber *f)
{
    block.now = f;
    shim_self = &f->self;
#ifdef SHIM_ASAN
    __sanitizer_start_switch_fiber(&block.fake, f->stack, STACK);
#endif
    shim_switch(&block.sp, f->sp);
#ifdef SHIM_ASAN
    __sanitizer_finish_switch_fiber(block.fake, NULL, NULL);
#endif
}

static void to_scheduler(Fiber *f)
{
#ifdef SHIM_ASAN
    __sanitizer_start_switch_fiber(f->state == DONE ? NULL : &f->fake, block.stack, block.stack_size);
#endif
    shim_switch(&f->sp, block.sp);
#ifdef SHIM_ASAN
    __sanitizer_finish_switch_fiber(f->fake, &block.stack, &block.stack_size);
#endif
}

static void fiber_main()
{
#ifdef SHIM_ASAN
    __sanitizer_finish_switch_fiber(NULL, &block.stack, &block.stack_size);
#endif
    block.call(block.args);
    block.now->state = DONE;
    to_scheduler(block.now);
    abort();
}

static void fiber_start(Fiber *f)
{
    if (!f->stack) {
        void *p = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            abort();
        f->stack = (char *)p;
    }
#ifdef SHIM_ASAN
    if (f->state != DONE) /* it stood still when its block was given up: its frames left marks */
        ASAN_UNPOISON_MEMORY_REGION(f->stack, STACK);
#endif
    void **sp = (void **)(f->stack + STACK);
    *--sp = NULL; /* keeps the alignment of a call */
    *--sp = (void *)fiber_main;
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    f->sp = sp;
    f->state = READY;
    f->fake = NULL;
    f->group = f->products_group = 0;
    f->begun = false;
    if (!f->copies) {
        f->copies = new std::vector<Copy>;
        f->products = new std::vector<Product>;
        f->sums = new std::vector<Sums>;
    }
    f->copies->clear();
    f->products->clear();
    f->sums->clear();
}

/* ---- what kernels call -------------------------------------------------------------------- */

void *shim_shared(const void *key, size_t bytes)
{
    for (int i = 0; i < block.nshared; i++)
        if (block.shared[i].key == key)
            return block.shared[i].at;
    if (block.nshared == SHARED)
        abort();
    void *p = malloc(bytes);
    memset(p, 0xff, bytes);
    block.shared[block.nshared++] = Shared{key, p};
    return p;
}

void shim_sync_block(int line)
{
    Fiber *f = block.now;
    f->state = AT_BLOCK;
    f->line = line;
    to_scheduler(f);
}

uint64_t shim_exchange(unsigned mask, uint64_t mine, unsigned from, int line)
{
    Fiber *f = block.now;
    f->state = AT_WARP;
    f->line = line;
    f->value = mine;
    f->all = NULL;
    f->mask = mask;
    f->from = from;
    to_scheduler(f);
    return f->got;
}

void shim_everyone(uint64_t mine, uint64_t all[32], int line)
{
    Fiber *f = block.now;
    f->state = AT_WARP;
    f->line = line;
    f->value = mine;
    f->all = all;
    f->mask = ~0u;
    f->from = 0;
    to_scheduler(f);
}

static void wrong(const char *what)
{
    if (!block.wrong[0])
        snprintf(block.wrong, sizeof block.wrong, "%s", what);
}

/* The hardware faults where an address is no multiple of what it copies. */
void shim_copy_later(void *to, const void *from, size_t bytes)
{
    if ((uintptr_t)to % bytes || (uintptr_t)from % bytes)
        wrong("a copy to shared memory from or to an address that is no multiple of its size");
    memset(to, 0xff, bytes);
    block.now->copies->push_back(Copy{to, from, bytes, block.now->group});
}

void shim_copy_commit()
{
    block.now->group++;
}

void shim_copy_wait(int groups)
{
    std::vector<Copy> &all = *block.now->copies;
    size_t kept = 0;
    for (const Copy &c : all)
        if (c.group >= block.now->group - groups)
            all[kept++] = c;
        else if (c.from)
            memcpy(c.to, c.from, c.bytes);
        else
            memset(c.to, 0, c.bytes);
    all.resize(kept);
}

/* ---- products of a warpgroup -------------------------------------------------------------- */

enum { WHOLE = 1024 }; /* where the memory of a launch begins, as with sm_90 */

void *shim_shared_all()
{
    return block.whole;
}

unsigned shim_shared_address(const void *p)
{
    return (unsigned)((const char *)p - block.whole) + WHOLE;
}

const void *shim_shared_at(unsigned address)
{
    static const uint16_t nothing = 0xffff;
    if (address >= WHOLE && address - WHOLE + sizeof nothing <= block.whole_bytes)
        return block.whole + (address - WHOLE);
    wrong("a product of a warpgroup reads beside its shared memory");
    return &nothing;
}

void shim_group_begin()
{
    block.now->begun = true;
}

static Sums *sums_of(Fiber *f, const float *at)
{
    for (Sums &s : *f->sums)
        if (s.at == at)
            return &s;
    return NULL;
}

/* Up to the n-th of those under way. */
static void compute(Fiber *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        Product &p = (*f->products)[i];
        if (!p.computed)
            p.f(sums_of(f, p.sums)->x.data(), p.what.data(), f->self.thread.x);
        p.computed = true;
    }
}

void shim_group_issue(float *sums, int n, void (*f)(float *, const void *, unsigned), const void *what,
                      size_t bytes)
{
    Fiber *me = block.now;
    if (!me->begun)
        wrong("products of a warpgroup that no fence is before");
    if (!sums_of(me, sums)) {
        me->sums->push_back(Sums{sums, std::vector<float>(sums, sums + n)});
        memset(sums, 0xff, (size_t)n * sizeof *sums);
    }
    me->products->push_back(
        Product{sums, f, std::string((const char *)what, bytes), me->products_group, false});
    if (draw(2)) /* some at once, some when they are waited for */
        compute(me, draw((unsigned)me->products->size() + 1));
}

void shim_group_commit()
{
    block.now->products_group++;
}

void shim_group_wait(int groups)
{
    Fiber *me = block.now;
    me->begun = false; /* registers will be touched */
    std::vector<Product> &all = *me->products;
    size_t done = 0, kept = 0;
    while (done < all.size() && all[done].group < me->products_group - groups)
        done++;
    compute(me, done);
    all.erase(all.begin(), all.begin() + (long)done);
    for (Sums &s : *me->sums) {
        bool open = false;
        for (const Product &p : all)
            open |= p.sums == s.at;
        if (open)
            (*me->sums)[kept++] = s;
        else
            memcpy(s.at, s.x.data(), s.x.size() * sizeof *s.at);
    }
    me->sums->resize(kept);
}

void shim_group_settled(const float *sums)
{
    if (sums_of(block.now, sums))
        wrong("sums of a warpgroup's product are read before it is waited for");
}

/* ---- scheduling --------------------------------------------------------------------------- */

/* If all lanes that should exchange wait for each other, they do. */
static bool exchange(Fiber *warp, int lanes)
{
    const Fiber *first = NULL;
    unsigned present = 0;
    for (int i = 0; i < lanes; i++)
        if (warp[i].state == AT_WARP) {
            first = first ? first : &warp[i];
            present |= 1u << i;
        }
    if (!first)
        return false;
    unsigned all = lanes == WARP ? ~0u : (1u << lanes) - 1;
    if ((first->mask & all) & ~present)
        return false;
    for (int i = 0; i < lanes; i++)
        if ((first->mask >> i & 1) && (warp[i].line != first->line || warp[i].mask != first->mask))
            return false;
    for (int i = 0; i < lanes; i++)
        if (first->mask >> i & 1) {
            unsigned from = warp[i].from;
            warp[i].got = from < (unsigned)lanes && (first->mask >> from & 1) ? warp[from].value
                                                                               : warp[i].value;
            for (int k = 0; warp[i].all && k < lanes; k++)
                warp[i].all[k] = warp[k].value;
        }
    unsigned mask = first->mask;
    for (int i = 0; i < lanes; i++)
        if (mask >> i & 1)
            warp[i].state = READY;
    return true;
}

/* Runs a warp as far as it comes by itself. */
static void run_warp(int w)
{
    Fiber *warp = &block.fiber[w * WARP];
    int lanes = block.threads - w * WARP < WARP ? block.threads - w * WARP : WARP;
    do {
        unsigned first = draw((unsigned)lanes);
        for (int i = 0; i < lanes; i++) {
            Fiber *f = &warp[((unsigned)i + first) % (unsigned)lanes];
            if (f->state == READY)
                to_fiber(f);
        }
    } while (exchange(warp, lanes));
}

/* After every warp ran as far as it could: all done, or all at one barrier. */
static bool settle(bool *done)
{
    int count[4] = {0}, line = -1;
    bool same = true;
    for (int i = 0; i < block.threads; i++) {
        const Fiber *f = &block.fiber[i];
        count[f->state]++;
        if (f->state == DONE && !f->products->empty())
            wrong("a thread ends before the products of its warpgroup are there");
        if (f->state == AT_BLOCK) {
            same &= line < 0 || line == f->line;
            line = f->line;
        }
    }
    *done = count[DONE] == block.threads;
    if (*done)
        return true;
    if (count[AT_WARP])
        snprintf(block.wrong, sizeof block.wrong,
                 "%d lanes wait for others of their warp that are elsewhere", count[AT_WARP]);
    else if (count[DONE])
        snprintf(block.wrong, sizeof block.wrong,
                 "%d threads are at the barrier of line %d, %d have ended", count[AT_BLOCK], line,
                 count[DONE]);
    else if (!same)
        snprintf(block.wrong, sizeof block.wrong, "threads of a block are at different barriers");
    for (int i = 0; i < block.threads; i++)
        block.fiber[i].state = READY;
    return !block.wrong[0];
}

static bool run_block(shim_uint3 at, ShimDim grid, ShimDim size)
{
    int warps = (block.threads + WARP - 1) / WARP, order[THREADS / WARP];
    void *whole = NULL;
    if (block.whole_bytes && posix_memalign(&whole, WHOLE, block.whole_bytes))
        abort();
    block.whole = (char *)whole;
    if (whole)
        memset(whole, 0xff, block.whole_bytes);
    for (int i = 0; i < block.threads; i++) {
        unsigned t = (unsigned)i;
        block.fiber[i].self = shim_thread{{t % size.x, t / size.x % size.y, t / size.x / size.y},
                                          at,
                                          {size.x, size.y, size.z},
                                          {grid.x, grid.y, grid.z}};
        fiber_start(&block.fiber[i]);
    }
    for (bool done = false; !done;) {
        for (int i = 0; i < warps; i++) {
            unsigned k = draw((unsigned)i + 1);
            order[i] = order[k];
            order[k] = i;
        }
        for (int i = 0; i < warps; i++)
            run_warp(order[i]);
        if (!settle(&done))
            break;
    }
    for (int i = 0; i < block.nshared; i++)
        free(block.shared[i].at);
    free(whole);
    block.nshared = 0;
    return !block.wrong[0];
}

const char *shim_launch(const ShimKernel *k, ShimDim grid, ShimDim size, size_t shared, void **args,
                        uint64_t seed)
{
    if (k->run)
        return k->run(k->what, grid, size, shared, args, seed);
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    block.threads = (int)(size.x * size.y * size.z);
    block.call = k->call;
    block.whole_bytes = shared;
    block.args = args;
    block.rng = seed * 0x9e3779b97f4a7c15u + 1;
    block.wrong[0] = 0;
    if (block.threads < 1 || block.threads > THREADS || !blocks)
        return "a launch of no size that there is";
    uint64_t first = draw(1u << 30) % blocks;
    for (uint64_t i = 0; i < blocks; i++) {
        unsigned b = (unsigned)((i + first) % blocks);
        shim_uint3 at = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
        if (!run_block(at, grid, size))
            return block.wrong;
    }
    return NULL;
}
