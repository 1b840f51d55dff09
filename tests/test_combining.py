"""Summaries of sites: one model of all, the same bits in any order, and a refusal of what does not fit."""

from itertools import pairwise

import dask.array as da
import numpy as np
import pytest

from dspectral import (
    PCA,
    NgramHashing,
    SketchedPCA,
    Texts,
    TfidfWeighting,
    TruncatedSVD,
    VocabularySettings,
    build_store,
    combine,
    combining,
    load,
    save,
    write_summary,
)
from tests.engine.recording import bits
from tests.strategies import zipf_counts

SIZES, N_COLUMNS, BLOCK_ROWS = (4, 4, 3), 60, 40
ESTIMATORS = {
    "gram": PCA(3, svd_solver="gram"),
    "frequent_directions": SketchedPCA(3, solver="frequent_directions", sketch_size=8),
    "median_frequent_directions": TruncatedSVD(3, solver="median_frequent_directions", sketch_size=9),
    "nystrom": TruncatedSVD(3, solver="nystrom", sketch_size=12),
}


def write_sites(folder, estimator, parts, **options):
    paths = [folder / f"{name}.summary" for name in "abcdefgh"[: len(parts)]]
    for path, part in zip(paths, parts, strict=True):
        write_summary(part, path, estimator, **options)
    return paths


@pytest.fixture
def sites():
    """Three sites of unequal sizes, as lazy rows in blocks."""
    ends = np.cumsum([0, *SIZES]) * BLOCK_ROWS
    rows = zipf_counts(int(ends[-1]), N_COLUMNS, 8).toarray()
    return [da.from_array(rows[a:b], chunks=(BLOCK_ROWS, -1)) for a, b in pairwise(ends)]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_combined_model_has_the_bits_of_one_fit_in_any_order_of_sites(tmp_path, sites, name):
    estimator = ESTIMATORS[name]
    start = {"start": tmp_path / "a.summary"} if name == "nystrom" else {}
    write_summary(sites[0], tmp_path / "a.summary", estimator, **({"start": "own"} if start else {}))
    for letter, site in zip("bc", sites[1:], strict=True):
        write_summary(site, tmp_path / f"{letter}.summary", estimator, **start)
    paths = [tmp_path / f"{letter}.summary" for letter in "abc"]
    model = combine(paths)
    assert bits(combine(paths[::-1])) == bits(model)
    order = [path for _, path, *_ in combining.sort_sites([combining._read_site(path, None) for path in paths])]
    assert order[-1] == paths[2]  # the merge tree of a store whose last site has fewer blocks than the others
    whole = da.concatenate([sites[paths.index(path)] for path in order])
    if name == "nystrom":  # a fit chooses a basis of its own: both start from that of the first site
        model_of_one = combine(write_sites(tmp_path, estimator, [whole], **start))
        assert bits(model_of_one) == bits(model)
    else:
        assert bits(estimator.fit(whole)) == bits(model)
    rows = np.asarray(whole, dtype=float)
    exact = np.linalg.svd(rows - rows.mean(axis=0) * model.center, compute_uv=False)[:3] ** 2
    assert np.all(model.singular_values_**2 <= exact * (1 + 1e-6))
    assert np.all(exact - model.singular_values_**2 <= model.certificate_.absolute + 1e-6 * exact)


def count_texts(texts, folder, **settings):
    return build_store(Texts(texts), str(folder), **(settings or {"hashing": NgramHashing(64)}))


TEXTS = [f"word{i % 7} word{i * i % 11} again" for i in range(60)]


