# lib.sh - what the shell tests of the runtime share. A test is run as: sh TEST.sh DIR, where DIR
# holds the programs fake, fake_other, ...; it works in a directory of its own, removed if it passes.
set -u
bin=$1
work=$(mktemp -d "$bin/${0##*/}.XXXXXX")
cd "$work" || exit 1
trap 'code=$?; cd /; [ $code -eq 1 ] && echo "kept: $work" || rm -rf "$work"' EXIT

fail() {
    echo "FAIL: $*" >&2
    exit 1
}

# expect CODE COMMAND...: its exit code; output goes to ./out and ./err.
expect() {
    want=$1
    shift
    "$@" >out 2>err </dev/null
    got=$?
    [ $got -eq "$want" ] || { cat out err >&2; fail "exit $got, not $want: $*"; }
}

# says FILE TEXT: the fixed text is in the file.
says() {
    grep -qF -- "$2" "$1" || { cat "$1" >&2; fail "$1 does not say: $2"; }
}

says_not() {
    ! grep -qF -- "$2" "$1" || { cat "$1" >&2; fail "$1 says: $2"; }
}

# sampled I PARTS: tests/sample.h.
sampled() {
    [ -n "${MGC_FULL-}" ] || [ $((($1 + ${MGC_TURN:-0}) % $2)) -eq 0 ]
}

# losses DIR: step, loss, gradient norm and learning rate of each step logged there.
losses() {
    sed -n 's/^\({"step":[0-9]*,"loss":[^,]*,"grad_norm":[^,]*,"lr":[^,]*\),.*/\1/p' "$1/metrics.jsonl"
}

# same_run A B: the same losses and, bit for bit, the same newest checkpoint.
same_run() {
    losses "$1" >a.losses
    losses "$2" >b.losses
    [ -s a.losses ] || fail "$1 logged nothing"
    cmp a.losses b.losses || fail "the losses of $1 and $2 differ"
    a=$(ls -d "$1"/ckpt/step-* | tail -1) b=$(ls -d "$2"/ckpt/step-* | tail -1)
    [ "${a##*/}" = "${b##*/}" ] || fail "the newest of $1 is ${a##*/}, of $2 ${b##*/}"
    for f in model.safetensors optimizer.safetensors; do
        cmp "$a/$f" "$b/$f" || fail "$f of $1 and $2 differ"
    done
}

# Text to train on: the tests themselves.
cat "$(dirname "$0")"/*.c "$(dirname "$0")"/*.sh | head -c 30000 >text
[ "$(wc -c <text)" -eq 30000 ] || fail "no text to train on"
