/* tokens.c - detects the format of a token file, checks it, and reads tokens.
 *
 *   llm.c      256 int32, the first three 20240520, 1, n: then n uint16;
 *              or 20240801, 7, n: then n uint32
 *   Megatron   X.bin with X.idx, which begins with MMIDIDX: tokens of the type that it names
 *   bytes      any other file, if the vocabulary is 256
 *   raw        a file that the user names so: u8:, u16: or u32: before the name (nanoGPT's are
 *   u16:)
 *
 * All formats are little-endian. Files are read with pread, not mapped: a file that shrinks during
 * the run is an error with its name, not a SIGBUS. Each token is checked against the vocabulary
 * before step 0. */
#include "runtime/run.h"
#include "runtime/data/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LLMC_MAGIC = 20240520,
    LLMC_MAGIC_32 = 20240801,
    LLMC_HEADER = 1024,
    BYTE_VOCAB = 256,
    INDEX_HEAD = 34, /* bytes of a Megatron index before the lengths of sequences, then offsets */
    CHUNK = 1 << 14  /* tokens at a time */
};

static void read_fully(int fd, const char *path, void *to, size_t n, int64_t at)
{
    if (rt_read_at(fd, to, n, at))
        return;
    if (errno)
        rt_die(RT_IO, "%s: reading at byte %" PRId64 ": %s", path, at, strerror(errno));
    rt_die(RT_BAD_DATA,
           "%s: ends before byte %" PRId64 ": it became shorter since the program started", path,
           at + (int64_t)n);
}

void rt_file_read(const rt_file *f, void *to, int64_t n, int64_t at)
{
    read_fully(f->fd, f->path, to, (size_t)n, at);
}

static int64_t token_at(const rt_file *f, const char *p, int64_t i)
{
    uint16_t two;
    uint32_t four;
    int64_t eight;
    int16_t half;
    int32_t whole;
    switch (f->width) {
    case 1:
        return (unsigned char)p[i];
    case 2:
        memcpy(&two, p + 2 * i, 2);
        memcpy(&half, p + 2 * i, 2);
        return f->is_signed ? half : two;
    case 4:
        memcpy(&four, p + 4 * i, 4);
        memcpy(&whole, p + 4 * i, 4);
        return f->is_signed ? whole : (int64_t)four;
    default:
        memcpy(&eight, p + 8 * i, 8);
        return eight;
    }
}

void rt_tokens_read(const rt_file *f, int64_t first, int64_t n, int32_t *out)
{
    char buffer[8 * 1024];
    int64_t limit = (int64_t)sizeof buffer / f->width;
    for (int64_t done = 0; done < n;) {
        int64_t k = n - done < limit ? n - done : limit;
        read_fully(f->fd, f->path, buffer, (size_t)(k * f->width),
                   f->start + (first + done) * f->width);
        for (int64_t i = 0; i < k; i++)
            out[done + i] = (int32_t)token_at(f, buffer, i);
        done += k;
    }
}

static void check_tokens(const rt_file *f, int64_t vocab)
{
    char *t = rt_alloc(CHUNK, 8);
    if (f->width == 1 && vocab >= BYTE_VOCAB) {
        free(t);
        return;
    }
    for (int64_t at = 0; at < f->tokens; at += CHUNK) {
        int64_t k = f->tokens - at < CHUNK ? f->tokens - at : CHUNK;
        read_fully(f->fd, f->path, t, (size_t)(k * f->width), f->start + at * f->width);
        for (int64_t i = 0; i < k; i++) {
            int64_t token = token_at(f, t, i);
            if (token < 0 || token >= vocab)
                rt_die(RT_BAD_DATA,
                       "%s: token %" PRId64 " is %" PRId64 "; the vocabulary has %" PRId64
                       " (0 to %" PRId64 ")",
                       f->path, at + i, token, vocab, vocab - 1);
        }
    }
    free(t);
}

/* ---- formats ------------------------------------------------------------------------------ */

