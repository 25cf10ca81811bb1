# Generation: after training, or from a checkpoint; the same seed says the same; nothing unsafe is
# printed; nothing is written.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
fake=$bin/fake

yes 'abcd' | tr -d '\n' | head -c 20000 >abcd
expect 0 "$fake" --data abcd --steps 60 --sample 40 --temperature 0 --prompt a
tail -n 1 out >after
[ "$(cat after)" = bcdabcdabcdabcdabcdabcdabcdabcdabcdabcda ] || fail "it did not learn abcd: $(cat after)"
find run | sort >before
expect 0 "$fake" --resume --sample 40 --temperature 0 --prompt a
cmp out after || fail "sampling from the checkpoint says another thing"
expect 0 "$fake" --resume=run/ckpt/step-00000060 --sample 40 --temperature 0 --prompt xyzabcdabcdabcdabcda
cmp out after || fail "a prompt longer than the window"
find run | sort | cmp - before || fail "sampling wrote something"

# Untrained, all bytes are about as likely: they come out escaped, and as text that grep takes.
expect 0 "$fake" --steps 0 --sample 400
cp out first
LC_ALL=C grep -q '\\x[0-9a-f][0-9a-f]' first || fail "no byte was escaped"
! LC_ALL=C tr -d '\n\t' <first | grep -aq '[^ -~]' || ! LC_ALL=C.UTF-8 grep -aqv . first || fail "unsafe bytes"
iconv -f UTF-8 -t UTF-8 first >/dev/null || fail "not UTF-8"
expect 0 "$fake" --steps 0 --sample 400
cmp out first || fail "the same seed says another thing"
expect 0 "$fake" --steps 0 --sample 400 --seed 1
! cmp -s out first || fail "another seed says the same"
expect 0 "$fake" --steps 0 --sample 400 --temperature 0.01
! cmp -s out first || fail "the temperature changes nothing"

expect 65 "$fake" --resume --out nowhere --sample 3
says err "there is no checkpoint in nowhere/ckpt"
[ ! -e nowhere ] || fail "made a directory"

# Other vocabularies: token ids.
expect 0 "$bin/fake_vocab" --steps 0 --sample 5 --prompt '1 2, 249'
[ "$(wc -w <out)" -eq 5 ] || fail "not five ids: $(cat out)"
expect 2 "$bin/fake_vocab" --steps 0 --sample 5 --prompt '1 250'
says err "token ids (0 to 249)"
expect 2 "$bin/fake_vocab" --steps 0 --sample 5 --prompt 'hello'
exit 0
