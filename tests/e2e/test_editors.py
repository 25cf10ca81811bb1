#!/usr/bin/env python3
"""The files of editors/: Neovim, without a screen, opens a file with an error, shows it, hovers, jumps, renames and
fixes; Emacs compiles its mode; the grammar of TextMate is one, and finds what the language's own tokens are."""

import json
import os
import re
import shutil
import subprocess
import unittest

from mgctest import MGC, MODELS, SOURCE, TINY, Case

EDITORS = os.path.join(SOURCE, "editors")

SESSION = r"""
local said = {}
local function at(pattern)
  vim.fn.cursor(1, 1)
  vim.fn.search(pattern, 'c')
end
local function wait(what, done)
  if not vim.wait(60000, done, 20) then
    error('waited in vain for ' .. what)
  end
end
local ok, wrong = pcall(function()
  said.filetype = vim.bo.filetype
  said.syntax = vim.b.current_syntax
  said.comment = vim.bo.commentstring
  wait('a client', function() return next(vim.lsp.buf_get_clients(0)) ~= nil end)
  wait('a diagnostic', function() return #vim.diagnostic.get(0) > 0 end)
  wait('a proposal', function() return vim.diagnostic.get(0)[1].message:find('help:') ~= nil end)
  said.diagnostic = vim.diagnostic.get(0)[1]
  -- the fix, as a person would choose it
  vim.ui.select = function(items, _, choose) choose(items[1], 1) end
  at('hiden')
  vim.lsp.buf.code_action()
  wait('the fix', function() return vim.fn.search('hiden', 'n') == 0 end)
  wait('no diagnostic', function() return #vim.diagnostic.get(0) == 0 end)
  at('x @ head')
  local answers = vim.lsp.buf_request_sync(0, 'textDocument/hover', vim.lsp.util.make_position_params(), 60000)
  for _, answer in pairs(answers) do said.hover = answer.result.contents.value end
  at('next(tokens')
  local helps = vim.lsp.buf_request_sync(0, 'textDocument/signatureHelp', vim.lsp.util.make_position_params(), 60000)
  for _, answer in pairs(helps) do said.signature = answer.result and answer.result.signatures[1].label end
  at('head over')
  vim.lsp.buf.definition()
  wait('a jump', function() return vim.api.nvim_win_get_cursor(0)[1] == 5 end)
  vim.lsp.buf.rename('unembed')
  wait('a rename', function() return vim.fn.search('@ unembed over', 'n') ~= 0 end)
  said.text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n') .. '\n'
  at('^train')
  said.highlighted = {}
  for _, word in ipairs({'model', 'param', 'cross_entropy', 'adamw', 'clip', 'seq = 8', '\\.\\zs0'}) do
    at(word)
    table.insert(said.highlighted, vim.fn.synIDattr(vim.fn.synID(vim.fn.line('.'), vim.fn.col('.'), 1), 'name'))
  end
end)
said.wrong = not ok and tostring(wrong) or nil
local f = io.open('said.json', 'w')
f:write(vim.fn.json_encode(said))
f:close()
vim.cmd('qa!')
"""


