"""Programs with mistakes, made out of right ones by replacing a piece of their text."""


def written(code, changes, wrong):
    """The program with the mistakes named in `wrong`; `changes` has each one as (old, new)."""
    for name in wrong:
        old, new = changes[name]
        assert old in code, f"{name}: there is nothing to replace"
        code = code.replace(old, new)
    return code


def each_and_pairs(good, changes, pairs):
    """(name, code, wrong) for every mistake alone and for the pairs that are named."""
    return [
        (name, written(good[name], changes[name], wrong), wrong)
        for name in good
        for wrong in [*([one] for one in changes[name]), *map(list, pairs.get(name, []))]
    ]
