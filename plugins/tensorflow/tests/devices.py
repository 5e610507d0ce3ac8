"""Virtual devices, and what goes wrong: each case in a process of its own, with its settings. TensorFlow is imported
once, before these are forked, and each loads the plug-in that BRAID_TF_PLUGIN names.

  devices.py [CASE...]"""
import os
import shutil
import subprocess
import sys
import tempfile


def no_devices():
    """No hardware: no devices, and TensorFlow goes on."""
    from common import tf
    assert tf.config.list_physical_devices("FPGA") == []
    assert float(tf.reduce_sum(tf.ones((3, 3)))) == 9


def platform_file():
    """A device for each part that the file names."""
    from common import braid, tf
    names = [device.name for device in tf.config.list_physical_devices("FPGA")]
    assert names == [f"/physical_device:FPGA:{i}" for i in range(3)], names
    for i in range(3):
        with tf.device(f"/FPGA:{i}"):
            x = tf.identity(tf.constant([1.0, -2.0]))
            assert tf.nn.relu(x).device.endswith(f"FPGA:{i}")
        assert braid.calls()[f"FPGA:{i}", "Relu"] == 1


def missing_kernels():
    """What TensorFlow runs elsewhere is told with its reason."""
    from common import braid, tf

    @tf.function
    def function(x):
        return tf.nn.relu(x) + tf.cast(tf.linalg.det(x), tf.float32) + tf.cast(tf.cast(x, tf.complex64), tf.float32)

    found = braid.missing(function.get_concrete_function(tf.TensorSpec((3, 3))))
    assert found["MatrixDeterminant"] == "no kernel for FPGA devices", found
    assert "DstT is complex64" in found["Cast"], found
    assert "Relu" not in found and "AddV2" not in found, found


def logged():
    """On request the log says once of each op without a kernel that it runs elsewhere, and why."""
    import logging
    from common import normal, put, tf
    said = []
    logging.getLogger("braid_tensorflow").addHandler(type("", (logging.Handler,), {
        "emit": lambda self, record: said.append(record.getMessage())})())

    @tf.function
    def function(x):
        return tf.nn.relu(x) + tf.cast(tf.cast(x, tf.complex64), tf.float32)

    x = put(normal(3, 3), "/FPGA:0")
    with tf.device("/CPU:0"):
        tf.linalg.det(tf.ones((3, 3)))
    assert not [text for text in said if "Determinant" in text], said
    with tf.device("/FPGA:0"):
        for _ in range(2):
            assert tf.linalg.det(x + x).device.endswith("CPU:0")
            assert function(x).shape == (3, 3)
            assert function(x[:2]).shape == (2, 3)
    told = [text for text in said if "Determinant" in text]
    assert told == ["TensorFlow runs MatrixDeterminant elsewhere than on FPGA devices: no kernel for FPGA devices"], said
    assert len([text for text in said if "Cast" in text and "DstT is complex64" in text]) == 1, said
    assert len(set(said)) == len(said), said
    assert not [text for text in said if "Relu" in text or "AddV2" in text or "__inference" in text], said


def overlap():
    """Branches on two devices run at the same time, in eager mode too: launching returns before the work is done."""
    import time
    from common import braid, normal, np, put, tf
    a = [put(normal(700, 700) / 27, f"/FPGA:{i}") for i in range(2)]

    def branch(i):
        y = a[i]
        with tf.device(f"/FPGA:{i}"):
            for _ in range(6):
                y = tf.matmul(y, a[i])
        return y

    for _ in range(2):
        start = time.perf_counter()
        results = [branch(0), branch(1)]
        launched = time.perf_counter() - start
        values = [result.numpy() for result in results]
        whole = time.perf_counter() - start
    # One thread launched both, so that two at once also means that launching does not wait.
    print(f"launching took {launched * 1e3:.1f} of {whole * 1e3:.1f} ms")
    assert braid.most_at_once() == 2, braid.most_at_once()
    for i in range(2):
        want = np.linalg.matrix_power(a[i].numpy().astype(np.float64), 7)
        assert np.abs(values[i] - want).max() < 1e-3 * np.abs(want).max()


def synchronous():
    """On request kernels end before their launch does; failures are then those of the op itself."""
    from common import normal, put, tf
    x = put(normal(64, 64), "/FPGA:0")
    with tf.device("/FPGA:0"):
        v = tf.Variable(x)
        tf.raw_ops.AssignSubVariableOp(resource=v.handle, value=tf.matmul(x, x))
    assert abs(float(v[0, 0]) - float((x - tf.matmul(x, x))[0, 0])) < 1e-4