def test_combined_model_checks_the_columns_and_weights_of_new_rows(tmp_path):
    vocabulary = {"vocabulary": VocabularySettings()}
    stores = [count_texts(TEXTS * i, tmp_path / f"{i}", **vocabulary) for i in (1, 2)]
    assert stores[0].vocabulary.terms == stores[1].vocabulary.terms
    model = combine(write_sites(tmp_path, TruncatedSVD(3, solver="gram"), stores))
    assert model.feature_names_in_.tolist() == stores[0].vocabulary.terms
    save(model, tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").transform(stores[0]).compute(), model.transform(stores[0]).compute())
    hashed = [count_texts(TEXTS[i::2], tmp_path / f"hashed-{i}") for i in range(2)]
    model = combine(write_sites(tmp_path, TruncatedSVD(3, solver="gram"), hashed))
    with pytest.raises(ValueError, match="n_features = 32"):
        model.transform(count_texts(TEXTS, tmp_path / "other", hashing=NgramHashing(32, alternate_sign=False)))


def test_partial_fit_adds_rows_to_a_combined_model(tmp_path, sites):
    estimator = ESTIMATORS["frequent_directions"]
    model = combine(write_sites(tmp_path, estimator, sites[:2])).partial_fit(sites[2])
    assert bits(model) == bits(combine(write_sites(tmp_path, estimator, sites)))


def test_combine_takes_fewer_components_and_sites_with_other_seeds(tmp_path, sites):
    for number, site in enumerate(sites):
        estimator = SketchedPCA(3, solver="frequent_directions", sketch_size=8, random_state=number)
        write_summary(site, tmp_path / f"{number}.summary", estimator)
    assert combine(sorted(tmp_path.glob("*.summary")), n_components=2).components_.shape == (2, N_COLUMNS)
    for number, site in enumerate(sites):  # seed for the basis, without a file
        write_summary(site, tmp_path / f"{number}.summary", TruncatedSVD(2, solver="nystrom", random_state=number // 2))
    paths = sorted(tmp_path.glob("*.summary"))
    assert combine(paths[:2]).n_samples_seen_ == 320
    with pytest.raises(ValueError, match="random_state"):
        combine(paths)


def test_combined_weighting_makes_the_model_of_all_weighted_rows(tmp_path):
    stores = [count_texts(texts, tmp_path / texts[0]) for texts in (TEXTS[:12], TEXTS[12:40], TEXTS[40:])]
    whole = count_texts(TEXTS, tmp_path / "whole")
    weighting = combine(write_sites(tmp_path, TfidfWeighting(tf="log"), stores))
    expected = TfidfWeighting(tf="log").fit(whole)
    assert weighting.weighting.digest == expected.weighting.digest
    assert weighting.n_documents_ == 60
    weighted = [store.weighted(weighting) for store in stores]
    model = combine(write_sites(tmp_path, TruncatedSVD(3, solver="gram"), weighted))
    rows = expected.transform(whole)
    assert np.allclose(model.singular_values_, TruncatedSVD(3, solver="gram").fit(rows).singular_values_)
    assert model.transform(rows).shape == (60, 3)  # its weighting is that of the model
    with pytest.raises(ValueError, match="weighted already"):
        write_summary(weighted[0], tmp_path / "d.summary", TfidfWeighting())
    sites = write_sites(tmp_path, weighting, stores[:1])
    with pytest.raises(ValueError, match="n_components"):
        combine(sites, n_components=2)
    write_summary(stores[1], tmp_path / "b.summary", TfidfWeighting(tf="sqrt"))
    with pytest.raises(ValueError, match=r"a\.summary has tf=log.*sqrt"):
        combine([*sites, tmp_path / "b.summary"])


def edit(path, **changes):
    """Write a summary again with other facts."""
    summary, facts = combining.decode_summary(combining.KIND, path.read_bytes())
    path.write_bytes(combining.encode_summary(combining.KIND, summary, {**facts, **changes}))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda path, other: write_summary(other[:, :5], path, PCA(3, svd_solver="gram")), "n_columns=5"),
        (lambda path, other: write_summary(other, path, TruncatedSVD(3, solver="gram")), "estimator=TruncatedSVD"),
        (lambda path, other: write_summary(other, path, PCA(3, svd_solver="full")), "solver='full'"),
        (lambda path, other: write_summary(other, path, PCA(3, svd_solver="frequent_directions")), "solver=freq"),
        (lambda path, other: edit(path, format=2), "format 2"),
        (lambda path, other: path.write_bytes(path.read_bytes()[:-99]), "damaged"),
        (lambda path, other: path.write_bytes((path.parent / "a.summary").read_bytes()), "a.summary.*same"),
        (lambda path, other: write_summary(other, path, PCA(3, svd_solver="gram"), at_least=41), "40.*at_least=41"),
        (lambda path, other: write_summary(other, path, PCA(3, svd_solver="gram"), start="own"), "start='own'"),
    ],
)
def test_combine_refuses_what_does_not_fit(tmp_path, sites, change, named):
    paths = write_sites(tmp_path, PCA(3, svd_solver="gram"), sites[:2])
    combine(paths)
    with pytest.raises(ValueError, match=named):  # noqa: PT012  either of the two
        change(paths[1], sites[2])
        combine(paths)


def test_combine_refuses_other_names_of_columns(tmp_path):
    texts = [[f"aa bb {word}", "aa", "aa bb"] for word in ("cc", "dd")]
    a, b = (count_texts(text, tmp_path / text[0], vocabulary=VocabularySettings()) for text in texts)
    with pytest.raises(ValueError, match=r"b\.summary.*column 2 is 'dd'.*'cc'"):
        combine(write_sites(tmp_path, TruncatedSVD(1, solver="gram"), [a, b]))
    with pytest.raises(ValueError, match=r"b\.summary has has_names=False"):
        combine(write_sites(tmp_path, TruncatedSVD(1, solver="gram"), [a, b.counts.compute().toarray()]))
