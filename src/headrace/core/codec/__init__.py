"""Arguments and results as JSON: encoding, decoding, encryption, redaction."""

from __future__ import annotations
