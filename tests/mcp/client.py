#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`espalier mcp` under the client of the package `mcp`, which validates each message against the protocol's schema and each answer against the tool's
output schema. Both eras are tested: versions with `initialize`, and versions that each request states.

usage: client.py BINARY SOURCE_DIR      exit code 77: the package is not installed (pip install mcp; ESPALIER_MCP_PYTHON names a Python that has it)
"""
import os
import pathlib
import subprocess
import sys

PYTHON = os.environ.pop("ESPALIER_MCP_PYTHON", None)
if PYTHON:
    os.execv(PYTHON, [PYTHON, *sys.argv])

import asyncio  # noqa: E402
import json  # noqa: E402

try:
    from mcp import Client, StdioServerParameters, stdio_client
except ImportError:
    print("skipped: the client of the package mcp is not installed, or older than 2 (pip install mcp)")
    sys.exit(77)

BINARY, SOURCE = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
EXAMPLE = SOURCE / "examples/llama3-8b-on-8xh100.yaml"
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def printed(*words):
    ran = subprocess.run([BINARY, *map(str, words), "--json"], capture_output=True, text=True, timeout=300, cwd=SOURCE, check=False)
    return json.loads(ran.stdout)


async def session(mode):
    """One session: list the tools, plan, check the plan, make a mistake."""
    server = StdioServerParameters(command=BINARY, args=["mcp"], cwd=SOURCE)
    async with Client(stdio_client(server), mode=mode) as client:
        listed = await client.list_tools()
        expect([tool.name for tool in listed.tools] == ["plan", "estimate", "improve", "check", "explain", "inspect"], f"{mode}: tools")
        planned = await client.call_tool("plan", {"job_file": str(EXAMPLE)})
        expect(not planned.is_error and planned.structured_content["plan"] == printed("plan", EXAMPLE)["plan"], f"{mode}: plan")
        expect("changes training" in planned.content[0].text, f"{mode}: knobs")
        checked = await client.call_tool("check", {"document": json.dumps(planned.structured_content)})
        expect(not checked.is_error and checked.structured_content["ok"], f"{mode}: check {checked.content}")
        wrong = await client.call_tool("plan", {"job": "model: ["})
        expect(wrong.is_error and "hint" in wrong.structured_content, f"{mode}: a mistake is a result {wrong}")
        return client.protocol_version


def main():
    agreed = {mode: asyncio.run(session(mode)) for mode in ("auto", "legacy")}
    expect(agreed == {"auto": "2026-07-28", "legacy": "2025-11-25"}, f"protocol versions: {agreed}")
    print("mcp client:", f"ok, {agreed}" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
