"""The networks of exports.py as PyTorch modules: torchvision's, sequence models, transformers, and single layers.

NETS maps a name to (group, factory, shape of one sample). Every network takes one float32 input (batch, *shape) and gives
scores (batch, CLASSES), so that each can be trained by a classification loss; networks over tokens round their input."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = 10
NETS = {}


def net(group, name, *shape):
    def add(factory):
        NETS[name] = (group, factory, shape)
        return factory
    return add


class Function(nn.Module):
    """A function of the input and of named parameters or modules."""

    def __init__(self, function, **members):
        super().__init__()
        for name, member in members.items():
            setattr(self, name, member)
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def parameter(*shape, scale=0.2):
    return nn.Parameter(torch.randn(*shape) * scale)


# --- torchvision -----------------------------------------------------------------------------------------------------
def add_torchvision():
    import torchvision.models as models
    sides = {"alexnet": 64, "inception_v3": 96}
    names = ("alexnet vgg11_bn resnet18 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_1 mobilenet_v2 "
             "mobilenet_v3_small mobilenet_v3_large shufflenet_v2_x0_5 mnasnet0_5 efficientnet_b0 efficientnet_v2_s "
             "regnet_y_400mf regnet_x_400mf convnext_tiny swin_t swin_v2_t").split()
    for name in names:
        side = sides.get(name, 64)
        NETS[name] = ("zoo", lambda name=name: getattr(models, name)(weights=None, num_classes=CLASSES), (3, side, side))
    NETS["googlenet"] = ("zoo", lambda: models.googlenet(weights=None, num_classes=CLASSES, aux_logits=False,
                                                         init_weights=False), (3, 64, 64))
    NETS["vit"] = ("zoo", lambda: models.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=CLASSES), (3, 32, 32))
    NETS["fcn"] = ("zoo", lambda: Function(lambda m, x: m.net(x)["out"].mean((2, 3)),
                                           net=models.segmentation.fcn_resnet50(weights=None, weights_backbone=None,
                                                                                num_classes=CLASSES)), (3, 64, 64))


@net("zoo", "lenet", 1, 28, 28)
def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 84), nn.Tanh(), nn.Linear(84, CLASSES))


class Residual(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                                  nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o))
        self.short = nn.Identity() if i == o else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


@net("zoo", "resnet_cifar", 3, 32, 32)
def resnet_cifar():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), Residual(8, 8, 1),
                         Residual(8, 16, 2), Residual(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(32, CLASSES))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
        self.down1, self.down2, self.middle = block(3, 8), block(8, 16), block(16, 32)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.join2, self.join1, self.head = block(32, 16), block(16, 8), nn.Conv2d(8, CLASSES, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.join2(torch.cat([self.up2(c), b], 1))
        a = self.join1(torch.cat([self.up1(b), a], 1))
        return self.head(a).mean((2, 3))


NETS["unet"] = ("zoo", UNet, (3, 32, 32))


# --- sequences -------------------------------------------------------------------------------------------------------
class Recurrent(nn.Module):
    def __init__(self, kind, last=True, **options):
        super().__init__()
        self.rnn = kind(12, 16, batch_first=True, **options)
        self.last = last
        self.head = nn.Linear(16 * (2 if options.get("bidirectional") else 1), CLASSES)

    def forward(self, x):
        y, state = self.rnn(x)
        if self.last == "state":
            state = state[0] if isinstance(state, tuple) else state
            return self.head(state[-1])
        return self.head(y[:, -1] if self.last else y.mean(1))


for _name, _kind, _options in (
        ("lstm", nn.LSTM, {}), ("lstm_mean", nn.LSTM, {"last": False}), ("lstm_state", nn.LSTM, {"last": "state"}),
        ("lstm_bidirectional", nn.LSTM, {"bidirectional": True}), ("lstm_two_layers", nn.LSTM, {"num_layers": 2}),
        ("gru", nn.GRU, {}), ("gru_bidirectional", nn.GRU, {"bidirectional": True, "last": False}),
        ("gru_two_layers", nn.GRU, {"num_layers": 2, "last": "state"}), ("rnn_tanh", nn.RNN, {}),
        ("rnn_relu", nn.RNN, {"nonlinearity": "relu"}), ("lstm_no_bias", nn.LSTM, {"bias": False})):
    NETS[_name] = ("sequence", lambda kind=_kind, options=_options: Recurrent(kind, **options), (9, 12))


def tokens(x, count=50):
    return (x.abs() * 7).long() % count


@net("sequence", "embedding_mean", 1, 12)
def embedding_mean():
    return Function(lambda m, x: m.head(m.table(tokens(x[:, 0])).mean(1)), table=nn.Embedding(50, 16),
                    head=nn.Linear(16, CLASSES))


@net("sequence", "embedding_lstm", 1, 12)
def embedding_lstm():
    return Function(lambda m, x: m.head(m.rnn(m.table(tokens(x[:, 0])))[0][:, -1]), table=nn.Embedding(50, 16),
                    rnn=nn.LSTM(16, 16, batch_first=True), head=nn.Linear(16, CLASSES))


@net("sequence", "text_cnn", 1, 20)
def text_cnn():
    def forward(m, x):
        e = m.table(tokens(x[:, 0])).transpose(1, 2)
        return m.head(torch.cat([F.relu(c(e)).amax(2) for c in m.convs], 1))
    return Function(forward, table=nn.Embedding(50, 16), convs=nn.ModuleList(nn.Conv1d(16, 8, k) for k in (2, 3, 4)),
                    head=nn.Linear(24, CLASSES))


@net("sequence", "tcn", 8, 32)
def tcn():
    def forward(m, x):
        for i, conv in enumerate(m.convs):
            x = F.relu(conv(F.pad(x, (2 * 2**i, 0)))) + x
        return m.head(x[:, :, -1])
    return Function(forward, convs=nn.ModuleList(nn.Conv1d(8, 8, 3, dilation=2**i) for i in range(3)),
                    head=nn.Linear(8, CLASSES))


@net("sequence", "padding_mask", 8, 12)
def padding_mask():
    """Means over the steps before a length that the data decides."""
    def forward(m, x):
        lengths = (x[:, 0, 0].abs() * 7).long() % 8 + 1
        mask = (torch.arange(8) < lengths[:, None]).to(x.dtype)
        return m.head((m.body(x) * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))
    return Function(forward, body=nn.Linear(12, 16), head=nn.Linear(16, CLASSES))


# --- transformers ----------------------------------------------------------------------------------------------------
class Attention(nn.Module):
    def __init__(self, width, heads, causal=False, bias=True):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        self.heads, self.causal = heads, causal

    def forward(self, x, mask=None, rotate=None):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        if rotate is not None:
            q, k = rotate(q), rotate(k)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Block(nn.Module):
    def __init__(self, width, norm=nn.LayerNorm, scale=False, **attention):
        super().__init__()
        self.norm1, self.attention, self.norm2 = norm(width), Attention(width, 4, **attention), norm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 0.5)) if scale else None

    def forward(self, x, **options):
        a = self.attention(self.norm1(x), **options)
        x = x + (a if self.scale is None else self.scale * a)
        return x + self.mlp(self.norm2(x))


@net("transformer", "encoder_layer", 9, 16)
def encoder_layer():
    return Function(lambda m, x: m.head(m.layer(x).mean(1)),
                    layer=nn.TransformerEncoderLayer(16, 4, 32, dropout=0, batch_first=True), head=nn.Linear(16, CLASSES))


@net("transformer", "encoder_pre_norm", 9, 16)
def encoder_pre_norm():
    return Function(lambda m, x: m.head(m.layer(x).mean(1)), head=nn.Linear(16, CLASSES),
                    layer=nn.TransformerEncoderLayer(16, 4, 32, dropout=0, batch_first=True, norm_first=True,
                                                     activation="gelu"))


@net("transformer", "multihead_attention", 9, 16)
def multihead_attention():
    return Function(lambda m, x: m.head(m.mha(x, x, x, need_weights=False)[0].mean(1)),
                    mha=nn.MultiheadAttention(16, 4, batch_first=True), head=nn.Linear(16, CLASSES))


@net("transformer", "position_embedding", 9, 16)
def position_embedding():
    return Function(lambda m, x: m.head(m.block(x + m.position).mean(1)), position=parameter(1, 9, 16), block=Block(16),
                    head=nn.Linear(16, CLASSES))


@net("transformer", "class_token", 9, 16)
def class_token():
    def forward(m, x):
        x = torch.cat([m.token.expand(x.shape[0], -1, -1), x], 1) + m.position
        return m.head(m.norm(m.block(x))[:, 0])
    return Function(forward, token=parameter(1, 1, 16), position=parameter(1, 10, 16), block=Block(16),
                    norm=nn.LayerNorm(16), head=nn.Linear(16, CLASSES))


@net("transformer", "layer_scale", 9, 16)
def layer_scale():
    return Function(lambda m, x: m.head(m.block(x).mean(1)), block=Block(16, scale=True), head=nn.Linear(16, CLASSES))


@net("transformer", "learned_queries", 9, 16)
def learned_queries():
    def forward(m, x):
        k, v = m.key(x), m.value(x)
        weights = torch.softmax(m.queries @ k.transpose(1, 2) / 4, -1)
        return m.head((weights @ v).flatten(1))
    return Function(forward, queries=parameter(3, 16), key=nn.Linear(16, 16), value=nn.Linear(16, 16),
                    head=nn.Linear(48, CLASSES))


@net("transformer", "relative_bias", 9, 16)
def relative_bias():
    index = (torch.arange(9)[:, None] - torch.arange(9) + 8)
    def forward(m, x):
        return m.head(m.attention(x, mask=m.table[index].permute(2, 0, 1)[None]).mean(1))
    return Function(forward, table=parameter(17, 4), attention=Attention(16, 4), head=nn.Linear(16, CLASSES))


def rotary(width, steps):
    angles = torch.arange(steps)[:, None] / 100 ** (torch.arange(0, width, 2) / width)
    cos, sin = angles.cos().float(), angles.sin().float()
    def rotate(x):
        a, b = x[..., 0::2], x[..., 1::2]
        c, s = cos.to(x.dtype), sin.to(x.dtype)
        return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)
    return rotate


@net("transformer", "llama", 1, 12)
def llama():
    rotate = rotary(4, 12)
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attention, self.norm2 = RMSNorm(16), Attention(16, 4, causal=True, bias=False), RMSNorm(16)
            self.gate, self.up, self.down = (nn.Linear(16, 32, bias=False), nn.Linear(16, 32, bias=False),
                                             nn.Linear(32, 16, bias=False))

        def forward(self, x):
            x = x + self.attention(self.norm1(x), rotate=rotate)
            h = self.norm2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))
    def forward(m, x):
        return m.head(m.norm(m.blocks(m.table(tokens(x[:, 0]))))[:, -1])
    return Function(forward, table=nn.Embedding(50, 16), blocks=nn.Sequential(Gated(), Gated()), norm=RMSNorm(16),
                    head=nn.Linear(16, CLASSES, bias=False))


@net("transformer", "gpt_tied", 1, 12)
def gpt_tied():
    """The scores come from the table of embeddings itself: one parameter in two places."""
    def forward(m, x):
        h = m.table(tokens(x[:, 0], CLASSES)) + m.position.weight
        return F.linear(m.norm(m.blocks(h))[:, -1], m.table.weight)
    return Function(forward, table=nn.Embedding(CLASSES, 16), position=nn.Embedding(12, 16), norm=nn.LayerNorm(16),
                    blocks=nn.Sequential(Block(16, causal=True), Block(16, causal=True)))


@net("transformer", "bert", 1, 12)
def bert():
    def forward(m, x):
        ids = tokens(x[:, 0])
        mask = (ids != 0)[:, None, None, :]
        h = m.norm(m.table(ids) + m.position.weight + m.kind.weight[0])
        for block in m.blocks:
            h = block(h, mask=mask)
        return m.head(torch.tanh(m.pool(h[:, 0])))
    return Function(forward, table=nn.Embedding(50, 16, padding_idx=0), position=nn.Embedding(12, 16),
                    kind=nn.Embedding(2, 16), norm=nn.LayerNorm(16), blocks=nn.ModuleList([Block(16), Block(16)]),
                    pool=nn.Linear(16, 16), head=nn.Linear(16, CLASSES))


@net("transformer", "mixer", 9, 16)
def mixer():
    def forward(m, x):
        x = x + m.across(m.norm1(x).transpose(1, 2)).transpose(1, 2)
        return m.head((x + m.within(m.norm2(x))).mean(1))
    return Function(forward, norm1=nn.LayerNorm(16), norm2=nn.LayerNorm(16), head=nn.Linear(16, CLASSES),
                    across=nn.Sequential(nn.Linear(9, 18), nn.GELU(), nn.Linear(18, 9)),
                    within=nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)))


# --- layers, one by one ----------------------------------------------------------------------------------------------
def layer(name, make, shape=(4, 10, 10)):
    """`make` gives a module or a function; before it stands a convolution (or a linear layer), behind it a linear one."""
    def factory():
        made = make()
        middle = made if isinstance(made, nn.Module) else Function(lambda m, x: made(x))
        first = (nn.Conv2d(shape[0], shape[0], 3, padding=1) if len(shape) == 3 else
                 nn.Conv1d(shape[0], shape[0], 3, padding=1) if len(shape) == 2 else nn.Linear(shape[0], shape[0]))
        with torch.no_grad():
            wide = middle(first(torch.randn(2, *shape))).flatten(1).shape[1]
        return nn.Sequential(first, middle, nn.Flatten(), nn.Linear(wide, CLASSES))
    NETS[name] = ("layer", factory, shape)


class Weighted(nn.Module):
    def __init__(self, shape, function):
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.randn(shape) * 0.2), function

    def forward(self, x):
        return self.function(x, self.weight)


def add_layers():
    for name in ("ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Softplus", "Softsign",
                 "Sigmoid", "Tanh", "Hardswish", "Hardsigmoid", "Hardtanh", "LogSigmoid", "Softshrink", "Hardshrink",
                 "Tanhshrink", "PReLU"):
        layer(name.lower(), lambda name=name: getattr(nn, name)())
    layer("gelu_tanh", lambda: nn.GELU("tanh"))
    layer("glu", lambda: nn.GLU(1))
    layer("softmax", lambda: nn.Softmax(1))
    layer("log_softmax", lambda: nn.LogSoftmax(-1))
    layer("prelu_channels", lambda: nn.PReLU(4))
    layer("conv1d", lambda: nn.Conv1d(4, 6, 3, 2, 1), (4, 15))
    layer("conv_strided", lambda: nn.Conv2d(4, 6, 3, 2, 1))
    layer("conv_dilated", lambda: nn.Conv2d(4, 6, 3, 1, 2, 2))
    layer("conv_grouped", lambda: nn.Conv2d(4, 8, 3, groups=2))
    layer("conv_depthwise", lambda: nn.Conv2d(4, 4, (3, 5), (1, 2), (1, 0), groups=4))
    layer("conv_no_bias", lambda: nn.Conv2d(4, 6, 1, bias=False))
    layer("conv_same", lambda: nn.Conv2d(4, 6, 4, padding="same"))
    layer("conv_reflect", lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"))
    layer("conv_circular", lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"))
    layer("conv_transpose", lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1))
    layer("conv_transpose_grouped", lambda: nn.ConvTranspose2d(4, 6, 4, 2, 1, groups=2))
    layer("conv_transpose1d", lambda: nn.ConvTranspose1d(4, 6, 3, 2), (4, 9))
    layer("conv3d", lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Conv3d(2, 3, (2, 3, 3))))
    layer("linear", lambda: nn.Linear(12, 7), (12,))
    layer("linear_no_bias", lambda: nn.Linear(12, 7, bias=False), (12,))
    layer("linear_3d", lambda: nn.Linear(12, 7), (4, 12))
    layer("linear_twice", lambda: (lambda shared: nn.Sequential(shared, nn.ReLU(), shared))(nn.Linear(12, 12)), (12,))
    layer("batch_norm", lambda: nn.BatchNorm2d(4))
    layer("batch_norm_1d", lambda: nn.BatchNorm1d(12), (12,))
    layer("batch_norm_no_affine", lambda: nn.BatchNorm2d(4, affine=False))
    layer("layer_norm", lambda: nn.LayerNorm(10))
    layer("layer_norm_2", lambda: nn.LayerNorm([10, 10]))
    layer("layer_norm_no_affine", lambda: nn.LayerNorm(10, elementwise_affine=False))
    layer("group_norm", lambda: nn.GroupNorm(2, 4))
    layer("group_norm_pooled", lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.GroupNorm(2, 4)))
    layer("instance_norm", lambda: nn.InstanceNorm2d(4, affine=True))
    layer("rms_norm", lambda: nn.RMSNorm(10))
    layer("rms_norm_own", lambda: RMSNorm(10))
    layer("local_response_norm", lambda: nn.LocalResponseNorm(3))
    layer("max_pool", lambda: nn.MaxPool2d(3, 2, 1))
    layer("max_pool_ceil", lambda: nn.MaxPool2d(3, 2, ceil_mode=True))
    layer("max_pool_dilated", lambda: nn.MaxPool2d(2, 1, dilation=2))
    layer("avg_pool", lambda: nn.AvgPool2d(3, 2, 1))
    layer("avg_pool_inside", lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False))
    layer("adaptive_avg_pool", lambda: nn.AdaptiveAvgPool2d(5))
    layer("adaptive_max_pool", lambda: nn.AdaptiveMaxPool2d(1))
    layer("lp_pool", lambda: nn.LPPool2d(2, 2))
    layer("upsample_nearest", lambda: nn.Upsample(scale_factor=2))
    layer("upsample_bilinear", lambda: nn.Upsample(scale_factor=2, mode="bilinear"))
    layer("upsample_aligned", lambda: nn.Upsample(size=(15, 13), mode="bilinear", align_corners=True))
    layer("upsample_bicubic", lambda: nn.Upsample(scale_factor=1.5, mode="bicubic"))
    layer("pixel_shuffle", lambda: nn.PixelShuffle(2))
    layer("pixel_unshuffle", lambda: nn.PixelUnshuffle(2))
    layer("channel_shuffle", lambda: nn.ChannelShuffle(2))
    layer("pad_constant", lambda: nn.ConstantPad2d((1, 2, 0, 1), 0.5))
    layer("pad_replicate", lambda: nn.ReplicationPad2d(2))
    layer("pad_crop", lambda: nn.ZeroPad2d((-1, 1, -2, 0)))
    layer("dropout_zero", lambda: nn.Dropout(0.0))
    layer("bilinear", lambda: Function(lambda m, x: m.bilinear(x, x), bilinear=nn.Bilinear(12, 12, 5)), (12,))
    for name, function in {
            "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": lambda x, w: x / (w.abs() + 1),
            "max_of": torch.maximum, "min_of": torch.minimum, "pow_of": lambda x, w: (x.abs() + 0.5) ** w,
            "where": lambda x, w: torch.where(x > 0, x, w), "cat": lambda x, w: torch.cat([x, w.expand_as(x)], 1),
            "stack": lambda x, w: torch.stack([x, w.expand_as(x)], 2), "rsub": lambda x, w: w - x}.items():
        layer("weight_" + name, lambda function=function: Weighted((4, 10, 10), function))
    layer("weight_channels", lambda: Weighted((4, 1, 1), lambda x, w: x * w))
    layer("weight_scalar", lambda: Weighted((), lambda x, w: x * w))
    layer("weight_einsum", lambda: Weighted((4, 6), lambda x, w: torch.einsum("bchw,cd->bdhw", x, w)))
    layer("weight_matmul", lambda: Weighted((10, 7), torch.matmul))
    layer("weight_left", lambda: Weighted((7, 10), lambda x, w: w @ x))
    layer("weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 6, 3)))
    for name, function in {
            "abs": torch.abs, "exp": lambda x: torch.exp(x * 0.3), "log": lambda x: torch.log(x.abs() + 1),
            "sqrt": lambda x: torch.sqrt(x.abs() + 1), "square": torch.square, "sin": torch.sin, "erf": torch.erf,
            "reciprocal": lambda x: 1 / (x.abs() + 1), "clamp": lambda x: x.clamp(-0.3, 0.4),
            "mean": lambda x: x.mean((2, 3)), "sum_keep": lambda x: x.sum(1, keepdim=True), "amax": lambda x: x.amax(3),
            "prod": lambda x: (1 + 0.1 * x).prod(3), "std": lambda x: x.std(3), "var_keep": lambda x: x.var((2, 3)),
            "norm": lambda x: x.norm(dim=1), "normalize": lambda x: F.normalize(x, dim=1),
            "logsumexp": lambda x: x.logsumexp(1), "cumsum": lambda x: x.cumsum(2), "topk": lambda x: x.topk(3, 3)[0],
            "sort": lambda x: x.sort(3)[0], "flip": lambda x: x.flip(2), "roll": lambda x: x.roll(3, 2),
            "slice": lambda x: x[:, 1:, ::2, 3:-1], "split_unused": lambda x: x.split([1, 2, 1], 1)[1],
            "chunk": lambda x: torch.mul(*x.chunk(2, 1)), "unbind": lambda x: x.unbind(1)[2],
            "index": lambda x: x[:, torch.tensor([2, 0, 0, 3])], "gather": lambda x: x.gather(
                3, torch.zeros_like(x).long()[..., :4] + torch.arange(3, -1, -1)),
            "permute": lambda x: x.permute(0, 2, 3, 1) * torch.arange(4), "repeat": lambda x: x.repeat(1, 2, 1, 1),
            "tile_expand": lambda x: x[:, :, :1].expand(-1, -1, 5, -1) * torch.arange(5)[:, None],
            "tril": lambda x: x.tril(), "masked_fill": lambda x: x.masked_fill(x > 0.3, 0.1), "fold_windows":
            lambda x: F.unfold(x, 3, padding=1), "matmul_self": lambda x: x @ x.transpose(2, 3),
            "einsum_self": lambda x: torch.einsum("bchw,bdhw->bcd", x, x), "cosine": lambda x: F.cosine_similarity(
                x[:, :2], x[:, 2:], dim=1), "attention": lambda x: F.scaled_dot_product_attention(x, x, x)}.items():
        layer(name, lambda function=function: function)


# --- one parameter in several places ---------------------------------------------------------------------------------
@net("tied", "tied_plain_and_transposed", 5, 12)
def tied_plain_and_transposed():
    return Function(lambda m, x: m.head(torch.relu(F.linear(torch.relu(F.linear(x, m.w)) @ m.w, m.w)).mean(1)),
                    w=parameter(8, 12), head=nn.Linear(8, CLASSES))


@net("tied", "tied_gamma_of_the_network", 12)
def tied_gamma_of_the_network():
    return Function(lambda m, x: m.head(m.gamma * torch.relu(m.middle(m.gamma * x))),
                    gamma=nn.Parameter(torch.ones(12)), middle=nn.Linear(12, 12), head=nn.Linear(12, CLASSES))


@net("tied", "tied_slope", 12)
def tied_slope():
    return Function(lambda m, x: m.head(F.prelu(m.middle(F.prelu(x, m.slope)), m.slope)),
                    slope=nn.Parameter(torch.full((12,), 0.25)), middle=nn.Linear(12, 12), head=nn.Linear(12, CLASSES))


add_torchvision()
add_layers()
