;;; mg-mode.el --- mgc's language: .mg files -*- lexical-binding: t -*-

;; Package-Requires: ((emacs "27.1"))
;; Eglot (in Emacs from 29 on, before that a package) starts the language server: M-x eglot in a .mg file.

;;; Code:

(require 'prog-mode)

(defgroup mg nil "Models for mgc." :group 'languages)

(defcustom mg-program "mgc" "The path of mgc." :type 'string :group 'mg)

(defcustom mg-options nil "Options of every compile, as on a command line: (\"--device h100\")."
  :type '(repeat string) :group 'mg)

;; words of the language (scripts/editors writes them)
(defconst mg--keywords '("dim" "const" "block" "model" "train" "layout" "config" "param" "metric"
    "repeat" "scan" "return" "as" "over" "along" "where" "to"))
(defconst mg--functions '("stop" "abs" "sign" "exp" "log" "sqrt" "rsqrt" "tanh" "erf" "sigmoid"
    "sin" "cos" "pow" "max" "min" "ceil" "rounded" "sum" "mean" "select" "index" "valid" "pick"
    "last" "rotate" "join" "dropout" "uniform" "step" "expand" "next" "top" "dispatch" "combine"
    "grouped" "relu" "silu" "gelu" "gelu_tanh" "softmax" "rmsnorm" "layernorm" "rope" "rope_llama3"
    "document_start" "softmax_beside" "attention" "cross_entropy" "scores_of" "in_top" "imbalance"
    "normal" "decayed" "regularized" "average" "bias_correction" "adam_step" "kept" "quintic"
    "orthogonal"))
(defconst mg--settings '("optimizer" "lr" "clip" "average" "precision" "update" "rollout" "decay"
    "frozen" "rate" "device" "mesh" "microbatch" "recompute" "chunk" "assert" "pad" "offload"))
(defconst mg--values '("adamw" "sgd" "adam" "lion" "adafactor" "muon" "constant" "linear" "cosine"
    "wsd" "inverse_sqrt" "warmup" "warmup_cosine" "cpu" "cpus" "a100" "h100" "h200" "b200" "gb200"
    "gh200" "h100_nvl" "l40s" "rtx3090" "rtx4090" "rtx5060ti" "rtx5090" "rtxpro6000" "f32" "f64"
    "tf32" "bf16" "f16" "fp8" "lora" "dora" "whole" "1f1b" "gpipe" "interleaved" "zb-h1" "auto"
    "none" "all" "keep" "peak" "exposed_comm" "step" "host" "disk" "together" "as_ready" "state"
    "grads" "params" "masters" "parameters" "gradients" "kept"))
;; end of words

(defvar mg-mode-syntax-table
  (let ((table (make-syntax-table)))
    (modify-syntax-entry ?# "<" table)
    (modify-syntax-entry ?\n ">" table)
    (modify-syntax-entry ?\" "\"" table)
    (modify-syntax-entry ?_ "w" table)
    table)
  "Comments, strings and names.")

(defconst mg--font-lock
  `((,(regexp-opt mg--keywords 'words) . font-lock-keyword-face)
    ("^\\s-*\\(optimizer\\|setting\\|state\\|rest\\|adapter\\)\\s-+[[:alnum:]_-]" 1 font-lock-keyword-face)
    ("\\_<\\(?:block\\|model\\|layout\\|train\\|optimizer\\)\\s-+\\([A-Za-z_][A-Za-z0-9_]*\\)"
     1 font-lock-function-name-face)
    (,(concat "^\\s-*" (regexp-opt mg--settings 'words) "\\s-+[^=:, \t]") 1 font-lock-variable-name-face)
    (,(concat (regexp-opt mg--functions 'words) "\\s-*(") 1 font-lock-builtin-face)
    (,(regexp-opt mg--values 'words) . font-lock-constant-face)
    ("->" . font-lock-type-face))
  "What is highlighted.")

(defun mg-indent-line ()
  "Indent by the braces that are open before the line."
  (interactive)
  (let ((depth (save-excursion
                 (back-to-indentation)
                 (- (car (syntax-ppss)) (if (looking-at "[])}]") 1 0)))))
    (save-excursion (indent-line-to (max 0 (* 4 depth))))
    (when (< (current-column) (current-indentation))
      (back-to-indentation))))

;;;###autoload
(define-derived-mode mg-mode prog-mode "mg"
  "Models for mgc."
  (setq-local comment-start "# ")
  (setq-local comment-start-skip "#+\\s-*")
  (setq-local indent-tabs-mode nil)
  (setq-local indent-line-function #'mg-indent-line)
  (setq-local font-lock-defaults '(mg--font-lock)))

;;;###autoload
(add-to-list 'auto-mode-alist '("\\.mg\\'" . mg-mode))

(defun mg--server (&rest _)
  "The command of the language server."
  (append (list mg-program "lsp") (apply #'append (mapcar #'split-string mg-options))))

(defvar eglot-server-programs)
(with-eval-after-load 'eglot
  (add-to-list 'eglot-server-programs '(mg-mode . mg--server)))

(provide 'mg-mode)
;;; mg-mode.el ends here
