"""Fits to tables that lie on a Ray cluster.

>>> from robustard.ray import JointARD  # doctest: +SKIP
>>> model = JointARD().fit("readings/*.parquet", target="load")  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import ray

import robustard

from ._distributed import answers, files_of, in_order, pieces_of

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["JointARD"]

#: How often a pass over the partitions of an actor is tried again when the actor has died.
RETRIES = 5


class _Block:
    """A block of a Ray dataset."""

    def __init__(self, reference: Any) -> None:
        # In a list, so that Ray does not fetch it when it is passed on.
        self._reference = [reference]

    def read(self) -> Any:
        return ray.get(self._reference[0])

    def __str__(self) -> str:
        return "a block of the dataset"


class _Worker:
    """Holds some partitions; reads them when they are asked for first, and again if it was started anew."""

    def __init__(self, fit: str, pieces: list[tuple[int, Any]]) -> None:
        self._fit, self._pieces = fit, pieces

    def answers(self, broadcast: bytes) -> list[tuple[int, bytes]]:
        return list(answers(self._fit, self._pieces, broadcast))


class JointARD(robustard.JointARD):
    """`robustard.JointARD` whose `fit` takes tables that lie on a Ray cluster.

    Actors hold the partitions; what travels in a pass is a few numbers per pair of features from each of them. An actor that dies is
    started again and reads its partitions again. The result is the same, to the byte, for any number of actors.

    It has the parameters and attributes of `robustard.JointARD`.

    Examples
    --------
    >>> from robustard.ray import JointARD
    >>> JointARD(features="linear")
    JointARD(features='linear')
    """

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: None = None,
        sample_weight: str | None = None,
        *,
        target: str | None = None,
        workers: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resources: dict[str, Any] | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : path, list of paths or ray.data.Dataset
            Parquet files, folders of them or patterns, which all nodes can read; or a dataset with the target among its columns.
        y : None
            Not given: the table has the target.
        sample_weight : str, optional
            The column that says how often each row counts.
        target : str
            The column to predict.
        workers : int, optional
            The number of actors; by default one for each processor of the cluster.
        checkpoint : path, optional
            Write how far the fit has come to this file after each pass; a fit that was killed goes on from it.
        resources : dict, optional
            Options of the actors, as `ray.remote` takes them: {'num_cpus': 2, 'memory': 8e9}.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> from robustard.ray import JointARD
        >>> model = JointARD().fit("readings/*.parquet", target="load", workers=8)  # doctest: +SKIP
        """
        if y is not None:
            raise ValueError("the table has the target: name its column as target")
        if target is None:
            raise ValueError("say which column to predict, for example target='price'")
        if not ray.is_initialized():
            ray.init()
        pieces: list[Any]
        if hasattr(X, "materialize"):
            pieces = [_Block(reference) for reference in X.materialize().to_arrow_refs()]
        else:
            pieces = list(pieces_of(files_of(X)))
        numbered = list(enumerate(pieces))
        if not numbered:
            raise ValueError("the dataset has no rows")
        wanted = workers if workers is not None else int(ray.cluster_resources().get("CPU", 1))
        if wanted < 1:
            raise ValueError(f"workers is {wanted}; it must be at least 1")
        count = min(wanted, len(numbered))
        options = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": RETRIES, **(resources or {})}
        actor = ray.remote(**options)(_Worker)
        fit = os.urandom(8).hex()
        actors = [actor.remote(fit, numbered[k::count]) for k in range(count)]

        def run(broadcast: bytes) -> Iterable[bytes]:
            shared = ray.put(broadcast)
            try:
                found = ray.get([actor.answers.remote(shared) for actor in actors])
            except ray.exceptions.RayTaskError as error:
                # What went wrong, without the trace of the worker.
                raise ValueError(str(error.cause)) from error
            return in_order((answer for some in found for answer in some), len(numbered))

        try:
            return self.fit_partitions(run, target=target, sample_weight=sample_weight, checkpoint=checkpoint)
        finally:
            for actor in actors:
                ray.kill(actor)
