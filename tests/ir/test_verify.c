/* test_verify.c - what the verifier refuses: one program or more for every invariant and for every
 * type rule, each broken in one place, with the message that says where. */
#include "tests/ir/program.h"
#include "tests/ir/verify_damages.h"

enum { INVARIANTS = 14 };
static bool seen[INVARIANTS + 1];

/* The messages name the invariant and have this in them. */
static void assert_says(World *w, int broken, int invariant, const char *says)
{
    char number[32];
    snprintf(number, sizeof number, "invariant I%d broken", invariant);
    const char *text = world_messages(w);
    if (!broken || !strstr(text, number) || !strstr(text, says))
        fail_msg("wanted I%d and '%s', got %d broken:\n%s", invariant, says, broken, text);
    seen[invariant] = true;
}

/* ---- as text --------------------------------------------------------------------------------- */

typedef struct Bad {
    int invariant;
    const char *args[MAX_ARGS + 1], *body, *says;
} Bad;

#define A  {"a: f64[i=2, j=3]"}
#define AB {"a: f64[i=2, j=3]", "b: f64[j=3, k=2]"}
#define REPEAT(in, attrs, args, give)                                                              \
    "%r: f64[i=2] = repeat " in " {dim=" attrs "} {\n" args "arg %n: i32[]\ngive " give            \
    "\n}\ngive "                                                                                   \
    "%a"
#define FUSED(out, in, kind, args, body)                                                           \
    out " = fused " in " {kind=\"" kind "\"} {\n" args body "}\ngive %a"

static const Bad scopes[] = {
    {1, {0}, "%r: f64[i=0] = iota {dim=i=0}\ngive %r", "dim 'i' of size 0"},
    {1, A, "%r: f64[i=2, j=3, j=3] = copy %a\ngive %r", "dim 'j' twice in a type"},
    {1,
     {"a: f64[]"},
     "%r: f64[i=1073741824, j=1073741824] = copy %a\ngive %a",
     "too many elements"},
    {2,
     {"a: f64[i=2]"},
     "%r: f64[i=2] = repeat %a {dim=l=2, carried=1, reverse=no} {\narg %x: f64[i=2]\n"
     "arg %n: i32[]\n%y: f64[i=2] = neg %x\ngive %y\n}\n%z: f64[i=2] = neg %y\ngive %z",
     "used where it is not defined"},
    {2, A,
     FUSED("%r: f64[i=2, j=3]", "%a", "map", "arg %x: f64[i=2, j=3]\n",
           "%y: f64[i=2, j=3] = add %x, %a\ngive %y\n"),
     "used where it is not defined"},
    {2, A, FUSED("%r: f64[i=2, j=3]", "%a", "map", "arg %x: f64[i=2, j=3]\n", "give %a\n"),
     "used where it is not defined"},
};

static const Bad loops[] = {
    {5,
     {"a: f64[i=2]"},
     REPEAT("%a", "l=2, carried=2, reverse=no", "arg %x: f64[i=2]\n", "%x"),
     "do not match in number"},
    {5,
     {"a: f64[i=2]"},
     REPEAT("%a", "l=2, carried=1, reverse=no", "", "%a"),
     "do not match in number"},
    {5,
     {"a: f64[i=2]"},
     REPEAT("%a", "l=2, carried=1, reverse=no", "arg %x: f64[i=3]\n", "%a"),
     "operand 0 does not fit"},
    {5,
     {"a: f64[i=2, l=2]", "b: f64[i=2]"}, /* sliced dims come first */
     REPEAT("%b, %a", "l=2, carried=1, reverse=no", "arg %y: f64[i=2]\narg %x: f64[i=2]\n", "%y"),
     "operand 1 does not fit"},
    {5,
     {"a: f64[l=3, i=2]", "b: f64[i=2]"},
     REPEAT("%b, %a", "l=2, carried=1, reverse=no", "arg %y: f64[i=2]\narg %x: f64[i=2]\n", "%y"),
     "operand 1 does not fit"},
    {5,
     {"a: f64[i=2]"},
     "%r: f64[i=2] = repeat %a {dim=l=2, carried=1, reverse=no} {\narg %x: f64[i=2]\narg %n: "
     "i64[]\ngive %x\n}\ngive %a",
     "not the i32 index"},
    {5,
     {"a: f64[i=2]"},
     REPEAT("%a", "l=2, carried=0, reverse=no", "arg %x: f64[i=2]\n", "%x"),
     "operand 0 does not fit"},
    {5,
     {"a: f64[l=2, i=2]"}, /* what is stacked has the dim of the loop */
     REPEAT("%a", "l=2, carried=0, reverse=no", "arg %x: f64[i=2]\n", "%x"),
     "result 0 does not fit"},
    {6, A, FUSED("%r: f64[i=2, j=3]", "%a, %a", "map", "arg %x: f64[i=2, j=3]\n", "give %x\n"),
     "do not match the body's in number"},
    {6, A, FUSED("%r: f64[i=2, j=3]", "%a", "map", "arg %x: f64[j=3, i=2]\n", "give %x\n"),
     "operand 0 does not fit"},
    {6, A, FUSED("%r: f64[j=3, i=2]", "%a", "map", "arg %x: f64[i=2, j=3]\n", "give %x\n"),
     "result 0 does not fit"},
    {6, AB,
     FUSED("%r: f64[i=2, k=2]", "%a, %b", "row", "arg %x: f64[i=2, j=3]\narg %y: f64[j=3, k=2]\n",
           "%z: f64[i=2, k=2] = dot %x, %y {over=[j=3]}\ngive %z\n"),
     "dot cannot be in a kernel"},
    {6, A, FUSED("%r: f64[i=2, j=3]", "%a", "diagonal", "arg %x: f64[i=2, j=3]\n", "give %x\n"),
     "no kernel is of the kind 'diagonal'"},
};

