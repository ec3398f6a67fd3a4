#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests ./dev in its own copy, with stand-ins for apt-get, cmake and ctest that record how they were called.
Checks what `./dev plan` installs, configures and builds, what `./dev test` adds, and that every command of the
binary passes through.

usage: dev.py BINARY SOURCE_DIR
"""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
failures = []

# `cmake --preset` creates the files that ./dev checks; `cmake --build` creates a binary that prints its arguments.
STAND_INS = {
    "dpkg-query": 'if grep -qsx "${!#}" "$CALLS.installed"; then printf installed; else printf not-installed; fi',
    "apt-get": '''echo "apt-get $*" >>"$CALLS"
case " $* " in *" install "*) for word in "$@"; do echo "$word" >>"$CALLS.installed"; done ;; esac''',
    "sudo": 'exec "$@"',
    "cmake": '''echo "cmake $*" >>"$CALLS"
mkdir -p build
if [[ $1 == --preset ]]; then
  touch build/build.ninja
  case $2 in product) tests=OFF werror=OFF ;; release) tests=ON werror=OFF ;; ci) tests=ON werror=ON ;; esac
  printf 'ESPALIER_BUILD_TESTS:BOOL=%s\\nESPALIER_WERROR:BOOL=%s\\n' "$tests" "$werror" >build/CMakeCache.txt
else
  printf '#!/bin/sh\\necho "$@"\\n' >build/espalier
  chmod +x build/espalier
fi''',
    "ctest": 'echo "ctest $*" >>"$CALLS"',
}
TEST_PACKAGES = {"libgtest-dev", "libgmock-dev", "librapidcheck-dev", "python3", "python3-yaml", "libbenchmark-dev"}


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


class Copy:
    """Holds a folder with only ./dev and the presets."""

    def __init__(self, folder):
        self.root = folder / "copy"
        (self.root / ".ci").mkdir(parents=True)
        for name in ("dev", "CMakePresets.json", ".ci/run"):
            shutil.copy2(SOURCE / name, self.root / name)
        stand_ins = folder / "bin"
        stand_ins.mkdir()
        for name, script in STAND_INS.items():
            path = stand_ins / name
            path.write_text(f"#!/usr/bin/env bash\n{script}\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.calls = folder / "calls"
        self.environment = dict(os.environ, PATH=f"{stand_ins}:{os.environ['PATH']}", CALLS=str(self.calls))
        self.environment.pop("ESPALIER_NO_SETUP", None)

    def run(self, *words, program="./dev"):
        """Runs a command; returns its output and the calls of stand-ins that it made."""
        self.calls.write_text("")
        ran = subprocess.run([program, *words], cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=60)
        return ran, self.calls.read_text().splitlines()


def installed(calls):
    return {word for call in calls if " install " in call for word in call.split(" install ")[1].split() if word[0] != "-"}


def plan_builds_the_product_alone(copy):
    ran, calls = copy.run("plan", "job.yaml")
    expect(ran.returncode == 0, f"plan: {ran.stderr}")
    expect({"g++", "cmake", "ninja-build"} <= installed(calls), "plan installs a compiler")
    expect(not installed(calls) & TEST_PACKAGES, f"plan installs {installed(calls) & TEST_PACKAGES}")
    expect("cmake --preset product" in calls, f"plan configures the product: {calls}")
    builds = [c for c in calls if "--build" in c]
    expect(len(builds) == 1 and builds[0].endswith("--target espalier_binary"), f"plan builds the product alone: {builds}")
    expect(ran.stdout == "plan job.yaml --out out\n", f"plan passes its arguments on: {ran.stdout!r}")
    ran, calls = copy.run("plan", "job.yaml", "-o", "there")
    expect(not [c for c in calls if "--preset" in c or "apt-get" in c], f"nothing is done twice: {calls}")
    expect(ran.stdout == "plan job.yaml -o there\n", f"-o is kept: {ran.stdout!r}")


def tests_join_the_same_folder(copy):
    _, calls = copy.run("test", "-R", "cost")
    expect(TEST_PACKAGES >= installed(calls) >= {"libgtest-dev", "python3"}, f"test installs {installed(calls)}")
    expect("cmake --preset release" in calls, f"test configures the tests: {calls}")
    expect(any(c.startswith("ctest --preset release") and c.endswith("-R cost") for c in calls), f"test runs ctest: {calls}")
    _, calls = copy.run("test")
    expect(not [c for c in calls if "--preset" in c and c.startswith("cmake")], "test configures once")
    os.utime(copy.root / "CMakePresets.json", (2**31, 2**31))  # newer than the configured build
    _, calls = copy.run("plan", "job.yaml")
    expect("cmake --preset release" in calls, f"plan keeps the tests when it configures again: {calls}")


def presets_agree(copy):
    """Checks the stand-in's assumptions about the presets: one folder, warnings as errors in ci alone."""
    import json
    presets = {p["name"]: p for p in json.loads((SOURCE / "CMakePresets.json").read_text())["configurePresets"]}

    def resolved(name):
        own = presets[name]
        base = resolved(own["inherits"]) if "inherits" in own else {"cacheVariables": {}}
        return {**base, **own, "cacheVariables": {**base["cacheVariables"], **own.get("cacheVariables", {})}}

    folders = {resolved(name)["binaryDir"] for name in ("product", "release", "ci")}
    expect(folders == {"${sourceDir}/build"}, f"product, release and ci share a folder: {folders}")
    found = {n: (resolved(n)["cacheVariables"]["ESPALIER_BUILD_TESTS"], resolved(n)["cacheVariables"]["ESPALIER_WERROR"])
             for n in ("product", "release", "ci")}
    expect(found == {"product": ("OFF", "OFF"), "release": ("ON", "OFF"), "ci": ("ON", "ON")}, f"presets: {found}")
    version = re.search(r"^torch_version=(\S+)", (SOURCE / "dev").read_text(), re.MULTILINE).group(1)
    (copy.root / ".cache" / "runtime").mkdir(parents=True)
    (copy.root / ".cache" / "runtime" / f"installed-{version}").touch()  # prevents a download
    ran, calls = copy.run(program=".ci/run")
    tests = [call for call in calls if call.startswith("ctest --preset ci")]
    expect(ran.returncode == 0 and len(tests) == 2 and "-R runtime" in tests[1], f"the CI tests preset ci, then the runtime in full: {ran.stderr} {calls}")


