# Data files: each thing that can be wrong has its own message and exit code 65.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake

bad() {
    text=$1
    shift
    expect 65 "$fake" --steps 2 "$@"
    says err "$text"
    [ ! -e run/metrics.jsonl ] || fail "a run began: $*"
}
bad "nothing: No such file" --data nothing
bad "nothing*: No such file" --data 'nothing*'
mkdir dir
bad "dir is a directory" --data dir
: >empty
bad "empty: has 0 tokens; one window takes 17" --data empty
head -c 16 text >short
bad "short: has 16 tokens; one window takes 17" --data short
bad "short: has 16 tokens" --data text --data short
bad "short: has 16 tokens" --data text --val short
bad "not a regular file" --data /dev/null
bad "leaves the evaluation without one window" --data text --val-fraction 0.0001
head -c 17 text >one
expect 0 "$fake" --data one --steps 8 --out one.run
[ "$(id -u)" -eq 0 ] || { cp text secret; chmod 0 secret; bad "secret: Permission denied" --data secret; }

# Globs, and options that come twice, are the files in order.
mkdir many
split -b 5000 text many/part-
expect 0 "$fake" --dry-run --data 'many/part-*'
says out "30000 tokens in 6 files"
expect 0 "$fake" --dry-run --data many/part-aa --data 'many/part-a[bc]'
says out "15000 tokens in 3 files"

# llm.c's format: 256 int32 of header, then uint16 tokens; known by its first bytes.
header() {
    printf '\210\330\064\001\001\000\000\000'
    printf "\\$(printf '%03o' $(($1 % 256)))\\$(printf '%03o' $(($1 / 256)))\\000\\000"
    head -c 1012 /dev/zero
}
words() {
    i=0
    while [ $i -lt "$1" ]; do
        printf "\\$(printf '%03o' $((i % 256)))\\000"
        i=$((i + 1))
    done
}
{ header 300; words 300; } >tokens.bin
expect 0 "$fake" --dry-run --data tokens.bin
says out "300 tokens in 1 files"
expect 0 "$fake" --data tokens.bin --steps 5 --out llmc
{ header 301; words 300; } >wrong.bin
bad "its header counts 301 tokens, 1626 bytes in all; it has 1624 bytes" --data wrong.bin
{ header 300; words 299; printf '\000\001'; } >large.bin
bad "large.bin: token 299 is 256; the vocabulary has 256" --data large.bin
{ printf '\210\330\064\001\002'; head -c 2000 /dev/zero; } >version.bin
bad "version 2; only 1 is known" --data version.bin
expect 65 "$bin/fake_vocab" --data text --steps 2
says err "plain bytes are tokens only where the vocabulary is 256, and here it is 250"
says err "mgc tok --tokenizer tokenizer.json -o NAME FILE makes NAME.bin of texts and JSON"
cp text text.safetensors
expect 65 "$bin/fake_vocab" --data text.safetensors --steps 2
says err "safetensors files are for models with several inputs, or numbers, by name"
rm text.safetensors
{ header 250; words 250; } >fits.bin
expect 0 "$bin/fake_vocab" --data fits.bin --steps 2 --out vocab
bad_vocab=$({ header 252; words 252; } >over.bin; "$bin/fake_vocab" --data over.bin --steps 2 2>&1)
[ $? -eq 65 ] || fail "a token beyond the vocabulary was taken: $bad_vocab"

# A file that shrinks while it is read is an error with its name, not a crash.
cp text shrinks
MGC_FAKE_US=20000 "$fake" --data shrinks --out shrink >out 2>err </dev/null &
pid=$!
until grep -q '"step":3,' shrink/metrics.jsonl 2>/dev/null; do sleep 0.01; done
: >shrinks
wait $pid
[ $? -eq 65 ] || fail "a file that shrank"
says err "shrinks: ends before byte"
exit 0
