%# Rotary positions: how many of a head's elements turn, and how fast. Before it: head, positions, default_theta, default_partial (the part of
%# a head that turns; null where the family always turns all) and default_original (null, or what the family's class has by itself).
%key theta : positive = default_theta from rope_scaling.rope_theta, rope_parameters.rope_theta, rope_theta as theta
%key rope_word : word = "default" only "default", "linear", "dynamic", "yarn", "llama3", "longrope", "su" from rope_scaling.rope_type, rope_scaling.type, rope_parameters.rope_type, rope_parameters.type
%let rope_type = rope_word == "su" ? "longrope" : rope_word
%if default_partial == null
%key partial : number = 1 only 1 from rope_scaling.partial_rotary_factor, rope_parameters.partial_rotary_factor, partial_rotary_factor
%else
%key partial : positive = default_partial from rope_scaling.partial_rotary_factor, rope_parameters.partial_rotary_factor, partial_rotary_factor
%end
%let turn = int(head * partial)
%require turn <= head and turn >= 2 and turn % 2 == 0, default_partial == null ? "head_dim" : "partial_rotary_factor", "does not make an even number of a head's elements: rotary positions turn pairs"
%let turned_dim = turn < head ? "turn" : "head"
%key original : whole = default_original == null ? positions : default_original from original_max_position_embeddings, rope_scaling.original_max_position_embeddings, rope_parameters.original_max_position_embeddings
%if rope_type in ["linear", "dynamic", "llama3"]
%key factor : positive from rope_scaling.factor, rope_parameters.factor
%elif rope_type in ["yarn", "longrope"]
%key factor_given : positive? = null from rope_scaling.factor, rope_parameters.factor
%let factor = factor_given == null ? positions / original : factor_given
%key attention_factor : positive? = null from rope_scaling.attention_factor, rope_parameters.attention_factor
%else
%key factor : any? = null from rope_scaling.factor, rope_parameters.factor
%end
%if rope_type == "llama3"
%key low_freq : positive from rope_scaling.low_freq_factor, rope_parameters.low_freq_factor
%key high_freq : positive from rope_scaling.high_freq_factor, rope_parameters.high_freq_factor
%require low_freq < high_freq, "low_freq_factor", "is not below high_freq_factor"
%elif rope_type == "yarn"
%key beta_fast : positive = 32 from rope_scaling.beta_fast, rope_parameters.beta_fast
%key beta_slow : positive = 1 from rope_scaling.beta_slow, rope_parameters.beta_slow
%key mscale : number? = null from rope_scaling.mscale, rope_parameters.mscale
%key mscale_all : number? = null from rope_scaling.mscale_all_dim, rope_parameters.mscale_all_dim
%key truncate : flag = true from rope_scaling.truncate, rope_parameters.truncate
%elif rope_type == "longrope"
%key short_factor : list from rope_scaling.short_factor, rope_parameters.short_factor
%key long_factor : list from rope_scaling.long_factor, rope_parameters.long_factor
%require len(short_factor) == turn // 2, "short_factor", "has another number of factors than a head has pairs that turn"
%require len(long_factor) == turn // 2, "long_factor", "has another number of factors than a head has pairs that turn"
%end