static void open_llmc(rt_file *f, int64_t size, const int32_t header[3])
{
    bool wide = header[0] == LLMC_MAGIC_32;
    int version = wide ? 7 : 1, width = wide ? 4 : 2;
    if (header[1] != version)
        rt_die(RT_BAD_DATA, "%s: llm.c token file of version %d; only %d is known", f->path,
               header[1], version);
    if (size < LLMC_HEADER || header[2] < 0 || size - LLMC_HEADER != (int64_t)header[2] * width)
        rt_die(RT_BAD_DATA,
               "%s: its header counts %d tokens, %" PRId64 " bytes in all; it has %" PRId64
               " bytes",
               f->path, header[2], LLMC_HEADER + (int64_t)header[2] * width, size);
    f->width = width;
    f->start = LLMC_HEADER;
    f->tokens = header[2];
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* Checks that lengths and offsets of the index tile the tokens, because windows cross sequences. */
static void check_sequences(const rt_file *f, int fd, const char *index, int64_t n, int64_t size)
{
    enum { ROWS = 4096 };
    char *lengths = rt_alloc(ROWS, 4), *offsets = rt_alloc(ROWS, 8);
    int64_t end = 0;
    for (int64_t i = 0; i < n; i += ROWS) {
        int64_t k = n - i < ROWS ? n - i : ROWS;
        read_fully(fd, index, lengths, (size_t)k * 4, INDEX_HEAD + i * 4);
        read_fully(fd, index, offsets, (size_t)k * 8, INDEX_HEAD + n * 4 + i * 8);
        for (int64_t j = 0; j < k; j++) {
            int32_t length;
            int64_t offset;
            memcpy(&length, lengths + 4 * j, 4);
            memcpy(&offset, offsets + 8 * j, 8);
            if (length < 0 || offset != end || length > (size - end) / f->width)
                rt_die(RT_BAD_DATA,
                       "%s: sequence %" PRId64 " has %d tokens at byte %" PRId64
                       " of %s, which has %" PRId64 " bytes; the one before ends at %" PRId64,
                       index, i + j, length, offset, f->path, size, end);
            end += (int64_t)length * f->width;
        }
    }
    if (end != size)
        rt_die(RT_BAD_DATA, "%s: its sequences end at byte %" PRId64 " of %s, which has %" PRId64,
               index, end, f->path, size);
    free(lengths);
    free(offsets);
}

/* The descriptor of the index beside a file, which counts its sequences; -1 if there is none. */
static int open_index(const rt_file *f, char **path, unsigned char head[INDEX_HEAD], int64_t *n)
{
    *path = rt_printf("%.*s.idx", (int)strlen(f->path) - 4, f->path);
    int fd = ends_in(f->path, ".bin") ? rt_file_open(AT_FDCWD, *path, O_RDONLY) : -1;
    struct stat s;
    if (fd < 0 && (!ends_in(f->path, ".bin") || errno == ENOENT))
        return -1;
    if (fd < 0 || fstat(fd, &s))
        rt_die(RT_BAD_DATA, "%s: %s", *path, rt_file_error());
    if (s.st_size < INDEX_HEAD)
        rt_die(RT_BAD_DATA, "%s has %" PRId64 " bytes: no index of %s", *path, (int64_t)s.st_size,
               f->path);
    read_fully(fd, *path, head, INDEX_HEAD, 0);
    uint64_t version, sequences, documents;
    memcpy(&version, head + 9, 8);
    memcpy(&sequences, head + 18, 8);
    memcpy(&documents, head + 26, 8);
    if (memcmp(head, "MMIDIDX\0", 9) != 0 || version != 1)
        rt_die(RT_BAD_DATA, "%s: this is no index of version 1", *path);
    uint64_t limit = (uint64_t)s.st_size;
    if (sequences > limit / 12 || documents > limit / 8 ||
        INDEX_HEAD + sequences * 12 + documents * 8 > limit)
        rt_die(RT_BAD_DATA,
               "%s has %" PRId64 " bytes, too few for the %" PRIu64 " sequences and %" PRIu64
               " documents that it counts",
               *path, (int64_t)s.st_size, sequences, documents);
    *n = (int64_t)sequences;
    return fd;
}

/* Opens a Megatron file; true if the file has an index, which then says what the file holds. */
static bool open_megatron(rt_file *f, int64_t size)
{
    static const struct {
        int width;
        bool is_signed;
    } types[] = {{0}, {1, false}, {0}, {2, true}, {4, true}, {8, true}, {0}, {0}, {2, false}};
    unsigned char head[INDEX_HEAD];
    char *index;
    int64_t sequences;
    int fd = open_index(f, &index, head, &sequences);
    if (fd >= 0) {
        if (head[17] >= sizeof types / sizeof *types || !types[head[17]].width)
            rt_die(RT_BAD_DATA, "%s: its tokens are of type %d; 1, 3, 4, 5 and 8 are known", index,
                   head[17]);
        f->width = types[head[17]].width;
        f->is_signed = types[head[17]].is_signed;
        f->tokens = size / f->width;
        check_sequences(f, fd, index, sequences, size);
        close(fd);
    }
    free(index);
    return fd >= 0;
}

int rt_tokens_index(const rt_file *f, int64_t *sequences)
{
    unsigned char head[INDEX_HEAD];
    char *index = NULL;
    int fd = f->raw ? -1 : open_index(f, &index, head, sequences);
    free(index);
    return fd;
}

void rt_tokens_lengths(const rt_file *f, int index, int64_t first, int64_t n, int32_t *length)
{
    read_fully(index, f->path, length, (size_t)n * 4, INDEX_HEAD + first * 4);
}

void rt_tokens_sequence(const rt_file *f, int index, int64_t sequences, int64_t i, int64_t *first,
                        int64_t *n)
{
    int32_t length;
    rt_tokens_lengths(f, index, i, 1, &length);
    read_fully(index, f->path, first, 8, INDEX_HEAD + sequences * 4 + i * 8);
    *first /= f->width;
    *n = length;
}

/* Opens a file that the user named as raw ("u16:" before the name). */
static bool open_raw(rt_file *f, int64_t size)
{
    if (!f->raw)
        return false;
    if (size % f->raw)
        rt_die(RT_BAD_DATA,
               "%s has %" PRId64 " bytes, which is not a multiple of %d, the bytes of a token",
               f->path, size, f->raw);
    f->width = f->raw;
    f->tokens = size / f->raw;
    return true;
}

/* The advice about a file that is none of tokens, by its name. */
static const char *instead_of(const char *path)
{
    const char *end = strrchr(path, '.');
    return end && !strcmp(end, ".safetensors")
               ? "safetensors files are for models with several inputs, or numbers, by name"
               : "mgc tok --tokenizer tokenizer.json -o NAME FILE makes NAME.bin of texts and JSON";
}

void rt_tokens_open(rt_file *f, int64_t window, int64_t vocab)
{
    struct stat s;
    f->fd = rt_file_open(AT_FDCWD, f->path, O_RDONLY);
    if (f->fd < 0 && errno == EISDIR)
        rt_die(RT_BAD_DATA, "%s is a directory; name its files: --data '%s/*'", f->path, f->path);
    if (f->fd < 0 || fstat(f->fd, &s))
        rt_die(RT_BAD_DATA, "%s: %s", f->path, rt_file_error());
    int32_t header[3] = {0};
    if (s.st_size >= (off_t)sizeof header)
        read_fully(f->fd, f->path, header, sizeof header, 0);
    f->bytes = s.st_size;
    f->changed = s.st_mtim;
    if (open_raw(f, s.st_size) || open_megatron(f, s.st_size)) {
    } else if (header[0] == LLMC_MAGIC || header[0] == LLMC_MAGIC_32) {
        open_llmc(f, s.st_size, header);
    } else if (vocab == BYTE_VOCAB) {
        f->width = 1;
        f->tokens = s.st_size;
    } else {
        rt_die(
            RT_BAD_DATA,
            "%s: plain bytes are tokens only where the vocabulary is 256, and here it is %" PRId64
            "; otherwise a file begins with llm.c's header (magic %d), has an .idx beside it, or "
            "is named as raw: u16:%s; %s",
            f->path, vocab, LLMC_MAGIC, f->path, instead_of(f->path));
    }
    check_tokens(f, vocab);
    if (f->tokens < window)
        rt_die(RT_BAD_DATA, "%s: has %" PRId64 " tokens; one window takes %" PRId64, f->path,
               f->tokens, window);
}

char *rt_tokens_changed(const rt_file *f)
{
    struct stat s;
    if (fstat(f->fd, &s))
        return rt_printf("%s: %s", f->path, strerror(errno));
    if (s.st_size != f->bytes)
        return rt_printf("%s has %" PRId64 " bytes; it had %" PRId64 " when the program started",
                         f->path, (int64_t)s.st_size, f->bytes);
    if (s.st_mtim.tv_sec != f->changed.tv_sec || s.st_mtim.tv_nsec != f->changed.tv_nsec)
        return rt_printf("%s was written to while it was read", f->path);
    return f->weights ? rt_tokens_changed(f->weights) : NULL;
}
