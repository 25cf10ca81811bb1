%# The keys that most families have. Before it: default_*, what the family's class in transformers has where a key is missing.
%key hidden : whole = default_hidden from hidden_size as hidden
%key layers : whole = default_layers from num_hidden_layers as layers
%key all_heads : whole = default_heads from num_attention_heads as kv_heads * group
%key kv_heads : whole = default_kv_heads == 0 ? all_heads : default_kv_heads from num_key_value_heads as kv_heads
%key vocab : whole = default_vocab from vocab_size as vocab
%key positions : whole = default_positions from max_position_embeddings
%key std : positive = default_std from initializer_range as std
%key tied : flag = default_tied from tie_word_embeddings
%key drop_given : number? = 0 from attention_dropout
%let drop_attention = drop_given == null ? 0 : drop_given
%require drop_attention >= 0 and drop_attention < 1, "attention_dropout", "is no probability below 1"
%require drops_attention or drop_attention == 0, "attention_dropout", "is not 0, which is what is built"
%if drop_attention > 0
%key drop_given : number = 0 from attention_dropout as drop_attention
%end
%key head_given : whole? = default_head from head_dim as head
%require head_given != null or hidden % all_heads == 0, "num_attention_heads", "does not divide the hidden size"
%require all_heads % kv_heads == 0, "num_key_value_heads", "does not divide num_attention_heads"
%let head = head_given == null ? hidden // all_heads : head_given
%let seq = positions < 4096 ? positions : 4096
%if tied
%extra "lm_head.weight"
%end
