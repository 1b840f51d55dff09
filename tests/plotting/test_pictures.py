"""Pictures whose labels do not cover each other, drawn without a display."""

import itertools

import matplotlib as mpl
import numpy as np
import pytest

import dspectral
from dspectral import (
    plot_brown_tree,
    plot_certificate,
    plot_spectrum,
    plot_words,
)

mpl.use("agg")
import matplotlib.pyplot as plt

ROWS = np.random.default_rng(0).standard_normal((300, 60)) * np.exp(-np.arange(60) / 8)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def sentences():
    rng = np.random.default_rng(1)
    words = [f"{start}{end}" for start in ("mo", "ka", "ri", "tu", "se") for end in ("la", "nd", "ver", "lo", "ming")]
    return [list(rng.choice(words, size=7, p=np.arange(25, 0, -1) / 325)) for _ in range(300)]


@pytest.fixture(scope="module")
def clustering(sentences):
    return dspectral.SpectralBrownClustering(12, n_sweeps=1).fit(sentences)


@pytest.fixture(scope="module")
def embedding(sentences):
    return dspectral.WordEmbedding(4).fit(sentences)


class Words:
    """Vectors that lie as close together as words can."""

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.words_ = [f"word{i}" * (1 + i % 3) for i in range(n)]
        self.vectors_ = np.concatenate([rng.standard_normal((n // 2, 5)), 0.05 * rng.standard_normal((n - n // 2, 5))])


def boxes(texts):
    texts = [text for text in texts if text.get_text() and text.get_visible()]
    texts[0].figure.draw_without_rendering()
    return [text.get_window_extent() for text in texts]


def overlapping(shown):
    return [
        (a, b)
        for a, b in itertools.combinations(shown, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 0.5 and min(a.y1, b.y1) - max(a.y0, b.y0) > 0.5
    ]


def inside(shown, ax):
    frame = ax.figure.bbox
    return all(frame.x0 <= a.x0 and a.x1 <= frame.x1 and frame.y0 <= a.y0 and a.y1 <= frame.y1 for a in shown)


def test_spectrum_shows_every_value_and_the_share_of_the_energy():
    model = dspectral.SketchedPCA(8, solver="gram").fit(ROWS)
    ax = plot_spectrum(model)
    assert ax.lines[0].get_ydata() == pytest.approx(model.singular_values_)
    shares = ax.figure.axes[1]
    last = np.sum(model.singular_values_**2) / model.energy_
    assert shares.lines[0].get_ydata()[-1] == pytest.approx(last)
    assert shares.get_ylim()[0] == 0
    assert "all rows" in shares.get_ylabel()
    of_values = plot_spectrum([2.0, 1.0, 0.0]).figure.axes[1]
    assert "these values" in of_values.get_ylabel()
    assert of_values.lines[0].get_ydata()[-1] == 1.0


def test_every_plot_uses_the_given_axes(clustering, embedding):
    model = dspectral.SketchedPCA(8, solver="frequent_directions", sketch_size=12).fit(ROWS)
    drawings = [
        (plot_spectrum, model),
        (plot_certificate, model),
        (plot_brown_tree, clustering),
        (plot_words, embedding),
    ]
    for draw, what in drawings:
        _, ax = plt.subplots()
        assert draw(what, ax=ax) is ax
        assert ax.has_data()


def test_certificate_title_counts_the_components_above_it():
    rows = np.random.default_rng(2).standard_normal((300, 60)) * np.exp(-np.arange(60) / 20)
    model = dspectral.SketchedPCA(20, solver="frequent_directions", sketch_size=20).fit(rows)
    n_certain = int(np.sum(model.singular_values_**2 > model.certificate_.absolute))
    assert 0 < n_certain < 20
    title = f"{n_certain} of 20 components are above the certificate"
    assert plot_certificate(model).get_title() == title
    values, certificate = model.singular_values_, model.certificate_
    assert plot_certificate(values, certificate=certificate).get_title() == title
    assert plot_certificate(values, certificate=certificate.absolute).get_title() == title
    truth = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)[:20] ** 2
    assert (truth <= values**2 + certificate.absolute).all()  # the band
    exact = plot_certificate(dspectral.SketchedPCA(20, solver="gram").fit(ROWS))
    assert exact.get_title() == "all 20 components are exact up to rounding"


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda _: plot_spectrum(dspectral.TruncatedSVD(2)), "TruncatedSVD.*fitted"),
        (lambda _: plot_spectrum("abc"), "singular value"),
        (lambda _: plot_spectrum([0.0, 0.0]), "singular value"),
        (lambda _: plot_spectrum([np.nan]), "singular value"),
        (lambda _: plot_certificate([2.0, 1.0]), "certificate="),
        (lambda model: plot_words(model, ["mola", "zebra"]), "'zebra'"),
        (lambda model: plot_words(model, ["mola"]), "words.*mola.*2"),
    ],
)
def test_invalid_arguments_are_refused(draw, message, embedding):
    with pytest.raises((TypeError, ValueError, KeyError), match=message):
        draw(embedding)


@pytest.mark.parametrize("n_clusters", [2, 5, None])
def test_brown_tree_labels_every_class_without_overlap(clustering, n_clusters):
    ax = plot_brown_tree(clustering, n_clusters=n_clusters)
    labels = ax.get_yticklabels()
    codes = sorted(set(clustering.codes(n_clusters)))
    assert [label.get_text().split()[-1] for label in labels] == codes
    shown = boxes(labels)
    assert overlapping(shown) == []
    assert inside(shown, ax)
    # The lines of the tree end beside their labels: leaf i has y = 10 i + 5.
    ends = np.array([(x, y) for line in ax.collections[0].get_segments() for x, y in line])
    assert sorted(ends[ends[:, 0] == 0, 1]) == ax.get_yticks().tolist()
    most = clustering.words_[1 + int(np.argmax(clustering.word_counts_[1:]))]
    assert any(label.get_text().startswith(most) for label in labels)
    _, small = plt.subplots(figsize=(6, 2), layout="constrained")
    assert overlapping(boxes(plot_brown_tree(clustering, small, n_clusters=n_clusters).get_yticklabels())) == []


@pytest.mark.parametrize("n", [5, 80])
def test_word_labels_do_not_overlap_or_leave_the_frame(n):
    ax = plot_words(Words(n), n=n)
    labels = [text for text in ax.texts if text.get_text()]
    assert len(labels) >= min(n, 60)
    shown = boxes(labels)
    assert overlapping(shown) == []
    assert inside(shown, ax)
    dots = ax.transData.transform(np.asarray(ax.collections[0].get_offsets()))
    covered = [dot for dot in dots for box in shown if box.x0 < dot[0] < box.x1 and box.y0 < dot[1] < box.y1]
    assert covered == []


def test_word_groups_have_colors_and_a_legend(embedding):
    ax = plot_words(embedding, {"first": ["mola", "kala"], "second": ["rind", "tund"], "none": []})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["first", "second"]
    assert len(ax.collections) == 2
    assert {text.get_text() for text in ax.texts} >= {"mola", "kala", "rind", "tund"}
    assert plot_words(embedding).get_legend() is None
    assert "<?>" not in {text.get_text() for text in plot_words(embedding).texts}