#define GIVE "\ngive %a"
static const Bad rules[] = {
    {4, {"a: f64[i=2]", "b: f64[i=3]"}, "%r: f64[i=2] = add %a, %b" GIVE, "is 2 here and 3 there"},
    {4, {"a: f64[i=2]", "b: f32[i=2]"}, "%r: f64[i=2] = add %a, %b" GIVE, "operand 2 is f32"},
    {4, {"a: f64[i=2]"}, "%r: f32[i=2] = neg %a" GIVE, "the result is f32, by the rule f64"},
    {4, A, "%r: f64[i=2] = neg %a" GIVE, "has not the dims of the rule"},
    {4, A, "%r: f64[i=2, j=3, k=2] = neg %a" GIVE, "has not the dims of the rule"},
    {4, A, "%r: f64[i=2] = copy %a" GIVE, "has not the dims of the rule"},
    {4, {"a: f64[i=2]"}, "%r: f64[i=2] = lt %a, %a" GIVE, "the result is f64, by the rule bool"},
    {4, {"a: f64[i=2]"}, "%r: f64[i=2] = select %a, %a, %a" GIVE, "operand 1 is f64"},
    {4, {"a: i32[i=2]"}, "%r: i32[i=2] = exp %a" GIVE, "exp of i32 has no meaning"},
    {4, {"a: i32[i=2]"}, "%r: i32[i=2] = div %a, %a" GIVE, "div of i32 has no meaning"},
    {4, {"a: bool[i=2]"}, "%r: bool[i=2] = add %a, %a" GIVE, "add of bool has no meaning"},
    {4, {"a: bool[i=2]"}, "%r: bool[i=2] = lt %a, %a" GIVE, "lt of bool has no meaning"},
    {4,
     {"a: f64[a=1, b=1, c=1, d=1, e=1]", "b: f64[f=1, g=1, h=1, i=1]"},
     "%r: f64[a=1, b=1, c=1, d=1, e=1, f=1, g=1, h=1] = add %a, %b" GIVE,
     "more than 8 dims"},
    {4, {"a: f64[]"}, "%r: i32[] = const {value=1.5}" GIVE, "1.5 is no i32"},
    {4, {"a: f64[]"}, "%r: i32[] = const {value=2147483648}" GIVE, "is no i32"},
    {4, {"a: f64[]"}, "%r: bool[] = const {value=2}" GIVE, "2 is no bool"},
    {4, {"a: f64[]"}, "%r: i64[] = const {value=nan}" GIVE, "nan is no i64"},
    {4, {"a: f64[]"}, "%r: f64[i=2] = const {value=2}" GIVE, "has not the dims of the rule"},
    {4, {"a: f64[]"}, "%r: bool[i=2] = iota {dim=i=2}" GIVE, "the result is bool"},
    {4, {"a: f64[]"}, "%r: f64[i=3] = iota {dim=i=2}" GIVE, "has not the dims of the rule"},
    {4,
     {"a: i64[]", "b: i32[]"},
     "%r: f64[i=2] = random %a, %b, %b {key=\"k\"}" GIVE,
     "operand 2 must be a i64 scalar"},
    {4,
     {"a: i64[]", "b: i32[]"},
     "%r: i32[i=2] = random %a, %a, %b {key=\"k\"}" GIVE,
     "the result is i32"},
    {4, A, "%r: f32[i=2] = cast %a" GIVE, "has not the dims of the rule"},
    {4, A, "%r: f64[k=2, j=3] = rename %a {dim=n=2, to=k=2}" GIVE, "has no dim 'n'"},
    {4, A, "%r: f64[j=2, j=3] = rename %a {dim=i=2, to=j=2}" GIVE, "there is a dim 'j' already"},
    {4, A, "%r: f64[k=3, j=3] = rename %a {dim=i=2, to=k=3}" GIVE, "dim 'i' is 2 and 'k' is 3"},
    {4, A, "%r: f64[i=2] = pick %a {dim=j=3, at=3}" GIVE, "index 3 is outside dim 'j' of 3"},
    {4, A, "%r: f64[i=2] = pick %a {dim=j=4, at=0}" GIVE, "dim 'j' of 3, the attribute says 4"},
    {4, A, "%r: f64[i=2, j=2] = window %a {along=j=2, at=2}" GIVE,
     "a window of 2 from 2 is outside"},
    {4, A, "%r: f64[i=2, j=2] = window %a {along=k=2, at=0}" GIVE, "no dim 'k' to cut"},
    {4, A, "%r: f64[i=2, n=2, j=2] = split %a {dim=j=2, to=n=2}" GIVE,
     "dim 'j' of 3 is not 2 times 2"},
    {4, A, "%r: f64[i=2, n=1, k=3] = split %a {dim=k=3, to=n=1}" GIVE, "no dim 'k' to split"},
    {4, A, "%r: f64[i=2, i=1, j=3] = split %a {dim=j=3, to=i=1}" GIVE,
     "there is a dim 'i' already"},
    {4, A, "%r: f64[i=6] = merge %a {dim=i=2, to=j=3}" GIVE, "dim 'i' does not follow 'j'"},
    {4, A, "%r: f64[j=6] = merge %a {dim=j=3, to=k=2}" GIVE, "has no dim 'k'"},
    {4, A, "%r: f64[j=9] = merge %a {dim=j=3, to=i=3}" GIVE, "attribute says 3"},
    {4, A, "%r: f64[i=5, j=3] = join %a, %a {dim=i=5}" GIVE, "the parts are 4 long, and 'i' is 5"},
    {4, A, "%r: f64[k=3, i=2, j=3] = join %a, %a {dim=k=3}" GIVE,
     "the parts are 2 long, and 'k' is 3"},
    {4,
     {"a: f64[c=1, d=1, e=1, f=1, g=1, h=1, i=1, j=1]"},
     "%r: f64[k=1, c=1] = join %a {dim=k=1}" GIVE,
     "more than 8 dims"},
    {4,
     {"a: f64[i=2, j=3]", "b: f64[i=2, j=2]"},
     "%r: f64[i=4, j=3] = join %a, %b {dim=i=4}" GIVE,
     "part 2 is of another type"},
    {4, A, "%r: f64[k=2, j=3] = reindex %a {over=[k=2], dim=n=2, at=0, factors=[1], every=1}" GIVE,
     "has no dim 'n'"},
    {4, A,
     "%r: f64[k=2, j=3] = reindex %a {over=[k=2], dim=i=2, at=0, factors=[1, 2], every=1}" GIVE,
     "1 dims are counted by 2 factors"},
    {4, A, "%r: f64[k=2, j=3] = reindex %a {over=[k=2], dim=i=2, at=0, factors=[1], every=0}" GIVE,
     "over 0"},
    {4, A, "%r: f64[k=2, j=3] = reindex %a {over=[k=2], dim=i=2, at=0, factors=[0], every=1}" GIVE,
     "the factor of dim 'k' is 0"},
    {4, A,
     "%r: f64[k=2, j=3] = reindex %a {over=[k=2, k=2], dim=i=2, at=0, factors=[1, 1], "
     "every=1}" GIVE,
     "dim 'k' is listed twice"},
    {4, A, "%r: f64[j=3] = reindex %a {over=[j=4], dim=i=2, at=0, factors=[1], every=1}" GIVE,
     "attribute says 4"},
    {4, A,
     "%r: f64[k=2, j=3] = reindex %a {over=[k=2], dim=i=2, at=0, factors=[2147483647], "
     "every=1}" GIVE,
     "beyond 2^31"},
    {4, A, "%r: f64[k=3, j=3] = reindex %a {over=[k=2], dim=i=2, at=0, factors=[1], every=1}" GIVE,
     "result"},
    {4, A, "%r: f64[i=2, j=3] = rotate %a {dim=j=3}" GIVE, "cannot be split in halves"},
    {4, {"a: i32[i=2]"}, "%r: i32[i=2] = rotate %a {dim=i=2}" GIVE, "i32 where a float is wanted"},
    {4, A, "%r: f64[i=2] = sum %a {over=[k=3]}" GIVE, "the operand has no dim 'k'"},
    {4, A, "%r: f64[i=2] = sum %a {over=[j=3, j=3]}" GIVE, "dim 'j' is listed twice"},
    {4, {"a: i32[i=2]"}, "%r: i32[] = sum %a {over=[i=2]}" GIVE, "i32 where a float is wanted"},
    {4, A, "%r: f64[i=2] = rmax %a {over=[j=2]}" GIVE, "the attribute says 2"},
    {4, AB, "%r: f64[j=3, k=2] = dot %a, %b {over=[i=2]}" GIVE, "the right side has no dim 'i'"},
    {10, AB, "%r: bf16[i=2, j=3] = cast %a" GIVE,
     "a value is bf16, which the program does not say"},
    {4, AB, "%r: f64[p=2, k=2] = conv %a, %b {over=[j=3], taps=[n=2 at 1 p=2, 0 every 1]}" GIVE,
     "the operand has no dim 'n'"},
    {4, AB,
     "%r: f64[k=2] = conv %a, %b {over=[j=3], taps=[i=2 at 1 j=3, 0 every 1, j=3 at 1 k=2, 0 every "
     "1]}" GIVE,
     "dim 'j' is read through taps and counts others"},
    {4, AB, "%r: f64[i=2, k=2] = dot_bias %a, %b, %a {over=[j=3]}" GIVE,
     "the product has no dim 'j'"},
    {4, AB, "%r: f64[i=2, k=2] = dot_scaled %a, %b, %a, %a {over=[j=3]}" GIVE,
     "the left side is f64 where fp8 is wanted"},
    {4, AB, "%r: f64[i=2, k=2], %s: f64[i=2] = dot_sum %a, %b, %a {over=[j=3]}" GIVE,
     "what is added to has not the result's type"},
    {4, AB, "%r: f64[i=2, k=2] = dot_gelu %a, %b, %a {over=[j=3]}" GIVE,
     "the product has no dim 'j'"},
    {4, AB, "%r: f64[i=2, k=2], %z: f64[i=2] = dot_gelu_aux %a, %b {over=[j=3]}" GIVE,
     "the result has not the dims of the rule"},
    {4, AB, "%r: f64[i=2, k=2] = dot_gelu_grad %a, %b, %a {over=[j=3]}" GIVE,
     "what gelu is the slope at must have the dims of its counterpart"},
    {4, AB, "%r: f64[i=2, j=3] = dot %a, %b {over=[k=2]}" GIVE, "the left side has no dim 'k'"},
    {4,
     {"a: f64[i=2]", "b: f32[i=2]"},
     "%r: f64[] = dot %a, %b {over=[i=2]}" GIVE,
     "the left side is f64 and the right side f32"},
    {4, AB, "%r: f64[i=2, k=2] = dot %a, %b, %a {over=[j=3]}" GIVE, "what is added to"},
    {4,
     {"a: f64[v=3, h=2]", "i: f64[s=2]"},
     "%r: f64[s=2, h=2] = gather %a, %i {dim=v=3}" GIVE,
     "the index is f64"},
    {4,
     {"a: f64[v=3, h=2]", "i: i32[h=4]"},
     "%r: f64[h=4] = gather %a, %i {dim=v=3}" GIVE,
     "dim 'h' is 2 here and 4 there"},
    {4,
     {"a: i32[v=3, h=2]", "i: i32[s=2]"},
     "%r: i32[s=2, h=2] = gather %a, %i {dim=v=3}" GIVE,
     "the table is i32"},
    {4,
     {"a: f64[s=2, h=2]", "i: i32[t=2]"},
     "%r: f64[v=3, s=2, h=2] = scatter_add %a, %i {over=[t=2], dim=v=3}" GIVE,
     "has no dim 't' of the index"},
    {4,
     {"a: f64[s=2, v=3]", "i: i32[s=2]"},
     "%r: f64[v=3] = scatter_add %a, %i {over=[s=2], dim=v=3}" GIVE,
     "dim 'v' is there already"},
    {4,
     {"a: f64[s=2, h=3]", "i: i32[s=2]"},
     "%r: f64[v=3, s=2] = scatter_add %a, %i {over=[h=3], dim=v=3}" GIVE,
     "the index has no dim 'h'"},
    {4,
     {"a: f64[s=2, h=2]", "i: i32[s=2]"},
     "%r: f64[v=3, h=2] = scatter_add %a, %i, %a {over=[s=2], dim=v=3}" GIVE,
     "what is added to"},
    {4,
     {"a: f64[s=2, h=2]", "i: f64[s=2]", "c: f64[v=3, h=2]"},
     "%r: f64[v=3, h=2] = put %a, %i, %c {dim=v=3}" GIVE,
     "the index is f64"},
    {4,
     {"a: f64[v=3, h=2]", "i: i32[v=3]", "c: f64[v=3, h=2]"},
     "%r: f64[v=3, h=2] = put %a, %i, %c {dim=v=3}" GIVE,
     "the index has the table's dim 'v'"},
    {4,
     {"a: f64[s=2]", "i: i32[s=2]", "c: f64[v=3, h=2]"},
     "%r: f64[v=3, h=2] = put %a, %i, %c {dim=v=3}" GIVE,
     "what is put has not the dims of the index and the table"},
};

