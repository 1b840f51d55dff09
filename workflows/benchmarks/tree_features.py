"""Sentences as trees, on nine sets of labelled sentences: what the paper leaves out, beside what it has.

The sets are split in two halves by name, in alphabetical order, every other one, before anything was run. Settings are
chosen on CHOSEN_ON alone, and there on training texts (and the official development texts where a set has them); the
test texts of REPORTED_ON take no part in any choice.
"""

SETS = ("atis", "banking77", "clinc150", "mr", "sms_spam", "snips", "sst2", "sst5", "trec")
"""Every set of single-label sentences in the data folder; sets of documents are left out, which a tree cuts."""
CHOSEN_ON = SETS[0::2]
REPORTED_ON = SETS[1::2]
