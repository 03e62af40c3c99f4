"""What all engines have in common."""

import doctest
import importlib

import pyarrow as pa
import pytest
import robustard
from helpers import SETTINGS, here, model_bytes
from robustard._distributed import Keeper, files_of, in_order, pieces_of


def test_answers_that_come_twice_count_once():
    assert in_order([(1, b"b"), (0, b"a"), (1, b"b")], 2) == [b"a", b"b"]
    with pytest.raises(RuntimeError, match="partition 2 of 3"):
        in_order([(0, b"a"), (2, b"c")], 3)
    with pytest.raises(RuntimeError, match="two answers of partition 1 differ"):
        in_order([(0, b"a"), (0, b"b")])


def test_partitions_depend_on_the_files_alone(folder, monkeypatch):
    files = files_of(folder)
    assert [path[-9:] for path in files] == [f"{k}.parquet" for k in range(5)]
    assert len(pieces_of(files)) == 5
    monkeypatch.setattr("robustard._distributed.PARTITION_ROWS", 3400)
    divided = pieces_of(files)
    assert len(divided) == 7
    assert sum(piece.read().num_rows for piece in divided) == 13_000
    assert files_of([str(folder / "part-3.parquet")]) == [str(folder / "part-3.parquet")]


def test_threads_make_no_difference_and_streams_agree(folder):
    from robustard._distributed import fit_here

    one = here(folder)
    many = fit_here(robustard.JointARD(**SETTINGS), str(folder), workers=3, target="y")
    assert model_bytes(one) == model_bytes(many)
    streamed = robustard.JointARD(**SETTINGS).fit(str(folder), target="y", memory=1)
    assert one.coef_ == pytest.approx(streamed.coef_, abs=1e-3)


def test_a_process_keeps_what_fits():
    table = pa.table({"x": [1.0, 2.0], "y": [1.0, 2.0]})
    reads = []

    def read(name):
        def reading():
            reads.append(name)
            return table

        return reading

    keeper = Keeper(table.nbytes)
    for number in (0, 0, 1, 0):
        keeper.partition("fit", number, read(number))
    assert reads == [0, 1, 0]
    keeper.partition("other", 0, read("other"))
    assert reads[-1] == "other"


def test_docstrings():
    for module in ("robustard.ray", "robustard.spark"):
        result = doctest.testmod(importlib.import_module(module))
        assert result.failed == 0 and result.attempted > 0, module
