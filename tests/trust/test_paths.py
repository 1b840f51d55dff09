"""Keys that leave their folder are refused, by their parts and by links, on every kind of file system."""

import json
import shutil
import warnings

import fsspec
import h5py
import numpy as np
import pytest
from scipy import sparse

import dspectral
from dspectral import (
    TruncatedSVD,
    VocabularySettings,
    build_store,
    load,
    nearest,
    open_coordinates,
    open_store,
    save,
)
from dspectral.engine.around.checkpoints import CheckpointError, CheckpointFolder
from dspectral.store.arrays import read_array, write_array
from dspectral.store.location import NAMED_LOCATIONS, Location
from dspectral.summary_files import encode_summary
from tests.trust.edits import edit

X = sparse.csr_array(np.eye(8))
OUTSIDE = (
    "../evil", "blocks/../../evil", "/evil", "blocks//evil", "./evil", "blocks/./evil", "..", "blocks\\..\\..\\evil",
    "blocks/\0", "C:evil", "memory://evil", "file::evil", "%2e%2e/evil", "blocks/%2E./../evil", "blocks/",
)  # fmt: skip
PLACES = {
    "folder": lambda folder: Location.from_url(f"{folder}/store"),
    "file": lambda folder: Location.from_url(f"file://{folder}/store"),
    "memory": lambda folder: Location.from_url(f"memory://{folder}/store"),
    "cache": lambda folder: Location.from_url(f"simplecache::file://{folder}/store"),
}


@pytest.mark.parametrize("key", OUTSIDE)
@pytest.mark.parametrize("kind", PLACES)
def test_no_key_leads_out_of_a_store(tmp_path, kind, key):
    place = PLACES[kind](tmp_path)
    for use in (
        lambda: place.read_files(key),
        lambda: place.write_file(key, b"x"),
        lambda: place.has_file(f"{key}/zarr.json"),
        lambda: place.list_names(key),
        lambda: place.read_attributes(key),
        lambda: place.write_attributes(key, {}),
        lambda: place.remove(key),
        lambda: read_array(place, key),
        lambda: write_array(place, key, np.arange(3)),
    ):
        with pytest.raises(ValueError, match="outside"):
            use()
    assert list(tmp_path.rglob("evil")) == []


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_link_within_a_store_leads_nowhere_else(tmp_path, kind):
    place = PLACES[kind](tmp_path)
    write_array(Location.from_url(f"{tmp_path}/other"), "blocks/data", np.arange(3))
    write_array(Location.from_url(f"{tmp_path}/store"), "mine/data", np.arange(3))
    folder = tmp_path / "store"
    (folder / "blocks").symlink_to(tmp_path / "other" / "blocks")
    (folder / "within").symlink_to(folder / "mine")
    for use in (
        lambda: read_array(place, "blocks/data"),
        lambda: write_array(place, "blocks/more", np.arange(3)),
        lambda: place.read_files("blocks/data/c/0"),
        lambda: place.list_names("blocks"),
        lambda: place.remove("blocks/data"),
    ):
        with pytest.raises(ValueError, match=r"blocks.*(out of|outside)"):
            use()
    assert (tmp_path / "other/blocks/data/c/0").exists()
    assert not (tmp_path / "other/blocks/more").exists()
    assert read_array(place, "within/data").tolist() == [0, 1, 2]
    (tmp_path / "link").symlink_to(folder)
    assert read_array(Location.from_url(f"{tmp_path}/link"), "mine/data").size


def blocks_of(where, *, key="dspectral"):
    content = json.loads((where / "zarr.json").read_text())
    return content["attributes"][key]["blocks"]


@pytest.mark.parametrize("name", ["../other/{}", "{0}/../../../other/{0}", "{parent}/other/{0}"])
def test_a_block_that_metadata_name_elsewhere_is_not_read(tmp_path, name):
    for place in ("store", "other"):
        dspectral.write_counts(X, str(tmp_path / place), labels=X)
    corpora = [dspectral.build_corpus(dspectral.Texts(["a b", "b c"]), str(tmp_path / one)) for one in ("c", "d")]
    (first, *_) = blocks_of(tmp_path / "store")
    to = name.format(first[0], parent=tmp_path)
    edit(tmp_path / "store" / "zarr.json", ("attributes", "dspectral", "blocks", 0, 0), to)
    store = open_store(str(tmp_path / "store"))
    for use in (store.counts.compute, store.labels.compute, store.check, store[:2].counts.compute):
        with pytest.raises(ValueError, match=r"out of|outside|damaged|readable|missing"):
            use()
    to = to.replace("/other/", "/d/") if "other" in to else to
    edit(tmp_path / "c" / "zarr.json", ("attributes", "dspectral-corpus", "blocks", 0, 0), to)
    corpus = dspectral.open_corpus(str(tmp_path / "c"))
    with pytest.raises(ValueError, match=r"out of|outside|damaged|missing"):
        corpus.sentences.read(corpus.blocks[0])
    assert len(corpora) == 2


