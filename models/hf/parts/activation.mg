%# The function between the products of an MLP, by its name in transformers: $act is what the language calls it. Before it: act_word.
%let act = {"silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "gelu_accurate": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_python_tanh": "gelu_tanh", "relu": "relu", "relu2": "relu2", "relu6": "relu6", "quick_gelu": "quick_gelu", "tanh": "tanh", "sigmoid": "sigmoid", "mish": "mish", "leaky_relu": "leaky_relu", "hardswish": "hardswish", "linear": ""}[act_word]
%require act != null, act_key, "is a function that is not built"
%if act == "relu2"
block relu2(x) {
    return relu(x) * relu(x)
}

%elif act == "relu6"
block relu6(x) {
    return min(relu(x), 6)
}

%elif act == "quick_gelu"
block quick_gelu(x) {
    return x * sigmoid(1.702 * x)
}

%elif act == "mish"
block mish(x) {
    return x * tanh(log(1 + exp(-abs(x))) + max(x, 0))
}

%elif act == "leaky_relu"
block leaky_relu(x) {
    return select(x <= 0, 0.01 * x, x)
}

%elif act == "hardswish"
block hardswish(x) {
    return x * max(0, min(1, x / 6 + 0.5))
}

%end
