/* contracts.cc - what the kernels of kernels/cuda read and write, by their parameters, and at which
 * multiples: one row of the table for each kernel. It is written from abi.h and the kernels'
 * comments, not from their code; tests/ptx runs the code itself. */
#include "tests/record/check/check.h"

#include <cinttypes>
#include <cstring>

#include "runtime/abi.h"
#include "runtime/launches.h"

namespace check
{

/* Reads the parameters of a launch in their order, and adds pieces. */
class Contract
{
  public:
    Contract(const Launch &of, long at, int of_action, std::vector<Piece> *to)
        : l(of), line(at), action(of_action), pieces(to)
    {
    }
    template <class T> T next()
    {
        T x;
        memcpy(&x, l.parameters.data() + offset, sizeof x);
        offset += sizeof x;
        return x;
    }
    int word()
    {
        return next<int32_t>();
    }
    int64_t number()
    {
        return next<int64_t>();
    }
    /* The next parameter: a pointer to `count` elements of `width` bytes, at a multiple of so many
     * bytes (0: of an element). NULL is nothing where `maybe` says so. */
    void dense(const char *name, int64_t count, uint64_t width, const char *does,
               uint64_t multiple = 0)
    {
        rows(name, 1, 0, count, width, does, multiple);
    }
    void rows(const char *name, int64_t n, int64_t pitch, int64_t count, uint64_t width,
              const char *does, uint64_t multiple = 0)
    {
        const uint64_t at = next<uint64_t>();
        place(name, at, n, pitch, count, width, does, multiple);
    }
    /* does: r, w: reads, writes; ?: may be NULL; =: may be the same as another with it. */
    void place(const char *name, uint64_t at, int64_t n, int64_t pitch, int64_t count,
               uint64_t width, const char *does, uint64_t multiple = 0)
    {
        if (!at && !strchr(does, '?'))
            found("bounds", line, action, "%s: %s is NULL", l.kernel.c_str(), name);
        if (!at || count <= 0 || n <= 0)
            return;
        Piece p = {name,
                   at,
                   (uint64_t)count * width,
                   (uint64_t)n,
                   (uint64_t)pitch * width,
                   strchr(does, 'r') != NULL,
                   strchr(does, 'w') != NULL,
                   multiple ? multiple : width,
                   strchr(does, '=') != NULL};
        if (p.rows > 1 && p.row == p.pitch)
            p.row *= p.rows, p.rows = 1;
        pieces->push_back(p);
    }
    /* The kernel counts this in 32 bits. */
    void small(const char *name, int64_t x)
    {
        if (x < 0 || x > INT32_MAX)
            found("32 bits", line, action, "%s: %s is %" PRId64, l.kernel.c_str(), name, x);
    }
    void wrong(const char *what)
    {
        found("bounds", line, action, "%s: %s", l.kernel.c_str(), what);
    }
    /* The bytes of a number: by the name's last part. */
    uint64_t width() const
    {
        const std::string type = l.kernel.substr(l.kernel.rfind('_') + 1);
        return type == "f64" ? 8 : type == "f32" ? 4 : 2;
    }
    /* Of losses, normalisers and weights of experts. */
    uint64_t wider() const
    {
        return width() == 8 ? 8 : 4;
    }
    const Launch &l;

