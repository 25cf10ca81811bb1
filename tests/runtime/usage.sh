# The command line: what is refused, and how; --help, --version, --info, --dry-run.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake

expect 0 "$fake" --help
for option in data val val-fraction seed steps out resume save-every keep eval-every eval-batches best-by keep-best patience log-every perplexity \
    export export-type export-shard prompts sample-every \
    lr threads pin hang-after sample ids tokenizer chat-template system batch answers prompt temperature trace info dry-run help version; do
    says out "--$option"
done
expect 0 "$fake" --version
says out "fingerprint 0123456789abcdef"

refused() {
    text=$1
    shift
    expect 2 "$fake" "$@"
    says err "$text"
    [ ! -s out ] || fail "printed something: $*"
    [ ! -e run ] || fail "made a run directory: $*"
}
refused "did you mean --steps?" --stpes 3
refused "did you mean --save-every?" --save-evry=3
refused "unknown option --qqqqqq" --qqqqqq
refused "quote a pattern" --data text text
refused "--steps needs a value" --steps
refused "--steps takes a whole number, not 'ten'" --steps ten
refused "--steps takes a whole number, not '1e3'" --steps=1e3
refused "--steps takes a whole number, not '99999999999999999999'" --steps 99999999999999999999
refused "--steps is -1; the minimum is 0" --steps=-1
refused "--log-every is 0; the minimum is 1" --log-every 0
refused "--lr takes a number" --lr fast
refused "--lr takes a number" --lr nan
refused "--info takes no value" --info=yes
refused "two step numbers" --trace 3
refused "A is not after B" --trace 5:4
refused "--resume takes its value after '='" --resume run
refused "--val and --val-fraction" --data text --val text --val-fraction 0.1
refused "this program has one rank" --data text --hang-after 5
refused "the limit is 0.5" --data text --val-fraction 0.9
refused "need --sample" --data text --prompt x
refused "need --val" --data text --eval-every 5
refused "need --val" --data text --patience 5
refused "need --val" --data text --keep-best 5
refused "a number of steps, or a time" --data text --save-every fast
refused "a number of steps, or a time" --data text --save-every 30x
refused "a number of steps, or a time" --data text --save-every -5
refused "a number of steps, or a time" --data text --save-every 0s
refused "--eval-every takes a whole number, not '30m'" --data text --eval-every 30m
refused "need --val" --data text --best-by val_loss
val="--data text --val-fraction 0.1"
refused "there is no such number; evaluation gives val_loss, val_rate" $val --best-by rate:max
refused "there is no such number; evaluation gives val_loss, val_rate" $val --best-by val_rat:max
refused "which is better? val_rate:max, or val_rate:min" $val --best-by val_rate
refused "after the name comes :min or :max, not ':most'" $val --best-by val_rate:most
refused "--patience is 0; the minimum is 1" $val --patience 0
refused "--keep-best is 0; the minimum is 1" $val --keep-best 0
refused "--keep-best is 65; the limit is 64" $val --keep-best 65
refused "--data is needed" --steps 5
refused "below the schedule's floor" --data text --lr 0.1

expect 0 "$fake" --info
abi=$(sed -n 's/^#define MG_ABI *//p' "$here/../../runtime/abi.h")
for word in 'fake from fake.mg' "mgc 0.1.0, ABI $abi" 'arena' 'products | own' 'processor' '0123456789abcdef'; do
    says out "$word"
done

expect 0 "$fake" --dry-run --data text --val-fraction 0.1
says out "[ok] data: 27000 tokens in 1 files"
says out "[ok] evaluation: 3000 tokens"
says out "[ok] memory:"
says_not out "[FAIL]"
[ ! -e run ] || fail "--dry-run wrote something"
: >file
expect 74 "$fake" --dry-run --data text --out file/run
says out "[FAIL] --out file/run"
expect 65 "$fake" --dry-run --data nothing-here
expect 0 "$fake" --dry-run --data text --resume
says out "the run starts afresh"

# A program for another machine or another runtime is refused by name.
expect 78 "$bin/fake_abi" --data text
says err "ABI 77"
[ "$(uname -m)" = x86_64 ] && ! grep -qw xop /proc/cpuinfo && {
    expect 78 "$bin/fake_xop" --data text
    says err "lacks xop"
    expect 78 "$bin/fake_xop" --dry-run --data text
    says out "[FAIL] this processor lacks xop"
}

# Memory that is not there: both numbers, before anything is written.
expect 1 "$bin/fake_huge" --data text
says err "needs 70368760"
says err "are available"
[ ! -e run/metrics.jsonl ] || fail "wrote a log without memory"
(ulimit -v 600000 && "$fake" --version) >out 2>err && { # not under a sanitizer
    (ulimit -v 600000 && exec "$bin/fake_huge" --data text) >out 2>err </dev/null
    [ $? -eq 1 ] || fail "a program of 64 TiB did not exit 1"
    says err "the address space limit"
}
expect 1 "$bin/fake_huge" --dry-run --data text
says out "[FAIL] memory: 70368760"
exit 0
