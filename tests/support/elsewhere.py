"""A GPU in name only: what is moved to "cuda" stays on the CPU, with a mark that operations check.

Inside of `elsewhere()` tensors say that they lie on `cuda` if they were moved or made there, and an
operation of tensors that lie apart raises `Apart`, as torch does with a GPU. What torch makes by
itself in a backward pass (the gradient of `unbind`) has no mark: there it may be wrong.
"""

from contextlib import contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CUDA, CPU = torch.device("cuda"), torch.device("cpu")
MARKED = {}  # storage → is it there?
COPIES = {f"aten::{name}" for name in ("copy_", "_to_copy", "set_", "detach", "lift_fresh")}
READS_INDEX = ("aten::embedding", "aten::gather", "aten::stack", "aten::cat")


class Apart(RuntimeError):
    """Tensors of one operation lie on two devices."""


@contextmanager
def elsewhere():
    """Inside there is a second device, which is given."""
    MARKED.clear()
    with Names(), Operations():
        yield CUDA


def store(tensor):
    return tensor.untyped_storage()._cdata


def there(tensor):
    return MARKED.get(store(tensor), False)


def tensors(given):
    found = [leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor)]
    return [tensor for tensor in found if tensor.device.type == "cpu"]


class Operations(TorchDispatchMode):
    """Refuses operations of tensors that lie apart; marks what the others make."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunction():
            kwargs, name = kwargs or {}, func._schema.name
            given = tensors((args, kwargs))
            before = {store(tensor): there(tensor) for tensor in given}
            if name not in COPIES and len({*before.values()}) == 2:
                self.check(name, given, len(args) > 2 and "index_put" in name)
            made = func(*args, **kwargs)
            for tensor in tensors(made):
                place = before.get(store(tensor), any(before.values()))
                MARKED[store(tensor)] = place
            return made

    def check(self, name, given, puts):
        """A number may lie on the CPU, and so may what is looked up by `x[…]`."""
        checked = given
        if name == "aten::index" or puts:
            checked = [given[0], *(x for x in given[1:] if there(x)), *(given[-1:] * puts)]
        left = [x for x in checked if not there(x) and (x.dim() or name.startswith(READS_INDEX))]
        if left and any(map(there, checked)):
            places = [(*x.shape, "cuda" if there(x) else "cpu") for x in given]
            raise Apart(f"{name} of {places}")


class Names(TorchFunctionMode):
    """What says a device's name: `device=`, `.to()`, `.device`, and numpy, which wants a CPU's."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        own = bool(args) and isinstance(args[0], torch.Tensor)
        own = own and torch.Tensor.device.__get__(args[0]).type == "cpu"
        if func == torch.Tensor.device.__get__:
            return CUDA if own and there(args[0]) else func(*args)
        if func == torch.Tensor.is_cuda.__get__:
            return there(args[0])
        if own and name in ("numpy", "__array__") and there(args[0]):
            raise Apart("numpy reads no tensor of a GPU")
        if own and name in ("to", "cuda", "cpu"):
            return self.move(args[0], name, [*args[1:]], kwargs)
        device = kwargs.get("device")
        if device is None and own and name == "new_tensor":
            device = CUDA if there(args[0]) else CPU
        if device is None or torch.device(device).type not in ("cuda", "cpu"):
            return func(*args, **kwargs)
        made = func(*args, **kwargs | {"device": CPU})
        MARKED.update({store(x): torch.device(device).type == "cuda" for x in tensors(made)})
        return made

    def move(self, tensor, name, given, kwargs):
        """`.to()` in all its forms; a copy, where it goes elsewhere."""
        given += [kwargs.get("device"), kwargs.get("dtype")]
        goes = there(tensor) if name == "to" else name == "cuda"
        out = tensor
        for part in given:
            if isinstance(part, (str, torch.device)):
                if torch.device(part).type == "meta":
                    return tensor.to("meta")
                goes = torch.device(part).type == "cuda"
            elif isinstance(part, torch.Tensor):
                goes, out = there(part), out.to(part.dtype)
            elif isinstance(part, torch.dtype):
                out = out.to(part)
        if goes != there(tensor):
            out = out.clone() if store(out) == store(tensor) else out
            MARKED[store(out)] = goes
        return out
