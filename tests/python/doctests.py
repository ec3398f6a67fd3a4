#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of the Python package's docstrings, and requires one of every public function, method and class.

usage: doctests.py SOURCE_DIR      run by a Python that has the package (./dev python), or by build/py/venv
"""

import doctest
import inspect
import os
import sys
import tempfile

import in_venv

SOURCE = in_venv.source()
os.chdir(SOURCE)  # the examples name files of the repository
os.environ.setdefault("MPLBACKEND", "Agg")

import espalier  # noqa: E402

DATA_ONLY = {"types", "words"}  # generated classes, whose fields are their documentation


def documented():
    """Yields the name and object of everything that needs an example."""
    for name in espalier.__all__:
        value = getattr(espalier, name)
        module = getattr(value, "__module__", "")
        if (
            not (inspect.isfunction(value) or inspect.isclass(value))
            or module.rsplit(".", 1)[-1] in DATA_ONLY
            or module == "espalier._native"
        ):
            continue
        plain_class = inspect.isclass(value) and (
            issubclass(value, espalier.Document) or issubclass(value, BaseException)
        )
        if not plain_class or inspect.getdoc(value).count(">>>"):
            yield name, value
        for part, method in vars(value).items() if inspect.isclass(value) else ():
            method = getattr(method, "__func__", method)
            if inspect.isfunction(method) and not part.startswith("_"):
                yield f"{name}.{part}", method


def main():
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    without, examples = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, value in [("espalier", espalier), *documented()]:
            tests = [
                test
                for test in finder.find(value, name, globs={"espalier": espalier, "folder": folder})
                if test.examples
            ]
            if not tests:
                without.append(name)
            for test in tests:
                examples += len(test.examples)
                runner.run(test)
                if "plot" in name:
                    import matplotlib.pyplot as plt

                    plt.close("all")
    for name in without:
        print(f"{name}: no example in its docstring")
    failed = runner.summarize(verbose=False).failed
    print(f"{examples} examples, {failed} failed, {len(without)} docstrings without one")
    return 1 if failed or without or not examples else 0


if __name__ == "__main__":
    sys.exit(main())
