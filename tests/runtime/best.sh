# --best-by and --patience: the best evaluation's checkpoint stays, a run without a better one ends, and a run that is
# stopped and resumed chooses and ends as the run that was not.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake
run="$fake --data text --val-fraction 0.1 --eval-every 2 --lr 40"

# values DIR NAME: "step value" of each evaluation.
values() {
    sed -n "s/^{\"step\":\([0-9]*\),.*\"$2\":\([0-9.e+-]*\).*/\1 \2/p" "$1/metrics.jsonl"
}
# best DIR NAME SIGN: the step of the first of the best values.
best() {
    values "$1" "$2" | awk "NR == 1 || $3 * \$2 > $3 * v { v = \$2; s = \$1 } END { print s }"
}

# By each number, each way: marked, and kept beside the newest.
for by in val_loss:min val_loss:max val_rate:max val_rate:min; do
    name=${by%:*} sign=1
    [ "${by#*:}" = max ] || sign=-1
    rm -rf run
    expect 0 $run --steps 12 --keep 1 --save-every 3 --best-by "$by"
    step=$(best run "$name" $sign)
    marked=$(sed -n 's/^{"step":\([0-9]*\),.*"best":true.*/\1/p' run/metrics.jsonl | tail -1)
    [ "$step" = "$marked" ] || fail "$by: step $step is the best, $marked is marked"
    says out "best $name $(values run "$name" | awk "\$1 == $step { print \$2 }"): step $step, run/ckpt/step-$(printf %08d "$step")"
    { printf 'step-%08d\n' "$step"; echo step-00000012; } | sort -u >want
    ls run/ckpt >got
    cmp want got || fail "$by: kept $(cat got)"
    says run/ckpt/step-00000012/state.json "\"best\":[\"$by\","
done
[ "$(best run val_rate 1)" != "$(best run val_rate -1)" ] || fail "all evaluations are one: nothing was chosen"

# By default the loss, the smaller the better. Nothing asked: nothing is kept or said.
rm -rf run
expect 0 $run --steps 12 --best-by val_loss
says run/ckpt/step-00000012/state.json '"best":["val_loss:min",'
expect 0 $run --steps 4 --out plain
says_not out best
says_not plain/ckpt/step-00000004/state.json best

# --patience ends the run, after so many evaluations that are no better.
expect 0 $run --steps 60 --out whole --best-by val_rate:min --patience 3 --keep 0 --save-every 1
last=$(tail -1 whole/metrics.jsonl | sed 's/^{"step":\([0-9]*\),.*/\1/')
step=$(best whole val_rate -1)
[ "$last" -eq $((step + 6)) ] && [ "$last" -lt 60 ] || fail "the best is step $step, the last step $last"
says out "stopped after step $last: 3 evaluations without a better val_rate"
[ -d "whole/ckpt/step-$(printf %08d "$last")" ] || fail "the last step was not saved"

# Stopped anywhere and resumed, without saying it again: the same end, the same choice.
at=1
while [ $at -lt "$last" ]; do
    rm -rf again && mkdir -p again && cp whole/metrics.jsonl again
    mkdir again/ckpt
    cp -r whole/ckpt/step-0000000$at again/ckpt 2>/dev/null || break
    expect 0 $run --steps 60 --out again --resume
    same_run whole again
    values whole val_rate >want
    values again val_rate >got
    cmp want got || fail "resumed at $at, other evaluations"
    grep -o '"step":[0-9]*,.*"best":true' whole/metrics.jsonl | sed 's/,.*//' >want
    grep -o '"step":[0-9]*,.*"best":true' again/metrics.jsonl | sed 's/,.*//' >got
    cmp want got || fail "resumed at $at, others are the best"
    at=$((at + 2))
done
[ $at -gt 3 ] || fail "nothing was resumed"

# --keep-best: the best of all evaluations, in order, beside the newest; and a resumed run has the same.
# ranked DIR COUNT: their steps.
ranked() {
    values "$1" val_rate | sort -s -g -k 2 | head -n "$2" | cut -d ' ' -f 1
}
# kept_best DIR COUNT: these and the newest are there, no others.
kept_best() {
    { ranked "$1" "$2" | xargs printf 'step-%08d\n'; echo step-00000016; } | sort -u >want
    ls "$1/ckpt" >got
    cmp want got || fail "of the $2 best in $1 there are $(cat got)"
}
for n in 2 3 20; do
    rm -rf run part
    expect 0 $run --steps 16 --keep 1 --keep-best $n --best-by val_rate:min
    kept_best run $n
    sed -n 's/^\(best val_rate\|  then\) [^ ]*: step \([0-9]*\),.*/\2/p' out >got
    ranked run $n | cmp - got || fail "said $(cat got)"
    expect 0 $run --steps 8 --keep 1 --keep-best $n --best-by val_rate:min --out part
    expect 0 $run --steps 16 --keep 1 --resume --out part
    kept_best part $n
done
expect 0 $run --steps 16 --keep 1 --keep-best 1 --resume --out part
kept_best part 1
rm -rf run
expect 0 $run --steps 12 --keep 1 --save-every 3 --best-by val_loss:min

# It has waited long enough: it stays so, and goes on with more patience. Another criterion begins anew, and says so.
expect 0 $run --steps 60 --out whole --resume
says_not out "step $((last + 1))/60"
expect 0 $run --steps $((last + 2)) --out whole --resume --patience 50
says out "step $((last + 2))/$((last + 2))  val loss"
expect 0 $run --steps $((last + 4)) --out whole --resume --best-by val_loss
says err "the resumed run chose by val_rate:min"
grep -q "^{\"step\":$((last + 4)),.*\"best\":true" whole/metrics.jsonl || fail "the best of another criterion"

# What is no criterion is not taken from a checkpoint, although it is sealed.
seal() {
    python3 - "$1" <<'END'
import sys
text = open(sys.argv[1], "rb").read()[:-23]
crc = 0xffffffff
for byte in text:
    crc ^= byte
    for _ in range(8):
        crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
open(sys.argv[1], "wb").write(text + b',\n"crc32c":"%08x"}\n' % (crc ^ 0xffffffff))
END
}
state=bad/ckpt/step-00000012/state.json
rm -rf bad && cp -r run bad # an older checkpoint knows the best alone
sed -i '/best_kept/d' $state
seal $state
expect 0 $run --steps 14 --keep 1 --out bad --resume --keep-best 2
step=$(best run val_loss -1)
says bad/ckpt/step-00000014/state.json "\"best_kept\":[2,"
[ -d "bad/ckpt/step-$(printf %08d "$step")" ] || fail "the best of an older checkpoint was removed"
for kept in '0' '65' '1,2' '1,2.0,3,4.0,5' '"x"' '2,1.0,0'; do
    rm -rf bad && cp -r run bad
    sed -i "s/\"best_kept\":\[[^]]*\]/\"best_kept\":[$kept]/" $state
    seal $state
    expect 65 $run --steps 14 --out bad --resume=bad/ckpt/step-00000012
done
for by in val_loss:min val_rate:min val_loss val_loss:most 'val_loss:min","x' other:max; do
    rm -rf bad && cp -r run bad
    sed -i "s/val_loss:min/$by/" $state
    seal $state
    case $by in
    *:min) expect 0 $run --steps 14 --out bad --resume ;;
    other:max)
        expect 0 $run --steps 14 --out bad --resume
        says err "chose its best evaluation by other:max, which this program has not" ;;
    *) expect 65 $run --steps 14 --out bad --resume=bad/ckpt/step-00000012 ;;
    esac
done