def refused_update():
    """TensorFlow's own update would not wait for the device: it is refused, where wheels have no better way."""
    from common import tf
    with tf.device("/FPGA:0"):
        v = tf.Variable([1.0, 2.0])
        v.assign_sub([0.5, 0.5])
        assert list(v.numpy()) == [0.5, 1.5]
        try:
            tf.raw_ops.AssignSubVariableOp(resource=v.handle, value=tf.constant([1.0, 1.0]))
            assert list(v.numpy()) == [-0.5, 0.5]
        except tf.errors.UnimplementedError as error:
            assert "use v.assign(v - x)" in str(error), error


def out_of_memory():
    from common import expect, tf
    with tf.device("/FPGA:0"):
        x = tf.ones((500, 500))
        expect(tf.errors.ResourceExhaustedError, "BRAID_TF_MEMORY allows 4000000", lambda: tf.matmul(tf.tile(x, (4, 1)), x))
        assert float(tf.reduce_sum(tf.ones((100, 100)))) == 10000


def held():
    """The bytes that this process has in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory_returns():
    """What one size has freed is there for other sizes: the process holds no more than the device may."""
    from common import np, put, tf
    most = 0
    put(np.ones(90 << 18, np.float32), "/CPU:0")
    before = held()
    for megabytes in (90, 70, 60, 50, 44, 38, 30, 90):
        x = put(np.ones(megabytes << 18, np.float32), "/FPGA:0")
        assert float(tf.reduce_sum(x[:2])) == 2
        del x
        with tf.device("/FPGA:0"):
            assert float(tf.reduce_sum(tf.fill(((megabytes << 18) + megabytes,), 2.0)[-2:])) == 4
        most = max(most, held() - before)
    assert most < 250e6, f"{most} bytes more than before; BRAID_TF_MEMORY is 120000000"


def prepared_ops():
    """What is kept for the next call of an op with the same shapes is in the limit, and makes way for other shapes, ops
    and tensors."""
    from common import expect, np, put, tf
    x, image = put(np.ones((1 << 20) + 64, np.float32), "/FPGA:0"), put(np.ones((1, 64, 9000, 2), np.float32), "/FPGA:0")
    most = held()
    with tf.device("/FPGA:0"):
        for i in range(64):
            assert float(tf.raw_ops.ZerosLike(x=x[i:]).numpy()[-1]) == 0
            assert tf.raw_ops.LRN(input=image[:, :, i * 100:]).shape[2] == 9000 - i * 100
            most = max(most, held())
            if i == 0:
                before = held()
        assert float(tf.reduce_sum(tf.ones((5 << 20,)))) == 5 << 20
        assert most - before < 100e6, f"{most - before} bytes more than after the first shape; BRAID_TF_MEMORY is 60000000"
        expect(tf.errors.ResourceExhaustedError, "by prepared ops", lambda: tf.ones((20 << 20,)))
        assert float(tf.reduce_sum(tf.raw_ops.ZerosLike(x=x))) == 0


def failures():
    """The framework's error with our sentence; then the session goes on."""
    from common import expect, normal, put, tf
    x = put(normal(5, 4), "/FPGA:0")
    with tf.device("/FPGA:0"):
        expect(tf.errors.InvalidArgumentError, "inner dimensions 4 and 5 differ", lambda: tf.matmul(x, x))
        expect(tf.errors.InvalidArgumentError, "an index is out of range",
               lambda: tf.raw_ops.GatherV2(params=x, indices=put([9], "/FPGA:0"), axis=tf.constant(0)).numpy())
        assert float(tf.reduce_sum(tf.ones((3, 3)))) == 9
    tf.config.set_soft_device_placement(False)

    def on_another():
        with tf.device("/FPGA:7"):
            return tf.identity(x)

    expect(tf.errors.InvalidArgumentError, "FPGA:7", on_another)


def passed_failure():
    """What failed on a device is told where its result went to another one, and not used."""
    from common import expect, normal, np, put, tf
    x = put(normal(1200, 1200), "/FPGA:0")
    places = put(np.full(40000, 5000), "/FPGA:0")

    def on_both():
        with tf.device("/FPGA:0"):
            y = tf.gather(tf.matmul(x, x), places)
        with tf.device("/FPGA:1"):
            return float(tf.reduce_sum(tf.nn.relu(y)))

    expect(tf.errors.InvalidArgumentError, "an index is out of range", on_both)


