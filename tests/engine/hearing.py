"""Events of a piece of work, heard by tests."""

from dspectral.engine import listening


def heard_of(work):
    heard = []
    with listening(heard.append):
        work()
    return heard


def of_kind(heard, *kinds):
    return [event for event in heard if isinstance(event, kinds)]