#define QKV {"a: f64[s=2, g=2, h=4]", "k: f64[s=2, h=4]", "v: f64[s=2, h=3]", "l: f64[s=2, g=2]"}
/* Queries of two groups, keys, and a bias; the same of two batches, and first keys. */
#define BIASED(bias) {"a: f64[s=2, g=2, f=2, h=4]", "k: f64[t=2, h=4]", "b: " bias}
#define FIRSTS                                                                                     \
    {"a: f64[x=2, y=2, s=2, h=4]", "k: f64[x=2, y=2, t=2, h=4]", "b: f64[x=2, t=2]",               \
     "f: i32[x=2, y=2, s=2]"}
#define BIAS(in, how)                                                                              \
    "%o: f64[s=2, h=4], %m: f64[s=2] = attention " in " {over=[h=4], along=s=2, scale=1, " how     \
    ", keys=t=2, biased}" GIVE
#define TARGETS                                                                                    \
    {"a: f64[t=2, c=3]", "y: i32[t=2]", "e: f64[t=2]", "w: f64[c=3, h=2]", "x: f64[t=2, h=2]"}
#define ATTEND(op, out, in, attrs) out " = " op " " in " {" attrs ", scale=1, causal=no}" GIVE
#define MASK(in, how)              TWO " = attention " in " {over=[h=4], along=s=2, scale=1, " how "}" GIVE
#define TWO                        "%o: f64[s=2, g=2, h=4], %m: f64[s=2, g=2]"
#define THREE                      "%o: f64[s=2, g=2, h=4], %m: f64[s=2, h=4], %n: f64[s=2, h=4]"
#define HEAD                       "%o: f64[t=2], %m: f64[t=2, h=2], %n: f64[c=3, h=2] = head %x, %w, %y, "

