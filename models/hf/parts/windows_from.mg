%# Windows as Qwen's: from a layer on, if at all.
%key use_window : flag = false from use_sliding_window
%key window_given : whole? = 4096 from sliding_window
%key from_layer : count = 28 from max_window_layers
%let window = use_window ? window_given : null
%key layer_types : list = [window != null and l >= from_layer ? "sliding_attention" : "full_attention" for l < layers]
%include "parts/windows.mg"
