#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the installed Python package from outside. Its answers are those of the command line, byte for byte. Also
tests status, builders, callbacks, commands, errors, Ctrl-C, tables and plots. The examples of docstrings run in
doctests.py, and types are checked in typing_test.py.

usage: package.py SOURCE_DIR      run by a Python that has the package (./dev python); else by build/py/venv,
                                  exit code 77 if that lacks it
"""

import importlib.util
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

import in_venv

SOURCE = in_venv.source()

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
        for name, words in (
            ("llama3-8b-on-8xh100", {"tp": 2, "zero": 1}),
            ("mixtral-8x7b-on-32xa100", {"tp": 2, "ep": 8}),
            ("swin-base-on-8xa100", {"dp": 8}),
        ):
            with self.subTest(name):
                flags = [part for word, value in words.items() for part in (f"--{word}", value)]
                code, said = command("estimate", example(name), *flags, "--json")
                self.assertIn(code, (0, 4))
                self.assertEqual(
                    espalier.estimate(example(name), espalier.Configuration(**words)).to_json(), untimed(said)
                )

    def test_sweep(self):
        code, said = command(
            "plan", example("llama3-8b-on-8xh100"), "--sweep", "nodes=1,2", "--sweep", "batch=32,64", "--json"
        )
        self.assertEqual(code, 0)
        sweep = espalier.sweep(example("llama3-8b-on-8xh100"), {"nodes": [1, 2], "batch": [32, 64]})
        self.assertEqual(sweep.to_json(), said.rstrip("\n"))
        self.assertEqual(len(sweep.points), 4)
        self.assertEqual(sweep.csv.count("\n"), 5)
        self.assertIn(sweep.best, sweep.points)

    def test_other_questions(self):
        for name, function in (
            ("12-a-token-bucket", espalier.plan_for_long_run),
            ("10-a-spot-trace", espalier.plan_over_time),
        ):
            with self.subTest(name):
                job = SOURCE / "examples/clusters/scenarios" / f"{name}.yaml"
                answer = function(job)
                self.assertEqual(answer.to_json(), command("plan", job, "--json")[1].rstrip("\n"))
                self.assertIsInstance(answer.result, espalier.Result)
                with self.assertRaises(espalier.UsageError) as caught:
                    espalier.plan(job)
                self.assertIn(function.__name__, caught.exception.hint)
        with self.assertRaises(espalier.UsageError):
            espalier.plan_over_time(example("llama3-8b-on-8xh100"))

    def test_improve_and_imports(self):
        script, cluster = SOURCE / "examples/improve/llama3-8b-megatron.sh", SOURCE / "examples/clusters/1x8-h100.yaml"
        flags = ("--from", "megatron-args", script, "--cluster", cluster, "--json")
        answer = espalier.improve(script, format="megatron-args", cluster=cluster)
        self.assertEqual(answer.to_json(), command("improve", *flags)[1].rstrip("\n"))
        self.assertIn(answer.best.label, answer.text)
        self.assertLessEqual(answer.best_result.prediction.iteration_s, answer.present_result.prediction.iteration_s)
        imported = espalier.import_configuration(script, format="megatron-args", cluster=cluster)
        self.assertEqual(imported.to_json(), command("import", "config", *flags)[1].rstrip("\n"))
        self.assertEqual(imported.result.plan, answer.present_result.plan)
        self.assertEqual(imported.keys.format, "megatron-args")
        # The text of a file, and a cluster that was built, give the same plan.
        again = espalier.import_configuration(
            script.read_text(), format="megatron-args", cluster=espalier.Cluster.of("h100-sxm-80gb")
        )
        self.assertEqual(again.result.prediction, imported.result.prediction)

    def test_export_with_a_launcher(self):
        result = espalier.plan(example("llama3-8b-on-8xh100"))
        with tempfile.TemporaryDirectory() as folder:
            result.plan.save(pathlib.Path(folder, "plan.json"))
            for launcher in espalier.Launcher:
                said = command(
                    "export", "megatron-core", pathlib.Path(folder, "plan.json"), "--launcher", launcher.value
                )[1]
                self.assertEqual(
                    espalier.export(result, espalier.ExportFormat.MEGATRON_CORE, launcher=launcher).text, said
                )
        with self.assertRaises(espalier.UsageError):
            espalier.export(result, "galvatron", launcher="sbatch")
        pipelined = espalier.estimate(
            example("llama3-8b-on-8xh100"), espalier.Configuration(pp=2, dp=4), set={"engine": "generic"}
        )
        with self.assertRaises(espalier.CheckError):
            espalier.export(
                espalier.estimate(
                    example("llama3-8b-on-8xh100"),
                    espalier.Configuration(tp=2, offload="optimizer"),
                    set={"engine": "generic"},
                ),
                "torchtitan",
            )
        self.assertTrue(pipelined.plan)

    def test_run_and_profile_name_the_missing_runtime(self):
        result = espalier.estimate(example("llama3-8b-on-8xh100"), espalier.Configuration(tp=2))
        if os.environ.get("ESPALIER_RANK"):
            self.skipTest("a runtime is there")
        for call in (
            lambda: espalier.run(result, steps=2),
            lambda: espalier.profile(example("llama3-8b-on-8xh100"), out="profile.yaml"),
        ):
            with self.assertRaises(espalier.UsageError) as caught:
                call()
            self.assertIn("espalier-rank", caught.exception.found)


class Answers(unittest.TestCase):
    def test_status_bound_and_gap(self):
        job = example("llama3-8b-on-8xh100")
        best = espalier.plan(job)
        self.assertIs(best.status, espalier.Status.OPTIMAL)
        self.assertEqual((best.bound, best.gap), (best.search.lower_bound_s, 0))
        cut = espalier.plan(job, set={"engine": "generic", "search.space": "full"}, node_limit=1)
        self.assertIs(cut.status, espalier.Status.NODE_LIMIT)
        self.assertGreaterEqual(cut.gap, 0)
        self.assertLessEqual(cut.bound, cut.prediction.iteration_s)
        predicted = espalier.estimate(job, espalier.Configuration(tp=2))
        self.assertEqual((predicted.status, predicted.bound, predicted.gap), (espalier.Status.NOT_SEARCHED, None, None))
        with self.assertRaises(espalier.InfeasibleError) as caught:
            espalier.plan(job, set={"cluster.memory_limit": "10GiB"})
        self.assertTrue(caught.exception.hint)

    def test_every_answer_is_a_document(self):
        best = espalier.plan(example("llama3-8b-on-8xh100"))
        for answer in (
            best,
            best.prediction,
            espalier.explain(best),
            espalier.check(best),
            espalier.compare(best, best.plan),
            espalier.inspect_model(SOURCE / "models/gpt2"),
            espalier.what_if(espalier.plan(example("llama3-70b-on-64xh100")), lost=["node:1"]),
        ):
            self.assertIsInstance(answer, espalier.Document)
            self.assertTrue(answer.text)
            self.assertIsInstance(answer.to_dict(), dict)
            self.assertIn(next(iter(answer.to_dict())), answer)

    def test_answers_survive_pickle(self):
        best = espalier.plan(example("llama3-8b-on-8xh100"))
        again = pickle.loads(pickle.dumps(best))
        self.assertEqual((again.plan, again.prediction, again.status), (best.plan, best.prediction, best.status))
        self.assertEqual(pickle.loads(pickle.dumps(best.prediction)), best.prediction)


class Builders(unittest.TestCase):
    def test_parts_make_the_job_of_the_file(self):
        job = espalier.Job.of(
            model=espalier.Model.of(SOURCE / "models/llama-3-8b"),
            cluster=espalier.Cluster.of(espalier.Device.H100_SXM_80GB, nodes=1),
            training=espalier.Training(global_batch=64, sequence_length=8192),
            engine=espalier.Engine.MEGATRON_CORE,
        )
        self.assertEqual(espalier.plan(job).prediction, espalier.plan(example("llama3-8b-on-8xh100")).prediction)

    def test_wrong_parts_are_errors_with_their_place(self):
        with self.assertRaises(espalier.InputError) as caught:
            espalier.Job.of(
                model=SOURCE / "models/gpt2",
                cluster=espalier.Cluster.of("h100"),
                training={"global_batch": 8, "sequence_length": 0},
            )
        self.assertTrue(caught.exception.where)

    def test_words_are_those_of_the_program(self):
        self.assertEqual([e.value for e in espalier.Engine], [e.name for e in espalier.engines()])
        self.assertEqual({f.value for f in espalier.ExportFormat}, set(espalier.exporters()))
        for device in espalier.Device:
            self.assertGreater(espalier.Cluster.of(device).devices, 0)
        for command_words, words in (
            (("import", "config"), espalier.ConfigurationFormat),
            (("import", "cluster"), espalier.ClusterFormat),
            (("import", "trace"), espalier.TraceFormat),
        ):
            help_text = re.sub(r"\s+", " ", command(*command_words, "--help")[1])
            self.assertTrue(all(f"{word}: " in help_text for word in words), help_text)

    def test_every_field_of_a_job_has_a_builder(self):
        sys.path.insert(0, str(SOURCE / "scripts"))
        import dataclasses

        import schemas

        for kind, schema in (
            (espalier.Training, schemas.TRAINING),
            (espalier.Adapter, schemas.ADAPTER),
            (espalier.Lengths, schemas.LENGTHS),
            (espalier.Search, schemas.SEARCH),
            (espalier.Objective, schemas.SEARCH["properties"]["objective"]),
        ):
            fields = {field.name for field in dataclasses.fields(kind)}
            self.assertEqual(set(schema["properties"]) - fields, {"kind"} if kind is espalier.Adapter else set(), kind)


class Callbacks(unittest.TestCase):
    def test_improvements_fall_and_end_at_the_answer(self):
        improvements, bounds = [], []
        result = espalier.plan(
            example("llama3-70b-on-64xh100"), on_improvement=improvements.append, on_bound=bounds.append
        )
        times = [state.best_s for state in improvements]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertEqual(len(times), len(set(times)))
        self.assertAlmostEqual(times[-1], result.prediction.iteration_s, places=9)
        self.assertTrue(bounds)
        self.assertTrue(all(state.bound_s <= result.prediction.iteration_s + 1e-9 for state in bounds))
        uniform = [state.bound_s for state in bounds if state.phase == "uniform"]
        self.assertEqual(uniform, sorted(uniform))

    def test_callbacks_do_not_change_the_answer(self):
        job = example("mixtral-8x7b-on-32xa100")
        watched = espalier.plan(
            job, on_improvement=lambda state: None, on_bound=lambda state: None, on_progress=lambda line: None
        )
        self.assertEqual(watched.to_json(), espalier.plan(job).to_json())

    def test_an_error_of_a_callback_ends_the_search(self):
        def fail(state):
            raise ZeroDivisionError(state.phase)

        for name in ("on_improvement", "on_bound"):
            with self.assertRaises(ZeroDivisionError):
                espalier.plan(example("llama3-8b-on-8xh100"), **{name: fail})

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
            espalier.estimate(example("llama3-8b-on-8xh100"), espalier.Configuration(schedule="1f1c"))
        self.assertEqual((caught.exception.where, caught.exception.found), ("schedule", '"1f1c"'))
        self.assertTrue(caught.exception.hint)
        with self.assertRaises(TypeError):
            espalier.Configuration(tensor_parallel=2)

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
            espalier.plan(example("llama3.1-405b-on-16384xh100"), on_progress=progress, threads=1)
        best = caught.exception.best
        self.assertTrue(best is None or best.status is espalier.Status.INTERRUPTED)

    def test_an_exhaustive_search_ends_too(self):
        # The search would take hours. It runs in its own Python, so that one that does not end can be ended.
        words = (
            "import espalier, signal, sys, threading, os\n"
            "threading.Timer(3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "try:\n    espalier.plan(sys.argv[1], exhaustive=True, threads=1)\n"
            "except espalier.Interrupted as e:\n"
            "    print('interrupted', e.best is None or e.best.status is espalier.Status.INTERRUPTED)\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", words, str(example("llama3-70b-on-64xh100"))],
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual((ran.returncode, ran.stdout), (0, "interrupted True\n"), ran.stderr)

    def test_error_of_the_listener_ends_the_search(self):
        def progress(line):
            raise ZeroDivisionError(line)

        with self.assertRaises(ZeroDivisionError):
            espalier.plan(example("llama3.1-405b-on-16384xh100"), on_progress=progress, threads=1)


class Columns(unittest.TestCase):
    def test_timeline_is_numpy(self):
        result = espalier.estimate(example("llama3-8b-on-8xh100"), espalier.Configuration(pp=2, tp=4))
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
        result = espalier.estimate(example("llama3-8b-on-8xh100"), espalier.Configuration(tp=2))
        self.assertIsInstance(result.prediction, types.Prediction)
        self.assertEqual(result.prediction.iteration_s, result["prediction"]["iteration_s"])
        self.assertIn("<table>", result.alternatives_table()._repr_html_())

    def test_tables_are_pandas_and_arrow(self):
        try:
            import pandas  # noqa: F401
            import pyarrow  # noqa: F401
        except ImportError:
            self.skipTest("no pandas and pyarrow (./dev python installs them)")
        result = espalier.plan(example("llama3-8b-on-8xh100"))
        timeline = result.timeline()
        for table in (
            result.alternatives_table(),
            result.layers_table(),
            result.stages_table(),
            result.searched_table(),
            timeline.table(),
            timeline.memory(),
            result.timeline(steps=True).steps(),
        ):
            self.assertEqual(list(table.to_pandas().columns), list(table))
            self.assertEqual(table.to_arrow().num_rows, table.rows)
            self.assertGreater(table.rows, 0)

    def test_plots(self):
        try:
            import matplotlib
        except ImportError:
            self.skipTest("no matplotlib (./dev python installs it)")
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        result = espalier.plan(example("llama3-8b-on-8xh100"))
        timeline, memory, space = result.plot_timeline(), result.plot_memory(), result.plot_space()
        self.assertAlmostEqual(timeline.get_xlim()[1], result.prediction.iteration_s * 1e3)
        limit = result.prediction.memory_limit_bytes / 2**30
        self.assertIn(limit, [line.get_ydata()[0] for line in memory.lines if len(set(line.get_ydata())) == 1])
        self.assertEqual(len(space.collections[0].get_offsets()), result.searched_table().rows)
        own = plt.subplots()[1]
        self.assertIs(result.plot_space(own), own)
        plt.close("all")

    def test_plots_without_matplotlib_say_what_to_install(self):
        words = "import sys; sys.modules['matplotlib.pyplot'] = None; import espalier as e; e.plan(sys.argv[1]).plot_space()"
        ran = subprocess.run(
            [sys.executable, "-c", words, str(example("llama3-8b-on-8xh100"))],
            capture_output=True,
            text=True,
            timeout=100,
        )
        self.assertIn('pip install "espalier[plot]"', ran.stderr)


class Pages(unittest.TestCase):
    def test_python_of_the_pages_and_scripts_runs(self):
        block = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
        programs = {
            page: "\n".join(block.findall((SOURCE / page).read_text()))
            for page in ("docs/python.md", "docs/how-to/python.md")
        }
        programs |= {str(path): path.read_text() for path in sorted((SOURCE / "examples/python").glob("*.py"))}
        for name, program in programs.items():
            if "matplotlib" in program and not importlib.util.find_spec("matplotlib"):
                continue
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                for part in ("examples", "models"):
                    os.symlink(SOURCE / part, pathlib.Path(folder, part))
                ran = subprocess.run(
                    [sys.executable, "-c", program],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=300,
                    env={**os.environ, "MPLBACKEND": "Agg"},
                )
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertTrue(ran.stdout)


class Notebook(unittest.TestCase):
    def test_the_example_runs_in_a_kernel(self):
        try:
            import nbclient
            import nbformat
        except ImportError:
            self.skipTest("no nbclient (./dev python installs it)")
        path = SOURCE / "examples/notebook/first-plan.ipynb"
        notebook = nbformat.read(path, as_version=4)
        kept = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
        # Raises an exception if a cell does.
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        self.assertEqual(len(cells), len(kept))
        for cell, outputs in zip(cells, kept):
            remedy = f"{cell.source}\nrun again: jupyter nbconvert --to notebook --execute --inplace {path.name}"
            self.assertEqual([self.shown(out) for out in cell.outputs], [self.shown(out) for out in outputs], remedy)
        pictures = [out for outputs in kept for out in outputs if "image/png" in out.get("data", {})]
        self.assertEqual(len(pictures), 3)
        self.assertIn(
            espalier.plan(example("llama3-8b-on-8xh100")).brief(100), "".join(self.shown(out)[0] for out in kept[0])
        )

    @staticmethod
    def shown(out):
        """Returns the text and HTML of an output; pictures differ between versions of matplotlib."""
        data = out.get("data", {})
        return out.get("text", data.get("text/plain", "") if "image/png" not in data else "picture"), data.get(
            "text/html", ""
        )


if __name__ == "__main__":
    unittest.main()