static const Bad composites[] = {
    {4, QKV, ATTEND("attention", TWO, "%a, %k, %v", "over=[h=4], along=s=2"),
     "is 4 here and 3 there"},
    {4, QKV, ATTEND("attention", TWO, "%a, %k, %k", "over=[h=4], along=g=2"),
     "the keys has no dim 'g'"},
    {4, QKV, ATTEND("attention", TWO, "%a, %k, %k", "over=[h=4, s=2], along=s=2"),
     "cannot be the head's too"},
    {4, QKV, ATTEND("attention", TWO, "%k, %a, %a", "over=[h=4], along=s=2"),
     "the query has no dim 'g' of the keys"},
    {4, QKV, ATTEND("attention", TWO, "%a, %k, %k", "over=[h=4], along=s=3"),
     "the attribute says 3"},
    {4, QKV, MASK("%a, %k, %k", "causal=no, window=1"), "a window of 1 keys without a causal mask"},
    {4, QKV, MASK("%a, %k, %k", "causal=yes, window=-1"), "a window of -1 keys"},
    {4, QKV, MASK("%a, %k, %k", "causal=yes, cap=-2"), "scores up to a cap of -2"},
    {4, QKV, MASK("%a, %k, %k", "causal=yes, within"), "the last of them from where on"},
    {4, QKV, MASK("%a, %k, %k, %l", "causal=yes, within"), "the first key of each query is i32"},
    {4, QKV, ATTEND("attention_grad", THREE, "%a, %k, %k, %l, %l, %a", "over=[h=4], along=s=2"),
     "o must have the dims"},
    {4, QKV, ATTEND("attention_grad", THREE, "%a, %k, %k, %a, %a, %a", "over=[h=4], along=s=2"),
     "lse must have the dims"},
    {4, QKV, ATTEND("attention_grad", THREE, "%a, %k, %k, %a, %l, %l", "over=[h=4], along=s=2"),
     "do must have the dims"},
    {4, QKV, MASK("%a, %k, %k, %l", "causal=no, biased"), "keys that have no dim of their own"},
    {4, BIASED("f64[t=2]"), BIAS("%a, %k, %k", "causal=no"), "a bias that is no operand"},
    {4, BIASED("i32[t=2]"), BIAS("%a, %k, %k, %b", "causal=no"), "the bias is i32, and scores are"},
    {4, BIASED("f64[z=2]"), BIAS("%a, %k, %k, %b", "causal=no"), "has dim 'z', that no score has"},
    {4, BIASED("f64[g=2]"), BIAS("%a, %k, %k, %b", "causal=no"), "dims that queries alone have"},
    {4,
     {"a: f64[s=2, h=4]", "k: f64[t=3, h=4]", "b: f64[t=3]"},
     "%o: f64[s=2, h=4], %m: f64[s=2] = attention %a, %k, %k, %b "
     "{over=[h=4], along=s=2, scale=1, causal=yes, keys=t=3, biased}" GIVE,
     "where keys are another sequence"},
    {4, FIRSTS, BIAS("%a, %k, %k, %b, %f", "causal=no, within"),
     "some of the dims of the first keys"},
    {4,
     {"a: f64[s=2, h=4]", "k: f64[t=2, h=4]", "l: f64[s=2]", "b: f64[t=2]"},
     "%r: f64[t=2] = attention_bias_grad %a, %k, %k, %a, %l, %a, %b "
     "{over=[h=4], along=s=2, scale=1, causal=no, keys=t=2}" GIVE,
     "what each query sees is i32"},
    {4,
     {"a: f64[s=2, h=4]", "k: f64[t=2, h=4]", "l: f64[s=2]", "n: i32[s=2]"},
     "%r: i32[s=2] = attention_bias_grad %a, %k, %k, %a, %l, %a, %n "
     "{over=[h=4], along=s=2, scale=1, causal=no, keys=t=2}" GIVE,
     "a gradient of no bias"},
    {4, TARGETS, "%l: f64[], %m: f64[] = cross_entropy %a, %y {over=[t=2, c=3], valid=3}" GIVE,
     "the classes are one dim, not 2"},
    {4, TARGETS, "%l: f64[t=2], %m: f64[t=2] = cross_entropy %a, %e {over=[c=3], valid=3}" GIVE,
     "the targets are f64"},
    {4, TARGETS, "%l: f64[c=3], %m: f64[c=3] = cross_entropy %a, %y {over=[t=2], valid=2}" GIVE,
     "the targets must have the dims of the scores"},
    {4, TARGETS, "%l: f64[t=2], %m: f64[t=2] = cross_entropy %a, %y {over=[c=3], valid=4}" GIVE,
     "4 of 3 classes cannot be valid"},
    {4, TARGETS, "%l: f64[t=2], %m: f64[t=2] = cross_entropy %a, %y {over=[c=3], valid=0}" GIVE,
     "0 of 3 classes cannot be valid"},
    {4, TARGETS, "%l: f64[t=2, c=3] = cross_entropy_grad %a, %y, %a, %e {over=[c=3], valid=3}" GIVE,
     "lse must have the dims"},
    {4, TARGETS, "%l: f64[t=2, c=3] = cross_entropy_grad %a, %y, %e, %a {over=[c=3], valid=3}" GIVE,
     "dloss must have the dims"},
    {4, TARGETS, "%l: f64[t=2] = head_loss %x, %a, %y {over=[h=2], dim=c=3, valid=3}" GIVE,
     "the right side has no dim 'h'"},
    {4, TARGETS, "%l: f64[t=2] = head_loss %x, %w, %y {over=[h=2], dim=t=2, valid=2}" GIVE,
     "the right side has no dim 't'"},
    {4, TARGETS, "%l: f64[t=2] = head_loss %x, %w, %y {over=[], dim=c=3, valid=3}" GIVE,
     "with the summed dims and the classes"},
    {4, TARGETS, HEAD "%a {over=[h=2], dim=c=3, valid=3}" GIVE, "dloss must have the dims"},
    {4, TARGETS,
     "%o: f64[t=2], %m: f64[t=2, h=2] = head_frozen %x, %w, %y, %a "
     "{over=[h=2], dim=c=3, valid=3}" GIVE,
     "dloss must have the dims"},
    {4, TARGETS, HEAD "%e, %x {over=[h=2], dim=c=3, valid=3}" GIVE, "what is added to must have"},
    {4, {"a: f64[]", "b: f64[i=2]"}, "guard %a, %b" GIVE, "operand 2 must be an f64 scalar"},
    {4,
     {"a: f32[i=2]", "k: i32[j=2]", "s: i64[]"},
     "%r: f32[i=2] = stochastic_round %a, %k, %k, %s, %s {at=0, key=\"k\"}" GIVE,
     "operand 2 has dim 'j', which what is rounded lacks"},
    {4,
     {"a: f32[i=2]", "k: i32[i=2]", "s: i64[]"},
     "%r: f32[i=2] = stochastic_round %a, %k, %k, %s, %s {at=2, key=\"k\"}" GIVE,
     "a word has twice 16 bits, and no number 2"},
    {4,
     {"a: f64[i=2]"},
     "%r: f64[i=2] on host = transfer %a {level=0}" GIVE,
     "nothing is transferred from the device to level 0"},
    {4,
     {"a: f64[i=2] on host"},
     "%r: f64[i=2] on disk = transfer %a {level=2}" GIVE,
     "nothing is transferred from the host to level 2"},
    {4, {"a: f64[i=2] on host"}, "%r: f64[i=2] = neg %a" GIVE, "operand 1 is on the host"},
    {14,
     {"a: f64[i=2]"},
     "%r: f64[i=2] = transfer %a {level=1}" GIVE,
     "the result is on the device, by the rule on the host"},
};

