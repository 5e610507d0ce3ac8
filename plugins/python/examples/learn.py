"""Trains a network on a folder of pictures and classifies one (docs/tutorial.md's learn.c):
learn.py NETWORK.cfg PICTURES PICTURE MODEL.onnx"""

import sys

import braid


def show(now: braid.Progress) -> None:
    print(f"epoch {now.epoch}: loss {now.loss:.3f}, accuracy {now.accuracy:.1%}, on pictures kept for testing "
          f"{now.test_accuracy:.1%}")


def classify(path: str, pictures: str, picture: str) -> None:
    model = braid.load(path)
    names = braid.Dataset(f"images:{pictures}", "test").info.class_names  # knows what the classes are called
    _, channels, height, width = model.inputs[0].shape or ()
    pixels = braid.load_image(picture, channels or 3, height or 0, width or 0)
    scores = model(pixels[None])[0]
    best = scores.argmax()
    print(f"{picture}: {names[best]} ({scores[best]:.1%})")


if len(sys.argv) != 5:
    sys.exit("usage: learn.py NETWORK.cfg PICTURES PICTURE MODEL.onnx")
network, pictures, picture, path = sys.argv[1:]
data = f"images:{pictures},augment=crop,pad=2"  # moves each picture a little, for training
trainer = braid.train(network, data, data, batch=25, epochs=6, lr=0.1, schedule="one-cycle", on_epoch=show)
trainer.save_onnx(path)
classify(path, pictures, picture)
