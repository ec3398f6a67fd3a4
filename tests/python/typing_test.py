#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks types with mypy --strict: the installed package, the scripts of examples/python, and the Python code of the
pages and of the notebook. Wrong words and values must be errors.

usage: typing_test.py SOURCE_DIR      run by a Python that has the package and mypy, or by build/py/venv
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import in_venv

SOURCE = in_venv.source()
PAGES = ("docs/python.md", "docs/how-to/python.md")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)

# Each line must be one error of mypy.
WRONG = """\
import espalier
espalier.Training(global_batch=64, precision="bf17")
espalier.Configuration(schedule="1f1c")
espalier.Configuration(tp="2")
espalier.estimate("job.yaml", tp=2)
espalier.export("plan.json", "megatron")
espalier.plan("job.yaml", on_improvement=3)
espalier.plan("job.yaml").answer
"""


def code_of(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code") + "\n"


def mypy(*words):
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", SOURCE / "pyproject.toml", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=SOURCE / "tests",
    )
    return ran.returncode, ran.stdout + ran.stderr


def main():
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = sorted((SOURCE / "examples/python").glob("*.py"))
        for page in PAGES:
            text = "\n".join(BLOCK.findall((SOURCE / page).read_text(encoding="utf-8")))
            files.append(folder / (page.replace("/", "_").replace("-", "_").removesuffix(".md") + ".py"))
            files[-1].write_text(text, encoding="utf-8")
        files.append(folder / "notebook.py")
        files[-1].write_text(code_of(SOURCE / "examples/notebook/first-plan.ipynb"), encoding="utf-8")
        for what, words in (("the package", ["-p", "espalier"]), ("examples, pages and notebook", files)):
            code, said = mypy(*words)
            print(f"{what}: {said.strip()}")
            failed = failed or code != 0
        wrong = folder / "wrong.py"
        wrong.write_text(WRONG, encoding="utf-8")
        found = {int(line) for line in re.findall(r"wrong\.py:(\d+): error", mypy(wrong)[1])}
        missed = set(range(2, WRONG.count("\n") + 1)) - found
        print(f"mistakes: {len(found)} found, missed in lines {sorted(missed)}")
        failed = failed or bool(missed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
