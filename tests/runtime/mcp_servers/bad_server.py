"""A server that speaks the protocol by hand and misbehaves in the way that its argument names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

MODE = sys.argv[1]
HERE = sys.argv[2] if len(sys.argv) > 2 else "."


def send(value: Any) -> None:
    """Send one message."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def answer(request: Any, result: Any) -> None:
    """Answer a request."""
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(words: str) -> Any:
    """The result of a call."""
    return {"content": [{"type": "text", "text": words}]}


def note(words: str) -> None:
    """Append a line to the log of the test."""
    with open(os.path.join(HERE, "log"), "a") as file:
        file.write(words + "\n")


def start_child() -> None:
    """Start a child that leaves the process group and keeps the pipes."""
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    note(f"child {child.pid}")


def flood() -> None:
    """Send notifications without an end."""
    while True:
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 100}})


def misbehave(request: Any) -> None:
    """Answer a call in the way of the mode; the tool ``fine`` is answered as it should be."""
    if request["params"]["name"] == "fine":
        return answer(request, text("fine"))
    if MODE == "exit":
        sys.exit(0)
    if MODE == "exit-3":
        sys.stderr.write("out of cheese\n")
        sys.exit(3)
    if MODE == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if MODE == "close-stdout":
        os.close(1)
        time.sleep(300)
    if MODE == "half":
        sys.stdout.write('{"jsonrpc": "2.0", "id": ')
        sys.stdout.flush()
    if MODE == "other-id":
        send({"jsonrpc": "2.0", "id": 999_999, "result": text("wrong")})
        send({"jsonrpc": "2.0", "id": "toolu", "result": text("wrong")})
    if MODE == "late":
        threading.Timer(0.6, lambda: answer(request, text("late"))).start()
    if MODE == "flood":
        threading.Thread(target=flood, daemon=True).start()
    if MODE == "nonsense":
        for _ in range(2_000):
            sys.stdout.write("this is no message\n")
        sys.stdout.flush()
    if MODE == "one-line":
        while True:
            sys.stdout.write("x" * 1_000_000)
    if MODE == "wrong-shape":
        answer(request, {"content": "no list", "isError": "maybe"})
    if MODE == "surrogate":
        line = '{"jsonrpc": "2.0", "id": %s, "result": {"content": [{"type": "text", "text": "a\\ud83d!"}]}}\n'
        sys.stdout.write(line % json.dumps(request["id"]))
        sys.stdout.flush()
    if MODE == "deaf":
        time.sleep(300)
    if MODE == "slow":
        seconds = request["params"]["arguments"]["seconds"]
        threading.Timer(seconds, lambda: answer(request, text("waited"))).start()
    return None


TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("bad", "fine")]


def main() -> None:
    """Serve."""
    note(f"start {os.getpid()}")
    if MODE in ("child", "stubborn"):
        start_child()
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "never":
        time.sleep(300)
    if MODE == "garbage":
        sys.stdout.write("\x00\xff no protocol here\n" * 5)
        sys.stdout.flush()
        sys.exit(1)
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if "id" not in request:
            continue
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            server = {"name": "bad", "version": "1"}
            answer(request, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server})
        elif method == "tools/list":
            if MODE == "deaf" and os.path.exists(os.path.join(HERE, "called")):
                continue
            endless = {"nextCursor": "again"} if MODE == "endless-list" else {}
            answer(request, {"tools": TOOLS, **endless})
        elif method == "tools/call":
            misbehave(request)
        else:
            send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no such method"}})
    note("end of input")
    if MODE == "stubborn":
        time.sleep(300)


main()
