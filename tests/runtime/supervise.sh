# supervise.sh - a program with a supervisor: what is started again and what is not, how often, and
# what signals do. The program has one rank; tests/e2e/test_elastic.py has those of several.
. "$(dirname "$0")/lib.sh"
fake=$bin/fake

# child PID: waits until a supervisor has started the program, and prints its number.
child() {
    for i in $(seq 300); do
        c=$(cat /proc/$1/task/$1/children 2>/dev/null | tr -d ' ')
        [ -n "$c" ] && echo "$c" && return
        sleep 0.02
    done
    fail "$1 has started nothing"
}

# trains DIR: waits until the log has steps.
trains() {
    for i in $(seq 500); do
        [ -s "$1/metrics.jsonl" ] && return
        sleep 0.02
    done
    cat err >&2
    fail "$1 has no steps"
}

# gone PID: waits until a process has ended.
gone() {
    for i in $(seq 1000); do
        [ -d "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status" || return 0
        sleep 0.02
    done
    fail "$1 has not ended"
}

# ---- undisturbed

expect 0 "$fake" --data text --steps 60 --out whole --save-every 20
expect 0 "$fake" --data text --steps 60 --out watched --save-every 20 --max-restarts 3
same_run whole watched
says_not watched/metrics.jsonl '"event":"restart"'

# ---- it dies at the same step

MGC_FAKE_DIE=31 expect 69 "$fake" --data text --steps 60 --out loop --save-every 20 --save blocking --max-restarts 9
says err "the program was ended by signal 9 (Killed), after step 30: restart 1 of 9, from step 20"
says err "restart 2 of 9 in 1 s, from step 20"
says err "the program was ended by signal 9 (Killed), after step 30, for the third time in a row: a restart does not help"
[ "$(grep -c '"event":"restart"' loop/metrics.jsonl)" -eq 2 ] || fail "not two restarts in the log"
says loop/metrics.jsonl '{"event":"restart","step":20,"restart":2,"lost_steps":10,"ranks":1,"mesh":"","cause":"the program was ended by signal 9 (Killed)",'
MGC_FAKE_DIE=31 expect 69 "$fake" --data text --steps 60 --out once --save-every 20 --save blocking --max-restarts 1
says err "the run was started again 1 times, as often as --max-restarts says"
MGC_FAKE_DIE=31 expect 69 "$fake" --data text --steps 60 --out never --grace 9
says err "--max-restarts N starts the run again"
# Without the cause it goes on, to the bits of the undisturbed run.
expect 0 "$fake" --data text --steps 60 --out loop --save-every 20 --max-restarts 3 --resume
says_not out "restart"
same_run whole loop

# ---- an earlier run in the same directory

MGC_FAKE_DIE=5 expect 69 "$fake" --data text --steps 60 --out whole --max-restarts 2 --save-every 100
[ -d whole/previous-1/ckpt/step-00000060 ] && [ ! -d whole/previous-2 ] || fail "the earlier run was not set aside once"
says err "restart 1 of 2, from the beginning, for there is no checkpoint yet"
says whole/metrics.jsonl '"lost_steps":4'

# ---- what a restart does not cure

MGC_FAKE_NAN=25 expect 1 "$fake" --data text --out nan --save-every 10 --max-restarts 3
says err "step 25 gave a loss of nan"
says_not err restart
expect 65 "$fake" --data nothing --out no --max-restarts 3
says_not err restart
expect 2 "$fake" --data text --lr nan --max-restarts 3
expect 2 "$fake" --sample 5 --max-restarts 3
says err "--max-restarts is for a run that trains"
expect 2 "$fake" --data text --rejoin 5
says err "--rejoin is for --max-restarts N"
expect 2 "$fake" --data text --ranks 2
says err "--ranks 2: this program was compiled for 1; mgc --elastic compiles for several"
for set in "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1" "PMI_RANK=0 PMI_SIZE=1" \
    "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1"; do
    expect 2 env $set "$fake" --data text --max-restarts 3
    says err "ends all processes when one ends"
done
MGC_SUPERVISOR=9 expect 78 "$fake" --data text
says err "unset it"

# ---- signals

MGC_FAKE_US=20000 "$fake" --data text --steps 100000 --out stop --max-restarts 3 --grace 60 >out 2>err &
s=$!
trains stop
kill -TERM $s
wait $s
[ $? -eq 75 ] || fail "SIGTERM did not end it with 75"
says err "--resume goes on from there"
ls stop/ckpt | grep -q step- || fail "SIGTERM saved nothing"
MGC_FAKE_US=20000 "$fake" --data text --steps 100000 --out go --max-restarts 3 >out 2>err &
s=$!
trains go
kill -USR1 $s
for i in $(seq 300); do ls go/ckpt 2>/dev/null | grep -q '^step-' && break; sleep 0.02; done
ls go/ckpt | grep -q '^step-' || fail "SIGUSR1 saved nothing"
# Without its supervisor the program saves and stops.
c=$(child $s)
kill -KILL $s
gone "$c"
[ "$(ls go/ckpt | grep -c '^step-')" -ge 2 ] || fail "the program did not save when its supervisor was killed"
# A program that does not run cannot save: it is killed when the time is over.
MGC_FAKE_US=20000 "$fake" --data text --steps 100000 --out late --max-restarts 3 --grace 1 --save-every 1 >out 2>err &
s=$!
for i in $(seq 300); do ls late/ckpt 2>/dev/null | grep -q '^step-' && break; sleep 0.02; done
c=$(child $s)
kill -STOP "$c"
kill -TERM $s
wait $s
[ $? -eq 69 ] || fail "a program that did not save did not end with 69"
says err "has not saved and ended within --grace 1 s: killed; --resume goes on from step "
gone "$c"
# A process that does not run is found, and the run goes on.
MGC_FAKE_US=20000 "$fake" --data text --steps 60 --out hung --save-every 20 --max-restarts 3 --hang-after 1 >out 2>err &
s=$!
trains hung
kill -STOP "$(child $s)"
wait $s
[ $? -eq 0 ] || fail "a program that hung did not go on"
says err "the program hangs: its process has not run for 3 s"
same_run watched hung

# ---- in-memory checkpoints

MGC_FAKE_US=20000 MGC_FAKE_DIE=31 expect 69 "$fake" --data text --steps 60 --out mem --save-every 100 --memory-save-every 5 --max-restarts 1
says err "restart 1 of 1, from memory, or else the beginning, for there is no checkpoint yet"
says out "resumed from memory, step "
# Without the cause the run begins anew: the memory went with the supervisor.
MGC_FAKE_US=1000 expect 0 "$fake" --data text --steps 60 --out mem --save-every 100 --memory-save-every 5 --max-restarts 1 --resume=auto
says_not out "resumed from memory"
same_run watched mem
expect 2 "$fake" --data text --memory-save-every 5
says err "--memory-save-every is for --max-restarts N"
# The process that has them ends with its supervisor, however that ends.
MGC_FAKE_US=20000 "$fake" --data text --steps 100000 --out mem2 --memory-save-every 5 --max-restarts 3 >out 2>err &
s=$!
trains mem2
k=$(for c in $(cat /proc/$s/task/$s/children); do grep -q "mgc keeper" /proc/$c/comm && echo $c; done)
[ -n "$k" ] || fail "there is no keeper"
c=$(for c in $(cat /proc/$s/task/$s/children); do [ "$c" = "$k" ] || echo $c; done)
kill -KILL $s
gone "$k"
gone "$c"