#define SENT                                                                                       \
    {"a: f64[g=2, s=3, h=2]", "c: i32[g=2, s=3, k=2]", "w: f64[g=2, s=3, k=2]",                    \
     "z: f64[e=4, g=2, t=5, h=2]"}
#define ROUTE    ", along=s=3, dim=e=4, to=t=5}" GIVE
#define TO_SLOTS "%r: f64[e=4, g=2, t=5, h=2] = dispatch "
#define BACK     "%r: f64[g=2, s=3, h=2] = combine "

#define GROUPED                                                                                    \
    {"z: f64[g=2, t=6, h=2]", "w: f64[e=3, h=2, f=2]", "n: i32[g=2, c=3]", "b: f64[g=2, c=3]",     \
     "y: f64[g=2, t=6, f=2]"}
#define TO_ROWS  "%r: f64[g=2, t=6, f=2] = grouped "
#define MATRICES "{over=[h=2], along=t=6, dim=e=3, to=c=3}" GIVE_Z
#define SUMMED   "{along=t=6, dim=e=3, to=c=3}" GIVE_Z
#define GIVE_Z   "\ngive %z"

#define ROUND "%q: f32[i=2, j=3], %r: f32[t=1, r=2] = round_tiles %a {"

static const Bad tiles[] = {
    {4, A, "%r: f32[i=2, j=3] = tile_scale %a {over=[i=2], at=1, every=8, value=448}" GIVE,
     "where bf16 is wanted"},
    {4, A, "%r: f32[i=2, j=3] = tile_scale %a {over=[k=2], at=1, every=8, value=448}" GIVE,
     "has no dim 'k'"},
    {4, A, "%r: f32[i=2, j=3] = tile_scale %a {over=[i=2], at=2, every=8, value=448}" GIVE,
     "2 of 1 dims are no side of a tile"},
    {4, A, "%r: f32[i=2, j=3] = tile_scale %a {over=[i=2], at=1, every=257, value=448}" GIVE,
     "a side of a tile has 1 to 256 elements, not 257"},
    {4, A, "%r: f32[i=2, j=3] = tile_scale %a {over=[i=2], at=1, every=8, value=0.5}" GIVE,
     "no largest number of a tile becomes 0.5"},
    {4, A, ROUND "over=[j=3], dim=t=1, to=r=2, at=2, every=128, value=448}" GIVE,
     "no tile has 2 rows and 128 columns"},
    {4, A, ROUND "over=[j=3], dim=t=1, to=r=2, at=1, every=128, value=447}" GIVE,
     "no type of fp8 has 447 as its largest number"},
    {4, A, ROUND "over=[j=3], dim=t=2, to=r=2, at=1, every=128, value=448}" GIVE,
     "2 and 2 scales where the tiles want 1 and 2"},
    {4, A, ROUND "over=[j=3], dim=t=1, to=r=2, at=1, every=32, value=448}" GIVE,
     "no tile has 1 rows and 32 columns"},
    {4, A, ROUND "over=[j=3], dim=t=1, to=r=2, at=1, every=128, value=448, power}" GIVE,
     "no tile has 1 rows and 128 columns"},
    {4, A, ROUND "over=[j=3], dim=t=1, to=r=2, at=1, every=32, value=448, power}" GIVE,
     "1 and 2 scales where the tiles want 512 and 1"},
    {4, A, ROUND "over=[j=3], dim=t=1, to=r=2, at=1, every=128, value=448}" GIVE,
     "where bf16 is wanted"},
};

