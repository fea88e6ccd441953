"""The binary blocks of split mode, between the roles that fingerprint, judge and publish; no Kafka here."""
