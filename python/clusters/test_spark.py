"""Fits on Spark: a local cluster with two workers, or Sail."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import robustard
from helpers import SETTINGS, here, kill, model_bytes, readings
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import functions as F
from robustard.spark import JointARD, JointARDModel, _plain_files

IS_SAIL = os.environ.get("ROBUSTARD_ENGINE") == "sail"


def fit(frame, **given):
    return JointARD(target="y", **{**SETTINGS, **given}).fit(frame)


def test_files_give_the_same_bytes_as_all_engines(session, folder):
    frame = session.read.parquet(str(folder))
    assert _plain_files(frame), "the workers read the files themselves"
    assert model_bytes(fit(frame).estimator) == model_bytes(here(folder))


def test_other_frames_are_packed(session, folder):
    frame = session.read.parquet(str(folder)).withColumn("a", F.col("a") * 1.0)
    assert _plain_files(frame) is None
    if IS_SAIL:
        # It persists nothing, and may divide the rows otherwise each time: then there is an error, and never a wrong model.
        try:
            assert fit(frame).estimator.coef_ == pytest.approx(here(folder).coef_, abs=1e-2)
        except RuntimeError as error:
            assert "write it to Parquet files first" in str(error)
        return
    model = fit(frame)
    assert model.estimator.coef_ == pytest.approx(here(folder).coef_, abs=1e-2)
    # More partitions than tasks run at once, some without rows.
    many = fit(frame.repartition(7).filter("a > -1"))
    assert many.estimator._fitted.streamed_rows == frame.filter("a > -1").count()
    again = fit(frame)
    assert model_bytes(again.estimator) == model_bytes(model.estimator)


def test_predictions_and_diagnoses(session, folder):
    frame = session.createDataFrame(readings(3000, 7).to_pandas())
    model = JointARD(target="y", noise="contaminated", features="linear").fit(frame.drop("id"))
    rows = {row["id"]: row for row in model.transform(frame.filter("id % 2 = 0")).collect()}
    assert len(rows) == 1500
    table = readings(3000, 7)
    expected = model.estimator.predict_interval(table.drop(["id", "y"]))
    for place in (0, 2, 2998):
        row = rows[7_000_000 + place]
        assert (row["lower"], row["upper"]) == pytest.approx(tuple(expected[place]))
        assert row["lower"] < row["prediction"] < row["upper"] and row["std"] > 0
    found = model.diagnose(frame).toPandas()
    assert len(found) == 3000
    # Every twentieth row is wrong; of the others hardly any is flagged.
    flagged = set(found.loc[found["flagged"], "id"])
    wrong = set(7_000_000 + np.arange(0, 3000, 20))
    assert len(wrong & flagged) >= 145 and len(flagged - wrong) <= 10
    with pytest.raises(ValueError, match="already"):
        model.transform(frame.withColumn("prediction", F.lit(1.0)))


def test_missing_values_weights_and_levels_never_seen(session):
    table = readings(2000, 3).drop(["id"])
    a = table["a"].to_pylist()
    a[5] = None
    table = table.set_column(0, "a", pa.array(a)).append_column("w", pa.array(1.0 + np.arange(2000) % 3))
    frame = session.createDataFrame(table.to_pandas())
    with pytest.raises(Exception, match="'a'"):
        fit(frame, weightCol="w")
    model = fit(frame, weightCol="w", missing="impute")
    weighted = robustard.JointARD(**SETTINGS, missing="impute").fit(
        table.drop(["y", "w"]), table["y"].to_numpy(), table["w"].to_numpy()
    )
    assert model.estimator.coef_ == pytest.approx(weighted.coef_, abs=2e-2)
    new = session.createDataFrame(
        [(1.0, 0.0, 0.0, "Oslo"), (None, 0.0, 0.0, "Nice")], "a double, b double, junk double, city string"
    )
    predicted = [row["prediction"] for row in model.transform(new).collect()]
    assert all(value is not None and 5 < value < 20 for value in predicted)


def test_saved_models_come_back(session, folder, tmp_path):
    frame = session.read.parquet(str(folder))
    model = fit(frame, level=0.8, predictionCol="guess")
    model.write().overwrite().save(str(tmp_path / "model"))
    again = JointARDModel.load(str(tmp_path / "model"))
    assert model_bytes(again.estimator) == model_bytes(model.estimator)
    assert again.getOrDefault("level") == 0.8
    some = frame.filter("a > 3")
    one, two = (sorted(row["guess"] for row in m.transform(some).collect()) for m in (model, again))
    assert len(one) > 5 and one == two
    estimator = JointARD(target="y", noise="shared")
    estimator.write().overwrite().save(str(tmp_path / "estimator"))
    assert JointARD.load(str(tmp_path / "estimator")).getOrDefault("noise") == "shared"


@pytest.mark.skipif(IS_SAIL, reason="Sail has no evaluators")
def test_pipelines_and_cross_validation(session, folder, tmp_path):
    frame = session.read.parquet(str(folder))
    estimator = JointARD(target="y", features="linear")
    pipeline = Pipeline(stages=[estimator]).fit(frame)
    pipeline.write().overwrite().save(str(tmp_path / "pipeline"))
    again = PipelineModel.load(str(tmp_path / "pipeline"))
    assert model_bytes(again.stages[0].estimator) == model_bytes(pipeline.stages[0].estimator)
    grid = ParamGridBuilder().addGrid(estimator.noise, ["shared", "contaminated"]).build()
    evaluator = RegressionEvaluator(labelCol="y", metricName="mae")
    best = CrossValidator(estimator=estimator, estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, seed=1).fit(
        frame
    )
    assert best.bestModel.estimator.noise == "contaminated"


@pytest.mark.skipif(IS_SAIL, reason="Sail's workers are threads")
def test_an_executor_that_is_killed_is_replaced(session, folder, monkeypatch):
    passes = []
    before = robustard.JointARD.fit_partitions

    def with_a_kill(self, run, **given):
        def killing(broadcast):
            passes.append(len(broadcast))
            if len(passes) == 4:
                kill("CoarseGrainedExecutorBackend", "--executor-id")
            return run(broadcast)

        return before(self, killing, **given)

    monkeypatch.setattr(robustard.JointARD, "fit_partitions", with_a_kill)
    model = fit(session.read.parquet(str(folder)))
    monkeypatch.undo()
    assert len(passes) > 4
    assert model_bytes(model.estimator) == model_bytes(here(folder))


def test_what_is_wrong_is_said(session, folder, tmp_path):
    frame = session.read.parquet(str(folder))
    with pytest.raises(ValueError, match="which column to predict"):
        JointARD().fit(frame)
    with pytest.raises(TypeError, match="no parameter 'nope'"):
        JointARD(nope=1)
    with pytest.raises(Exception, match="there is no column 'nope'|'nope'"):
        JointARD(target="nope").fit(frame)
    with pytest.raises(ValueError, match="not fitted"):
        JointARDModel().transform(frame)
    for name in ("part-0.parquet", "part-3.parquet"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    frame = session.read.parquet(str(tmp_path))
    whole = (tmp_path / "part-3.parquet").read_bytes()
    (tmp_path / "part-3.parquet").write_bytes(whole[:4] + b"\xff" * 20_000 + whole[20_004:])
    with pytest.raises(Exception, match=r"part-3\.parquet"):
        fit(frame)
    # Text where there were numbers.
    other = readings(100, 9).drop(["id"])
    pq.write_table(other.set_column(0, "a", pa.array(["many"] * 100)), tmp_path / "part-3.parquet")
    with pytest.warns(UserWarning, match="'a' is left out"):
        fit(session.read.schema(frame.schema).parquet(str(tmp_path)))
