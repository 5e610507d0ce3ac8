"""Every op of the plug-in beside TensorFlow's own on the CPU, and that it was the plug-in's kernel that ran.

  ops.py [OP...]"""
import sys

from common import braid, close, expect, normal, np, positive, put, rng, tf

R = tf.raw_ops
cases = []


def case(op, *host, bound=2e-5, **operands):
    """Operands named in `host` are in host memory."""
    cases.append((op, host, bound, operands))


def sizes(values):
    return np.array(values, np.int32)


def elementwise():
    for op in ("Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign"):
        case(op, features=normal(3, 17) * 4)
    for op in ("Sigmoid", "Tanh", "Exp", "Abs", "Sign", "Floor", "Ceil", "Rint", "Round", "Sin", "Cos", "Erf", "IsNan",
               "IsInf", "IsFinite"):
        case(op, x=normal(3, 17) * 4)
    for op in ("IsNan", "IsInf", "IsFinite"):
        case(op, x=np.array([1, np.nan, np.inf, -np.inf], np.float32))
    for op in ("Log", "Sqrt", "Rsqrt", "Square", "Reciprocal", "Inv", "Neg", "ZerosLike", "OnesLike"):
        case(op, x=positive(3, 17) * 3)
    case("Selu", bound=1e-14, features=normal(3, 17).astype(np.float64))
    case("LeakyRelu", features=normal(5, 7), alpha=0.3)
    for op in ("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "MulNoNan", "FloorDiv", "Maximum", "Minimum",
               "SquaredDifference", "Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual"):
        case(op, x=normal(4, 1, 6), y=normal(3, 1))
        case(op, x=normal(2, 3), y=np.float32(2.5))
    case("DivNoNan", x=normal(6), y=np.array([0, 1, 2, 0, -3, 4], np.float32))
    case("Pow", x=positive(4, 5), y=normal(5))
    case("FloorMod", x=np.array([7, -7, 7, -7]), y=np.array([3, 3, -3, -3]))
    case("FloorMod", x=np.zeros((0, 2), np.int64), y=np.array([0, 2]))  # nothing is divided
    for op in ("AddV2", "Sub", "Mul", "Maximum", "Equal", "Less"):
        case(op, x=np.arange(12).reshape(3, 4), y=np.arange(4) + 5)
    for op in ("LogicalAnd", "LogicalOr"):
        case(op, x=normal(5) > 0, y=normal(5) > 0)
    case("LogicalNot", x=normal(5) > 0)
    case("SelectV2", condition=normal(3, 1) > 0, t=normal(3, 4), e=normal(4))
    case("Select", condition=normal(3) > 0, x=normal(3, 4), y=normal(3, 4))
    case("AddN", inputs=[normal(3, 4), normal(3, 4), normal(3, 4)])
    for target in (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int64, tf.bool):
        case("Cast", x=normal(3, 5) * 9, DstT=target)
    case("Cast", x=np.arange(5), DstT=tf.float32)
    case("Cast", x=normal(5) > 0, DstT=tf.float32)
    for op in ("Relu", "AddV2"):
        operands = {"features": normal(9).astype(np.float64)} if op == "Relu" else {"x": np.ones(3), "y": np.ones(3)}
        case(op, **operands)


def gradients():
    for op in ("ReluGrad", "Relu6Grad"):
        case(op, gradients=normal(4, 5), features=normal(4, 5) * 5)
    case("LeakyReluGrad", gradients=normal(4, 5), features=normal(4, 5), alpha=0.3)
    values = np.array([np.nan, np.inf, -np.inf, 2, -3, 0, 7], np.float32)
    for op in ("ReluGrad", "Relu6Grad"):
        for dtype in (np.float32, np.float64, np.float16):
            case(op, gradients=np.repeat(values, 7).astype(dtype), features=np.tile(values, 7).astype(dtype))
    case("SeluGrad", bound=1e-14, gradients=normal(3, 17).astype(np.float64), outputs=normal(3, 17).astype(np.float64))
    for op in ("EluGrad", "SeluGrad"):
        case(op, gradients=normal(4, 5), outputs=normal(4, 5) * 0.5)
    for op in ("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"):
        case(op, y=positive(4, 5), dy=normal(4, 5))
    slopes = np.array([0, np.inf, np.nan, 0, 2], np.float32)  # infinite, or none
    for op in ("SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"):
        case(op, y=slopes, dy=np.array([0, 0, 0, 3, 1], np.float32))
    for op in ("SoftplusGrad", "SoftsignGrad"):
        case(op, gradients=normal(4, 5), features=normal(4, 5))


