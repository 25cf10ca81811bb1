// extension.js - starts `mgc lsp` for .mg files.
const { workspace } = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');

let client;

function activate() {
  const settings = workspace.getConfiguration('mgc');
  client = new LanguageClient(
    'mgc',
    'mgc',
    { command: settings.get('path') || 'mgc', args: ['lsp'] },
    {
      documentSelector: [{ language: 'mg' }],
      initializationOptions: { options: settings.get('options') || [] },
      synchronize: { configurationSection: 'mgc' },
    },
  );
  return client.start();
}

function deactivate() {
  return client && client.stop();
}

module.exports = { activate, deactivate };
