"""A client of mgc lsp, as an editor is one, for tests and for measurement. The standard library only."""

import json
import os
import select
import subprocess
import time

PATIENCE = 60  # seconds for an answer, on a machine that does much else


def uri_of(path):
    return "file://" + os.path.abspath(path)


def utf16(text):
    """Code units of UTF-16."""
    return len(text.encode("utf-16-le")) // 2


def place(text, at):
    """The protocol's place of an index of a str whose lines end with \\n."""
    line = text.count("\n", 0, at)
    return {"line": line, "character": utf16(text[text.rfind("\n", 0, at) + 1:at])}


def index(text, where):
    """The way back."""
    lines = text.split("\n")
    at = sum(len(one) + 1 for one in lines[:where["line"]])
    units = where["character"]
    for c in lines[where["line"]] if where["line"] < len(lines) else "":
        if units <= 0:
            break
        units -= utf16(c)
        at += 1
    return at


def edited(text, edits):
    """The text with TextEdits."""
    spans = sorted(((index(text, e["range"]["start"]), index(text, e["range"]["end"]), e["newText"]) for e in edits),
                   reverse=True)
    for begin, end, new in spans:
        text = text[:begin] + new + text[end:]
    return text


class Editor:
    """A server and what it has said. `with Editor(mgc) as e:`"""

    def __init__(self, mgc, args=(), capabilities=None, initialize=True, options=None):
        self.process = subprocess.Popen([mgc, "lsp", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.buffer, self.ids, self.messages = b"", 0, []
        self.versions, self.texts = {}, {}
        if initialize:
            self.capabilities = self.ask("initialize", {
                "processId": os.getpid(), "rootUri": None, "initializationOptions": {"options": options or []},
                "capabilities": capabilities or {
                    "workspace": {"codeLens": {"refreshSupport": True}},
                    "textDocument": {"codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}},
                                     "documentSymbol": {"hierarchicalDocumentSymbolSupport": True}}}})
            self.tell("initialized", {})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.stderr.close()

    # ---- messages

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        body = json.dumps(message).encode()
        self.raw(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def receive(self, patience=PATIENCE):
        """The next message of the server; None: nothing has come."""
        until = time.monotonic() + patience
        while True:
            head, gap, rest = self.buffer.partition(b"\r\n\r\n")
            if gap:
                size = int(head.split(b":")[1])
                if len(rest) >= size:
                    self.buffer = rest[size:]
                    message = json.loads(rest[:size])
                    self.messages.append(message)
                    return message
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self.buffer += data

    def request(self, method, params=None):
        self.ids += 1
        self.send({"jsonrpc": "2.0", "id": self.ids, "method": method, **({"params": params} if params is not None else {})})
        return self.ids

    def answer(self, number, patience=PATIENCE):
        """The whole message that answers a request."""
        until = time.monotonic() + patience
        while True:
            message = self.receive(until - time.monotonic())
            if message is None:
                raise AssertionError(f"no answer to request {number}; the server: {self.process.poll()}")
            if message.get("id") == number and "method" not in message:
                return message

    def ask(self, method, params=None):
        message = self.answer(self.request(method, params))
        if "error" in message:
            raise RuntimeError(message["error"]["message"])
        return message["result"]

    def tell(self, method, params):
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    # ---- documents

    def open(self, path, text):
        self.versions[path], self.texts[path] = 1, text
        self.tell("textDocument/didOpen", {"textDocument": {"uri": uri_of(path), "languageId": "mg", "version": 1,
                                                            "text": text}})

    def change(self, path, begin, end, new):
        """One edit, by a range."""
        old = self.texts[path]
        self.versions[path] += 1
        self.tell("textDocument/didChange", {
            "textDocument": {"uri": uri_of(path), "version": self.versions[path]},
            "contentChanges": [{"range": {"start": place(old, begin), "end": place(old, end)}, "text": new}]})
        self.texts[path] = old[:begin] + new + old[end:]

    def replace(self, path, text):
        self.versions[path] += 1
        self.tell("textDocument/didChange", {"textDocument": {"uri": uri_of(path), "version": self.versions[path]},
                                             "contentChanges": [{"text": text}]})
        self.texts[path] = text

    def close(self, path):
        self.tell("textDocument/didClose", {"textDocument": {"uri": uri_of(path)}})

    def at(self, path, found, of=0, **more):
        """Parameters of a request about the nth place of a text."""
        text, begin = self.texts[path], -1
        for _ in range(of + 1):
            begin = text.index(found, begin + 1)
        return {"textDocument": {"uri": uri_of(path)}, "position": place(text, begin), **more}

    def diagnostics(self, path, patience=PATIENCE, times=1):
        """What is published of the text as it is, for the nth time."""
        until = time.monotonic() + patience
        while True:
            message = self.receive(until - time.monotonic())
            if message is None:
                raise AssertionError(f"no diagnostics; the server: {self.process.poll()}")
            params = message.get("params", {})
            if (message.get("method") == "textDocument/publishDiagnostics" and params["uri"] == uri_of(path)
                    and params.get("version") == self.versions[path]):
                times -= 1
                if times == 0:
                    return params["diagnostics"]