def products():
    for a in (False, True):
        for b in (False, True):
            case("MatMul", a=normal(*((7, 5) if a else (5, 7))), b=normal(*((9, 7) if b else (7, 9))), transpose_a=a,
                 transpose_b=b)
            case("BatchMatMulV2", x=normal(*((2, 3, 7, 5) if a else (2, 3, 5, 7))),
                 y=normal(*((3, 9, 7) if b else (3, 7, 9))), adj_x=a, adj_y=b)
    case("MatMul", a=normal(64, 256), b=normal(256, 128))
    case("BiasAdd", value=normal(2, 4, 5, 6), bias=normal(6))
    case("BiasAdd", value=normal(7, 6), bias=normal(6))
    case("BiasAddGrad", out_backprop=normal(2, 4, 5, 6))
    case("BiasAddGrad", out_backprop=normal(9, 6))
    case("L2Loss", t=normal(40))


def output_size(size, kernel, stride, padding, dilation=1):
    return -(-size // stride) if padding == "SAME" else (size - (kernel - 1) * dilation - 1) // stride + 1


def convolutions():
    shapes = ((1, 3, 3, 16, 9, 1), (2, 3, 16, 32, 10, 1), (1, 1, 32, 64, 7, 1), (2, 1, 32, 64, 8, 1), (1, 5, 1, 6, 28, 1),
              (1, 3, 32, 32, 14, 1), (2, 7, 3, 64, 23, 1), (1, 3, 8, 8, 12, 2), (1, 3, 24, 17, 6, 1))
    for padding in ("SAME", "VALID"):
        for stride, kernel, inputs, filters, size, dilation in shapes:
            x, w = normal(2, size, size, inputs), normal(kernel, kernel, inputs, filters)
            out = output_size(size, kernel, stride, padding, dilation)
            dy = normal(2, out, out, filters)
            window = dict(strides=[1, stride, stride, 1], padding=padding, dilations=[1, dilation, dilation, 1])
            case("Conv2D", bound=2e-4, input=x, filter=w, **window)
            if dilation > 1:
                continue  # TensorFlow's CPU has no such gradient
            for count in (2, 4):  # the height and the width alone, or all sizes
                case("Conv2DBackpropInput", "input_sizes", bound=2e-4, input_sizes=sizes(x.shape[1:3] if count == 2 else
                                                                                      x.shape), filter=w,
                     out_backprop=dy, **window)
            case("Conv2DBackpropFilter", "filter_sizes", bound=2e-3, input=x, filter_sizes=sizes(w.shape),
                 out_backprop=dy, **window)
        for stride, kernel, channels, times, size in ((1, 3, 8, 1, 9), (2, 3, 16, 1, 10), (1, 3, 4, 2, 7), (1, 5, 32, 1, 11)):
            x, w = normal(2, size, size, channels), normal(kernel, kernel, channels, times)
            out = output_size(size, kernel, stride, padding)
            dy, window = normal(2, out, out, channels * times), dict(strides=[1, stride, stride, 1], padding=padding)
            case("DepthwiseConv2dNative", bound=2e-4, input=x, filter=w, **window)
            case("DepthwiseConv2dNativeBackpropInput", "input_sizes", bound=2e-4, input_sizes=sizes(x.shape), filter=w,
                 out_backprop=dy, **window)
            case("DepthwiseConv2dNativeBackpropFilter", "filter_sizes", bound=2e-3, input=x,
                 filter_sizes=sizes(w.shape), out_backprop=dy, **window)
    case("Conv2D", bound=2e-4, input=normal(1, 9, 9, 4), filter=normal(3, 3, 4, 8), strides=[1, 2, 2, 1],
         padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 2, 1, 0, 0])
    case("Conv2D", bound=2e-4, input=normal(1, 9, 9, 8), filter=normal(3, 3, 4, 8), strides=[1, 1, 1, 1], padding="SAME")


