"""Label sequences by hidden Markov models whose labels have latent refinements: moments against EM.

The data are labeled sequences, as tables, or a folder of labeled recordings with its index, whose frames become
codes and whose recordings are put together to strings. Methods: `hmm` is the supervised model, one refinement a
label; `em-M` has M refinements, by EM from random starts; `spectral-M` takes them from moments in two passes and
polishes them by a few EM passes; `moments-M` is the same without polish; `operators-M` decodes by chain products of
the observable operators. Values are means over seeds, `spread` their standard deviation. CPU seconds are those of
fitting. Of several `--views` of past and future the best is chosen on a fifth of the training strings.
"""

import argparse
from typing import Any, NamedTuple

from ._form import form


class Views(NamedTuple):
    """Decays of the sums that stand for past and future: over the whole string, and within a label's run."""

    memory: tuple[float, ...]
    run_memory: tuple[float, ...]

    def __str__(self) -> str:
        """Return what one types for ``--views``."""
        return ":".join(",".join(f"{decay:g}" for decay in side) for side in self)


def options() -> form.Parser:
    """Return the parser."""
    parser = form.parser("sequence_labelling", __doc__)
    add = parser.add_argument
    about = "a token and its label a line, or a frame's numbers and its label (default: none)"
    add("--train", metavar="TSV", help=about)
    about = "the same, to be labeled; an empty line ends a sequence (default: none)"
    add("--test", metavar="TSV", help=about)
    add(
        "--wav",
        type=form.local_path,
        metavar="DIR",
        help="recordings (.wav, or in .zip files) with an index.tsv (default: none)",
    )
    add("--label-column", default="digit", metavar="NAME", help="of the index")
    add("--split-column", default="split", metavar="NAME", help="of the index: train or test")
    about = "a column of the index: each of its values is the test side in turn (default: --split-column says)"
    add("--hold-out", metavar="NAME", help=about)
    add("--per-string", type=form.positive, default=5, metavar="N", help="recordings of a string")
    add("--codes", type=form.positive, default=256, metavar="K", help="of the frames")
    about = "hidden kinds of each label"
    add("--refinements", nargs="+", type=form.positive, default=[2, 4, 8], metavar="M", help=about)
    add("--polish", type=form.positive, default=3, metavar="P", help="EM passes after the moments")
    add("--em-iterations", type=form.positive, default=200, metavar="N", help="EM passes at most")
    views = "decays of the sums over the sequence and over a label's run, 0.5:0.7,0.95 for instance"
    add("--views", nargs="+", type=decays, default=[Views((0.5,), (0.9,))], metavar="PAST:RUN", help=views)
    add("--seeds", type=form.positive, default=3, metavar="S", help="of each method that has any")
    return parser