static const Bad experts[] = {
    {4, SENT, "%r: i32[g=2, s=3, b=3](h) = top %a {dim=h=2, to=b=3}" GIVE, "the largest 3 of 2"},
    {4, SENT, "%r: i32[g=2, s=3, b=1](k) = top %c {dim=k=2, to=b=1}" GIVE, "where f32 is wanted"},
    {4, SENT, "%r: i32[g=2, s=3, s=3](h) = top %a {dim=h=2, to=s=1}" GIVE, "a dim 's' already"},
    {4, SENT, "%r: i32[g=2, s=3, k=2](t) = slots %w {over=[k=2]" ROUTE, "the choice is f64"},
    {4, SENT, "%r: i32[g=2, s=3, k=2](t) = slots %c {over=[k=2, g=2]" ROUTE, "are one dim"},
    {4, SENT, "%r: i32[g=2, s=3, k=2](t) = slots %c {over=[h=2]" ROUTE, "no dim 'h'"},
    {4, SENT, TO_SLOTS "%a, %c, %w {over=[k=2]" ROUTE, "choices and slots differ"},
    {4, SENT, TO_SLOTS "%a, %c, %c, %a {over=[k=2]" ROUTE, "the weight has not the dims"},
    {4, SENT, TO_SLOTS "%z, %c, %c {over=[k=2]" ROUTE, "no dim 's'"},
    {4, SENT, TO_SLOTS "%a, %c, %c {over=[]" ROUTE, "no dim 'k' of the choices"},
    {4, SENT, BACK "%a, %c, %c {over=[k=2]" ROUTE, "no dim 'e'"},
    {4, SENT, BACK "%z, %a, %c {over=[k=2]" ROUTE, "the choice is f64"},
    {4, SENT,
     "%r: i32[g=2, s=3, k=2](t) = slots %c {over=[k=2], along=s=3, dim=e=4, to=t=5, sorted}" GIVE,
     "5 rows of 6 choices"},
    {4, SENT, "%r: i32[g=2, e=4] = ends %c {over=[k=2]" ROUTE, "5 rows of 6 choices"},
    {4, SENT, BACK "%z, %c, %c {over=[k=2], along=s=3, dim=e=4, to=t=6, sorted}" GIVE,
     "dim 'e' of experts, whose rows are sorted"},
    {4, GROUPED, TO_ROWS "%z, %w, %z " MATRICES, "no dim 'c'"},
    {4, GROUPED, TO_ROWS "%z, %w, %b " MATRICES, "ends are f64 where i32 is wanted"},
    {4, GROUPED, TO_ROWS "%z, %w, %n {over=[h=2], along=t=6, dim=e=3, to=c=2}" GIVE_Z, "'c'"},
    {4, GROUPED, TO_ROWS "%z, %z, %n " MATRICES, "no dim 'e'"},
    {4, GROUPED, TO_ROWS "%w, %w, %n " MATRICES, "no dim 't'"},
    {4, GROUPED, TO_ROWS "%z, %w, %n {over=[f=2], along=t=6, dim=e=3, to=c=3}" GIVE_Z,
     "no dim 'f'"},
    {4, GROUPED, TO_ROWS "%z, %w, %n {over=[], along=t=6, dim=e=3, to=c=3}" GIVE_Z,
     "the dim 'h', which is not summed"},
    {4, GROUPED, "%r: f64[e=3, h=2, f=2] = grouped_weight %z, %z, %n " SUMMED,
     "both operands have the dim 'h'"},
    {4, GROUPED, "%r: f64[e=3, h=2, f=2] = grouped_weight %z, %y, %n, %z " SUMMED,
     "what is added to has not the result's type"},
    {4, SENT, "%r: f64[g=2, s=3, k=2] = combine_weight %z, %w, %c, %c {over=[k=2]" ROUTE,
     "of what is fetched"},
};