def names_kept():
    """Loading the plug-in leaves the script's own names alone."""
    import __main__
    for name in ("_s", "_t", "_m", "_e", "load"):
        setattr(__main__, name, name)
    from common import braid
    assert braid.devices() == ["cpu"]
    for name in ("_s", "_t", "_m", "_e", "load"):
        assert getattr(__main__, name, None) == name, name


def short_spins():
    """OpenMP, which prints what it read when it is loaded, lets its threads spin for a short time unless the user says
    otherwise; programs that are started afterwards know nothing of it."""
    script = ("from common import tf\nimport os\nwith tf.device('/FPGA:0'):\n"
              "  assert float(tf.reduce_sum(tf.matmul(tf.ones((300, 300)), tf.ones((300, 300))))) == 300 ** 3\n"
              "os.system('echo the child has [$GOMP_SPINCOUNT]')")

    def said(**settings):
        kept = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
        done = subprocess.run([sys.executable, "-c", script], env={**kept, "OMP_DISPLAY_ENV": "verbose", **settings},
                              cwd=os.path.dirname(os.path.abspath(__file__)), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
        return done.stdout

    text = said()
    if "GOMP_SPINCOUNT" not in text:
        print("skipped: OpenMP is not GNU's")
        return
    assert "GOMP_SPINCOUNT = '10000'" in text and "the child has []" in text, text
    text = said(GOMP_SPINCOUNT="77")
    assert "GOMP_SPINCOUNT = '77'" in text and "the child has [77]" in text, text
    assert "GOMP_SPINCOUNT = '10000'" not in said(OMP_WAIT_POLICY="active")
    assert "GOMP_SPINCOUNT = '10000'" not in said(LD_PRELOAD="libgomp.so.1")


def device_lost():
    """A card that does not answer in time; the other device goes on."""
    from common import expect, normal, put, tf
    if len(tf.config.list_physical_devices("FPGA")) != 2:
        print("skipped: there is no OpenCL device")
        return
    x = put(normal(1200, 1200), "/FPGA:0")
    with tf.device("/FPGA:0"):
        expect(tf.errors.UnavailableError, "FPGA:0 (opencl0:deadline_ms=1)", lambda: tf.matmul(x, x).numpy())
        expect(tf.errors.UnavailableError, "FPGA:0", lambda: tf.nn.relu(x).numpy())
    with tf.device("/FPGA:1"):
        assert float(tf.reduce_sum(tf.ones((3, 3)))) == 9


def opencl():
    """The same on OpenCL's kernels; two shares of one device."""
    from common import braid, close, normal, put, tf
    if len(tf.config.list_physical_devices("FPGA")) != 2:
        print("skipped: there is no OpenCL device")
        return
    x, w = normal(2, 12, 12, 8), normal(3, 3, 8, 16)
    with tf.device("/CPU:0"):
        want = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME")), 2, 2, "SAME").numpy()
    for i in range(2):
        with tf.device(f"/FPGA:{i}"):
            y = tf.nn.conv2d(put(x, f"/FPGA:{i}"), put(w, f"/FPGA:{i}"), 1, "SAME")
            close(tf.nn.max_pool2d(tf.nn.relu(y), 2, 2, "SAME").numpy(), want, 1e-4, f"FPGA:{i}")
        assert braid.calls()[f"FPGA:{i}", "Conv2D"] == 1


def foreign_kernels():
    """Kernels of somebody else's bitstream, by a manifest: what they compute is what TensorFlow gets."""
    from common import put, tf
    if len(tf.config.list_physical_devices("FPGA")) != 1:
        print("skipped: there is no OpenCL device")
        return
    with tf.device("/FPGA:0"):  # the foreign kernel adds 100, so that it is seen to be the one that ran
        y = tf.nn.relu(put([1.0, -2.0, 3.0, 4.0], "/FPGA:0"))
        assert list(y.numpy()) == [101.0, 100.0, 103.0, 104.0], y.numpy()


def plans():
    """What `braid plan` wrote becomes devices for tf.device."""
    import json
    from common import braid, tf
    folder = os.path.dirname(os.environ["BRAID_TF_PLATFORM"])
    path = os.path.join(folder, "saved.plan")
    with open(path, "w") as file:
        file.write("# braid placement 2\n# x.cfg, batch 1, inference, by heft\ndevices card one cpu\nbatch 1\nordered\n"
                   "nodes 3\ncard 0_convolutional/Conv\none 1 two/Conv\ncpu soft\n")
    assert braid.devices() == ["card", "one", "two"]
    assert braid.device_strings(path) == {"0_convolutional/Conv": "/FPGA:0", "1 two/Conv": "/FPGA:1", "soft": "/CPU:0"}
    events = [{"ph": "M", "tid": i, "name": "thread_name", "args": {"name": name}} for i, name in
              enumerate(("gpu", "fpga0", "fpga1"))]
    events += [{"ph": "X", "tid": i, "name": f"n{i}", "args": {"op": "Conv"}} for i in range(3)]
    with open(path, "w") as file:
        json.dump({"traceEvents": events}, file)
    try:
        braid.device_strings(path)
        raise AssertionError("gpu is none of the devices")
    except ValueError as error:
        assert "gpu" in str(error)
    strings = braid.device_strings(path, {"gpu": "/CPU:0"})
    assert strings == {"n0": "/CPU:0", "n1": "/FPGA:0", "n2": "/FPGA:1"}
    with tf.device(strings["n2"]):
        assert tf.identity(tf.constant([1.0])).device.endswith("FPGA:1")


PLATFORM = """devices:
  - name: card
    device: cpu
    options: threads=1
  - name: one
    device: cpu
  - name: two
    device: cpu
    options: memory=separate
"""
KERNEL = """__kernel void add(__global const float *x, __global float *y, int n) {
  int i = get_global_id(0);
  if (i < n) y[i] = (x[i] > 0 ? x[i] : 0) + 100;
}
"""
MANIFEST = """source: add.cl
kernels:
  - name: add
    op: Relu
    launches:
      - function: add
        arguments:
          - in: 0
          - out: 0
          - int: count(in0)
        global: [count(in0)]
"""
CASES = {
    no_devices: {"BRAID_TF_DEVICES": "nosuch"},
    platform_file: {"BRAID_TF_PLATFORM": "$/platform.yaml"},
    plans: {"BRAID_TF_PLATFORM": "$/platform.yaml"},
    missing_kernels: {},
    logged: {"BRAID_TF_LOG_MISSING": "1"},
    overlap: {"BRAID_TF_DEVICES": "cpu:threads=1 cpu:threads=1"},
    synchronous: {"BRAID_TF_SYNCHRONOUS": "1"},
    refused_update: {},
    out_of_memory: {"BRAID_TF_MEMORY": "4000000"},
    memory_returns: {"BRAID_TF_MEMORY": "120000000"},
    prepared_ops: {"BRAID_TF_MEMORY": "60000000"},
    failures: {},
    passed_failure: {"BRAID_TF_DEVICES": "cpu:threads=1 cpu:threads=1"},
    names_kept: {},
    short_spins: {},
    device_lost: {"BRAID_TF_DEVICES": "opencl0:deadline_ms=1 cpu"},
    opencl: {"BRAID_TF_DEVICES": "opencl0.0:parts=2 opencl0.1:parts=2"},
    foreign_kernels: {"BRAID_TF_DEVICES": "opencl0:manifest=$/add.yaml"},
}


def start(case, settings, said):
    """The process that runs a case and writes into `said`; it ends as any program of Python does."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    os.environ.update(settings)
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    case()
    sys.exit(0)


def results(chosen, cases, folder):
    """Each case's name, what it printed and the status of its process; two run at a time."""
    waiting, running, done = list(chosen), {}, {}
    for name in chosen:
        while name not in done:
            while waiting and len(running) < 2:
                case = cases[waiting[0]]
                said = open(os.path.join(folder, f"{waiting[0]}.txt"), "w+")
                settings = {key: value.replace("$", folder) for key, value in CASES[case].items()}
                running[start(case, settings, said)] = waiting.pop(0), said
            process, status = os.wait()
            ended, said = running.pop(process)
            said.seek(0)
            done[ended] = said.read(), os.waitstatus_to_exitcode(status)
        yield name, *done[name]


def main():
    if not os.environ.get("BRAID_TF_PLUGIN"):
        sys.exit("devices.py: BRAID_TF_PLUGIN must name the plug-in, which is loaded with other settings for each case")
    import framework  # noqa: F401
    cases = {case.__name__: case for case in CASES}
    chosen = sys.argv[1:] or list(cases)
    folder = tempfile.mkdtemp()
    parent = os.getpid()
    failed = False
    try:
        for name, text in (("platform.yaml", PLATFORM), ("add.cl", KERNEL), ("add.yaml", MANIFEST)):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        for name, said, status in results(chosen, cases, folder):
            skipped = [line for line in said.splitlines() if line.startswith("skipped")]
            print(f"{name}: {skipped[0] if skipped else 'holds' if status == 0 else 'FAILED'}")
            if status:
                failed = True
                print(said[-3000:])
    finally:
        if os.getpid() == parent:
            shutil.rmtree(folder)
    sys.exit(failed)


if __name__ == "__main__":
    main()
