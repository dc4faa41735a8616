"""Jobs in Redis or Valkey: a single server, one watched by sentinels, or a cluster."""