def pools():
    for padding in ("SAME", "VALID"):
        for stride, kernel, channels, size in ((2, 2, 6, 28), (2, 3, 32, 15), (1, 3, 16, 8), (3, 2, 20, 9), (2, 3, 64, 14)):
            x, out = normal(2, size, size, channels), output_size(size, kernel, stride, padding)
            window = dict(ksize=[1, kernel, kernel, 1], strides=[1, stride, stride, 1], padding=padding)
            with tf.device("/CPU:0"):
                y = R.MaxPool(input=x, **window).numpy()
            dy = normal(2, out, out, channels)
            case("MaxPool", input=x, **window)
            case("AvgPool", value=x, **window)
            case("MaxPoolGrad", orig_input=x, orig_output=y, grad=dy, **window)
            case("AvgPoolGrad", "orig_input_shape", orig_input_shape=sizes(x.shape), grad=dy, **window)


def norms():
    x = normal(2, 5, 6, 7)
    affine = dict(x=x, scale=positive(7), offset=normal(7), epsilon=1e-3)
    case("FusedBatchNormV3", bound=1e-4, mean=normal(7), variance=positive(7), is_training=False, **affine)
    case("FusedBatchNormV3", bound=1e-4, mean=normal(0), variance=normal(0), is_training=True, **affine)
    case("FusedBatchNormV3", bound=1e-4, mean=normal(7), variance=positive(7), is_training=True,
         exponential_avg_factor=0.1, **affine)
    case("Softmax", logits=normal(4, 10))
    case("Softmax", logits=normal(2, 3, 10))
    case("LogSoftmax", logits=normal(4, 10))
    case("SparseSoftmaxCrossEntropyWithLogits", features=normal(6, 10), labels=np.array([1, 2, 3, 9, 0, 5]))
    case("SparseSoftmaxCrossEntropyWithLogits", features=normal(3, 10), labels=sizes([1, 2, 3]))
    case("SoftmaxCrossEntropyWithLogits", features=normal(6, 10), labels=np.eye(10, dtype=np.float32)[:6])
    window = dict(depth_radius=2, bias=1.0, alpha=0.1, beta=0.75)
    with tf.device("/CPU:0"):
        y = R.LRN(input=x, **window).numpy()
    case("LRN", input=normal(2, 4, 4, 16), **window)
    case("LRNGrad", input_grads=normal(*x.shape), input_image=x, output_image=y, **window)


def reductions():
    for op in ("Sum", "Mean", "Max", "Min", "Prod"):
        for axes in ([0], [1, 2], [-1], [0, 1, 2], []):
            case(op, "axis", input=positive(3, 4, 5), axis=sizes(axes), keep_dims=len(axes) == 1)
    for op in ("Sum", "Max", "Mean"):  # more dimensions than ours have, as in the gradient of a tile
        case(op, "axis", input=normal(1, 2, 1, 3, 2, 5, 1, 2, 3, 2), axis=sizes([0, 2, -6, 6, 8]))
        case(op, "axis", input=normal(2, 1, 1, 3, 1, 2, 1, 1, 3), axis=sizes(range(9)))
    case("Any", "axis", input=normal(3, 4) > 0, axis=sizes([1]))
    case("All", "axis", input=normal(3, 4) > 0, axis=sizes([0]))
    case("Sum", "axis", input=np.arange(12).reshape(3, 4), axis=sizes([0]))
    case("ArgMax", "dimension", input=normal(3, 9), dimension=sizes(1))
    case("ArgMin", "dimension", input=normal(3, 9), dimension=sizes(0))
    case("Cumsum", "axis", x=normal(3, 5), axis=sizes(1), exclusive=True)
    case("TopKV2", "k", input=normal(3, 9), k=sizes(4))