static bool ruled[OP_count]; /* ops of which some use was refused */

static void refuse(const Bad *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        World w;
        world_open(&w);
        Module *m = world_read(&w, program_text(w.a, all[i].args, all[i].body, 1));
        if (!m)
            fail_msg("not read: %s\n%s", all[i].body, world_messages(&w));
        int broken = world_verify(&w, m);
        assert_says(&w, broken, all[i].invariant, all[i].says);
        ruled[m->fns.data[0]->body->ins.data[0]->op] = true;
        world_close(&w);
    }
}

static void bad_texts(void **state)
{
    (void)state;
    refuse(scopes, sizeof scopes / sizeof *scopes);
    refuse(loops, sizeof loops / sizeof *loops);
    refuse(rules, sizeof rules / sizeof *rules);
    refuse(composites, sizeof composites / sizeof *composites);
    refuse(experts, sizeof experts / sizeof *experts);
    refuse(tiles, sizeof tiles / sizeof *tiles);
    for (Op op = OP_none + 1; op < OP_count; op++)
        if (!op_is(op, POINTWISE | COMM) && !ruled[op]) /* COMM: test_mesh.c */
            fail_msg("nothing is refused to %s", op_info[op].name);
}

/* ---- as structures --------------------------------------------------------------------------- */

static void bad_structures(void **state)
{
    (void)state;
    for (size_t i = 0; i < damage_count; i++) {
        World w;
        world_open(&w);
        Module *m = must_read(&w, damage_args, damage_body, 1);
        damages[i].damage(m);
        int broken = world_verify(&w, m);
        assert_says(&w, broken, damages[i].invariant, damages[i].says);
        assert_int_equal(ir_verify(m, NULL), broken);
        world_close(&w);
    }
}

