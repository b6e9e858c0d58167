"""Once per step: remembered inside, forgotten outside. That it compiles is in test_compiled.py."""

from attnbook.step import once, step


def counted(calls):
    return lambda: calls.append(1) or len(calls)


def test_inside_a_step_a_thing_is_made_once_and_outside_each_time():
    calls = []
    with step():
        assert [once("a", counted(calls)), once("a", counted(calls))] == [1, 1]
        with step():  # the same step
            assert once("a", counted(calls)) == 1
        assert once("b", counted(calls)) == 2
    assert [once("a", counted(calls)), once("a", counted(calls))] == [3, 4]


def test_nothing_is_left_of_a_step_that_failed():
    calls = []
    try:
        with step():
            once("a", counted(calls))
            raise KeyError
    except KeyError:
        pass
    with step():
        assert once("a", counted(calls)) == 2
