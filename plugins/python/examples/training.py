"""Trains a model for one epoch on generated pictures and saves it: training.py MODEL.cfg TRAINED.onnx"""

import sys

import braid


def show(now: braid.Progress) -> None:
    print(f"loss {now.loss:.3f}, accuracy {now.accuracy:.1%}")


trainer = braid.train(sys.argv[1] if len(sys.argv) > 1 else "model.cfg", "builtin:glyphs,limit=2000", epochs=1,
                      on_epoch=show)
trainer.save_onnx(sys.argv[2] if len(sys.argv) > 2 else "trained.onnx")
