%# Rows of an objective have seq + 1 tokens, which no mesh splits evenly.
%let splits = splits_seq and objective == ""
%# How a model is trained from given weights, and one layout. Before it: over_tp (the dims that `tp` splits), experts_split, splits_seq.
train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr cosine(peak = 2e-5, warmup = 100, steps = 2000, floor = 2e-6)
    clip 1.0
%if rollout != ""
    rollout groups($rollout)  # answers that the program generates, and a command rewards
%end
%if frozen != ""
    frozen where "$frozen"
%end
}

layout {  # the default: one rank
    device cpu
    mesh pp = 1, dp = 1$(experts_split ? ", ep = 1" : "")$(splits ? ", cp = 1" : "")$(over_tp == "" ? "" : ", tp = 1")
%if experts_split
    experts -> ep
%end
    batch -> dp$(experts_split ? ", ep" : "")
%if over_tp != ""
    $over_tp -> tp
%end
%if splits
    seq -> cp (zigzag), tp
%end
    layers -> pp (schedule = 1f1b)
%if together
    microbatch batch  # all at once: rows depend on each other
%else
    microbatch 1  # $counted computed at once; the rest accumulates
%end
    recompute auto
}
