%# Caps of scores and of logits, each null where there is none.
%key score_cap : positive? = 50 from attn_logit_softcapping
%if score_cap != null
%key score_cap : positive = 50 from attn_logit_softcapping as score_cap
%end
%key logit_cap : positive? = 30 from final_logit_softcapping
%if logit_cap != null
%key logit_cap : positive = 30 from final_logit_softcapping as logit_cap
%end
%let caps_const = (score_cap == null ? "" : ", score_cap = " + real(score_cap)) + (logit_cap == null ? "" : ", logit_cap = " + real(logit_cap))
