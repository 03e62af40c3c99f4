"""Tables in files and streams of batches."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import robustard
from robustard import RVM, JointARD, partial_sums

ROWS = 12_000


def table(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """y = 10 + 2a - b + 3 in Nice + noise; every fiftieth row is off by 15."""
    rng = np.random.default_rng(seed)
    a, b, junk = rng.normal(size=(3, rows)) * [[1.0], [2.0], [1.0]]
    city = np.array(["Paris", "Lyon", "Nice"])[rng.integers(3, size=rows)]
    y = 10 + 2 * a - b + 3 * (city == "Nice") + 0.5 * rng.normal(size=rows)
    y[np.arange(rows) % 50 == 7] += 15
    return pd.DataFrame({"a": a, "b": b, "junk": junk, "city": city, "y": y})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of one table."""
    folder = tmp_path_factory.mktemp("files")
    whole = table()
    for k, (start, end) in enumerate([(0, 5000), (5000, 5001), (5001, ROWS)]):
        whole.iloc[start:end].to_parquet(folder / f"{k}.parquet", index=False)
    return folder


def linear(**settings: object) -> JointARD:
    return JointARD(features="linear", noise="contaminated", **settings)  # type: ignore[arg-type]


def test_all_streams_are_one_table(files: Path) -> None:
    whole = table()
    memory = linear().fit(whole.drop(columns="y"), whole["y"])
    frame = pa.Table.from_pandas(whole, preserve_index=False)
    streams = {
        "pattern": str(files / "*.parquet"),
        "folder": files,
        "list": sorted(files.glob("*.parquet")),
        "dataset": pyarrow.dataset.dataset(files, format="parquet"),
        "reader": pa.RecordBatchReader.from_batches(frame.schema, frame.to_batches(max_chunksize=777)),
        "lazy": pl.scan_parquet(files / "*.parquet"),
    }
    found = {}
    for name, stream in streams.items():
        model = linear().fit(stream, target="y", memory="1KB")
        assert model._fitted.streamed_rows == ROWS, name
        np.testing.assert_allclose(model.coef_, memory.coef_, atol=1e-4)
        assert list(model.feature_names_in_) == ["a", "b", "junk", "city"]
        found[name] = model._fitted.to_bytes() if name != "lazy" else None
    # However the rows come, the same bytes, the description of the estimator included.
    assert len({bytes for bytes in found.values() if bytes is not None}) == 1
    new = whole.head(20)
    np.testing.assert_allclose(model.predict(new), memory.predict(new.drop(columns="y")), atol=1e-3)


def test_what_is_known_of_rows(files: Path, tmp_path: Path) -> None:
    model = linear().fit(str(files), target="y", memory="1KB", rows=tmp_path / "rows.parquet")
    issues = model.find_label_issues()
    wrong = issues["row"] % 50 == 7
    assert wrong.sum() == ROWS // 50
    # Of 11,760 right rows hardly any is more than 3.5 standard deviations off.
    assert (~wrong).sum() <= 8
    assert issues["is_label_issue"].all()
    assert (issues["label_quality"] < 0.5).all()
    whole = table()
    np.testing.assert_array_equal(issues["given_label"], whole["y"].to_numpy()[issues["row"]])
    diagnosis = pq.read_table(tmp_path / "rows.parquet").to_pandas()
    assert list(diagnosis["row"]) == list(range(1, ROWS + 1))
    assert (diagnosis["row"][diagnosis["flagged"]] - 1).tolist() == sorted(issues["row"])
    # Per row there is what the model keeps.
    influence = model.influence()
    assert len(influence) == len(model.kept_rows_) == len(model.outlier_mask_) == 10_000
    assert set(model.kept_rows_[model.outlier_mask_]) <= set(issues["row"])
    np.testing.assert_array_equal(influence["row"], model.kept_rows_)
    model.report(tmp_path / "page.html")
    assert "12,000 rows" in (tmp_path / "page.html").read_text()
    model.save(tmp_path / "m.model")
    again = robustard.load(tmp_path / "m.model")
    pd.testing.assert_frame_equal(again.find_label_issues(), issues)


def test_small_files_are_fitted_in_memory(files: Path, tmp_path: Path) -> None:
    whole = table(300)
    whole.to_csv(tmp_path / "t.csv", index=False)
    model = linear().fit(tmp_path / "t.csv", target="y", rows=tmp_path / "rows.csv")
    assert model._fitted.streamed_rows is None
    assert len(model.outlier_mask_) == 300
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 300
    model.report(tmp_path / "page.html")
    memory = linear().fit(whole.drop(columns="y"), whole["y"])
    np.testing.assert_allclose(model.coef_, memory.coef_, atol=1e-9)
    # An array again: nothing is left of the files.
    X = np.random.default_rng(0).normal(size=(50, 2))
    model.fit(X, X[:, 0])
    assert model.n_features_in_ == 2
    assert model.influence().shape[0] == 50


def test_the_command_makes_the_same_model(files: Path, tmp_path: Path, robustard_command: str) -> None:
    own = linear().fit(files / "*.parquet", target="y", memory="1KB")
    command = [robustard_command, "fit", str(files / "*.parquet"), "--target", "y", "--memory", "1KB", "--json"]
    done = subprocess.run(
        [*command, "--features", "linear", "--noise", "contaminated", "--quiet", "-o", tmp_path / "m"],
        check=True,
        capture_output=True,
    )
    said = json.loads(done.stdout)
    jsonschema = pytest.importorskip("jsonschema")
    schema = Path(__file__).resolve().parents[2] / "docs" / "fit.schema.json"
    jsonschema.validate(said, json.loads(schema.read_text(encoding="utf-8")))
    assert said["evidence"] == own.evidence_
    assert [row["row"] - 1 for row in said["flagged_rows"]] == list(own.find_label_issues()["row"])
    np.testing.assert_array_equal(robustard.load(tmp_path / "m").coef_, own.coef_)


