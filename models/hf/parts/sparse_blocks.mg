%if shared or sparse != "1"
%include "parts/swiglu_over.mg"
%end
%let wide = "wide", name_gate = "gate_proj", name_up = "up_proj", name_down = "down_proj"
%let share = norm_topk_prob ? "share / sum(share, over best)" : "share"
%include "parts/experts.mg"
%if balanced and sparse != "1"
block dense(x[hidden]) {
    return swiglu(x, over ffn), expand(0, over (batch$also, choice)), expand(0, over (batch$also, choice))
}

%end