def test_a_linked_array_of_a_model_is_not_read(tmp_path):
    for name in ("model", "other"):
        save(TruncatedSVD(2).fit(X), str(tmp_path / name))
    folder, other = (next((tmp_path / name).glob("arrays-*")) for name in ("model", "other"))
    shutil.rmtree(folder)
    folder.symlink_to(other)
    with pytest.raises(ValueError, match=r"out of|outside"):
        load(str(tmp_path / "model"))


def test_a_linked_lock_is_not_written_through(tmp_path):
    dspectral.write_counts(X, str(tmp_path / "store"))
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "store" / "writer.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(ValueError, match=r"writer\.lock.*(out of|outside)"):
        dspectral.write_counts(X, str(tmp_path / "store"), append=True)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_linked_part_of_a_fit_is_made_again_and_others_are_not_removed(tmp_path):
    content = encode_summary("a/b", {"n": 1})
    folder = CheckpointFolder(str(tmp_path / "kept"))
    folder.write("a/b", content)
    assert folder.read("a/b").summary == {"n": 1}
    (tmp_path / "kept").rename(tmp_path / "other")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a").symlink_to(tmp_path / "other" / "a")
    with pytest.raises(CheckpointError, match=r"out of|outside"):
        folder.read("a/b")
    assert folder.clear().n_files == 0
    assert next((tmp_path / "other" / "a").iterdir()).exists()


def test_coordinates_open_only_a_store_that_the_caller_has_named(tmp_path):
    place, out = str(tmp_path / "store"), str(tmp_path / "c.zarr")
    texts = dspectral.Texts([f"a{i % 3} b{i % 5} c" for i in range(12)])
    store = build_store(texts, place, vocabulary=VocabularySettings(), keep_texts=True)
    svd = TruncatedSVD(2).fit(store.tfidf())
    svd.transform(store.tfidf(), out=out)
    near = nearest(svd, open_coordinates(out), "b1", n=2)
    assert near[0].text in store.text(range(12))
    NAMED_LOCATIONS.clear()
    shutil.copytree(place, tmp_path / "other")
    with pytest.raises(ValueError, match=rf"open_store\('{place}'\)"):
        nearest(svd, open_coordinates(out), "b1")
    assert nearest(svd, open_coordinates(out), 0)[0].text is None
    edit(
        tmp_path / "c.zarr" / "zarr.json",
        ("attributes", "dspectral-coordinates", "store"),
        str(tmp_path / "other"),
    )
    open_store(place)
    with pytest.raises(ValueError, match=rf"open_store\('{tmp_path / 'other'}'\)"):
        nearest(svd, open_coordinates(out), "b1")


def linked(folder, name, kind):
    """Write an AnnData file in which a part of X is in another file."""
    place = str(folder / "a.h5ad")
    dspectral.io.write_anndata(dspectral.write_counts(X, str(folder / "counts")), place)
    with h5py.File(folder / "other.h5", "w") as other:
        other["data"] = np.full(8, 7.0, dtype=np.float32)
        other.create_group("X")
    (folder / "raw").write_bytes(np.full(8, 7.0, dtype=np.float32).tobytes())
    with h5py.File(place, "r+") as file:
        del file[name]
        if kind == "link":
            file[name] = h5py.ExternalLink(str(folder / "other.h5"), "data")
        elif kind == "soft link":
            file["elsewhere"] = h5py.ExternalLink(str(folder / "other.h5"), "/")
            file[name] = h5py.SoftLink("/elsewhere/data")
        elif kind == "raw":
            file.create_dataset(name, (8,), np.float32, external=[(str(folder / "raw"), 0, h5py.h5f.UNLIMITED)])
        else:
            layout = h5py.VirtualLayout((8,), np.float32)
            layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "data", shape=(8,))
            file.create_virtual_dataset(name, layout)
    return place


@pytest.mark.parametrize("kind", ["link", "soft link", "raw", "virtual"])
def test_hdf5_reads_no_other_file(tmp_path, kind):
    place = linked(tmp_path, "X/data", kind)
    with pytest.raises(ValueError, match=r"a\.h5ad.*file"):
        open_store(place).counts.compute()
    with pytest.raises(ValueError, match=r"a\.h5ad.*file"):
        dspectral.pp.pca(place, n_comps=2)


def test_a_codec_that_runs_what_it_reads_is_refused(tmp_path):
    import anndata  # noqa: PLC0415

    place = tmp_path / "a.zarr"
    with anndata.settings.override(zarr_write_format=2), warnings.catch_warnings(action="ignore"):
        anndata.AnnData(X=sparse.csr_matrix(np.eye(8, dtype="f4"))).write_zarr(place)
    file = place / "X" / "data" / ".zarray"
    file.write_text(json.dumps({**json.loads(file.read_text()), "compressor": {"id": "pickle", "protocol": 5}}))
    with pytest.raises(ValueError, match="pickle"):
        open_store(str(place)).counts.compute()


def test_other_file_systems_have_their_own_links_followed_to_the_disk(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "other").write_text("mine")
    (tmp_path / "store" / "c").symlink_to(tmp_path / "other")
    system = fsspec.filesystem("dir", path=str(tmp_path), fs=fsspec.filesystem("file"))
    assert system.exists("store/c")
    from dspectral.paths import is_outside  # noqa: PLC0415

    assert is_outside(system, "store", "c")
    assert not is_outside(system, "store", "d")
