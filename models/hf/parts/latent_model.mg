%include "parts/latent.mg"
%include "parts/activation.mg"
%include "parts/swiglu_over.mg"
%include "parts/latent_experts.mg"
$kind $model_type($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers$(dense > 0 and dense < layers ? " at l" : "") as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts) as "self_attn"
%if dense == 0
        x = x + moe(norm(x) as "post_attention_layernorm") as "mlp"
%else
        h = norm(x) as "post_attention_layernorm"
        x = x + select(l < $dense, swiglu(h, over ffn) as "mlp", moe(h) as "mlp")
%end
    }
%if not tied
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
%end
    $(loss_)(norm(x) as "model.norm") @ $(tied ? "embed" : "unembed") over hidden$_loss
}

%let over_tp = "heads, " + (dense > 0 ? "ffn, " : "") + "shared, wide, vocab", experts_split = true, splits_seq = false
%if v3
%let frozen = "*.e_score_correction_bias"
%end
%include "parts/train.mg"
