"""Models through the provider, beside ONNX Runtime's CPU provider: python models_test.py [-v]"""
import glob
import json
import os
import tempfile
import threading
import unittest

import numpy as np
import onnx
import onnxruntime as ort

import models
import provider

random = np.random.default_rng(7)


def image(batch, dtype=np.float32, side=8):
    return {"x": random.standard_normal((batch, 3, side, side)).astype(dtype)}


class Case(unittest.TestCase):
    def same(self, model, feeds, options=None, all_ours=True, groups=1, relative=1e-4, absolute=1e-6, setup=None,
             peer=None):
        """Runs `feeds`, one or a list of them, by both providers; the nodes that Braid has are counted."""
        ours = provider.session(model, options, setup=setup)
        theirs = provider.cpu_session(model, peer)
        nodes, found = provider.claimed(ours)
        self.assertGreater(nodes, 0)
        if all_ours:
            self.assertEqual(list(provider.assignment(ours)), [provider.NAME])
        if groups:
            self.assertEqual(found, groups)
        for feed in feeds if isinstance(feeds, list) else [feeds]:
            off = provider.difference(ours.run(None, feed), theirs.run(None, feed), relative, absolute)
            self.assertIsNone(off)
        return ours


class Networks(Case):
    def test_fixed_batch(self):
        self.same(models.classifier(2), image(2))

    def test_many_batches_in_one_session(self):
        self.same(models.classifier(), [image(n) for n in (1, 3, 2, 1, 7, 3, 0)])

    def test_more_shapes_than_plans(self):
        self.same(models.classifier(), [image(n) for n in (1, 2, 3, 4, 1, 2, 3, 4, 4, 1)], {"plans": 2})

    def test_shape_arithmetic_is_within_the_group(self):
        feeds = [{"x": random.random((b, p, 8), np.float32)} for b, p in ((1, 1), (2, 5), (3, 4), (2, 5))]
        self.same(models.shapes(), feeds)

    def test_sizes_that_the_framework_cannot_infer(self):
        self.same(models.shuffle(), [{"x": random.random((n, 48, 4, 4), np.float32)} for n in (1, 3)])

    def test_numbers_of_dimensions_that_the_framework_cannot_infer(self):
        feeds = [{"x": random.standard_normal((n, 3, h, w)).astype(np.float32)} for n, h, w in ((1, 2, 2), (3, 4, 5), (1, 2, 2))]
        self.same(models.lost_ranks(False), feeds)
        ours = self.same(models.lost_ranks(True), feeds, all_ours=False, groups=2)
        self.assertEqual(provider.claimed(ours)[0], 10)

    def test_numbers_of_dimensions_that_sizes_decide(self):
        feeds = [{"x": random.standard_normal((n, 1, h, 4)).astype(np.float32)} for n, h in ((2, 3), (2, 1), (1, 1))]
        self.same(models.squeezed(True), feeds)
        ours = self.same(models.squeezed(False), feeds, all_ours=False)
        self.assertEqual(provider.claimed(ours)[0], 4)

    def test_shape_arithmetic_moves_to_the_group_that_needs_it(self):
        feeds = [{"x": random.random(s, np.float32)} for s in ((2, 3), (4, 1), (2, 3))]
        ours = self.same(models.late_shape(), feeds, all_ours=False, groups=2)
        groups = [{n.op_type for n in g.get_nodes()} for g in ours.get_provider_graph_assignment_info()
                  if g.ep_name == provider.NAME]
        self.assertIn({"Relu"}, groups)
        self.assertIn({"Shape", "Gather", "Add", "Reshape"}, groups)

    def test_nodes_that_nothing_reads(self):
        self.same(models.unread(), [{"x": random.random((n, 8), np.float32)} for n in (2, 1)], all_ours=False, groups=2)

    def test_shapes_noted_by_exporters_are_not_relied_on(self):
        ours = self.same(models.noted_shapes(), [{"x": random.random((n, 8), np.float32)} for n in (1, 3, 2, 1)],
                         all_ours=False, groups=2)
        self.assertEqual(provider.claimed(ours)[0], 3)

    def test_contents_that_another_group_computed(self):
        def plain(settings):
            settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.same(models.late_limit(), [{"x": random.random((n, 8), np.float32)} for n in (3, 5, 3)], all_ours=False,
                  groups=2, setup=plain)
        self.same(models.late_sizes(), [{"x": random.random(n, np.float32)} for n in (3, 2)], all_ours=False, groups=2,
                  setup=plain)

    def test_shape_that_is_an_input(self):
        x = random.random(24, np.float32)
        shapes = ((4, 6), (6, 4), (-1, 3), (24, 1), (4, 6))
        self.same(models.reshape(), [{"x": x, "shape": np.asarray(s, np.int64)} for s in shapes])

    def test_what_depends_on_data_is_left(self):
        x = (random.random((4, 4)) > 0.5).astype(np.float32)
        ours = self.same(models.data_shaped(), [{"x": x}, {"x": np.ones_like(x)}, {"x": np.zeros_like(x)}], all_ours=False,
                         groups=2)
        self.assertEqual(provider.claimed(ours)[0], 2)  # Relu and Transpose, whose rank is known

    def test_float16(self):
        self.same(models.classifier(1, np.float16), image(1, np.float16), relative=1e-2, absolute=2e-3)

    def test_float64(self):
        self.same(models.perceptron(), {"x": random.standard_normal((3, 8))}, relative=1e-9, absolute=1e-12)

    def test_quantized(self):
        # What the file says, node by node: optimized, the CPU provider's products of bytes saturate on CPUs without VNNI.
        def plain(settings):
            settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.same(models.quantized(), [image(n) for n in (1, 4)], absolute=1e-3, peer=plain)

    def test_recurrent_over_open_steps(self):
        self.same(models.recurrent(), [{"x": random.random((t, 2, 4), np.float32)} for t in (3, 1, 6)])

    def test_without_fusion(self):
        self.same(models.classifier(1), image(1), {"fusion": 0})

    def test_threads(self):
        for threads in (1, 2):
            self.same(models.classifier(1, side=32), image(1, side=32), {"threads": threads})