  private:
    long line;
    int action;
    std::vector<Piece> *pieces;
    size_t offset = 0;
};

/* ---- tables ------------------------------------------------------------------------------ */

/* Indices lie in pieces of index_inner, index_outer apart; all are read. */
static int64_t index_span(int64_t n, int64_t inner, int64_t outer)
{
    const int64_t full = n / inner, rest = n % inner; /* pieces; a later one is not always further */
    const int64_t end = rest ? full * outer + rest : 0, before = full ? (full - 1) * outer + inner : 0;
    return end > before ? end : before;
}

static void indices(Contract &c, const mg_gather_desc &d, const char *does)
{
    c.small("indices", d.indices);
    c.small("rows of the tables", d.tables * d.n);
    c.dense("indices", index_span(d.indices, d.index_inner, d.index_outer), 4, does);
}

static void gather(Contract &c)
{
    const auto d = c.next<mg_gather_desc>();
    const uint64_t word = (uint64_t)std::stoi(c.l.kernel.substr(strlen("mg_gather_")));
    c.word();
    c.dense("table", d.tables * d.outer * d.n * d.inner, word, "r");
    indices(c, d, "r");
    c.dense("y", d.indices * d.outer * d.inner, word, "w");
}

/* Rows that no index names stay as they are. */
static void put(Contract &c)
{
    const auto d = c.next<mg_gather_desc>();
    const uint64_t word = (uint64_t)std::stoi(c.l.kernel.substr(strlen("mg_put_")));
    c.word();
    c.dense("x", d.indices * d.outer * d.inner, word, "r");
    indices(c, d, "r");
    c.dense("table", d.tables * d.outer * d.n * d.inner, word, "rw");
}

/* Count and place: indices in the first pass, then what the pass before has placed. */
static void sort_by(Contract &c, bool place)
{
    const auto d = c.next<mg_gather_desc>();
    c.word();
    const int bits = c.word();
    const int64_t tiles = c.number(), digits = (int64_t)1 << bits;
    indices(c, d, "r");
    c.dense("from", d.indices, 8, "r?");
    c.small("counts", digits * tiles);
    c.dense("counts", digits * tiles + (place ? digits : 0), 4, place ? "r" : "w");
    if (place)
        c.dense("to", d.indices, 8, "w");
}

static void sort_count(Contract &c)
{
    sort_by(c, false);
}

static void sort_place(Contract &c)
{
    sort_by(c, true);
}

static void sort_scan(Contract &c)
{
    const int bits = c.word();
    const int64_t tiles = c.number(), digits = (int64_t)1 << bits;
    c.dense("counts", digits * tiles + digits, 4, "rw");
}

static void scatter(Contract &c)
{
    const auto d = c.next<mg_gather_desc>();
    const uint64_t multiple = c.word() ? 16 : c.width();
    c.dense("sorted", d.indices, 8, "r");
    c.dense("dy", d.indices * d.outer * d.inner, c.width(), "r", multiple);
    c.dense("dtable", d.tables * d.outer * d.n * d.inner, c.width(), "rw", multiple);
}

static void random(Contract &c)
{
    const auto d = c.next<mg_random_desc>();
    c.dense("seed", 1, 8, "r");
    c.dense("step", 1, 8, "r");
    c.dense("slot", 1, 4, "r");
    c.dense("out", d.elements, c.width(), "w");
}

/* ---- experts ----------------------------------------------------------------------------- */

static void top(Contract &c)
{
    const auto d = c.next<mg_top_desc>();
    c.small("scores", d.n);
    c.dense("x", d.rows * d.n, c.width(), "r");
    c.dense("y", d.rows * d.top, 4, "w");
}

static int64_t choices(Contract &c, const mg_experts_desc &d)
{
    c.small("choices", d.groups * d.positions * d.choices);
    return d.groups * d.positions * d.choices;
}

static void slots(Contract &c)
{
    const auto d = c.next<mg_experts_desc>();
    const int64_t n = choices(c, d);
    c.dense("choice", n, 4, "r");
    c.dense("slot", n, 4, "w");
}

static void ends(Contract &c)
{
    const auto d = c.next<mg_experts_desc>();
    c.dense("choice", choices(c, d), 4, "r");
    c.dense("end", d.groups * d.experts, 4, "w");
}

/* Dispatch reads rows and writes z; combine the other way round; combine_weight reads both. */
static void experts(Contract &c)
{
    const auto d = c.next<mg_experts_desc>();
    const int64_t n = choices(c, d), rows = d.groups * d.positions * d.inner;
    const int64_t z = d.homes * d.groups * d.slots * d.inner;
    const bool dispatch = !c.l.kernel.find("mg_dispatch_");
    const bool weigh = !c.l.kernel.find("mg_combine_weight_");
    if (dispatch)
        c.dense("rows", rows, c.width(), "r");
    else
        c.dense("z", z, c.width(), "r");
    if (weigh)
        c.dense("rows", rows, c.width(), "r");
    c.dense("choice", n, 4, "r");
    c.dense("slot", n, 4, "r");
    c.dense("weight", n, c.wider(), weigh ? "w" : "r?");
    if (dispatch)
        c.dense("z", z, c.width(), "w");
    else if (!weigh)
        c.dense("rows", rows, c.width(), "w");
}

/* ---- cross-entropy ----------------------------------------------------------------------- */

static void logits(Contract &c, const mg_xent_desc &d)
{
    c.small("classes", d.vocab);
    if (d.valid > d.vocab)
        c.wrong("more classes count than there are");
}

static int64_t targets(const mg_xent_desc &d)
{
    return index_span(d.rows, d.target_inner, d.target_outer);
}

static int64_t cotangents(const mg_xent_desc &d)
{
    return (d.rows - 1) * d.dloss_stride + 1;
}

static void xent(Contract &c)
{
    const auto d = c.next<mg_xent_desc>();
    logits(c, d);
    c.dense("z", d.rows * d.vocab, c.width(), "r");
    c.dense("target", targets(d), 4, "r");
    c.dense("loss", d.rows, c.wider(), "w");
    c.dense("lse", d.rows, c.wider(), "w?");
}

static void xent_grad(Contract &c)
{
    const auto d = c.next<mg_xent_desc>();
    logits(c, d);
    c.dense("z", d.rows * d.vocab, c.width(), "r=");
    c.dense("target", targets(d), 4, "r");
    c.dense("lse", d.rows, c.wider(), "r");
    c.dense("dloss", cotangents(d), c.wider(), "r");
    c.dense("dz", d.rows * d.vocab, c.width(), "w=");
}

/* z has only as many rows as there are blocks; loss has all. */
static void head_rows(Contract &c)
{
    const auto d = c.next<mg_xent_desc>();
    const int64_t first = c.number(), rows = (int64_t)c.l.grid[0];
    logits(c, d);
    if (first + rows > d.rows)
        c.wrong("rows past the last");
    c.dense("z", rows * d.vocab, c.width(), "rw");
    c.dense("target", targets(d), 4, "r");
    c.dense("dloss", cotangents(d), c.wider(), "r?");
    const uint64_t loss = c.next<uint64_t>();
    c.place("loss", loss + (uint64_t)first * c.wider(), 1, 0, rows, c.wider(), "w");
}

/* ---- epilogues --------------------------------------------------------------------------- */

static uint64_t words_of(Contract &c, const mg_gemm_desc &d, uint64_t width)
{
    const bool wide = c.word() != 0;
    c.small("words of a row", d.n / (wide ? 8 : 1));
    return wide ? 16 : width;
}

static void fill_rows(Contract &c)
{
    const auto d = c.next<mg_gemm_desc>();
    const uint64_t multiple = words_of(c, d, 2);
    c.dense("bias", d.n, 2, "r", multiple);
    c.rows("c", d.m, d.ldc, d.n, 2, "w", multiple);
}

static void gelu(Contract &c)
{
    const auto d = c.next<mg_gemm_desc>();
    const uint64_t multiple = words_of(c, d, 2);
    const bool grad = !c.l.kernel.find("mg_gelu_grad_");
    c.rows("c", d.m, d.ldc, d.n, 2, "rw", multiple);
    c.rows("aux", d.m, d.ldx, d.n, 2, grad ? "r" : "w?", multiple);
}

static void sum_rows(Contract &c)
{
    const auto d = c.next<mg_gemm_desc>();
    const uint64_t multiple = c.word() ? 16 : 2;
    c.word();
    c.rows("b", d.tb ? d.n : d.k, d.ldb, d.tb ? d.k : d.n, 2, "r", multiple);
    c.dense("part", (int64_t)c.l.grid[1] * d.n, 4, "w");
}

static void sum_parts(Contract &c)
{
    const int64_t n = c.number(), parts = c.word();
    c.dense("part", parts * n, 4, "r");
    c.dense("sum", n, 4, "w");
}

/* Rows of x lie densely, or its columns do. Numbers are written in words of four where rows are of
 * such. */
static void round_tiles(Contract &c)
{
    const auto d = c.next<mg_round_tiles_desc>();
    const bool across = d.row_stride == 1;
    const int64_t down = (d.rows + d.tile_rows - 1) / d.tile_rows;
    const int64_t tiles = (d.columns + d.tile_columns - 1) / d.tile_columns;
    const int64_t blocks = (d.rows + 127) / 128 * ((tiles + 3) / 4);
    if (!across && d.column_stride != 1)
        c.wrong("neither rows nor columns are dense");
    c.rows("x", across ? d.columns : d.rows, across ? d.column_stride : d.row_stride,
           across ? d.rows : d.columns, 2, "r");
    c.dense("q", d.rows * d.columns, 1, "w", d.columns % 4 ? 1 : 4);
    if (d.power)
        c.dense("f", blocks * 512, 1, "w");
    else
        c.dense("f", d.tile_rows > 1 ? down * ((tiles + 3) / 4 * 4) : tiles * d.rows, 4, "w");
}

/* ---- shares ------------------------------------------------------------------------------ */

struct Laying {
    int64_t first, count, n, rows, row;
    int32_t zigzag, cut;
};

static void lay(Contract &c)
{
    const auto l = c.next<Laying>();
    const uint64_t word = (uint64_t)std::stoi(c.l.kernel.substr(strlen("mg_lay_")));
    const uint64_t to = c.next<uint64_t>(), from = c.next<uint64_t>();
    const bool all = l.zigzag != 0;
    const uint64_t tensor = (l.cut ? from : to) + (all ? 0 : (uint64_t)(l.first * l.row) * word);
    c.place("pieces", l.cut ? to : from, 1, 0, l.count * l.rows * l.row, word, l.cut ? "w" : "r");
    c.place("tensor", tensor, l.rows, l.n * l.row, (all ? l.n : l.count) * l.row, word,
            l.cut ? "r" : "w");
}

static void sum_shares(Contract &c)
{
    const int64_t n = c.number(), apart = c.number(), elements = c.number();
    c.dense("from", (n - 1) * apart + elements, c.width(), "r");
    c.dense("to", elements, c.width(), "w");
}

static void mark(Contract &c)
{
    c.dense("mark", 2, 4, "rw");
}

/* ---- attention --------------------------------------------------------------------------- */

struct Sees {
    uint64_t seen, first, bias;
};

/* Elements from the first to the last of the bias, or of its gradient. */
static int64_t bias_span(const mg_attention_desc &d, const int64_t stride[5])
{
    return (d.batch - 1) * stride[0] + (d.queries - 1) * stride[1] + (d.kv - 1) * stride[2] +
           (d.group - 1) * stride[3] + (d.keys - 1) * stride[4] + 1;
}

/* Rows of queries (or keys) whose heads lie beside each other; otherwise everything between the
 * first and the last element. `stride`: of batch, row, kv, and of group or 0. */
static void heads(Contract &c, const char *name, const mg_attention_desc &d, int64_t n,
                  const int64_t *stride, int64_t group, int64_t each, uint64_t width,
                  const char *does, uint64_t multiple)
{
    const int64_t beside =
        (d.kv - 1) * stride[2] + (d.group - 1) * group + each;
    const bool regular = beside <= stride[1] && (d.batch == 1 || stride[0] == n * stride[1]);
    if (regular)
        c.rows(name, d.batch * n, stride[1], beside, width, does, multiple);
    else
        c.rows(name, 1, 0, (d.batch - 1) * stride[0] + (n - 1) * stride[1] + beside, width, does,
               multiple);
}

static void queries(Contract &c, const char *name, const mg_attention_desc &d,
                    const int64_t stride[4], int64_t each, uint64_t width, const char *does,
                    uint64_t multiple)
{
    heads(c, name, d, d.queries, stride, stride[3], each, width, does, multiple);
}

static void keys(Contract &c, const char *name, const mg_attention_desc &d, const int64_t stride[3],
                 int64_t each, uint64_t width, const char *does, uint64_t multiple)
{
    heads(c, name, d, d.keys, stride, 0, each, width, does, multiple);
}

static uint64_t attention_width(const mg_attention_desc &d)
{
    return (uint64_t)mg_dtype_bytes(d.dtype);
}

/* Of the kernels of flash.h: the last parameter says whether rows of floats are whole chunks. Those
 * of halves always are. */
static uint64_t attention_multiple(const Contract &c, const mg_attention_desc &d)
{
    const std::string &p = c.l.parameters;
    int32_t whole;
    memcpy(&whole, p.data() + p.size() - sizeof whole, sizeof whole);
    if (!c.l.kernel.find("mg_attention_"))
        return attention_width(d);
    return attention_width(d) == 2 || whole ? 16 : attention_width(d);
}

/* The counts of 32 bits, and the mask. */
static void sight(Contract &c, const mg_attention_desc &d)
{
    const auto s = c.next<Sees>();
    c.small("queries", d.queries);
    c.small("keys", d.keys);
    c.place("seen", s.seen, 1, 0,
            (d.batch - 1) * d.seen[0] + (d.queries - 1) * d.seen[1] + 1, 4, "r?");
    c.place("first", s.first, 1, 0,
            (d.batch - 1) * d.first[0] + (d.queries - 1) * d.first[1] + 1, 4, "r?");
    c.place("bias", s.bias, 1, 0, bias_span(d, d.bias), d.dtype == MG_F64 ? 8 : 4,
            d.biased ? "r" : "r?");
}

static void normalisers(Contract &c, const mg_attention_desc &d, const char *does)
{
    queries(c, "lse", d, d.lse, 1, d.dtype == MG_F64 ? 8 : 4, does, 0);
}

static void forward(Contract &c)
{
    const auto d = c.next<mg_attention_desc>();
    const uint64_t w = attention_width(d), m = attention_multiple(c, d);
    sight(c, d);
    queries(c, "q", d, d.q, d.head, w, "r", m);
    keys(c, "k", d, d.k, d.head, w, "r", m);
    keys(c, "v", d, d.v, d.vhead, w, "r", m);
    queries(c, "o", d, d.o, d.vhead, w, "w", m);
    normalisers(c, d, "w");
}

/* The gradients; a warp's has o in place of delta, before lse. */
static void gradient(Contract &c)
{
    const auto d = c.next<mg_attention_desc>();
    const uint64_t w = attention_width(d), m = attention_multiple(c, d);
    const bool warp = !c.l.kernel.find("mg_attention_");
    sight(c, d);
    queries(c, "q", d, d.q, d.head, w, "r", m);
    keys(c, "k", d, d.k, d.head, w, "r", m);
    keys(c, "v", d, d.v, d.vhead, w, "r", m);
    if (warp)
        queries(c, "o", d, d.o, d.vhead, w, "r", m);
    normalisers(c, d, "r");
    queries(c, "dout", d, d.o, d.vhead, w, "r", m);
    if (!warp)
        c.dense("delta", d.batch * d.kv * d.group * d.queries, 4, "r");
    if (c.l.kernel.find("_dbias_") != std::string::npos) {
        c.dense("dbias", bias_span(d, d.dbias), d.dtype == MG_F64 ? 8 : 4, "w");
    } else if (c.l.kernel.find("_dkv_") == std::string::npos) {
        queries(c, "dq", d, d.dq, d.head, w, "w", m);
    } else {
        keys(c, "dk", d, d.dk, d.head, w, "w", m);
        keys(c, "dv", d, d.dv, d.vhead, w, "w", m);
    }
}

static void delta(Contract &c)
{
    const auto d = c.next<mg_attention_desc>();
    c.word();
    const uint64_t w = attention_width(d), m = c.word() ? 16 : w;
    queries(c, "o", d, d.o, d.vhead, w, "r", m);
    queries(c, "dout", d, d.o, d.vhead, w, "r", m);
    c.dense("delta", d.batch * d.kv * d.group * d.queries, 4, "w");
}

/* ---- convolutions ------------------------------------------------------------------------ */

/* Elements from the first to behind the last that dims [from, end) step to. */
static int64_t conv_span(const int64_t *size, const int64_t *stride, int from, int end)
{
    int64_t last = 0;
    for (int i = from; i < end; i++)
        last += (size[i] - 1) * stride[i];
    return last + 1;
}

static void convolution(Contract &c)
{
    const auto d = c.next<mg_conv_desc>();
    const auto h = c.next<mg_conv_how>();
    const bool sums = !c.l.kernel.compare(0, 12, "mg_conv_sum_");
    const int term = d.batch + d.rows + d.columns, end = term + d.terms;
    const uint64_t in = (uint64_t)mg_dtype_bytes(d.dtype), out = (uint64_t)mg_dtype_bytes(d.out);
    const uint64_t part = d.dtype == MG_F64 ? 8 : 4;
    const int64_t parts = (int64_t)h.splits * h.batch * h.m * h.n;
    int64_t x = conv_span(d.size, d.x, 0, end);
    for (const auto &axis : d.axis)
        x += (axis.size - 1) * axis.stride;
    c.small("elements of x", x);
    if (d.axes != MG_CONV_AXES)
        c.wrong("not all axes are there");
    if (h.splits < 1 || (h.splits - 1) * (int64_t)h.steps * (int64_t)(MG_CONV_TERM_BYTES / in) >= h.k + !h.k)
        c.wrong("a part of a sum has no terms");
    if (sums) {
        c.dense("parts", parts, part, "r");
    } else {
        c.dense("x", h.k ? x : 0, in, "r", h.wide_x ? 16 : in);
        c.dense("w", h.k ? conv_span(d.size, d.w, 0, end) : 0, in, "r", h.wide_w ? 16 : in);
    }
    const uint64_t y = c.next<uint64_t>();
    if (sums || h.splits == 1)
        c.place("y", y, 1, 0, conv_span(d.size, d.y, 0, term), out, d.accumulate ? "rw" : "w",
                h.pairs && !sums ? 2 * out : out);
    if (!sums && h.splits > 1)
        c.dense("parts", parts, part, "w");
}

/* ---- grouped products -------------------------------------------------------------------- */

/* The tiles are a convolution's without taps, of each expert's rows. */
static void grouped(Contract &c)
{
    const auto g = c.next<mg_grouped_desc>();
    const auto d = c.next<mg_conv_desc>();
    const auto h = c.next<mg_conv_how>();
    const bool weight = !c.l.kernel.compare(0, 18, "mg_grouped_weight_");
    const uint64_t in = (uint64_t)mg_dtype_bytes(g.dtype), out = (uint64_t)mg_dtype_bytes(g.out);
    const int64_t z = g.groups * g.rows * g.k, y = g.groups * g.rows * g.n, w = g.experts * g.k * g.n;
    c.small("elements of a group's rows", g.rows * (g.k > g.n ? g.k : g.n));
    c.small("elements of a matrix", g.k * g.n);
    if (d.axes != MG_CONV_AXES || h.splits != 1 || h.batch != 1)
        c.wrong("not the product of one group");
    if ((h.wide_x && g.k * in % 16) || (h.wide_w && (weight || !g.turned ? g.n : g.k) * in % 16))
        c.wrong("rows that do not begin at chunks are read in chunks");
    c.dense("z", z, in, "r", h.wide_x ? 16 : in);
    c.dense(weight ? "y" : "w", weight ? y : w, in, "r", h.wide_w ? 16 : in);
    c.dense("end", g.groups * g.experts, 4, "r");
    c.dense(weight ? "w" : "y", weight ? w : y, out, g.accumulate ? "rw" : "w",
            h.pairs ? 2 * out : out);
}

/* ---- all of them ------------------------------------------------------------------------- */

/* By the first part of a name; a longer one comes before a shorter one that it begins with. */
static const struct {
    const char *name;
    void (*contract)(Contract &c);
} kernels[] = {{"mg_gather_", gather},
               {"mg_sort_count", sort_count},
               {"mg_sort_scan", sort_scan},
               {"mg_sort_place", sort_place},
               {"mg_put_", put},
               {"mg_scatter_add_", scatter},
               {"mg_slots_", slots},
               {"mg_ends_", ends},
               {"mg_top_", top},
               {"mg_dispatch_", experts},
               {"mg_combine_", experts},
               {"mg_random_", random},
               {"mg_round_", round_tiles},
               {"mg_xent_grad_", xent_grad},
               {"mg_xent_", xent},
               {"mg_head_rows_", head_rows},
               {"mg_fill_rows_", fill_rows},
               {"mg_sum_rows_", sum_rows},
               {"mg_sum_parts", sum_parts},
               {"mg_gelu_", gelu},
               {"mg_lay_", lay},
               {"mg_sum_shares_", sum_shares},
               {"mg_add_shares_", sum_shares},
               {"mg_mark", mark},
               {"mg_conv_", convolution},
               {"mg_grouped_", grouped},
               {"mg_attention_forward_", forward},
               {"mg_attention_d", gradient},
               {"mg_flash_delta_", delta},
               {"mg_flash_forward_", forward},
               {"mg_flash90_forward_", forward},
               {"mg_flash_d", gradient},
               {"mg_flash90_d", gradient}};

static void (*contract_of(const std::string &kernel))(Contract &c)
{
    for (const auto &k : kernels)
        if (!kernel.compare(0, strlen(k.name), k.name))
            return k.contract;
    return nullptr;
}

bool has_contract(const std::string &kernel)
{
    return contract_of(kernel) != nullptr;
}

bool pieces_of(const Launch &l, long line, int action, std::vector<Piece> *pieces)
{
    Contract c(l, line, action, pieces);
    void (*const contract)(Contract &) = contract_of(l.kernel);
    if (!contract)
        return generated_pieces(l, line, action, pieces);
    contract(c);
    return true;
}

} // namespace check
