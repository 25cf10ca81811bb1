# A whole run: what it prints and leaves behind.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake

expect 0 "$fake" --data text --val-fraction 0.1 --steps 60 --eval-every 20 --save-every 20 --trace 3:4
[ "$(grep -c '^step [0-9]*/60  loss ' out)" -eq 60 ] || fail "not one line a step"
[ "$(grep -c 'val loss' out)" -eq 3 ] || fail "not three evaluations"
says out "step time: predicted 0.500 ms, measured"
says out "saved run/ckpt/step-00000060"
printf '%s\n' step-00000020 step-00000040 step-00000060 >want
ls run/ckpt >got
cmp want got || fail "the checkpoints are not those of steps 20, 40, 60"

# metrics.jsonl: an object a line, with the agreed keys.
[ "$(grep -c '^{"step":[0-9]*,"loss":[0-9.e+-]*,"grad_norm":[0-9.e+-]*,"lr":[0-9.e+-]*,"step_ms":[0-9.]*,"tokens_per_s":[0-9.]*,.*}$' run/metrics.jsonl)" -eq 60 ] ||
    fail "metrics.jsonl has other lines"
[ "$(grep -c '^{"step":[0-9]*,"val_loss":[0-9.]*,"val_rate":[0-9.]*,"eval_s":.*}$' run/metrics.jsonl)" -eq 3 ] || fail "no val_loss"
rate=$(sed -n 's/.*"val_rate":\([0-9.]*\).*/\1/p' run/metrics.jsonl | tail -1)
awk "BEGIN { exit !($rate > 0 && $rate < 1) }" || fail "the metric is $rate"
says out "$(printf 'rate %.4f' "$rate")"
[ "$(grep -ac 'val/rate' run/events.out.tfevents.*)" -ge 1 ] || fail "no event of the metric"

# It learns: the last evaluation is below the first loss by more than a nat.
first=$(sed -n '/^{"step":1,"loss"/s/.*"loss":\([0-9.]*\).*/\1/p' run/metrics.jsonl)
last=$(sed -n 's/.*"val_loss":\([0-9.]*\).*/\1/p' run/metrics.jsonl | tail -1)
awk "BEGIN { exit !($last < $first - 1) }" || fail "loss $first, then $last"

# The learning rate in the log is the schedule's.
sed -n 's/.*"step":\([0-9]*\),"loss".*"lr":\([^,]*\),.*/\1 \2/p' run/metrics.jsonl | awk '{
    n = $1 - 1
    want = n < 5 ? 2 * (n + 1) / 5 : 0.2 + 0.9 * (1 + cos(3.14159265358979 * (n - 5) / 55))
    if (want - $2 > 1e-9 || $2 - want > 1e-9) exit 1 }' || fail "the learning rate is not the cosine"

# Files that other tools open.
grep -q '"name":"zero \\"grads\\""' run/trace.json || fail "the trace has no action, or its name broke the JSON"
[ "$(grep -c '"name":"step 3"' run/trace.json)" -eq 2 ] || fail "the trace lacks step 3, measured and predicted"
grep -q '"predicted_us":50' run/trace.json || fail "the trace has no prediction"
says out "traced 2 steps"
grep -q '^<svg' run/loss.svg && grep -q 'circle' run/loss.svg || fail "loss.svg"
ls run/events.out.tfevents.* >/dev/null || fail "no events"
head -c 8 run/ckpt/step-00000060/model.safetensors | od -An -tu8 | grep -q '[0-9]' || fail "model"
tail -c +9 run/ckpt/step-00000060/model.safetensors | head -c 34 >header
printf '{"__metadata__":{"format":"pt"},"l' >want
cmp header want || fail "the header of model.safetensors"
grep -aq '"table.weight":{"dtype":"F32","shape":\[256,256\]' run/ckpt/step-00000060/model.safetensors || fail "shape"
grep -aq '"layers.1.bias":{"dtype":"F32","shape":\[256\]' run/ckpt/step-00000060/model.safetensors || fail "stacked"
grep -aq '"momentum.layers.0.bias"' run/ckpt/step-00000060/optimizer.safetensors || fail "slots"

