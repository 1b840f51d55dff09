"""Compiled inner loops on plain arrays: pure, without the interpreter lock, kept on disk once compiled."""