class ControlFlow(Case):
    def test_if_within_if(self):
        feeds = [{"x": (random.standard_normal((2, 8)) * s).astype(np.float32)} for s in (1, 1, 3, 3, 0.1, 5, 2)]
        ours = self.same(models.branches(), feeds, all_ours=False, groups=0)
        self.assertGreaterEqual(provider.claimed(ours)[1], 4)  # around the If, and in three of its branches

    def test_loop(self):
        x = random.standard_normal((1, 8)).astype(np.float32)
        feeds = [{"x": x, "n": np.asarray(n, np.int64)} for n in (0, 1, 5)]
        self.same(models.loop(), feeds, all_ours=False, groups=0)

    def test_groups_between_nodes_of_the_framework(self):
        ours = self.same(models.islands(), {"x": random.standard_normal((1, 16)).astype(np.float32)}, all_ours=False,
                         groups=11)
        self.assertEqual(provider.claimed(ours)[0], 20)


class Inputs(Case):
    def test_strings_stay_with_the_framework(self):
        feed = {"x": random.random((2, 8), np.float32), "s": np.asarray([["yes"], ["no"]], object)}
        ours = self.same(models.strings(), feed, all_ours=False)
        self.assertEqual(provider.claimed(ours)[0], 3)

    def test_external_data(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            onnx.save_model(models.classifier(1, side=16), path, save_as_external_data=True, size_threshold=64,
                            location="weights.bin")
            self.assertTrue(os.path.exists(os.path.join(folder, "weights.bin")))
            self.same(path, image(1, side=16))

    def test_outputs_are_written_where_they_are_bound(self):
        model = models.classifier(2)
        ours, theirs = provider.session(model), provider.cpu_session(model)
        feed, y = image(2), np.full((2, 10), np.nan, np.float32)
        binding = ours.io_binding()
        binding.bind_input("x", "cpu", 0, np.float32, feed["x"].shape, feed["x"].ctypes.data)
        binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        ours.run_with_iobinding(binding)
        self.assertIsNone(provider.difference(y, theirs.run(None, feed)[0], 1e-4, 1e-6))
        feed["x"] *= -1  # the same memory
        ours.run_with_iobinding(binding)
        self.assertIsNone(provider.difference(y, theirs.run(None, feed)[0], 1e-4, 1e-6))

    def test_an_output_that_is_bound_over_an_input(self):
        """A state that is updated where it is; the CPU provider is right where the last node reads and writes in step."""
        for model in (models.in_place(), models.in_place(2)):
            ours = provider.session(model)
            for shift in (0, 64):
                memory = [random.standard_normal(256 * 256 + shift).astype(np.float32) for _ in ours.get_outputs()]
                x = [m[:256 * 256].reshape(256, 256) for m in memory]
                y = [m[shift:].reshape(256, 256) for m in memory]
                expected = ours.run(None, {f"x{i}": part.copy() for i, part in enumerate(x)})
                binding = ours.io_binding()
                for i, (part, result) in enumerate(zip(x, y)):
                    binding.bind_input(f"x{i}", "cpu", 0, np.float32, part.shape, part.ctypes.data)
                    binding.bind_output(f"y{i}", "cpu", 0, np.float32, result.shape, result.ctypes.data)
                ours.run_with_iobinding(binding)
                self.assertIsNone(provider.difference(y, expected, 0, 0))

    def test_memory_that_is_not_aligned(self):
        model = models.classifier(1)
        ours, theirs = provider.session(model), provider.cpu_session(model)
        raw = np.zeros(3 * 64 * 4 + 4, np.uint8)
        x = raw[4:].view(np.float32).reshape(1, 3, 8, 8)
        x[:] = random.random(x.shape)
        binding = ours.io_binding()
        binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
        binding.bind_output("y")
        ours.run_with_iobinding(binding)
        self.assertIsNone(provider.difference(binding.copy_outputs_to_cpu(), theirs.run(None, {"x": x}), 1e-4, 1e-6))


class Nodes(Case):
    def test_remainders_that_onnx_forbids_are_left(self):
        """The framework then says what is wrong."""
        for kind in (models.FLOAT, models.FLOAT16, models.DOUBLE):
            values = [models.value(name, kind, 4) for name in "aby"]
            self.assertEqual(provider.claimed(provider.session(models.one("Mod", values[:2], values[2:])))[0], 0)
            ours = provider.session(models.one("Mod", values[:2], values[2:], fmod=1))
            self.assertEqual(provider.claimed(ours)[0], 1)

    def test_roots_of_integers(self):
        x = np.asarray([[2**32, 3], [2**31, 2**31], [-3 * 2**60, 2**62], [2**62, 2**62], [3, 4]], np.int64)
        self.same(models.one("ReduceL2", [models.value("x", models.INT64, 5, 2)], [models.value("y", models.INT64, 5, 1)],
                             opset=13, axes=[1]), {"x": x})

    def test_quantizing_what_has_no_range(self):
        model = models.one("DynamicQuantizeLinear", [models.value("x", models.FLOAT, "n")],
                           [models.value("y", models.UINT8, "n"), models.value("s", models.FLOAT), models.value("z", models.UINT8)])
        self.same(model, [{"x": np.asarray(x, np.float32)} for x in ([0, 0, 0], [], [-0.0], [2, 2], [-3, -3])])

    def test_reductions_of_nothing(self):
        """The mean is NaN, as NumPy's; ONNX leaves it undefined, and the CPU provider says 0."""
        for op in ("Sum", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp", "Mean"):
            for kind, dtype in ((models.FLOAT, np.float32), (models.DOUBLE, np.float64), (models.INT64, np.int64)):
                model = models.one("Reduce" + op, [models.value("x", kind, 2, "n", 3)], [models.value("y", kind, 2, 1, 3)],
                                   [models.constant("axes", [1])], opset=20)
                feed = {"x": np.zeros((2, 0, 3), dtype)}
                if op == "Mean" and kind != models.INT64:
                    self.assertTrue(np.isnan(provider.session(model).run(None, feed)[0]).all())
                else:
                    self.same(model, feed)

    def test_results_of_no_elements(self):
        x, shape = np.ones(1, np.float32), [0, 2**40, 2**18]
        y = [models.value("y", models.FLOAT, None, None, None)]
        self.same(models.one("Expand", [models.value("x", models.FLOAT, 1)], y, [models.constant("s", shape)]), {"x": x})
        self.same(models.one("Expand", [models.value("x", models.FLOAT, 1), models.value("s", models.INT64, 3)], y),
                  [{"x": x, "s": np.asarray(s, np.int64)} for s in (shape, [2, 0, 3], [2, 1, 3])])


class Sessions(Case):
    def test_several_threads_shapes_and_sessions_at_once(self):
        model = models.classifier()
        theirs = provider.cpu_session(model)
        runs = [provider.session(model, {"threads": t}) for t in (1, 1, 2)]
        feeds = [image(n) for n in (1, 2, 3, 5)]
        expected = [theirs.run(None, f) for f in feeds]
        wrong = []

        def work(seed):
            order = np.random.default_rng(seed).integers(0, 12, 60)
            for n in order:
                off = provider.difference(runs[n % 3].run(None, feeds[n % 4]), expected[n % 4], 1e-4, 1e-6)
                if off:
                    wrong.append(off)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_same_bits_every_time(self):
        model, feed = models.classifier(2), image(2)
        first = provider.session(model).run(None, feed)[0]
        for threads in (0, 1, 2):
            again = provider.session(model, {"threads": threads}).run(None, feed)[0]
            self.assertTrue(np.array_equal(first, again))

    def test_by_its_name(self):
        if provider.VERSION < (1, 25):
            self.skipTest("this ONNX Runtime knows only its own providers by name")
        run = ort.InferenceSession(models.classifier(1).SerializeToString(), providers=[(provider.NAME, {"threads": "1"})],
                                   enable_fallback=0)
        self.assertEqual(run.get_providers()[0], provider.NAME)
        self.assertTrue(np.isfinite(run.run(None, image(1))[0]).all())

    def test_profile_shows_our_nodes(self):
        with tempfile.TemporaryDirectory() as folder:
            def setup(settings):
                settings.enable_profiling = True
                settings.profile_file_prefix = os.path.join(folder, "profile")
            ours = provider.session(models.islands(3), setup=setup)  # 4 groups
            for _ in range(5):
                ours.run(None, {"x": np.ones((1, 16), np.float32)})
            with open(ours.end_profiling()) as file:
                events = json.load(file)
        mine = [e for e in events if e.get("args", {}).get("provider") == provider.NAME]
        self.assertEqual(len(mine), 4 * 5)
        self.assertEqual(len({e["name"] for e in mine}), 4)

    def test_optimized_model_cannot_be_saved_with_groups(self):
        """What ONNX Runtime says of compiled nodes, not a crash or a file that lacks them."""
        with tempfile.TemporaryDirectory() as folder:
            def setup(settings):
                settings.optimized_model_filepath = os.path.join(folder, "saved.onnx")
            with self.assertRaisesRegex(Exception, "compiled nodes"):
                provider.session(models.classifier(1), setup=setup)


class RealModels(Case):
    def test_networks_of_others(self):
        folder = os.environ.get("BRAID_DATA")
        found = [p for name in ("resnet20", "squeezenet1.0") for p in glob.glob(f"{folder}/models/{name}.onnx")]
        if not found:
            self.skipTest("BRAID_DATA has no models/resnet20.onnx and models/squeezenet1.0.onnx")
        for path in found:
            shape = provider.cpu_session(path).get_inputs()[0]
            dims = [d if isinstance(d, int) else 1 for d in shape.shape]
            self.same(path, {shape.name: random.random(dims, np.float32)}, relative=1e-3, absolute=1e-4)


if __name__ == "__main__":
    provider.register()
    unittest.main()
