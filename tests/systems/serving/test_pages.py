"""Pages: nothing leaks, what is shared is shared, and a shared page is never written to."""

import random

import pytest

from attnbook.serving.pages import NoPage, Pages


def written(pages, tokens):
    """A sequence whose tokens are all written."""
    table = pages.begin(tokens)
    pages.reserve(table, len(tokens) - table.length)
    pages.wrote(table, tokens)
    return table


def test_a_sequence_has_as_many_pages_as_it_needs_and_wastes_less_than_one():
    pages = Pages(20, 4)
    for length in range(1, 30):
        table = written(pages, [length] * length)
        assert len(table.pages) == -(-length // 4)
        pages.release(table)


def test_two_prompts_that_begin_alike_share_the_pages_that_are_alike_and_full():
    pages = Pages(20, 4)
    first = written(pages, [*range(10), 7])
    second = pages.begin([*range(10), 8])
    assert second.pages == first.pages[:2] and second.length == 8
    assert pages.begin([9, *range(1, 10)]).pages == []


def test_the_same_prompt_again_leaves_at_least_one_token_to_be_read():
    pages = Pages(20, 4)
    prompt = list(range(8))
    written(pages, prompt)
    assert pages.begin(prompt).length == 4


def test_a_page_that_nobody_uses_is_found_again_until_its_place_is_needed():
    pages = Pages(3, 2)
    pages.release(written(pages, [1, 2, 3, 4]))
    assert pages.used == 0 and len(again := pages.begin([1, 2, 3]).pages) == 1
    assert pages.used == 1 and again
    other = written(pages, [5, 6, 7, 8])  # takes what is left
    pages.release(other)
    assert pages.begin([1, 2, 3, 4, 5]).length == 2  # the second page has gone


def test_a_fork_shares_all_pages_and_the_last_is_copied_when_it_is_written_to():
    pages = Pages(8, 4)
    table = written(pages, list(range(6)))
    other = pages.fork(table)
    assert other.pages == table.pages and pages.used == 2
    pages.reserve(other, 1)
    assert pages.copies == [(table.pages[1], other.pages[1])]
    assert other.pages[0] == table.pages[0] and other.pages[1] != table.pages[1]
    pages.reserve(table, 1)  # alone with it now: no copy
    assert len(pages.copies) == 1


def test_too_few_pages_are_an_error_that_changes_nothing():
    pages = Pages(2, 4)
    table = written(pages, [1, 2, 3])
    before = list(table.pages), list(pages.free)
    with pytest.raises(NoPage, match="2 pages needed, 1 are free"):
        pages.reserve(table, 8)
    assert (table.pages, list(pages.free)) == before


def test_no_page_leaks_and_none_is_used_twice_whatever_happens():
    """Random beginnings, growth, forks and ends; users are counted a second way."""
    dice, pages, tables = random.Random(0), Pages(40, 3), []
    for _ in range(3000):
        tokens, table = dice.choice(tables) if tables else ([0], None)
        match dice.randrange(4):
            case 0 if len(tables) < 8:
                tokens = [dice.randrange(2) for _ in range(dice.randrange(1, 9))]
                table = pages.begin(tokens)
                if pages.need(table, len(tokens) - table.length) > len(pages.free):
                    pages.release(table)
                    continue
                pages.reserve(table, len(tokens) - table.length)
                pages.wrote(table, tokens)
                tables.append((tokens, table))
            case 1 if table is not None and pages.need(table, 1) <= len(pages.free):
                pages.reserve(table, 1)
                tokens.append(dice.randrange(2))
                pages.wrote(table, tokens)
            case 2 if table is not None and len(tables) < 8:
                tables.append((list(tokens), pages.fork(table)))
            case 3 if table is not None:
                tables = [(t, other) for t, other in tables if other is not table]
                pages.release(table)
        users = [sum(page in other.pages for _, other in tables) for page in range(pages.count)]
        assert users == pages.users
        assert {page for page in range(40) if not users[page]} == set(pages.free)
        unfinished = [other.pages[-1] for t, other in tables if len(t) % 3]
        assert all(pages.prefix_of.get(page) is None for page in unfinished)


def test_sizes_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="got 0 of 16"):
        Pages(0)
