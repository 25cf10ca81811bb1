%# Keys that every config.json may have and that do not change the mathematics of training from given weights.
%ignore architectures, transformers_version, auto_map, _name_or_path, _commit_hash, use_cache, return_dict
%ignore bos_token_id, eos_token_id, pad_token_id, sep_token_id, cls_token_id, unk_token_id, decoder_start_token_id, tokenizer_class
%ignore output_attentions, output_hidden_states, torchscript, gradient_checkpointing, chunk_size_feed_forward, pretraining_tp
%ignore id2label, label2id, num_labels, problem_type, finetuning_task, task_specific_params, tf_legacy_loss, use_bfloat16
%ignore _attn_implementation, attn_implementation, _attn_implementation_autoset, _experts_implementation, experts_implementation
%ignore bad_words_ids, max_length, min_length, do_sample, temperature, top_k, top_p, typical_p, repetition_penalty, length_penalty
%ignore early_stopping, num_beams, num_beam_groups, diversity_penalty, no_repeat_ngram_size, encoder_no_repeat_ngram_size
%ignore num_return_sequences, output_scores, return_dict_in_generate, forced_bos_token_id, forced_eos_token_id, remove_invalid_values
%ignore exponential_decay_length_penalty, suppress_tokens, begin_suppress_tokens, prefix, unsloth_version, unsloth_fixed
%ignore is_decoder, tie_encoder_decoder, cross_attention_hidden_size
%key any_of_torch_dtype : word? = null from torch_dtype as "float32"
%key any_of_dtype : word? = null from dtype as "float32"
%key any_of_encoder : flag = false only false from is_encoder_decoder
%key any_of_cross : flag = false only false from add_cross_attention
%key any_of_pruned : any = {} only {}, [] from pruned_heads
%extra "*.rotary_emb.inv_freq"
%# What the other parts are told, where a family says nothing else. Of keys: what its class in transformers has where a key is missing.
%let default_hidden = 4096, default_layers = 32, default_heads = 32, default_kv_heads = 0, default_head = null, default_tied = false, default_std = 0.02
%let default_theta = 10000, default_partial = null, default_original = null, default_balancing = 0.001
%# Of blocks.
%let qkv_bias = false, out_bias = false, mlp_bias = false, out_name = "o_proj", qk_norm = "", sinks = false, shared = false
%let ones = 1, plus = "", layer_norm = false, norm_bias = false, neighbours = false, rope_ = "", _rope = "", roped = ""
%let takes = "", window_name = "", cap_name = "", scale_expr = "", near_const = "", at = "", given = ""
%let drops_attention = true, act_key = "hidden_act", balanced = false, balancing_const = ""
%# Of documents that are packed into windows (`packed`): what a model takes, what positions, attention and the loss are given.
%let weights = packed ? ", weight[batch, seq]" : "", weighed = packed ? ", weight" : "", starts = packed ? ", start" : ""
%let position = packed ? "(index(pos) - start)" : "index(pos)"
%# Of the layout.
%let over_tp = "kv_heads, ffn, vocab", experts_split = false, splits_seq = true, frozen = ""
%let together = false, rollout = "", counted = objective == "" ? "sequences" : rows_are
%# What a family's model is: a program that learns the next token, or a block of the network that an objective (objectives/*.mg) calls, which
%# returns logits or, where that asks for it, what its head reads. `also`: the dims that rows have beside `batch`.
%let kind = objective == "" ? "model" : "block", input = objective == "" ? "tokens[batch, seq] : token(vocab)" : "tokens : token(vocab)"
%let loss_ = objective == "" ? "loss = cross_entropy(" : "return ", _loss = objective == "" ? ", next(tokens)" + weighed + ")" : ""
%let returns_hidden = objective == "" ? false : headless, also = objective == "" ? "" : rows_have, can_be_headless = false
