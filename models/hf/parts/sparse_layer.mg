%# In the repeat: what follows attention, experts or an MLP.
%if balanced
%if sparse == "1"
        y, more_used, more_asked = moe(norm(x) as "post_attention_layernorm") as "mlp"
%else
        h = norm(x) as "post_attention_layernorm"
        y, more_used, more_asked = select($sparse, moe(h) as "mlp", dense(h) as "mlp")
%end
        x = x + y
        used = used + more_used
        asked = asked + more_asked
%elif sparse == "1"
        x = x + moe(norm(x) as "post_attention_layernorm") as "mlp"
%else
        h = norm(x) as "post_attention_layernorm"
        x = x + select($sparse, moe(h) as "mlp", swiglu(h, over ffn) as "mlp")
%end
