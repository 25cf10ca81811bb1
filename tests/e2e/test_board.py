"""mgc board: runs as one page that loads nothing, and as a local server's that answers nobody else. What a browser
makes of it is in test_board_browser.py."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

import mgctest
from test_watch import START, Runs, step


def data_of(html):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)[1])


class Page(Runs):
    def page(self, *runs):
        self.compiles("board", *runs, "-o", "p.html")
        return self.read("p.html").decode()

    def test_has_the_numbers_and_loads_nothing(self):
        events = [{"step": 3, "event": "restart", "time": 1001.5, "rank": 1}, {"step": 5, "event": "alert", "time": 1002.0, "kind": "slow", "text": "rank 1 is slow"}]
        steps = [step(n) for n in range(1, 41)]
        self.run_of("a", START, *steps[:3], events[0], *steps[3:], events[1], {"step": 40, "val_loss": 2.5, "time": 1003.0},
                    {"step": 40, "event": "end", "why": "done", "time": 1004.0})
        self.run_of("b", *steps[:20])
        html = self.page("a", "b/")
        self.assertNotRegex(html.split('<script id="data"')[0] + html.rsplit("</script>", 1)[1], r"https?://|src=|@import|url\((?!#)")
        self.assertNotIn("@NONCE@", html)
        d = data_of(html)
        self.assertFalse(d["lives"])
        a, b = d["runs"]
        self.assertEqual((a["name"], b["name"], a["state"], b["state"]), ("a", "b", "done", "ended"))
        self.assertEqual((a["steps"], a["predicted_ms"], a["ranks"], a["program"], a["alerts"], a["starts"]), (200, 40, 4, "tiny", 1, 2))
        self.assertEqual([e[:1] + e[2:] for e in a["events"]], [[0, "start", "began"], [3, "restart", "rank 1"], [5, "alert", "slow: rank 1 is slow"], [40, "end", "done"]])
        of = {s["name"]: s for s in a["series"]}
        self.assertEqual(of["loss"]["step"], [s["step"] for s in steps])
        for got, want in zip(of["loss"]["mean"], steps, strict=True):
            self.assertAlmostEqual(got, want["loss"], delta=1e-8)
        self.assertEqual((of["val_loss"]["step"], of["val_loss"]["mean"]), ([40], [2.5]))
        self.assertEqual([round(x, 6) for x in of["time"]["mean"][:2]], [0.05, 0.1])  # after the run's first line
        self.assertEqual(len(b["series"][0]["step"]), 20)

    def test_long_runs_keep_means_and_extremes(self):
        with open(self.path("log"), "w", encoding="utf-8") as f:
            for n in range(1, 20001):
                f.write(f'{{"step":{n},"loss":{n % 7 + (1000 if n == 12345 else 0)}}}\n')
        os.mkdir(self.path("run"))
        os.rename(self.path("log"), self.path("run/metrics.jsonl"))
        (s,) = data_of(self.page("run"))["runs"][0]["series"]
        self.assertLessEqual(len(s["step"]), 2048)
        self.assertGreater(len(s["step"]), 1000)
        self.assertEqual((max(s["high"]), min(s["low"])), (12345 % 7 + 1000, 0))
        whole = [n % 7 + (1000 if n == 12345 else 0) for n in range(1, 20001)]
        each = 20000 / len(s["step"])
        self.assertAlmostEqual(sum(s["mean"]) * each / 20000, sum(whole) / 20000, delta=0.02)
        self.assertEqual(s["step"], sorted(s["step"]))

    def test_texts_stay_texts(self):
        name = "<script>alert(1)<!-- \u2028'\""
        self.run_of(name, {**START, "program": "</script><script>alert(2)</script>", "layout": "@DATA@ @NONCE@"}, {"step": 1, "loss": 2, "</script>": 3},
                    {"step": 1, "event": "</script>", "x": "<b>"})
        html = self.page(name)
        self.assertEqual(html.count("</script>"), 2)
        self.assertEqual(html.count("<script"), 2)
        d = data_of(html)["runs"][0]
        self.assertEqual((d["name"], d["program"], d["layout"]), (name, "</script><script>alert(2)</script>", "@DATA@ @NONCE@"))

    def test_hostile_lines(self):
        self.run_of("run", text='{"step":1,"loss":1}\n{"step":2,"loss":NaN}\n{"step":3,"loss":-1e308}\n{"step":4,"loss":1e308}\n\xff\n{"step":5,"lo')
        d = data_of(self.page("run"))["runs"][0]
        self.assertEqual(d["unread"], 2)
        self.assertEqual(d["series"][0]["step"], [1, 3, 4])

    def test_refused(self):
        self.run_of("run", step(1))
        for argv, code in ((["board"], None), (["board", "none"], "MG0650"), (["board", "run", "-o", "no/such/p.html"], "MG0543"), (["board", "run", "-o", "x", "--serve"], None),
                           (["board", "run", "--bind", "127.0.0.1"], None), (["board", "run", "--serve=99999"], "MG0653"), (["board", "run", "--serve=x"], "MG0653"),
                           (["board", "run", "--serve", "--bind", "example.org"], "MG0653"), (["board", *["run"] * 65], "MG0650")):
            r = self.mgc(*argv)
            self.assertIn(r.returncode, (2, 4), argv)
            self.assertIn(code or "the form is", r.err, argv)
        self.assertFalse(os.path.exists(self.path("x")))
        self.assertIn("<!doctype html>", self.compiles("board", "run").out)


class Server(Runs):
    def setUp(self):
        super().setUp()
        self.run_of("run", START, step(1))
        self.process = None

    def serve(self, *argv):
        p = subprocess.Popen([mgctest.MGC, "board", "run", "other", *(argv or ["--serve"])], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (p.kill(), p.wait(), p.stdout.close(), p.stderr.close()))
        line = p.stdout.readline().decode()
        self.host, self.port, self.token = re.fullmatch(r"http://([\d.]+):(\d+)/([0-9a-f]{32})/\n", line).groups()
        self.process = p
        return p

    def ask(self, path, method="GET", headers=None, body=None):
        c = http.client.HTTPConnection(self.host, int(self.port), timeout=30)
        c.putrequest(method, path, skip_host=bool(headers and "Host" in headers))
        for k, v in (headers or {}).items():
            c.putheader(k, v)
        if body is not None:
            c.putheader("Content-Length", str(len(body)))
        c.endheaders(body)
        r = c.getresponse()
        r.text = r.read().decode()
        c.close()
        return r

    def of(self, path):
        return f"/{self.token}/{path}"

    def test_answers_who_knows_the_address(self):
        p = self.serve()
        self.assertEqual(self.host, "127.0.0.1")
        r = self.ask(self.of(""))
        self.assertEqual(r.status, 200)
        policy = r.getheader("Content-Security-Policy")
        (nonce,) = re.findall(r"script-src 'nonce-([0-9a-f]{32})'", policy)
        self.assertIn("default-src 'none'", policy)
        self.assertEqual(r.text.count(f'<script nonce="{nonce}">'), 1)
        self.assertEqual((r.getheader("X-Content-Type-Options"), r.getheader("Referrer-Policy"), r.getheader("Cache-Control")), ("nosniff", "no-referrer", "no-store"))
        self.assertNotIn(nonce, self.ask(self.of("")).text)  # another one each time
        self.assertTrue(data_of(r.text)["lives"])
        self.assertEqual([x["state"] for x in data_of(r.text)["runs"]], ["died", "not begun"])
        self.assertEqual(self.ask(f"/{self.token}").getheader("Location"), self.of(""))
        other = self.token[:-1] + ("0" if self.token[-1] != "0" else "1")
        for path in ("/", "", "//", "/x", f"/{other}/", f"/{self.token[:-1]}/", f"/{self.token}x/", f"/{self.token.upper()}/" if self.token.upper() != self.token else "/y",
                     f"/?token={self.token}", f"//{self.token}/", f"/../{self.token}/", "/data.json", "/%00"):
            self.assertEqual(self.ask(path or "/").status, 403, path)
        for path in ("metrics.jsonl", "run/metrics.jsonl", "../m.mg", "../../etc/passwd", "%2e%2e/run/metrics.jsonl", "/etc/passwd", "data.json/", "data.jsonx", "index.html", "%00", "data.json%00"):
            self.assertIn(self.ask(self.of(path)).status, (403, 404), path)
        for method in "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW":
            r = self.ask(self.of(""), method, body=b"x" * 100 if method in ("POST", "PUT") else None)
            self.assertEqual((r.status, r.getheader("Allow")), (405, "GET, HEAD"), method)
        r = self.ask(self.of(""), "HEAD")
        self.assertEqual((r.status, r.text), (200, ""))
        for host in "evil.example", f"evil.example:{self.port}", "127.0.0.1", "127.0.0.1:1", f"localhost.evil.example:{self.port}", "", f"127.0.0.1:{self.port}x:{self.port}":
            self.assertIn(self.ask(self.of(""), headers={"Host": host}).status, (400, 403), host)
        self.assertEqual(self.ask(self.of(""), headers={"Host": f"localhost:{self.port}"}).status, 200)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(20), 0)
        self.assertEqual(p.stderr.read(), b"")

    def test_follows_the_runs(self):
        self.serve()
        d = json.loads(self.ask(self.of("data.json")).text)
        same = self.ask(self.of(f"data.json?since={d['version']}"))
        self.assertEqual((same.status, same.text), (204, ""))
        self.run_of("other", START, step(1), step(2), text='{"step":3,"loss":')
        new = json.loads(self.ask(self.of(f"data.json?since={d['version']}")).text)
        self.assertEqual((new["runs"][1]["step"], new["runs"][1]["unread"]), (2, 0))
        with open(self.path("other/metrics.jsonl"), "a", encoding="utf-8") as f:
            f.write('7}\n')
        new = json.loads(self.ask(self.of(f"data.json?since={new['version']}")).text)
        loss = next(s for s in new["runs"][1]["series"] if s["name"] == "loss")
        self.assertEqual((loss["step"], loss["mean"][2]), ([1, 2, 3], 7))
        # As by a resumed run: the log is another file, cut back.
        self.write("other/new", json.dumps(START) + "\n" + json.dumps(step(1)) + "\n")
        os.rename(self.path("other/new"), self.path("other/metrics.jsonl"))
        new = json.loads(self.ask(self.of(f"data.json?since={new['version']}")).text)
        self.assertEqual(new["runs"][1]["step"], 1)
        self.assertEqual(next(s for s in new["runs"][1]["series"] if s["name"] == "loss")["step"], [1])
        os.rename(self.path("other"), self.path("gone"))
        new = json.loads(self.ask(self.of("data.json?since=nonsense")).text)
        self.assertEqual(new["runs"][1]["state"], "not begun")
        self.assertEqual(self.ask(self.of("data.json?since=" + "9" * 5000)).status, 200)

    def test_bad_clients(self):
        """Bytes that are no HTTP, long headers, connections that are left open: others are answered."""
        p = self.serve()
        held = [socket.create_connection((self.host, int(self.port))) for _ in range(10)]
        for i, s in enumerate(held):
            s.send(b"GET /" if i % 2 else b"")
        for text in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"x" * 200000, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100000 + b"\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            with socket.create_connection((self.host, int(self.port))) as s:
                s.settimeout(30)
                try:
                    s.sendall(text)
                    s.shutdown(socket.SHUT_WR)
                    self.assertNotIn(b"200 OK", s.recv(4096))
                except OSError:
                    pass  # it closed the connection
        self.assertEqual(self.ask(self.of("")).status, 200)
        for s in held:
            s.close()
        self.assertIsNone(p.poll())

    def test_port_and_address(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
            s.listen()
            r = self.mgc("board", "run", f"--serve={port}")
            self.assertEqual((r.returncode, "MG0653" in r.err), (4, True))
        self.serve(f"--serve={port}", "--bind", "127.0.0.2")
        self.assertEqual((self.host, self.port), ("127.0.0.2", str(port)))
        self.assertEqual(self.ask(self.of("")).status, 200)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=5)

    def test_takes_no_time_while_nobody_asks(self):
        p = self.serve()
        time.sleep(0.5)
        def ticks():
            with open(f"/proc/{p.pid}/stat", encoding="utf-8") as f:
                return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
        before = ticks()
        time.sleep(3)
        self.assertLessEqual(ticks() - before, 6)  # of 300


if __name__ == "__main__":
    mgctest.main()
