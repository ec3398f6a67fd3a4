#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Returns the signatures of the Python package's functions with parameter names and defaults. check_docs.py compares
docs/python.md with them.

usage: python_signatures.py [ROOT]    print the signatures
"""
import ast
import pathlib
import sys
import textwrap

WIDTH = 100


def exported(package):
    """Returns (module, name) of everything that the package itself offers, in the order of its imports."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("espalier.") and not node.module.endswith("_native"):
            for alias in node.names:
                yield node.module.removeprefix("espalier."), alias.asname or alias.name


def parameters(arguments):
    """Returns "job", "*", "set=None" of a function's arguments."""
    plain = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(plain) - len(arguments.defaults))
    shown = lambda argument, value: argument.arg if value is None else f"{argument.arg}={ast.unparse(value)}"
    words = [shown(argument, value) for argument, value in zip(plain, [*missing, *arguments.defaults])]
    if arguments.vararg:
        words.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        words.append("*")
    return words + [shown(argument, value) for argument, value in zip(arguments.kwonlyargs, arguments.kw_defaults)]


def signature(function):
    joint = "\u00a0"  # textwrap breaks no line here
    result = ast.unparse(function.returns).replace("_native.", "").replace(" ", joint)
    head = f"{function.name}({', '.join(parameters(function.args))}){joint}->{joint}{result}"
    indent = " " * (len(function.name) + 1)
    return textwrap.fill(head, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False).replace(joint, " ")


def signatures(root):
    """Returns the name and the signature of each function of the package."""
    package = pathlib.Path(root) / "python/espalier"
    trees, out = {}, {}
    for module, name in exported(package):
        if module not in trees:
            tree = ast.parse((package / f"{module}.py").read_text(encoding="utf-8"))
            trees[module] = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        if name in trees[module]:
            out[name] = signature(trees[module][name])
    return out


if __name__ == "__main__":
    print("\n".join(signatures(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).values()))
