-- mg.lua - options of .mg files, and mgc's language server. Neovim 0.8 and newer start one server for all files of a
-- project; 0.7 has vim.lsp.start_client alone, and starts one for each folder of files.
--
--   vim.g.mgc      the path of mgc, if it is not in $PATH
--   vim.g.mgc_lsp  false: no server
--   vim.g.mgc_options  as on a command line: { "--device h100" }

vim.bo.commentstring = '# %s'
vim.bo.comments = ':#'
vim.bo.expandtab = true
vim.bo.shiftwidth = 4
vim.bo.softtabstop = 4

if vim.g.mgc_lsp == false or vim.fn.executable(vim.g.mgc or 'mgc') == 0 then
  return
end

local buffer = vim.api.nvim_get_current_buf()
local config = {
  name = 'mgc',
  cmd = { vim.g.mgc or 'mgc', 'lsp' },
  root_dir = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(buffer), ':p:h'),
  init_options = { options = vim.g.mgc_options or {} },
}

if vim.lsp.start then
  vim.lsp.start(config, { bufnr = buffer })
else
  _G.mgc_clients = _G.mgc_clients or {}
  local id = _G.mgc_clients[config.root_dir]
  if not id or not vim.lsp.get_client_by_id(id) then
    id = vim.lsp.start_client(config)
    _G.mgc_clients[config.root_dir] = id
  end
  if id then
    vim.lsp.buf_attach_client(buffer, id)
  end
end

local function map(keys, action)
  vim.keymap.set('n', keys, action, { buffer = buffer, silent = true })
end
map('K', vim.lsp.buf.hover)
map('gd', vim.lsp.buf.definition)
map('gr', vim.lsp.buf.references)
map('<localleader>r', vim.lsp.buf.rename)
map('<localleader>a', vim.lsp.buf.code_action)
vim.keymap.set('i', '<C-s>', vim.lsp.buf.signature_help, { buffer = buffer, silent = true })
map('<localleader>f', function()
  if vim.lsp.buf.format then
    vim.lsp.buf.format()
  else
    vim.lsp.buf.formatting()
  end
end)
vim.bo.omnifunc = 'v:lua.vim.lsp.omnifunc'

-- Times and memory of blocks, above them; `<localleader>l` runs the one of the line (another layout).
map('<localleader>l', vim.lsp.codelens.run)
vim.api.nvim_create_autocmd({ 'BufEnter', 'InsertLeave', 'CursorHold' }, {
  buffer = buffer,
  callback = function()
    vim.lsp.codelens.refresh()
  end,
})