def movement():
    case("Pad", "paddings", input=normal(2, 3, 4), paddings=sizes([[1, 0], [2, 1], [0, 3]]))
    case("PadV2", "paddings", input=normal(2, 3), paddings=sizes([[1, 0], [2, 1]]), constant_values=np.float32(7))
    case("MirrorPad", "paddings", input=normal(4, 5), paddings=sizes([[1, 2], [2, 1]]), mode="REFLECT")
    case("MirrorPad", "paddings", input=normal(4, 5, 2), paddings=sizes([[1, 4], [5, 0], [0, 0]]), mode="SYMMETRIC")
    case("ConcatV2", "axis", values=[normal(2, 3), normal(2, 4), normal(2, 1)], axis=sizes(1))
    case("ConcatV2", "axis", values=[normal(2, 3), normal(1, 3)], axis=sizes(-2))
    case("Pack", values=[normal(3, 4), normal(3, 4)], axis=1)
    case("Pack", values=[np.float32(1), np.float32(2)], axis=0)
    case("Split", "axis", axis=sizes(1), value=normal(3, 8), num_split=4)
    case("SplitV", "size_splits", "axis", value=normal(3, 8), size_splits=sizes([2, 5, -1]), axis=sizes(1), num_split=3)
    case("Unpack", value=normal(3, 4, 2), num=4, axis=1)
    case("Unpack", value=normal(3), num=3, axis=0)
    case("Tile", "multiples", input=normal(2, 3), multiples=sizes([2, 3]))
    case("BroadcastTo", "shape", input=normal(3, 1), shape=sizes([2, 3, 4]))
    case("Fill", "dims", dims=sizes([2, 3]), value=np.float32(4))
    case("Transpose", "perm", x=normal(2, 3, 4), perm=sizes([2, 0, 1]))
    case("GatherV2", "axis", params=normal(5, 4), indices=np.array([1, 3, 0]), axis=sizes(0))
    case("GatherV2", "axis", params=normal(5, 4), indices=np.array([[1, 3], [0, 2]]), axis=sizes(1))
    for axis, batch, shape in ((1, 1, (2, 4)), (2, 1, (2, 4)), (3, 1, (2,)), (2, 2, (2, 3, 2)), (1, -1, (2, 5)),
                               (2, 0, (2, 2))):
        case("GatherV2", "axis", params=normal(2, 3, 3, 4), indices=rng.integers(0, 3, shape).astype(np.int32),
             axis=sizes(axis), batch_dims=batch)
    hot = dict(depth=sizes(5), on_value=np.float32(2), off_value=np.float32(-1))
    case("OneHot", "depth", indices=np.array([1, 3, 0, -1]), **hot)
    case("OneHot", "depth", indices=np.array([[1, 3], [0, 7]]), axis=1, **hot)
    case("ReverseV2", "axis", tensor=normal(3, 4), axis=sizes([1]))


def slices():
    where = ("begin", "end", "strides", "shape")
    x = normal(4, 5, 6)
    case("StridedSlice", *where, input=x, begin=sizes([1, 0]), end=sizes([3, 5]), strides=sizes([1, 2]))
    case("StridedSlice", *where, input=x, begin=sizes([-1, 0, 2]), end=sizes([-5, 5, 3]), strides=sizes([-1, 2, 1]),
         begin_mask=2, end_mask=1, shrink_axis_mask=4)
    case("StridedSlice", *where, input=x, begin=sizes([0, 0, 1]), end=sizes([0, 0, 2]), strides=sizes([1, 1, 1]),
         ellipsis_mask=1, new_axis_mask=2, shrink_axis_mask=4)
    case("StridedSliceGrad", *where, shape=sizes([4, 5, 6]), begin=sizes([1, 0]), end=sizes([3, 5]),
         strides=sizes([1, 2]), dy=normal(2, 3, 6))
    case("StridedSliceGrad", *where, shape=sizes([4, 5]), begin=sizes([0, 2]), end=sizes([0, 3]), strides=sizes([1, 1]),
         dy=normal(4), begin_mask=1, end_mask=1, shrink_axis_mask=2)
    case("Slice", "begin", "size", input=normal(4, 5), begin=sizes([1, 2]), size=sizes([2, -1]))