def test_weights_categories_and_caches(files: Path, tmp_path: Path) -> None:
    whole = table(3000)
    whole["w"] = np.arange(3000) % 3
    whole["city"] = whole["city"].astype("category")
    frame = pa.Table.from_pandas(whole, preserve_index=False)
    stream = pyarrow.dataset.dataset(frame)
    model = linear().fit(stream, target="y", sample_weight="w")
    memory = linear().fit(whole.drop(columns=["y", "w"]), whole["y"], sample_weight=whole["w"])
    np.testing.assert_allclose(model.coef_, memory.coef_, atol=1e-3)
    arguments = {"target": "y", "cache": tmp_path / "cache", "checkpoint": tmp_path / "c"}
    first, second = (linear().fit(files, **arguments) for _ in range(2))  # type: ignore[arg-type]
    assert first._fitted.to_bytes() == second._fitted.to_bytes()
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert not (tmp_path / "c").exists()


def test_bad_requests_say_what_to_do(files: Path, tmp_path: Path) -> None:
    frame = pa.Table.from_pandas(table(200), preserve_index=False)

    def message(error: type[Exception], X: object, *y: object, **arguments: object) -> str:
        with pytest.raises(error) as raised:
            linear().fit(X, *y, **arguments)  # type: ignore[arg-type]
        return str(raised.value)

    assert "target='price'" in message(ValueError, files)
    assert "no column 'price'" in message(ValueError, files, target="price")
    assert "y must not be given" in message(ValueError, files, np.zeros(3), target="y")
    assert "matches no file" in message(ValueError, str(tmp_path / "*.csv"), target="y")
    assert "no such file" in message(ValueError, tmp_path / "nothing.csv", target="y")
    assert "2GB" in message(ValueError, files, target="y", memory="much")
    assert "name of a column" in message(ValueError, files, target="y", sample_weight=np.ones(3))
    assert "in memory" in message(ValueError, np.zeros((3, 1)), np.zeros(3), target="y")
    reader = pa.RecordBatchReader.from_batches(frame.schema, frame.to_batches())
    assert "to a file" in message(ValueError, reader, target="y", cache=tmp_path)
    mixed = pa.schema([("a", pa.string()), ("y", pa.float64())])
    batches = [pa.record_batch([values, [1.0, 2.0]], schema=mixed) for values in (["1", "2"], ["x", "z"])]
    reader = pa.RecordBatchReader.from_batches(mixed, batches)
    assert "'a' holds numbers at first" in message(ValueError, reader, target="y")
    with pytest.raises(ValueError, match="categorical has 3"):
        linear(categorical=[3]).fit(files, target="y")
    with pytest.raises(ValueError, match="y to be passed"):
        RVM().fit(np.zeros((3, 1)))


def test_partitions_elsewhere(files: Path, tmp_path: Path) -> None:
    partitions = [pq.read_table(path) for path in sorted(files.glob("*.parquet"))]
    asked = []

    def run(broadcast: bytes) -> list[bytes]:
        asked.append(len(broadcast))
        return [partial_sums(rows, broadcast) for rows in partitions]

    def forms(broadcast: bytes) -> list[bytes]:
        kinds = [lambda rows: rows.to_batches(max_chunksize=100), pa.Table.to_reader, pl.from_arrow]
        return [partial_sums(kind(rows), broadcast) for kind, rows in zip(kinds, partitions, strict=True)]

    model = linear().fit_partitions(run, target="y")
    assert 4 < len(asked) < 40
    other = linear().fit_partitions(forms, target="y")
    assert model._fitted.to_bytes() == other._fitted.to_bytes()
    memory = linear().fit(table().drop(columns="y"), table()["y"])
    np.testing.assert_allclose(model.coef_, memory.coef_, atol=1e-3)
    issues = model.find_label_issues()
    assert (issues["row"] % 50 == 7).sum() == ROWS // 50
    np.testing.assert_array_equal(issues["given_label"], table()["y"].to_numpy()[issues["row"]])
    np.testing.assert_allclose(model.predict(table(50)), memory.predict(table(50).drop(columns="y")), atol=1e-2)

    # What a partition raises comes back as it is; what was fitted stays.
    def fails(broadcast: bytes) -> list[bytes]:
        raise LookupError("executor 3 is gone")

    with pytest.raises(LookupError, match="executor 3"):
        model.fit_partitions(fails, target="y")
    assert model._fitted.to_bytes() == other._fitted.to_bytes()
    with pytest.raises(ValueError, match="no column 'price'"):
        model.fit_partitions(run, target="price")
    with pytest.raises(TypeError, match="Arrow data"):
        partial_sums(7, b"")
    with pytest.raises(ValueError, match="robustard task"):
        partial_sums(partitions[0], b"something")

    # A fit that ends in the middle goes on from its checkpoint, to the same bytes.
    left = 6

    def dies(broadcast: bytes) -> list[bytes]:
        nonlocal left
        left -= 1
        if left == 0:
            raise ConnectionError
        return run(broadcast)

    path = tmp_path / "c"
    with pytest.raises(ConnectionError):
        linear().fit_partitions(dies, target="y", checkpoint=path)
    assert path.exists()
    before = len(asked)
    resumed = linear().fit_partitions(run, target="y", checkpoint=path)
    assert resumed._fitted.to_bytes() == model._fitted.to_bytes()
    assert len(asked) - before < 40
    assert not path.exists()