class Editors(Case):
    @unittest.skipUnless(shutil.which("nvim"), "nvim is not there (scripts/setup --editors)")
    def test_neovim(self):
        wrong = TINY.replace("x @ head over hidden", "x @ head over hiden")
        self.write("tiny.mg", wrong)
        self.write("session.lua", SESSION)
        r = self.run_program("nvim", "--headless", "--clean", "-n", "--cmd", f"set rtp^={EDITORS}/nvim",
                             "--cmd", f"let g:mgc = '{MGC}'", "--cmd", "filetype plugin on", "--cmd", "syntax on",
                             "tiny.mg", "-c", "luafile session.lua", timeout=300,
                             env={"HOME": self.dir, "XDG_STATE_HOME": self.dir, "XDG_CACHE_HOME": self.dir})
        self.assertTrue(os.path.exists(self.path("said.json")), r.stderr.decode())
        said = json.loads(self.read("said.json"))
        self.assertNotIn("wrong", said)
        self.assertEqual((said["filetype"], said["syntax"], said["comment"]), ("mg", "mg", "# %s"))
        self.assertEqual(said["diagnostic"]["lnum"], wrong[:wrong.index("hiden")].count("\n"))
        self.assertIn("did you mean 'hidden'?", said["diagnostic"]["message"])
        self.assertIn("f32[batch = 4, seq = 8, hidden = 16]", said["hover"])
        self.assertTrue(said["signature"].startswith("cross_entropy("), said)
        self.assertEqual(said["text"], re.sub(r"(?<!\")\bhead\b", "unembed", TINY))
        self.assertEqual(said["highlighted"], ["mgKeyword", "mgKeyword", "mgFunction", "mgValue", "mgSetting", "", "mgNumber"])

    @unittest.skipUnless(shutil.which("emacs"), "emacs is not there")
    def test_emacs(self):
        shutil.copy(os.path.join(EDITORS, "emacs/mg-mode.el"), self.dir)
        self.write("model.mg", TINY)
        look = ("(progn (find-file \"model.mg\") (font-lock-ensure) (search-forward \"model\") (princ (list major-mode "
                "(get-text-property (match-beginning 0) 'face))) (indent-region (point-min) (point-max)) (write-file \"indented.mg\"))")
        r = self.run_program("emacs", "-Q", "--batch", "--eval", "(setq byte-compile-error-on-warn t)", "-f", "batch-byte-compile",
                             "mg-mode.el")
        self.assertEqual(r.returncode, 0, r.stderr.decode())
        r = self.run_program("emacs", "-Q", "--batch", "-L", self.dir, "-l", "mg-mode", "--eval", look)
        self.assertEqual(r.stdout.decode(), "(mg-mode font-lock-keyword-face)", r.stderr.decode())
        self.assertEqual(self.read("indented.mg").decode(), TINY)

    def rules(self):
        with open(os.path.join(EDITORS, "vscode/syntaxes/mg.tmLanguage.json"), encoding="utf-8") as f:
            grammar = json.load(f)
        found = []

        def walk(patterns):
            for p in patterns:
                found.append(p)
                for key in ("match", "begin", "end"):
                    if key in p:
                        re.compile(p[key], re.M)
                walk(p.get("patterns", []))
        walk(grammar["patterns"])
        walk(grammar["repository"]["all"]["patterns"])
        return found

    def test_grammar_of_textmate(self):
        rules = {p["name"]: p["match"] for p in self.rules() if "match" in p and "name" in p}
        keyword, function = re.compile(rules["keyword.control.mg"]), re.compile(rules["support.function.mg"])
        numbers = re.compile(rules["constant.numeric.mg"])
        reserved = "dim const block model train config layout param metric repeat scan return as over along where to".split()
        with open(os.path.join(MODELS, "llama_mini.mg"), encoding="utf-8") as f:
            text = re.sub(r'#.*|"[^"\n]*"', "", f.read())
        names = {m.group() for m in re.finditer(r"(?<![\w.])[A-Za-z_]\w*", text)}
        self.assertEqual({m.group() for m in keyword.finditer(text)}, names & set(reserved))
        self.assertEqual({m.group() for m in function.finditer(text)},
                         {"rope", "attention", "rmsnorm", "silu", "sqrt", "next", "cross_entropy", "normal"} | (names & {"index", "exp"}))
        self.assertEqual([m.group() for m in numbers.finditer("a2 = 1e-5 + 10% x 76 GB, 0.5 2d")], ["1e-5", "10%", "76 GB", "0.5"])
        self.assertIsNone(keyword.search("dims redim model_x"))

    def test_files_of_vscode(self):
        folder = os.path.join(EDITORS, "vscode")
        with open(os.path.join(folder, "package.json"), encoding="utf-8") as f:
            package = json.load(f)
        for path in (package["main"], *(x["configuration"] for x in package["contributes"]["languages"]),
                     *(x["path"] for x in package["contributes"]["grammars"])):
            self.assertTrue(os.path.exists(os.path.join(folder, path)), path)
        with open(os.path.join(folder, "language-configuration.json"), encoding="utf-8") as f:
            rules = json.load(f)["indentationRules"]
        self.assertTrue(re.search(rules["increaseIndentPattern"], "model m(x[a]) {"))
        self.assertFalse(re.search(rules["increaseIndentPattern"], "# {"))
        if shutil.which("node"):
            r = subprocess.run(["node", "--check", os.path.join(folder, "extension.js")], capture_output=True, text=True, check=False)
            self.assertEqual(r.returncode, 0, r.stderr)


if __name__ == "__main__":
    unittest.main()