def empty():
    for stride, size in ((3, 2), (1, 3)):  # a window of 4 that fits nowhere
        window = dict(strides=[1, stride, stride, 1], padding="VALID")
        case("Conv2D", input=normal(2, size, 9, 3), filter=normal(4, 2, 3, 5), **window)
        case("DepthwiseConv2dNative", input=normal(2, size, 9, 3), filter=normal(4, 2, 3, 2), **window)
        case("MaxPool", input=normal(2, size, 9, 3), ksize=[1, 4, 2, 1], **window)
        case("AvgPool", value=normal(2, size, 9, 3), ksize=[1, 4, 2, 1], **window)
    case("Relu", features=normal(0, 3))
    case("MatMul", a=normal(0, 3), b=normal(3, 2))
    case("Sum", "axis", input=normal(0, 3), axis=sizes([0]))
    case("ConcatV2", "axis", values=[normal(0, 3), normal(2, 3)], axis=sizes(0))
    case("ConcatV2", "axis", values=[normal(0, 3), normal(0, 5)], axis=sizes(1))
    case("ConcatV2", "axis", values=[normal(2, 0), normal(3, 0)], axis=sizes(0))
    case("StridedSlice", "begin", "end", "strides", input=normal(2, 4), begin=sizes([0, -5]), end=sizes([0, 0]),
         strides=sizes([1, -1]), begin_mask=1, end_mask=3)
    # A window that is larger than the image. The filter's gradient TensorFlow's CPU leaves as the memory was.
    x, w = normal(2, 2, 2, 3), normal(3, 3, 3, 4)
    for stride in (1, 2):
        window = dict(strides=[1, stride, stride, 1], padding="VALID")
        case("Conv2D", input=x, filter=w, **window)
        case("DepthwiseConv2dNative", input=x, filter=w, **window)
        case("Conv2DBackpropInput", "input_sizes", input_sizes=sizes(x.shape), filter=w, out_backprop=normal(2, 0, 0, 4),
             **window)
        case("MaxPool", input=x, ksize=[1, 3, 3, 1], **window)
        case("AvgPool", value=x, ksize=[1, 3, 3, 1], **window)

    case("ConcatV2", "axis", values=[normal(0, 2), normal(0, 1), normal(0, 0)], axis=sizes(1))
    for begin, end, stride in ((-5, -4, -1), (-9, 2, -2), (2, 1, 1), (5, 9, 2)):
        window = dict(begin=sizes([begin]), end=sizes([end]), strides=sizes([stride]))
        case("StridedSlice", "begin", "end", "strides", input=normal(3), **window)
        case("StridedSliceGrad", "shape", "begin", "end", "strides", shape=sizes([3]), dy=normal(0), **window)


def many():
    """More operands than most ops have."""
    for count in (33, 70, 300):
        parts = [normal(2, 3) for _ in range(count)]
        case("ConcatV2", "axis", values=parts, axis=sizes(1))
        case("Pack", values=parts, axis=1)
        case("AddN", inputs=parts, bound=1e-4)
        case("Unpack", value=normal(count, 3), num=count, axis=0)
        case("Split", "axis", axis=sizes(0), value=normal(2 * count, 3), num_split=count)


