#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the installed Python package from outside. Its answers are those of the command line, byte for byte. Also
tests errors, Ctrl-C and NumPy columns.

usage: package.py SOURCE_DIR      run by a Python that has the package (./dev python); else by build/py/venv,
                                  exit code 77 if that lacks it
"""
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
VENV = SOURCE / "build/py/venv"
if pathlib.Path(sys.prefix).resolve() != VENV.resolve() and os.environ.get("ESPALIER_PYTHON_PACKAGE") != "here":
    interpreter = VENV / "bin/python3"
    if not list(VENV.glob("lib/python3*/site-packages/espalier/_native*.so")):
        print("skipped: the Python package is not installed in build/py/venv (./dev python)")
        sys.exit(77)
    os.execv(interpreter, [str(interpreter), __file__, str(SOURCE), *sys.argv[1:]])

import espalier  # noqa: E402
from espalier._binary import path as binary  # noqa: E402

EXAMPLES = ("llama3-8b-on-8xh100", "mixtral-8x7b-on-32xa100", "swin-base-on-8xa100")
TIMING = re.compile(r',\n  "timing": \{.*\}\n\}\n?$', re.DOTALL)


def example(name):
    return SOURCE / "examples" / f"{name}.yaml"


def command(*words):
    ran = subprocess.run([binary(), *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
    return ran.returncode, ran.stdout


def untimed(text):
    """Removes the object `timing`, the last key of a document."""
    return TIMING.sub("\n}", text).rstrip("\n")


class SameAsTheCommandLine(unittest.TestCase):
    def test_plan_simulate_and_check(self):
        for name in EXAMPLES:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                code, said = command("plan", example(name), "--json", "-o", folder)
                self.assertEqual(code, 0)
                result = espalier.plan(example(name))
                self.assertIn('"timing"', said)
                self.assertEqual(result.to_json(), untimed(said))
                written = pathlib.Path(folder, "result.json")
                self.assertEqual(result.to_json() + "\n", written.read_text())
                plan = pathlib.Path(folder, "plan.json")
                self.assertEqual(result.plan.to_json() + "\n", plan.read_text())
                self.assertEqual(espalier.simulate(plan).to_json(), untimed(command("simulate", plan, "--json")[1]))
                found = espalier.check(written)
                self.assertTrue(found)
                self.assertEqual(found.to_json().rstrip("\n"), command("check", written, "--json")[1].rstrip("\n"))

    def test_estimate(self):
        for name, words in (("llama3-8b-on-8xh100", {"tp": 2, "zero": 1}), ("mixtral-8x7b-on-32xa100", {"tp": 2, "ep": 8}),
                            ("swin-base-on-8xa100", {"dp": 8})):
            with self.subTest(name):
                flags = [part for word, value in words.items() for part in (f"--{word}", value)]
                code, said = command("estimate", example(name), *flags, "--json")
                self.assertIn(code, (0, 4))
                self.assertEqual(espalier.estimate(example(name), **words).to_json(), untimed(said))

    def test_text_and_dict_are_jobs(self):
        text = example("swin-base-on-8xa100").read_text()
        before = os.getcwd()
        os.chdir(SOURCE / "examples")  # paths of the job are relative to it
        try:
            self.assertEqual(espalier.plan(text).plan, espalier.plan("swin-base-on-8xa100.yaml").plan)
        finally:
            os.chdir(before)


class Errors(unittest.TestCase):
    def test_error_says_where_found_expected_and_hint(self):
        with self.assertRaises(espalier.InputError) as caught:
            espalier.plan(example("llama3-8b-on-8xh100"), set={"training.precision": "fp7"})
        error = caught.exception
        self.assertTrue(error.where)
        self.assertIn("fp7", error.found)
        self.assertTrue(error.expected)
        self.assertEqual(error.exit_code, 3)
        self.assertEqual(pickle.loads(pickle.dumps(error)).found, error.found)

    def test_word_that_no_field_has(self):
        with self.assertRaises(espalier.UsageError) as caught:
            espalier.estimate(example("llama3-8b-on-8xh100"), schedule="1f1c")
        self.assertEqual((caught.exception.where, caught.exception.found), ("schedule", '"1f1c"'))
        self.assertTrue(caught.exception.hint)
        with self.assertRaises(espalier.UsageError):
            espalier.estimate(example("llama3-8b-on-8xh100"), tensor_parallel=2)

    def test_file_that_is_not_there(self):
        with self.assertRaises(espalier.InputError) as caught:
            espalier.plan("no-such-job.yaml")
        self.assertIn("no-such-job.yaml", caught.exception.where)


class CtrlC(unittest.TestCase):
    def test_search_ends_with_the_best_so_far(self):
        # The signal is sent once the search has begun, which its first line of progress shows.
        begun = threading.Event()

        def interrupt():
            begun.wait(60)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()

        def progress(line):
            begun.set()
            time.sleep(0.2)  # the search waits for its listener, so it still runs when the signal comes

        with self.assertRaises(espalier.Interrupted) as caught:
            espalier.plan(example("llama3.1-405b-on-16384xh100"), progress=progress, threads=1)
        best = caught.exception.best
        self.assertTrue(best is None or not best.finished)

    def test_an_exhaustive_search_ends_too(self):
        # The search would take hours. It runs in its own Python, so that one that does not end can be ended.
        words = ("import espalier, signal, sys, threading, os\n"
                 "threading.Timer(3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
                 "try:\n    espalier.plan(sys.argv[1], exhaustive=True, threads=1)\n"
                 "except espalier.Interrupted as e:\n    print('interrupted', e.best is None or not e.best.finished)\n")
        ran = subprocess.run([sys.executable, "-c", words, str(example("llama3-70b-on-64xh100"))], capture_output=True, text=True, timeout=300)
        self.assertEqual((ran.returncode, ran.stdout), (0, "interrupted True\n"), ran.stderr)

    def test_error_of_the_listener_ends_the_search(self):
        def progress(line):
            raise ZeroDivisionError(line)

        with self.assertRaises(ZeroDivisionError):
            espalier.plan(example("llama3.1-405b-on-16384xh100"), progress=progress, threads=1)


class Columns(unittest.TestCase):
    def test_timeline_is_numpy(self):
        result = espalier.estimate(example("llama3-8b-on-8xh100"), pp=2, tp=4)
        timeline = result.timeline()
        end = timeline.start_ns + timeline.duration_ns
        self.assertEqual(str(timeline.start_ns.dtype), "int64")
        self.assertGreater(len(timeline), 0)
        self.assertEqual(int(end.max()), timeline.iteration_ns)
        self.assertEqual(sorted(set(timeline.stage.tolist())), [0, 1])
        self.assertIn("bytes", timeline.memory())
        self.assertIn("layer", result.timeline(steps=True).steps())
        self.assertEqual(len(timeline.table()["kind"]), len(timeline))

    def test_types(self):
        from espalier import types

        self.assertTrue(all(hasattr(types, name) for name in types.__all__))
        result = espalier.estimate(example("llama3-8b-on-8xh100"), tp=2)
        self.assertIsInstance(result.prediction, types.Prediction)
        self.assertEqual(result.prediction.iteration_s, result["prediction"]["iteration_s"])
        self.assertIn("<table>", result.alternatives_table()._repr_html_())


class Notebook(unittest.TestCase):
    def test_the_example_runs_in_a_kernel(self):
        try:
            import nbclient
            import nbformat
        except ImportError:
            self.skipTest("no nbclient (./dev python installs it)")
        path = SOURCE / "examples/notebook/first-plan.ipynb"
        notebook = nbformat.read(path, as_version=4)
        # Raises an exception if a cell does.
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        text = "".join(out.get("text", "") for cell in cells for out in cell.outputs)
        self.assertEqual(len(cells), 4)
        self.assertIn(espalier.plan(example("llama3-8b-on-8xh100")).brief(100), text)
        self.assertIn("<table>", cells[1].outputs[0]["data"]["text/html"])
        self.assertIn(" times the step", text)


if __name__ == "__main__":
    unittest.main()
