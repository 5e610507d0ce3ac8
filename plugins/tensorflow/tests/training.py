"""Training on FPGA:0 gives the losses of TensorFlow's CPU: LeNet and an LSTM by Keras's fit, a network by a GradientTape
loop with momentum, ResNet-20's gradients. What a network needs must have run on the device.

  training.py [lenet|lstm|groups|tape|resnet20]"""
import sys

from common import braid, close, normal, np, rng, tf
import keras

layers = keras.layers
DEVICES = ("/CPU:0", "/FPGA:0")


def calls_since(before):
    return {op: count - before.get((device, op), 0) for (device, op), count in braid.calls().items()
            if count > before.get((device, op), 0)}


def needs(before, ops):
    ran = calls_since(before)
    missing = [op for op in ops.split() if op not in ran]
    assert not missing, f"not run by the plug-in: {missing}; it ran {ran}"


def losses_of(make, x, y, device, optimizer, **options):
    keras.utils.set_random_seed(3)
    with tf.device(device):
        model = make()
        model.compile(optimizer(), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        return model.fit(x, y, verbose=0, shuffle=False, **options).history["loss"]


def compare_fit(make, x, y, optimizer, ops, bound, **options):
    want = losses_of(make, x, y, DEVICES[0], optimizer, **options)
    before = braid.calls()
    got = losses_of(make, x, y, DEVICES[1], optimizer, **options)
    needs(before, ops)
    close(np.array(got), np.array(want), bound, "the losses")
    assert got[-1] < got[0], f"nothing was learnt: {got}"


def lenet(activation="relu"):
    return keras.Sequential([keras.Input((28, 28, 1)), layers.Conv2D(6, 5, padding="same", activation=activation),
                             layers.MaxPooling2D(), layers.Conv2D(16, 5, activation=activation),
                             layers.MaxPooling2D(), layers.Flatten(), layers.Dense(120, activation=activation),
                             layers.Dense(84, activation=activation), layers.Dense(10)])


def test_lenet():
    y = rng.integers(0, 10, 192)
    x = normal(192, 28, 28, 1) + np.eye(28, dtype=np.float32)[y][:, None, :, None] * 3
    compare_fit(lenet, x, y, lambda: keras.optimizers.Adam(1e-3),
                "Conv2D Conv2DBackpropInput Conv2DBackpropFilter MaxPool MaxPoolGrad Relu ReluGrad MatMul BiasAdd "
                "BiasAddGrad SparseSoftmaxCrossEntropyWithLogits Sqrt RealDiv Sub Mul AddV2", 1e-4, batch_size=32,
                epochs=3)


def test_lstm():
    def classifier():
        return keras.Sequential([keras.Input((12, 8)), layers.LSTM(24), layers.Dense(4)])

    x = normal(160, 12, 8)
    y = (x.sum((1, 2)) > 0).astype(int) + 2 * (x[:, 0, 0] > 0)
    compare_fit(classifier, x, y, lambda: keras.optimizers.SGD(0.3, momentum=0.9),
                "MatMul BiasAdd Sigmoid SigmoidGrad Tanh TanhGrad Split ConcatV2 StridedSlice Transpose", 1e-4,
                batch_size=32, epochs=3)


def test_groups():
    """Convolutions in groups, which Keras gives to XLA, and images made larger: the gradient has 10 dimensions."""
    def classifier():
        return keras.Sequential([keras.Input((6, 6, 4)), layers.Conv2D(8, 3, groups=2, activation="relu"),
                                 layers.UpSampling2D(2), layers.Conv2D(8, 3, groups=4, padding="same"),
                                 layers.GlobalAveragePooling2D(), layers.Dense(3)])

    y = rng.integers(0, 3, 48)
    x = normal(48, 6, 6, 4) + np.eye(4, dtype=np.float32)[y][:, None, None, :] * 3
    compare_fit(classifier, x, y, lambda: keras.optimizers.Adam(1e-2),
                "Conv2D Conv2DBackpropInput Conv2DBackpropFilter Sum", 1e-4, batch_size=16, epochs=2)


def tape_losses(device, x, y):
    keras.utils.set_random_seed(3)
    with tf.device(device):
        model = keras.Sequential([keras.Input((28, 28, 1)), layers.Conv2D(6, 5, activation="tanh"),
                                  layers.AveragePooling2D(2), layers.Conv2D(16, 5, activation="sigmoid"),
                                  layers.MaxPooling2D(), layers.Flatten(), layers.Dense(84, activation="elu"),
                                  layers.Dense(10)])
        weights = [weight.value for weight in model.trainable_weights]
        momenta = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
        losses = []
        for _ in range(6):
            with tf.GradientTape() as tape:
                scores = model(x)
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, scores))
            for weight, momentum, gradient in zip(weights, momenta, tape.gradient(loss, weights)):
                momentum.assign(0.9 * momentum + gradient)
                weight.assign_sub(0.1 * momentum)
            losses.append(float(loss))
    return np.array(losses)