def refused():
    """What TensorFlow's CPU refuses is refused by the plug-in, and not taken for something else."""
    x, ones = normal(4, 3), sizes([1, 1])
    for op, host, operands in (
            ("BiasAdd", (), dict(value=x, bias=normal(1))), ("BiasAdd", (), dict(value=normal(4, 1), bias=normal(5))),
            ("AddN", (), dict(inputs=[normal(3), x])), ("MatMul", (), dict(a=normal(2, 4, 3), b=normal(2, 3, 4))),
            ("ConcatV2", ("axis",), dict(values=[normal(0, 5), x], axis=sizes(0))),
            ("BroadcastTo", ("shape",), dict(input=normal(3, 1), shape=sizes([1, 4]))),
            ("BroadcastTo", ("shape",), dict(input=normal(3, 1), shape=sizes([4]))),
            ("SplitV", ("size_splits", "axis"), dict(value=x, size_splits=sizes([2, -2]), axis=sizes(0), num_split=2)),
            ("MirrorPad", ("paddings",), dict(input=normal(3), paddings=sizes([[5, 0]]), mode="REFLECT")),
            ("MirrorPad", ("paddings",), dict(input=normal(0, 3), paddings=sizes([[0, 0], [1, 1]]), mode="REFLECT")),
            ("MirrorPad", ("paddings",), dict(input=normal(0, 3), paddings=sizes([[0, 1], [1, 1]]), mode="SYMMETRIC")),
            ("FloorMod", (), dict(x=np.array([7, 5]), y=np.array([3, 0]))),
            ("FloorMod", (), dict(x=np.ones(1 << 20, np.int64), y=np.arange(1 << 20)[::-1].copy())),
            ("StridedSlice", ("begin", "end", "strides"), dict(input=x, begin=ones, end=ones, strides=-ones,
                                                               shrink_axis_mask=1)),
            ("StridedSlice", ("begin", "end", "strides"), dict(input=normal(1, 1, 1, 1, 1, 1), begin=ones, end=ones,
                                                               strides=ones, ellipsis_mask=3)),
            ("Conv2DBackpropInput", ("input_sizes",), dict(input_sizes=sizes([7, 5, 5, 3]), filter=normal(3, 3, 3, 4),
                                                           out_backprop=normal(2, 5, 5, 4), strides=[1, 1, 1, 1],
                                                           padding="SAME"))):
        for device in ("/CPU:0", "/FPGA:0"):
            expect(tf.errors.InvalidArgumentError, "", lambda: results(op, device, operands, host))
    expect(tf.errors.UnimplementedError, "more than 8 dimensions", lambda: results(
        "OneHot", "/FPGA:0", dict(indices=np.zeros((1,) * 8, np.int64), depth=sizes(3), on_value=np.float32(1),
                                  off_value=np.float32(0)), ("depth",)))


def refused_windows():
    """Windows that move over the batch or the channels, with TensorFlow's code."""
    x, w, deep = normal(2, 5, 5, 4), normal(3, 3, 4, 4), normal(3, 3, 4, 1)
    image, filters, deep_filters = sizes(x.shape), sizes(w.shape), sizes(deep.shape)
    for window in (dict(strides=[2, 1, 1, 1]), dict(strides=[1, 1, 1, 2]), dict(strides=[1, 1, 1]),
                   dict(strides=[1, 1, 1, 1], dilations=[2, 1, 1, 1]), dict(strides=[1, 1, 1, 1], dilations=[1, 1, 1, 2])):
        for op, host, operands in (
                ("Conv2D", (), dict(input=x, filter=w)),
                ("Conv2DBackpropInput", ("input_sizes",), dict(input_sizes=image, filter=w, out_backprop=x)),
                ("Conv2DBackpropFilter", ("filter_sizes",), dict(input=x, filter_sizes=filters, out_backprop=x)),
                ("DepthwiseConv2dNative", (), dict(input=x, filter=deep)),
                ("DepthwiseConv2dNativeBackpropInput", ("input_sizes",), dict(input_sizes=image, filter=deep,
                                                                              out_backprop=x)),
                ("DepthwiseConv2dNativeBackpropFilter", ("filter_sizes",), dict(input=x, filter_sizes=deep_filters,
                                                                                out_backprop=x))):
            operands = dict(operands, padding="SAME", **window)
            codes = [code_of(lambda: results(op, device, operands, host)) for device in ("/CPU:0", "/FPGA:0")]
            if "Depthwise" in op and "dilations" in window:  # TensorFlow's CPU has none at all, or passes them over
                codes[0] = codes[1]
            assert codes[1] and codes[0] == codes[1], f"{op} with {window}: {codes}"


