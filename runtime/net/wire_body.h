/* wire_body.h - an rt_carrier over one binary interface of MPI. A file includes it once, after it
 * defines
 *   TABLE      the name of the rt_carrier
 *   LIBRARIES  names of the library, the likeliest first
 *   HANDLE     the type of a communicator, a datatype and a request
 *   WORLD(l), BYTE(l)  MPI_COMM_WORLD and MPI_BYTE, of the loaded library
 *   KNOWN_BY   a symbol that the other interface lacks, or NULL
 *   UNKNOWN_BY a symbol that this interface lacks, or NULL
 *   IGNORE     MPI_STATUS_IGNORE
 *   ENDED(l)   true if it has ended MPI in another way than by MPI_Finalize */
#include <dlfcn.h>
#include <stddef.h>

#include "runtime/net/wire.h"

/* MPI_THREAD_MULTIPLE, the same number in both interfaces: the watchdog's thread may call
 * MPI_Abort. */
enum { THREADS = 3, TAG = 1, WORDS = 2 };

typedef struct state {
    int (*Init_thread)(int *, char ***, int, int *);
    int (*Finalize)(void);
    int (*Barrier)(HANDLE);
    int (*Comm_rank)(HANDLE, int *);
    int (*Comm_size)(HANDLE, int *);
    int (*Allgather)(const void *, int, HANDLE, void *, int, HANDLE, HANDLE);
    int (*Isend)(const void *, int, HANDLE, int, int, HANDLE, HANDLE *);
    int (*Irecv)(void *, int, HANDLE, int, int, HANDLE, HANDLE *);
    int (*Test)(HANDLE *, int *, void *);
    int (*Cancel)(HANDLE *);
    int (*Request_free)(HANDLE *);
    int (*Abort)(HANDLE, int);
    void *library;
    HANDLE world;
    HANDLE byte;
    int n; /* requests that have begun and are not known to be done */
    HANDLE request[RT_WIRE_PENDING];
    int peer[RT_WIRE_PENDING];
    rt_ticket *ticket[RT_WIRE_PENDING];
    struct { /* words to a rank and from it */
        rt_word said, heard;
        HANDLE to;
        HANDLE from;
        bool speaks, listens;
    } word[MG_RANKS_MAX];
} state;

static const char *find(void *p, void *library)
{
    state *s = p;
    static const struct {
        const char *name;
        size_t at;
    } names[] = {
        {"MPI_Init_thread", offsetof(state, Init_thread)},
        {"MPI_Finalize", offsetof(state, Finalize)},
        {"MPI_Barrier", offsetof(state, Barrier)},
        {"MPI_Comm_rank", offsetof(state, Comm_rank)},
        {"MPI_Comm_size", offsetof(state, Comm_size)},
        {"MPI_Allgather", offsetof(state, Allgather)},
        {"MPI_Isend", offsetof(state, Isend)},
        {"MPI_Irecv", offsetof(state, Irecv)},
        {"MPI_Test", offsetof(state, Test)},
        {"MPI_Cancel", offsetof(state, Cancel)},
        {"MPI_Request_free", offsetof(state, Request_free)},
        {"MPI_Abort", offsetof(state, Abort)},
    };
    static const char *const known[] = {KNOWN_BY, NULL}, *const unknown[] = {UNKNOWN_BY, NULL};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *f = dlsym(library, names[i].name);
        if (!f)
            return names[i].name;
        __builtin_memcpy((char *)s + names[i].at, &f, sizeof f);
    }
    for (int i = 0; known[i]; i++)
        if (!dlsym(library, known[i]))
            return known[i];
    for (int i = 0; unknown[i]; i++)
        if (dlsym(library, unknown[i]))
            return "MPICH's interface: it is Open MPI";
    s->library = library;
    s->world = WORLD(library);
    s->byte = BYTE(library);
    return NULL;
}

static bool start(void *p, const rt_wire_terms *t, int *rank, int *size)
{
    state *s = p;
    (void)t;
    int given;
    s->Init_thread(NULL, NULL, THREADS, &given);
    s->Comm_rank(s->world, rank);
    s->Comm_size(s->world, size);
    return given >= THREADS;
}

static void stop(void *p)
{
    state *s = p;
    s->Barrier(s->world);
    if (!ENDED(s->library))
        s->Finalize();
}

static void gather(void *p, const void *mine, void *all, int bytes)
{
    state *s = p;
    s->Allgather(mine, bytes, s->byte, all, bytes, s->byte, s->world);
}

/* The request of a new message. */
static HANDLE *begin(state *s, int rank, rt_ticket *t)
{
    s->peer[s->n] = rank;
    s->ticket[s->n] = t;
    t->left++;
    return &s->request[s->n++];
}

/* MPI's own error handler ends the job. */
static void send(void *p, int rank, const void *from, int bytes, rt_ticket *t)
{
    state *s = p;
    s->Isend(from, bytes, s->byte, rank, TAG, s->world, begin(s, rank, t));
}

static void take(void *p, int rank, void *to, int bytes, rt_ticket *t)
{
    state *s = p;
    s->Irecv(to, bytes, s->byte, rank, TAG, s->world, begin(s, rank, t));
}

static bool go_on(void *p, const rt_ticket *t)
{
    state *s = p;
    int left = 0;
    (void)t;
    for (int i = 0; i < s->n; i++) {
        int over = 0;
        s->Test(&s->request[i], &over, IGNORE);
        s->ticket[i]->left -= over != 0;
        if (over)
            continue;
        s->request[left] = s->request[i];
        s->ticket[left] = s->ticket[i];
        s->peer[left++] = s->peer[i];
    }
    s->n = left;
    return left;
}

static int peer_of(void *p, const rt_ticket *t)
{
    const state *s = p;
    for (int i = 0; i < s->n; i++)
        if (s->ticket[i] == t)
            return s->peer[i];
    return -1;
}

static void say(void *p, int rank, const rt_word *word)
{
    state *s = p;
    int over = 1;
    if (s->word[rank].speaks)
        s->Test(&s->word[rank].to, &over, IGNORE);
    if (!over)
        return;
    s->word[rank].said = *word;
    s->word[rank].speaks = true;
    s->Isend(&s->word[rank].said, sizeof *word, s->byte, rank, WORDS, s->world, &s->word[rank].to);
}

static bool hears(void *p, int rank, rt_word *word)
{
    state *s = p;
    int over = 0;
    if (s->word[rank].listens)
        s->Test(&s->word[rank].from, &over, IGNORE);
    if (over)
        *word = s->word[rank].heard;
    if (over || !s->word[rank].listens)
        s->Irecv(&s->word[rank].heard, sizeof *word, s->byte, rank, WORDS, s->world,
                 &s->word[rank].from);
    s->word[rank].listens = true;
    return over;
}

static void silence(void *p)
{
    state *s = p;
    for (int rank = 0; rank < MG_RANKS_MAX; rank++) {
        if (s->word[rank].listens) {
            s->Cancel(&s->word[rank].from);
            s->Request_free(&s->word[rank].from);
        }
        s->word[rank].listens = false;
    }
}

static void abort_job(void *p, int code)
{
    state *s = p;
    s->Abort(s->world, code);
}

const rt_carrier TABLE = {.library = {LIBRARIES},
                          .find = find,
                          .start = start,
                          .stop = stop,
                          .gather = gather,
                          .send = send,
                          .take = take,
                          .go_on = go_on,
                          .peer = peer_of,
                          .say = say,
                          .hears = hears,
                          .silence = silence,
                          .abort = abort_job,
                          .state_bytes = sizeof(state)};