# The same run again is the same bits, on any number of threads; what was there is set aside.
expect 0 "$fake" --data text --val-fraction 0.1 --steps 60 --out one --threads 1
expect 0 "$fake" --data text --val-fraction 0.1 --steps 60 --out three --threads 3
same_run one three
same_run one run
cp -r run before
expect 0 "$fake" --data text --val-fraction 0.1 --steps 60
says err "moved to run/previous-1"
same_run before run
cmp run/previous-1/metrics.jsonl before/metrics.jsonl || fail "the earlier log was not kept"
cmp run/previous-1/ckpt/step-00000060/model.safetensors before/ckpt/step-00000060/model.safetensors || fail "previous"

# Another seed is another run.
expect 0 "$fake" --data text --val-fraction 0.1 --steps 60 --out seed --seed 1
losses seed >seed.losses
losses one >one.losses
! cmp -s seed.losses one.losses || fail "the seed changes nothing"

# --keep, --log-every.
expect 0 "$fake" --data text --steps 30 --save-every 5 --keep 2 --log-every 10 --out keep
[ "$(ls keep/ckpt | tr '\n' ' ')" = "step-00000025 step-00000030 " ] || fail "--keep 2 kept $(ls keep/ckpt)"
[ "$(losses keep | wc -l)" -eq 3 ] || fail "--log-every 10"
expect 0 "$fake" --data text --steps 30 --save-every 5 --keep 0 --out all
[ "$(ls all/ckpt | wc -l)" -eq 6 ] || fail "--keep 0"

# --lr scales the schedule; --eval-batches bounds the evaluation.
expect 0 "$fake" --data text --steps 6 --lr 1 --out lr
says lr/metrics.jsonl '"step":6,'
grep '"step":6,' lr/metrics.jsonl | grep -q '"lr":1,' || fail "--lr"
expect 0 "$fake" --data text --val text --steps 2 --eval-batches 1 --out eb
says eb/metrics.jsonl val_loss

# Every window of the evaluation set counts once, though the batch of four is not filled.
head -c 65 text >four
tail -c +65 text | head -c 17 >last
head -c 81 text >five
for set in four last five; do
    expect 0 "$fake" --data text --val $set --steps 3 --eval-every 0 --out eval
    sed -n 's/.*"val_loss":\([^,]*\),.*/\1/p' eval/metrics.jsonl >$set.loss
done
echo "$(cat four.loss) $(cat last.loss) $(cat five.loss)" | awk '{
    d = 5 * $3 - 4 * $1 - $2
    if ($2 == $1 || d > 1e-9 || d < -1e-9) { print; exit 1 } }' || fail "the evaluation is not the mean"

# One writer a directory.
mkdir lock
flock lock/.lock sh -c "'$fake' --data text --steps 3 --out lock; echo \$? >code" >out 2>err
[ "$(cat code)" = 1 ] || fail "two programs wrote to one directory"
says err "another program is writing to lock"

# A terminal has one line, redrawn; a dumb one, or a pipe, has plain lines.
TERM=xterm script -qec "'$fake' --data text --steps 40 --out tty" /dev/null >out </dev/null || fail "on a terminal"
grep -q "$(printf '\r')step" out || fail "the line is not redrawn"
grep -q "$(printf '\033')\[1m" out || fail "no colour"
TERM=xterm NO_COLOR=1 script -qec "'$fake' --data text --steps 4 --out tty" /dev/null >out </dev/null || fail "tty"
! grep -q "$(printf '\033')\[1m" out || fail "colour in spite of NO_COLOR"
TERM=dumb script -qec "'$fake' --data text --steps 4 --out tty" /dev/null >out </dev/null || fail "on a dumb terminal"
! grep -q "$(printf '\rstep')" out || fail "a dumb terminal was redrawn"
! grep -q "$(printf '\033')" out || fail "a dumb terminal was sent escapes"

# Nobody reading the output does not stop the training.
"$fake" --data text --steps 60 --out pipe | head -1 >out
[ -d pipe/ckpt/step-00000060 ] || fail "a closed pipe stopped the run"
exit 0