def code_of(call):
    """The error's class; None: there is none."""
    try:
        call()
    except tf.errors.OpError as error:
        return type(error).__name__
    return None


def is_array(value):
    return isinstance(value, (np.ndarray, np.generic))


def operands_on(device, operands, host):
    placed = {}
    for name, value in operands.items():
        if is_array(value):
            placed[name] = put(value, "/CPU:0" if name in host else device)
        elif isinstance(value, list) and is_array(value[0]):
            placed[name] = [put(part, device) for part in value]
        else:
            placed[name] = value
    return placed


def results(op, device, operands, host):
    placed = operands_on(device, operands, host)
    with tf.device(device):
        result = getattr(R, op)(**placed)
    return [part.numpy() for part in (result if isinstance(result, (list, tuple)) else [result])]


def check(op, host, bound, operands):
    want = results(op, "/CPU:0", operands, host)
    before = braid.calls().get(("FPGA:0", op), 0)
    got = results(op, "/FPGA:0", operands, host)
    assert braid.calls()["FPGA:0", op] == before + 1, f"{op} was not run by the plug-in"
    for i, expected in enumerate(want[:3] if op == "FusedBatchNormV3" else want):  # behind: for the gradient, its own
        close(got[i], expected, bound, f"{op}, result {i}, of {operands}")


def batch_norm_gradient():
    """Forward and backward on any of the two devices: what one hands to the other is the same."""
    x, scale, offset, dy = normal(4, 5, 6, 16), positive(16), normal(16), normal(4, 5, 6, 16)
    window, found = dict(epsilon=1e-3, is_training=True), []
    for forward in ("/CPU:0", "/FPGA:0"):
        with tf.device(forward):
            y = R.FusedBatchNormV3(x=put(x, forward), scale=put(scale, forward), offset=put(offset, forward),
                                   mean=put(normal(0), forward), variance=put(normal(0), forward), **window)
        for backward in ("/CPU:0", "/FPGA:0"):
            kept = {f"reserve_space_{i + 1}": put(y[3 + i].numpy(), backward) for i in range(3)}
            with tf.device(backward):
                found.append(R.FusedBatchNormGradV3(y_backprop=put(dy, backward), x=put(x, backward),
                                                    scale=put(scale, backward), **kept, **window))
    assert ("FPGA:0", "FusedBatchNormGradV3") in braid.calls()
    for other in found[1:]:
        for i in range(3):
            close(other[i].numpy(), found[0][i].numpy(), 1e-4, f"the gradient of batch normalization, {i}")


def biases_of_other_channels():
    for value in (normal(3, 1), normal(3, 4)):
        with tf.device("/FPGA:0"):
            expect(tf.errors.InvalidArgumentError, "as many as there are channels",
                   lambda: R.BiasAdd(value=put(value, "/FPGA:0"), bias=put(normal(2), "/FPGA:0")).numpy())


def indices_outside():
    for indices, more in (([-1], {}), ([5], {}), ([[0], [5]], dict(batch_dims=1)), ([[0], [-1]], dict(batch_dims=1))):
        params, places = put(normal(2, 5), "/FPGA:0"), put(np.array(indices), "/FPGA:0")
        with tf.device("/FPGA:0"):
            expect(tf.errors.InvalidArgumentError, "an index is out of range",
                   lambda: R.GatherV2(params=params, indices=places, axis=1, **more).numpy())


if __name__ == "__main__":
    tf.config.set_soft_device_placement(False)
    for family in (elementwise, gradients, products, convolutions, pools, norms, reductions, movement, slices, empty, many):
        family()
    chosen = [c for c in cases if len(sys.argv) == 1 or c[0] in sys.argv[1:]]
    for c in chosen:
        check(*c)
    if len(sys.argv) == 1:
        batch_norm_gradient()
        refused()
        refused_windows()
        indices_outside()
        biases_of_other_channels()
    print(f"{len(chosen)} cases of {len({c[0] for c in chosen})} ops agree with TensorFlow's CPU")