def decays(text: str) -> Views:
    """Read the decays of both sums, as a ``type`` of argparse; either side may be empty.

    >>> decays("0.5:0.7,0.95"), decays(":0.9")
    (Views(memory=(0.5,), run_memory=(0.7, 0.95)), Views(memory=(), run_memory=(0.9,)))
    """
    try:
        past, run = (tuple(float(number) for number in side.split(",") if number) for side in text.split(":"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 0.5:0.7,0.95") from None
    return Views(past, run)


form.check_options(__name__, options)

from collections.abc import Callable
from itertools import chain

import numpy as np

import dspectral
from dspectral import RefinementHMM, RefinementRecipe
from dspectral.inputs import as_labeled_corpus

from ._form.plots import at_integers, from_zero, new_plot
from ._parts.labeled_documents import not_learned, note_not_learned
from ._parts.scores import frame_accuracy, label_error_rate
from ._parts.sequences import Side, Task, recordings, tables

METRICS = ("frame_accuracy", "label_error_rate", "cpu_seconds")


class Method(NamedTuple):
    """A name, the refinements that it stands for, and how to make its model from a seed."""

    name: str
    n_refinements: int
    make: Callable[[int], RefinementHMM]
    n_seeds: int


def main(argv: list[str] | None = None) -> None:
    """Fit, decode and report."""
    arguments = options().parse_args(argv)
    with form.run(arguments) as run:
        tasks = recordings(run) if arguments.wav else tables(arguments)
        for task in tasks:
            note_not_learned(run, not_learned(task.test.labels, chain(*task.train.labels)))
        with run.measure("compile"):  # so that no method's CPU seconds count it
            for method in methods(arguments, arguments.views[0]):
                model = method.make(0)
                fitted(model.set_params(n_em_iter=min(1, model.n_em_iter)), tasks[0], head=True)
        scores: dict[str, dict[str, list[float]]] = {}
        for task in tasks:
            for method in methods(arguments, choose_views(run, task)):
                score(run, task, method, scores)
        report(run, tasks, scores)


def choose_views(run: form.Run, task: Task) -> Views:
    """Return the views under which models learned from four fifths of the training strings label the fifth best."""
    arguments = run.arguments
    if len(arguments.views) == 1:
        return Views(*arguments.views[0])
    order = np.random.default_rng(arguments.seed).permutation(len(task.train.tokens))
    held, kept = order[::5], np.delete(order, np.s_[::5])
    inner = Task(task.name, *(part_of(task.train, rows.tolist()) for rows in (kept, held)))
    found = []
    for views in arguments.views:
        values = []
        with run.measure(f"choose views: {views}"):
            recipe = RefinementRecipe(*views, tol=0.0)
            for m in arguments.refinements:
                model = RefinementHMM(m, n_em_iter=arguments.polish, recipe=recipe, random_state=arguments.seed)
                fitted(model, inner)
                run.passes += model.n_passes_
                values.append(frame_accuracy(inner.test.labels, model.predict(inner.test.tokens)))
        found.append(float(np.mean(values)))
        shown = f"{','.join(map(str, views.memory))}:{','.join(map(str, views.run_memory))}"
        run.detail(data=task.name, method="spectral", metric="held_out_accuracy", value=found[-1], views=shown)
    best = arguments.views[int(np.argmax(found))]
    run.note(
        f"{task.name}: of {len(found)} views, {best} label the held-out strings best: {max(found):.4f} of the "
        f"frames, the worst {min(found):.4f}"
    )
    return Views(*best)


def part_of(side: Side, rows: list[int]) -> Side:
    """Return some of the strings."""
    return Side([side.tokens[i] for i in rows], [side.labels[i] for i in rows])


def methods(arguments: argparse.Namespace, views: Views) -> list[Method]:
    """Return all methods, those of moments under these views."""
    found = [Method("hmm", 1, lambda _: RefinementHMM(1, n_em_iter=0), 1)]
    for m in arguments.refinements:
        recipe = RefinementRecipe(*views)
        shared: dict[str, Any] = {"n_refinements": m, "recipe": recipe}
        random = {**shared, "start": "random", "n_em_iter": arguments.em_iterations}
        for name, parameters in (
            (f"em-{m}", random),
            (f"spectral-{m}", {**shared, "n_em_iter": arguments.polish, "recipe": recipe._replace(tol=0.0)}),
            (f"moments-{m}", {**shared, "n_em_iter": 0}),
            (f"operators-{m}", {**shared, "n_em_iter": 0, "recipe": recipe._replace(decoding="operators")}),
        ):
            found.append(Method(name, m, maker(parameters, arguments.seed), arguments.seeds))
    return found


def maker(parameters: dict[str, Any], first: int) -> Callable[[int], RefinementHMM]:
    """Return a function that makes the model of a seed."""
    return lambda seed: RefinementHMM(**parameters, random_state=first + seed)


def score(run: form.Run, task: Task, method: Method, scores: dict[str, dict[str, list[float]]]) -> None:
    """Fit a method with each seed, decode the test side, and keep and report what came out."""
    own: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for seed in range(method.n_seeds):
        with run.measure(f"{task.name}: {method.name}, seed {seed}") as used:
            model = fitted(method.make(seed), task)
        run.passes += model.n_passes_
        found = model.predict(task.test.tokens)
        if method.name.startswith("operators") and seed == 0:
            share = np.mean(model.label_shares(model.encode(task.test.tokens)) == 0)
            run.note(f"{task.name}, {method.name}: {share:.1%} of the label shares were negative and set to 0")
        own["frame_accuracy"].append(frame_accuracy(task.test.labels, found))
        own["label_error_rate"].append(label_error_rate(task.test.labels, found))
        own["cpu_seconds"].append(used.cpu_seconds)
    if method.name.startswith("spectral"):
        run.save(lambda path: dspectral.save(model, path))
    for metric, values in own.items():
        scores.setdefault(method.name, {}).setdefault(metric, []).append(float(np.mean(values)))
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        fields = {"spread": spread, "refinements": method.n_refinements, "seeds": method.n_seeds}
        run.rows({metric: float(np.mean(values))}, data=task.name, method=method.name, **fields)


def fitted(model: RefinementHMM, task: Task, *, head: bool = False) -> RefinementHMM:
    """Fit the training side, or (to compile) its first strings."""
    side = Side(task.train.tokens[:20], task.train.labels[:20]) if head else task.train
    model.fit(as_labeled_corpus(side.tokens, side.labels))
    if head:
        model.predict(side.tokens[:2])
    return model


def report(run: form.Run, tasks: list[Task], scores: dict[str, dict[str, list[float]]]) -> None:
    """Add the means over all test sides, where there are several, and the plots."""
    if len(tasks) > 1:
        for method, metrics in scores.items():
            for metric, values in metrics.items():
                run.row(data="mean", method=method, metric=metric, value=float(np.mean(values)))
    for metric in METRICS[:2]:
        figure, axes = new_plot("all test sides", x="refinements of a label", y=metric.replace("_", " "))
        axes.axhline(np.mean(scores["hmm"][metric]), color="#999", linestyle="--", linewidth=0.9, label="hmm")
        for kind in ("em", "spectral", "moments"):
            points = sorted(
                (int(name.split("-")[1]), float(np.mean(found[metric])), spread_of(run, name, metric))
                for name, found in scores.items()
                if name.startswith(f"{kind}-")
            )
            if points:
                m, means, spreads = zip(*points, strict=True)
                axes.errorbar(m, means, spreads, marker="o", capsize=3, label=kind)
        from_zero(axes, shares=metric != "cpu_seconds", zoom=True)
        at_integers(axes)
        axes.legend(frameon=False)
        run.plot(
            metric,
            figure,
            f"{metric.replace('_', ' ').capitalize()} against the refinements of a label; bars are standard "
            "deviations over the seeds.",
        )
    best = max(scores, key=lambda method: np.mean(scores[method]["frame_accuracy"]))
    plain = np.mean(scores["hmm"]["frame_accuracy"])
    run.answer(
        f"`{best}` labels {np.mean(scores[best]['frame_accuracy']):.1%} of the frames correctly; the model with one "
        f"state a label (`hmm`) {plain:.1%}."
    )


def spread_of(run: form.Run, method: str, metric: str) -> float:
    """Return the standard deviation over the seeds, of the mean over the test sides."""
    spreads = [
        row["spread"]
        for row in run.report.rows
        if (row["method"], row["metric"]) == (method, metric) and "spread" in row
    ]
    return float(np.sqrt(np.sum(np.square(spreads)))) / len(spreads)


if __name__ == "__main__":
    main()
