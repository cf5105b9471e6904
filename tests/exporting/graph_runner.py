"""Runs exported graphs without veldt: python graph_runner.py onnx|torch|aot DIRECTORY ...

Each directory has inputs.npz, with the arrays of step 0, 1 ... under the names "0:NAME", and gets outputs-KIND.npz. The
first row of step 0 is also run alone, "one:NAME".
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.modules["veldt"] = None  # type: ignore[assignment]  # an import of it fails

kind, *directories = sys.argv[1:]
for directory in directories:
    if kind == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(f"{directory}/policy.onnx")
        names = [each.name for each in session.get_inputs()]
        outputs_of = [each.name for each in session.get_outputs()]

        def run(inputs, session=session):  # type: ignore[no-untyped-def]
            return session.run(None, inputs)
    else:
        import torch

        graph = json.loads(Path(directory, "config.json").read_text())["graph"]
        names, outputs_of = ([each["name"] for each in graph[side]] for side in ("inputs", "outputs"))
        if kind == "torch":
            module = torch.export.load(f"{directory}/policy.pt2").module()
        else:
            module = torch._inductor.aoti_load_package(f"{directory}/policy-aot.pt2")

        def run(inputs, module=module, names=names):  # type: ignore[no-untyped-def]
            return [tensor.numpy() for tensor in module(*(torch.from_numpy(inputs[name]) for name in names))]

    given, saved, state = np.load(f"{directory}/inputs.npz"), {}, None
    for step in range(3):
        inputs = {name: given[f"{step}:{name}"] for name in names if name not in ("state", "reset")}
        if "state" in names:
            count = len(next(iter(inputs.values())))
            zeros = np.zeros((count, int(given["state_size"])), np.float32)
            inputs |= {"state": zeros if state is None else state, "reset": np.full(count, state is None)}
        outputs = dict(zip(outputs_of, run(inputs), strict=True))
        state = outputs.get("next_state")
        saved |= {f"{step}:{name}": array for name, array in outputs.items()}
        if step == 0:
            one = run({name: array[:1] for name, array in inputs.items()})
            saved |= {f"one:{name}": array for name, array in zip(outputs_of, one, strict=True)}
    np.savez(f"{directory}/outputs-{kind}.npz", **saved)
assert not [name for name in sys.modules if name.startswith("veldt.")]
