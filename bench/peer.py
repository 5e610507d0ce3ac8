"""One measurement of a peer in a process of its own, so that its peak memory is its own: prints one JSON document."""
import argparse
import json
import resource
import statistics
import time


def timed(call, runs):
    call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return {"median_ms": statistics.median(times), "min_ms": min(times)}


def onnxruntime(args):
    import numpy as np
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = ort.InferenceSession(args.model, options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [d if isinstance(d, int) else args.batch for d in given.shape]
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return timed(lambda: session.run(None, {given.name: x}), args.runs)


def pytorch(args):
    import torch
    import nets
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = nets.vgg_tile()
    x, labels = torch.randn(args.batch, 3, 32, 32), torch.randint(0, 10, (args.batch,))
    if args.channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4)
    loss_of = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss = loss_of(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss.item()
    return timed(step, args.runs)


def loader(args):
    """A data set in memory with CIFAR's size and augmentation through one DataLoader process."""
    import torch
    import torchvision.transforms as transforms

    class Samples(torch.utils.data.Dataset):
        def __init__(self):
            generator = torch.Generator().manual_seed(0)
            self.images = torch.randint(0, 10, (10000, 32, 32, 3), dtype=torch.uint8, generator=generator).numpy()
            self.labels = torch.randint(0, 10, (10000,), generator=generator).tolist()
            self.transform = transforms.Compose([
                transforms.ToPILImage(), transforms.RandomCrop(32, 4), transforms.RandomHorizontalFlip(),
                transforms.ToTensor(), transforms.Normalize((0.49, 0.48, 0.45), (0.25, 0.24, 0.26))])

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            return self.transform(self.images[index]), self.labels[index]

    torch.set_num_threads(1)
    batches = torch.utils.data.DataLoader(Samples(), args.batch, shuffle=True, num_workers=1, drop_last=True)
    best = 0
    for _ in range(2):
        start = None
        for step, _ in enumerate(batches):
            if step == 4:  # the worker has started
                start = time.perf_counter()
        best = max(best, (len(batches) - 5) * args.batch / (time.perf_counter() - start))
    return {"images_per_s": best}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=["onnxruntime", "pytorch", "loader"])
    parser.add_argument("--model")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--channels-last", action="store_true")
    args = parser.parse_args()
    result = {"onnxruntime": onnxruntime, "pytorch": pytorch, "loader": loader}[args.peer](args)
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


main()
