"""What training is asked to do and with what: refused before the first step, or put in words."""

import math
import operator


def checked(model, optimizer, options):
    """Refuse what cannot work; return the options, with Python's own numbers for NumPy's."""
    check_parts(model, optimizer)
    least = {"steps": 1, "every": 1, "seed": 0}
    numbers = {name: whole(name, options[name], least[name]) for name in least}
    numbers |= {name: above_zero(name, options[name]) for name in ("clip", "seconds")}
    return options | numbers


def whole(name, value, least):
    try:
        number = -math.inf if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -math.inf
    if number < least:
        raise ValueError(f"{name} is {value!r}; a whole number, {least} or more, is needed")
    return number


def above_zero(name, value):
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, (str, bool)) else float(value)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not number > 0:
        raise ValueError(f"{name} is {value!r}; a number above 0, or None for no limit")
    return number


def check_parts(model, optimizer):
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ValueError("the model has no parameter that can be trained")
    devices = sorted({str(weight.device) for weight in model.parameters()})
    if len(devices) > 1:
        raise ValueError(f"the model lies on {len(devices)} devices: {', '.join(devices)}")
    mine = {id(weight) for weight in model.parameters()}
    theirs = [id(weight) for group in optimizer.param_groups for weight in group["params"]]
    strangers = len([weight for weight in theirs if weight not in mine])
    if strangers:
        raise ValueError(
            f"{strangers} of the optimizer's {len(theirs)} tensors are not the model's"
        )


def check_loss(error):
    """Where `error` came of a loss that has no gradient to follow back, say it in plain words."""
    if isinstance(error, AttributeError) and error.name == "backward":
        kind = "None" if error.obj is None else f"a {type(error.obj).__name__}"
        got = f"{kind}, not a tensor"
    elif isinstance(error, RuntimeError) and "only for scalar outputs" in str(error):
        got = "a tensor of another size: take its mean or its sum"
    else:
        return
    raise ValueError(f"the loss must be one number; got {got}") from error
