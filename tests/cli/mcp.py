#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`espalier mcp` from outside, as raw JSON-RPC: versions, tools, answers that equal those of the command line, each error code, hostile lines,
and 2,000 mutated messages.

usage: mcp.py BINARY SOURCE_DIR
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

BINARY, SOURCE = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
EXAMPLE = "examples/llama3-8b-on-8xh100.yaml"
LARGE = "examples/llama3.1-405b-on-16384xh100.yaml"
SCRIPT, CLUSTER = "examples/improve/llama3-8b-megatron.sh", "examples/clusters/1x8-h100.yaml"
TIMING = re.compile(r',"timing":\{(?:[^{}]|\{[^{}]*\})*\}')
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
MUTATIONS = 2000
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def message(method, params=None, number=1):
    out = {"jsonrpc": "2.0", "id": number, "method": method}
    return json.dumps(out if params is None else {**out, "params": params})


class Server:
    """A server that waits for lines."""

    def __init__(self, version="2025-11-25", **environment):
        self.process = subprocess.Popen([BINARY, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=SOURCE,
                                        env={**os.environ, **environment})
        if version:
            self.opening = self.ask(message("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}))
            self.send('{"jsonrpc": "2.0", "method": "notifications/initialized"}')

    def send(self, line):
        self.process.stdin.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
        self.process.stdin.flush()

    def line(self):
        return self.process.stdout.readline().decode()

    def ask(self, line):
        self.send(line)
        return json.loads(self.line())

    def call(self, tool, **arguments):
        """The result of a tool, and the line that carries it."""
        self.send(message("tools/call", {"name": tool, "arguments": arguments}))
        line = self.line()
        return json.loads(line)["result"], line

    def end(self):
        """Closes the input: the rest of the output."""
        rest, err = self.process.communicate(timeout=300)
        expect(self.process.returncode == 0, f"exit {self.process.returncode} at the end of input: {err.decode()[-300:]}")
        return rest.decode()


def command(*words, text=None):
    return subprocess.run([BINARY, *map(str, words), "--json"], input=text, capture_output=True, text=True, timeout=300, cwd=SOURCE, check=False)


def one_line(text):
    """A document without the white space between its tokens and without the time that the search took."""
    return TIMING.sub("", re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda m: m.group(1) or "", text))


def expect_equal(what, answer, ran):
    result, line = answer
    expect(not result["isError"] and result["content"][0]["text"], f"{what}: {result['content'][-1:]}")
    expect(f'"structuredContent":{one_line(ran.stdout)},' in TIMING.sub("", line), f"{what}: not the bytes of the command line")
    expect(result["_meta"]["espalier/exit_code"] == ran.returncode, f"{what}: exit code {result['_meta']}, command line {ran.returncode}")


# ---- versions and tools --------------------------------------------------------------------------------------------


def versions():
    for asked, agreed in (("2025-11-25", "2025-11-25"), ("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-03-26"), ("2024-11-05", "2024-11-05"),
                          ("2026-07-28", "2025-11-25"), ("1999-01-01", "2025-11-25")):
        server = Server(asked)
        opening = server.opening["result"]
        expect(opening["protocolVersion"] == agreed, f"asked for {asked}: {opening['protocolVersion']}")
        expect(opening["capabilities"] == {"tools": {}} and opening["serverInfo"]["name"] == "espalier", f"opening: {opening}")
        expect(server.end() == "", "nothing else on stdout")
    server = Server(None)
    found = server.ask(message("server/discover", {"_meta": META}))["result"]
    expect(found["supportedVersions"][0] == "2026-07-28" and found["resultType"] == "complete", f"discover: {found}")
    listed = server.ask(message("tools/list", {"_meta": META}))["result"]
    expect(listed["ttlMs"] == 0 and listed["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "espalier", "members of 2026-07-28")
    server.end()


def tools_are_described():
    server = Server()
    tools = server.ask(message("tools/list"))["result"]["tools"]
    expect([t["name"] for t in tools] == ["plan", "estimate", "improve", "check", "explain", "inspect"], f"tools: {[t['name'] for t in tools]}")
    for tool in tools:
        schema = tool["inputSchema"]
        expect(schema["type"] == "object" and schema["additionalProperties"] is False, f"{tool['name']}: an open schema")
        expect(not {"oneOf", "anyOf", "allOf"} & set(schema), f"{tool['name']}: language models reject alternatives at the top of a schema")
        expect(all(p.get("description") for p in schema["properties"].values()), f"{tool['name']}: an argument without description")
        expect(set(schema.get("required", [])) <= set(schema["properties"]), f"{tool['name']}: required")
    expect("execution only" in tools[0]["description"].lower() and "changes training" in tools[0]["description"].lower(), "plan labels its knobs")
    expect(len(json.dumps(tools)) < 16000, f"the list of tools has {len(json.dumps(tools))} bytes")
    server.end()


# ---- answers -------------------------------------------------------------------------------------------------------


def answers_equal_the_command_line(folder):
    server = Server()
    job = (SOURCE / EXAMPLE).read_text(encoding="utf-8")
    planned = server.call("plan", job_file=EXAMPLE)
    expect_equal("plan of a file", planned, command("plan", EXAMPLE))
    expect_equal("plan of a text", server.call("plan", job=job, engine="generic", set=["training.global_batch=32"]),
                 command("plan", "-", "--engine", "generic", "--set", "training.global_batch=32", text=job))
    text = planned[0]["content"][0]["text"]
    expect("changes training: precision bf16, global batch 64" in text and "execution only: " in text, f"knobs: {text[-400:]}")
    flags = ["--tp", "2", "--pp", "2", "--zero", "1"]
    expect_equal("estimate", server.call("estimate", job=job, configuration=flags), command("estimate", "-", *flags, text=job))
    expect_equal("estimate that does not fit", server.call("estimate", job_file=EXAMPLE, configuration=["--tp=1", "--zero=0"]),
                 command("estimate", EXAMPLE, "--tp", 1, "--zero", 0))
    result = json.dumps(planned[0]["structuredContent"])
    expect_equal("check", server.call("check", document=result), command("check", "-", text=result))
    expect_equal("explain", server.call("explain", plan=result), command("explain", "-", text=result))
    plan = folder / "plan.json"
    plan.write_text(json.dumps(planned[0]["structuredContent"]["plan"]), encoding="utf-8")
    expect_equal("check of a file", server.call("check", document_file=str(plan), engine="megatron-core"),
                 command("check", plan, "--engine", "megatron-core"))
    config = (SOURCE / "models/gpt2/config.json").read_text(encoding="utf-8")
    expect_equal("inspect model", server.call("inspect", what="model", text=config), command("inspect", "model", "-", text=config))
    expect_equal("inspect cluster", server.call("inspect", what="cluster", file=CLUSTER), command("inspect", "cluster", CLUSTER))
    expect_equal("inspect run", server.call("inspect", what="run", text='{"id": "a"}\n{"id": "b"}\n', id="b"),
                 command("inspect", "run", "-", "--id", "b", text='{"id": "a"}\n{"id": "b"}\n'))
    script, cluster = (SOURCE / SCRIPT).read_text(encoding="utf-8"), (SOURCE / CLUSTER).read_text(encoding="utf-8")
    (folder / "cluster.yaml").write_text(cluster, encoding="utf-8")
    expect_equal("improve", server.call("improve", **{"from": "megatron-args"}, configuration=script, cluster=cluster),
                 command("improve", "--from", "megatron-args", "-", "--cluster", folder / "cluster.yaml", text=script))
    server.end()


def earlier_versions_get_the_document_as_text():
    server = Server("2024-11-05")
    result, _ = server.call("inspect", what="cluster", file=CLUSTER)
    expect("structuredContent" not in result, "2024-11-05 has no structured content")
    expect(result["content"][-1]["text"] == command("inspect", "cluster", CLUSTER).stdout, "the document as it is printed")
    server.end()


def temporary_folders_are_removed(folder):
    own = folder / "tmp"
    own.mkdir()
    server = Server(TMPDIR=str(own))
    server.call("improve", **{"from": "megatron-args"}, configuration_file=SCRIPT, cluster="{}")
    expect(not list(own.iterdir()), f"left behind: {list(own.iterdir())}")
    server.end()


# ---- errors --------------------------------------------------------------------------------------------------------


def error_codes():
    server = Server("2025-06-18")
    call = {"name": "plan", "arguments": {"job_file": EXAMPLE}}
    for code, line in ((-32700, "{"), (-32700, "[" * 100), (-32700, b'{"jsonrpc": "\xff"}'), (-32700, '{"a": 1, "a": 2}'), (-32600, "7"), (-32600, "{}"),
                       (-32600, '{"jsonrpc": "1.0", "id": 1, "method": "ping"}'), (-32600, '[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]'),
                       (-32600, '{"jsonrpc": "2.0", "id": 1, "method": "ping", "extra": 1}'), (-32601, message("no/such")), (-32601, message("resources/list")),
                       (-32602, message("tools/call")), (-32602, message("tools/call", {"name": "launch"})), (-32602, message("tools/call", {**call, "x": 1})),
                       (-32602, message("tools/call", {"name": "plan", "arguments": {"job_file": EXAMPLE, "speed": 1}})),
                       (-32602, message("tools/call", {"name": "plan", "arguments": {"job_file": 7}})), (-32602, message("tools/list", {"cursor": "a"})),
                       (-32602, message("initialize", {"protocolVersion": 7})),
                       (-32022, message("tools/list", {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}}))):
        answer = server.ask(line)
        expect(answer.get("error", {}).get("code") == code, f"{line[:90]}: {str(answer)[:200]}, not {code}")
        expect(isinstance(answer.get("error", {}).get("message"), str), f"{line[:90]}: no message")
    expect(server.ask(message("ping"))["result"] == {}, "alive after all these errors")
    server.end()
    server = Server(TMPDIR="/no/such/folder")
    failed = server.ask(message("tools/call", {"name": "improve", "arguments": {"from": "deepspeed", "configuration": "{}", "cluster": "{}"}}))
    expect(failed.get("error", {}).get("code") == -32603, f"no temporary folder: {failed}")
    server.end()


def mistakes_are_results():
    server = Server()
    for tool, arguments, part in (("plan", {"job": "model: ["}, "<stdin>:1:"), ("plan", {"job_file": "no-such.yaml"}, "no-such.yaml"),
                                  ("plan", {"job_file": EXAMPLE, "set": ["cluster.memory_limit=1GiB"]}, "memory"), ("plan", {"speed": 1}, "arguments"),
                                  ("estimate", {"job_file": EXAMPLE, "configuration": ["--tp", "3"]}, "tp"),
                                  ("estimate", {"job_file": EXAMPLE, "configuration": ["--trace", "/dev/stdout"]}, "--trace"),
                                  ("check", {"document_file": "/dev/stdin"}, "regular file"), ("check", {"document": "{}"}, "schema")):
        result, _ = server.call(tool, **arguments)
        text = " ".join(block["text"] for block in result["content"])
        expect(result["isError"] and part in text, f"{tool} {arguments}: {text[:200]}")
    server.end()


def batches():
    server = Server("2025-03-26")
    server.send(f"[{message('ping')}, {message('no/such', number='b')}, 7]")
    answer = json.loads(server.line())
    expect([a.get("id") for a in answer] == [1, "b", None] and answer[1]["error"]["code"] == -32601, f"batch: {answer}")
    expect(server.ask("[]")["error"]["code"] == -32600, "an empty batch")
    server.end()


def hostile_lines():
    server = Server()
    for line, code in ((b"x" * (17 << 20), -32700), (b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"a" * (1 << 20) + b'"}', -32601),
                       (b"\x00", -32700), (b"[" + b"1," * 200_000 + b"1]", -32700), (b'{"jsonrpc": "2.0", "id": 1e400, "method": "ping"}', -32700)):
        answer = server.ask(line)
        expect(answer["error"]["code"] == code, f"{line[:40]}: {str(answer)[:200]}")
        expect(len(json.dumps(answer)) < 2000, f"{line[:40]}: an error of {len(json.dumps(answer))} bytes")
    server.send(b"   ")
    server.send(b"\r")
    expect(server.ask(message("ping"))["result"] == {}, "alive after hostile lines")
    server.end()


def mutated(line, source):
    """A few bytes of the line changed, removed, doubled or replaced by tokens."""
    out = bytearray(line)
    for _ in range(source.randint(1, 6)):
        at = source.randrange(len(out) + 1)
        kind = source.randrange(4)
        if kind == 0:
            out[at:at] = source.choice([b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"-1e9", b"\\u0000", b"\xff", b"\\", b"--json", b"/dev/stdin"])
        elif kind == 1:
            del out[at:at + source.randint(1, 8)]
        elif kind == 2 and out:
            out[min(at, len(out) - 1)] = source.randrange(256)
        else:
            out[at:at] = out[at:at + source.randint(1, 30)]
    return bytes(out).replace(b"\n", b" ")


def mutations():
    source = random.Random(20261127)
    model = '{"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "n_positions": 16, "vocab_size": 32}'
    calls = [("inspect", {"what": "model", "text": model}), ("inspect", {"what": "cluster", "text": "{nodes: 1, devices_per_node: 2, device: t4}"}),
             ("estimate", {"job": f"model: {model}\ncluster: {{nodes: 1, devices_per_node: 2, device: t4}}\ntraining: {{sequence_length: 16, global_batch: 4}}",
                           "configuration": ["--tp", "2"], "set": ["training.precision=fp16"]}),
             ("check", {"document": "{}"}), ("improve", {"from": "deepspeed", "configuration": "{}", "cluster": "{}"})]
    seeds = [message("tools/call", {"name": name, "arguments": arguments}).encode() for name, arguments in calls]
    seeds += [message("tools/list", {"_meta": META}).encode(), message("initialize", {"protocolVersion": "2025-03-26", "capabilities": {}}).encode(),
              f"[{message('ping')}]".encode(), b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}']
    lines = [mutated(source.choice(seeds), source) for _ in range(MUTATIONS)]
    ran = subprocess.run([BINARY, "mcp"], input=b"\n".join([message("initialize", {"protocolVersion": "2025-11-25"}).encode(), *lines,
                                                             message("ping", number="last").encode()]), capture_output=True, timeout=500, cwd=SOURCE, check=False)
    expect(ran.returncode == 0, f"exit {ran.returncode} after {MUTATIONS} mutated messages: {ran.stderr.decode(errors='replace')[-300:]}")
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    single = [a for answer in answers for a in (answer if isinstance(answer, list) else [answer])]
    expect(all(a["jsonrpc"] == "2.0" and ("result" in a) != ("error" in a) for a in single), "each line is a response")
    # A ping during a call is answered before the requests that wait.
    expect({"jsonrpc": "2.0", "id": "last", "result": {}} in single, "the last message is answered")
    codes = sorted({a["error"]["code"] for a in single if "error" in a})
    expect(set(codes) >= {-32700, -32600, -32601, -32602}, f"codes: {codes}")
    expect(-32603 not in codes, "no mutated message is an internal error")
    print(f"{MUTATIONS} mutated messages: {len(single)} answers, codes {codes}")


def cancelled_requests_stop():
    server = Server()
    server.send(message("tools/call", {"name": "plan", "arguments": {"job_file": LARGE, "set": ["engine=generic"]}}, number=40))
    time.sleep(1)  # the search, which takes minutes, runs
    expect(server.ask(message("ping", number=41)) == {"jsonrpc": "2.0", "id": 41, "result": {}}, "a ping is answered during a search")
    server.send('{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 40}}')
    listed = server.ask(message("tools/list", number=42))
    expect(listed.get("id") == 42, f"a cancelled request is not answered, and the next one is: {str(listed)[:200]}")


def a_job_cannot_read_the_connection():
    server = Server()
    text = "{groups: [{name: a, nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}], matrix: /dev/stdin}"
    answer = server.ask(message("tools/call", {"name": "inspect", "arguments": {"what": "cluster", "text": text}}, number=43))
    expect(answer.get("id") == 43, f"/dev/stdin as a file of a cluster: {str(answer)[:200]}")
    server.end()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        versions()
        tools_are_described()
        answers_equal_the_command_line(folder)
        earlier_versions_get_the_document_as_text()
        temporary_folders_are_removed(folder)
        error_codes()
        mistakes_are_results()
        batches()
        hostile_lines()
        mutations()
        cancelled_requests_stop()
        a_job_cannot_read_the_connection()
    print("mcp:", "ok" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
