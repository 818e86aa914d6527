"""The part that needs TensorFlow. It runs in an interpreter that has it, from a checkout of google/ml-compiler-opt.

So it imports nothing of the toolkit, and that interpreter (CPython 3.10 or newer) gets it as text.
``signature`` prints the inputs of ml-compiler-opt's model, ``write TENSORS TARGET`` writes decisions as the trace that
its programs read, and ``agreement TENSORS MODEL`` prints the share of decisions in which a saved model chooses alike.
``rewards FOLDER`` prints the rewards that a training noted there.
``serve MODEL`` answers decisions, and needs TensorFlow alone.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

#: Decisions of one sequence. Cloning takes them one by one, but skips sequences of fewer than three.
LENGTH = 64


def signature() -> dict[str, Any]:
    """Type and shape of each feature, and the name of the choice."""
    config: Any = importlib.import_module("compiler_opt.rl.regalloc.config")
    steps, action = config.get_regalloc_signature_spec()
    features = {name: [spec.dtype.name, spec.shape.as_list()] for name, spec in steps.observation.items()}
    return {"features": features, "choice": action.name}


def write(tensors: str, target: str) -> None:
    """Write decisions as TFRecords of sequences, as ml-compiler-opt's ``generate_default_trace`` does."""
    tf: Any = importlib.import_module("tensorflow")
    with np.load(tensors) as stored:
        arrays = dict(stored)
    count = len(next(iter(arrays.values())))
    with tf.io.TFRecordWriter(target) as writer:
        for part in np.array_split(np.arange(count), max(count // LENGTH, 1)):
            sequence = tf.train.SequenceExample()
            for name, array in arrays.items():
                steps = sequence.feature_lists.feature_list[name].feature
                for values in array[part]:
                    feature = steps.add()
                    numbers = feature.int64_list if values.dtype.kind == "i" else feature.float_list
                    numbers.value.extend(np.ravel(values).tolist())
            writer.write(sequence.SerializeToString())


def agreement(tensors: str, model: str) -> float:
    """The share of decisions in which a saved model chooses as they did."""
    tf: Any = importlib.import_module("tensorflow")
    choice = signature()["choice"]  # imports TF-Agents, without which its models can't be loaded
    act = tf.saved_model.load(model).signatures["action"]
    _, wanted = act.structured_input_signature
    with np.load(tensors) as stored:
        arrays = dict(stored)
    chosen = arrays[choice]
    blank = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in wanted.items()}
    same = 0
    for index in range(len(chosen)):
        given = {name: tf.constant(arrays[name][index : index + 1]) for name in wanted if name in arrays}
        same += int(act(**{**blank, **given})[choice][0]) == int(chosen[index])
    return same / len(chosen)


def rewards(folder: str) -> list[float]:
    """The mean reward of each iteration of PPO, in order.

    Of a function, it is 1 minus the policy's cost over the default's.
    """
    tf: Any = importlib.import_module("tensorflow")
    noted = {}
    for path in sorted(tf.io.gfile.glob(f"{folder}/events.out.tfevents.*")):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "reward_distribution/mean":
                    noted[event.step] = float(tf.make_ndarray(value.tensor))
    return [reward for _, reward in sorted(noted.items())]


def serve(model: str) -> None:
    """Write a saved model's inputs, as a line; then answer decisions: all tensors in that order, by eight bytes.

    A session runs models whose Python types are not installed, and takes a third of the time of a function.
    """
    tf: Any = importlib.import_module("tensorflow")
    told, heard = sys.stdout.buffer, sys.stdin.buffer
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        action = tf.compat.v1.saved_model.loader.load(session, ["serve"], model).signature_def["action"]
        given = {
            name: (tf.as_dtype(tensor.dtype).name, [dimension.size for dimension in tensor.tensor_shape.dim])
            for name, tensor in action.inputs.items()
        }
        (choice,) = action.outputs.values()
        act = session.make_callable(choice.name, [action.inputs[name].name for name in given])
        told.write(json.dumps([[name, *about] for name, about in given.items()]).encode() + b"\n")
        told.flush()
        layout = np.dtype([(name, *about) for name, about in given.items()])
        while len(memory := heard.read(layout.itemsize)) == layout.itemsize:
            tensors = np.frombuffer(memory, layout)[0]
            told.write(np.ravel(act(*(tensors[name] for name in given))).astype(np.int64)[:1].tobytes())
            told.flush()


if __name__ == "__main__":
    functions: dict[str, Callable[..., Any]] = {
        "signature": signature,
        "write": write,
        "agreement": agreement,
        "rewards": rewards,
    }
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        print(json.dumps(functions[sys.argv[1]](*sys.argv[2:])))
