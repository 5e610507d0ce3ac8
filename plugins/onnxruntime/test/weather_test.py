"""What goes wrong, and how ONNX Runtime's user is told: python weather_test.py [-v]

Each test runs in a process of its own, since some lose a device or unload the library; a crash is a failure. Devices are
lost by the plug-in that BRAID_PLUGIN_METERED names (tests/plugins/metered.c); without it that test is skipped."""
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import provider

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = f"""
import gc, os, sys, threading, resource
sys.path.insert(0, {HERE!r})
import numpy as np, onnxruntime as ort
import models, provider
devices = provider.register()
x = {{"x": np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)}}
def refused(call):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error)
        return
    sys.exit("nothing was refused")
"""


class Case(unittest.TestCase):
    def run_script(self, script, environment=None):
        """`environment`: variables beside those of this process; None: without this one."""
        variables = {name: value for name, value in {**os.environ, **(environment or {})}.items() if value is not None}
        done = subprocess.run([sys.executable, "-c", HEAD + textwrap.dedent(script)], capture_output=True, text=True,
                              timeout=300, env=variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def says(self, script, *sentences, environment=None):
        text = self.run_script(script, environment)
        for sentence in sentences:
            self.assertIn(sentence, text)
        return text


class Options(Case):
    def test_unknown_option(self):
        self.says("refused(lambda: provider.session(models.classifier(), {'thread': 1}))",
                  "BraidExecutionProvider has no option thread; it has device, platform, plugins, cache, place, threads")

    def test_number_out_of_range(self):
        self.says("refused(lambda: provider.session(models.classifier(), {'threads': '-1'}))\n"
                  "refused(lambda: provider.session(models.classifier(), {'plans': '0'}))\n"
                  "refused(lambda: provider.session(models.classifier(), {'fusion': 'perhaps'}))",
                  'option threads is "-1": a number from 0 to 1024 is allowed',
                  'option plans is "0": a number from 1 to 4096 is allowed', 'option fusion is "perhaps": 0 or 1')

    def test_wrong_device(self):
        self.says("refused(lambda: provider.session(models.classifier(), {'device': 'gpu7'}))",
                  "there is no device gpu7; there are: cpu")

    def test_place_on_a_device_that_is_not_there(self):
        self.says("""
            refused(lambda: provider.session(models.classifier(), {"place": "c1=gpu7"}))
            print(provider.claimed(provider.session(models.classifier(), {"place": "c1=cpu nobody=cpu"})))
            """, "place: gpu7 is not among the session's devices; these are cpu", "(9, 1)")

    def test_files_that_are_not_there(self):
        self.says("refused(lambda: provider.session(models.classifier(), {'platform': '/nowhere.yaml'}))\n"
                  "refused(lambda: provider.session(models.classifier(), {'plugins': '/nowhere.so'}))",
                  "/nowhere.yaml", "/nowhere.so")

    def test_a_cache_that_cannot_be_kept(self):
        """On any device: the session would run on the CPU without a word until the option is needed."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")
            open(path, "w").close()
            self.says(f"""
                for cache in ({path!r}, {path!r} + "/below"):
                    refused(lambda: provider.session(models.classifier(), {{"cache": cache}}))
                for cache in ({folder!r}, {folder!r} + "/made/when/needed", "relative"):
                    print(provider.claimed(provider.session(models.classifier(), {{"cache": cache}})))
                """, f'option cache is "{path}": {path}: Not a directory',
                f'option cache is "{path}/below"', "(9, 1)")
            self.assertEqual(os.listdir(folder), ["file"])

    def test_places_that_cannot_be(self):
        """They left every node to the CPU provider."""
        self.says("for place in ('nonsense', '*=gpu', '*1=cpu *=', '=cpu'):\n"
                  "    refused(lambda: provider.session(models.classifier(), {'place': place}))\n"
                  "print(provider.claimed(provider.session(models.classifier(), {'place': 'nothing=cpu *=cpu'})))",
                  'place: "nonsense", expected pattern=device', "place: gpu is not among the session's devices",
                  'place: "=cpu", expected', "(9, 1)")

    def test_compiled_models_are_not_written(self):
        self.says("refused(lambda: provider.session(models.classifier(), entries={'ep.context_enable': '1'}))",
                  "writes no compiled models (ep.context_enable)")

    def test_fewest_nodes_of_a_group(self):
        self.says("""
            run = provider.session(models.islands(), {"min_nodes": 2})
            print(provider.claimed(run))
            print(provider.claimed(provider.session(models.islands(), {"min_nodes": 3})))
            """, "(18, 9)", "(0, 0)")


class Devices(Case):
    def test_virtual_devices_of_a_platform_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "two.yaml")
            with open(path, "w") as file:
                file.write("devices:\n  - {name: left, device: cpu, options: threads=1}\n"
                           "  - {name: right, device: cpu, options: memory=separate}\n")
            self.says(f"""
                expected = provider.cpu_session(models.classifier()).run(None, x)
                for device in ("left", "right", "right left", "cpu:memory=separate"):
                    run = provider.session(models.classifier(), {{"platform": {path!r}, "device": device}})
                    print(device, provider.assignment(run), provider.difference(run.run(None, x), expected, 1e-4, 1e-6))
                refused(lambda: provider.session(models.classifier(), {{"platform": {path!r}, "device": "middle"}}))
                """, "left {'BraidExecutionProvider': (9, 1)} None", "right {'BraidExecutionProvider': (9, 1)} None",
                "right left {'BraidExecutionProvider': (9, 1)} None",
                "cpu:memory=separate {'BraidExecutionProvider': (9, 1)} None", "there is no device middle")

    def test_opencl(self):
        text = self.run_script("""
            try:
                run = provider.session(models.classifier(), {"device": "opencl0"})
            except Exception as error:
                if "there is no device opencl0" not in str(error): raise
                print("no opencl0 here")
                sys.exit(0)
            expected = provider.cpu_session(models.classifier()).run(None, x)
            print(provider.claimed(run), provider.difference(run.run(None, x), expected, 1e-3, 1e-5))
            """)
        if "no opencl0 here" in text:
            self.skipTest("there is no OpenCL device")
        self.assertIn(") None", text)
        self.assertNotIn("(0, 0)", text)

    def test_overlay_takes_what_it_has_kernels_for(self):
        self.says("""
            run = provider.session(models.quantized(), {"device": "overlay"})
            def plain(settings): settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            expected = provider.cpu_session(models.quantized(), plain).run(None, x)
            print(provider.difference(run.run(None, x), expected, 1e-4, 0.05), provider.claimed(run))
            """, "None")

    def test_device_is_lost(self):
        plugin = os.environ.get("BRAID_PLUGIN_METERED")
        if not plugin:
            self.skipTest("BRAID_PLUGIN_METERED is not set")
        self.says(f"""
            options = {{"plugins": {plugin!r}, "device": "metered"}}
            model = models.model([models.node("Relu", "x", "y")], [models.value("x", models.FLOAT, "n")],
                                 [models.value("y", models.FLOAT, "n")])
            run = provider.session(model, options)
            print(provider.claimed(run))
            feed = {{"x": np.float32([1, -1])}}
            for _ in range(3):
                print(run.run(None, feed))
            refused(lambda: run.run(None, feed))
            refused(lambda: run.run(None, feed))
            del run
            print("sessions after that:", provider.session(model, {{}}).run(None, feed))
            """, "(1, 1)", "Braid: device lost", "sessions after that: [array([1., 0.]",
            environment={"BRAID_METERED": "kernels=3"})


class Memory(Case):
    def test_no_memory_for_a_run(self):
        self.says("""
            run = provider.session(models.expansion())
            one = np.float32([[2]])
            print(run.run(None, {"x": one, "shape": np.int64([100, 3])}))
            refused(lambda: run.run(None, {"x": one, "shape": np.int64([1 << 40, 1 << 10])}))
            refused(lambda: run.run(None, {"x": one, "shape": np.int64([1 << 21, 1 << 21])}))
            print(run.run(None, {"x": one, "shape": np.int64([4, 4])}))
            """, "Braid: ", "memory")

    def test_little_memory(self):
        """A sentence where memory ends, and answers once there is some again. (No convolutions: oneDNN 2 ends the
        process where it finds no memory for the code that it makes.)"""
        self.says("""
            run = provider.session(models.expansion(), {"threads": 1})
            feed = lambda n: {"x": np.float32([[2]]), "shape": np.int64([n, n])}
            print(run.run(None, feed(3)))
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            for more in (4 << 20, 16 << 20, 32 << 20):
                resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.getrlimit(resource.RLIMIT_AS)[1]))
                refused(lambda: run.run(None, feed(5000)))
                resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                print(run.run(None, feed(5)))
            print(run.run(None, feed(5000)))
            """, "Braid: out of memory")


class Inputs(Case):
    def test_wrong_inputs_are_the_frameworks_errors(self):
        self.says("""
            run = provider.session(models.classifier(1))
            refused(lambda: run.run(None, {"x": np.ones((2, 3, 8, 8), np.float32)}))
            refused(lambda: run.run(None, {"x": np.ones((1, 3, 8, 8), np.float64)}))
            refused(lambda: run.run(None, {"y": x["x"]}))
            open_run = provider.session(models.shapes())
            refused(lambda: provider.session(models.reshape()).run(None, {"x": np.ones(24, np.float32),
                                                                       "shape": np.int64([5, 5])}))
            """, "Got invalid dimensions", "Unexpected input data type", "Braid: ",
            "Reshape): 24 elements do not fit the shape")


class Lifetimes(Case):
    def test_unregistered_with_live_sessions(self):
        self.says("""
            run, other = provider.session(models.classifier()), provider.session(models.islands())
            ort.unregister_execution_provider_library("braid")
            print(run.run(None, x)[0].shape)
            print(other.run(None, {"x": np.ones((1, 16), np.float32)})[0].shape)
            del run
            gc.collect()
            print(len(provider.devices()), "devices left")
            devices = provider.register()
            print(len(devices), "after registering again", provider.session(models.classifier()).run(None, x)[0].shape)
            """, "(1, 10)", "(1, 16)", "0 devices left", "1 after registering again (1, 10)")

    def test_many_sessions_come_and_go(self):
        self.says("""
            def work():
                for _ in range(10):
                    provider.session(models.classifier(), {"threads": 1}).run(None, x)
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            print("all done")
            """, "all done")

    def test_session_that_lives_to_the_end(self):
        self.says("run = provider.session(models.classifier())\nprint(run.run(None, x)[0].shape)", "(1, 10)")


class Loading(Case):
    """OpenMP prints what it read when it is loaded; a program that this one starts, what is in the environment then."""
    SCRIPT = """
        import subprocess
        print(subprocess.run(["env"], capture_output=True, text=True).stdout)
        """
    ASKED = {"OMP_DISPLAY_ENV": "verbose", "OMP_WAIT_POLICY": None, "GOMP_SPINCOUNT": None}

    def test_openmp_spins_for_a_short_time(self):
        text = self.says(self.SCRIPT, "GOMP_SPINCOUNT = '10000'", environment=self.ASKED)
        self.assertNotIn("\nGOMP_SPINCOUNT=", text)

    def test_what_the_user_set_counts(self):
        self.says(self.SCRIPT, "GOMP_SPINCOUNT = '77'", "\nGOMP_SPINCOUNT=77\n",
                  environment={**self.ASKED, "GOMP_SPINCOUNT": "77"})
        text = self.says(self.SCRIPT, environment={**self.ASKED, "OMP_WAIT_POLICY": "active"})
        self.assertNotIn("GOMP_SPINCOUNT = '10000'", text)

    @unittest.skipIf("asan" in os.environ.get("LD_PRELOAD", ""), "something else must be loaded before everything")
    def test_openmp_that_was_loaded_before(self):
        self.says("run = provider.session(models.classifier(), {'threads': 2})\n"
                  "print(provider.claimed(run), len(run.run(None, x)))", "(9, 1) 1",
                  environment={**self.ASKED, "LD_PRELOAD": "libgomp.so.1"})

    @unittest.skipIf("LD_LIBRARY_PATH" in os.environ, "it may be found there")
    def test_the_provider_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = shutil.copy(provider.PLUGIN, folder)
            script = f"import onnxruntime as ort; ort.register_execution_provider_library('braid', {path!r})"
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
            self.assertIn("Braid: the provider cannot be loaded: libbraid_onnxruntime_provider.so: cannot open",
                          done.stderr)


class Forks(Case):
    def test_copy_has_no_threads(self):
        """It waited for ever for those of the devices."""
        self.says("""
            import signal
            def copy(call):
                sys.stdout.flush()
                process = os.fork()
                if process == 0:
                    signal.alarm(60)
                    try:
                        print(call(), flush=True)
                    except Exception as error:
                        print(error, flush=True)
                    os._exit(0)
                print("ended with", os.waitpid(process, 0)[1])
            def session(threads): # ONNX Runtime waits for threads of its own when it is destroyed in a copy
                return provider.session(models.classifier(), {"threads": threads},
                                        setup=lambda settings: setattr(settings, "intra_op_num_threads", 1))
            def runs(threads):
                return np.array_equal(session(threads).run(None, x)[0], y)
            single = session(1)
            y = single.run(None, x)[0]
            copy(lambda: ("first", runs(2)))
            team = session(2)
            print("team", np.array_equal(team.run(None, x)[0], y))
            copy(lambda: ("run", team.run(None, x)))
            copy(lambda: ("new", runs(2)))
            copy(lambda: ("single", np.array_equal(single.run(None, x)[0], y), runs(1)))
            def drop():
                global single, team
                single = team = None
                gc.collect()
                return "dropped"
            copy(drop)
            print("still", np.array_equal(team.run(None, x)[0], y), np.array_equal(single.run(None, x)[0], y))
            """, "('first', True)", "team True", "Braid: not supported: c1 (group of 9 nodes): this process was forked",
                  "Braid: not supported: this process was forked", "('single', True, True)",
                  "dropped\nended with 0", "still True True")


class Messages(Case):
    def test_names_cut_within_a_character(self):
        """Python shows an empty message where a sentence is not UTF-8."""
        self.says("""
            feed = {"x": np.ones(24, np.float32), "shape": np.int64([5, 5])}
            for begin in ("", "a", "ab"):
                model = models.reshape()
                for i, node in enumerate(model.graph.node):
                    node.name = begin + "\\u4e16\\u754c" * 60 + str(i)
                run = provider.session(model)
                try:
                    run.run(None, feed)
                except Exception as error:
                    print(begin, ascii(error))
            """, *(rf"Braid: invalid graph: {begin}\u4e16\u754c" for begin in ("", "a", "ab")))

    def test_reason_of_what_is_left_once(self):
        text = self.says("""
            def setup(settings): settings.log_severity_level = 2
            provider.session(models.islands(), setup=setup)
            """, "random numbers are those of the framework")
        self.assertEqual(text.count("Braid leaves"), 1)
        self.assertIn("Braid leaves 10 RandomUniformLike to ONNX Runtime", text)


if __name__ == "__main__":
    unittest.main()