static void none_missing(void **state)
{
    (void)state;
    for (int i = 1; i <= INVARIANTS; i++)
        if (!seen[i] && (i < 11 || i > 13)) /* test_mesh.c, test_stages.c, test_rounded.c */
            fail_msg("no test breaks I%d", i);
}

/* A loop's values are its own: another loop may define a value of that number again only after. */
static void scopes_end(void **state)
{
    (void)state;
    World w;
    world_open(&w);
    static const char loop[] = " = repeat %a {dim=l=2, carried=1, reverse=no} {\n";
    char text[1024];
    snprintf(text, sizeof text,
             "%%r: f64[i=2]%sarg %%x: f64[i=2]\narg %%n: i32[]\n%%c: f64[i=2] = add %%x, %%a\ngive "
             "%%c\n}\n%%s: f64[i=2]%sarg %%y: f64[i=2]\narg %%m: i32[]\n%%d: f64[i=2] = add %%y, "
             "%%r\ngive %%d\n}\ngive %%s",
             loop, loop);
    Module *m = must_read(&w, (const char *[]){"a: f64[i=2]", NULL}, text, 1);
    Ins *const *loops = m->fns.data[0]->body->ins.data;
    loops[1]->body->ins.data[0]->in[1] = loops[0]->body->args.data[0];
    int broken = world_verify(&w, m);
    assert_says(&w, broken, 2, "used where it is not defined");
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(bad_structures),
        cmocka_unit_test(none_missing),
        cmocka_unit_test(scopes_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