def every_command_passes_through(copy):
    listed = subprocess.run([BINARY, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    commands = re.findall(r"^  ([a-z-]+) ", re.split(r"^(?:Subc|C)ommands:?$", listed, flags=re.MULTILINE)[1].split("\n\n")[0], re.MULTILINE)
    expect(len(commands) >= 12, f"commands of the binary: {commands}")
    for command in commands:
        ran, _ = copy.run(command, "--help")
        expect(ran.stdout == f"{command} --help\n", f"./dev {command} passes through: {ran.stdout!r} {ran.stderr!r}")
    ran, _ = copy.run("--version")
    expect(ran.stdout == "--version\n", f"./dev --version: {ran.stdout!r}")
    ran, calls = copy.run("--help")
    expect(ran.returncode == 0 and not calls, "./dev --help builds nothing")
    missing = [c for c in commands if not re.search(rf"\b{c}\b", ran.stdout)]
    expect(not missing, f"./dev --help names {missing}")
    ran, calls = copy.run("no-such-command")
    expect(ran.returncode == 2 and not calls, "an unknown command is a usage error before anything is built")


def main():
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(pathlib.Path(folder))
        plan_builds_the_product_alone(copy)
        tests_join_the_same_folder(copy)
        every_command_passes_through(copy)
        presets_agree(copy)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
