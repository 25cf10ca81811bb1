# A run that is stopped and resumed is, bit for bit, the run that was not.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake

expect 0 "$fake" --data text --out whole --keep 0
expect 0 "$fake" --data text --out parts --save-every 20 --keep 0
# Stopped at 20, 40: as if killed just after, with lines in the log that the checkpoint does not have.
for at in 20 40; do
    rm -rf again && cp -r parts again
    for step in 40 60; do
        [ $step -le $at ] || rm -rf "again/ckpt/step-000000$step"
    done
    printf '{"step":61,"loss":1' >>again/metrics.jsonl
    expect 0 "$fake" --data text --out again --resume
    says out "resumed from again/ckpt/step-000000$at"
    same_run whole again
    [ "$(grep -c '"loss"' again/metrics.jsonl)" -eq 60 ] || fail "the log was not cut back"
done

# From a checkpoint elsewhere, and on another number of threads.
expect 0 "$fake" --data text --out else --resume=parts/ckpt/step-00000020 --threads 3
grep '"loss"' whole/metrics.jsonl | tail -n 40 | sed 's/,"step_ms.*//' >want
grep '"loss"' else/metrics.jsonl | sed 's/,"step_ms.*//' >got
cmp want got || fail "resumed elsewhere, other losses"

# Back in time in the same directory: later checkpoints are set aside.
expect 0 "$fake" --data text --out parts --resume=parts/ckpt/step-00000020
says err "checkpoints after step 20 moved to parts/previous-1"
same_run whole parts
[ -d parts/previous-1/ckpt/step-00000040 ] || fail "step 40 is lost"

# Done is done; more steps go on. What was given once holds for the resumed run.
expect 0 "$fake" --data text --out whole --resume
says out "60 of 60 steps are done"
expect 0 "$fake" --data text --out lr --steps 10 --lr 1 --seed 5
expect 0 "$fake" --data text --out lr --steps 12 --resume
grep '"step":12,' lr/metrics.jsonl | grep -q '"lr":0.2396[0-9]*,' || fail "--lr was forgotten: $(tail -1 lr/metrics.jsonl)"
says lr/ckpt/step-00000012/state.json '"seed":5'
# Other steps stretch the schedule, and both rates of the next step are said; the same say nothing.
says err "--steps 12: the resumed run was to have 10 steps"
sed -n 's/.*at step 11 it is \([^,]*\), where it would have been \(.*\)/\1 \2/p' err >rates
read -r now was <rates
logged=$(sed -n 's/.*"step":11,.*"lr":\([^,]*\),.*/\1/p' lr/metrics.jsonl)
[ "$(printf %.6g "$logged")" = "$now" ] || fail "step 11 does not have the rate $now"
[ "$was" != "$now" ] || fail "both rates are $now"
expect 0 "$fake" --data text --out lr --steps 12 --resume
says_not err "was to have"
expect 2 "$fake" --data text --out lr --resume --seed 6
says err "began with seed 5"
expect 0 "$fake" --data text --out lr --resume --seed 5

# Other data is a warning.
head -c 20000 text >less
expect 0 "$fake" --data less --out lr --resume --steps 14
says err "the data has 20000 tokens; the resumed run read 30000"

# Nothing there: a fresh start, said so. A stale temporary directory goes.
mkdir -p fresh/ckpt/.tmp-step-00000007 fresh/ckpt/.old-step-00000003
: >fresh/ckpt/.tmp-step-00000007/model.safetensors
expect 0 "$fake" --data text --out fresh --resume=auto --steps 3
says out "starting afresh"
[ "$(ls -A fresh/ckpt)" = step-00000003 ] || fail "left behind: $(ls -A fresh/ckpt)"
exit 0
