-- name: mute_events
INSERT INTO headrace_store (name, value) VALUES ('events_off', '') ON CONFLICT (name) DO NOTHING;

-- name: unmute_events
DELETE FROM headrace_store WHERE name = 'events_off';