def test_tape():
    x, y = normal(64, 28, 28, 1), rng.integers(0, 10, 64)
    want = tape_losses(DEVICES[0], x, y)
    before = braid.calls()
    got = tape_losses(DEVICES[1], x, y)
    needs(before, "Conv2D Conv2DBackpropFilter Tanh TanhGrad Sigmoid SigmoidGrad EluGrad AvgPool AvgPoolGrad MaxPoolGrad")
    close(got, want, 1e-5, "the losses of the loop")


def resnet20(activation):
    def block(x, filters, stride, active=True):
        x = layers.Conv2D(filters, 3, stride, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        return layers.Activation(activation)(x) if active else x

    inputs = keras.Input((32, 32, 3))
    x = block(inputs, 16, 1)
    for filters, first in ((16, 1), (32, 2), (64, 2)):
        for number in range(3):
            stride = first if number == 0 else 1
            y = block(block(x, filters, stride), filters, 1, False)
            if stride != 1:
                x = layers.Conv2D(filters, 1, stride, use_bias=False)(x)
            x = layers.Activation(activation)(layers.Add()([x, y]))
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def resnet_gradients(device, x, y):
    keras.utils.set_random_seed(3)
    with tf.device(device):
        # A Relu's gradient jumps where rounding moves a value over 0: this is compared with a smooth one.
        model = resnet20("tanh")
        with tf.GradientTape() as tape:
            scores = model(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, scores))
        gradients = tape.gradient(loss, model.trainable_weights)
    return float(loss), [gradient.numpy() for gradient in gradients]


def test_resnet20():
    x, y = normal(16, 32, 32, 3), rng.integers(0, 10, 16)
    loss, want = resnet_gradients(DEVICES[0], x, y)
    before = braid.calls()
    our_loss, got = resnet_gradients(DEVICES[1], x, y)
    needs(before, "Conv2D Conv2DBackpropInput Conv2DBackpropFilter Mean Rsqrt AddV2 MatMul")
    assert abs(loss - our_loss) < 1e-5 * loss, f"{our_loss}, not {loss}"
    for i, gradient in enumerate(want):
        error = np.linalg.norm(got[i] - gradient) / np.linalg.norm(gradient)
        assert error < 2e-4, f"gradient {i} {gradient.shape}: {error}"


def test_updates():
    """Nothing reads a variable before what is queued for it: large products in a chain, each into the variable."""
    x = normal(256, 256) / 16
    found = []
    for device in DEVICES:
        with tf.device(device):
            a, v = tf.identity(tf.constant(x)), tf.Variable(x)
            for _ in range(20):
                v.assign_sub(tf.matmul(v, a))
                v.assign_add(0.5 * a)
            found.append(v.numpy())
    close(found[1], found[0], 1e-3, "a variable")


TESTS = {"updates": test_updates, "lenet": test_lenet, "lstm": test_lstm, "groups": test_groups, "tape": test_tape,
         "resnet20": test_resnet20}
if __name__ == "__main__":
    for name in sys.argv[1:] or TESTS:
        TESTS[name]()
        print(f"{name}: as on TensorFlow's CPU")
