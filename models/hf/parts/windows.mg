%# Layers of full and of sliding attention. Before it: window (null where none slides) and layer_types.
%require len(layer_types) == layers, "layer_types", "does not say of each layer what it is"
%require count(layer_types, "sliding_attention") + count(layer_types, "full_attention") == layers, "layer_types", "has other layers than 'full_attention' and 'sliding_attention'"
%require window != null or count(layer_types, "sliding_attention") == 0, "sliding_window", "is not there, though layers slide"
%let sliding = window != null and window < positions ? where(layer_types, "sliding_attention") : "0"
%if sliding != "0"
%key near : whole from sliding_window as near
%end
%let per_layer = sliding != "0" and sliding != "1"
%let takes = per_layer ? ", window =" : "", window_name = per_layer ? "window" : sliding == "1" ? "near" : ""
%let given = per_layer ? ", window = select(" + sliding + ", near, seq)" : "", at = per_layer ? " at l" : ""
%let near_const = sliding == "0" ? "" : ", near = " + near
